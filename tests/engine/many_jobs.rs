//! A statement that moves many jobs takes time in proportion to their number, whatever was moved before in the same connection.

use dialectic_tests::*;
use std::time::Instant;

/// How much longer ten times as many jobs may take; in proportion it is ten times, with the square a hundred.
const AT_MOST: f64 = 40.0;

#[test]
fn pausing_ten_times_as_many_jobs_takes_about_ten_times_as_long() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    // One job first: plans that are made for one row must not be kept for ten thousand.
    for verb in ["pause", "resume"] {
        assert_eq!(one::<i32>(&mut client, &format!("select dialectic.{verb}($1)"), &[&session]), 1);
    }
    let mut seconds = |from: i32, to: i32| {
        client
            .execute(
                "insert into dialectic.jobs (session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key) \
                 select session_id, stage_run_id, id, 'execute', 'thesis', model, n::text \
                 from dialectic.jobs, generate_series($1::int, $2) n where kind = 'plan'",
                &[&from, &(to - 1)],
            )
            .expect("jobs");
        ["pause", "resume"].map(|verb| {
            let begun = Instant::now();
            assert_eq!(one::<i32>(&mut client, &format!("select dialectic.{verb}($1)"), &[&session]), to);
            begun.elapsed().as_secs_f64()
        })
    };
    let (few, many) = (seconds(1, 1_000), seconds(1_000, 10_000));
    println!("pause and resume: {few:.3?} s for 1,000 jobs, {many:.3?} s for 10,000");
    assert!(many.iter().sum::<f64>() < AT_MOST * few.iter().sum::<f64>(), "{many:?} after {few:?}");
}
