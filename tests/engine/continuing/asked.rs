//! What an answer says about itself: that it has not finished, and is asked for the rest; or that it would go on with another
//! document, which nobody asked for. Then it is done: the surplus stays in the answer, out of the document, and a note says so.

use super::*;
use crate::by_hand::session_status;

#[test]
fn an_answer_that_says_it_has_not_finished_is_asked_for_the_rest() {
    let asks = [
        r#"{"summary": "Wells", "points": ["Dig deep"], "continuation_needed": true}"#,
        r#"{"summary": "Wells", "points": ["Dig deep"], "continuation_needed": true, "stop_reason": "too long"}"#,
        r#"{"summary": "Wells", "points": ["Dig deep"], "resume_cursor": {"after": "Dig deep"}}"#,
        r#"{"summary": "Wells", "points": ["Dig deep"], "resume_cursor": {"document_key": "note", "after": "Dig deep"}}"#,
    ];
    let ends =
        [r#"{"points": ["Line with stone"], "continuation_needed": false}"#, r#"{"points": ["Line with stone"]}"#];
    for (ask, end) in asks.iter().flat_map(|ask| ends.map(|end| (ask, end))) {
        let database = Database::by_hand();
        let mut client = database.connect();
        let (session, first) = note_by_hand(&mut client);
        assert_eq!(say(&mut client, &first, ask, "stop"), "completed");
        assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 pending_continuation"], "{ask}");
        assert_eq!(continue_reason(&mut client, session), "asked", "{ask}");
        let second = next(&mut client);
        assert_eq!(say(&mut client, &second, end, "stop"), "completed");
        finish_up(&mut client);
        let whole = json!({"summary": "Wells", "points": ["Dig deep", "Line with stone"]});
        assert_eq!(assembled(&mut client, session, "note"), (whole, true), "{ask} then {end}");
        assert_eq!(calls(&mut client, session), 2, "{ask} then {end}");
        assert_eq!(session_status(&mut client, session), "completed");
        assert_sound(&mut client);
    }
}

#[test]
fn an_answer_that_says_it_has_finished_is_taken_at_its_word() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = note_by_hand(&mut client);
    let text = r#"{"summary": "Wells", "points": ["Dig deep"], "continuation_needed": false, "resume_cursor": null}"#;
    assert_eq!(say(&mut client, &first, text, "stop"), "completed");
    finish_up(&mut client);
    assert_eq!(calls(&mut client, session), 1);
    assert_eq!(assembled(&mut client, session, "note"), (json!({"summary": "Wells", "points": ["Dig deep"]}), true));
    assert_sound(&mut client);
}

/// The chain is over, its document is whole, and of the surplus there is only what the answer says and a note.
fn assert_left_out(client: &mut Client, session: Uuid, jobs: usize) {
    finish_up(client);
    assert_eq!(calling_jobs(client, session).len(), jobs, "no further job");
    let whole = json!({"summary": "Wells are dug by hand", "points": ["Dig where the water is near", "Line the well with stone"]});
    assert_eq!(assembled(client, session, "note"), (whole, true));
    let (document, is_complete) = document(client, session);
    assert!(is_complete && !document.contains("Buckets"), "{document}");
    let answers: String = chunks(client, session).into_iter().map(|(_, _, text)| text).collect();
    assert!(answers.contains("Buckets"), "what was written is kept");
    let remarks = remarks(client, session, "note");
    assert!(remarks.iter().any(|remark| remark.contains("memo")), "no note names the other document: {remarks:?}");
    assert_eq!(session_status(client, session), "completed");
    assert_sound(client);
}

#[test]
fn an_answer_that_would_go_on_with_another_document_is_done() {
    let points = r#"["Dig where the water is near", "Line the well with stone"]"#;
    let other = r#""memo": {"title": "Buckets", "text": "Buckets wear out"}"#;
    let cursor = r#""continuation_needed": true, "resume_cursor": {"document_key": "memo"}"#;
    for text in [
        format!(r#"{{"note": {{"summary": "Wells are dug by hand", "points": {points}}}, {other}, {cursor}}}"#),
        format!(r#"{{"summary": "Wells are dug by hand", "points": {points}, {cursor}}} {{{other}}}"#),
    ] {
        for finish_reason in ["stop", "length"] {
            let database = Database::by_hand();
            let mut client = database.connect();
            let (session, first) = note_by_hand(&mut client);
            assert_eq!(say(&mut client, &first, &text, finish_reason), "completed");
            assert_left_out(&mut client, session, 1);
        }
    }
}

#[test]
fn a_continuation_that_goes_on_to_another_document_ends_the_chain() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = note_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, NOTE[0], "length"), "completed");
    let second = next(&mut client);
    let text = r#"{"note": {"points": ["Line the well with stone"]}, "memo": {"title": "Buckets"},
                   "continuation_needed": true, "resume_cursor": {"document_key": "memo"}}"#;
    assert_eq!(say(&mut client, &second, text, "stop"), "completed");
    assert_left_out(&mut client, session, 2);
}
