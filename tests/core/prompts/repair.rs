//! Laws of the prompt that asks for what an answer lacks: the turn is repeated byte for byte, and nothing but the missing
//! keys is asked for.
//!
//! Never about when an answer is mended, nor how the parts are put together.

use super::samples::{definition, domain, turns};
use super::{is_golden, request};
use dialectic_core::definition::Mending;
use dialectic_core::prompt::{Message, Role};
use dialectic_core::provider::{Outcome, Request, simulator};
use serde_json::{Value, json};

const SO_FAR: &str = "{\"overview\": \"Of the proposal by sim-a {{ 7*7 }}\", \"risks\": []}";

fn turn() -> (Vec<Message>, Value) {
    let definition = definition("dialectic", domain("dialectic"));
    let (_, turn) = turns("dialectic").into_iter().find(|(name, _)| name == "dialectic_risk_register").unwrap();
    let shape = definition.step(&turn.stage, &turn.step_key).unwrap().content_to_include.clone().unwrap();
    (definition.messages(&turn).unwrap(), shape)
}

fn repair(missing: &[&str], shape: &Value) -> Vec<Message> {
    let missing: Vec<String> = missing.iter().map(|&key| key.to_owned()).collect();
    let turn = serde_json::to_string(&turn().0).unwrap();
    let mending = Mending { turn, so_far: SO_FAR.to_owned(), missing };
    definition("dialectic", domain("dialectic")).repair(&mending, shape).unwrap()
}

#[test]
fn a_repair_repeats_the_turn_and_the_answer_byte_for_byte() {
    let (before, shape) = turn();
    let messages = repair(&["notes"], &shape);
    assert_eq!(messages[..2], before);
    assert_eq!(messages[2], Message { role: Role::Assistant, content: SO_FAR.into() });
    assert_eq!((messages.len(), messages[3].role), (4, Role::User));
    assert!(messages[1].content.contains(request("dialectic")));
}

#[test]
fn a_repair_asks_for_exactly_the_missing_keys_in_their_shape() {
    let (_, shape) = turn();
    for missing in [&["notes"][..], &["mitigation_plan", "notes"], &["risks", "mitigation_plan", "notes"]] {
        let asked = &repair(missing, &shape)[3].content;
        let start = asked.find("```json\n").unwrap() + "```json\n".len();
        let shown: Value = serde_json::from_str(&asked[start..asked.rfind("\n```").unwrap()]).unwrap();
        let keys: Vec<&str> = shown.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, missing);
        assert!(missing.iter().all(|key| shown[key] == shape[key]));
        assert!(asked.contains(&missing.join(", ")) && !asked.contains("overview"));
    }
}

#[test]
fn the_simulator_answers_a_repair_with_exactly_what_is_missing() {
    let (_, shape) = turn();
    let missing = ["mitigation_plan", "notes"];
    let request = Request {
        api: "simulator".into(),
        model: "sim-a".into(),
        api_model: "sim-a".into(),
        messages: repair(&missing, &shape),
        max_output_tokens: 4096,
        context_window: 100_000,
        content: Some(shape),
        settings: json!({"omit_keys": missing}),
        call_no: 1,
    };
    let Outcome::Answer { text, .. } = simulator::answer(&request).outcome else { panic!("refused") };
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(answer.as_object().expect("an object").keys().collect::<Vec<_>>(), missing);
}

#[test]
fn a_key_without_a_shape_is_asked_for_as_a_text_and_braces_stay() {
    for shape in [Value::Null, json!(["notes"]), json!({"{{ 7*7 }}": "hint"})] {
        let asked = &repair(&["notes", "{{ 7*7 }}"], &shape)[3].content;
        assert!(asked.contains("\"notes\": \"") && asked.contains("{{ 7*7 }}"), "{asked}");
    }
}

#[test]
fn a_repair_looks_as_its_golden_file_shows() {
    let (_, shape) = turn();
    is_golden("repair_missing_keys", &repair(&["mitigation_plan", "notes"], &shape)[2..]);
}
