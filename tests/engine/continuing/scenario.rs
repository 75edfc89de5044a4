//! Whole stories: a failure and a cut-off answer in one stage, a session that is stopped and set going after every single job.

use super::*;
use crate::by_hand::session_status;

#[test]
fn in_one_stage_a_model_that_failed_once_and_one_that_was_cut_off_once_both_deliver() {
    let database = Database::new();
    let mut client = database.connect();
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    model(&mut client, "flaky", &json!({}));
    model(&mut client, "curt", &json!({}));
    let models = ["flaky", "curt"];
    let untroubled = generated(&mut client, &models);
    work(&mut client);
    let length: i64 = one(
        &mut client,
        "select output_tokens from dialectic.contributions where session_id = $1 and model = 'curt'",
        &[&untroubled],
    );
    model(&mut client, "flaky", &json!({"fail_first": 1, "fail_class": "transient"}));
    model(&mut client, "curt", &json!({"cut_after_tokens": length * 2 / 3}));
    let session = generated(&mut client, &models);
    work(&mut client);

    let jobs: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', model, continuation_count, status, attempt_count) from dialectic.jobs \
         where session_id = $1 and kind = 'execute' order by model, continuation_count",
        &[&session],
    );
    assert_eq!(jobs, ["curt 0 completed 1", "curt 1 completed 1", "flaky 0 completed 2"]);
    let calls: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', model, outcome, finish_reason) from dialectic.model_calls where session_id = $1 order by model, id",
        &[&session],
    );
    assert_eq!(calls, ["curt answered length", "curt answered stop", "flaky failed", "flaky answered stop"]);
    let stage: String = one(&mut client, "select status from dialectic.stage_runs where session_id = $1", &[&session]);
    assert_eq!(stage, "completed");
    let texts =
        "select concat_ws(' ', model, complete, content) from dialectic.documents where session_id = $1 order by 1";
    assert_eq!(column::<String>(&mut client, texts, &[&session]), column::<String>(&mut client, texts, &[&untroubled]));
    assert_sound(&mut client);
}

#[test]
fn a_session_of_chains_may_be_stopped_and_set_going_after_every_single_job() {
    let database = Database::by_hand();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 100);
    notes(&mut client);
    let contents =
        |client: &mut Client, session: Uuid| ["note", "figures"].map(|step| assembled(client, session, step));
    model(&mut client, "curt", &json!({}));
    let whole = crate::odd_processes::run(&mut client, "notes", &["curt"], 0);
    model(&mut client, "curt", &json!({"cut_after_tokens": 50}));
    let session = begin(&mut client, "notes", &["curt"], 0);
    crate::documents::stop_and_go(&mut client, session);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(contents(&mut client, session), contents(&mut client, whole));
    let doubled: i64 = one(
        &mut client,
        "select count(*) from (select root_id, chunk_no from dialectic.contributions group by 1, 2 having count(*) > 1) as d",
        &[],
    );
    assert_eq!(doubled, 0);
    let longest: i32 =
        one(&mut client, "select max(chunk_no) from dialectic.contributions where session_id = $1", &[&session]);
    assert!(longest >= 3, "{longest}");
}
