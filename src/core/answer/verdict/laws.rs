//! The laws of what becomes of an answer, one rule at a time; chains as a whole are judged in `tests/core/chains.rs`.

mod untidy;

use super::*;
use serde_json::json;

/// A note with a title and points.
fn wanted(before: &[&str]) -> Wanted {
    Wanted {
        shape: Some(json!({"title": "", "points": []})),
        document_key: Some("note".into()),
        before: before.iter().map(|&chunk| chunk.to_owned()).collect(),
        may_continue: true,
        ..Wanted::default()
    }
}

fn text(before: &[&str]) -> Wanted {
    Wanted { shape: None, ..wanted(before) }
}

fn last(wanted: Wanted) -> Wanted {
    Wanted { may_continue: false, ..wanted }
}

fn header(wanted: Wanted) -> Wanted {
    Wanted { is_header: true, ..wanted }
}

fn missing(keys: &[&str]) -> Verdict {
    Verdict::Continue(Why::Missing(keys.iter().map(|&key| key.to_owned()).collect()))
}

/// What is kept, whether it is complete, and what is noted.
#[track_caller]
fn kept(verdict: Verdict) -> (Value, bool, String) {
    match verdict {
        Verdict::Kept { content: Some(content), is_complete, notes } => {
            (serde_json::from_str(&content).expect("JSON"), is_complete, notes.join("; "))
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(verdict: Verdict) -> (String, bool) {
    match verdict {
        Verdict::Refused { reason, is_final } => (reason, is_final),
        other => panic!("{other:?}"),
    }
}

use FinishReason::{ContentFilter, Error, Length, Stop, ToolUse, Unknown};

const WHOLE: &str = r#"{"title": "T", "points": ["a"]}"#;
const CUT: &str = r#"{"title": "T", "points": ["a", "b"#;

#[test]
fn a_refusal_is_never_continued_and_never_tried_again() {
    for wanted in [wanted(&[]), wanted(&[CUT]), wanted(&[WHOLE]), text(&[]), text(&["It was "])] {
        for words in ["{}", WHOLE, "No.", ""] {
            assert_eq!(refused(verdict(ContentFilter, words, &wanted)), ("the model refused to answer".into(), true));
        }
    }
}

#[test]
fn an_error_and_a_tool_may_be_tried_again() {
    for wanted in [wanted(&[]), wanted(&[CUT]), text(&[]), text(&["It was "])] {
        for reason in [Error, ToolUse] {
            assert!(!refused(verdict(reason, WHOLE, &wanted)).1);
        }
    }
}

#[test]
fn silence_is_tried_again() {
    for wanted in [wanted(&[]), wanted(&[CUT]), text(&[])] {
        for reason in [Stop, Unknown] {
            assert_eq!(refused(verdict(reason, " \n", &wanted)), ("the model answered nothing".into(), false));
        }
    }
}

#[test]
fn a_model_that_only_thought_gets_twice_the_room_up_to_the_most_there_is() {
    for of in [wanted(&[]), text(&[])] {
        let with = |asked, most| Wanted { budget: Budget { asked, most }, ..of.clone() };
        for (asked, most, budget) in
            [(1000, 8000, 2000), (4000, 8000, 8000), (5000, 8000, 8000), (u64::MAX - 1, u64::MAX, u64::MAX)]
        {
            assert_eq!(verdict(Length, "\n", &with(asked, most)), Verdict::Starved { budget });
        }
        let (reason, is_final) = refused(verdict(Length, "", &with(8000, 8000)));
        assert!(is_final && reason.contains("whole budget of 8000 tokens"), "{reason}");
        assert!(refused(verdict(Length, "", &of)).1);
    }
}

#[test]
fn a_chain_that_starves_is_assembled_from_what_there_is() {
    let starved = Wanted { budget: Budget { asked: 8, most: 8 }, ..wanted(&[CUT]) };
    let (content, is_complete, notes) = kept(verdict(Length, "", &starved));
    assert_eq!((content, is_complete), (json!({"title": "T", "points": ["a", "b"]}), false));
    assert!(notes.contains("whole budget of 8 tokens"), "{notes}");
}

#[test]
fn a_text_of_one_chunk_is_its_own_content() {
    let whole = Verdict::Kept { content: None, is_complete: true, notes: vec![] };
    assert_eq!(verdict(Stop, WHOLE, &Wanted::default()), whole);
    assert_eq!(verdict(Stop, "It was late.", &text(&[])), whole);
    assert!(!refused(verdict(Unknown, "It was late.", &text(&[]))).1);
}

#[test]
fn a_text_that_was_cut_off_goes_on_until_it_stops() {
    assert_eq!(verdict(Length, "It was", &text(&[])), Verdict::Continue(Why::Cut));
    assert_eq!(verdict(Length, " late", &text(&["It was"])), Verdict::Continue(Why::Cut));
    let whole = Verdict::Kept { content: Some("It was late.".into()), is_complete: true, notes: vec![] };
    assert_eq!(verdict(Stop, " late.", &text(&["It was"])), whole);
}

#[test]
fn a_text_without_progress_and_one_at_the_cap_is_kept_and_incomplete() {
    let so_far = "Rain fell on the old bridge";
    for (of, words, content, note) in [
        (last(text(&[])), so_far, None, "cut off"),
        (last(text(&[so_far])), " all night", Some("Rain fell on the old bridge all night".to_owned()), "cut off"),
        (text(&[so_far]), "on the old bridge", Some(so_far.to_owned()), ADDED_NOTHING),
    ] {
        let expected = Verdict::Kept { content, is_complete: false, notes: vec![note.to_owned()] };
        assert_eq!(verdict(Length, words, &of), expected, "{words}");
    }
}

#[test]
fn an_answer_with_all_that_was_asked_for_is_kept_in_normal_form() {
    let expected = (json!({"title": "T", "points": ["a"]}), true, String::new());
    assert_eq!(kept(verdict(Stop, WHOLE, &wanted(&[]))), expected);
    let (content, is_complete, notes) = kept(verdict(Unknown, r#"{"Points": ["a"], "title": "T"}"#, &wanted(&[])));
    assert_eq!((content.to_string(), is_complete), (expected.0.to_string(), true));
    assert!(notes.contains("\"Points\" read as \"points\""), "{notes}");
}

#[test]
fn what_stands_behind_whole_json_may_be_cut_off() {
    for text in [
        format!("```json\n{WHOLE}\n`"),
        format!("{WHOLE}\n\nI have left out the"),
        format!(r#"{{"content": {WHOLE}"#),
        format!(r#"{{"content": {WHOLE}, "resume_cur"#),
        WHOLE.to_owned(),
    ] {
        let (content, is_complete, _) = kept(verdict(Length, &text, &wanted(&[])));
        assert_eq!((content, is_complete), (json!({"title": "T", "points": ["a"]}), true), "{text}");
    }
}

#[test]
fn broken_json_of_a_model_that_says_it_is_done_is_asked_for_again() {
    for words in [CUT, r#"{"title": "T", "po"#] {
        assert_eq!(
            refused(verdict(Stop, words, &wanted(&[]))),
            ("the JSON of the answer ends in the middle".into(), false)
        );
    }
    // What goes on in the middle may well stop in the middle.
    assert_eq!(verdict(Stop, r#"c", "d"#, &wanted(&[CUT])), Verdict::Continue(Why::Cut));
}

#[test]
fn prose_is_tried_again_and_adds_nothing_to_a_chain() {
    let prose = "I would rather talk about the sea.";
    for reason in [Stop, Length, Unknown] {
        assert!(!refused(verdict(reason, prose, &wanted(&[]))).1);
        let (content, is_complete, notes) =
            kept(verdict(reason, prose, &wanted(&[r#"{"title": "T", "points": ["a","#])));
        assert_eq!((content, is_complete), (json!({"title": "T", "points": ["a"]}), false));
        assert!(notes.contains("cut off inside \"points\"") && notes.contains(ADDED_NOTHING), "{notes}");
    }
}

#[test]
fn json_that_was_cut_off_goes_on_even_before_anything_asked_for_came() {
    for words in [
        CUT,
        r#"{"title": "T", "po"#,
        r#"{"ti"#,
        r#"```json
{"content": {"thoughts": "Many"#,
    ] {
        for reason in [Length, Unknown] {
            assert_eq!(verdict(reason, words, &wanted(&[])), Verdict::Continue(Why::Cut), "{words}");
        }
    }
    assert_eq!(verdict(Length, r#"tle": "T""#, &wanted(&[r#"{"ti"#])), Verdict::Continue(Why::Cut));
    assert_eq!(
        kept(verdict(Stop, r#"b"]}"#, &wanted(&[r#"{"title": "T", "points": ["a", ""#]))).0["points"],
        json!(["a", "b"])
    );
}

#[test]
fn blanks_before_are_nothing_and_blanks_between_stay() {
    let first = Wanted { before: vec!["\n".into()], ..wanted(&[]) };
    assert!(!refused(verdict(Stop, CUT, &first)).1, "it is a first answer");
    let (content, ..) = kept(verdict(Stop, r#"words", "points": []}"#, &wanted(&[r#"{"title": "Two"#, " "])));
    assert_eq!(content["title"], "Two words");
}

#[test]
fn what_is_missing_is_asked_for_and_added() {
    let first = r#"{"title": "T"}"#;
    assert_eq!(verdict(Stop, first, &wanted(&[])), missing(&["points"]));
    for more in [
        r#"{"points": ["a"]}"#,
        r#"{"Points": ["a"]}"#,
        r#"{"note": {"points": ["a"]}}"#,
        r#"{"title": "U", "points": ["a"]}"#,
    ] {
        let (content, is_complete, _) = kept(verdict(Stop, more, &wanted(&[first])));
        assert_eq!((content, is_complete), (json!({"title": "T", "points": ["a"]}), true), "{more}");
    }
}

#[test]
fn some_of_what_is_missing_is_progress() {
    let shape = Some(json!({"title": "", "points": [], "notes": ""}));
    let of = |before: &[&str]| Wanted { shape: shape.clone(), ..wanted(before) };
    assert_eq!(verdict(Stop, r#"{"title": "T"}"#, &of(&[])), missing(&["points", "notes"]));
    assert_eq!(verdict(Stop, r#"{"notes": "n"}"#, &of(&[r#"{"title": "T"}"#])), missing(&["points"]));
    // What was cut off was not asked for by its keys.
    assert_eq!(verdict(Stop, r#"e end"}"#, &of(&[r#"{"title": "Th"#])), missing(&["points", "notes"]));
}

#[test]
fn the_same_keys_missing_again_end_a_chain() {
    for nothing in [r#"{"title": "again"}"#, "{}", r#"{"colour": "red"}"#, r#"{"title": "T", "colour": "red"}"#, "No."]
    {
        let of = wanted(&[r#"{"title": "T"}"#]);
        let (content, is_complete, notes) = kept(verdict(Stop, nothing, &of));
        assert_eq!((&content["title"], is_complete), (&json!("T"), false), "{nothing}");
        assert!(notes.contains("missing: points") && notes.contains(ADDED_NOTHING), "{nothing}: {notes}");
        // One that can be read has failed for good; any other is asked for again.
        let (reason, is_final) = refused(verdict(Stop, nothing, &header(of)));
        assert_eq!((is_final, nothing.contains("title")), (reason.contains("did so again"), is_final), "{reason}");
        assert!(reason.contains("lacks points"), "{nothing}: {reason}");
    }
}

#[test]
fn unusable_answer_to_a_header_repair_is_asked_again() {
    for garbage in ["I cannot help with JSON.", "[1, 2]", "{\"other\": 1}", "null", "{}"] {
        assert!(!refused(verdict(Stop, garbage, &header(wanted(&[])))).1, "{garbage}: as a first answer");
        let (reason, is_final) = refused(verdict(Stop, garbage, &header(wanted(&[r#"{"title": "T"}"#]))));
        assert!(!is_final && reason.contains("lacks points"), "{garbage}: {reason}");
    }
}

#[test]
fn a_header_that_was_never_asked_stays_as_it_is() {
    let (content, is_complete, notes) = kept(verdict(Stop, r#"{"title": "T"}"#, &last(header(wanted(&[])))));
    assert_eq!((content, is_complete, notes.as_str()), (json!({"title": "T"}), false, "missing: points"));
    // One that went on and lacks something at the cap was.
    let reason = refused(verdict(Stop, r#"wo"}"#, &last(header(wanted(&[r#"{"title": "T"#]))))).0;
    assert!(reason.contains("lacks points, and goes on no more"), "{reason}");
    // Asked for two and given one at the cap, it lacks what it was asked for.
    let shape = Some(json!({"title": "", "points": [], "notes": ""}));
    let of = Wanted { shape, ..last(header(wanted(&[r#"{"title": "T"}"#]))) };
    assert!(refused(verdict(Stop, r#"{"notes": "n"}"#, &of)).0.contains("lacks points"));
}

#[test]
fn at_the_cap_the_document_is_assembled_from_what_there_is() {
    let (content, is_complete, notes) = kept(verdict(Length, r#"ee", "c"#, &last(wanted(&[CUT]))));
    assert_eq!((content, is_complete), (json!({"title": "T", "points": ["a", "bee", "c"]}), false));
    assert!(notes.contains("cut off inside \"points.2\""), "{notes}");
}

#[test]
fn an_empty_object_says_that_only_brackets_were_missing() {
    for nothing in ["{}", r#"{"continuation_needed": false}"#, "```json\n{}\n```"] {
        for (cut, is_complete) in [
            (r#"{"title": "T", "points": ["a"]"#, true),
            (r#"{"title": "T", "points": ["a", "#, true),
            (r#"{"title": "T", "points": ["a"], "mo"#, false),
            (r#"{"title": "T", "points": ["a", 1"#, false),
            (r#"{"title": "T", "points": ["a", {"#, false),
            (r#"{"title": "T", "points": ["a"#, false),
            (r#"{"points": ["a"]"#, false),
        ] {
            assert_eq!(kept(verdict(Stop, nothing, &wanted(&[cut]))).1, is_complete, "{cut}");
        }
        assert!(!kept(verdict(Stop, r#""a"]"#, &wanted(&[r#"{"title": "T", "points": ["a"]"#]))).1);
    }
}

#[test]
fn a_model_that_says_it_has_not_finished_goes_on() {
    for more in [r#""continuation_needed": true"#, r#""resume_cursor": {"document_key": "note", "item": 2}"#] {
        let first = format!(r#"{{"title": "T", "points": ["a"], {more}}}"#);
        assert_eq!(verdict(Stop, &first, &wanted(&[])), Verdict::Continue(Why::Asked));
        let (content, is_complete, _) =
            kept(verdict(Stop, r#"{"points": ["b"], "continuation_needed": false}"#, &wanted(&[&first])));
        assert_eq!((content, is_complete), (json!({"title": "T", "points": ["a", "b"]}), true), "{more}");
        let again = r#"{"points": ["b"], "continuation_needed": true}"#;
        assert_eq!(verdict(Stop, again, &wanted(&[&first])), Verdict::Continue(Why::Asked));
        let (_, is_complete, notes) = kept(verdict(Stop, again, &last(wanted(&[&first]))));
        assert!(!is_complete && notes.contains("says that it has not finished"), "{notes}");
        let (_, is_complete, notes) = kept(verdict(Stop, r#"{"continuation_needed": true}"#, &wanted(&[&first])));
        assert!(!is_complete && notes.contains(ADDED_NOTHING), "{notes}");
    }
}

#[test]
fn a_model_that_would_go_on_with_another_document_is_done() {
    let elsewhere =
        r#"{"title": "T", "points": ["a"], "continuation_needed": true, "resume_cursor": {"document_key": "plan"}}"#;
    let other = r#"{"plan": {"title": "P", "points": ["p"]}, "continuation_needed": true}"#;
    for (before, words) in [
        (vec![], elsewhere),
        (vec![elsewhere], other),
        (vec![CUT], r#"", "c"], "resume_cursor": {"document_key": "plan"}}"#),
    ] {
        let (content, is_complete, notes) = kept(verdict(Stop, words, &wanted(&before)));
        assert!(is_complete && notes.contains("it would go on with \"plan\""), "{words}: {notes}");
        assert_eq!(content.as_object().unwrap().keys().collect::<Vec<_>>(), ["title", "points"], "{words}");
        assert_eq!((&content["title"], &content["points"][0]), (&json!("T"), &json!("a")), "{words}");
    }
}

#[test]
fn what_was_cut_off_and_never_completed_is_not_made_complete_by_what_is_added() {
    let (content, is_complete, notes) =
        kept(verdict(Stop, r#"{"points": ["a"]}"#, &wanted(&[r#"{"title": "The beginn"#])));
    assert_eq!((content, is_complete), (json!({"title": "The beginn", "points": ["a"]}), false));
    assert!(notes.contains("was not completed"), "{notes}");
}

#[test]
fn several_objects_of_a_first_answer_still_count_when_more_is_added() {
    let first = "{\"title\": \"T\"}\n{\"points\": [\"a\", \"b\"]}";
    let of =
        |before: &[&str]| Wanted { shape: Some(json!({"title": "", "points": [], "notes": ""})), ..wanted(before) };
    assert_eq!(verdict(Stop, first, &of(&[])), missing(&["notes"]));
    let whole = kept(verdict(Stop, r#"{"notes": "n"}"#, &of(&[first])));
    assert_eq!((whole.0, whole.1), (json!({"title": "T", "points": ["a", "b"], "notes": "n"}), true));
}

#[test]
fn notes_are_few_and_none_comes_twice() {
    let keys: serde_json::Map<String, Value> = (0..60).map(|n| (format!("key_{n}"), json!(""))).collect();
    let given: serde_json::Map<String, Value> = (0..60).map(|n| (format!("Key {n}"), json!(n))).collect();
    let of = Wanted { shape: Some(keys.into()), ..wanted(&[]) };
    let Verdict::Kept { notes, is_complete: true, .. } = verdict(Stop, &Value::from(given).to_string(), &of) else {
        panic!()
    };
    let distinct: std::collections::BTreeSet<&String> = notes.iter().collect();
    assert_eq!((notes.len(), distinct.len()), (40, 40));
}

#[test]
fn a_chain_that_cannot_go_on_is_assembled_with_the_reason() {
    let (content, is_complete, notes) = kept(assembled(&wanted(&[CUT, r#"ee"]"#]), "the prompt no longer fits"));
    assert_eq!((content, is_complete), (json!({"title": "T", "points": ["a", "bee"]}), false));
    assert!(notes.starts_with("the prompt no longer fits"), "{notes}");
    let told = assembled(&text(&["It was", " late"]), "no");
    assert_eq!(
        told,
        Verdict::Kept { content: Some("It was late".into()), is_complete: false, notes: vec!["no".into()] }
    );
    for nothing in [wanted(&[]), text(&[" "]), wanted(&["I would rather not."])] {
        let (reason, is_final) = refused(assembled(&nothing, "no"));
        assert!(is_final && reason.starts_with("no"), "{reason}");
    }
}

#[test]
fn a_reason_reads_back_from_its_word() {
    for why in [Why::Cut, Why::Asked, Why::Missing(vec!["a".into()]), Why::Interrupted] {
        assert_eq!(Why::of(why.as_str(), vec!["a".into()]), Some(why));
    }
    assert_eq!(Why::of("bored", vec![]), None);
}
