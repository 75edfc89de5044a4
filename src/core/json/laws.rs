//! The laws of reading JSON: what is clear is read, what is cut is told apart from what is broken, and nothing takes
//! long.
//!
//! They decide nothing; they hold [`super`] to what its header says, on texts as models write them and on texts chosen
//! to break it.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::time::{Duration, Instant};

fn value(text: &str) -> Value {
    read(text).unwrap_or_else(|problem| panic!("{text}: {problem}")).value
}

fn notes(text: &str) -> Vec<String> {
    read(text).unwrap().notes
}

#[test]
fn plain_json_is_read_without_a_note() {
    let found = read(" {\"a\": [1, -2.5, 1e3, true, null, \"x\\n\\u00e9\\ud83d\\ude00\"], \"b\": {}}\n").unwrap();
    assert_eq!(found.value, json!({"a": [1, -2.5, 1000.0, true, null, "x\né😀"], "b": {}}));
    assert_eq!(found.notes, Vec::<String>::new());
}

#[test]
fn what_is_clear_is_forgiven_and_noted() {
    for (text, expected, note) in [
        ("```json\n{\"a\": 1}\n```", json!({"a": 1}), "code fence"),
        ("~~~\n{\"a\": 1}\n~~~", json!({"a": 1}), "code fence"),
        ("Sure! Here it is:\n{\"a\": 1}\nAnything else?", json!({"a": 1}), "text around the JSON"),
        ("\u{feff}{\"a\": 1}", json!({"a": 1}), "byte order mark"),
        ("{\"a\": 1}}", json!({"a": 1}), "text around the JSON"),
        ("{\"a\": [1, 2,], }", json!({"a": [1, 2]}), "trailing comma"),
        ("{\"a\": [1,, 2]}", json!({"a": [1, 2]}), "stray comma"),
        ("{\"a\": \"b\"\n\"c\": 1}", json!({"a": "b", "c": 1}), "missing comma"),
        ("{\"a\": \"one\n\ttwo\"}", json!({"a": "one\n\ttwo"}), "line end or control character inside a string"),
        ("{\"a\": \"the \"fast\" path\"}", json!({"a": "the \"fast\" path"}), "quotation mark inside a string"),
        ("{\"a\": \"\\d+ \\'\"}", json!({"a": "\\d+ \\'"}), "unknown escape"),
        ("{\"a\": \"\\u0000\\ud800\"}", json!({"a": "\u{fffd}\u{fffd}"}), "impossible character"),
        ("{\"a\": NaN, \"b\": -Infinity}", json!({"a": null, "b": null}), "not a number: null"),
        (
            "{\"a\": 1e999, \"b\": {\"c\": -2e+400}}",
            json!({"a": "1e999", "b": {"c": "-2e+400"}}),
            "number out of range: kept as text",
        ),
        ("{\"a\": True, \"b\": None}", json!({"a": true, "b": null}), "Python's spelling of a constant"),
        ("{\"a\": 1, // one\n \"b\": 2 /* two */}", json!({"a": 1, "b": 2}), "comment"),
        ("\"{\\\"a\\\": 1}\"", json!({"a": 1}), "JSON inside a string"),
        ("{\"a\": 1, \"a\": 2}", json!({"a": 2}), "a key given twice"),
        ("{\"a\": 1, \"a\": \"\"}", json!({"a": 1}), "a key given twice"),
    ] {
        assert_eq!(value(text), expected, "{text}");
        assert!(notes(text).iter().any(|n| n == note), "{text}: {:?}", notes(text));
    }
}

#[test]
fn of_several_values_the_longest_object_is_taken_and_all_are_given() {
    let text = "As in [1], {\"draft\": 1} becomes\n{\"final\": \"and longer\"}";
    assert_eq!(value(text), json!({"final": "and longer"}));
    assert!(notes(text).contains(&"2 other JSON values left out".to_owned()));
    assert_eq!(all(text).unwrap().len(), 3);
    assert_eq!(value("{not json} but [1, 2]"), json!([1, 2]));
}

#[test]
fn what_is_no_json_is_nothing() {
    for text in
        ["", " ", "No.", "{", "[[[", "{]", "{oops}", "\"text\"", "12", "{\"a\" 1}", "{\"a\": 1 \"b\" 2}", "{a: 1}"]
    {
        assert_eq!(read(text), Err(Unreadable::Nothing), "{text}");
        assert_eq!(close(text), None, "{text}");
    }
    // What stands inside a broken object is no answer.
    assert_eq!(read("{\"a\": {\"b\": {}, \"c\": oops}}"), Err(Unreadable::Nothing));
}

#[test]
fn what_is_cut_is_told_and_can_be_closed() {
    for (text, expected) in [
        ("{\"a\": \"one tw", json!({"a": "one tw"})),
        ("{\"a\": [\"one\", \"tw", json!({"a": ["one", "tw"]})),
        ("{\"a\": 1, \"b", json!({"a": 1})),
        ("{\"a\": 1, \"b\"", json!({"a": 1})),
        ("{\"a\": 1, \"b\":", json!({"a": 1})),
        ("{\"a\": 1, \"b\": tr", json!({"a": 1, "b": null})),
        ("{\"a\": \"x\\", json!({"a": "x"})),
        ("{\"a\": \"x\\u00", json!({"a": "x"})),
        ("{\"a\": {\"b\": [{\"c\": 1}", json!({"a": {"b": [{"c": 1}]}})),
        ("{\"a\": [1, 2],", json!({"a": [1, 2]})),
        ("```json\n{\"a\": [1, 2", json!({"a": [1, 2]})),
    ] {
        let Err(Unreadable::Cut { partial, .. }) = read(text) else { panic!("{text}: {:?}", read(text)) };
        assert_eq!(partial, expected, "{text}");
        assert_eq!(close(text), Some(expected));
    }
    assert_eq!(close("{\"a\": 1}"), Some(json!({"a": 1})));
}

#[test]
fn depth_is_bounded() {
    assert_eq!(read(&"[".repeat(100_000)), Err(Unreadable::TooDeep));
    assert_eq!(read(&"{\"a\":".repeat(100_000)), Err(Unreadable::TooDeep));
    let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    assert!(read(&deep(DEEPEST)).is_ok());
    assert!(serde_json::from_str::<Value>(&deep(DEEPEST)).is_ok());
    assert!(read(&format!("{}1{}", "\"\\\"".repeat(1000), "\\\"\"".repeat(1000))).is_err());
}

#[test]
fn every_text_is_read_in_linear_time() {
    const SIZE: usize = 1 << 20;
    for pattern in [
        "{",
        "[",
        "[1,",
        "{\"",
        "{\"a\":",
        "{\"a\":[",
        "\"",
        "\" ",
        "[\"",
        "\\\"",
        "{\"a\":\"",
        "[{}",
        "/*",
        "[//",
        "[\"\\u",
        "]",
        "[1]",
        "{\"a\":1}",
        "[1,[1,1,x",
    ] {
        let began = Instant::now();
        let _ = read(&pattern.repeat(SIZE / pattern.len()));
        let _ = read(&format!("[{}", pattern.repeat(SIZE / pattern.len())));
        assert!(began.elapsed() < Duration::from_secs(10), "{pattern:?} took {:?}", began.elapsed());
    }
}

/// Any JSON of moderate size; a database cannot hold a zero character, so there is none.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[^\\x00]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[^\\x00]{0,8}", inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_is_written_is_read_back(value in any_value(), pretty in any::<bool>(), fence in any::<bool>(), prose in "[a-z .,:!\n]{0,30}") {
        let value = json!({"root": value});
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let text = if fence { format!("```json\n{text}\n```") } else { text };
        let found = read(&format!("{prose}\n{text}\n{prose}")).unwrap();
        prop_assert_eq!(found.value, value);
    }

    #[test]
    fn no_text_makes_it_fall(text in any::<String>(), json in "[\\[\\]{}\",:\\\\/ a-f0-9u\n.é-]{0,80}") {
        for text in [text, json] {
            let _ = (read(&text), close(&text));
        }
    }

    #[test]
    fn wherever_it_is_cut_the_beginning_is_kept(value in any_value(), at in any::<prop::sample::Index>()) {
        let text = json!({"first": "kept", "rest": value}).to_string();
        let cut = text.floor_char_boundary(18 + at.index(text.len() - 18));
        match read(&text[..cut]) {
            Err(Unreadable::Cut { partial, .. }) => prop_assert_eq!(&partial["first"], "kept"),
            other => prop_assert!(false, "{:?}", other),
        }
    }
}
