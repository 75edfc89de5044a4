//! Decides the answer of a model that says one text to everything: in the shape of a schema where the request has one.
//!
//! Reads the schemas of Chat Completions and Responses. Never decides whether a schema is sound.

use super::act::Answer;
use serde_json::{Map, Value, json};

/// The text, or an object of the requested shape with the text wherever a string is wanted.
pub(super) fn shaped(text: &str, body: &[u8]) -> Answer {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let schema = ["/response_format/json_schema/schema", "/text/format/schema"].iter().find_map(|at| body.pointer(at));
    match schema {
        Some(schema) => Answer::of(&value_of(schema, text).to_string()),
        None => Answer::of(text),
    }
}

fn value_of(schema: &Value, text: &str) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    if let Some(first) = schema["anyOf"].get(0) {
        return value_of(first, text);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"].get(0)?.as_str()).unwrap_or("object");
    match kind {
        "string" => text.into(),
        "array" => json!([value_of(&schema["items"], text)]),
        "number" | "integer" => json!(1),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            Value::Object(fields.map(|(key, field)| (key.clone(), value_of(field, text))).collect::<Map<_, _>>())
        }
    }
}

#[test]
fn an_answer_has_the_shape_of_the_schema() {
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"rank": {"type": "integer"}}}}}});
    let body = json!({"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}).to_string();
    assert_eq!(shaped("Yes.", body.as_bytes()).text(), r#"{"name":"Yes.","items":[{"rank":1}]}"#);
    assert_eq!(shaped("Yes.", b"{}").text(), "Yes.");
}
