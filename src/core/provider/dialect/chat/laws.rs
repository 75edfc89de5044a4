//! The laws of Chat Completions, on the examples of its documents in `tests/fixtures/providers/chat`.
//!
//! They decide nothing; they hold [`super`] to what its header says.

use super::*;
use crate::provider::dialect::Dialect;
use crate::provider::reader::laws::{answer, failure, fixture, outcome, request};
use crate::provider::stream::Framing;
use crate::provider::{Outcome, Scope, Usage};

const HERE: &str = "chat";

fn stream(name: &str) -> Outcome {
    outcome(Dialect::Chat, Framing::Events, &fixture(HERE, name))
}

fn finish(chunk: &str) -> FinishReason {
    let bytes = format!("data: {chunk}\n\n");
    answer(outcome(Dialect::Chat, Framing::Events, bytes.as_bytes())).1
}

fn error(status: u16, name: &str) -> Fault {
    fault(Some(status), &serde_json::from_slice(&fixture(HERE, name)).unwrap())
}

#[test]
fn the_documented_stream_is_an_answer_with_its_usage() {
    let (text, reason, raw, usage) = answer(stream("success.sse"));
    assert_eq!((text.as_str(), reason, raw.as_str()), ("Hello", FinishReason::Stop, "stop"));
    assert_eq!(usage, Usage { input_tokens: 19, output_tokens: 10, ..Usage::default() });
}

#[test]
fn the_documented_body_is_an_answer() {
    let (text, reason, _, usage) = answer(outcome(Dialect::Chat, Framing::Whole, &fixture(HERE, "success.json")));
    assert_eq!((text.as_str(), reason), ("Hello! How can I assist you today?", FinishReason::Stop));
    assert!(!usage.estimated);
}

#[test]
fn a_cut_a_refusal_and_a_tool_are_no_stop() {
    assert_eq!(answer(stream("length.sse")).1, FinishReason::Length);
    let (text, reason, raw, _) = answer(stream("refusal.sse"));
    assert_eq!((text.as_str(), reason, raw.as_str()), ("", FinishReason::ContentFilter, "stop"));
    assert_eq!(answer(stream("tool_call.sse")).1, FinishReason::ToolUse);
}

#[test]
fn an_error_after_200_is_a_failure() {
    assert_eq!(failure(stream("error_after_200.sse")), (Class::Transient, "Provider disconnected unexpectedly".into()));
    for (chunk, class) in [
        (r#"{"error":{"message":"m","type":"server_error"}}"#, Class::Transient),
        (r#"{"error":{"message":"m","code":429}}"#, Class::Throttled),
        (r#"{"error":{"message":"m","code":"402"}}"#, Class::Configuration),
        (r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#, Class::Permanent),
        (r#"{"error":"m"}"#, Class::Transient),
    ] {
        let bytes = format!("data: {chunk}\n\n");
        let heard = outcome(Dialect::Chat, Framing::Events, bytes.as_bytes());
        assert_eq!(failure(heard), (class, "m".into()), "{chunk}");
    }
    let named = b"event: error\ndata: {\"message\":\"m\"}\n\n";
    assert_eq!(failure(outcome(Dialect::Chat, Framing::Events, named)), (Class::Transient, "m".into()));
}

#[test]
fn an_unknown_reason_is_never_stop() {
    assert_eq!(finish(r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"brand_new"}]}"#), FinishReason::Unknown);
    assert_eq!(finish(r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"STOP"}]}"#), FinishReason::Unknown);
}

#[test]
fn usage_counts_on_any_chunk_and_is_estimated_on_none() {
    let counted = r#""usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}"#;
    let expected = Usage {
        input_tokens: 7,
        output_tokens: 3,
        cached_tokens: 2,
        reasoning_tokens: 1,
        cache_write_tokens: 0,
        estimated: false,
    };
    for chunks in [
        vec![format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}},"finish_reason":"stop"}}],{counted}}}"#)],
        vec![
            format!(r#"{{"choices":[],{counted}}}"#),
            r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"usage":null}"#.to_owned(),
        ],
        vec![
            r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#.to_owned(),
            format!(r#"{{"choices":[{{"index":0,"delta":{{}}}}],{counted}}}"#),
        ],
        vec![format!(r#"{{"choices":[{{"delta":{{"content":"x"}},"finish_reason":"stop"}}],"x_groq":{{{counted}}}}}"#)],
    ] {
        let bytes: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        let (text, _, _, usage) = answer(outcome(Dialect::Chat, Framing::Events, bytes.as_bytes()));
        assert_eq!((text.as_str(), usage), ("x", expected), "{bytes}");
    }
    let (_, _, _, usage) = answer(stream("usage_missing.sse"));
    assert_eq!(usage, Usage { input_tokens: 1000, output_tokens: 5, estimated: true, ..Usage::default() });
}

#[test]
fn a_stream_needs_no_terminator_but_a_reason() {
    let bytes = fixture(HERE, "success.sse");
    let text = String::from_utf8(bytes).unwrap();
    let without = text.replace("data: [DONE]\n\n", "");
    let bytes = |text: &str| answer(outcome(Dialect::Chat, Framing::Events, text.as_bytes()));
    assert_ne!(without, text);
    assert_eq!(bytes(&without), bytes(&text));
    let cut = text.split("\"finish_reason\":\"stop\"").next().unwrap();
    assert_eq!(failure(outcome(Dialect::Chat, Framing::Events, cut.as_bytes())).0, Class::Transient);
}

#[test]
fn a_first_chunk_without_choices_says_nothing() {
    let azure = json!({"choices": [], "created": 0, "id": "", "model": "", "object": "",
        "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": false}}}]});
    assert_eq!(events(None, &azure), []);
    assert_eq!(events(None, &json!({"choices": null, "usage": null})), []);
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
        let fault = error(status, name);
        assert_eq!((fault.class, fault.scope), (class, scope), "{name}");
        assert!(fault.message.len() > 20, "{name}: {}", fault.message);
    }
    let long = json!({"error": {"message": "m", "type": "invalid_request_error", "code": "context_length_exceeded"}});
    assert_eq!(fault(Some(400), &long).class, Class::ContextWindow);
    assert_eq!(fault(Some(400), &json!({"error": {"message": "rate_limit_exceeded"}})).class, Class::Permanent);
    assert_eq!(fault(Some(502), &Value::Null).class, Class::Transient);
}

#[test]
fn a_404_with_an_explanation_is_of_the_model_alone() {
    let vllm = json!({"message": "The model `m` does not exist.", "type": "NotFoundError", "param": null, "code": 404});
    for body in [
        vllm.clone(),
        json!({"error": vllm}),
        json!({"error": {"message": "No endpoints found for m.", "code": 404}}),
        json!({"object": "error", "message": "The model `m` does not exist.", "type": "NotFoundError", "code": 404}),
    ] {
        let fault = fault(Some(404), &body);
        assert_eq!((fault.class, fault.scope), (Class::Configuration, Scope::Model), "{body}");
    }
    for body in [
        json!({"detail": "Not Found"}),
        json!({"error": {"message": "Not Found", "code": 404}}),
        json!({"error": {"message": "Unknown request URL", "type": "invalid_request_error", "code": "unknown_url"}}),
    ] {
        let fault = fault(Some(404), &body);
        assert_eq!((fault.class, fault.scope), (Class::Configuration, Scope::Provider), "{body}");
    }
}

#[test]
fn usage_of_zero_with_an_answer_is_counted() {
    let told = |usage: &str| {
        let chunk =
            format!(r#"{{"choices":[{{"delta":{{"content":"words"}},"finish_reason":"stop"}}],"usage":{usage}}}"#);
        answer(outcome(Dialect::Chat, Framing::Events, format!("data: {chunk}\n\n").as_bytes())).3
    };
    let usage =
        |input_tokens, output_tokens| Usage { input_tokens, output_tokens, estimated: true, ..Usage::default() };
    assert_eq!(told(r#"{"prompt_tokens":0,"completion_tokens":0}"#), usage(1000, 5));
    assert_eq!(told(r#"{"prompt_tokens":7,"completion_tokens":0}"#), usage(7, 5));
    assert_eq!(told(r#"{"prompt_tokens":0,"completion_tokens":3}"#), usage(1000, 3));
}

#[test]
fn json_is_asked_for_as_the_model_takes_it_and_only_when_wanted() {
    let (mut request, mut traits) = (request(), Traits::default());
    assert_eq!(wire(&request, &traits).body.get("response_format"), None);
    request.content = Some(json!({"summary": ""}));
    assert_eq!(wire(&request, &traits).body["response_format"], json!({"type": "json_object"}));
    traits.json = Some("schema".into());
    let format = &wire(&request, &traits).body["response_format"];
    assert_eq!(format["type"], "json_schema");
    assert_eq!(format["json_schema"]["strict"], true);
    assert_eq!(format["json_schema"]["schema"], schema(&json!({"summary": ""})));
    assert!(format["json_schema"]["name"].is_string());
    traits.json = Some("none".into());
    assert_eq!(wire(&request, &traits).body.get("response_format"), None);
}

#[test]
fn what_the_row_says_of_the_model_is_what_is_sent() {
    let settings = json!({"token_parameter": "max_tokens", "system_role": "developer", "sampling": ["top_p"],
        "parameters": {"top_p": 0.5, "temperature": 1}, "effort": "low", "stream_usage": false, "extra_body": {"seed": 7}});
    let wire = wire(&request(), &Traits::read(&settings).unwrap());
    assert_eq!((wire.path.as_str(), wire.key), ("/chat/completions", Key::Bearer));
    let expected = json!({"model": "api-name", "max_tokens": 100, "stream": true, "top_p": 0.5, "reasoning_effort": "low",
        "seed": 7, "messages": [{"role": "developer", "content": "frame"}, {"role": "user", "content": "ask"},
        {"role": "assistant", "content": "said"}]});
    assert_eq!(wire.body, expected);
}

#[test]
fn a_moderators_refusal_is_about_the_prompt_and_not_about_the_key() {
    let body = json!({"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["violence"], "flagged_input": "…"}}});
    assert_eq!(super::fault(Some(403), &body).class, Class::Content);
    assert_eq!(super::fault(Some(403), &json!({"error": {"code": 403, "message": "no"}})).class, Class::Configuration);
}
