//! From an answer to a document, under attack: answers that lack something are mended, documents are rendered, by the engine or
//! by a worker outside, and whoever stops, kills or fails it in the middle loses nothing and doubles nothing.

use crate::by_hand::{Claim, answer, claim, claimer, fail, session_status, status, take};
use crate::odd_processes::{begin, define, seed, step};
use dialectic_tests::*;
use postgres::Client;
use serde_json::json;

const WHOLE: &str = r#"{"summary": "All of it", "points": ["One"]}"#;

/// A process of one stage with two documents and a JSON that stays one.
fn notes(client: &mut Client) {
    let mut figures = step("figures", "all_to_one", seed());
    figures["file_type"] = json!("json");
    define(
        client,
        "notes",
        &[("only", vec![step("note", "all_to_one", seed()), step("memo", "all_to_one", seed()), figures])],
    );
}

fn add_model(client: &mut Client, name: &str, settings: &str) {
    client
        .execute("select dialectic.add_model($1, 'simulator', settings => $2::text::jsonb)", &[&name, &settings])
        .expect("add_model");
}

/// The session is complete, every document is there once and whole, and no law is broken.
fn assert_done(client: &mut Client, session: Uuid, models: i64) {
    assert_eq!(session_status(client, session), "completed");
    let made: Vec<String> = column(
        client,
        "select format('%s %s', resource_type, count(*)) from dialectic.resources \
         where session_id = $1 and resource_type in ('assembled_json', 'rendered_document') group by resource_type order by 1",
        &[&session],
    );
    assert_eq!(made, [format!("assembled_json {}", 3 * models), format!("rendered_document {}", 2 * models)]);
    let shown: i64 =
        one(client, "select count(*) from dialectic.documents where session_id = $1 and complete", &[&session]);
    assert_eq!(shown, 2 * models);
    assert_sound(client);
}

/// Claims all there is and plans the plans among it; returns the rest.
fn claim_all(client: &mut Client) -> Vec<Claim> {
    let (plans, rest): (Vec<Claim>, Vec<Claim>) =
        claim(client, "outside", 100).into_iter().partition(|claim| claim.kind == "plan");
    for plan in plans {
        one::<String>(client, "select dialectic.complete_job($1, $2)", &[&plan.job, &plan.claim]);
    }
    rest
}

#[test]
fn a_worker_outside_can_write_mend_and_render() {
    let database = Database::by_hand();
    let mut client = database.connect();
    notes(&mut client);
    let session = begin(&mut client, "notes", &["sim-a"], 0);
    assert_eq!(claim_all(&mut client).len(), 0);
    let written = claim_all(&mut client);
    assert_eq!(written.len(), 3);
    for one_of in &written {
        client.query("select dialectic.job_request($1)", &[&one_of.job]).expect("job_request");
        assert_eq!(answer(&mut client, one_of, r#"Here it is: {"summary": "Half of it"}"#), "completed");
        assert_eq!(answer(&mut client, one_of, WHOLE), "stale", "answered twice");
    }
    let mending = claim_all(&mut client);
    assert_eq!(mending.iter().map(|claim| claim.kind.as_str()).collect::<Vec<_>>(), ["execute"; 3]);
    for one_of in &mending {
        let request: String = one(&mut client, "select dialectic.job_request($1)::text", &[&one_of.job]);
        assert!(request.contains("Half of it") && request.contains("Missing keys: points"), "{request}");
        assert_eq!(answer(&mut client, one_of, r#"{"points": ["One"]}"#), "completed");
    }
    let renders = claim_all(&mut client);
    assert_eq!(renders.iter().map(|claim| claim.kind.as_str()).collect::<Vec<_>>(), ["render"; 2]);
    for render in &renders {
        assert_eq!(
            one::<String>(&mut client, "select dialectic.complete_job($1, $2)", &[&render.job, &render.claim]),
            "completed"
        );
        assert_eq!(
            one::<String>(&mut client, "select dialectic.complete_job($1, $2)", &[&render.job, &render.claim]),
            "stale"
        );
    }
    assert_eq!(claim_all(&mut client).len(), 0);
    assert_done(&mut client, session, 1);
    let texts: Vec<String> = column(&mut client, "select content from dialectic.documents", &[]);
    assert!(texts.iter().all(|text| text.contains("Half of it") && text.contains("One")), "{texts:?}");
}

#[test]
fn a_render_job_has_no_request_and_opens_no_call() {
    let database = Database::by_hand();
    let mut client = database.connect();
    notes(&mut client);
    begin(&mut client, "notes", &["sim-a"], 0);
    claim_all(&mut client);
    for one_of in claim_all(&mut client) {
        answer(&mut client, &one_of, WHOLE);
    }
    let renders = claim_all(&mut client);
    assert_eq!(renders.len(), 2);
    let before = mark(&mut client);
    for render in &renders {
        refused_with(&mut client, "select dialectic.job_request($1)", &[&render.job], "55000", "makes no model call");
    }
    assert_eq!(mark(&mut client), before);
}

#[test]
fn a_render_job_that_fails_is_tried_again_or_brought_back_by_retry() {
    let database = Database::by_hand();
    let mut client = database.connect();
    notes(&mut client);
    let session = begin(&mut client, "notes", &["sim-a", "sim-b"], 0);
    claim_all(&mut client);
    for one_of in claim_all(&mut client) {
        answer(&mut client, &one_of, WHOLE);
    }
    for render in claim_all(&mut client) {
        let (class, becomes) =
            if render.model == "sim-a" { ("transient", "retrying") } else { ("permanent", "failed") };
        assert_eq!(fail(&mut client, &render, class, "the disk is full"), becomes);
        assert_eq!(status(&mut client, render.job), becomes);
    }
    assert_sound(&mut client);
    client.batch_execute("set dialectic.clock_offset = 3600").expect("superuser");
    work(&mut client);
    // One model is enough for the stage; the other is brought back.
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.documents", &[]), 2);
    assert_sound(&mut client);
    assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&session]), 3, "two renders and their plan");
    work(&mut client);
    assert_done(&mut client, session, 2);
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]),
        0,
        "nobody was asked anything"
    );
}

#[test]
fn what_a_model_leaves_out_is_asked_for_once() {
    let database = Database::new();
    let mut client = database.connect();
    notes(&mut client);
    add_model(&mut client, "lax", r#"{"omit_keys": ["points"]}"#);
    add_model(&mut client, "stubborn", r#"{"omit_keys": ["points"], "omit_always": true}"#);
    let session = begin(&mut client, "notes", &["lax"], 0);
    work(&mut client);
    assert_done(&mut client, session, 1);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 6);
    let session = begin(&mut client, "notes", &["stubborn", "sim-a"], 0);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    let marked: Vec<String> = column(
        &mut client,
        "select format('%s %s %s', model, complete, count(*)) from dialectic.documents where session_id = $1 group by model, complete order by 1",
        &[&session],
    );
    assert_eq!(marked, ["sim-a t 2", "stubborn f 2"]);
    let asked: Vec<String> = column(
        &mut client,
        "select format('%s %s', j.continuation_count, count(*)) from dialectic.model_calls c join dialectic.jobs j on j.id = c.job_id \
         where c.model = 'stubborn' group by j.continuation_count order by 1",
        &[],
    );
    assert_eq!(asked, ["0 3", "1 3"], "it was asked again and again");
    assert_sound(&mut client);
}

#[test]
fn where_nothing_may_be_continued_what_there_is_becomes_an_incomplete_document() {
    let database = Database::by_hand();
    let mut client = database.connect();
    notes(&mut client);
    add_model(&mut client, "lax", r#"{"omit_keys": ["points"]}"#);
    let project: Uuid = one(&mut client, "select dialectic.create_project('Odd', 'Why?', process => 'notes')", &[]);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{lax}')", &[&project]);
    client
        .query("select * from dialectic.generate($1, continue_until_complete => false)", &[&session])
        .expect("generate");
    hand_over(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(column::<bool>(&mut client, "select complete from dialectic.documents", &[]), [false, false]);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 3);
    assert_sound(&mut client);
}

/// Stops a session and sets it going again before every single job, until it has ended; returns how often.
pub(crate) fn stop_and_go(client: &mut Client, session: Uuid) -> usize {
    let unfinished = "select count(*) from dialectic.jobs where status <> all (dialectic._ended_statuses())";
    let mut rounds = 0;
    while one::<i64>(client, unfinished, &[]) > 0 {
        rounds += 1;
        assert!(rounds < 200, "it does not end");
        let (stop, go) = if rounds % 2 == 0 { ("pause", "resume") } else { ("cancel", "retry") };
        for verb in [stop, go] {
            one::<i32>(client, &format!("select dialectic.{verb}($1)"), &[&session]);
            assert_sound(client);
        }
        client.batch_execute("call dialectic.run_pending(1)").expect("run_pending");
        assert_sound(client);
    }
    rounds
}

#[test]
fn a_session_may_be_stopped_and_set_going_after_every_single_job() {
    let database = Database::by_hand();
    let mut client = database.connect();
    notes(&mut client);
    add_model(&mut client, "lax", r#"{"omit_keys": ["points"]}"#);
    let session = begin(&mut client, "notes", &["sim-a", "lax"], 0);
    let rounds = stop_and_go(&mut client, session);
    assert!(rounds > 10, "{rounds}");
    assert_done(&mut client, session, 2);
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.model_calls where outcome = 'answered'", &[]),
        9
    );
}

#[test]
fn a_claimer_that_is_killed_with_render_jobs_in_its_hands_loses_none() {
    let database = Database::by_hand();
    let mut client = database.connect();
    notes(&mut client);
    let session = begin(&mut client, "notes", &["sim-a", "sim-b"], 0);
    claim_all(&mut client);
    for one_of in claim_all(&mut client) {
        answer(&mut client, &one_of, WHOLE);
    }
    let (mut doomed, name) = claimer(&database);
    assert_eq!(take(&mut doomed, &name), 4);
    let victim = pid(&mut doomed);
    client.execute("select pg_terminate_backend($1)", &[&victim]).expect("pg_terminate_backend");
    eventually("it is gone", || {
        one(&mut client, "select not exists (select from pg_stat_activity where pid = $1)", &[&victim])
    });
    hand_over(&mut client);
    assert_done(&mut client, session, 2);
    let attempts: Vec<i32> =
        column(&mut client, "select distinct attempt_count from dialectic.jobs where kind = 'render'", &[]);
    assert_eq!(attempts, [1]);
}

#[test]
fn run_pending_may_be_killed_or_time_out_again_and_again() {
    let database = Database::by_hand();
    let mut client = database.connect();
    notes(&mut client);
    add_model(&mut client, "slow", r#"{"latency_ms": 30, "omit_keys": ["points"]}"#);
    let session = begin(&mut client, "notes", &["slow", "sim-a"], 0);
    let unfinished = "select count(*) from dialectic.jobs where status <> all (dialectic._ended_statuses())";
    let mut rounds = 0;
    while one::<i64>(&mut client, unfinished, &[]) > 0 && rounds < 12 {
        rounds += 1;
        let mut worker = database.connect();
        if rounds % 2 == 0 {
            let _ =
                worker.batch_execute(&format!("set statement_timeout = {}; call dialectic.run_pending()", 10 * rounds));
        } else {
            let victim = pid(&mut worker);
            std::thread::scope(|scope| {
                let running = scope.spawn(move || worker.batch_execute("call dialectic.run_pending()"));
                let busy = "select exists (select from dialectic.jobs where status = 'processing') \
                            or not exists (select from dialectic.jobs where status <> all (dialectic._ended_statuses()))";
                eventually("it has begun", || one(&mut client, busy, &[]));
                client.execute("select pg_terminate_backend($1)", &[&victim]).expect("pg_terminate_backend");
                let _ = running.join().expect("a thread");
            });
            let gone = "select not exists (select from pg_stat_activity where pid = $1)";
            eventually("it is gone", || one(&mut client, gone, &[&victim]));
        }
        assert_sound(&mut client);
    }
    hand_over(&mut client);
    assert_done(&mut client, session, 2);
    let charged: Vec<i32> =
        column(&mut client, "select distinct attempt_count from dialectic.jobs where parent_job_id is not null", &[]);
    assert_eq!(charged, [1], "a death costs no attempt");
}
