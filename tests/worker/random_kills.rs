//! The worker killed at random moments, again and again: no job fails, no answer is stored twice, no call is unaccounted for.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use rand::{Rng, SeedableRng};
use std::time::Duration;

/// How often the worker is killed; KILLS overrides it, KILL_SEED chooses the moments.
const KILLS: u32 = 12;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn random_kills_fail_no_job() {
    let seed = variable("KILL_SEED", 1);
    let mut random = rand::rngs::StdRng::seed_from_u64(seed);
    let (server, mut client) = Server::serving("");
    for name in ["slow", "slow-b"] {
        model(&mut client, name, "[5, 60]");
    }
    let failed = "select error_details::text from dialectic.jobs where status in ('failed', 'retry_loop_failed')";
    for kill in 0..variable("KILLS", KILLS.into()) {
        let running: i64 = one(&mut client, "select count(*) from dialectic.sessions where status = 'active'", &[]);
        for _ in running..6 {
            essay(&mut client, &["slow", "slow-b"]);
        }
        std::thread::sleep(Duration::from_millis(random.random_range(0..1000)));
        let before = server.beginnings().len();
        if let Some(pid) = worker(&mut client) {
            signal(pid, libc::SIGKILL);
            within(Duration::from_secs(60), "the server is back", || server.beginnings().len() > before);
            client = server.connect("law");
        }
        let failures: Vec<String> = column(&mut client, failed, &[]);
        assert_eq!(failures, Vec::<String>::new(), "after kill {kill} of seed {seed}");
    }
    all_completed(&mut client, Duration::from_secs(120));
    let answers: Vec<i64> = column(
        &mut client,
        "select distinct count(*) filter (where c.outcome = 'answered') from dialectic.jobs j \
         left join dialectic.model_calls c on c.job_id = j.id where j.kind = 'execute' group by j.id",
        &[],
    );
    assert_eq!(answers, [1], "answers stored for a job");
    let outcomes: Vec<String> =
        column(&mut client, "select distinct outcome from dialectic.model_calls order by 1", &[]);
    assert!(outcomes.iter().all(|outcome| ["answered", "lost"].contains(&outcome.as_str())), "{outcomes:?}");
}
