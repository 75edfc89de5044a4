//! The view `blocked`: every job that does not move, with the one cause in words; and nothing while it moves.

mod providers;

use crate::by_hand::{claimer, take};
use dialectic_tests::*;
use postgres::Client;

/// Stages whose roots have planned: one execute job per model is pending.
fn planned(client: &mut Client, models: &[&str]) -> Uuid {
    let session = generated(client, models);
    plan_all(client);
    session
}

fn plan_all(client: &mut Client) {
    client
        .execute("select dialectic.complete_job(c.id, c.claim_id) from dialectic.claim_jobs('planner', 100) c where c.kind = 'plan'", &[])
        .expect("planning");
}

fn causes(client: &mut Client) -> Vec<(String, String, Option<String>)> {
    let rows = client.query("select kind, model, cause from dialectic.blocked order by job_id", &[]).expect("blocked");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// What is blocked is exactly this: kind, model and cause.
#[track_caller]
fn blocks(client: &mut Client, expected: &[(&str, &str, &str)]) {
    let found = causes(client);
    let alike = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|((kind, model, cause), (k, m, c))| kind == k && model == m && cause.as_deref() == Some(c));
    assert!(alike, "blocked: {found:#?}\nexpected: {expected:#?}");
}

const WAITS_FOR_ONE: &str = "waiting for 1 of its jobs";

#[test]
fn without_a_worker_every_ready_job_says_so() {
    let database = Database::unserved();
    let mut client = database.connect();
    planned(&mut client, &["sim-a"]);
    let no_worker = "no worker: nobody works the queue; CALL dialectic.run_pending()";
    blocks(&mut client, &[("plan", "sim-a", WAITS_FOR_ONE), ("execute", "sim-a", no_worker)]);
}

#[test]
fn a_paused_job_names_the_person_or_the_wallet() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    client.execute("select dialectic.pause($1)", &[&session]).expect("pause");
    blocks(&mut client, &[("plan", "sim-a", "paused by a person; resume() lets it go on")]);

    client.execute("select dialectic.resume($1)", &[&session]).expect("resume");
    client
        .batch_execute(
            "select dialectic.add_model('sim-a', 'simulator', max_output_tokens => 100, output_price => 10), dialectic.open_wallet('role:postgres', 999)",
        )
        .expect("a wallet");
    work(&mut client);
    let no_funds = format!(
        "no funds: its call may cost $0.001000 and the wallet of role:postgres has $0.000999; dialectic.top_up('role:postgres', 1, idempotency_key) \
         or more (for admins) lets it go on; dialectic.explain_total('{session}') tells what all of the session is to cost"
    );
    blocks(&mut client, &[("plan", "sim-a", WAITS_FOR_ONE), ("execute", "sim-a", &no_funds)]);
    client
        .execute("select dialectic.set_budget($1, 0), dialectic.top_up('role:postgres', 1, 'one')", &[&session])
        .expect("a budget");
    work(&mut client);
    let no_budget = format!(
        "no funds: its call may cost $0.001000 and the budget of its session has $0.000000 left of $0.000000; \
         dialectic.set_budget('{session}', 1000) or more lets it go on; dialectic.explain_total('{session}') tells what all of the session is to cost"
    );
    blocks(&mut client, &[("plan", "sim-a", WAITS_FOR_ONE), ("execute", "sim-a", &no_budget)]);
}

#[test]
fn a_job_that_needs_another_names_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    planned(&mut client, &["sim-a", "sim-b"]);
    let job = "select id from dialectic.jobs where kind = 'execute' and model = $1";
    let (first, second): (Uuid, Uuid) = (one(&mut client, job, &[&"sim-a"]), one(&mut client, job, &[&"sim-b"]));
    let status: String = one(&mut client, "select dialectic._wait_for($1, array[$2::uuid])", &[&second, &first]);
    assert_eq!(status, "waiting_for_prerequisite");
    let cause: String = one(&mut client, "select cause from dialectic.blocked where job_id = $1", &[&second]);
    assert_eq!(cause, format!("waiting for job {first} (thesis, pending)"));
}

#[test]
fn a_root_with_nothing_of_its_own_left_names_the_other_models() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session: Uuid = one(
        &mut client,
        "select dialectic.start_session(dialectic.create_project('Law', 'Is this a law?', process => 'essay'), '{sim-a,sim-b}')",
        &[],
    );
    for _ in ["thesis", "antithesis"] {
        client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
        work(&mut client);
        client.execute("select dialectic.submit_stage($1)", &[&session]).expect("submit_stage");
    }
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    plan_all(&mut client);
    // The reductions of both models read the pairs of both; only sim-a has written its four.
    let written = client
        .execute(
            "select dialectic.complete_job(c.id, c.claim_id, 'A pair.') from dialectic.claim_jobs('writer', 100) c where c.model = 'sim-a'",
            &[],
        )
        .expect("complete_job");
    assert_eq!(written, 4);
    // Its root was woken, finds nothing that may begin, and waits again.
    plan_all(&mut client);
    blocks(
        &mut client,
        &[
            ("plan", "sim-a", "waiting for the other models of the stage: sim-b"),
            ("plan", "sim-b", "waiting for 4 of its jobs"),
        ],
    );
}

#[test]
fn a_lease_that_passed_and_a_claimer_that_died_are_named() {
    let database = Database::by_hand();
    let mut client = database.connect();
    generated(&mut client, &["sim-a"]);
    client.execute("select dialectic.claim_jobs('outside', 1, '10 min')", &[]).expect("claim_jobs");
    blocks(&mut client, &[]);
    client.batch_execute("set dialectic.clock_offset = 601").expect("time passes");
    blocks(&mut client, &[("plan", "sim-a", "its worker let the lease pass; the next claim frees it")]);

    let (mut claimer, name) = claimer(&database);
    claimer.batch_execute("set dialectic.clock_offset = 601").expect("time passes");
    assert_eq!(take(&mut claimer, &name), 1);
    blocks(&mut client, &[]);
    let process = pid(&mut claimer);
    assert!(one::<bool>(&mut client, "select pg_terminate_backend($1, 10000)", &[&process]));
    let off = "its claimer died, and the worker is switched off: SELECT dialectic.set_config('worker_enabled', 'true')";
    blocks(&mut client, &[("plan", "sim-a", off)]);
}

#[test]
fn a_test_job_waits_for_run_pending_even_while_a_claimer_lives() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .execute("select dialectic.run('Why laws?', models => '{sim-a}', process => 'essay', test => true)", &[])
        .expect("run");
    let _claimer = claimer(&database);
    blocks(&mut client, &[("plan", "sim-a", "a test job: only run_pending works it")]);
}

#[test]
fn what_should_have_been_woken_says_so() {
    let database = Database::by_hand();
    let mut client = database.connect();
    generated(&mut client, &["sim-a"]);
    for (status, cause) in [
        ("waiting_for_prerequisite", "waiting for nothing: it should have been woken; see self_check()"),
        ("waiting_for_children", "waiting for the other models of the stage: none is left; see self_check()"),
    ] {
        client.batch_execute("begin; set local session_replication_role = replica").expect("by force");
        client.execute("update dialectic.jobs set status = $1", &[&status]).expect("a stranded job");
        blocks(&mut client, &[("plan", "sim-a", cause)]);
        client.batch_execute("rollback").expect("rollback");
    }
}

#[test]
fn nothing_is_listed_while_it_moves_and_nothing_when_all_is_done() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = planned(&mut client, &["sim-a", "sim-b"]);
    let (mut claimer, name) = claimer(&database);
    // Ready jobs that a living claimer may take, then jobs it has taken: only the roots wait.
    let roots = [("plan", "sim-a", WAITS_FOR_ONE), ("plan", "sim-b", WAITS_FOR_ONE)];
    blocks(&mut client, &roots);
    assert_eq!(take(&mut claimer, &name), 2);
    blocks(&mut client, &roots);
    drop(claimer);
    eventually("the claimer is gone", || claimers(&mut client) == 0);

    hand_over(&mut client);
    blocks(&mut client, &[]);
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.documents where session_id = $1", &[&session]),
        2
    );
}

#[test]
fn the_causes_end_with_one_that_always_holds() {
    // The clock and the claimers move while the view is read: a job listed as not due may be due when its cause is asked for.
    let database = Database::new();
    let ends: bool = one(
        &mut database.connect(),
        r"select pg_get_viewdef('dialectic.blocked'::regclass) ~ 'ELSE ''[^'']+''::text\s+END AS cause'",
        &[],
    );
    assert!(ends);
}

#[test]
fn lock_table_is_read_once_however_many_jobs_are_claimed() {
    let database = Database::by_hand();
    let mut client = database.connect();
    planned(&mut client, &["sim-a", "sim-b"]);
    let (mut claimer, name) = claimer(&database);
    assert_eq!(take(&mut claimer, &name), 2);
    client.batch_execute("begin; set local track_functions = 'all'").expect("counting");
    for (reads, reading) in ["select * from dialectic.blocked", "select * from dialectic.health()"].iter().enumerate() {
        client.query(*reading, &[]).expect("a view");
        let calls: i64 =
            one(&mut client, "select pg_stat_get_xact_function_calls('dialectic._live_claimers'::regproc)", &[]);
        assert_eq!(calls, reads as i64 + 1, "{reading}");
    }
}
