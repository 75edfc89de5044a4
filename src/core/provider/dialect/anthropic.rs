//! Anthropic Messages: `POST {base}/v1/messages`.
//!
//! What is read from and into a cache is counted apart from the input there, and joined to it here. The class of a
//! failure comes from `error.type`, which is all there is in the middle of a stream. Never asks for a tool and never
//! reads a thought as text.

#[cfg(test)]
mod laws;

use super::{Counts, Event, Key, Wire, count, extended, framed, has_error, text};
use crate::prompt::Role;
use crate::provider::fault::Fault;
use crate::provider::schema::schema;
use crate::provider::traits::Traits;
use crate::provider::{Class, FinishReason, Request};
use serde_json::{Map, Value, json};

/// The request of a call.
pub fn wire(request: &Request, traits: &Traits) -> Wire {
    let (frame, said) = framed(request, traits);
    let messages = said.iter().map(|message| {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        json!({"role": role, "content": message.content})
    });
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.api_model));
    body.insert("max_tokens".to_owned(), json!(request.max_output_tokens));
    if !frame.is_empty() {
        let frame: Vec<&str> = frame.iter().map(|message| message.content.as_str()).collect();
        body.insert("system".to_owned(), json!(frame.join("\n\n")));
    }
    body.insert("messages".to_owned(), messages.collect());
    body.insert("stream".to_owned(), json!(true));
    body.extend(traits.sampled().map(|(name, value)| match name.as_str() {
        "stop" => ("stop_sequences".to_owned(), listed(value)),
        _ => (name.clone(), value.clone()),
    }));
    if let Some(thinking) = &traits.thinking {
        body.insert("thinking".to_owned(), thinking.clone());
    }
    let mut output = Map::new();
    if let Some(effort) = &traits.effort {
        output.insert("effort".to_owned(), json!(effort));
    }
    // There is no way to ask for JSON of any kind: a schema, or nothing.
    if let (Some(content), "schema") = (&request.content, traits.json()) {
        output.insert("format".to_owned(), json!({"type": "json_schema", "schema": schema(content)}));
    }
    if !output.is_empty() {
        body.insert("output_config".to_owned(), output.into());
    }
    Wire {
        path: "/v1/messages".to_owned(),
        headers: vec![("anthropic-version", "2023-06-01")],
        key: Key::Header("x-api-key"),
        body: extended(body.into(), traits),
    }
}

fn listed(value: &Value) -> Value {
    if value.is_array() { value.clone() } else { json!([value]) }
}

/// What an event says; of the kinds that are not known, nothing.
pub fn events(name: Option<&str>, data: &Value) -> Vec<Event> {
    match text(data, "/type").or(name) {
        Some("message_start") => data.pointer("/message/usage").map(begun).into_iter().collect(),
        Some("content_block_start") => data.get("content_block").and_then(block).into_iter().collect(),
        Some("content_block_delta") if text(data, "/delta/type") == Some("text_delta") => {
            text(data, "/delta/text").map(|text| Event::Text(text.to_owned())).into_iter().collect()
        }
        Some("message_delta") => {
            let mut events = data.get("delta").map(stopped).unwrap_or_default();
            events.extend(data.get("usage").filter(|usage| usage.is_object()).map(|usage| Event::Usage(ended(usage))));
            events
        }
        Some("error") => vec![Event::Fault(fault(None, data))],
        _ => Vec::new(),
    }
}

/// What a message says that came in one piece.
pub fn whole(body: &Value) -> Vec<Event> {
    if has_error(body) {
        return vec![Event::Fault(fault(None, body))];
    }
    let blocks = body.get("content").and_then(Value::as_array);
    let mut events: Vec<Event> = blocks.into_iter().flatten().filter_map(block).collect();
    events.extend(stopped(body));
    if let Some(usage) = body.get("usage").filter(|usage| usage.is_object()) {
        events.extend([begun(usage), Event::Usage(ended(usage))]);
    }
    events
}

/// What a block of content says: thoughts, and the tools of the server, are none of ours.
fn block(block: &Value) -> Option<Event> {
    match text(block, "/type")? {
        "text" => text(block, "/text").map(|text| Event::Text(text.to_owned())),
        "tool_use" => Some(Event::Tool),
        _ => None,
    }
}

/// Why it stopped, where it has.
fn stopped(message: &Value) -> Vec<Event> {
    let Some(raw) = text(message, "/stop_reason") else { return Vec::new() };
    let mut events = Vec::new();
    if raw == "refusal" {
        let words = text(message, "/stop_details/explanation").unwrap_or(raw);
        events.push(Event::Refusal(words.to_owned()));
    }
    events.push(Event::Finish { reason: reason(raw), raw: raw.to_owned() });
    events
}

fn reason(raw: &str) -> FinishReason {
    match raw {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::ContentFilter,
        "tool_use" => FinishReason::ToolUse,
        // A paused turn is no answer yet, and nobody here goes on with it.
        _ => FinishReason::Unknown,
    }
}

const INPUT: &str = "/input_tokens";
const CACHE_READ: &str = "/cache_read_input_tokens";
const CACHE_WRITE: &str = "/cache_creation_input_tokens";

/// What strangers count may be any number.
fn sum(parts: [u64; 3]) -> u64 {
    parts.into_iter().fold(0, u64::saturating_add)
}

/// The usage at the beginning of a message. A cache that is not spoken of was not used. The output is not taken: it
/// counts the first token or two, and were the answer cut after many, it would stand for all of them.
fn begun(usage: &Value) -> Event {
    let (cached, cache_write) = (count(usage, CACHE_READ), count(usage, CACHE_WRITE));
    let input = count(usage, INPUT).map(|input| sum([input, cached.unwrap_or(0), cache_write.unwrap_or(0)]));
    // No call reads nothing: servers that do not know yet say zero.
    Event::Usage(Counts { input: input.filter(|input| *input > 0), cached, cache_write, ..Counts::default() })
}

/// The usage at the end of a message, which is of the whole message and may leave anything out. The input is a sum
/// here: with a part of it missing, the one told at the beginning stands.
fn ended(usage: &Value) -> Counts {
    let mut counts = Counts {
        output: count(usage, "/output_tokens"),
        reasoning: count(usage, "/output_tokens_details/thinking_tokens"),
        ..Counts::default()
    };
    let parts = (count(usage, INPUT), count(usage, CACHE_READ), count(usage, CACHE_WRITE));
    if let (Some(input), Some(cached), Some(cache_write)) = parts {
        counts.input = Some(sum([input, cached, cache_write])).filter(|input| *input > 0);
        (counts.cached, counts.cache_write) = (Some(cached), Some(cache_write));
    }
    counts
}

/// What an error says.
pub fn fault(status: Option<u16>, body: &Value) -> Fault {
    let message = text(body, "/error/message").or_else(|| text(body, "/error")).unwrap_or("an error without a message");
    // What was allowed for the month is spent. It has the type of a rate limit, and waiting does not help.
    if text(body, "/error/details/error_code") == Some("enforced_spend_limit_reached") {
        return Fault::new(Class::Configuration, message);
    }
    let class = match text(body, "/error/type") {
        Some("authentication_error" | "permission_error" | "billing_error") => Class::Configuration,
        Some("not_found_error") => return Fault::of_model(message),
        Some("request_too_large") => Class::ContextWindow,
        Some("rate_limit_error") => Class::Throttled,
        Some("api_error" | "timeout_error" | "overloaded_error" | "conflict_error") => Class::Transient,
        // It stands for any status of its hundred that has no type of its own.
        Some("invalid_request_error") => return Fault::of_status(status.or(Some(400)), message),
        _ => return Fault::of_status(status, message),
    };
    Fault::new(class, message)
}
