//! Answers that lack keys: what is missing is asked for once, in a call that begins as the first one did, and what the model
//! then says is read together with what it said before. What is still missing fails a header and leaves a document incomplete,
//! with the keys named.
//!
//! The simulator knows a repair by the line `Missing keys:` of the shipped prompt `repair_missing_keys`.

use super::*;
use crate::by_hand::{answer, claim, plan_roots, session_status};
use serde_json::json;

/// The jobs of a model that call it, as step, how often it was asked to go on, and status.
fn jobs(client: &mut Client, model: &str) -> Vec<String> {
    column(
        client,
        "select concat_ws(' ', step_key, continuation_count, status) from dialectic.jobs \
         where model = $1 and kind = 'execute' order by step_key, continuation_count",
        &[&model],
    )
}

/// What is sent to mend an answer begins with the messages of the first call, shows the model its answer, and asks for exactly
/// these keys. Of all that only the question is saved anew.
fn assert_mends(client: &mut Client, model: &str, step: &str, missing: &str) {
    let turn: String = one(
        client,
        "select content from dialectic.resources where model = $1 and step_key = $2 and resource_type in ('planner_prompt', 'turn_prompt')",
        &[&model, &step],
    );
    let turn: Vec<Value> = serde_json::from_str(&turn).expect("messages");
    let row = client
        .query_one(
            "select dialectic.prompt(j.id), r.content from dialectic.jobs j join dialectic.resources r on r.job_id = j.id \
             where j.model = $1 and j.step_key = $2 and r.resource_type = 'continuation_prompt'",
            &[&model, &step],
        )
        .expect("one that mends");
    let (mending, saved): (Value, String) = (row.get(0), row.get(1));
    let messages = mending.as_array().expect("messages");
    assert_eq!(messages[..turn.len()], turn[..]);
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    let chunks: Vec<String> = column(
        client,
        "select content from dialectic.contributions where model = $1 and step_key = $2 order by chunk_no",
        &[&model, &step],
    );
    assert_eq!(chunks.len(), 2);
    assert_eq!(messages[2]["content"], chunks[0]);
    let asked = messages[3]["content"].as_str().expect("a text");
    let line = asked.lines().find_map(|line| line.strip_prefix("Missing keys: "));
    assert_eq!(line, Some(missing), "{asked}");
    let answer = json!(chunks[0]).to_string();
    assert!(saved.contains(missing) && !saved.contains(answer.trim_matches('"')), "{saved}");
    let roots: i64 = one(
        client,
        "select count(distinct root_id) from dialectic.contributions where model = $1 and step_key = $2",
        &[&model, &step],
    );
    assert_eq!(roots, 1, "both are one answer");
}

fn kept(client: &mut Client, model: &str, step: &str, r#type: &str) -> Value {
    let text: String = one(
        client,
        "select content from dialectic.resources where model = $1 and step_key = $2 and resource_type = $3",
        &[&model, &step, &r#type],
    );
    serde_json::from_str(&text).expect("JSON")
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn document_keys(header: &Value) -> BTreeSet<&str> {
    let entries = header["context_for_documents"].as_array().expect("a list");
    let keys: BTreeSet<&str> = entries.iter().filter_map(|entry| entry["document_key"].as_str()).collect();
    assert_eq!(keys.len(), entries.len(), "{entries:?}");
    keys
}

#[test]
fn a_header_that_lacks_keys_is_asked_for_exactly_those_once_and_then_has_everything() {
    let database = Database::new();
    let mut client = database.connect();
    let omitted = ["context_for_documents[feature_spec]", "system_materials"];
    model(&mut client, "hasty", &json!({"marker": "auto", "omit_keys": omitted}));
    let session = run_through(&mut client, &["hasty", "sim-b"], "thesis");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    let whole = ["business_case 0", "feature_spec 0", "success_metrics 0", "technical_approach 0", "thesis_header 0"];
    let done = |jobs: &[&str]| jobs.iter().map(|job| format!("{job} completed")).collect::<Vec<_>>();
    assert_eq!(jobs(&mut client, "sim-b"), done(&whole));
    assert_eq!(jobs(&mut client, "hasty"), done(&[&whole[..], &["thesis_header 1"]].concat()));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 5 + 6);
    assert_mends(&mut client, "hasty", "thesis_header", "system_materials, context_for_documents[feature_spec]");

    let asked = content_keys(&mut client, "thesis", "thesis_header");
    let header = kept(&mut client, "hasty", "thesis_header", "header_context");
    assert_eq!(keys(&header), keys(&asked));
    assert_eq!(document_keys(&header), document_keys(&asked));
    assert_eq!(document_keys(&header).len(), 4);
    // What came with the repair reaches the document it is for.
    let entry = &header["context_for_documents"].as_array().expect("a list")[1];
    assert_eq!(entry["document_key"], "feature_spec");
    let sent: String = one(
        &mut client,
        "select content from dialectic.resources where model = 'hasty' and step_key = 'feature_spec' and resource_type = 'turn_prompt'",
        &[],
    );
    let messages: Vec<Value> = serde_json::from_str(&sent).expect("messages");
    let planned = entry["content_to_include"]["features"].as_str().expect("a text");
    assert!(messages[1]["content"].as_str().expect("a text").contains(planned), "{sent}");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.documents where complete", &[]), 8);
    assert_sound(&mut client);
}

#[test]
fn a_document_that_lacks_keys_is_mended_and_read_as_a_whole_and_not_as_its_first_part() {
    let database = Database::new();
    let mut client = database.connect();
    model(&mut client, "hasty", &json!({"marker": "auto", "omit_keys": ["architecture", "data"]}));
    let session = run_through(&mut client, &["hasty"], "antithesis");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    let mended: Vec<String> = column(
        &mut client,
        "select distinct step_key from dialectic.jobs where continuation_count = 1 and kind = 'execute' order by 1",
        &[],
    );
    assert_eq!(mended, ["technical_approach", "technical_feasibility_assessment"], "no other answer has these keys");
    assert_mends(&mut client, "hasty", "technical_approach", "architecture, data");

    let content = kept(&mut client, "hasty", "technical_approach", "assembled_json");
    assert_eq!(keys(&content), keys(&content_keys(&mut client, "thesis", "technical_approach")));
    let document: String = one(
        &mut client,
        "select content from dialectic.documents where document_key = 'technical_approach' and complete",
        &[],
    );
    let chunks: Vec<String> = column(
        &mut client,
        "select content from dialectic.contributions where step_key = 'technical_approach' order by chunk_no",
        &[],
    );
    let reader: String = one(
        &mut client,
        "select content from dialectic.resources where step_key = 'review_header' and resource_type = 'planner_prompt'",
        &[],
    );
    let messages: Vec<Value> = serde_json::from_str(&reader).expect("messages");
    let sent = messages[1]["content"].as_str().expect("a text");
    for (key, from) in [("deployment", &chunks[0]), ("architecture", &chunks[1]), ("data", &chunks[1])] {
        let text = content[key].as_str().expect("a text");
        assert!(from.contains(text), "{key} is from the part that had it");
        assert!(document.contains(text), "{key} is in the document");
        assert!(sent.contains(text), "{key} is in what later stages read");
    }
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 5 + 7 + 2);
    assert_sound(&mut client);
}

/// Works the first stage with a model that leaves this out of every answer, asked or not, and another one.
fn stubborn(client: &mut Client, omitted: &str) {
    model(client, "stubborn", &json!({"omit_keys": [omitted, "colour"], "omit_always": true}));
    let session = run_through(client, &["stubborn", "sim-b"], "thesis");
    work(client);
    assert_eq!(session_status(client, session), "completed", "the other model delivers");
    let documents = "select count(*) from dialectic.documents where model = 'sim-b' and complete";
    assert_eq!(one::<i64>(client, documents, &[]), 4);
    assert_sound(client);
}

/// A header that lacks what others stand on is of no use; what is built on it would lack it too.
#[test]
fn a_header_that_lacks_the_same_again_fails_its_own_model_with_the_keys_named() {
    let database = Database::new();
    let mut client = database.connect();
    let named = "context_for_documents[feature_spec]";
    stubborn(&mut client, named);
    let failed: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', step_key, continuation_count, status, attempt_count) from dialectic.jobs \
         where status in ('failed', 'retry_loop_failed') and kind = 'execute'",
        &[],
    );
    assert_eq!(failed, ["thesis_header 1 failed 1"], "asked once more, and not again");
    let reasons: Vec<String> = column(
        &mut client,
        "select error_details ->> 'message' from dialectic.jobs where status = 'failed' order by kind",
        &[],
    );
    assert_eq!(reasons.len(), 2, "the job and its plan: {reasons:?}");
    for reason in reasons {
        assert!(reason.contains(named) && !reason.contains("colour"), "{reason}");
    }
    let told: String = one(
        &mut client,
        "select message from dialectic.notifications where type = 'contribution_generation_failed'",
        &[],
    );
    assert!(told.contains(named), "{told}");
}

#[test]
fn a_document_that_lacks_the_same_again_is_kept_as_it_is_and_marked_with_the_keys_named() {
    let database = Database::new();
    let mut client = database.connect();
    stubborn(&mut client, "architecture");
    let whole =
        ["business_case 0", "feature_spec 0", "success_metrics 0", "technical_approach 0", "technical_approach 1"];
    let asked: Vec<String> =
        [&whole[..], &["thesis_header 0"]].concat().iter().map(|job| format!("{job} completed")).collect();
    assert_eq!(jobs(&mut client, "stubborn"), asked, "asked once more, and not again");
    let documents: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', document_key, complete) from dialectic.documents where model = 'stubborn' order by 1",
        &[],
    );
    assert_eq!(documents, ["business_case t", "feature_spec t", "success_metrics t", "technical_approach f"]);
    let content = kept(&mut client, "stubborn", "technical_approach", "assembled_json");
    assert!(content.get("architecture").is_none() && content["deployment"].is_string(), "{content}");
    let notes: Vec<String> = column(
        &mut client,
        "select jsonb_array_elements_text(results -> 'notes') from dialectic.jobs \
         where model = 'stubborn' and step_key = 'technical_approach' and kind = 'execute' and continuation_count = 1",
        &[],
    );
    assert!(notes.iter().any(|note| note.contains("architecture")), "{notes:?}");
    let failures: i64 = one(&mut client, "select count(*) from dialectic.jobs where error_details is not null", &[]);
    assert_eq!(failures, 0);
}

#[test]
fn unusable_answer_to_a_header_repair_is_retried() {
    let database = Database::by_hand();
    let mut client = database.connect();
    run_through(&mut client, &["sim-a"], "thesis");
    plan_roots(&mut client, 1, "waiting_for_children");
    let header = claim(&mut client, "hand", 1).remove(0);
    let partly = r#"{"system_materials": {"stage_rationale": "because"}}"#;
    assert_eq!(answer(&mut client, &header, partly), "completed");
    let state = "select concat_ws(' ', status, attempt_count) from dialectic.jobs where id = $1";
    let due = "update dialectic.jobs set run_at = now() where status = 'retrying'";
    let mut states = Vec::new();
    for _ in 0..4 {
        let repair = claim(&mut client, "hand", 1).remove(0);
        answer(&mut client, &repair, "I would rather not write JSON.");
        states.push(one::<String>(&mut client, state, &[&repair.job]));
        client.execute(due, &[]).expect("due");
    }
    assert_eq!(states, ["retrying 1", "retrying 2", "retrying 3", "retry_loop_failed 4"]);
}
