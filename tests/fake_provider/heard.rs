//! Decides what a request was: who asked whom, and what it says, message by message, in whichever dialect it was put.
//!
//! Reads the forms that the documentation gives, apart from the code that writes them. Never decides what is answered.

use dialectic_core::provider::dialect::Dialect;
use serde_json::Value;
use std::time::Instant;

/// A request as the server saw it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub model: String,
    pub dialect: Dialect,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Value,
    pub at: Instant,
    /// Which connection it came on, counted from 1.
    pub connection: u64,
    /// The status it was answered with.
    pub status: u16,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }

    /// What it says, in order: who, as `system`, `user` or `assistant`, and what.
    pub fn messages(&self) -> Vec<(String, String)> {
        messages(self.dialect, &self.body)
    }
}

/// What a body says, in order.
pub(super) fn messages(dialect: Dialect, body: &Value) -> Vec<(String, String)> {
    // What frames the rest has a place of its own in some dialects.
    let (frame, list) = match dialect {
        Dialect::Chat | Dialect::Ollama => (&Value::Null, &body["messages"]),
        Dialect::Responses => (&body["instructions"], &body["input"]),
        Dialect::Anthropic => (&body["system"], &body["messages"]),
        Dialect::Google => (&body["systemInstruction"]["parts"], &body["contents"]),
    };
    let mut said = Vec::new();
    if !frame.is_null() {
        said.push(("system".to_owned(), text(frame)));
    }
    for message in list.as_array().into_iter().flatten() {
        let role = match message["role"].as_str().unwrap_or_default() {
            "model" => "assistant",
            "developer" => "system",
            role => role,
        };
        let content = message.get("content").or(message.get("parts")).unwrap_or(&Value::Null);
        said.push((role.to_owned(), text(content)));
    }
    said
}

/// The last words of the model itself.
pub(super) fn own_words(dialect: Dialect, body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    messages(dialect, &body).into_iter().rev().find(|(role, _)| role == "assistant").map(|(_, text)| text)
}

/// A text, or the texts of its parts.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}
