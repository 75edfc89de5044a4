//! The laws of OpenAI Responses, on the examples of its documents in `tests/fixtures/providers/responses`.
//!
//! They decide nothing; they hold [`super`] to what its header says.

use super::*;
use crate::provider::dialect::Dialect;
use crate::provider::reader::laws::{answer, failure, fixture, outcome, request};
use crate::provider::stream::Framing;
use crate::provider::{Outcome, Scope, Usage};

const HERE: &str = "responses";

fn stream(name: &str) -> Outcome {
    outcome(Dialect::Responses, Framing::Events, &fixture(HERE, name))
}

fn finished(response: Value) -> FinishReason {
    let events = events(None, &json!({"type": "response.incomplete", "response": response}));
    match events.last() {
        Some(Event::Finish { reason, .. }) => *reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_documented_stream_is_an_answer_whose_text_comes_once() {
    let (text, reason, raw, usage) = answer(stream("success.sse"));
    assert_eq!(text, "Hi there! How can I assist you today?");
    assert_eq!((reason, raw.as_str()), (FinishReason::Stop, "completed"));
    assert_eq!(usage, Usage { input_tokens: 37, output_tokens: 11, ..Usage::default() });
}

#[test]
fn the_documented_body_is_the_same_answer() {
    let whole = outcome(Dialect::Responses, Framing::Whole, &fixture(HERE, "success.json"));
    assert_eq!(answer(whole), answer(stream("success.sse")));
}

#[test]
fn a_cut_a_refusal_and_a_tool_are_no_stop() {
    let (text, reason, raw, usage) = answer(stream("length.sse"));
    assert_eq!((text.as_str(), reason, raw.as_str()), ("Hi", FinishReason::Length, "max_output_tokens"));
    assert!(!usage.estimated);
    let (text, reason, ..) = answer(stream("refusal.sse"));
    assert_eq!((text.as_str(), reason), ("", FinishReason::ContentFilter));
    assert_eq!(answer(stream("tool_call.sse")).1, FinishReason::ToolUse);
}

#[test]
fn a_refusal_or_a_tool_is_heard_from_the_end_alone() {
    let refusal = json!({"status": "completed", "output": [{"content": [{"type": "refusal", "refusal": "no"}]}]});
    let tool = json!({"status": "completed", "output": [{"type": "function_call", "name": "f"}]});
    for (response, event) in [(refusal, Event::Refusal("no".into())), (tool, Event::Tool)] {
        let heard = events(None, &json!({"type": "response.completed", "response": response}));
        assert_eq!(heard.first(), Some(&event));
        assert_eq!(whole(&response).first(), Some(&event));
    }
}

#[test]
fn an_incomplete_response_says_why_and_an_unknown_reason_is_never_stop() {
    let because = |reason: &str| json!({"status": "incomplete", "incomplete_details": {"reason": reason}});
    assert_eq!(finished(because("max_output_tokens")), FinishReason::Length);
    assert_eq!(finished(because("max_tokens")), FinishReason::Length);
    assert_eq!(finished(because("content_filter")), FinishReason::ContentFilter);
    assert_eq!(finished(because("steered")), FinishReason::Unknown);
    assert_eq!(finished(json!({"status": "incomplete", "incomplete_details": null})), FinishReason::Unknown);
    assert_eq!(finished(json!({"status": "cancelled"})), FinishReason::Unknown);
    assert_eq!(finished(json!({"status": "queued"})), FinishReason::Unknown);
    assert_eq!(finished(json!({})), FinishReason::Unknown);
    assert!(matches!(whole(&json!({})).last(), Some(Event::Finish { reason: FinishReason::Unknown, .. })));
}

#[test]
fn an_error_after_200_is_a_failure() {
    let failed = (Class::Transient, "The model failed to generate a response.".to_owned());
    assert_eq!(failure(stream("error_after_200.sse")), failed);
    let wrong = (Class::Transient, "Something went wrong".to_owned());
    assert_eq!(failure(stream("error_event_after_200.sse")), wrong);
    for (code, class) in [
        ("server_error", Class::Transient),
        ("rate_limit_exceeded", Class::Throttled),
        ("invalid_prompt", Class::Permanent),
        ("insufficient_quota", Class::Configuration),
        ("context_length_exceeded", Class::ContextWindow),
        ("server_is_overloaded", Class::Transient),
        ("brand_new", Class::Transient),
    ] {
        let error = json!({"code": code, "message": "m"});
        let failed = json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
        let wrapped = json!({"type": "error", "error": error});
        let flat = json!({"type": "error", "code": code, "message": "m"});
        let named = json!({"code": code, "message": "m"});
        for heard in [events(None, &failed), events(None, &wrapped), events(None, &flat), events(Some("error"), &named)]
        {
            assert_eq!(heard, [Event::Fault(Fault::new(class, "m"))], "{code}");
        }
    }
}

#[test]
fn what_a_failed_response_consumed_is_told_before_it_failed() {
    let response = json!({"status": "failed", "error": {"code": "server_error", "message": "m"},
        "usage": {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
        "output_tokens_details": {"reasoning_tokens": 1}}});
    let heard = events(None, &json!({"type": "response.failed", "response": response}));
    let counts = Counts { input: Some(9), output: Some(4), cached: Some(3), cache_write: Some(2), reasoning: Some(1) };
    assert_eq!(heard, [Event::Usage(counts), Event::Fault(Fault::new(Class::Transient, "m"))]);
}

#[test]
fn usage_that_is_missing_is_estimated_and_marked() {
    let (text, _, _, usage) = answer(stream("usage_missing.sse"));
    let expected = Usage { input_tokens: 1000, output_tokens: text.len() as u64, estimated: true, ..Usage::default() };
    assert_eq!(usage, expected);
}

#[test]
fn a_stream_without_its_end_was_cut() {
    let text = String::from_utf8(fixture(HERE, "success.sse")).unwrap();
    let cut = text.split("event: response.completed").next().unwrap();
    assert_eq!(failure(outcome(Dialect::Responses, Framing::Events, cut.as_bytes())).0, Class::Transient);
}

#[test]
fn errors_have_the_class_of_their_code_and_then_of_their_status() {
    for (status, name, class, scope) in [
        (401, "error_401.json", Class::Configuration, Scope::Provider),
        (402, "error_402.json", Class::Configuration, Scope::Provider),
        (404, "error_404.json", Class::Configuration, Scope::Model),
        (429, "error_429.json", Class::Throttled, Scope::Provider),
        (429, "error_429_quota.json", Class::Configuration, Scope::Provider),
        (500, "error_500.json", Class::Transient, Scope::Provider),
        (503, "error_503.json", Class::Transient, Scope::Provider),
        (529, "error_529.json", Class::Transient, Scope::Provider),
    ] {
        let fault = fault(Some(status), &serde_json::from_slice(&fixture(HERE, name)).unwrap());
        assert_eq!((fault.class, fault.scope), (class, scope), "{name}");
    }
    assert_eq!(fault(Some(400), &Value::Null).class, Class::Permanent);
}

#[test]
fn a_request_says_what_the_call_and_the_row_say() {
    let settings = json!({"sampling": ["top_p"], "parameters": {"top_p": 0.5, "temperature": 1}, "effort": "low",
        "json": "schema"});
    let wire = wire(&request(), &Traits::read(&settings).unwrap());
    assert_eq!((wire.path.as_str(), wire.key), ("/responses", Key::Bearer));
    let expected = json!({"model": "api-name", "instructions": "frame", "max_output_tokens": 100, "store": false,
        "stream": true, "top_p": 0.5, "reasoning": {"effort": "low"},
        "input": [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "said"}]});
    assert_eq!(wire.body, expected);
}

#[test]
fn the_frame_is_input_where_the_row_or_a_json_object_asks_for_it() {
    let (mut request, mut traits) = (request(), Traits::default());
    traits.system_role = Some("system".into());
    let body = wire(&request, &traits).body;
    assert_eq!(body.get("instructions"), None);
    assert_eq!(body["input"][0], json!({"role": "system", "content": "frame"}));

    request.content = Some(json!({"summary": ""}));
    traits.system_role = None;
    let body = wire(&request, &traits).body;
    assert_eq!(body["text"], json!({"format": {"type": "json_object"}}));
    assert_eq!(body.get("instructions"), None);
    assert_eq!(body["input"][0], json!({"role": "developer", "content": "frame"}));
    // What goes on with the answer is held to no format, and begins as the first request did.
    request.content = None;
    let next = wire(&request, &traits).body;
    assert_eq!((next.get("text"), &next["input"][0]), (None, &body["input"][0]));
}

#[test]
fn json_is_asked_for_as_the_model_takes_it_and_only_when_wanted() {
    let (mut request, mut traits) = (request(), Traits::default());
    assert_eq!(wire(&request, &traits).body.get("text"), None);
    request.content = Some(json!({"summary": ""}));
    traits.json = Some("schema".into());
    let body = wire(&request, &traits).body;
    let format = &body["text"]["format"];
    assert_eq!((&format["type"], &format["strict"]), (&json!("json_schema"), &json!(true)));
    assert_eq!(format["schema"], schema(&json!({"summary": ""})));
    assert_eq!(body["instructions"], "frame");
    traits.json = Some("none".into());
    assert_eq!(wire(&request, &traits).body.get("text"), None);
}
