//! A statement that moves many jobs takes time in proportion to their number, whatever was moved before in the same connection.

use dialectic_tests::*;
use std::time::{Duration, Instant};

#[test]
fn ten_thousand_jobs_are_paused_and_resumed_in_seconds() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    // One job first: plans that are made for one row must not be kept for ten thousand.
    for verb in ["pause", "resume"] {
        assert_eq!(one::<i32>(&mut client, &format!("select dialectic.{verb}($1)"), &[&session]), 1);
    }
    client
        .batch_execute(
            "insert into dialectic.jobs (session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key) \
             select session_id, stage_run_id, id, 'execute', 'thesis', model, n::text \
             from dialectic.jobs, generate_series(1, 9999) n",
        )
        .expect("jobs");
    for verb in ["pause", "resume"] {
        let begun = Instant::now();
        assert_eq!(one::<i32>(&mut client, &format!("select dialectic.{verb}($1)"), &[&session]), 10_000);
        assert!(begun.elapsed() < Duration::from_secs(5), "{verb} took {:?}", begun.elapsed());
    }
}
