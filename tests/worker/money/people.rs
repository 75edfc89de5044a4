//! Those around the queue: who begins sessions, who changes his mind about them, who pays, who kills; and how all of it ends.

use super::line::{Line, Storm};
use super::{CALLS, LIMIT, POOR, RICH, WALLETS, owner};
use dialectic_tests::server::signal;
use dialectic_tests::*;
use postgres::Client;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often each key is used.
const SAME_KEY: u64 = 3;
/// Every so many rounds of the killer, each of a second, the server crashes.
const CRASH_AFTER: u32 = 12;
/// How often a payment is made that nobody confirms.
const INSISTENCE: usize = 20;

/// Begins sessions, some of them with a budget, so that there is always something to do; ends the storm when enough was done.
pub(super) fn keeper(storm: &Storm<'_>, mut random: StdRng, begun: Instant) {
    let mut line = Line::safe(storm);
    while !storm.is_over_within(100) {
        let calls: Option<i64> = line.value("select count(*) from dialectic.model_calls", &[]);
        storm.has_made(calls.unwrap_or_default());
        if storm.calls() >= CALLS || begun.elapsed() > LIMIT {
            storm.end();
        }
        let ready: Option<i64> = line.value("select count(*) from dialectic.ready_jobs", &[]);
        if ready.is_some_and(|ready| ready < 200) {
            let project = storm.projects.choose(&mut random).expect("a project");
            let budget = random.random_bool(0.25).then(|| random.random_range(0..40_000_i64));
            let session: Option<Uuid> = line
                .value("select dialectic.start_session($1, '{dear,weak}', budget => $2::bigint)", &[project, &budget]);
            if session.is_some_and(|session| line.ask("select * from dialectic.generate($1)", &[&session]).is_some()) {
                storm.note("session begun");
            }
        }
    }
}

/// Kills whoever works the queue, the worker too; every now and then in a way that takes the whole server with it.
pub(super) fn killer(storm: &Storm<'_>, mut random: StdRng) {
    let mut line = Line::safe(storm);
    let worker = "select pid from pg_stat_activity where backend_type = 'pg_dialectic worker' and datname = 'law'";
    for round in 1_u32.. {
        if storm.is_over_within(1_000) {
            break;
        }
        if round % CRASH_AFTER == 0 {
            if let Some(victim) = line.value(worker, &[]) {
                signal(victim, libc::SIGKILL);
                storm.note("crashed");
            }
            continue;
        }
        let victim = match random.random_range(0..20) {
            0 => line.value(worker, &[]),
            _ => storm.mortals().choose(&mut random).copied(),
        };
        if let Some(victim) = victim
            && line.value("select pg_terminate_backend($1)", &[&victim]) == Some(true)
        {
            storm.note("killed");
        }
    }
    // In the end all of them, in the middle of whatever they do.
    for victim in storm.mortals() {
        line.ask("select pg_terminate_backend($1)", &[&victim]);
    }
}

/// Changes his mind: stops, ends and brings back sessions and jobs, and moves budgets.
pub(super) fn person(storm: &Storm<'_>, mut random: StdRng) {
    let mut line = Line::safe(storm);
    while !storm.is_over_within(200) {
        let sessions = line.ask("select id from dialectic.sessions order by id desc limit 60", &[]).unwrap_or_default();
        let Some(session) = sessions.choose(&mut random).map(|row| row.get::<_, Uuid>(0)) else { continue };
        let ended = "select id from dialectic.jobs where session_id = $1 and status in ('failed', 'retry_loop_failed', 'cancelled') limit 5";
        let live = "select id from dialectic.jobs where session_id = $1 and status in ('processing', 'pending', 'paused_nsf') limit 20";
        let (deed, target) = match random.random_range(0..100) {
            0..3 => ("cancel", Some(session)),
            3..12 => ("cancel", job(&mut line, &mut random, live, session)),
            12..20 => ("pause", Some(session)),
            20..30 => ("pause", job(&mut line, &mut random, live, session)),
            30..50 => ("resume", Some(session)),
            50..65 => ("retry", Some(session)),
            65..85 => ("retry", job(&mut line, &mut random, ended, session)),
            _ => {
                let amount = random.random_bool(0.6).then(|| random.random_range(0..80_000_i64));
                line.ask("select dialectic.set_budget($1, $2)", &[&session, &amount]);
                storm.note("set_budget");
                continue;
            }
        };
        if target.is_some() && line.ask(&format!("select dialectic.{deed}($1)"), &[&target]).is_some() {
            storm.note(deed);
        }
    }
}

fn job(line: &mut Line<'_>, random: &mut StdRng, query: &str, session: Uuid) -> Option<Uuid> {
    let jobs = line.ask(query, &[&session]).unwrap_or_default();
    jobs.choose(random).map(|row| row.get(0))
}

/// What a key pays in, and to whom: one of those who have little.
fn payment(key: u64) -> (usize, i64) {
    (RICH + key as usize % POOR, 500 + (key as i64 * 7_919) % 4_500)
}

/// Pays in. Every key is used several times, often at once, and again until somebody says that it was taken: a server that crashed
/// may have taken it or not.
pub(super) fn banker(storm: &Storm<'_>, mut random: StdRng) {
    let mut line = Line::safe(storm);
    while !storm.is_over_within(random.random_range(500..1_500)) {
        let key = storm.keys.fetch_add(1, Ordering::Relaxed) / SAME_KEY;
        let (number, amount) = payment(key);
        let mut pay = || {
            let top_up = "select dialectic.top_up($1, $2, $3)";
            line.ask(top_up, &[&owner(number), &amount, &format!("payment {key}")]).is_some()
        };
        assert!((0..INSISTENCE).any(|_| pay()), "payment {key}");
        storm.note("top_up");
    }
}

/// The sum that each owner was paid in by the bankers.
pub(super) fn paid_in(storm: &Storm<'_>, number: usize) -> i64 {
    let keys = storm.keys.load(Ordering::Relaxed).div_ceil(SAME_KEY);
    (0..keys).map(payment).filter(|(to, _)| *to == number).map(|(_, amount)| amount).sum()
}

/// What everybody gets when the storm is over, so that nothing is left for want of money.
pub(super) const PLENTY: i64 = 1_000_000_000;

/// How long what is left may take.
const CALM: Duration = Duration::from_secs(180);

/// Lets everything finish: nobody lacks money, nothing is paused, what failed is tried again by those who always succeed.
pub(super) fn calm(admin: &mut Client) {
    for number in 0..WALLETS {
        admin.execute("select dialectic.top_up($1, $2, 'plenty')", &[&owner(number), &PLENTY]).expect("top_up");
    }
    let sessions = column::<Uuid>(admin, "select id from dialectic.sessions order by id", &[]);
    let every = |admin: &mut Client, verb: &str| {
        for session in &sessions {
            admin.query(&format!("select dialectic.{verb}"), &[session]).expect(verb);
        }
    };
    every(admin, "set_budget($1, null)");
    // Money alone has set going whatever waited for it, but for what a person has paused as well.
    let waiting = "select count(*) from dialectic.unfunded_jobs u join dialectic.jobs j on j.id = u.job_id and j.status = 'paused_nsf' where not u.is_paused";
    eventually("nothing waits for funds", || one::<i64>(admin, waiting, &[]) == 0);
    every(admin, "resume($1)");
    every(admin, "retry($1)");
    let left = "select format('%s %s jobs in %s sessions', count(*), j.status, s.status) \
                from dialectic.jobs j join dialectic.sessions s on s.id = j.session_id join dialectic.job_statuses k on k.status = j.status \
                where k.phase <> 'ended' group by j.status, s.status \
                union all select format('call %s of %s is open, held %s; its job is %s, of claim %s and not %s; %s claims', c.id, c.claimed_by, c.held, j.status, \
                                         coalesce(j.claim_id, 0), c.claim_id, \
                                         (select count(*) from dialectic.claims k where k.claimed_by = c.claimed_by and c.job_id = any (k.job_ids))) \
                from dialectic.model_calls c join dialectic.jobs j on j.id = c.job_id where c.outcome = 'open'";
    let until = Instant::now() + CALM;
    loop {
        admin.batch_execute("call dialectic.run_pending()").expect("run_pending");
        let left: Vec<String> = column(admin, left, &[]);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "not within {CALM:?}: {left:#?}");
    }
}
