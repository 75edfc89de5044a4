//! The laws of Ollama's own API, on the examples of its documents in `tests/fixtures/providers/ollama`.
//!
//! They decide nothing; they hold [`super`] to what its header says.

use super::*;
use crate::provider::dialect::Dialect;
use crate::provider::reader::laws::{answer, failure, fixture, outcome, request};
use crate::provider::stream::Framing;
use crate::provider::{Class, Outcome, Scope, Usage};

const HERE: &str = "ollama";

fn stream(name: &str) -> Outcome {
    outcome(Dialect::Ollama, Framing::Lines, &fixture(HERE, name))
}

#[test]
fn the_documented_stream_is_an_answer_with_its_usage() {
    let (text, reason, raw, usage) = answer(stream("success.ndjson"));
    assert_eq!((text.as_str(), reason, raw.as_str()), ("The", FinishReason::Stop, "stop"));
    assert_eq!(usage, Usage { input_tokens: 26, output_tokens: 282, ..Usage::default() });
}

#[test]
fn the_documented_body_is_an_answer() {
    let (text, reason, _, usage) = answer(outcome(Dialect::Ollama, Framing::Whole, &fixture(HERE, "success.json")));
    assert_eq!((text.as_str(), reason), (r#"{"age": 22, "available": false}"#, FinishReason::Stop));
    assert_eq!(usage, Usage { input_tokens: 34, output_tokens: 12, ..Usage::default() });
}

#[test]
fn a_cut_and_a_tool_are_no_stop_and_an_unknown_reason_never_is() {
    assert_eq!(answer(stream("length.ndjson")).1, FinishReason::Length);
    assert_eq!(answer(stream("tool_call.ndjson")).1, FinishReason::ToolUse);
    let (_, reason, raw, _) = answer(stream("refusal.ndjson"));
    assert_eq!((reason, raw.as_str()), (FinishReason::Unknown, "declined"));
    assert_eq!(answer(stream("no_reason.ndjson")).1, FinishReason::Unknown);
    for raw in ["load", "unload"] {
        let heard = events(None, &json!({"message": {"content": ""}, "done_reason": raw, "done": true}));
        assert_eq!(heard, [Event::Finish { reason: FinishReason::Unknown, raw: raw.into() }]);
    }
}

#[test]
fn thoughts_are_not_text() {
    let data = json!({"message": {"role": "assistant", "content": "", "thinking": "hm"}, "done": false});
    assert_eq!(events(None, &data), []);
}

#[test]
fn an_error_after_200_is_a_failure() {
    let expected = (Class::Transient, "an error was encountered while running the model".to_owned());
    assert_eq!(failure(stream("error_after_200.ndjson")), expected);
}

#[test]
fn usage_that_is_missing_is_estimated_and_marked() {
    let (_, _, _, usage) = answer(stream("usage_missing.ndjson"));
    assert_eq!(usage, Usage { input_tokens: 1000, output_tokens: 3, estimated: true, ..Usage::default() });
}

#[test]
fn a_stream_without_its_last_line_was_cut() {
    let bytes = fixture(HERE, "success.ndjson");
    let first = bytes.split_inclusive(|byte| *byte == b'\n').next().unwrap();
    assert_eq!(failure(outcome(Dialect::Ollama, Framing::Lines, first)).0, Class::Transient);
}

#[test]
fn errors_have_the_class_of_their_status() {
    for (status, name, class, scope) in [
        (401, "error_401.json", Class::Configuration, Scope::Provider),
        (402, "error_402.json", Class::Configuration, Scope::Provider),
        (404, "error_404.json", Class::Configuration, Scope::Model),
        (429, "error_429.json", Class::Throttled, Scope::Provider),
        (429, "error_429_quota.json", Class::Throttled, Scope::Provider),
        (500, "error_500.json", Class::Transient, Scope::Provider),
        (503, "error_503.json", Class::Transient, Scope::Provider),
        (529, "error_529.json", Class::Transient, Scope::Provider),
    ] {
        let body: Value = serde_json::from_slice(&fixture(HERE, name)).unwrap();
        let fault = fault(Some(status), &body);
        assert_eq!((fault.class, fault.scope), (class, scope), "{name}");
        assert_eq!(json!(fault.message), body["error"], "{name}");
    }
}

#[test]
fn a_request_always_says_how_much_the_model_may_read_and_write() {
    let settings = json!({"sampling": ["top_k"], "parameters": {"top_k": 5, "temperature": 1}, "effort": "low",
        "extra_body": {"keep_alive": "1h", "options": {"num_gpu": 1, "num_ctx": 9}}});
    let wire = wire(&request(), &Traits::read(&settings).unwrap());
    assert_eq!((wire.path.as_str(), wire.key), ("/api/chat", Key::Bearer));
    let expected = json!({"model": "api-name", "stream": true, "think": "low", "keep_alive": "1h",
        "options": {"num_ctx": 8000, "num_predict": 100, "top_k": 5, "num_gpu": 1},
        "messages": [{"role": "system", "content": "frame"}, {"role": "user", "content": "ask"},
        {"role": "assistant", "content": "said"}]});
    assert_eq!(wire.body, expected);
}

#[test]
fn thinking_is_told_in_the_words_of_the_row() {
    let mut traits = Traits { effort: Some("high".into()), ..Traits::default() };
    assert_eq!(wire(&request(), &traits).body["think"], "high");
    traits.thinking = Some(json!(false));
    assert_eq!(wire(&request(), &traits).body["think"], false);
    assert_eq!(wire(&request(), &Traits::default()).body.get("think"), None);
}

#[test]
fn json_is_asked_for_as_the_model_takes_it_and_only_when_wanted() {
    let (mut request, mut traits) = (request(), Traits::default());
    assert_eq!(wire(&request, &traits).body.get("format"), None);
    request.content = Some(json!({"summary": ""}));
    assert_eq!(wire(&request, &traits).body["format"], "json");
    traits.json = Some("schema".into());
    assert_eq!(wire(&request, &traits).body["format"], schema(&json!({"summary": ""})));
    traits.json = Some("none".into());
    assert_eq!(wire(&request, &traits).body.get("format"), None);
}
