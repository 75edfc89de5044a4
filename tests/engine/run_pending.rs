//! `CALL run_pending()` shares the queue with others, stays within what it was asked for, and waits for what is due soon.
//! What happens when it is cut is in `cut`.

mod cut;

use dialectic_tests::*;
use postgres::{Client, Error};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

const OPEN_CALLS: &str = "select count(*) from dialectic.model_calls where outcome = 'open'";

fn latency(client: &mut Client, model: &str, milliseconds: u32) {
    client
        .execute(
            &format!(
                "select dialectic.add_model('{model}', 'simulator', settings => '{{\"latency_ms\": {milliseconds}}}')"
            ),
            &[],
        )
        .expect("add_model");
}

/// Runs a statement in a thread of its own; the connection comes back with its result.
fn in_background(mut client: Client, statement: &'static str) -> JoinHandle<(Client, Result<(), Error>)> {
    spawn(move || {
        let result = client.batch_execute(statement);
        (client, result)
    })
}

#[test]
fn two_at_once_share_the_work_and_leave_each_others_claims_alone() {
    let database = Database::by_hand();
    let mut client = database.connect();
    latency(&mut client, "slow", 10_000);
    let plan = "select dialectic.complete_job(c.id, c.claim_id) from dialectic.claim_jobs('planner', 10) c";
    for _ in 0..2 {
        generated(&mut client, &["slow"]);
    }
    assert_eq!(client.execute(plan, &[]).expect("planning"), 2);
    let first = in_background(database.connect(), "call dialectic.run_pending(2)");
    eventually("the first has two calls in flight", || one::<i64>(&mut client, OPEN_CALLS, &[]) == 2);

    for _ in 0..4 {
        generated(&mut client, &["sim-a"]);
    }
    let mut second = database.connect();
    second.batch_execute("call dialectic.run_pending()").expect("run_pending");
    let done: Vec<String> = column(
        &mut client,
        "select format('%s %s %s', count(*), model, status) from dialectic.jobs where kind = 'execute' group by model, status order by 1",
        &[],
    );
    assert_eq!(done, ["2 slow processing", "4 sim-a completed"]);
    first.join().expect("the thread ends").1.expect("run_pending");
    second.batch_execute("call dialectic.run_pending()").expect("run_pending");

    let outcomes: Vec<String> = column(
        &mut client,
        "select format('%s %s', count(*), outcome) from dialectic.model_calls group by outcome",
        &[],
    );
    assert_eq!(outcomes, ["6 answered"]);
    let ended: Vec<String> =
        column(&mut client, "select format('%s %s', count(*), status) from dialectic.jobs group by status", &[]);
    assert_eq!(ended, ["12 completed"]);
    assert_sound(&mut client);
}

#[test]
fn racing_run_pendings_do_every_job_exactly_once() {
    let database = Database::new();
    let mut client = database.connect();
    for _ in 0..3 {
        client
            .execute("select dialectic.run('Why laws?', models => '{sim-a,sim-b}', process => 'essay')", &[])
            .expect("run");
    }
    let racers = [(); 3].map(|()| in_background(database.connect(), "call dialectic.run_pending()"));
    for racer in racers {
        racer.join().expect("the thread ends").1.expect("run_pending");
    }
    work(&mut client);
    let sessions: i64 = one(&mut client, "select count(*) from dialectic.sessions where status = 'completed'", &[]);
    assert_eq!(sessions, 3);
    // 2 + 4 + (8 + 4 + 2) calls an essay.
    let calls: Vec<String> = column(
        &mut client,
        "select format('%s %s', count(*), outcome) from dialectic.model_calls group by outcome",
        &[],
    );
    assert_eq!(calls, ["60 answered"]);
    assert_sound(&mut client);
}

#[test]
fn max_jobs_is_the_most_that_is_done() {
    let database = Database::by_hand();
    let mut client = database.connect();
    generated(&mut client, &["sim-a", "sim-b", "sim-c"]);
    let pending = "select count(*) from dialectic.jobs where kind = 'plan' and status = 'pending'";
    client.batch_execute("call dialectic.run_pending(2)").expect("run_pending");
    assert_eq!(one::<i64>(&mut client, pending, &[]), 1);
    assert_eq!(
        one::<i64>(
            &mut client,
            "select count(*) from dialectic.jobs where kind = 'execute' and status = 'pending'",
            &[]
        ),
        2
    );
    client.batch_execute("call dialectic.run_pending(1)").expect("run_pending");
    assert_eq!(one::<i64>(&mut client, pending, &[]), 0);
    client.batch_execute("call dialectic.run_pending(2)").expect("run_pending");
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.model_calls where outcome = 'answered'", &[]),
        2
    );
    client.batch_execute("call dialectic.run_pending(2147483647)").expect("run_pending");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.documents", &[]), 3);
}

#[test]
fn more_calls_than_threads_wait_their_turn() {
    let database = Database::new();
    let mut client = database.connect();
    latency(&mut client, "steady", 300);
    let threads: i32 = one(
        &mut client,
        "select current_setting('dialectic.max_concurrent_calls')::int from (select dialectic._now()) as loaded",
        &[],
    );
    let sessions = threads + 6;
    client
        .execute(
            "select dialectic.run('Why laws?', models => '{steady}', process => 'essay', through => 'thesis') from generate_series(1, $1)",
            &[&sessions],
        )
        .expect("run");
    work(&mut client);
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.sessions where status = 'completed'", &[]),
        i64::from(sessions)
    );
}

#[test]
fn a_retry_that_is_due_soon_is_waited_for() {
    let database = Database::new();
    let mut client = database.connect();
    let faults = "{\"fail_first\": 1, \"fail_class\": \"transient\", \"retry_after_ms\": 400}";
    client
        .execute(&format!("select dialectic.add_model('shaky', 'simulator', settings => '{faults}')"), &[])
        .expect("add_model");
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    let begun = Instant::now();
    let session = generated(&mut client, &["shaky"]);
    work(&mut client);
    assert!(begun.elapsed() >= Duration::from_millis(400));
    let outcomes: Vec<String> = column(
        &mut client,
        "select outcome from dialectic.model_calls where session_id = $1 order by started_at",
        &[&session],
    );
    assert_eq!(outcomes, ["failed", "answered"]);
    assert_eq!(one::<i32>(&mut client, "select attempt_count from dialectic.jobs where kind = 'execute'", &[]), 2);
}

#[test]
fn a_retry_that_is_due_late_is_not_waited_for() {
    let database = Database::by_hand();
    let mut client = database.connect();
    generated(&mut client, &["sim-a"]);
    client.batch_execute("update dialectic.jobs set run_at = now() + interval '1 hour'").expect("later");
    client.batch_execute("set statement_timeout = '60s'").expect("set");
    client.batch_execute("call dialectic.run_pending()").expect("it does not wait for an hour");
    assert_eq!(one::<String>(&mut client, "select status from dialectic.jobs", &[]), "pending");
}

#[test]
fn only_an_admin_may_work_the_queue() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let mut user = database.connect_as("law_queue_user");
    let mut admin = database.connect_as("law_queue_admin");
    client
        .execute("select dialectic.grant_user('law_queue_user'), dialectic.grant_admin('law_queue_admin')", &[])
        .expect("grants");
    user.execute("select dialectic.run('Why laws?', models => '{sim-a}', process => 'essay')", &[]).expect("run");
    assert_eq!(refused(&mut user, "call dialectic.run_pending()", &[]).code().code(), "42501");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 0);
    admin.batch_execute("call dialectic.run_pending()").expect("run_pending");
    assert_eq!(one::<String>(&mut client, "select status from dialectic.sessions", &[]), "completed");
}
