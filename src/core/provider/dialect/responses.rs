//! OpenAI Responses: `POST {base}/responses`.
//!
//! Text comes by deltas alone: the response at the end repeats it, and is read for why it ended and what it consumed.
//! The words of an error count by `code` and `type`, never by `message`. Never asks the provider to keep a response.

#[cfg(test)]
mod laws;

use super::{Counts, Event, Key, Wire, chat, count, extended, has_error, text};
use crate::prompt::Role;
use crate::provider::fault::Fault;
use crate::provider::schema::schema;
use crate::provider::traits::Traits;
use crate::provider::{Class, FinishReason, Request};
use serde_json::{Map, Value, json};

/// The request of a call.
pub fn wire(request: &Request, traits: &Traits) -> Wire {
    let format = request.content.as_ref().and_then(|content| match traits.json() {
        "schema" => {
            Some(json!({"type": "json_schema", "name": chat::SCHEMA_NAME, "strict": true, "schema": schema(content)}))
        }
        "object" => Some(json!({"type": "json_object"})),
        _ => None,
    });
    // A request for a JSON object is refused unless its input says JSON, and what says so is the frame; instructions do
    // not count as input. Where a model may be asked for one, the frame is input in every request: those that go on
    // with an answer are held to no format, and have to begin as the first did.
    let frame = traits.system_role.as_deref().or((traits.json() == "object").then_some("developer"));

    let (mut instructions, mut input) = (Vec::new(), Vec::new());
    for message in &request.messages {
        let role = match (message.role, frame) {
            (Role::System, None) => {
                instructions.push(message.content.as_str());
                continue;
            }
            (Role::System, Some(role)) => role,
            (Role::User, _) => "user",
            (Role::Assistant, _) => "assistant",
        };
        input.push(json!({"role": role, "content": message.content}));
    }

    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.api_model));
    if !instructions.is_empty() {
        body.insert("instructions".to_owned(), json!(instructions.join("\n\n")));
    }
    body.insert("input".to_owned(), input.into());
    body.insert("max_output_tokens".to_owned(), json!(request.max_output_tokens));
    body.insert("store".to_owned(), json!(false));
    body.insert("stream".to_owned(), json!(true));
    body.extend(traits.sampled().map(|(name, value)| (name.clone(), value.clone())));
    if let Some(effort) = &traits.effort {
        body.insert("reasoning".to_owned(), json!({"effort": effort}));
    }
    if let Some(format) = format {
        body.insert("text".to_owned(), json!({"format": format}));
    }
    Wire { path: "/responses".to_owned(), headers: Vec::new(), key: Key::Bearer, body: extended(body.into(), traits) }
}

/// What an event of a stream says.
pub fn events(name: Option<&str>, data: &Value) -> Vec<Event> {
    let kind = text(data, "/type").or(name).unwrap_or_default();
    match kind {
        "response.output_text.delta" => said(data, "/delta", Event::Text),
        "response.refusal.delta" => said(data, "/delta", Event::Refusal),
        "response.output_item.added" | "response.output_item.done" => {
            data.get("item").filter(|item| is_tool(item)).map(|_| Event::Tool).into_iter().collect()
        }
        "response.completed" | "response.incomplete" | "response.failed" => {
            let word = kind.trim_start_matches("response.");
            ended(data.get("response").unwrap_or(&Value::Null), word, false)
        }
        _ if kind == "error" || has_error(data) => vec![Event::Fault(fault(None, data))],
        _ => Vec::new(),
    }
}

/// What a response says that came in one piece.
pub fn whole(body: &Value) -> Vec<Event> {
    let word = if has_error(body) { "failed" } else { "unknown" };
    ended(body, word, true)
}

/// What a response says at its end; `word` is its status where it has none of its own.
fn ended(response: &Value, word: &str, with_text: bool) -> Vec<Event> {
    let mut events = Vec::new();
    for item in response.get("output").and_then(Value::as_array).into_iter().flatten() {
        if is_tool(item) {
            events.push(Event::Tool);
        }
        for part in item.get("content").and_then(Value::as_array).into_iter().flatten() {
            match text(part, "/type") {
                Some("output_text") if with_text => events.extend(said(part, "/text", Event::Text)),
                Some("refusal") => events.extend(said(part, "/refusal", Event::Refusal)),
                _ => {}
            }
        }
    }
    if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
        events.push(Event::Usage(counts(usage)));
    }
    let status = text(response, "/status").unwrap_or(word);
    events.push(match status {
        _ if status == "failed" || has_error(response) => Event::Fault(fault(None, response)),
        "completed" => finish(FinishReason::Stop, status),
        "incomplete" => match text(response, "/incomplete_details/reason") {
            // The reference names the first and shows the second.
            Some(raw @ ("max_output_tokens" | "max_tokens")) => finish(FinishReason::Length, raw),
            Some(raw @ "content_filter") => finish(FinishReason::ContentFilter, raw),
            raw => finish(FinishReason::Unknown, raw.unwrap_or(status)),
        },
        _ => finish(FinishReason::Unknown, status),
    });
    events
}

fn said(value: &Value, pointer: &str, event: impl Fn(String) -> Event) -> Vec<Event> {
    text(value, pointer).map(|text| event(text.to_owned())).into_iter().collect()
}

fn finish(reason: FinishReason, raw: &str) -> Event {
    Event::Finish { reason, raw: raw.to_owned() }
}

fn is_tool(item: &Value) -> bool {
    matches!(text(item, "/type"), Some("function_call" | "custom_tool_call"))
}

fn counts(usage: &Value) -> Counts {
    Counts {
        input: count(usage, "/input_tokens"),
        output: count(usage, "/output_tokens"),
        cached: count(usage, "/input_tokens_details/cached_tokens"),
        cache_write: count(usage, "/input_tokens_details/cache_write_tokens"),
        reasoning: count(usage, "/output_tokens_details/reasoning_tokens"),
    }
}

/// What an error says: a body, a response that failed, or an `error` event, whose fields some servers wrap and some do
/// not.
pub fn fault(status: Option<u16>, body: &Value) -> Fault {
    let there = |error: &&Value| !error.is_null();
    let wrapped = body.get("error").filter(there).or_else(|| body.pointer("/response/error").filter(there));
    let error = wrapped.unwrap_or(body);
    match text(error, "/code") {
        Some("invalid_prompt") => Fault::new(Class::Permanent, chat::message(error)),
        _ => chat::judged(status, error),
    }
}
