//! No progress: a model that was asked to go on and says nothing new is not asked again. What there is is kept and marked, and a
//! note says what it lacks.

use super::*;
use crate::by_hand::session_status;

#[test]
fn a_text_whose_tail_comes_again_ends_there_and_is_incomplete() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    let text = "# Wells\n\nA well is dug where the water is near, and lined with stone so that it does not fall in";
    assert_eq!(say(&mut client, &first, text, "length"), "completed");
    let second = next(&mut client);
    let tail = "and lined with stone so that it does not fall in";
    assert_eq!(say(&mut client, &second, tail, "length"), "completed");
    finish_up(&mut client);
    assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 completed"]);
    assert_eq!(document(&mut client, session), (text.to_owned(), false));
    assert_eq!(ends(&mut client, session), ["1 length", "2 length"], "what was paid for is kept");
    assert_sound(&mut client);
}

#[test]
fn a_text_that_moves_on_is_asked_for_more_though_it_repeated_something() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, "Rain fell on the old stone bridge", "length"), "completed");
    let second = next(&mut client);
    assert_eq!(say(&mut client, &second, "on the old stone bridge all night, and", "length"), "completed");
    let third = next(&mut client);
    assert_eq!(say(&mut client, &third, " in the morning it was gone.", "stop"), "completed");
    let whole = "Rain fell on the old stone bridge all night, and in the morning it was gone.";
    assert_eq!(document(&mut client, session), (whole.to_owned(), true));
    finish_up(&mut client);
    assert_sound(&mut client);
}

/// A note that is begun with `text` and then continued by each of these, of which the last brings nothing new.
fn note_stands_still(text: (&str, &str), then: &[(&str, &str)], kept: &Value, named: &str) {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = note_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, text.0, text.1), "completed", "{text:?}");
    for (text, finish_reason) in then {
        let further = next(&mut client);
        assert_eq!(further.kind, "execute");
        assert_eq!(say(&mut client, &further, text, finish_reason), "completed", "{text}");
    }
    finish_up(&mut client);
    assert_eq!(calls(&mut client, session), 1 + then.len() as i64);
    assert_eq!(assembled(&mut client, session, "note"), (kept.clone(), false), "{then:?}");
    assert!(!document(&mut client, session).1);
    let remarks = remarks(&mut client, session, "note");
    assert!(remarks.iter().any(|remark| remark.contains(named)), "\"{named}\" is in none of {remarks:?}");
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn a_note_that_is_left_open_and_comes_again_ends_there() {
    let kept = json!({"summary": "Wells are dug by hand", "points": ["Dig where the water is near", "Line the we"]});
    for nothing in [
        r#"{"summary": "Wells are dug by hand"}"#,
        r#"{"points": ["Dig where the water is near"]}"#,
        r#""Dig where the water is near", "Line the we"#,
    ] {
        note_stands_still((NOTE[0], "length"), &[(nothing, "length")], &kept, "cut off");
    }
}

#[test]
fn a_note_that_lacks_the_same_keys_again_ends_there() {
    let first = r#"{"summary": "Wells are dug by hand"}"#;
    let kept = json!({"summary": "Wells are dug by hand"});
    for nothing in [first, "{}", r#"{"colour": "red"}"#, "I have nothing to add."] {
        note_stands_still((first, "stop"), &[(nothing, "stop")], &kept, "points");
    }
}

#[test]
fn a_note_that_says_it_would_go_on_and_does_not_ends_there() {
    let asks = r#"{"summary": "Wells are dug by hand", "points": ["Dig deep"], "continuation_needed": true}"#;
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = note_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, asks, "stop"), "completed");
    let second = next(&mut client);
    assert_eq!(say(&mut client, &second, asks, "stop"), "completed");
    finish_up(&mut client);
    assert_eq!(calls(&mut client, session), 2, "it is not asked for ever");
    let whole = json!({"summary": "Wells are dug by hand", "points": ["Dig deep"]});
    assert_eq!(assembled(&mut client, session, "note").0, whole);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}
