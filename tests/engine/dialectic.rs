//! The process `dialectic` from end to end: five stages, 33 steps, 18 kinds of documents. What every matter below stands on:
//! models with settings of the test's own, sessions that are led from stage to stage, the marks that tell answers apart.

mod calls;
mod counts;
mod failing;
mod forms;
mod incomplete;
mod isolation;
mod iterations;
mod mending;
mod parts;
mod planning;
mod reading;
mod versions;

use dialectic_tests::*;
use postgres::Client;
use serde_json::Value;
use std::collections::BTreeSet;

const REQUEST: &str = "Plan a lending library for garden tools.";
const STAGES: [&str; 5] = ["thesis", "antithesis", "synthesis", "parenthesis", "paralysis"];

/// A simulator model with these settings; one that is there already is changed.
fn model(client: &mut Client, name: &str, settings: &Value) {
    client
        .execute("select dialectic.add_model($1, 'simulator', settings => $2)", &[&name, settings])
        .expect("a model of the simulator");
}

/// Models whose answers each carry a mark of their own.
fn marked_models(client: &mut Client, names: &[&str]) {
    for name in names {
        model(client, name, &serde_json::json!({"marker": "auto"}));
    }
}

/// The whole process, each stage opening the next.
fn run(client: &mut Client, models: &[&str]) -> Uuid {
    one(client, "select dialectic.run($1, models => $2, process => 'dialectic')", &[&REQUEST, &models])
}

/// The process as far as this stage, each opening the next.
fn run_through(client: &mut Client, models: &[&str], stage: &str) -> Uuid {
    one(
        client,
        "select dialectic.run($1, models => $2, process => 'dialectic', through => $3)",
        &[&REQUEST, &models, &stage],
    )
}

/// A session that opens no stage by itself.
fn start(client: &mut Client, models: &[&str]) -> Uuid {
    let project: Uuid =
        one(client, "select dialectic.create_project('Tools', $1, process => 'dialectic')", &[&REQUEST]);
    one(client, "select dialectic.start_session($1, $2)", &[&project, &models])
}

fn generate(client: &mut Client, session: Uuid) {
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
}

/// Opens the next stage of a session and works it.
fn next_stage(client: &mut Client, session: Uuid) {
    client.query("select dialectic.submit_stage($1)", &[&session]).expect("submit_stage");
    generate(client, session);
    work(client);
}

/// Every mark in a text: the name of a model and eight digits, in brackets.
fn marks(text: &str) -> BTreeSet<String> {
    let is_mark = |inside: &&str| {
        inside.split_once('/').is_some_and(|(name, digits)| {
            !name.is_empty() && digits.len() == 8 && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
    };
    text.split('[').skip(1).filter_map(|rest| rest.split(']').next()).filter(is_mark).map(str::to_owned).collect()
}

/// The text of a document without what stands at its head.
fn body(document: &str) -> &str {
    let after = document.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    after.map_or(document, |(_, body)| body).trim()
}

/// The form that an answer of this step must have, with a hint in the place of each text.
fn content_keys(client: &mut Client, stage: &str, step: &str) -> Value {
    one(
        client,
        "select step -> 'content_to_include' from dialectic.definitions d, jsonb_array_elements(d.stages) as stage, \
                jsonb_array_elements(stage -> 'recipe' -> 'steps') as step \
         where d.process = 'dialectic' and stage ->> 'slug' = $1 and step ->> 'key' = $2 limit 1",
        &[&stage, &step],
    )
}
