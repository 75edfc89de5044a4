//! OpenAI Chat Completions: `POST {base}/chat/completions`, and every server that is compatible with it.
//!
//! What compatible servers do otherwise is data in the model's row. Usage is taken from whatever message has it. The
//! words of an error count by `code` and `type`, never by `message`.

#[cfg(test)]
mod laws;

use super::{Counts, Event, Key, Wire, count, extended, has_error, messages, text};
use crate::provider::fault::Fault;
use crate::provider::schema::schema;
use crate::provider::traits::Traits;
use crate::provider::{Class, FinishReason, Request};
use serde_json::{Map, Value, json};

/// What a schema is called, which nobody reads.
pub(super) const SCHEMA_NAME: &str = "answer";

/// The request of a call.
pub fn wire(request: &Request, traits: &Traits) -> Wire {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.api_model));
    body.insert("messages".to_owned(), messages(request, traits));
    let limit = traits.token_parameter.as_deref().unwrap_or("max_completion_tokens");
    body.insert(limit.to_owned(), json!(request.max_output_tokens));
    body.insert("stream".to_owned(), json!(true));
    if traits.stream_usage {
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    body.extend(traits.sampled().map(|(name, value)| (name.clone(), value.clone())));
    if let Some(effort) = &traits.effort {
        body.insert("reasoning_effort".to_owned(), json!(effort));
    }
    let format = request.content.as_ref().and_then(|content| match traits.json() {
        "schema" => {
            let schema = json!({"name": SCHEMA_NAME, "strict": true, "schema": schema(content)});
            Some(json!({"type": "json_schema", "json_schema": schema}))
        }
        "object" => Some(json!({"type": "json_object"})),
        _ => None,
    });
    body.extend(format.map(|format| ("response_format".to_owned(), format)));
    Wire {
        path: "/chat/completions".to_owned(),
        headers: Vec::new(),
        key: Key::Bearer,
        body: extended(body.into(), traits),
    }
}

/// What a chunk says.
pub fn events(name: Option<&str>, data: &Value) -> Vec<Event> {
    if name == Some("error") || is_error(data) {
        return failed(data);
    }
    said(data, "delta")
}

/// What a completion says that came in one piece.
pub fn whole(body: &Value) -> Vec<Event> {
    if is_error(body) {
        return failed(body);
    }
    said(body, "message")
}

/// Whether this is an error: in a field of its own, or, as some servers have it, the whole of it.
fn is_error(data: &Value) -> bool {
    has_error(data) || text(data, "/object") == Some("error")
}

/// An error, and before it what was consumed all the same.
fn failed(data: &Value) -> Vec<Event> {
    let mut events: Vec<Event> = usage(data).into_iter().collect();
    events.push(Event::Fault(fault(None, data)));
    events
}

fn said(data: &Value, field: &str) -> Vec<Event> {
    let mut events = Vec::new();
    // Only one answer is ever asked for; a server that sends several means the first.
    let choices = data.get("choices").and_then(Value::as_array);
    let first = |choice: &&Value| count(choice, "/index").unwrap_or(0) == 0;
    if let Some(choice) = choices.and_then(|choices| choices.iter().find(first)) {
        let message = choice.get(field).unwrap_or(&Value::Null);
        events.extend(text(message, "/content").map(|text| Event::Text(text.to_owned())));
        events.extend(text(message, "/refusal").map(|text| Event::Refusal(text.to_owned())));
        if message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty()) {
            events.push(Event::Tool);
        }
        events.extend(
            text(choice, "/finish_reason").map(|raw| Event::Finish { reason: reason(raw), raw: raw.to_owned() }),
        );
    }
    events.extend(usage(data));
    events
}

fn usage(data: &Value) -> Option<Event> {
    let usage = data.get("usage").filter(|usage| usage.is_object());
    usage.or_else(|| data.pointer("/x_groq/usage")).map(|usage| Event::Usage(counts(usage)))
}

fn reason(raw: &str) -> FinishReason {
    match raw {
        "stop" | "eos" | "end" | "end_turn" => FinishReason::Stop,
        "length" | "model_length" | "max_tokens" => FinishReason::Length,
        "content_filter" => FinishReason::ContentFilter,
        "tool_calls" | "function_call" => FinishReason::ToolUse,
        "error" | "insufficient_system_resource" => FinishReason::Error,
        _ => FinishReason::Unknown,
    }
}

fn counts(usage: &Value) -> Counts {
    Counts {
        input: count(usage, "/prompt_tokens"),
        output: count(usage, "/completion_tokens"),
        cached: count(usage, "/prompt_tokens_details/cached_tokens")
            .or_else(|| count(usage, "/prompt_cache_hit_tokens")),
        cache_write: count(usage, "/prompt_tokens_details/cache_write_tokens"),
        reasoning: count(usage, "/completion_tokens_details/reasoning_tokens"),
    }
}

/// What an error says.
pub fn fault(status: Option<u16>, body: &Value) -> Fault {
    judged(status, body.get("error").filter(|error| !error.is_null()).unwrap_or(body))
}

/// The words of an error, for people.
pub(super) fn message(error: &Value) -> &str {
    text(error, "/message").or_else(|| text(error, "")).unwrap_or("an error without a message")
}

/// What an error is by its code and its type, and without a word for it by the status.
pub(super) fn judged(status: Option<u16>, error: &Value) -> Fault {
    let message = message(error);
    // A moderator's refusal of one prompt, which gateways send with the status of a wrong key.
    if error.pointer("/metadata/flagged_input").is_some() || error.pointer("/metadata/reasons").is_some() {
        return Fault::new(Class::Content, message);
    }
    let code = text(error, "/code");
    for word in code.into_iter().chain(text(error, "/type")) {
        let class = match word {
            "insufficient_quota"
            | "exceeded_current_quota_error"
            | "billing_hard_limit_reached"
            | "billing_not_active"
            | "invalid_api_key"
            | "account_deactivated" => Class::Configuration,
            "model_not_found" => return Fault::of_model(message),
            "context_length_exceeded" | "string_above_max_length" => Class::ContextWindow,
            "rate_limit_exceeded" | "slow_down" => Class::Throttled,
            "server_error" | "server_is_overloaded" | "overloaded_error" => Class::Transient,
            "content_filter" | "content_policy_violation" => Class::Content,
            _ => continue,
        };
        return Fault::new(class, message);
    }
    // OpenRouter and others send errors in the middle of a stream with the status as their code, as a number or as a
    // text.
    let number = || count(error, "/code").or_else(|| code?.parse().ok());
    let status = status.or_else(|| u16::try_from(number()?).ok());
    // Whoever explains itself has understood the address and not found the model. A wrong path gets a page, an answer
    // without a message, or a word for it.
    let is_path = code == Some("unknown_url") || text(error, "/message").is_none_or(|said| said == "Not Found");
    match status {
        Some(404) if !is_path => Fault::of_model(message),
        _ => Fault::of_status(status, message),
    }
}
