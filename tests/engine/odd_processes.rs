//! Small processes of JSON documents, and odd ones: what laws about documents, files and versions are proved on.

use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// Templates that any step can go by.
fn templates(client: &mut Client) {
    client
        .batch_execute(
            r#"select dialectic.set_prompt('odd_seed', 'Brief.');
               select dialectic.set_prompt('odd_turn', '{% block system %}Be brief.{% endblock %}{% block user %}{% include "shared_documents" %}Go on.{% endblock %}');"#,
        )
        .expect("templates");
}

/// A step that writes a document from these inputs.
pub(crate) fn step(key: &str, strategy: &str, inputs: Value) -> Value {
    json!({"key": key, "job_type": "execute", "prompt_template_name": "odd_turn", "inputs_required": inputs,
           "granularity_strategy": strategy, "output_type": key, "document_key": key, "file_type": "markdown",
           "content_to_include": {"summary": "In a sentence", "points": ["A point"]}})
}

/// An input of this type, from all models.
pub(crate) fn all(output: &str) -> Value {
    json!({"type": output, "from_models": "all", "multiple": true})
}

pub(crate) fn seed() -> Value {
    json!([{"type": "seed_prompt"}])
}

/// Defines a process of stages, each a slug and its steps.
pub(crate) fn define(client: &mut Client, name: &str, stages: &[(&str, Vec<Value>)]) {
    templates(client);
    let stages: Vec<Value> = stages
        .iter()
        .map(|(slug, steps)| json!({"slug": slug, "seed_prompt_template": "odd_seed", "recipe": {"steps": steps}}))
        .collect();
    client
        .execute("select dialectic.define_process($1, $2::text::jsonb)", &[&name, &Value::from(stages).to_string()])
        .unwrap_or_else(|error| panic!("{name}: {error:?}"));
}

/// Runs a process to its end over a project with so many reference texts.
pub(crate) fn run(client: &mut Client, process: &str, models: &[&str], texts: i32) -> Uuid {
    let session = begin(client, process, models, texts);
    work(client);
    assert_eq!(
        one::<String>(client, "select status from dialectic.sessions where id = $1", &[&session]),
        "completed",
        "{process}"
    );
    session
}

/// As `run`, without working the queue.
pub(crate) fn begin(client: &mut Client, process: &str, models: &[&str], texts: i32) -> Uuid {
    let project: Uuid =
        one(client, "select dialectic.create_project('Odd', 'What is odd?', process => $1)", &[&process]);
    client
        .execute(
            "select dialectic.add_resource($1, 'Text', 'Text ' || n) from generate_series(1, $2) as n",
            &[&project, &texts],
        )
        .expect("texts");
    let session: Uuid =
        one(client, "select dialectic.start_session($1, $2, auto_advance => true)", &[&project, &models]);
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    session
}

/// Two stages: every model writes `claim`, every model writes a `reply` to each claim and one `summary` of the claims; then an
/// `end` from all replies.
pub(crate) fn chain(client: &mut Client) {
    define(
        client,
        "chain",
        &[
            ("first", vec![step("claim", "all_to_one", seed()), step("aside", "all_to_one", seed())]),
            (
                "second",
                vec![
                    step(
                        "reply",
                        "per_source_document",
                        json!([{"type": "claim", "stage": "first", "from_models": "all", "multiple": true}]),
                    ),
                    step(
                        "summary",
                        "all_to_one",
                        json!([{"type": "aside", "stage": "first", "from_models": "all", "multiple": true}]),
                    ),
                    step("end", "all_to_one", json!([all("reply")])),
                ],
            ),
        ],
    );
}

/// What `documents` says of every document but its age, in order.
pub(crate) fn documents(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select concat_ws(' | ', stage, model, document_key, lineage, version, stale, complete, path, md5(content)) \
         from dialectic.documents where session_id = $1 order by 1",
        &[&session],
    )
}
