//! What a later stage takes of an earlier one: a single document of several, or a part of one, and nothing else of it.

use super::*;
use crate::by_hand::{begin, session_status};
use serde_json::json;

/// Two stages: the first writes two papers of the same type, the second reads one of them, a part of it, and a part of a part.
fn papers(client: &mut Client) -> Uuid {
    client
        .batch_execute(
            "select dialectic.set_prompt('papers_seed', 'Brief.'); \
             select dialectic.set_prompt('papers_step', '{% block system %}Be brief.{% endblock %}\
                {% block user %}{% include \"shared_documents\" %}Write {{ step.key }}.{% endblock %}')",
        )
        .expect("prompts");
    let step = |key: &str, output_type: &str, inputs: Value, content: Value| {
        json!({"key": key, "job_type": "execute", "prompt_template_name": "papers_step", "granularity_strategy": "all_to_one",
               "inputs_required": [inputs], "output_type": output_type, "document_key": key, "file_type": "markdown",
               "content_to_include": content})
    };
    let paper = json!({"opening": "", "points": [""], "table": {"cost": "", "gain": ""}});
    let reads = |part: Option<&str>| {
        let mut input = json!({"type": "paper", "stage": "write", "document_key": "left"});
        if let Some(part) = part {
            input["part"] = json!(part);
        }
        input
    };
    let verdict = || json!({"verdict": ""});
    let stages = json!([
        {"slug": "write", "seed_prompt_template": "papers_seed", "recipe": {"steps": [
            step("left", "paper", json!({"type": "seed_prompt"}), paper.clone()),
            step("right", "paper", json!({"type": "seed_prompt"}), paper),
        ]}},
        {"slug": "read", "seed_prompt_template": "papers_seed", "recipe": {"steps": [
            step("whole", "judgement_of_all", reads(None), verdict()),
            step("list", "judgement_of_points", reads(Some("/points")), verdict()),
            step("cell", "judgement_of_cost", reads(Some("/table/cost")), verdict()),
        ]}},
    ]);
    client.execute("select dialectic.define_process('papers', $1)", &[&stages]).expect("a process");
    one(client, "select dialectic.create_project('Papers', 'Compare.', process => 'papers')", &[])
}

/// Every text in a value, by the key it stands under.
fn texts<'a>(value: &'a Value, key: &'a str, found: &mut Vec<(&'a str, &'a str)>) {
    match value {
        Value::String(text) => found.push((key, text)),
        Value::Array(items) => items.iter().for_each(|item| texts(item, key, found)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| texts(value, key, found)),
        _ => {}
    }
}

#[test]
fn a_later_stage_reads_the_document_or_the_part_that_it_names_and_nothing_else() {
    let database = Database::new();
    let mut client = database.connect();
    // Long answers: no two texts are alike by chance.
    model(&mut client, "wordy", &json!({"answer_words": 600}));
    let project = papers(&mut client);
    let session = begin(&mut client, project, &["wordy"]);
    work(&mut client);
    next_stage(&mut client, session);
    assert_eq!(session_status(&mut client, session), "completed");

    let paper = |client: &mut Client, key: &str| -> Value {
        let text: String = one(
            client,
            "select content from dialectic.resources where resource_type = 'assembled_json' and document_key = $1",
            &[&key],
        );
        serde_json::from_str(&text).expect("JSON")
    };
    let (left, right) = (paper(&mut client, "left"), paper(&mut client, "right"));
    for (step, read) in
        [("whole", ["opening", "points", "cost", "gain"].as_slice()), ("list", &["points"]), ("cell", &["cost"])]
    {
        let prompt: String = one(
            &mut client,
            "select content from dialectic.resources where resource_type = 'turn_prompt' and step_key = $1",
            &[&step],
        );
        let messages: Vec<Value> = serde_json::from_str(&prompt).expect("messages");
        let sent = messages[1]["content"].as_str().expect("a text");
        let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
        texts(&left, "", &mut of_left);
        texts(&right, "", &mut of_right);
        assert!(of_left.len() >= 5 && of_left.iter().all(|(_, text)| text.len() > 40), "{of_left:?}");
        for (key, text) in of_left {
            assert_eq!(sent.contains(text), read.contains(&key), "{step} and {key} of the left paper:\n{sent}");
        }
        for (key, text) in of_right {
            assert!(!sent.contains(text), "{step} reads {key} of the right paper:\n{sent}");
        }
    }
    let planned: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', j.step_key, i.part, r.resource_type, r.document_key) from dialectic.job_inputs i \
         join dialectic.jobs j on j.id = i.job join dialectic.stage_runs run on run.id = j.stage_run_id and run.stage = 'read' \
         join dialectic.resources r on r.id = i.artifact order by 1",
        &[],
    );
    assert_eq!(
        planned,
        ["cell /table/cost assembled_json left", "list /points assembled_json left", "whole rendered_document left"]
    );
    assert_sound(&mut client);
}
