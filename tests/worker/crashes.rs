//! The worker killed and the server stopped without warning, at every place of a job's way: nothing is lost, nothing is done
//! twice but the calls that were cut, and those are said to be lost.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Every place where the worker can be stopped, in the order in which a job meets them.
const PLACES: [&str; 12] = [
    "claimed",
    "prompt_saved",
    "calling",
    "answered",
    "between_batches",
    "rendering_seed",
    "inside_claiming",
    "inside_storing_seed",
    "inside_planning",
    "inside_reading",
    "inside_opening",
    "inside_storing",
];
/// What is found open when the worker is stopped: calls, and jobs that are claimed and not asked yet.
const FOUND: &str = "select (select count(*) from dialectic.model_calls where outcome = 'open'), \
    (select count(*) from dialectic.jobs j where j.status = 'processing' \
     and not exists (select from dialectic.model_calls c where c.job_id = j.id and c.claim_id = j.claim_id))";

#[test]
fn killed_twenty_times_at_every_place_the_worker_loses_nothing() {
    let (server, client) = Server::serving("");
    let cuts = PLACES.iter().cycle().take(20);
    cut_at(&server, client, cuts.copied(), |pid| {
        signal(pid, libc::SIGKILL);
        // The server keeps the setting that stopped the worker until it reads its file again.
        signal(server.postmaster(), libc::SIGHUP);
    });
}

#[test]
fn server_stopped_without_warning_at_every_place_loses_nothing() {
    let (server, client) = Server::serving("");
    let cuts = PLACES.iter();
    cut_at(&server, client, cuts.copied(), |_| {
        server.stop("immediate");
        server.start();
    });
}

/// Keeps essays running, cuts the worker at each of the places, and looks at what has become of everything.
fn cut_at(server: &Server, mut client: Client, places: impl Iterator<Item = &'static str>, cut: impl Fn(i32)) {
    for name in ["slow", "slow-b"] {
        model(&mut client, name, "[50, 200]");
    }
    let (mut lost, mut slowest) = (0, 0.0_f64);
    let mut cuts = BTreeMap::<_, u32>::new();
    for place in places {
        lost += stop_with_calls_in_flight(&mut client, place);
        let pid = worker(&mut client).expect("a worker that is stopped");
        client.batch_execute("alter system reset dialectic.stop_at").expect("ALTER SYSTEM");
        let before = server.beginnings().len();
        cut(pid);
        within(Duration::from_secs(30), "the server is back", || server.beginnings().len() > before);
        let ready = *server.beginnings().last().expect("a beginning");
        client = server.connect("law");
        slowest = slowest.max(first_call_since(&mut client, ready, place) - ready);
        *cuts.entry(place).or_default() += 1;
    }
    println!("cut {cuts:?}, {lost} calls lost; the first call was made again within {slowest:.3} s");
    assert!(cuts.len() == PLACES.len(), "{cuts:?}");
    all_completed(&mut client, Duration::from_secs(60));
    every_essay_is_whole(&mut client, lost);
}

/// Four essays that have not ended: as soon as one has, another is begun.
fn keep_essays_running(client: &mut Client) {
    let running: i64 = one(client, "select count(*) from dialectic.sessions where status = 'active'", &[]);
    for _ in running..4 {
        essay(client, &["slow", "slow-b"]);
    }
}

/// Stops the worker at this place with a call in flight; returns how many are.
fn stop_with_calls_in_flight(client: &mut Client, place: &str) -> i64 {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        set(client, "dialectic.stop_at", Some(place));
        soon(&format!("the worker stops at {place}"), || {
            keep_essays_running(client);
            stopped_at(client).as_deref() == Some(place)
        });
        let found = client.query_one(FOUND, &[]).expect("what is open");
        let (open, unasked): (i64, i64) = (found.get(0), found.get(1));
        if open > 0 && (place != "claimed" || unasked > 0) {
            return open;
        }
        // It came by with nothing in its hands: let it go on to the next time.
        assert!(Instant::now() < until, "the worker never comes to {place} with a call in flight");
        set(client, "dialectic.stop_at", None);
        soon("the worker goes on", || stopped_at(client).is_none());
    }
}

/// When the first call after this moment was made. No lease ends within the time that is waited for it.
fn first_call_since(client: &mut Client, moment: f64, place: &str) -> f64 {
    let mut first: Option<f64> = None;
    soon(&format!("a call is made again after a cut at {place}"), || {
        first = one(
            client,
            "select extract(epoch from min(started_at))::float8 from dialectic.model_calls where started_at > to_timestamp($1)",
            &[&moment],
        );
        first.is_some()
    });
    first.expect("a call")
}

fn every_essay_is_whole(client: &mut Client, lost: i64) {
    let essays: i64 = one(client, "select count(*) from dialectic.sessions", &[]);
    let seeds: Vec<i64> = column(
        client,
        "select distinct count(*) from dialectic.resources where resource_type = 'seed_prompt' group by session_id",
        &[],
    );
    assert_eq!(seeds, [3], "seed prompts of an essay");
    // 2 + 4 + (8 + 4 + 2) calls and as many texts an essay; what was cut at each end, and only that, is lost.
    let outcomes: Vec<String> = column(client, OUTCOMES, &[]);
    assert_eq!(outcomes, [format!("{} answered", 20 * essays), format!("{lost} lost")]);
    let asked: Vec<i64> = column(
        client,
        "select distinct count(*) filter (where c.outcome = 'answered') from dialectic.jobs j \
         left join dialectic.model_calls c on c.job_id = j.id where j.kind = 'execute' group by j.id",
        &[],
    );
    assert_eq!(asked, [1], "answers kept for a job");
    let texts: Vec<i64> = column(
        client,
        "select distinct count(c.id) from dialectic.sessions s left join dialectic.contributions c on c.session_id = s.id group by s.id",
        &[],
    );
    assert_eq!(texts, [20], "texts of an essay");
    let documents: Vec<String> = column(
        client,
        "select distinct string_agg(format('%s %s %s', n, stage, document_key), ', ' order by stage, document_key) from \
         (select session_id, stage, document_key, count(*) as n from dialectic.documents group by 1, 2, 3) as d group by session_id",
        &[],
    );
    assert_eq!(documents.len(), 1, "essays differ: {documents:#?}");
    let twice: Vec<String> =
        column(client, "select path from dialectic.documents group by path having count(*) > 1", &[]);
    assert!(twice.is_empty(), "{twice:?}");
    let charged: Vec<i32> =
        column(client, "select distinct attempt_count from dialectic.jobs where kind = 'execute'", &[]);
    assert_eq!(charged, [1], "attempts charged");
}
