//! Answers that were cut off: they are continued, and what comes out is what an uncut answer would have been; or they end, each
//! for its own reason, and what there is is kept and marked. What every matter below stands on: models with settings of the
//! test's own, answers given by hand one chunk after another, and the chain as the tables show it.

mod asked;
mod cap;
mod directive;
mod essay;
mod fragments;
mod json;
mod order;
mod people;
mod refusal;
mod scenario;
mod standstill;
mod starved;
mod tokens;

use crate::by_hand::{Claim, claim};
use crate::odd_processes::{begin, define, seed, step};
use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// A text in two parts, cut in the middle of a word.
const TEXT: [&str; 2] =
    ["# Wells\n\nA well is dug where the wat", "er is near, and lined with stone so that it does not fall in.\n"];

/// JSON for a note in two parts, cut in the middle of an item.
const NOTE: [&str; 2] = [
    r#"{"summary": "Wells are dug by hand", "points": ["Dig where the water is near", "Line the we"#,
    r#"ll with stone"]}"#,
];

/// A simulator model with these settings; one that is there already is changed.
fn model(client: &mut Client, name: &str, settings: &Value) {
    client
        .execute("select dialectic.add_model($1, 'simulator', settings => $2)", &[&name, settings])
        .expect("a model of the simulator");
}

fn configure(client: &mut Client, key: &str, value: i32) {
    client.execute("select dialectic.set_config($1, to_jsonb($2::integer))", &[&key, &value]).expect("set_config");
}

/// A process of one stage: a note that becomes a document, and figures that stay JSON.
fn notes(client: &mut Client) {
    let mut figures = step("figures", "all_to_one", seed());
    figures["file_type"] = json!("json");
    define(client, "notes", &[("only", vec![step("note", "all_to_one", seed()), figures])]);
}

/// A session of a process of one note, planned by hand; its one job is claimed.
fn note_by_hand(client: &mut Client) -> (Uuid, Claim) {
    define(client, "noted", &[("only", vec![step("note", "all_to_one", seed())])]);
    let session = begin(client, "noted", &["sim-a"], 0);
    (session, first_claim(client))
}

/// A session that writes one text, planned by hand; its one job is claimed.
fn text_by_hand(client: &mut Client) -> (Uuid, Claim) {
    let session = generated(client, &["sim-a"]);
    (session, first_claim(client))
}

fn first_claim(client: &mut Client) -> Claim {
    let plan = next(client);
    assert_eq!(plan.kind, "plan");
    one::<String>(client, "select dialectic.complete_job($1, $2)", &[&plan.job, &plan.claim]);
    next(client)
}

/// Claims the one job that is due.
fn next(client: &mut Client) -> Claim {
    let mut claims = claim(client, "hand", 10);
    assert_eq!(claims.len(), 1, "{claims:?}");
    claims.remove(0)
}

fn assert_nothing_is_due(client: &mut Client) {
    let claims = claim(client, "hand", 10);
    assert!(claims.is_empty(), "{claims:?}");
}

/// The request of a claimed job.
fn request(client: &mut Client, claim: &Claim) -> Value {
    one(client, "select dialectic.job_request($1)", &[&claim.job])
}

/// What a claimed job sends.
fn messages(client: &mut Client, claim: &Claim) -> Vec<Value> {
    request(client, claim)["messages"].as_array().expect("messages").clone()
}

/// Who speaks in each of these messages.
fn roles(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["role"].as_str()).collect()
}

/// What a message says.
fn said(message: &Value) -> &str {
    message["content"].as_str().expect("a text")
}

/// Has a claimed job send its request, and answers it; returns what complete_job says.
fn say(client: &mut Client, claim: &Claim, text: &str, finish_reason: &str) -> String {
    request(client, claim);
    finish(client, claim, text, finish_reason)
}

/// As `say`, without a request.
fn finish(client: &mut Client, claim: &Claim, text: &str, finish_reason: &str) -> String {
    one(client, "select dialectic.complete_job($1, $2, $3, $4)", &[&claim.job, &claim.claim, &text, &finish_reason])
}

/// Works whatever is left by hand that calls no model: plans and renders.
fn finish_up(client: &mut Client) {
    loop {
        let claims = claim(client, "hand", 10);
        if claims.is_empty() {
            return;
        }
        for one_of in claims {
            assert_ne!(one_of.kind, "execute", "nobody is to be asked: {one_of:?}");
            one::<String>(client, "select dialectic.complete_job($1, $2)", &[&one_of.job, &one_of.claim]);
        }
    }
}

/// The jobs of a session that call a model, as how often it was asked to go on, and status.
fn calling_jobs(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select concat_ws(' ', continuation_count, status) from dialectic.jobs \
         where session_id = $1 and kind = 'execute' order by created_at, continuation_count, id",
        &[&session],
    )
}

/// The chunks of the one answer of a session, as number, finish reason and text; they are one chain.
fn chunks(client: &mut Client, session: Uuid) -> Vec<(i32, String, String)> {
    let rows = client
        .query(
            "select c.chunk_no, c.finish_reason, c.content, c.root_id, r.id is not null as is_rooted \
             from dialectic.contributions c left join dialectic.contributions r on r.id = c.root_id and r.chunk_no = 1 \
             where c.session_id = $1 order by c.chunk_no, c.created_at",
            &[&session],
        )
        .expect("contributions");
    let roots: std::collections::HashSet<Uuid> = rows.iter().map(|row| row.get(3)).collect();
    assert!(roots.len() <= 1, "several chains: {roots:?}");
    assert!(rows.iter().all(|row| row.get(4)), "the root is chunk 1");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// The same, without the texts.
fn ends(client: &mut Client, session: Uuid) -> Vec<String> {
    chunks(client, session).into_iter().map(|(number, reason, _)| format!("{number} {reason}")).collect()
}

/// The one document of a session: what it says, and whether it is complete.
fn document(client: &mut Client, session: Uuid) -> (String, bool) {
    let row = client
        .query_one("select content, complete from dialectic.documents where session_id = $1", &[&session])
        .expect("one document");
    (row.get(0), row.get(1))
}

/// The text of a document without what stands at its head.
fn body(document: &str) -> &str {
    let after = document.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    after.map_or(document, |(_, body)| body).trim()
}

/// The JSON that the answer of a step was assembled into, and whether it is complete.
fn assembled(client: &mut Client, session: Uuid, step: &str) -> (Value, bool) {
    let row = client
        .query_one(
            "select content, is_complete from dialectic.resources \
             where session_id = $1 and step_key = $2 and resource_type in ('assembled_json', 'header_context')",
            &[&session, &step],
        )
        .expect("one assembled answer");
    (serde_json::from_str(row.get(0)).expect("JSON"), row.get(1))
}

/// What was remarked about an answer: the notes of the last job that wrote it.
fn remarks(client: &mut Client, session: Uuid, step: &str) -> Vec<String> {
    column(
        client,
        "select jsonb_array_elements_text(results -> 'notes') from (select results from dialectic.jobs \
         where session_id = $1 and step_key = $2 and kind = 'execute' order by continuation_count desc limit 1) as last",
        &[&session, &step],
    )
}

/// Why the job that continues this session's answer was made.
fn continue_reason(client: &mut Client, session: Uuid) -> String {
    one(
        client,
        "select continue_reason from dialectic.jobs where session_id = $1 and kind = 'execute' \
         order by continuation_count desc limit 1",
        &[&session],
    )
}

fn calls(client: &mut Client, session: Uuid) -> i64 {
    one(client, "select count(*) from dialectic.model_calls where session_id = $1", &[&session])
}

/// The messages of a job as anybody may look them up afterwards.
fn prompt(client: &mut Client, job: Uuid) -> Vec<Value> {
    let messages: Value = one(client, "select dialectic.prompt($1)", &[&job]);
    messages.as_array().expect("a list of messages").clone()
}
