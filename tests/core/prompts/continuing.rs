//! Laws of the prompts that ask for more of an answer: the turn is repeated byte for byte, the answer is shown as far as it
//! goes, and exactly what is missing is asked for.
//!
//! Never about when more is asked for, nor how the parts are put together.

use super::samples::{bodies, definition, domain, overlay, stages, turns};
use super::{is_golden, request};
use dialectic_core::answer::Why;
use dialectic_core::definition::{Continuing, Definition};
use dialectic_core::prompt::{Message, Role};
use dialectic_core::provider::{Outcome, Request, simulator};
use serde_json::{Value, json};

const SO_FAR: &str = "{\"overview\": \"Of the proposal by sim-a {{ 7*7 }}\", \"risks\": []}";
/// A register that was cut off in its third risk.
const CUT: &str = "{\"overview\": \"O\", \"risks\": [{\"title\": \"Salt\", \"score\": 3}, {\"title\": \"Dust {{ 7*7 }}\"}, \
                   {\"title\": \"Missing keys: notes\", \"score\": ";

fn turn() -> (Vec<Message>, Value) {
    let definition = definition("dialectic", domain("dialectic"));
    let (_, turn) = turns("dialectic").into_iter().find(|(name, _)| name == "dialectic_risk_register").unwrap();
    let shape = definition.step(&turn.stage, &turn.step_key).unwrap().content_to_include.clone().unwrap();
    (definition.messages(&turn).unwrap(), shape)
}

fn continuing(chunks: &[&str], why: Why, shape: Option<Value>) -> Continuing {
    Continuing {
        turn: serde_json::to_string(&turn().0).unwrap(),
        chunks: chunks.iter().map(|&chunk| chunk.to_owned()).collect(),
        why,
        document_key: shape.as_ref().map(|_| "risk_register".to_owned()),
        shape,
    }
}

fn go_on(chunks: &[&str], why: Why, shape: Option<Value>) -> Vec<Message> {
    let definition = definition("dialectic", domain("dialectic"));
    definition.go_on(&continuing(chunks, why, shape)).unwrap_or_else(|e| panic!("{e}"))
}

fn missing(keys: &[&str]) -> Why {
    Why::Missing(keys.iter().map(|&key| key.to_owned()).collect())
}

fn repair(keys: &[&str], shape: &Value) -> Vec<Message> {
    go_on(&[SO_FAR], missing(keys), Some(shape.clone()))
}

#[test]
fn the_turn_and_the_answer_are_repeated_byte_for_byte() {
    let (before, shape) = turn();
    for why in [missing(&["notes"]), Why::Cut, Why::Asked, Why::Interrupted] {
        for (so_far, shape) in [(SO_FAR, Some(&shape)), (CUT, Some(&shape)), ("# Half of a te", None)] {
            let messages = go_on(&[so_far], why.clone(), shape.cloned());
            assert_eq!(messages[..2], before);
            assert_eq!(messages[2], Message { role: Role::Assistant, content: so_far.into() });
            assert_eq!((messages.len(), messages[3].role), (4, Role::User));
            assert!(messages[1].content.contains(request("dialectic")));
        }
    }
}

#[test]
fn chunks_are_shown_as_the_one_answer_they_are() {
    let shape = turn().1;
    let onward = go_on(&[CUT, "\"score\": 4}], \"no"], Why::Cut, Some(shape.clone()));
    assert_eq!(onward[2].content, format!("{CUT}4}}], \"no"));
    let afresh =
        go_on(&[CUT, "{\"risks\": [{\"title\": \"Missing keys: notes\", \"score\": 4}, {\"ti"], Why::Cut, Some(shape));
    let shown: Value = serde_json::from_str(&afresh[2].content).unwrap();
    assert_eq!(shown["risks"][2], json!({"title": "Missing keys: notes", "score": 4}));
    assert!(afresh[3].content.contains("as one JSON object with the same outer keys"), "{}", afresh[3].content);
    let text = go_on(&["It was late on the old bridge", "on the old bridge and"], Why::Cut, None);
    assert_eq!(text[2].content, "It was late on the old bridge and");
}

#[test]
fn a_model_that_has_written_nothing_is_sent_its_turn_again() {
    let (before, shape) = turn();
    for shape in [Some(shape), None] {
        for chunks in [&[][..], &["", " \n"]] {
            assert_eq!(go_on(chunks, Why::Interrupted, shape.clone()), before);
        }
    }
}

#[test]
fn a_directive_names_the_last_item_the_interrupted_one_and_the_keys_to_come() {
    let shape = turn().1;
    for why in [Why::Cut, Why::Interrupted] {
        let asked = go_on(&[CUT], why, Some(shape.clone())).remove(3).content;
        for words in [
            "the list `risks`, of which 2 items are complete, the last of them \"Dust {{ 7*7 }}\"",
            "The item \"Missing keys: notes\" was interrupted: finish that one first",
            "does not have yet: mitigation_plan, notes",
            "Only `risk_register` is wanted",
        ] {
            assert!(asked.contains(words), "{words}: {asked}");
        }
        assert!(!asked.contains("overview, "), "{asked}");
    }
}

#[test]
fn a_directive_says_why() {
    let shape = turn().1;
    for (why, words) in [
        (Why::Cut, "reached the limit of its length"),
        (Why::Interrupted, "was interrupted before"),
        (Why::Asked, "You said that you have not finished `risk_register`"),
        (missing(&["notes"]), "required parts of it are missing"),
    ] {
        assert!(go_on(&[CUT], why, Some(shape.clone()))[3].content.contains(words), "{words}");
    }
}

#[test]
fn a_definition_frozen_without_the_directive_uses_the_one_that_ships() {
    let frozen = |prompts: Value| {
        Definition::read(
            "dialectic".into(),
            domain("dialectic").into(),
            &stages("dialectic"),
            prompts,
            json!({}),
            overlay(domain("dialectic"))["stages"].clone(),
        )
        .unwrap()
    };
    let mut bodies = bodies();
    let asked = |prompts: Value| {
        let mut messages = frozen(prompts).go_on(&continuing(&[CUT], Why::Cut, Some(turn().1))).unwrap();
        messages.pop().unwrap().content
    };
    let shipped = asked(json!(bodies));
    bodies.insert("continue_answer".into(), "Our own words.".into());
    assert_eq!(asked(json!(bodies)), "Our own words.");
    bodies.remove("continue_answer");
    assert_eq!(asked(json!(bodies)), shipped);
}

#[test]
fn messages_that_cannot_be_read_are_told() {
    let broken = Continuing { turn: "[{".into(), ..continuing(&[CUT], Why::Cut, None) };
    let problem = definition("dialectic", domain("dialectic")).go_on(&broken).unwrap_err();
    assert!(problem.message.contains("cannot be read"), "{problem}");
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
        embeds: None,
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
fn each_directive_looks_as_its_golden_file_shows() {
    let (_, shape) = turn();
    let unfinished = "{\"overview\": \"O\", \"risks\": [{\"title\": \"Salt\"}], \"mitigation_plan\": \"M\", \"notes\": \"N\", \
                      \"continuation_needed\": true}";
    let afresh = "{\"risks\": [{\"title\": \"Missing keys: notes\", \"score\": 4}, {\"title\": \"Ice\", \"score";
    let between = "{\"overview\": \"O\", \"risks\": [{\"title\": \"Salt\", \"score\": 3}, ";
    let text = "# On Sundays\n\nThe library should open, because the people who need";
    is_golden("repair_missing_keys", &repair(&["mitigation_plan", "notes"], &shape)[2..]);
    for (name, chunks, why, shape) in [
        ("cut_in_a_list", &[CUT][..], Why::Cut, Some(&shape)),
        ("cut_in_a_list_afresh", &[CUT, afresh], Why::Cut, Some(&shape)),
        ("cut_between_items", &[between], Why::Cut, Some(&shape)),
        ("cut_in_a_value", &["{\"overview\": \"Half of i"], Why::Cut, Some(&shape)),
        ("cut_in_a_text", &[text], Why::Cut, None),
        ("asked", &[unfinished], Why::Asked, Some(&shape)),
        ("interrupted", &[CUT], Why::Interrupted, Some(&shape)),
        ("interrupted_in_a_text", &[text], Why::Interrupted, None),
    ] {
        is_golden(&format!("continue_answer.{name}"), &go_on(chunks, why, shape.cloned())[2..]);
    }
}
