//! Verbs that come too early, twice at once or in the wrong place: refused with what to do instead, and nothing moved.

use dialectic_tests::*;
use postgres::Client;

fn begun(client: &mut Client) -> Uuid {
    let project: Uuid =
        one(client, "select dialectic.create_project('Law', 'Is this a law?', process => 'essay')", &[]);
    one(client, "select dialectic.start_session($1, '{sim-a,sim-b}')", &[&project])
}

#[test]
fn a_stage_is_generated_only_when_it_is_open() {
    let database = Database::new();
    let mut client = database.connect();
    let session = begun(&mut client);
    let before = mark(&mut client);
    for stage in ["antithesis", "synthesis"] {
        let error = refused_with(
            &mut client,
            "select dialectic.generate($1, stage => $2)",
            &[&session, &stage],
            "55000",
            stage,
        );
        assert!(error.hint().is_some_and(|hint| hint.contains("submit_stage")), "{error:?}");
    }
    assert_eq!(mark(&mut client), before);
}

#[test]
fn a_stage_is_submitted_only_when_it_is_complete() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = begun(&mut client);
    let submit = "select dialectic.submit_stage($1, 'More of it.')";
    let before = mark(&mut client);
    let error = refused_with(&mut client, submit, &[&session], "55000", "thesis");
    assert!(error.hint().is_some_and(|hint| hint.contains("generate")), "{error:?}");
    assert_eq!(mark(&mut client), before);

    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    let before = mark(&mut client);
    let error = refused_with(&mut client, submit, &[&session], "55000", "thesis");
    assert!(error.hint().is_some_and(|hint| hint.contains("wait")), "{error:?}");
    assert_eq!(mark(&mut client), before);

    hand_over(&mut client);
    assert_eq!(one::<String>(&mut client, submit, &[&session]), "antithesis");
    let error = refused_with(&mut client, submit, &[&session], "55000", "antithesis");
    assert_eq!(error.detail(), Some("It is pending."));
}

type Jobs = Result<Vec<Uuid>, postgres::Error>;

/// Two connections generate at once: the first has not committed when the second comes. However it ends, the stage has one
/// root for each of its two models.
fn race(arguments: &str) -> (Jobs, Jobs) {
    let database = Database::new();
    let mut client = database.connect();
    let session = begun(&mut client);
    let query = format!("select job_id from dialectic.generate('{session}'{arguments})");
    let generate =
        |client: &mut Client| -> Jobs { Ok(client.query(&query, &[])?.iter().map(|row| row.get(0)).collect()) };
    let result = overlapping(&database, generate, generate);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.jobs where parent_job_id is null", &[]), 2);
    result
}

#[test]
fn of_two_generates_at_once_the_second_waits_and_is_refused() {
    let (first, second) = race("");
    assert_eq!(first.expect("generate").len(), 2);
    let error = second.expect_err("the stage is being generated");
    let error = error.as_db_error().expect("an error of the server");
    assert_eq!(error.code().code(), "55006");
    assert!(error.message().contains("thesis") && error.hint().is_some_and(|hint| hint.contains("wait")), "{error:?}");
}

#[test]
fn of_two_generates_with_the_same_key_both_get_the_same_jobs() {
    let (first, second) = race(", idempotency_key => 'once'");
    let jobs = first.expect("generate");
    assert_eq!(jobs.len(), 2);
    assert_eq!(second.expect("the same jobs"), jobs);
}

#[test]
fn the_same_key_gives_the_same_project() {
    let database = Database::new();
    let mut client = database.connect();
    let create =
        "select dialectic.create_project('Law', 'Is this a law?', process => 'essay', idempotency_key => 'once')";
    let first: Uuid = one(&mut client, create, &[]);
    let before = mark(&mut client);
    assert_eq!(one::<Uuid>(&mut client, create, &[]), first);
    assert_eq!(mark(&mut client), before);
}

#[test]
fn run_pending_in_a_transaction_block_is_refused() {
    let database = Database::new();
    let mut client = database.connect();
    begun(&mut client);
    let before = mark(&mut client);
    client.batch_execute("begin").expect("begin");
    let error = refused_with(&mut client, "call dialectic.run_pending()", &[], "25001", "transaction block");
    assert!(error.hint().is_some_and(|hint| hint.contains("outside BEGIN")), "{error:?}");
    client.batch_execute("rollback").expect("rollback");
    assert_eq!(mark(&mut client), before);
    assert_eq!(claimers(&mut client), 0);
}

#[test]
fn waiting_in_the_transaction_that_made_the_session_says_commit() {
    let database = Database::new();
    let mut client = database.connect();
    client.batch_execute("begin").expect("begin");
    let session = begun(&mut client);
    let error = refused_with(&mut client, "call dialectic.wait($1)", &[&session], "55000", &session.to_string());
    assert!(error.hint().is_some_and(|hint| hint.contains("COMMIT")), "{error:?}");
    client.batch_execute("rollback").expect("rollback");
}

#[test]
fn waiting_in_vain_times_out_with_a_hint() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    for block in [false, true] {
        client.batch_execute(if block { "begin" } else { "" }).expect("begin");
        let error =
            refused_with(&mut client, "call dialectic.wait($1, '100 ms')", &[&session], "57014", &session.to_string());
        assert!(error.hint().is_some_and(|hint| hint.contains("run_pending")), "{error:?}");
        client.batch_execute(if block { "rollback" } else { "" }).expect("rollback");
    }
}

#[test]
fn waiting_for_what_has_ended_returns_or_says_why_not() {
    let database = Database::new();
    let mut client = database.connect();
    let wait = "call dialectic.wait($1, '10 s')";
    let faults = r#"{"fail_always": true, "fail_class": "permanent"}"#;
    client
        .execute(&format!("select dialectic.add_model('bad', 'simulator', settings => '{faults}')"), &[])
        .expect("add_model");

    let failed = generated(&mut client, &["bad"]);
    let done = generated(&mut client, &["sim-a"]);
    work(&mut client);
    client.execute(wait, &[&done]).expect("nothing is left to run");
    let error = refused_with(&mut client, wait, &[&failed], "55000", "failed");
    let cause: String = one(
        &mut client,
        "select error_details ->> 'message' from dialectic.jobs where session_id = $1 and kind = 'execute'",
        &[&failed],
    );
    assert!(!cause.is_empty() && error.detail().is_some_and(|detail| detail.contains(&cause)), "{cause}: {error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("retry")), "{error:?}");

    // Jobs that cannot end before they are stopped, however soon they are begun.
    client
        .execute(r#"select dialectic.add_model('slow', 'simulator', settings => '{"latency_ms": 60000}')"#, &[])
        .expect("add_model");
    let paused = generated(&mut client, &["slow"]);
    client.execute("select dialectic.pause($1)", &[&paused]).expect("pause");
    let error = refused_with(&mut client, wait, &[&paused], "55000", "paused");
    assert!(error.hint().is_some_and(|hint| hint.contains("resume")), "{error:?}");

    let cancelled = generated(&mut client, &["slow"]);
    client.execute("select dialectic.cancel($1)", &[&cancelled]).expect("cancel");
    refused_with(&mut client, wait, &[&cancelled], "55000", "cancelled");
}

#[test]
fn verbs_refuse_other_isolation_levels() {
    let database = Database::new();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    work(&mut client);
    let before = mark(&mut client);
    for level in ["repeatable read", "serializable"] {
        for verb in ["cancel", "pause", "resume", "retry", "submit_stage", "generate"] {
            client.batch_execute(&format!("begin isolation level {level}")).expect("begin");
            let error = refused_with(
                &mut client,
                &format!("select dialectic.{verb}($1)"),
                &[&session],
                "25000",
                &level.to_uppercase(),
            );
            assert!(error.hint().is_some_and(|hint| hint.contains("READ COMMITTED")), "{error:?}");
            client.batch_execute("rollback").expect("rollback");
        }
    }
    assert_eq!(mark(&mut client), before);
}

#[test]
fn only_what_failed_can_be_tried_again() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    let job: Uuid = one(&mut client, "select id from dialectic.jobs", &[]);
    let before = mark(&mut client);
    let error = refused_with(&mut client, "select dialectic.retry($1)", &[&job], "55000", &job.to_string());
    assert_eq!(error.detail(), Some("Its status is pending."));
    assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&session]), 0);
    refused_with(&mut client, "select dialectic.job_request($1)", &[&job], "55000", &job.to_string());
    assert_eq!(mark(&mut client), before);
}
