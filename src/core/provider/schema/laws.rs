//! The laws of schemas: every provider takes them, and what fits them is what the step asked for.
//!
//! They decide nothing; they hold [`super`] to what its header says, on any content and on that of the shipped
//! processes.

use super::*;
use crate::answer::{Verdict, Wanted, verdict};
use crate::json::laws::any_value;
use crate::provider::FinishReason;
use proptest::prelude::*;
use std::path::Path;

/// Why a schema is not in the words that every provider takes.
fn fault(schema: &Value, level: usize) -> Option<String> {
    let fields = schema.as_object()?;
    let has_only = |allowed: &[&str]| fields.keys().all(|key| allowed.contains(&key.as_str()));
    let is_sound = match schema["type"].as_str() {
        Some("string") => {
            let words = schema.get("enum").map(|words| words.as_array().unwrap());
            let are_sound = |words: &Vec<Value>| {
                let distinct: HashSet<&str> =
                    words.iter().filter_map(Value::as_str).filter(|w| !w.is_empty()).collect();
                !words.is_empty() && distinct.len() == words.len() && words.len() <= WORDS
            };
            let description = schema.get("description").is_none_or(|text| text.as_str().is_some_and(|t| !t.is_empty()));
            has_only(&["type", "description", "enum"]) && words.is_none_or(are_sound) && description
        }
        Some("number" | "boolean") => has_only(&["type"]),
        Some("array") => {
            if let Some(fault) = fault(&schema["items"], level + 1) {
                return Some(fault);
            }
            has_only(&["type", "items"]) && schema["items"].is_object() && level <= 10
        }
        Some("object") => {
            let properties = schema["properties"].as_object()?;
            if let Some(fault) = properties.values().find_map(|property| fault(property, level + 1)) {
                return Some(fault);
            }
            let keys: Vec<&str> = properties.keys().map(String::as_str).collect();
            has_only(&["type", "properties", "required", "additionalProperties"])
                && !keys.is_empty()
                && schema["required"] == json!(keys)
                && schema["additionalProperties"] == json!(false)
                && properties.values().all(Value::is_object)
                && level <= 10
        }
        _ => false,
    };
    if is_sound { None } else { Some(format!("level {level}: {schema}")) }
}

#[track_caller]
fn sound(content: &Value) -> Value {
    let schema = schema(content);
    assert_eq!(schema["type"], "object", "{content}");
    assert_eq!(fault(&schema, 1), None, "{content}");
    schema
}

/// Something that fits a schema, with so many items in each list.
fn instance(schema: &Value, items: usize, text: &str) -> Value {
    match schema["type"].as_str() {
        Some("string") => schema.get("enum").map_or_else(|| json!(text), |words| words[0].clone()),
        Some("number") => json!(items),
        Some("boolean") => json!(items > 0),
        Some("array") => (0..items).map(|_| instance(&schema["items"], items, text)).collect(),
        _ => {
            let fields = schema["properties"].as_object().unwrap().iter();
            Value::Object(fields.map(|(key, schema)| (key.clone(), instance(schema, items, text))).collect())
        }
    }
}

fn judged(content: &Value, answer: &Value, document_key: Option<&str>) -> Verdict {
    let wanted = Wanted {
        shape: Some(content.clone()),
        document_key: document_key.map(str::to_owned),
        may_continue: true,
        ..Wanted::default()
    };
    verdict(FinishReason::Stop, &answer.to_string(), &wanted)
}

/// The content of an answer that is judged to be whole.
#[track_caller]
fn accepted(content: &Value, answer: &Value, document_key: Option<&str>) -> Value {
    match judged(content, answer, document_key) {
        Verdict::Kept { content: Some(content), is_complete: true, .. } => serde_json::from_str(&content).unwrap(),
        other => panic!("{content}\n{answer}\n{other:?}"),
    }
}

#[test]
fn each_way_of_writing_has_its_schema() {
    let content = json!({
        "summary": "what it is", "blank": " ", "nothing": null, "score": 0, "done": false,
        "points": [], "risks": ["one each"], "steps": [{"title": "short", "notes": ["n"]}],
        "part": {"z": "", "a": 1}, "hints": ["one", "two", "one"],
    });
    let text = json!({"type": "string"});
    let object = |properties: Value| {
        let required: Vec<&String> = properties.as_object().unwrap().keys().collect();
        json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
    };
    let list = |items: Value| json!({"type": "array", "items": items});
    let hint = |hint: &str| json!({"type": "string", "description": hint});
    let expected = object(json!({
        "summary": hint("what it is"), "blank": text, "nothing": text, "score": {"type": "number"}, "done": {"type": "boolean"},
        "points": list(text.clone()), "risks": list(hint("one each")),
        "steps": list(object(json!({"title": hint("short"), "notes": list(hint("n"))}))),
        "part": object(json!({"z": text, "a": {"type": "number"}})), "hints": list(hint("one\ntwo")),
    }));
    // As texts, because the order counts.
    assert_eq!(sound(&content).to_string(), expected.to_string());
    let names = json!(["title", "next_steps", 3, "title"]);
    assert_eq!(sound(&names), object(json!({"title": text, "next_steps": list(text.clone())})));
}

#[test]
fn the_entries_of_a_header_are_each_required_and_come_back_as_a_list() {
    let content = json!({"system_materials": {"notes": ""}, "context_for_documents": [
        {"document_key": "essay", "content_to_include": {"title": "a name", "more": {}}},
        {"document_key": "note", "content_to_include": ["points"]},
        {"document_key": "letter"},
    ]});
    let entries = &sound(&content)["properties"]["context_for_documents"];
    assert_eq!(entries["required"], json!(["essay", "note", "letter"]));
    let mut answer = instance(&schema(&content), 1, "t");
    answer["context_for_documents"]["essay"]["content_to_include"]["more"] = json!("{\"x\": [1]}");
    let kept = accepted(&content, &answer, Some("header_context"));
    let expected = json!([
        {"document_key": "essay", "content_to_include": {"title": "t", "more": {"x": [1]}}},
        {"document_key": "note", "content_to_include": {"points": ["t"]}},
        {"document_key": "letter", "content_to_include": "t"},
    ]);
    assert_eq!(kept["context_for_documents"], expected);
}

#[test]
fn entries_for_documents_elsewhere_are_a_list_with_the_keys_to_choose_from() {
    let content = json!({"parts": [{"document_key": "a", "n": 1}, {"document_key": "b", "n": 1}], "one": [{"document_key": "a"}],
        "pattern": [{"document_key": "the key of a document"}], "context_for_documents": ["x", "y"]});
    let parts = &sound(&content)["properties"];
    let key = |name: &str| parts[name]["items"]["properties"]["document_key"].clone();
    assert_eq!(key("parts"), json!({"type": "string", "enum": ["a", "b"]}));
    assert_eq!(key("one"), json!({"type": "string", "enum": ["a"]}));
    assert_eq!(key("pattern"), json!({"type": "string", "description": "the key of a document"}));
    assert_eq!(key("context_for_documents"), json!({"type": "string", "enum": ["x", "y"]}));
    assert_eq!(parts["parts"]["items"]["required"], json!(["document_key", "n"]));
}

#[test]
fn an_object_of_the_writers_choice_is_written_as_a_text_and_read_back() {
    let stack = json!({"database": {"name": "Postgres", "why": ["it is there"]}});
    let content = json!({"stack": {}, "parts": [{"more": {}}], "stacks": [{}], "nested": [[{}]], "mixed": [{"a": ""}, {"b": ""}]});
    sound(&content);
    let (one, list) = (stack.to_string(), json!([stack]).to_string());
    let nested = json!([[stack]]);
    let answer =
        json!({"stack": one, "parts": [{"more": one}], "stacks": list, "nested": nested.to_string(), "mixed": list});
    let fits = instance(&schema(&content), 1, "");
    for (key, value) in answer.as_object().unwrap() {
        assert_eq!(value.is_string(), fits[key].is_string(), "{key}");
    }
    let expected =
        json!({"stack": stack, "parts": [{"more": stack}], "stacks": [stack], "nested": nested, "mixed": [stack]});
    assert_eq!(accepted(&content, &answer, None), expected);
    // The whole, too.
    for content in [json!({}), json!([]), json!(null), json!("text"), json!([1])] {
        assert_eq!(sound(&content)["required"], json!(["content"]), "{content}");
        assert_eq!(accepted(&content, &json!({"content": one}), None), stack, "{content}");
    }
}

#[test]
fn what_is_too_deep_is_a_text_with_its_pattern_and_is_read_back() {
    let mut deep = json!({"leaf": ""});
    for _ in 0..100 {
        deep = json!({"in": [deep]});
    }
    let schema = sound(&deep);
    assert!(schema.to_string().contains("written as a text: "));
    let mut answer = instance(&schema, 1, "JSON");
    let mut place = &mut answer;
    while !place.is_string() {
        place = if place.is_array() { &mut place[0] } else { &mut place["in"] };
    }
    *place = json!("[{\"in\": []}]");
    assert!(accepted(&deep, &answer, None).to_string().ends_with("[{\"in\":[]}]}]}]}]}]}"));
}

#[test]
fn names_are_no_deeper_than_anything_else() {
    for names in [json!({"content_to_include": ["points"]}), json!({"context_for_documents": ["x"]})] {
        let mut content = names;
        for _ in 0..12 {
            sound(&content);
            content = json!({ "in": content });
        }
    }
}

#[test]
fn what_fits_the_schema_of_a_shipped_step_is_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql/seed/processes");
    let mut steps = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let process: Value = serde_json::from_str(&text).unwrap();
        for step in process["stages"].as_array().unwrap().iter().flat_map(|s| s["recipe"]["steps"].as_array().unwrap())
        {
            let Some(content) = step.get("content_to_include") else { continue };
            let schema = sound(content);
            assert!(!schema.to_string().contains("written as a text: "), "no shipped step is too deep");
            for (items, text) in [(0, ""), (1, "A text."), (3, "{\"key\": [\"JSON\"]}")] {
                for key in [None, step["document_key"].as_str(), step["output_type"].as_str()] {
                    let answer = instance(&schema, items, text);
                    let kept = accepted(content, &answer, key);
                    assert_eq!(kept.as_object().unwrap().len(), content.as_object().unwrap().len(), "{}", step["key"]);
                }
            }
            steps += 1;
        }
    }
    assert!(steps > 30, "{steps}");
}

#[test]
fn a_name_has_only_what_names_may_have() {
    assert_eq!(name("thesis_header-2"), "thesis_header-2");
    assert_eq!(name("Übersicht der Größe"), "_bersicht_der_Gr__e");
    assert_eq!(name(""), "answer");
    assert_eq!(name(&"é".repeat(100)), "_".repeat(64));
}

/// Content with the keys that mean something.
fn contents() -> impl Strategy<Value = Value> {
    let entry = |inner: BoxedStrategy<Value>| {
        let key = prop_oneof![Just(json!("a")), Just(json!("b")), Just(json!("c d")), Just(json!("")), Just(json!(1))];
        let content = prop_oneof![Just(json!(["x", "points"])), inner];
        (key, prop::option::of(content)).prop_map(|(key, content)| match content {
            Some(content) => json!({"document_key": key, "content_to_include": content}),
            None => json!({"document_key": key}),
        })
    };
    let entries = prop::collection::vec(entry(any_value().boxed()), 0..5).prop_map(Value::from);
    let header = (entries.clone(), any_value())
        .prop_map(|(entries, other)| json!({"other": other, "context_for_documents": entries}));
    let inside = entries.prop_map(|entries| json!({"x": {"context_for_documents": entries}, "y": [entries]}));
    prop_oneof![any_value(), any_value().prop_map(|value| json!({"a": value, "b": [value, value]})), header, inside]
}

/// Whether something is asked for twice under one name, which no answer can give.
fn asks_twice(content: &Value) -> bool {
    let names = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let entries = content[HEADER_DOCUMENTS].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> =
        names.iter().filter_map(Value::as_str).chain(entries.iter().filter_map(document_of)).collect();
    names.len() != names.iter().collect::<HashSet<_>>().len()
}

proptest! {
    #[test]
    fn any_content_has_a_schema_that_every_provider_takes(content in contents()) {
        let schema = schema(&content);
        prop_assert_eq!(&schema["type"], "object");
        prop_assert_eq!(fault(&schema, 1), None);
    }

    #[test]
    fn what_fits_the_schema_lacks_nothing(content in contents(), items in 0..3_usize, text in "[^\\x00]{0,8}") {
        prop_assume!(!asks_twice(&content));
        let answer = instance(&schema(&content), items, &text);
        let verdict = judged(&content, &answer, Some("note"));
        let is_whole = matches!(verdict, Verdict::Kept { is_complete: true, .. });
        prop_assert!(is_whole, "{} judged {:?}", answer, verdict);
    }

    #[test]
    fn any_text_gives_a_name(text in ".{0,100}") {
        let name = name(&text);
        prop_assert!((1..=64).contains(&name.len()));
        prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
    }
}
