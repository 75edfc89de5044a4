//! What others hold is waited for: a table that somebody locks, a session that somebody locks, a project that somebody deletes cost
//! no job its answer and nobody else his turn.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

const FAILED: &str = "select count(*) from dialectic.jobs where status in ('failed', 'retry_loop_failed')";

#[test]
fn a_table_that_somebody_locks_for_seconds_fails_no_job() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "a", "[20, 60]");
    model(&mut client, "b", "[20, 60]");
    let mut holder = server.connect("law");
    for table in ["contributions", "jobs", "resources", "model_calls"] {
        let session: Uuid =
            one(&mut client, "select dialectic.run('Why locks?', models => '{a,b}', through => 'antithesis')", &[]);
        soon("a call is in flight", || one::<i64>(&mut client, OPEN_CALLS, &[]) > 0);
        // Longer than the worker waits for a lock, more than twice.
        holder.batch_execute(&format!("begin; lock table dialectic.{table} in share mode")).expect("a lock");
        std::thread::sleep(Duration::from_millis(2_500));
        holder.batch_execute("commit").expect("commit");
        let ended = "select status from dialectic.sessions where id = $1";
        within(Duration::from_secs(60), "the session has ended", || {
            one::<String>(&mut client, ended, &[&session]) != "active"
        });
        assert_eq!(one::<i64>(&mut client, FAILED, &[]), 0, "{table}");
        let documents = "select count(*) from dialectic.documents where session_id = $1";
        assert_eq!(one::<i64>(&mut client, documents, &[&session]), 8 + 20, "{table}");
        assert_sound(&mut client);
    }
}

#[test]
fn who_holds_a_session_with_many_jobs_delays_nobody_else() {
    let (server, mut client) = Server::serving("dialectic.max_concurrent_calls = 8");
    model(&mut client, "steady", "[10, 30]");
    let many = reading(&mut client, "steady", 500);
    let answered = "select count(*) from dialectic.model_calls where session_id = $1 and outcome = 'answered'";
    within(Duration::from_secs(60), "the many are under way", || one::<i64>(&mut client, answered, &[&many]) > 20);
    let mut holder = server.connect("law");
    holder.batch_execute("begin").expect("begin");
    holder.query("select from dialectic.sessions where id = $1 for update", &[&many]).expect("a lock");
    others_are_worked(&mut client);
    holder.batch_execute("commit").expect("commit");
    let left = "select count(*) from dialectic.jobs where session_id = $1 and completed_at is null";
    within(Duration::from_secs(60), "the many are done", || one::<i64>(&mut client, left, &[&many]) == 0);
    assert_eq!(one::<i64>(&mut client, FAILED, &[]), 0);
    assert_sound(&mut client);
}

#[test]
fn who_holds_a_session_keeps_nobody_else_from_a_provider_with_little_room() {
    let (server, mut client) = Server::serving("");
    client
        .batch_execute(
            "select dialectic.add_provider('narrow', 'simulator', max_concurrency => 1); select dialectic.add_model('tight', 'narrow')",
        )
        .expect("a provider with little room");
    switch(&mut client, false);
    single_calls(&mut client, "tight", 2);
    // Planned, so that only their calls are left, and that of the first comes first.
    let planned = "select count(dialectic.complete_job(id, claim_id)) from dialectic.claim_jobs('outside', 2)";
    assert_eq!(one::<i64>(&mut client, planned, &[]), 2);
    let first: Uuid =
        one(&mut client, "select session_id from dialectic.ready_jobs order by queue_position, job_id limit 1", &[]);
    let mut holder = server.connect("law");
    holder.batch_execute("begin").expect("begin");
    holder.query("select from dialectic.sessions where id = $1 for update", &[&first]).expect("a lock");
    switch(&mut client, true);
    let completed = "select count(*) from dialectic.sessions where status = 'completed'";
    soon("the other is called", || one::<i64>(&mut client, completed, &[]) == 1);
    holder.batch_execute("commit").expect("commit");
    all_completed(&mut client, Duration::from_secs(20));
}

#[test]
fn a_project_that_is_deleted_while_its_calls_are_in_flight_is_in_nobodys_way() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "[300, 400]");
    for _ in 0..3 {
        single_calls(&mut client, "slow", 64);
        soon("calls are in flight", || one::<i64>(&mut client, OPEN_CALLS, &[]) >= 32);
        client.batch_execute("delete from dialectic.projects").expect("delete");
        let after = generated(&mut client, &["sim-a"]);
        let document = "select count(*) from dialectic.documents where session_id = $1";
        soon("what comes after is worked", || one::<i64>(&mut client, document, &[&after]) == 1);
        // The late answers find nothing and are forgotten.
        soon("nothing is claimed any more", || {
            one::<i64>(&mut client, "select count(*) from dialectic.claims", &[]) == 0
        });
        assert_sound(&mut client);
    }
}

#[test]
fn what_is_deleted_while_its_answer_comes_leaves_the_answers_of_others_where_they_belong() {
    let (_server, mut client) = Server::serving("");
    // Every answer is gone on with, and so has to know which one it belongs to.
    add_model(&mut client, "cut", r#"{"cut_after_tokens": 60, "latency_ms": 100, "marker": "auto"}"#);
    set(&mut client, "dialectic.stop_at", Some("answered"));
    single_calls(&mut client, "cut", 24);
    soon("answers are in hand", || stopped_at(&mut client).as_deref() == Some("answered"));
    let every_third = "with numbered as (select project_id, row_number() over (order by id) as n from dialectic.sessions) \
                       delete from dialectic.projects p using numbered where p.id = numbered.project_id and numbered.n % 3 = 1";
    assert_eq!(client.execute(every_third, &[]).expect("delete"), 8);
    set(&mut client, "dialectic.stop_at", None);
    all_completed(&mut client, Duration::from_secs(60));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.documents", &[]), 16);
    let strayed = "select count(*) from dialectic.jobs j join dialectic.contributions c on c.id = j.target_contribution_id where c.session_id <> j.session_id";
    assert_eq!(one::<i64>(&mut client, strayed, &[]), 0);
    assert_sound(&mut client);
}
