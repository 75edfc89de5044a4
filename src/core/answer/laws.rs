//! The laws of reading an answer: what is clear is accepted, nothing written is lost, what is missing is named.
//!
//! They decide nothing; they hold [`super`] to what its header says. Real answers of a model are read in
//! `tests/core/answers.rs`.

use super::*;
use crate::json::laws::any_value;
use proptest::prelude::*;
use serde_json::json;

fn shape() -> Value {
    json!({"summary": "what it is about", "strengths": ["one each"], "features": [{"feature_name": "", "stories": []}],
        "proposal": {"lineage_key": "", "source_model": ""}, "score": 1})
}

fn content() -> Value {
    json!({"summary": "Short.", "strengths": ["a", "b"], "features": [{"feature_name": "Notes", "stories": ["s"]}],
        "proposal": {"lineage_key": "l", "source_model": "m"}, "score": 4})
}

fn accept(text: &str) -> Answer {
    read(text, Some(&shape()), Some("business_case")).unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

#[test]
fn an_answer_as_asked_is_taken_as_it_is() {
    let answer = accept(&content().to_string());
    assert_eq!(answer, Answer { content: content(), missing: vec![], notes: vec![], continuation_needed: false });
}

#[test]
fn wrappers_are_taken_off() {
    let inner = content();
    let string = inner.to_string();
    for wrapped in [
        json!({"content": inner}),
        json!({"business_case": inner}),
        json!({"businessCase": {"content": inner}}),
        json!({"result": inner}),
        json!({"status": "ok", "data": inner}),
        json!({"documents": [{"document_key": "feature_spec", "content": {"summary": "no"}}, {"document_key": "business_case", "content": inner}]}),
        json!({"documents": {"business_case": inner}}),
        json!({"context_for_documents": [{"document_key": "Business Case", "content_to_include": inner}]}),
        json!([inner]),
        json!({"content": string}),
        json!(string),
    ] {
        let answer = accept(&wrapped.to_string());
        assert!(answer.missing.is_empty(), "{wrapped}");
        for (key, value) in content().as_object().unwrap() {
            assert_eq!(&answer.content[key], value, "{wrapped}");
        }
        assert!(!answer.notes.is_empty(), "{wrapped}");
    }
}

#[test]
fn what_stands_beside_the_wrapper_stays_but_other_documents_do_not() {
    let answer =
        accept(r#"{"document_key": "x", "content": {"summary": "s", "strengths": []}, "score": 3, "title": "T"}"#);
    assert_eq!(answer.content, json!({"summary": "s", "strengths": [], "score": 3, "title": "T"}));
    assert_eq!(answer.missing, ["features", "proposal"]);
    let answer = accept(r#"{"content": {"summary": "inner"}, "summary": "outer"}"#);
    assert_eq!(answer.content["summary"], "outer", "as much is found outside, and so nothing is unwrapped");
    let answer = accept(r#"{"content": {"summary": "inner", "score": 1}, "summary": "outer"}"#);
    assert!(answer.notes.iter().any(|note| note == "another \"summary\" beside the answer left out"));
    let answer = accept(r#"{"business_case": {"summary": "s"}, "feature_spec": {"features": []}}"#);
    assert_eq!(answer.content, json!({"summary": "s"}));
    assert!(answer.notes.iter().any(|note| note == "other document \"feature_spec\" left out"));
}

#[test]
fn keys_get_their_names_and_their_order_and_the_rest_comes_behind() {
    let answer = accept(
        r#"{"more": 1, "Score": 2, "Strength": ["x"], "Features": [{"extra": 0, "featureName": "N", "Stories": []}],
            "proposal": {"source_model_slug": "m", "lineage-key": "l"}, "Executive summary": "s"}"#,
    );
    let expected = r#"{"summary":"s","strengths":["x"],"features":[{"feature_name":"N","stories":[],"extra":0}],"proposal":{"lineage_key":"l","source_model":"m"},"score":2,"more":1}"#;
    assert_eq!(answer.content.to_string(), expected);
}

#[test]
fn one_type_for_another_where_nothing_is_lost() {
    let one = |key: &str, value: Value| accept(&json!({"summary": "s", key: value}).to_string()).content[key].clone();
    assert_eq!(one("strengths", json!("prose, and more")), json!(["prose, and more"]));
    assert_eq!(one("strengths", json!("- a\n- b\n  goes on\n\n- c")), json!(["a", "b\n  goes on", "c"]));
    assert_eq!(one("strengths", json!("1. a\n2) b")), json!(["a", "b"]));
    assert_eq!(one("strengths", json!("Intro:\n- a")), json!(["Intro:\n- a"]));
    assert_eq!(one("strengths", json!("[\"a\"]")), json!(["a"]));
    assert_eq!(one("strengths", json!([{"odd": 1}])), json!([{"odd": 1}]));
    assert_eq!(one("strengths", json!({"odd": 1})), json!({"odd": 1}));
    assert_eq!(one("summary", json!(["a", "b\nc"])), json!("- a\n- b\n  c"));
    assert_eq!(one("summary", json!(["only"])), json!("only"));
    assert_eq!(one("summary", json!(["1. a", "2. b"])), json!("1. a\n2. b"));
    assert_eq!(one("summary", json!({"x": 1})), json!({"x": 1}));
    assert_eq!(one("summary", json!([{"x": 1}])), json!([{"x": 1}]));
    assert_eq!(one("summary", json!(5)), json!("5"));
    assert_eq!(one("score", json!("4")), json!(4));
    assert_eq!(one("score", json!("4 of 5")), json!("4 of 5"));
    assert_eq!(
        one("features", json!({"Notes": {"stories": ["s"]}})),
        json!([{"feature_name": "Notes", "stories": ["s"]}])
    );
    assert_eq!(one("features", json!({"feature_name": "N"})), json!([{"feature_name": "N"}]));
    assert_eq!(one("features", json!("a text")), json!(["a text"]));
    assert_eq!(one("features", json!(["{\"name\": \"N\"}"])), json!([{"feature_name": "N"}]));
    assert_eq!(one("proposal", json!([{"lineage_key": "l"}])), json!({"lineage_key": "l"}));
    assert_eq!(one("proposal", json!("{\"lineage_key\": \"l\"}")), json!({"lineage_key": "l"}));
}

#[test]
fn a_bare_list_is_the_list_that_was_asked_for() {
    let shape = json!({"nodes": [{"path": "", "title": ""}]});
    let list = json!([{"path": "a", "title": "A"}, {"path": "b", "title": "B"}]);
    let answer = read(&list.to_string(), Some(&shape), None).unwrap();
    assert_eq!(answer.content, json!({"nodes": list}));
}

#[test]
fn a_shape_may_be_a_list_of_keys_or_nothing() {
    let answer = read(r#"{"B": 1, "a": {}}"#, Some(&json!(["a", "b", "c"])), None).unwrap();
    assert_eq!((answer.content.to_string(), answer.missing), (r#"{"a":{},"b":1}"#.to_owned(), vec!["c".to_owned()]));
    let answer = read(r#"{"content": {"x": 1}, "stop_reason": "complete"}"#, None, None).unwrap();
    assert_eq!((answer.content, answer.missing.len()), (json!({"x": 1}), 0));
    let header =
        r#"{"system_materials": {}, "context_for_documents": [{"document_key": "a", "content_to_include": {}}]}"#;
    let answer = read(header, None, Some("header_context")).unwrap();
    assert_eq!((answer.content.to_string().len(), answer.notes.len()), (header.replace(' ', "").len(), 0));
    assert_eq!(read(r#"{"x": {"y": 1}}"#, Some(&json!({})), None).unwrap().content, json!({"x": {"y": 1}}));
}

#[test]
fn the_control_keys_are_heard_and_taken_out() {
    let heard = |text: &str| {
        let answer = accept(text);
        assert!(CONTROL.iter().all(|key| answer.content.get(key).is_none()), "{text}");
        answer.continuation_needed
    };
    assert!(heard(r#"{"summary": "s", "continuation_needed": true}"#));
    assert!(heard(r#"{"content": {"summary": "s"}, "continuation_needed": "true", "stop_reason": "x"}"#));
    assert!(heard(r#"{"content": {"summary": "s", "resume_cursor": {"at": 1}}}"#));
    assert!(!heard(r#"{"content": {"summary": "s"}, "continuation_needed": false, "resume_cursor": {"at": 1}}"#));
    assert!(!heard(r#"{"summary": "s", "resume_cursor": null}"#));
}

#[test]
fn a_header_has_an_entry_for_every_document() {
    let shape = json!({"system_materials": {"stage_rationale": ""}, "context_for_documents": [
        {"document_key": "business_case", "content_to_include": {"a": "", "b": []}},
        {"document_key": "feature_spec", "content_to_include": {"features": []}}]});
    let header = |entries: Value| {
        let text = json!({"system_materials": {}, "context_for_documents": entries}).to_string();
        read(&text, Some(&shape), Some("header_context")).unwrap()
    };
    let answer =
        header(json!([{"document_key": "other"}, {"document_key": "Business-Case", "content": {"B": "x", "a": "y"}}]));
    assert_eq!(answer.missing, ["context_for_documents[feature_spec]"]);
    let expected =
        r#"[{"document_key":"business_case","content_to_include":{"a":"y","b":["x"]}},{"document_key":"other"}]"#;
    assert_eq!(answer.content["context_for_documents"].to_string(), expected);
    let keyed =
        header(json!({"feature_spec": {"features": ["f"]}, "business_case": {"content_to_include": {"a": "y"}}}));
    assert_eq!(keyed.missing, Vec::<String>::new());
    let plain = header(
        json!([{"document_key": "feature_spec", "features": ["f"]}, {"document_key": "business_case", "a": "y"}]),
    );
    assert_eq!(plain.content["context_for_documents"], keyed.content["context_for_documents"]);
    let repaired = merge(
        answer.content,
        header(json!([{"document_key": "feature_spec", "content": {"features": ["f"]}}])).content,
    );
    let repaired = read(&repaired.to_string(), Some(&shape), None).unwrap();
    assert_eq!(repaired.missing, Vec::<String>::new());
    assert_eq!(repaired.content["context_for_documents"][0]["content_to_include"]["a"], "y");
}

#[test]
fn of_several_objects_the_one_that_fits_is_taken_and_completed_from_the_others() {
    let text = "Like {\"x\": 1, \"long\": \"and of no use to anybody\"}:\n{\"summary\": \"s\", \"score\": 1}";
    let answer = accept(text);
    assert_eq!(answer.content, json!({"summary": "s", "score": 1}));
    let answer = accept(
        "{\"summary\": \"s\", \"score\": 1, \"more\": \"than the other\"}\n{\"strengths\": [\"a\"], \"score\": 2}",
    );
    assert_eq!(answer.content, json!({"summary": "s", "strengths": ["a"], "score": 1, "more": "than the other"}));
}

#[test]
fn what_cannot_be_used_says_why() {
    let refuse = |text: &str| read(text, Some(&shape()), Some("business_case")).unwrap_err();
    assert_eq!(refuse("I cannot do that.").to_string(), "the answer has no JSON in it");
    assert_eq!(refuse("[1, 2]"), Unusable::NoObject);
    let said = "nothing that was asked for is in the answer: it has \"x\", and \"summary\", \"strengths\", \"features\", \"proposal\", \"score\" was wanted";
    assert_eq!(refuse("{\"x\": 1}").to_string(), said);
    assert!(matches!(refuse("{\"summary\": \"s"), Unusable::Json(Unreadable::Cut { .. })));
    assert!(matches!(refuse(&"[".repeat(100_000)), Unusable::Json(Unreadable::TooDeep)));
    assert_eq!(accept("{\"summary\": null, \"score\": 1}").missing, ["summary", "strengths", "features", "proposal"]);
}

#[test]
fn a_whole_answer_is_not_spoilt_by_what_was_begun_behind_it() {
    let answer = accept(&format!("{}\n{{\"another\": [1, ", content()));
    assert_eq!(answer.content, content());
    assert!(read("{\"summary\": \"s\"}\n{\"strengths\": [\"a", Some(&shape()), None).is_err());
}

#[test]
fn merging_fills_what_is_empty_and_replaces_nothing() {
    let first = json!({"a": "kept", "b": null, "c": "", "d": [], "e": {"x": 1, "y": null}, "f": ["kept"]});
    let second =
        json!({"a": "no", "b": 1, "c": "c", "d": ["d"], "e": {"x": 2, "y": 3, "z": 4}, "f": ["no"], "g": "new"});
    let expected =
        json!({"a": "kept", "b": 1, "c": "c", "d": ["d"], "e": {"x": 1, "y": 3, "z": 4}, "f": ["kept"], "g": "new"});
    assert_eq!(merge(first, second), expected);
    assert_eq!(merge(json!({"a": ""}), json!({"a": null})), json!({"a": ""}));
}

/// Every text in a value.
fn texts(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => out.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Value::Object(fields) => fields.values().for_each(|item| texts(item, out)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn whatever_fits_is_read_back_through_wrapping_fence_and_prose(
        summary in "[^\\x00]{1,20}", extra in any_value(), way in 0..5, prose in "[a-z .,\n]{0,20}",
    ) {
        let mut content = content();
        content["summary"] = json!(summary);
        content["extra"] = extra;
        let wrapped = match way {
            0 => content.clone(),
            1 => json!({"content": content}),
            2 => json!({"business_case": content}),
            3 => json!({"documents": [{"document_key": "business_case", "content": content}]}),
            _ => json!({"content": content.to_string()}),
        };
        let answer = accept(&format!("{prose}\n```json\n{wrapped}\n```\n{prose}"));
        prop_assert_eq!(&answer.content, &content);
        let order: Vec<&String> = answer.content.as_object().unwrap().keys().collect();
        prop_assert_eq!(order, ["summary", "strengths", "features", "proposal", "score", "extra"]);
    }

    #[test]
    fn whatever_is_answered_nothing_is_lost_and_reading_again_changes_nothing(
        values in prop::collection::vec(any_value(), 5),
    ) {
        let shape = shape();
        let keys: Vec<&String> = shape.as_object().unwrap().keys().collect();
        let given: Map<String, Value> = keys.iter().map(|key| (*key).clone()).zip(values).collect();
        let answer = accept(&Value::Object(given.clone()).to_string());
        let (mut before, mut after) = (Vec::new(), Vec::new());
        texts(&Value::Object(given), &mut before);
        texts(&answer.content, &mut after);
        let after = after.concat();
        // Only blank texts and the marks of lists may go; a number in quotes becomes one where one is wanted.
        let lost = |text: &&String| !text.trim().is_empty() && list::split(text).is_none() && !after.contains(text.trim())
            && !text.contains(['\n', '{', '[']) && text.trim().parse::<f64>().is_err();
        prop_assert_eq!(before.iter().find(lost), None);
        let again = accept(&answer.content.to_string());
        prop_assert_eq!(&again.content, &answer.content);
        prop_assert_eq!(again.missing, answer.missing);
    }

    #[test]
    fn merging_keeps_the_first(first in any_value(), second in any_value()) {
        let merged = merge(first.clone(), second);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        texts(&first, &mut before);
        texts(&merged, &mut after);
        prop_assert!(before.iter().all(|text| text.trim().is_empty() || after.contains(text)));
    }

    #[test]
    fn no_text_makes_it_fall(text in any::<String>(), json in "[\\[\\]{}\",: a-f0-9\n-]{0,80}", shape in any_value()) {
        for text in [text, json] {
            let _ = read(&text, Some(&shape), Some("a"));
        }
    }
}
