//! The laws of Google Gemini, on the documented examples in `tests/fixtures/providers/google`.
//!
//! They decide nothing; they hold [`super`] to what its header says. Streams are read as they come from a socket,
//! through the reader and into the transcript.

use super::*;
use crate::provider::dialect::Dialect;
use crate::provider::reader::laws;
use crate::provider::stream::Framing;
use crate::provider::{Outcome, Scope, Usage};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../../tests/fixtures/providers/google/", $name))
    };
}

fn outcome(framing: Framing, body: &str) -> Outcome {
    laws::outcome(Dialect::Google, framing, body.as_bytes())
}

fn answer(framing: Framing, body: &str) -> (String, FinishReason, String, Usage) {
    laws::answer(outcome(framing, body))
}

fn told(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, ..Usage::default() }
}

fn request(api_model: &str, messages: &[(Role, &str)]) -> Request {
    Request {
        api: "google".into(),
        model: "gemini".into(),
        api_model: api_model.into(),
        messages: messages.iter().map(|(role, said)| Message { role: *role, content: (*said).into() }).collect(),
        max_output_tokens: 1024,
        context_window: 1 << 20,
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
    let messages = [(Role::System, "Be brief."), (Role::User, "Hello"), (Role::Assistant, "Hi"), (Role::User, "And?")];
    let wire = wire(&request("gemini-2.5-flash", &messages), &traits(json!({"json": "none"})));
    assert_eq!(wire.path, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    assert_eq!((wire.headers, wire.key), (vec![], Key::Header("x-goog-api-key")));
    assert_eq!(
        wire.body,
        json!({
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "Hello"}]},
                {"role": "model", "parts": [{"text": "Hi"}]},
                {"role": "user", "parts": [{"text": "And?"}]},
            ],
            "generationConfig": {"maxOutputTokens": 1024},
        })
    );
}

#[test]
fn what_the_row_says_is_said() {
    let settings = json!({
        "json": "schema",
        "effort": "low",
        "thinking": {"includeThoughts": false},
        "sampling": ["temperature", "top_p", "top_k", "stop", "seed", "presence_penalty"],
        "parameters": {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "stop": ["END"], "seed": 1, "presence_penalty": 0.1,
                       "frequency_penalty": 0.2},
        "extra_body": {"safetySettings": []},
    });
    let request = request("gemini-2.5-flash", &[(Role::User, "Hello")]);
    let body = wire(&request, &traits(settings)).body;
    assert_eq!(
        body["generationConfig"],
        json!({
            "maxOutputTokens": 1024, "temperature": 0.5, "topP": 0.9, "topK": 3, "stopSequences": ["END"], "seed": 1,
            "presencePenalty": 0.1, "responseMimeType": "application/json",
            "responseJsonSchema": schema(request.content.as_ref().unwrap()),
            "thinkingConfig": {"includeThoughts": false, "thinkingLevel": "low"},
        })
    );
    assert_eq!((body.get("systemInstruction"), &body["safetySettings"]), (None, &json!([])));
    let config = |request: &Request, settings| wire(request, &traits(settings)).body["generationConfig"].clone();
    let object = json!({"maxOutputTokens": 1024, "responseMimeType": "application/json"});
    assert_eq!(config(&request, json!({})), object);
    let text = Request { content: None, ..request };
    assert_eq!(config(&text, json!({"json": "schema"})), json!({"maxOutputTokens": 1024}));
}

#[test]
fn a_model_stays_in_its_place_in_the_address() {
    for (model, place) in [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/mine~1", "tunedModels/mine~1"),
        ("other/model", "models/other%2Fmodel"),
        ("models/../../secrets?x=1#y", "models/..%2F..%2Fsecrets%3Fx%3D1%23y"),
        ("größe x:y", "models/gr%C3%B6%C3%9Fe%20x%3Ay"),
    ] {
        assert_eq!(resource(model), place);
    }
}

#[test]
fn the_user_speaks_first_and_a_model_without_frames_hears_it_from_the_user() {
    let said = |messages: &[(Role, &str)], settings| {
        let body = wire(&request("gemma-3", messages), &traits(settings)).body;
        (body.get("systemInstruction").is_some(), body["contents"][0].clone())
    };
    let framed = json!({"role": "user", "parts": [{"text": "Write."}]});
    assert_eq!(said(&[(Role::System, "Write.")], json!({})), (false, framed.clone()));
    let both = [(Role::System, "Write."), (Role::User, "Now")];
    assert_eq!(said(&both, json!({"system_role": "user"})), (false, framed));
    assert_eq!(said(&both, json!({})), (true, json!({"role": "user", "parts": [{"text": "Now"}]})));
}

#[test]
fn a_stream_is_the_answer_that_was_given() {
    let (text, reason, raw, usage) = answer(Framing::Events, fixture!("success.sse"));
    assert_eq!(text, "The capital of Wyoming is **Cheyenne**.\n");
    assert_eq!((reason, raw.as_str(), usage), (FinishReason::Stop, "STOP", told(7, 10)));
    let (text, reason, _, usage) = answer(Framing::Whole, fixture!("success.json"));
    assert!(text.ends_with("**Mountain View, California**.\n"), "{text}");
    assert_eq!((reason, usage), (FinishReason::Stop, told(7, 22)));
}

#[test]
fn a_list_of_messages_is_the_same_answer() {
    let messages: Vec<&str> = fixture!("success.sse").lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let list = format!("[{}]", messages.join(","));
    assert_eq!(answer(Framing::Whole, &list), answer(Framing::Events, fixture!("success.sse")));
}

#[test]
fn a_cut_answer_is_known_as_one() {
    let (_, reason, raw, _) = answer(Framing::Events, fixture!("length.sse"));
    assert_eq!((reason, raw.as_str()), (FinishReason::Length, "MAX_TOKENS"));
}

#[test]
fn a_refusal_is_never_a_success() {
    for body in [fixture!("refusal.sse"), fixture!("safety.sse")] {
        let (_, reason, raw, _) = answer(Framing::Events, body);
        assert_eq!((reason, raw.as_str()), (FinishReason::ContentFilter, "SAFETY"));
    }
    let blocked = json!({"candidates": [], "promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "no"}});
    let finish = Event::Finish { reason: FinishReason::ContentFilter, raw: "OTHER".into() };
    assert_eq!(whole(&blocked), [Event::Refusal("no".into()), finish]);
}

#[test]
fn a_prompt_that_was_only_judged_is_not_refused() {
    let data = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}}],
                      "promptFeedback": {"blockReason": "SAFETY"}});
    assert_eq!(events(None, &data), [Event::Text("a".into())]);
}

#[test]
fn a_tool_is_seen_although_the_model_says_stop() {
    let (text, reason, raw, usage) = answer(Framing::Events, fixture!("tool_call.sse"));
    assert_eq!((text.as_str(), reason, raw.as_str()), ("", FinishReason::ToolUse, "STOP"));
    assert_eq!(usage, Usage { reasoning_tokens: 168, ..told(38, 174) });
}

#[test]
fn a_thought_is_no_text_and_counts_as_output() {
    let (text, reason, _, usage) = answer(Framing::Events, fixture!("thinking.sse"));
    assert!(text.starts_with("The sky is blue because") && text.ends_with("to our eyes."), "{text}");
    assert_eq!((reason, usage), (FinishReason::Stop, Usage { reasoning_tokens: 540, ..told(10, 588) }));
}

#[test]
fn the_input_has_the_cache_in_it_already_and_what_tools_read_is_added() {
    let (_, _, _, usage) = answer(Framing::Whole, fixture!("usage.json"));
    assert_eq!(usage, Usage { cached_tokens: 11_243, reasoning_tokens: 73, ..told(12_013, 88) });
    let usage = json!({"promptTokenCount": 5, "toolUsePromptTokenCount": 4, "candidatesTokenCount": 3});
    assert_eq!((counts(&usage).input, counts(&usage).output), (Some(9), Some(3)));
    let huge = json!({"promptTokenCount": u64::MAX, "toolUsePromptTokenCount": 4});
    assert_eq!((counts(&huge).input, counts(&huge).output), (None, None), "that cannot be");
}

#[test]
fn what_a_stream_wrote_before_it_was_cut_is_estimated_from_its_text() {
    let cut = fixture!("success.sse").rsplit_once("data: ").unwrap().0;
    let Outcome::Failure { class, usage, .. } = outcome(Framing::Events, cut) else { panic!("a cut is no answer") };
    assert_eq!((class, usage), (Class::Transient, Usage { estimated: true, ..told(7, 22) }));
}

#[test]
fn an_error_after_200_is_a_failure() {
    let Outcome::Failure { class, message, usage, .. } = outcome(Framing::Events, fixture!("error_after_200.sse"))
    else {
        panic!("an error is no answer")
    };
    assert_eq!((class, message.as_str()), (Class::Transient, "The model is overloaded. Please try again later."));
    assert_eq!(usage.input_tokens, 7);
}

#[test]
fn every_documented_error_has_its_class() {
    for (status, body, class, scope, delay) in [
        (400, fixture!("error_400_key.json"), Class::Configuration, Scope::Provider, None),
        (401, fixture!("error_401.json"), Class::Configuration, Scope::Provider, None),
        (400, fixture!("error_402.json"), Class::Configuration, Scope::Provider, None),
        (403, fixture!("error_403.json"), Class::Configuration, Scope::Provider, None),
        (404, fixture!("error_404.json"), Class::Configuration, Scope::Model, None),
        (429, fixture!("error_429.json"), Class::Throttled, Scope::Provider, Some(26_000)),
        (429, fixture!("error_429_quota.json"), Class::Configuration, Scope::Model, None),
        (500, fixture!("error_500.json"), Class::Transient, Scope::Provider, None),
        (503, fixture!("error_503.json"), Class::Transient, Scope::Provider, None),
        (529, fixture!("error_529.json"), Class::Transient, Scope::Provider, None),
    ] {
        let body: Value = serde_json::from_str(body).unwrap();
        for (status, body) in [(Some(status), &body), (None, &body), (Some(status), &json!([body]))] {
            let fault = fault(status, body);
            assert_eq!((fault.class, fault.scope, fault.retry_after_ms), (class, scope, delay), "{status:?} {body}");
            assert_ne!(fault.message, "an error without a message");
        }
    }
}

#[test]
fn a_status_without_words_and_words_that_are_not_known_are_judged_by_the_status() {
    assert_eq!(fault(Some(502), &Value::Null).class, Class::Transient);
    assert_eq!(fault(None, &json!({"error": {"code": 403, "status": "LATER"}})).class, Class::Configuration);
    let argument = json!({"error": {"code": 400, "message": "API_KEY_INVALID", "status": "INVALID_ARGUMENT"}});
    assert_eq!(fault(None, &argument).class, Class::Permanent, "the text of a message decides nothing");
    let day = json!({"error": {"status": "RESOURCE_EXHAUSTED", "details": [{
        "@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "TokensPerDayPerProject"}],
    }]}});
    assert_eq!(fault(Some(429), &day), Fault::new(Class::Configuration, "an error without a message"));
}

#[test]
fn a_delay_is_read_in_every_form_and_never_shortened() {
    for (duration, expected) in [
        ("34s", Some(34_000)),
        ("0.5s", Some(500)),
        ("45.837906927s", Some(45_838)),
        ("0.000000001s", Some(1)),
        ("0s", Some(0)),
        ("-1s", None),
        ("1.s", None),
        ("1.-5s", None),
        ("34", None),
        ("s", None),
        ("18446744073709551615s", None),
    ] {
        assert_eq!(milliseconds(duration), expected, "{duration}");
    }
}

#[test]
fn every_reason_is_normalised_and_one_that_is_not_known_is_no_success() {
    for (raw, reason) in [
        ("STOP", FinishReason::Stop),
        ("MAX_TOKENS", FinishReason::Length),
        ("SAFETY", FinishReason::ContentFilter),
        ("RECITATION", FinishReason::ContentFilter),
        ("BLOCKLIST", FinishReason::ContentFilter),
        ("PROHIBITED_CONTENT", FinishReason::ContentFilter),
        ("SPII", FinishReason::ContentFilter),
        ("UNEXPECTED_TOOL_CALL", FinishReason::ToolUse),
        ("OTHER", FinishReason::Error),
        ("LANGUAGE", FinishReason::Error),
        ("MALFORMED_FUNCTION_CALL", FinishReason::Error),
        ("FINISH_REASON_UNSPECIFIED", FinishReason::Unknown),
        ("SOME_LATER_REASON", FinishReason::Unknown),
    ] {
        let data = json!({"candidates": [{"finishReason": raw}]});
        assert_eq!(events(None, &data), [Event::Finish { reason, raw: raw.to_owned() }]);
    }
}
