//! The worker is told of new work at COMMIT: not before, not later, and not at all when there is none.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

#[test]
fn each_commit_of_new_work_wakes_the_resting_worker() {
    let (_server, mut client) = Server::serving("");
    let project: Uuid =
        one(&mut client, "select dialectic.create_project('Law', 'Is this a law?', process => 'essay')", &[]);
    let mut waits = Vec::new();
    for _ in 0..21 {
        let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
        let mut work = client.transaction().expect("begin");
        work.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
        // The moment before the commit: writing it is part of what is measured.
        let commit: f64 =
            work.query_one("select extract(epoch from clock_timestamp())::float8", &[]).expect("a clock").get(0);
        work.commit().expect("commit");
        let mut begun: Option<f64> = None;
        soon("a call is made", || {
            begun = one(
                &mut client,
                "select extract(epoch from min(started_at))::float8 from dialectic.model_calls where session_id = $1",
                &[&session],
            );
            begun.is_some()
        });
        waits.push(begun.expect("a call") - commit);
    }
    // A worker that only looked by itself would rest longer than `soon` waits; `make bench` has the figure (row `latency`).
    println!("seconds from commit to call: {waits:.3?}");
    soon("every stage is done", || {
        one(&mut client, "select count(*) = 21 from dialectic.stage_runs where status = 'completed'", &[])
    });
    assert_sound(&mut client);
}

/// How often the worker has claimed by the time it rests. Its rest is looked at first: what it did before is counted.
fn claims_at_rest(client: &mut Client) -> i64 {
    let mut claims = -1;
    soon("the worker rests", || {
        let rests: bool =
            one(client, "select state = 'idle' from pg_stat_activity where backend_type = 'pg_dialectic worker'", &[]);
        let counted = one(
            client,
            "select coalesce(sum(calls), 0)::bigint from pg_stat_statements where query like '%._claim_batch(%'",
            &[],
        );
        std::mem::replace(&mut claims, counted) == counted && rests
    });
    claims
}

#[test]
fn resting_worker_opens_a_call_with_four_claims() {
    let libraries = "shared_preload_libraries = 'pg_dialectic, pg_stat_statements'";
    let (_server, mut client) = Server::serving(libraries);
    client.batch_execute("create extension pg_stat_statements").expect("pg_stat_statements");
    model(&mut client, "slow", "3600000");
    // Of the plan; of its child; with the call; and one that finds nothing left. A prompt that takes long to render,
    // because the machine is busy, adds one, so that the fewest are counted.
    let mut claims = Vec::new();
    for calls in 1..=12 {
        let before = claims_at_rest(&mut client);
        single_calls(&mut client, "slow", 1);
        soon("the call is open", || one::<i64>(&mut client, OPEN_CALLS, &[]) == calls);
        claims.push(claims_at_rest(&mut client) - before);
    }
    assert_eq!(claims.iter().min(), Some(&4), "{claims:?}");
}

#[test]
fn work_that_is_not_committed_is_not_begun_and_work_that_is_rolled_back_never_is() {
    let (server, mut client) = Server::serving("");
    let mut watcher = server.connect("law");
    essay(&mut watcher, &["sim-b"]);
    all_completed(&mut watcher, Duration::from_secs(20));
    let mut work = client.transaction().expect("begin");
    work.execute("select dialectic.run('Why laws?', models => '{sim-a}', process => 'essay')", &[]).expect("run");
    // Another's work is begun and done meanwhile.
    essay(&mut watcher, &["sim-b"]);
    all_completed(&mut watcher, Duration::from_secs(20));
    work.rollback().expect("rollback");
    essay(&mut watcher, &["sim-b"]);
    all_completed(&mut watcher, Duration::from_secs(20));
    let models: Vec<String> = column(&mut watcher, "select distinct model from dialectic.model_calls", &[]);
    assert_eq!(models, ["sim-b"]);
}

#[test]
fn a_transaction_that_gives_work_cannot_be_prepared_and_the_hint_says_why() {
    let (_server, mut client) = Server::serving("max_prepared_transactions = 4");
    let project: Uuid =
        one(&mut client, "select dialectic.create_project('Law', 'Is this a law?', process => 'essay')", &[]);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
    client.batch_execute("begin").expect("begin");
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    let error = client.batch_execute("prepare transaction 'law'").expect_err("it is refused");
    let error = error.as_db_error().expect("an error of the server");
    assert_eq!(error.code().code(), "0A000");
    assert!(error.hint().is_some_and(|hint| hint.contains("COMMIT")), "{error:?}");
    client.batch_execute("rollback").expect("rollback");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.jobs", &[]), 0);
    // One that gives none may be.
    client.batch_execute("begin; create table other (); prepare transaction 'law'").expect("PREPARE TRANSACTION");
    client.batch_execute("commit prepared 'law'").expect("COMMIT PREPARED");
}

#[test]
fn a_retry_that_is_due_is_made_when_its_time_comes() {
    let (_server, mut client) = Server::serving("");
    add_model(&mut client, "shaky", r#"{"fail_first": 1, "fail_class": "transient", "retry_after_ms": 700}"#);
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    single_calls(&mut client, "shaky", 1);
    all_completed(&mut client, Duration::from_secs(20));
    let wait: f64 = one(
        &mut client,
        "select extract(epoch from max(c.started_at) - max(c.finished_at) filter (where c.outcome = 'failed'))::float8 \
         from dialectic.model_calls c",
        &[],
    );
    assert!(wait >= 0.7, "the second call was made {wait} s after the first had failed");
}
