//! Calls whose claimer is gone: each is closed as lost by the next claim, whatever became of its job meanwhile.

use dialectic_tests::*;

/// A call of a worker outside the server, whose lease ends in a second; returns its job.
fn asked(client: &mut postgres::Client) -> Uuid {
    generated(client, &["sim-a"]);
    client
        .batch_execute("select dialectic.complete_job(id, claim_id) from dialectic.claim_jobs('worker', 1)")
        .expect("the plan");
    let job: Uuid = one(client, "select id from dialectic.claim_jobs('worker', 1, '1 s')", &[]);
    client.query_one("select dialectic.job_request($1)", &[&job]).expect("a request");
    job
}

/// Two hours later somebody else looks for work.
fn next_claim(client: &mut postgres::Client) {
    client
        .batch_execute("set dialectic.clock_offset = 7200; select count(*) from dialectic.claim_jobs('other', 1)")
        .expect("a claim");
}

fn assert_lost_after(verb: Option<&str>) {
    let database = Database::by_hand();
    let mut client = database.connect();
    let job = asked(&mut client);
    if let Some(verb) = verb {
        let moved: i32 = one(&mut client, &format!("select dialectic.{verb}($1)"), &[&job]);
        assert_eq!(moved, 1, "{verb}");
    }
    next_claim(&mut client);
    let outcome: String =
        one(&mut client, "select outcome from dialectic.model_calls where job_id = $1 order by id limit 1", &[&job]);
    assert_eq!(outcome, "lost", "after {verb:?}");
    assert_sound(&mut client);
}

#[test]
fn a_call_of_a_dead_claimer_is_lost() {
    assert_lost_after(None);
}

#[test]
fn a_call_of_a_dead_claimer_is_lost_though_its_job_was_cancelled() {
    assert_lost_after(Some("cancel"));
}

#[test]
fn a_call_of_a_dead_claimer_is_lost_though_its_job_was_paused() {
    assert_lost_after(Some("pause"));
}
