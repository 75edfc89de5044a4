//! The laws of JSON answers: the whole shape and nothing else, near its length, marked, wrapped, repaired.
//!
//! They decide nothing. Shapes are those of real steps and any that can be made up; never about single words of an
//! answer.

use super::*;
use std::collections::BTreeSet;

/// Whether an answer is what a shape asks for.
fn fits(asked: &Value, answer: &Value) -> bool {
    match (asked, answer) {
        (Value::String(_) | Value::Null, Value::String(text)) => !text.is_empty(),
        (Value::Number(_), Value::Number(number)) => number.as_u64().is_some_and(|n| (1..=5).contains(&n)),
        (Value::Bool(_), Value::Bool(_)) => true,
        (Value::Object(asked), Value::Object(answer)) if asked.is_empty() => (2..=3).contains(&answer.len()),
        (Value::Object(asked), Value::Object(answer)) => {
            asked.keys().eq(answer.keys()) && asked.iter().all(|(key, asked)| fits(asked, &answer[key]))
        }
        (Value::Array(asked), Value::Array(answer)) => match asked.as_slice() {
            [] => answer.len() > 1 && answer.iter().all(|item| fits(&json!(""), item)),
            [one] => !answer.is_empty() && answer.iter().all(|item| fits(one, item)),
            several => several.len() == answer.len() && several.iter().zip(answer).all(|(one, item)| fits(one, item)),
        },
        _ => false,
    }
}

fn header() -> Value {
    let entry = |key: &str| json!({"document_key": key, "content_to_include": {"executive_summary": "What and why", "risks": ["Each in a sentence"]}});
    json!({
        "system_materials": {"stage_rationale": "Why this stage", "validation_checkpoint": [], "quality_standards": []},
        "context_for_documents": [entry("business_case"), entry("feature_spec"), entry("success_metrics")],
        "review_metadata": {},
    })
}

fn asked(model: &str, content: Value, settings: Value) -> Request {
    Request { content: Some(content), ..critique(model, settings) }
}

fn object(request: &Request) -> Value {
    let text = said(request).0;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn repair(mut request: Request, missing: &str) -> Request {
    request.messages.push(message(Role::Assistant, said(&request).0));
    request
        .messages
        .push(message(Role::User, format!("Some keys are not there.\nMissing keys: {missing}\nSend them.")));
    request
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn words(value: &Value) -> usize {
    match value {
        Value::String(text) => text.split_whitespace().count(),
        Value::Array(items) => items.iter().map(words).sum(),
        Value::Object(fields) => fields.values().map(words).sum(),
        _ => 0,
    }
}

#[test]
fn a_list_of_names_is_an_object_with_those_keys() {
    let names = json!(["executive_summary", "risks", "analysis", "next \"step\"", "risks"]);
    let text = said(&asked("sim-a", names, json!({}))).0;
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value.as_object().unwrap().len(), 4);
    for key in ["executive_summary", "analysis", "next \"step\""] {
        assert!(value[key].is_string(), "{key}");
    }
    assert_eq!(value["risks"].as_array().unwrap().len(), 3);
    assert!(text.find("risks") < text.find("analysis"), "not in the order of the names");
}

#[test]
fn the_answer_has_the_whole_shape_and_says_who_wrote_it() {
    let features = json!({"features": [{"feature_name": "", "objective": "What for", "user_stories": [], "score": 1}],
                          "status_summary": {"done": [], "open": ["What is open"]}, "stack": {}, "is_final": true});
    for content in [header(), features] {
        for model in ["sim-a", "sim-b", "sim-c"] {
            let value = object(&asked(model, content.clone(), json!({})));
            assert!(fits(&content, &value), "{value:#}");
            assert!(value.to_string().contains(&format!("{model} takes up the request")), "{value:#}");
        }
    }
}

#[test]
fn a_header_names_its_documents_as_they_were_listed() {
    let documents = |value: &Value| -> Vec<String> {
        let entries = value["context_for_documents"].as_array().unwrap().iter();
        entries.map(|entry| entry["document_key"].as_str().unwrap().to_owned()).collect()
    };
    let three = ["business_case", "feature_spec", "success_metrics"];
    assert_eq!(documents(&object(&asked("sim-a", header(), json!({})))), three);
    let one = json!({"context_for_documents": [{"document_key": "essay", "notes": ""}]});
    assert_eq!(documents(&object(&asked("sim-a", one, json!({})))), ["essay"]);
    let plain = object(&asked("sim-a", json!({ "context_for_documents": three }), json!({})));
    assert_eq!(documents(&plain), three);
    assert!(plain["context_for_documents"][2]["content_to_include"]["summary"].is_string());
    let pattern = json!({"context_for_documents": [{"document_key": "The key of the document", "notes": ""}]});
    assert!(!documents(&object(&asked("sim-a", pattern, json!({})))).contains(&"The key of the document".to_owned()));
}

#[test]
fn json_answers_have_about_the_length_asked_for() {
    for content in [json!({"summary": ""}), json!(["a", "risks", "b"]), header()] {
        for length in [300, 1000, 5000] {
            let written = words(&object(&asked("sim-b", content.clone(), json!({ "answer_words": length }))));
            assert!((length * 3 / 4..length * 3 / 2).contains(&written), "{written} for {length}: {content}");
        }
    }
    let short = words(&object(&asked("sim-b", header(), json!({}))));
    assert!(short < 240, "{short} for 120");
}

#[test]
fn no_two_models_say_the_same_in_json() {
    let mut seen = BTreeSet::new();
    for model in ["sim-a", "sim-b", "sim-c"] {
        let value = object(&asked(model, json!({"a": "", "b": ""}), json!({})));
        for key in ["a", "b"] {
            assert!(seen.insert(value[key].as_str().unwrap().to_owned()), "{value}");
        }
    }
}

#[test]
fn a_marker_is_in_the_first_text_of_every_answer_and_of_every_entry() {
    let settings = json!({"marker": "⟦mark: one & two⟧"});
    let marked = |text: &str| text.contains("⟦mark: one & two⟧");
    assert!(marked(&said(&critique("sim-a", settings.clone())).0));
    let value = object(&asked("sim-a", json!({"a": [{"n": 1, "t": ""}], "b": ""}), settings.clone()));
    assert!(marked(value["a"][0]["t"].as_str().unwrap()) && !marked(value["b"].as_str().unwrap()), "{value}");
    let header = object(&asked("sim-a", header(), settings.clone()));
    for entry in header["context_for_documents"].as_array().unwrap() {
        assert!(marked(entry["content_to_include"]["executive_summary"].as_str().unwrap()), "{entry}");
    }
    let lacking = asked("sim-a", json!({"a": "", "b": ""}), json!({"marker": "⟦mark: one & two⟧", "omit_keys": ["a"]}));
    assert!(marked(&said(&lacking).0));
    assert!(marked(&said(&repair(lacking, "a")).0));
    assert!(marked(&said(&critique("sim-a", json!({"marker": "⟦mark: one & two⟧", "refuse": true}))).0));
    assert!(!marked(&said(&critique("sim-a", json!({}))).0));
}

#[test]
fn an_automatic_marker_is_that_of_the_call() {
    let mark = |request: &Request| {
        let text = said(request).0;
        let start = text.find("[sim").unwrap_or_else(|| panic!("{text}"));
        text[start..=start + text[start..].find(']').unwrap()].to_owned()
    };
    let first = asked("sim-a", json!({"a": "", "b": ""}), json!({"marker": "auto", "omit_keys": ["b"]}));
    let known = mark(&first);
    assert_eq!(known.len(), "[sim-a/3f2a91c0]".len());
    assert_eq!(mark(&Request { call_no: 2, ..first.clone() }), known);
    assert_eq!(mark(&repair(first.clone(), "b")), known);
    let mut others = BTreeSet::from([known]);
    for n in 0..500 {
        let mut other = first.clone();
        other.messages[1].content.push_str(&format!("{n}"));
        assert!(others.insert(mark(&other)));
    }
    assert!(others.insert(mark(&Request { model: "sim-b".into(), ..first.clone() })));
    assert!(others.insert(mark(&Request { content: Some(json!({"a": ""})), ..first })));
}

#[test]
fn what_a_model_leaves_out_it_supplies_when_asked() {
    let settings = json!({"omit_keys": ["review_metadata", "context_for_documents[feature_spec]"]});
    let first = asked("sim-b", header(), settings);
    let value = object(&first);
    assert_eq!(keys(&value), ["system_materials", "context_for_documents"]);
    assert_eq!(value["context_for_documents"].as_array().unwrap().len(), 2);
    let missing = "review_metadata, context_for_documents[feature_spec]";
    let supplied = object(&repair(first.clone(), missing));
    assert_eq!(keys(&supplied), ["review_metadata", "context_for_documents"]);
    let entries = supplied["context_for_documents"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["document_key"], "feature_spec");
    assert!(fits(&header()["context_for_documents"][1]["content_to_include"], &entries[0]["content_to_include"]));
    assert!(supplied.to_string().contains("sim-b"));
    let stubborn = json!({"omit_keys": ["review_metadata"], "omit_always": true});
    assert_eq!(object(&repair(asked("sim-b", header(), stubborn), "review_metadata")), json!({}));
    let unknown = object(&repair(first, "surprise, risks"));
    assert!(unknown["surprise"].is_string() && unknown["risks"].is_array(), "{unknown}");
}

#[test]
fn a_cut_repair_goes_on_where_it_stopped() {
    let first = repair(asked("sim-a", json!({"a": "", "b": ""}), json!({"omit_keys": ["b"]})), "b");
    let whole = said(&first).0;
    let mut cut = Request { max_output_tokens: 20, ..first.clone() };
    let (begun, finish, _) = said(&cut);
    assert_eq!(finish, FinishReason::Length);
    cut.messages.push(message(Role::Assistant, begun.clone()));
    cut.messages.push(message(Role::User, "Go on."));
    cut.max_output_tokens = 10_000;
    assert_eq!(begun + &said(&cut).0, whole);
}

#[test]
fn json_is_wrapped_and_spoilt_as_the_settings_say() {
    let content = json!({"summary": "", "risks": []});
    let bare = object(&asked("sim-a", content.clone(), json!({})));
    let wrapped = |wrap: &str| said(&asked("sim-a", content.clone(), json!({ "wrap": wrap }))).0;
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(parsed(&wrapped("content")), json!({ "content": bare }));
    assert_eq!(parsed(&wrapped("document_key")), json!({ "antithesis": bare }));
    let fenced = wrapped("fence");
    assert_eq!(parsed(fenced.strip_prefix("```json\n").unwrap().strip_suffix("```\n").unwrap()), bare);
    let prose = wrapped("prose");
    assert!(!prose.starts_with('{') && !prose.trim_end().ends_with('}'));
    assert_eq!(parsed(&prose[prose.find('{').unwrap()..=prose.rfind('}').unwrap()]), bare);
    assert_eq!(said(&critique("sim-a", json!({"wrap": "fence"}))), said(&critique("sim-a", json!({}))));
    let mut spoilt = asked("sim-a", content, json!({"malformed_json": 1}));
    let (text, finish, _) = said(&spoilt);
    assert!(serde_json::from_str::<Value>(&text).is_err());
    assert_eq!(finish, FinishReason::Stop);
    spoilt.call_no = 2;
    assert_eq!(object(&spoilt), bare);
}

fn any_shape() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!({})),
        Just(json!([])),
        any::<bool>().prop_map(|flag| json!(flag)),
        any::<i8>().prop_map(|number| json!(number)),
        any::<String>().prop_map(|hint| json!(hint)),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..4).prop_map(Value::Array),
            proptest::collection::btree_map("[a-e_s\"é]{0,6}", inner, 1..5).prop_map(|fields| json!(fields)),
        ]
    })
}

proptest! {
    #[test]
    fn any_shape_is_answered_in_that_shape(
        fields in proptest::collection::btree_map("[a-e\\[\\]]{1,4}", any_shape(), 1..5),
        words in 0..500_usize,
        missing in "([a-e\\[\\]`\"., ]{0,12},){0,4}",
    ) {
        let content = json!(fields);
        let first = asked("sim-c", content.clone(), json!({"answer_words": words, "marker": "auto"}));
        let value = object(&first);
        prop_assert!(fits(&content, &value), "{}\n{}", content, value);
        let missing = format!("x, {missing}");
        prop_assert!(object(&repair(first, &missing)).get("x").is_some());
    }
}
