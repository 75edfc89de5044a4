//! Answers in JSON: a stage of the process `dialectic` whose answers are cut off, whichever way its model goes on, comes to the
//! headers and documents of the same model uncut; each is rendered once, and read as a whole by whatever follows.

use super::*;
use crate::by_hand::session_status;

/// Where answers are cut; few of the stage are shorter.
const CUT: u32 = 120;

/// Runs the process as far as this stage with a model of these settings.
fn run(client: &mut Client, settings: &Value, stage: &str) -> Uuid {
    model(client, "writer", settings);
    let session: Uuid = one(
        client,
        "select dialectic.run('Plan a lending library for garden tools.', models => '{writer}', process => 'dialectic', through => $1)",
        &[&stage],
    );
    work(client);
    assert_eq!(session_status(client, session), "completed", "{settings}");
    session
}

/// What the answers of a session were assembled into, by step.
fn contents(client: &mut Client, session: Uuid) -> Vec<(String, Value, bool)> {
    let rows = client
        .query(
            "select concat_ws(' ', stage, step_key), content, is_complete from dialectic.resources \
             where session_id = $1 and resource_type in ('assembled_json', 'header_context') order by 1",
            &[&session],
        )
        .expect("assembled answers");
    rows.iter().map(|row| (row.get(0), serde_json::from_str(row.get(1)).expect("JSON"), row.get(2))).collect()
}

/// What the documents of a session say, without their heads.
fn bodies(client: &mut Client, session: Uuid) -> Vec<String> {
    let documents: Vec<String> = column(
        client,
        "select content from dialectic.documents where session_id = $1 and complete order by stage, document_key",
        &[&session],
    );
    documents.iter().map(|document| body(document).to_owned()).collect()
}

fn assert_equals_the_uncut(way: &Value) {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 100);
    let uncut = run(&mut client, &json!({"marker": "auto"}), "thesis");
    let mut settings = json!({"marker": "auto", "cut_after_tokens": CUT});
    for (key, value) in way.as_object().expect("an object") {
        settings[key] = value.clone();
    }
    let cut = run(&mut client, &settings, "thesis");
    let (expected, found) = (contents(&mut client, uncut), contents(&mut client, cut));
    assert_eq!(expected.len(), 5);
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(found, expected, "{way}");
    }
    assert_eq!(found.len(), 5);
    assert_eq!(bodies(&mut client, cut), bodies(&mut client, uncut));

    let continued: Vec<String> = column(
        &mut client,
        "select distinct step_key from dialectic.contributions where session_id = $1 and chunk_no > 1 order by 1",
        &[&cut],
    );
    assert!(continued.len() >= 2 && continued.contains(&"thesis_header".to_owned()), "{continued:?}");
    let renders: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', document_key, count(*), sum(attempt_count)) from dialectic.jobs \
         where session_id = $1 and kind = 'render' group by document_key order by 1",
        &[&cut],
    );
    let once = ["business_case", "feature_spec", "success_metrics", "technical_approach"];
    assert_eq!(renders, once.map(|key| format!("{key} 1 1")));
    assert_eq!(
        one::<i64>(
            &mut client,
            "select count(*) from dialectic.resources where session_id = $1 and resource_type = 'rendered_document'",
            &[&cut]
        ),
        4
    );
    assert_sound(&mut client);
}

#[test]
fn a_stage_whose_model_goes_on_where_it_stopped_equals_the_uncut_one() {
    assert_equals_the_uncut(&json!({}));
}

#[test]
fn a_stage_whose_model_begins_afresh_equals_the_uncut_one() {
    assert_equals_the_uncut(&json!({"continue": "afresh", "cut_after_tokens": 300}));
}

#[test]
fn a_stage_whose_model_fences_its_json_equals_the_uncut_one() {
    assert_equals_the_uncut(&json!({"wrap": "fence"}));
}

#[test]
fn an_answer_of_several_chunks_is_not_read_as_its_first_alone() {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 100);
    let session = run(&mut client, &json!({"marker": "auto", "cut_after_tokens": 40}), "antithesis");
    let content = contents(&mut client, session);
    let of = |step: &str| {
        let (_, content, is_complete) = content.iter().find(|(key, ..)| key == step).expect(step);
        assert!(is_complete, "{step}");
        content.clone()
    };
    let mut first_chunk = |step: &str| {
        let chunks: Vec<String> = column(
            &mut client,
            "select content from dialectic.contributions where session_id = $1 and step_key = $2 order by chunk_no",
            &[&session, &step],
        );
        assert!(chunks.len() > 1, "{step} was not cut off");
        chunks[0].clone()
    };
    let (header_begins, document_begins) = (first_chunk("thesis_header"), first_chunk("technical_approach"));
    let mut sent = |step: &str| -> String {
        let saved: String = one(
            &mut client,
            "select content from dialectic.resources where session_id = $1 and step_key = $2 and resource_type in ('turn_prompt', 'planner_prompt')",
            &[&session, &step],
        );
        serde_json::from_str::<Vec<Value>>(&saved).expect("messages").iter().map(said).collect()
    };

    // The last entry of the header reaches the document it is for.
    let header = of("thesis thesis_header");
    let entry = header["context_for_documents"].as_array().and_then(|entries| entries.last()).expect("an entry");
    assert_eq!(entry["document_key"], "success_metrics");
    let planned = entry["content_to_include"]["escalation_plan"].as_str().expect("a text");
    assert!(!header_begins.contains(planned) && sent("success_metrics").contains(planned), "{planned}");

    // Every part of a document reaches whoever reviews it.
    let (document, review) = (of("thesis technical_approach"), sent("review_header"));
    let parts = document.as_object().expect("an object");
    assert_eq!(parts.len(), 7);
    let mut later = 0;
    for (key, text) in parts {
        let text = text.as_str().expect("a text");
        assert!(review.contains(text), "{key} was not read: {text}");
        later += usize::from(!document_begins.contains(text));
    }
    assert!(later >= 5, "most of it came later: {document_begins}");
    assert_sound(&mut client);
}

#[test]
fn json_cut_inside_an_item_is_joined_whichever_way_it_goes_on() {
    let afresh = r#"{"points": ["Line the well with stone", "Cover it"]}"#;
    let both = json!(["Dig where the water is near", "Line the well with stone"]);
    let three = json!(["Dig where the water is near", "Line the well with stone", "Cover it"]);
    for (rest, points) in [
        (NOTE[1].to_owned(), &both),
        (format!("```json\n{}\n```", NOTE[1]), &both),
        (afresh.to_owned(), &three),
        (format!("Here is the rest:\n\n```json\n{afresh}\n```"), &three),
    ] {
        let database = Database::by_hand();
        let mut client = database.connect();
        let (session, first) = note_by_hand(&mut client);
        assert_eq!(say(&mut client, &first, NOTE[0], "length"), "completed");
        let none: i64 = one(
            &mut client,
            "select count(*) from dialectic.resources where session_id = $1 and resource_type = 'assembled_json'",
            &[&session],
        );
        assert_eq!(none, 0, "nothing is assembled before it is whole");
        let second = next(&mut client);
        assert_eq!(say(&mut client, &second, &rest, "stop"), "completed", "{rest}");
        finish_up(&mut client);
        let whole = json!({"summary": "Wells are dug by hand", "points": points});
        assert_eq!(assembled(&mut client, session, "note"), (whole, true), "{rest}");
        let (document, is_complete) = document(&mut client, session);
        assert!(is_complete && document.contains("Line the well with stone"), "{document}");
        assert_eq!(document.matches("Line the we").count(), 1, "{document}");
        assert_eq!(session_status(&mut client, session), "completed");
        assert_sound(&mut client);
    }
}

#[test]
fn what_was_cut_off_behind_the_json_is_not_asked_for() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = note_by_hand(&mut client);
    let text = format!("```json\n{}\n```\n\nThis note covers what was asked for, and I would be gl", NOTE.concat());
    assert_eq!(say(&mut client, &first, &text, "length"), "completed");
    finish_up(&mut client);
    assert_eq!(calling_jobs(&mut client, session), ["0 completed"]);
    assert!(assembled(&mut client, session, "note").1 && document(&mut client, session).1);
    assert_sound(&mut client);
}
