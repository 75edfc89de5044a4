//! Ollama: `POST {base}/api/chat`, one JSON value a line.
//!
//! The window is always said: left alone, the server takes one by the memory it has and cuts a longer prompt without a
//! word. An error is a text, so its class is that of its status. What the model thought is not what it said.

#[cfg(test)]
mod laws;

use super::{Counts, Event, Key, Wire, count, extended, has_error, messages, text};
use crate::provider::fault::Fault;
use crate::provider::schema::schema;
use crate::provider::traits::Traits;
use crate::provider::{FinishReason, Request};
use serde_json::{Map, Value, json};

/// The request of a call.
pub fn wire(request: &Request, traits: &Traits) -> Wire {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.api_model));
    body.insert("messages".to_owned(), messages(request, traits));
    body.insert("stream".to_owned(), json!(true));
    let format = request.content.as_ref().and_then(|content| match traits.json() {
        "schema" => Some(schema(content)),
        "object" => Some(json!("json")),
        _ => None,
    });
    body.extend(format.map(|format| ("format".to_owned(), format)));
    let think = traits.thinking.clone().or_else(|| traits.effort.as_ref().map(|effort| json!(effort)));
    body.extend(think.map(|think| ("think".to_owned(), think)));
    let mut body = extended(body.into(), traits);

    // Options that the model's row adds stand beside these, and never in their place.
    let mut options = body.get("options").and_then(Value::as_object).cloned().unwrap_or_default();
    options.extend(traits.sampled().map(|(name, value)| (name.clone(), value.clone())));
    options.insert("num_ctx".to_owned(), json!(request.context_window));
    options.insert("num_predict".to_owned(), json!(request.max_output_tokens));
    body["options"] = options.into();
    Wire { path: "/api/chat".to_owned(), headers: Vec::new(), key: Key::Bearer, body }
}

/// What a line says.
pub fn events(_name: Option<&str>, data: &Value) -> Vec<Event> {
    if has_error(data) {
        return vec![Event::Fault(fault(None, data))];
    }
    let mut events = Vec::new();
    events.extend(text(data, "/message/content").map(|text| Event::Text(text.to_owned())));
    if data.pointer("/message/tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty()) {
        events.push(Event::Tool);
    }
    let counts =
        Counts { input: count(data, "/prompt_eval_count"), output: count(data, "/eval_count"), ..Counts::default() };
    if counts != Counts::default() {
        events.push(Event::Usage(counts));
    }
    if data.get("done").and_then(Value::as_bool) == Some(true) {
        let raw = text(data, "/done_reason").unwrap_or("done");
        let reason = match raw {
            "stop" => FinishReason::Stop,
            "length" => FinishReason::Length,
            // `load` and `unload` end a call that asked for nothing; without a reason nobody knows whether it was cut.
            _ => FinishReason::Unknown,
        };
        events.push(Event::Finish { reason, raw: raw.to_owned() });
    }
    events
}

/// What a response says that came in one piece: what its only line would.
pub fn whole(body: &Value) -> Vec<Event> {
    events(None, body)
}

/// What an error says.
pub fn fault(status: Option<u16>, body: &Value) -> Fault {
    let message = text(body, "/error").or_else(|| text(body, "/error/message")).unwrap_or("an error without a message");
    match status {
        Some(404) => Fault::of_model(message),
        _ => Fault::of_status(status, message),
    }
}
