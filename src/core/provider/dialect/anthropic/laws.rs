//! The laws of Anthropic Messages, on the documented examples in `tests/fixtures/providers/anthropic`.
//!
//! They decide nothing; they hold [`super`] to what its header says. Streams are read as they come from a socket,
//! through the reader and into the transcript.

use super::*;
use crate::prompt::Message;
use crate::provider::dialect::Dialect;
use crate::provider::reader::laws;
use crate::provider::stream::Framing;
use crate::provider::{Outcome, Scope, Usage};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../../tests/fixtures/providers/anthropic/", $name))
    };
}

fn outcome(framing: Framing, body: &str) -> Outcome {
    laws::outcome(Dialect::Anthropic, framing, body.as_bytes())
}

fn answer(framing: Framing, body: &str) -> (String, FinishReason, String, Usage) {
    laws::answer(outcome(framing, body))
}

fn told(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

fn request(messages: &[(Role, &str)]) -> Request {
    Request {
        api: "anthropic".into(),
        model: "claude".into(),
        api_model: "claude-sonnet-4-5".into(),
        messages: messages.iter().map(|(role, said)| Message { role: *role, content: (*said).into() }).collect(),
        max_output_tokens: 1024,
        context_window: 200_000,
        content: Some(json!({"title": ""})),
        settings: json!({}),
        call_no: 1,
        embeds: None,
    }
}

fn traits(settings: Value) -> Traits {
    Traits::read(&settings).unwrap()
}

#[test]
fn a_request_is_the_documented_one() {
    let request = request(&[(Role::System, "Be brief."), (Role::User, "Hello"), (Role::Assistant, "Hi")]);
    let wire = wire(&request, &Traits::default());
    assert_eq!(wire.path, "/v1/messages");
    assert_eq!(wire.headers, [("anthropic-version", "2023-06-01")]);
    assert_eq!(wire.key, Key::Header("x-api-key"));
    assert_eq!(
        wire.body,
        json!({
            "model": "claude-sonnet-4-5",
            "max_tokens": 1024,
            "system": "Be brief.",
            "messages": [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}],
            "stream": true,
        })
    );
}

#[test]
fn what_the_row_says_is_said() {
    let traits = traits(json!({
        "json": "schema",
        "effort": "high",
        "thinking": {"type": "adaptive"},
        "sampling": ["temperature", "stop"],
        "parameters": {"temperature": 0.5, "top_k": 3, "stop": "END"},
        "extra_body": {"service_tier": "auto"},
    }));
    let request = request(&[(Role::User, "Hello")]);
    let body = wire(&request, &traits).body;
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["output_config"]["effort"], "high");
    let schema = schema(request.content.as_ref().unwrap());
    assert_eq!(body["output_config"]["format"], json!({"type": "json_schema", "schema": schema}));
    assert_eq!((&body["temperature"], &body["stop_sequences"]), (&json!(0.5), &json!(["END"])));
    assert_eq!((body.get("top_k"), body.get("stop"), body.get("system")), (None, None, None));
    assert_eq!(body["service_tier"], "auto");
    let text = Request { content: None, ..request };
    assert_eq!(wire(&text, &traits).body["output_config"], json!({"effort": "high"}));
}

#[test]
fn the_user_speaks_first() {
    let first = |messages: &[(Role, &str)], settings| {
        let body = wire(&request(messages), &traits(settings)).body;
        (body.get("system").cloned(), body["messages"][0].clone())
    };
    let framed = json!({"role": "user", "content": "Write."});
    assert_eq!(first(&[(Role::System, "Write.")], json!({})), (None, framed.clone()));
    assert_eq!(first(&[(Role::System, "Write."), (Role::Assistant, "So")], json!({})), (None, framed.clone()));
    let both = [(Role::System, "Write."), (Role::User, "Now")];
    assert_eq!(first(&both, json!({"system_role": "user"})), (None, framed));
    assert_eq!(first(&both, json!({})), (Some(json!("Write.")), json!({"role": "user", "content": "Now"})));
}

#[test]
fn a_stream_is_the_answer_that_was_given() {
    let (text, reason, raw, usage) = answer(Framing::Events, fixture!("success.sse"));
    assert_eq!((text.as_str(), reason, raw.as_str()), ("Hello!", FinishReason::Stop, "end_turn"));
    assert_eq!(usage, told(25, 15));
    let (text, reason, _, usage) = answer(Framing::Whole, fixture!("success.json"));
    assert_eq!((text.as_str(), reason), ("Here's the answer to your question...", FinishReason::Stop));
    assert_eq!(usage, told(100, 50));
}

#[test]
fn a_cut_answer_is_known_as_one() {
    let (text, reason, raw, _) = answer(Framing::Events, fixture!("length.sse"));
    assert_eq!((text.as_str(), reason, raw.as_str()), ("Hello!", FinishReason::Length, "max_tokens"));
}

#[test]
fn a_refusal_is_never_a_success() {
    let (text, reason, raw, usage) = answer(Framing::Events, fixture!("refusal.sse"));
    assert_eq!((text.as_str(), reason, raw.as_str()), ("", FinishReason::ContentFilter, "refusal"));
    assert_eq!(usage, Usage { reasoning_tokens: 67, ..told(20, 120) });
    let events =
        laws::heard(Dialect::Anthropic, Framing::Events, laws::MOST, fixture!("refusal.sse").as_bytes().chunks(1));
    assert!(events.contains(&Event::Refusal("This request was refused due to policy.".into())), "{events:?}");
}

#[test]
fn a_tool_is_seen_and_its_input_is_no_text() {
    let (text, reason, raw, usage) = answer(Framing::Events, fixture!("tool_call.sse"));
    assert_eq!(text, "Okay, let's check the weather for San Francisco, CA:");
    assert_eq!((reason, raw.as_str()), (FinishReason::ToolUse, "tool_use"));
    assert_eq!(usage, told(472, 89));
    assert!(
        laws::heard(Dialect::Anthropic, Framing::Events, laws::MOST, fixture!("tool_call.sse").as_bytes().chunks(1))
            .contains(&Event::Tool)
    );
    let body = json!({"content": [{"type": "tool_use", "name": "f", "input": {}}], "stop_reason": "tool_use"});
    assert!(whole(&body).contains(&Event::Tool));
}

#[test]
fn a_thought_is_no_text_and_a_usage_that_is_not_told_is_estimated() {
    let (text, reason, _, usage) = answer(Framing::Events, fixture!("thinking.sse"));
    assert_eq!((text.as_str(), reason), ("27 * 453 = 12,231", FinishReason::Stop));
    assert_eq!(usage, Usage { estimated: true, ..told(laws::INPUT, 17) });
}

#[test]
fn the_input_is_what_was_read_in_every_way_and_no_later_word_lowers_it() {
    let (_, _, _, usage) = answer(Framing::Events, fixture!("usage.sse"));
    let all = Usage { cached_tokens: 188_086, cache_write_tokens: 1000, reasoning_tokens: 120, ..told(189_107, 393) };
    assert_eq!(usage, all);
    let start = json!({"input_tokens": 21, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 7});
    let start = json!({"type": "message_start", "message": {"usage": start}});
    let after = |usage: Value| {
        let delta = json!({"type": "message_delta", "delta": {}, "usage": usage});
        let mut counts = Counts::default();
        for event in [&start, &delta].into_iter().flat_map(|data| events(None, data)) {
            let Event::Usage(later) = event else { panic!("{event:?}") };
            counts.merge(later);
        }
        (counts.input, counts.cached, counts.cache_write, counts.output)
    };
    let begun = (Some(78), Some(50), Some(7), Some(9));
    assert_eq!(after(json!({"output_tokens": 9})), begun);
    assert_eq!(after(json!({"output_tokens": 9, "input_tokens": 21})), begun);
    assert_eq!(after(json!({"output_tokens": 9, "input_tokens": 21, "cache_read_input_tokens": null})), begun);
    assert_eq!(after(json!({"output_tokens": 9, "cache_read_input_tokens": 0})), begun);
    let full = json!({"output_tokens": 9, "input_tokens": 30, "cache_read_input_tokens": 60,
                      "cache_creation_input_tokens": 0});
    assert_eq!(after(full), (Some(90), Some(60), Some(0), Some(9)));
}

#[test]
fn counts_that_cannot_be_are_not_believed() {
    let usage = json!({"input_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX, "output_tokens": -1});
    let body = json!({"content": [], "stop_reason": "end_turn", "usage": usage});
    let usage = answer(Framing::Whole, &body.to_string()).3;
    assert!(usage.estimated && usage.input_tokens == laws::INPUT, "{usage:?}");
}

#[test]
fn what_a_stream_wrote_before_it_was_cut_is_estimated_from_its_text() {
    let success = fixture!("success.sse");
    let cut = &success[..success.find("event: content_block_stop").unwrap()];
    let Outcome::Failure { class, usage, .. } = outcome(Framing::Events, cut) else { panic!("a cut is no answer") };
    assert_eq!(class, Class::Transient);
    assert_eq!(usage, Usage { estimated: true, ..told(25, 6) });
}

#[test]
fn a_server_that_does_not_know_its_input_yet_has_not_told_it() {
    let start = json!({"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}});
    assert_eq!(events(None, &start), [Event::Usage(Counts::default())]);
}

#[test]
fn an_error_after_200_is_a_failure_and_the_type_decides() {
    let Outcome::Failure { class, message, .. } = outcome(Framing::Events, fixture!("error_after_200.sse")) else {
        panic!("an error is no answer")
    };
    assert_eq!((class, message.as_str()), (Class::Transient, "Overloaded"));
    for (kind, class) in [
        ("invalid_request_error", Class::Permanent),
        ("authentication_error", Class::Configuration),
        ("billing_error", Class::Configuration),
        ("permission_error", Class::Configuration),
        ("request_too_large", Class::ContextWindow),
        ("rate_limit_error", Class::Throttled),
        ("api_error", Class::Transient),
        ("timeout_error", Class::Transient),
        ("some_later_error", Class::Transient),
    ] {
        let data = json!({"type": "error", "error": {"type": kind, "message": "m"}});
        assert_eq!(events(Some("error"), &data), [Event::Fault(Fault::new(class, "m"))], "{kind}");
        assert_eq!(whole(&data), [Event::Fault(Fault::new(class, "m"))], "{kind}");
    }
}

#[test]
fn every_documented_error_has_its_class() {
    for (status, body, class, scope) in [
        (400, fixture!("error_400.json"), Class::Permanent, Scope::Provider),
        (401, fixture!("error_401.json"), Class::Configuration, Scope::Provider),
        (402, fixture!("error_402.json"), Class::Configuration, Scope::Provider),
        (403, fixture!("error_403.json"), Class::Configuration, Scope::Provider),
        (404, fixture!("error_404.json"), Class::Configuration, Scope::Model),
        (413, fixture!("error_413.json"), Class::ContextWindow, Scope::Provider),
        (429, fixture!("error_429.json"), Class::Throttled, Scope::Provider),
        (429, fixture!("error_429_quota.json"), Class::Configuration, Scope::Provider),
        (500, fixture!("error_500.json"), Class::Transient, Scope::Provider),
        (503, fixture!("error_503.json"), Class::Transient, Scope::Provider),
        (529, fixture!("error_529.json"), Class::Transient, Scope::Provider),
    ] {
        let body: Value = serde_json::from_str(body).unwrap();
        // The type says as much as the status: in the middle of a stream it is all there is.
        for status in [Some(status), None] {
            let fault = fault(status, &body);
            assert_eq!((fault.class, fault.scope), (class, scope), "{status:?} {body}");
            assert_eq!(Some(fault.message.as_str()), body["error"]["message"].as_str());
        }
    }
    assert_eq!(fault(Some(502), &Value::Null).class, Class::Transient);
    let other = json!({"error": {"type": "invalid_request_error", "message": "m"}});
    assert_eq!(fault(Some(413), &other).class, Class::ContextWindow);
}

#[test]
fn every_reason_is_normalised_and_one_that_is_not_known_is_no_success() {
    for (raw, reason) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("refusal", FinishReason::ContentFilter),
        ("tool_use", FinishReason::ToolUse),
        ("pause_turn", FinishReason::Unknown),
        ("some_later_reason", FinishReason::Unknown),
    ] {
        let data = json!({"type": "message_delta", "delta": {"stop_reason": raw}});
        assert_eq!(events(None, &data).pop(), Some(Event::Finish { reason, raw: raw.to_owned() }));
    }
}

#[test]
fn an_event_of_another_kind_says_nothing() {
    for data in [json!({"type": "ping"}), json!({"type": "some_later_event", "text": "x"}), json!(null), json!([])] {
        assert_eq!(events(Some("ping"), &data), []);
    }
}
