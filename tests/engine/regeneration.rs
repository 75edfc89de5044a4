//! A document can be written anew: the old version stands until the new one is there and is kept afterwards, exactly what read
//! it is shown as stale, and a new version that fails, or is cancelled, changes nothing and can be tried again.

use crate::by_hand::{answer, claim, session_status, status};
use crate::odd_processes::{begin, chain, define, documents, run, seed, step};
use dialectic_tests::*;
use postgres::Client;
use serde_json::json;

const MODELS: [&str; 2] = ["sim-a", "sim-b"];

fn regenerate(client: &mut Client, session: Uuid, key: &str, model: &str) -> Uuid {
    one(client, "select dialectic.regenerate($1, $2, $3)", &[&session, &key, &model])
}

fn version(client: &mut Client, session: Uuid, key: &str, model: &str) -> i32 {
    one(
        client,
        "select version from dialectic.documents where session_id = $1 and document_key = $2 and model = $3",
        &[&session, &key, &model],
    )
}

/// Has every call of a model fail from now on, or succeed again.
fn let_fail(client: &mut Client, model: &str, fails: bool) {
    let settings = if fails { r#"{"fail_always": true, "fail_class": "permanent"}"# } else { "{}" };
    client
        .execute("select dialectic.add_model($1, 'simulator', settings => $2::text::jsonb)", &[&model, &settings])
        .expect("add_model");
}

#[test]
fn a_new_version_stands_beside_the_old_one() {
    let database = Database::new();
    let mut client = database.connect();
    chain(&mut client);
    let session = run(&mut client, "chain", &MODELS, 0);
    for expected in 2..=3 {
        let job = regenerate(&mut client, session, "claim", "sim-a");
        work(&mut client);
        assert_eq!(status(&mut client, job), "completed");
        assert_eq!(version(&mut client, session, "claim", "sim-a"), expected);
        let names: Vec<String> = column(
            &mut client,
            "select split_part(path, '/documents/', 2) from dialectic.files($1) where path ~ '/documents/sim-a_[0-9]_claim' order by 1",
            &[&session],
        );
        assert_eq!(names, (1..=expected).map(|n| format!("sim-a_{n}_claim.md")).collect::<Vec<_>>());
        let statuses: Vec<String> = column(
            &mut client,
            "select distinct format('%s %s', version, status) from dialectic.jobs where step_key = 'claim' and model = 'sim-a' order by 1",
            &[],
        );
        let known: Vec<String> =
            (1..=expected).map(|n| format!("{n} {}", if n == expected { "completed" } else { "superseded" })).collect();
        assert_eq!(statuses, known);
        assert_sound(&mut client);
    }
    assert_eq!(session_status(&mut client, session), "completed");
}

#[test]
fn exactly_what_read_the_old_version_is_stale_and_nothing_else_is_touched() {
    let database = Database::new();
    let mut client = database.connect();
    chain(&mut client);
    let session = run(&mut client, "chain", &MODELS, 0);
    let readers = "select d.id::text from dialectic.documents d join dialectic.resources r on r.id = d.id \
                   join dialectic.contributions c on c.id = r.source_contribution_id join dialectic.job_inputs i on i.job = c.job_id \
                   where i.artifact = $1::uuid order by 1";
    let old: Uuid =
        one(&mut client, "select id from dialectic.documents where document_key = 'claim' and model = 'sim-a'", &[]);
    let read_it: Vec<String> = column(&mut client, readers, &[&old]);
    assert_eq!(read_it.len(), 2, "a reply of each model");
    let others = "select format('%s %s %s', id, version, md5(content)) from dialectic.documents where not (document_key = 'claim' and model = 'sim-a') order by 1";
    let before: Vec<String> = column(&mut client, others, &[]);
    assert_eq!(column::<Uuid>(&mut client, "select id from dialectic.documents where stale", &[]).len(), 0);
    regenerate(&mut client, session, "claim", "sim-a");
    work(&mut client);
    let stale: Vec<String> =
        column(&mut client, "select id::text from dialectic.documents where stale order by 1", &[]);
    assert_eq!(stale, read_it);
    assert_eq!(column::<String>(&mut client, others, &[]), before);
}

#[test]
fn a_new_version_reads_what_is_newest_and_is_fresh() {
    let database = Database::new();
    let mut client = database.connect();
    chain(&mut client);
    let session = run(&mut client, "chain", &MODELS, 0);
    regenerate(&mut client, session, "claim", "sim-a");
    work(&mut client);
    let newest: Uuid =
        one(&mut client, "select id from dialectic.documents where document_key = 'claim' and model = 'sim-a'", &[]);
    let lineage: Uuid = one(&mut client, "select lineage from dialectic.documents where id = $1", &[&newest]);
    let job: Uuid = one(&mut client, "select dialectic.regenerate($1, 'reply', 'sim-b', $2)", &[&session, &lineage]);
    work(&mut client);
    assert_eq!(
        column::<Uuid>(&mut client, "select artifact from dialectic.job_inputs where job = $1", &[&job]),
        [newest]
    );
    let fresh: Vec<String> = column(
        &mut client,
        "select format('%s %s %s', model, version, stale) from dialectic.documents where document_key = 'reply' and lineage = $1 order by 1",
        &[&lineage],
    );
    assert_eq!(fresh, ["sim-a 1 t", "sim-b 2 f"]);
    // What was written from the replies read an old one.
    let ends: Vec<bool> = column(&mut client, "select stale from dialectic.documents where document_key = 'end'", &[]);
    assert_eq!(ends, [true, true]);
    assert_sound(&mut client);
}

#[test]
fn the_old_version_stands_until_the_new_one_is_rendered() {
    let database = Database::by_hand();
    let mut client = database.connect();
    chain(&mut client);
    let session = run(&mut client, "chain", &MODELS, 0);
    let before = documents(&mut client, session);
    let job = regenerate(&mut client, session, "claim", "sim-a");
    assert_eq!(documents(&mut client, session), before, "while it waits");
    let taken = claim(&mut client, "hand", 10);
    assert_eq!(taken.iter().map(|claim| claim.job).collect::<Vec<_>>(), [job]);
    assert_eq!(documents(&mut client, session), before, "while it is written");
    assert_eq!(answer(&mut client, &taken[0], r#"{"summary": "Anew", "points": []}"#), "completed");
    assert_eq!(documents(&mut client, session), before, "while it is rendered");
    refused_with(
        &mut client,
        "select dialectic.regenerate($1, 'claim', 'sim-a')",
        &[&session],
        "55006",
        "being written",
    );
    work(&mut client);
    assert_eq!(version(&mut client, session, "claim", "sim-a"), 2);
    let content: String = one(
        &mut client,
        "select content from dialectic.documents where document_key = 'claim' and model = 'sim-a'",
        &[],
    );
    assert!(content.contains("Anew"), "{content}");
    assert_sound(&mut client);
}

#[test]
fn a_new_version_that_fails_changes_nothing_and_can_be_tried_again() {
    let database = Database::new();
    let mut client = database.connect();
    chain(&mut client);
    let session = run(&mut client, "chain", &MODELS, 0);
    let before = documents(&mut client, session);
    let runs = "select string_agg(status, ',' order by position) from dialectic.stage_runs";
    for (key, id_of) in [("claim", "job"), ("summary", "session")] {
        let_fail(&mut client, "sim-a", true);
        let job = regenerate(&mut client, session, key, "sim-a");
        work(&mut client);
        assert_eq!(status(&mut client, job), "failed");
        assert_eq!(session_status(&mut client, session), "completed");
        assert_sound(&mut client);
        let told: Vec<String> =
            column(&mut client, "select type from dialectic.notifications where job_id = $1", &[&job]);
        assert_eq!(told, ["job_failed"]);
        let behind: Vec<String> = column(
            &mut client,
            "select format('%s %s', stage, model) from dialectic.progress($1) where steps_done <> steps_total or status <> 'completed'",
            &[&session],
        );
        assert_eq!(behind, [] as [String; 0]);
        let_fail(&mut client, "sim-a", false);
        // A job of any stage by its id; by the session what failed in its last stage.
        let id = if id_of == "job" { job } else { session };
        if id_of == "job" {
            assert_eq!(documents(&mut client, session), before);
        }
        assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&id]), 1, "{key}");
        assert_eq!(one::<String>(&mut client, runs, &[]), "completed,completed");
        work(&mut client);
        client.execute("call dialectic.wait($1)", &[&session]).expect("wait");
        assert_eq!(status(&mut client, job), "completed");
        assert_eq!(version(&mut client, session, key, "sim-a"), 2);
        assert_eq!(session_status(&mut client, session), "completed");
        assert_sound(&mut client);
    }
}

#[test]
fn after_a_failed_version_the_next_one_has_the_next_number_and_the_failed_one_stays() {
    let database = Database::new();
    let mut client = database.connect();
    chain(&mut client);
    let session = run(&mut client, "chain", &MODELS, 0);
    let_fail(&mut client, "sim-a", true);
    let failed = regenerate(&mut client, session, "claim", "sim-a");
    work(&mut client);
    let_fail(&mut client, "sim-a", false);
    let job = regenerate(&mut client, session, "claim", "sim-a");
    refused_with(&mut client, "select dialectic.retry($1)", &[&failed], "55000", "without it");
    work(&mut client);
    assert_eq!((status(&mut client, failed), status(&mut client, job)), ("failed".into(), "completed".into()));
    assert_eq!(version(&mut client, session, "claim", "sim-a"), 3);
    assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&session]), 0, "it is overtaken");
    assert_sound(&mut client);
}

#[test]
fn a_new_version_that_is_cancelled_or_paused_leaves_the_old_one() {
    let database = Database::by_hand();
    let mut client = database.connect();
    chain(&mut client);
    let session = run(&mut client, "chain", &["sim-a"], 0);
    let before = documents(&mut client, session);
    let job = regenerate(&mut client, session, "end", "sim-a");
    for (verb, becomes) in
        [("pause", "paused_user"), ("resume", "pending"), ("cancel", "cancelled"), ("retry", "pending")]
    {
        assert_eq!(one::<i32>(&mut client, &format!("select dialectic.{verb}($1)"), &[&job]), 1, "{verb}");
        assert_eq!(status(&mut client, job), becomes);
        assert_eq!(documents(&mut client, session), before, "{verb}");
        assert_sound(&mut client);
    }
    hand_over(&mut client);
    assert_eq!(version(&mut client, session, "end", "sim-a"), 2);
    assert_sound(&mut client);
}

#[test]
fn what_cannot_be_written_anew_is_refused_and_nothing_is_changed() {
    let database = Database::by_hand();
    let mut client = database.connect();
    chain(&mut client);
    let session = run(&mut client, "chain", &MODELS, 0);
    let before = mark(&mut client);
    let call = "select dialectic.regenerate($1, $2, $3)";
    for (key, model) in [("nothing", "sim-a"), ("claim", "sim-c"), ("", "")] {
        refused_with(&mut client, call, &[&session, &key, &model], "P0002", "has written no document");
    }
    for (key, model) in [(None, Some("sim-a")), (Some("claim"), None)] {
        refused_with(&mut client, call, &[&session, &key, &model], "22004", "must not be null");
    }
    refused_with(&mut client, call, &[&Uuid::nil(), &"claim", &"sim-a"], "P0002", "does not exist");
    let error = refused_with(&mut client, call, &[&session, &"reply", &"sim-a"], "42P08", "for 2 lineages");
    let lineages = client
        .query("select lineage::text, model from dialectic.documents where document_key = 'claim'", &[])
        .expect("lineages");
    for row in lineages {
        let listed = format!("{} (the proposal of {})", row.get::<_, String>(0), row.get::<_, String>(1));
        assert!(error.detail().is_some_and(|detail| detail.contains(&listed)), "{listed}: {error:?}");
    }
    assert_eq!(mark(&mut client), before);
    // The plan that it belongs to still goes by all its jobs.
    let session = begin(&mut client, "chain", &["sim-a"], 0);
    client.batch_execute("call dialectic.run_pending(2)").expect("run_pending");
    let written: String = one(
        &mut client,
        "select step_key from dialectic.jobs where session_id = $1 and kind = 'execute' and status = 'completed' limit 1",
        &[&session],
    );
    let error = refused(&mut client, call, &[&session, &written, &"sim-a"]);
    assert!(["55000", "55006"].contains(&error.code().code()), "{error:?}");
    work(&mut client);
    assert_sound(&mut client);
}

#[test]
fn a_text_that_is_its_own_document_can_be_written_anew() {
    let database = Database::new();
    let mut client = database.connect();
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why?', models => '{sim-a,sim-b}', process => 'essay')", &[]);
    work(&mut client);
    regenerate(&mut client, session, "thesis", "sim-b");
    work(&mut client);
    assert_eq!(version(&mut client, session, "thesis", "sim-b"), 2);
    let stale: Vec<String> = column(
        &mut client,
        "select format('%s of %s', d.document_key, j.model) from dialectic.documents d join dialectic.jobs j on j.id = d.lineage where d.stale order by 1",
        &[],
    );
    assert_eq!(stale, ["antithesis of sim-b", "antithesis of sim-b"]);
    assert_sound(&mut client);
}

#[test]
fn a_key_that_several_stages_have_means_the_last_one_and_a_step_without_one_goes_by_its_output() {
    let database = Database::new();
    let mut client = database.connect();
    let mut nameless = step("nameless", "all_to_one", seed());
    nameless.as_object_mut().expect("a step").remove("document_key");
    let again = json!([{"type": "text", "stage": "one"}]);
    define(
        &mut client,
        "twice",
        &[
            ("one", vec![step("text", "all_to_one", seed()), nameless]),
            ("two", vec![step("text", "all_to_one", again)]),
        ],
    );
    let session = run(&mut client, "twice", &["sim-a"], 0);
    regenerate(&mut client, session, "text", "sim-a");
    regenerate(&mut client, session, "nameless", "sim-a");
    work(&mut client);
    let versions: Vec<String> = column(
        &mut client,
        "select format('%s %s %s', stage, document_key, version) from dialectic.documents order by 1",
        &[],
    );
    assert_eq!(versions, ["one nameless 2", "one text 1", "two text 2"]);
    assert_sound(&mut client);
}

#[test]
fn what_was_condensed_for_a_document_counts_as_read_by_it() {
    let database = Database::new();
    let mut client = database.connect();
    let plain = |mut step: serde_json::Value| {
        step.as_object_mut().expect("a step").remove("content_to_include");
        step
    };
    let leaf = step("leaf", "per_source_document", json!([{"type": "general_resource", "multiple": true}]));
    let gather = step("gathered", "all_to_one", json!([{"type": "leaf", "multiple": true}]));
    define(&mut client, "gather", &[("only", vec![plain(leaf), plain(gather)])]);
    client
        .batch_execute(
            r#"select dialectic.add_model('narrow', 'simulator', context_window => 5000, max_output_tokens => 1000,
                                          settings => '{"answer_words": 420}')"#,
        )
        .expect("add_model");
    let session = run(&mut client, "gather", &["narrow"], 8);
    let combined = "select count(*) from dialectic.jobs where kind = 'combine' and version = $1";
    assert!(one::<i64>(&mut client, combined, &[&1]) > 0, "nothing was condensed");
    let lineage: Uuid =
        one(&mut client, "select lineage from dialectic.documents where document_key = 'leaf' limit 1", &[]);
    one::<Uuid>(&mut client, "select dialectic.regenerate($1, 'leaf', 'narrow', $2)", &[&session, &lineage]);
    work(&mut client);
    assert_eq!(
        column::<String>(&mut client, "select document_key from dialectic.documents where stale", &[]),
        ["gathered"]
    );
    let anew: Uuid =
        one(&mut client, "select id from dialectic.documents where document_key = 'leaf' and version = 2", &[]);
    regenerate(&mut client, session, "gathered", "narrow");
    work(&mut client);
    let shown = client.query_one("select version, stale from dialectic.documents where document_key = 'gathered'", &[]);
    let shown = shown.expect("a document");
    assert_eq!((shown.get::<_, i32>(0), shown.get::<_, bool>(1)), (2, false));
    assert!(one::<i64>(&mut client, combined, &[&2]) > 0, "it was condensed anew");
    let readers = "select count(*) from dialectic.job_inputs i join dialectic.jobs j on j.id = i.job where i.artifact = $1 and j.version = 2";
    assert_eq!(one::<i64>(&mut client, readers, &[&anew]), 1);
    assert_sound(&mut client);
}

#[test]
fn of_two_who_ask_for_a_new_version_at_once_one_is_told_that_it_is_being_written() {
    let database = Database::by_hand();
    let mut client = database.connect();
    chain(&mut client);
    let session = run(&mut client, "chain", &["sim-a"], 0);
    let call = "select dialectic.regenerate($1, 'claim', 'sim-a')";
    let (_, late) =
        overlapping(&database, |early| one::<Uuid>(early, call, &[&session]), |late| refused(late, call, &[&session]));
    assert_eq!(late.code().code(), "55006", "{late:?}");
    hand_over(&mut client);
    assert_eq!(version(&mut client, session, "claim", "sim-a"), 2);
    assert_sound(&mut client);
}
