//! Where continuing ends: at `max_continuations`, and at once where nothing may be continued. What there is then becomes the
//! document, is rendered and marked, and the stage is complete: never lost, never silent.

use super::*;
use crate::by_hand::session_status;

/// Models that never come to an end: each call gets a few tokens out of them.
fn endless() -> Value {
    json!({"answer_words": 20000, "cut_after_tokens": 60})
}

/// The first stage of a process with one endless model, worked.
fn run(client: &mut Client, process: &str, continue_until_complete: bool) -> Uuid {
    model(client, "endless", &endless());
    let project: Uuid =
        one(client, "select dialectic.create_project('Endless', 'What ends?', process => $1)", &[&process]);
    let session: Uuid = one(client, "select dialectic.start_session($1, '{endless}')", &[&project]);
    client
        .query(
            "select * from dialectic.generate($1, continue_until_complete => $2)",
            &[&session, &continue_until_complete],
        )
        .expect("generate");
    work(client);
    let stage: String = one(client, "select status from dialectic.stage_runs where session_id = $1", &[&session]);
    assert_eq!(stage, "completed");
    session
}

/// What each job that calls a model was cut off in, by step and chunk.
fn written(client: &mut Client, session: Uuid, step: &str) -> Vec<String> {
    column(
        client,
        "select content from dialectic.contributions where session_id = $1 and step_key = $2 and finish_reason = 'length' order by chunk_no",
        &[&session, &step],
    )
}

/// Every text that was made of the answers of a session is marked incomplete, and there are so many of each type.
fn assert_marked(client: &mut Client, session: Uuid) {
    let made: Vec<String> = column(
        client,
        "select concat_ws(' ', resource_type, step_key, is_complete) from dialectic.resources \
         where session_id = $1 and resource_type in ('assembled_json', 'rendered_document') order by 1",
        &[&session],
    );
    assert_eq!(made, ["assembled_json figures f", "assembled_json note f", "rendered_document note f"]);
    assert!(!document(client, session).1);
}

#[test]
fn a_text_at_the_cap_is_all_there_is_of_it_and_marked_incomplete() {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 2);
    let session = run(&mut client, "essay", true);
    assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 completed", "2 completed"]);
    assert_eq!(calls(&mut client, session), 3);
    let chunks = written(&mut client, session, "thesis");
    assert_eq!(chunks.len(), 3);
    assert_eq!(document(&mut client, session), (chunks.concat(), false));
    assert_sound(&mut client);
}

#[test]
fn json_at_the_cap_is_assembled_rendered_and_marked_incomplete() {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 2);
    notes(&mut client);
    let session = run(&mut client, "notes", true);
    assert_eq!(session_status(&mut client, session), "completed");
    for step in ["note", "figures"] {
        let chunks = written(&mut client, session, step);
        assert_eq!(chunks.len(), 3, "{step}");
        let (content, is_complete) = assembled(&mut client, session, step);
        assert!(!is_complete, "{step}");
        let all = content.to_string();
        assert!(all.len() > chunks[0].len() + chunks[1].len(), "all chunks are in it: {all}");
        let remarks = remarks(&mut client, session, step);
        assert!(!remarks.is_empty(), "{step} is incomplete, and nothing says why");
    }
    assert_eq!(calls(&mut client, session), 2 * 3);
    assert_marked(&mut client, session);
    let (document, _) = document(&mut client, session);
    let (content, _) = assembled(&mut client, session, "note");
    let end = content["points"].as_array().and_then(|points| points.last()?.as_str()).expect("a last point");
    assert!(document.contains(end), "the last words are in the document: {end}\n{document}");
    assert_sound(&mut client);
}

#[test]
fn what_may_not_be_continued_takes_one_call_and_is_marked_incomplete() {
    let database = Database::new();
    let mut client = database.connect();
    notes(&mut client);
    let (essay, notes) = (run(&mut client, "essay", false), run(&mut client, "notes", false));
    assert_eq!(calling_jobs(&mut client, essay), ["0 completed"]);
    assert_eq!(calls(&mut client, essay), 1);
    assert_eq!(document(&mut client, essay), (written(&mut client, essay, "thesis").concat(), false));
    assert_eq!(calling_jobs(&mut client, notes), ["0 completed", "0 completed"]);
    assert_eq!(calls(&mut client, notes), 2);
    assert_marked(&mut client, notes);
    assert_sound(&mut client);
}

#[test]
fn a_cap_of_zero_continues_nothing() {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 0);
    notes(&mut client);
    let session = run(&mut client, "notes", true);
    assert_eq!(calls(&mut client, session), 2);
    assert_marked(&mut client, session);
    assert_sound(&mut client);
}

#[test]
fn an_answer_that_ends_within_the_cap_is_complete() {
    let database = Database::by_hand();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 2);
    let (session, first) = text_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, "One and ", "length"), "completed");
    let second = next(&mut client);
    assert_eq!(say(&mut client, &second, "two and ", "length"), "completed");
    let third = next(&mut client);
    assert_eq!(say(&mut client, &third, "three.", "stop"), "completed");
    assert_eq!(document(&mut client, session), ("One and two and three.".to_owned(), true));
    finish_up(&mut client);
    assert_sound(&mut client);
}
