//! Many jobs of one session do not keep another's waiting.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

const ROOM: i64 = 8;

#[test]
fn a_session_of_2000_jobs_delays_the_job_of_another_by_one_batch_at_most() {
    let (server, mut client) = Server::serving(&format!("dialectic.max_concurrent_calls = {ROOM}"));
    model(&mut client, "steady", "[10, 30]");
    let many = reading(&mut client, "steady", 2000);
    let begun = "select count(*) from dialectic.model_calls where session_id = $1 and outcome = 'answered'";
    within(Duration::from_secs(60), "the many are under way", || one::<i64>(&mut client, begun, &[&many]) > 20);

    let mut other = server.connect("law");
    let mut delays = Vec::new();
    for _ in 0..5 {
        let single = generated(&mut other, &["sim-a"]);
        let called = "select count(*) from dialectic.model_calls where session_id = $1";
        within(Duration::from_secs(30), "the single job is called", || one::<i64>(&mut other, called, &[&single]) == 1);
        // From the moment its jobs could be claimed to the call, once for the plan and once for what it planned.
        delays.push(one::<i64>(
            &mut other,
            "select count(*) from dialectic.model_calls c, dialectic.jobs j, dialectic.model_calls own \
             where j.session_id = $1 and j.kind = 'execute' and own.job_id = j.id \
               and c.session_id = $2 and c.started_at > j.created_at and c.started_at < own.started_at",
            &[&single, &many],
        ));
    }
    println!("calls of the other session that went first: {delays:?}");
    let left: i64 =
        one(&mut client, "select count(*) from dialectic.jobs where session_id = $1 and status = 'pending'", &[&many]);
    assert!(left > ROOM, "the many were done too soon to be in the way");
    assert!(delays.iter().all(|before| *before <= 2 * ROOM), "{delays:?}");
}
