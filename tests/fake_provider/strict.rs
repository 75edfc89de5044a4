//! Decides which requests a server with rules of its own refuses, in the words that this server uses.
//!
//! The rules are those that compatible servers are known to have where they differ from OpenAI's. Never decides what an
//! accepted request gets.

use super::Act;
use serde_json::{Value, json};

/// A server whose rules hold for every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strict {
    /// Refuses every field that it does not know.
    Mistral,
    /// Ignores unknown fields, and refuses values that it does not know.
    DeepSeek,
}

const MISTRAL_FIELDS: [&str; 20] = [
    "frequency_penalty",
    "guardrails",
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_mode",
    "random_seed",
    "reasoning_effort",
    "response_format",
    "safe_prompt",
    "stop",
    "stream",
    "temperature",
    "tools",
    "top_p",
];

impl Strict {
    /// What a request gets that this server refuses; none for one that it accepts.
    pub(super) fn refusal(self, body: &Value) -> Option<Act> {
        let (status, error) = match self {
            Strict::Mistral => (422, unknown_fields(body)?),
            Strict::DeepSeek => (400, unknown_values(body)?),
        };
        Some(Act::body(status, "application/json", error.to_string()))
    }
}

fn unknown_fields(body: &Value) -> Option<Value> {
    let details: Vec<Value> = body
        .as_object()?
        .iter()
        .filter(|(name, _)| !MISTRAL_FIELDS.contains(&name.as_str()))
        .map(|(name, value)| {
            let message = "Extra inputs are not permitted";
            json!({"type": "extra_forbidden", "loc": ["body", name], "msg": message, "input": value})
        })
        .collect();
    let message = json!({"detail": details});
    (!details.is_empty()).then(
        || json!({"object": "error", "message": message, "type": "invalid_request_error", "param": null, "code": null}),
    )
}

fn unknown_values(body: &Value) -> Option<Value> {
    let format = body.pointer("/response_format/type").and_then(Value::as_str);
    let roles = body["messages"].as_array().into_iter().flatten().filter_map(|message| message["role"].as_str());
    let message = if format.is_some_and(|format| !["text", "json_object"].contains(&format)) {
        "This response_format type is unavailable now"
    } else if roles.into_iter().any(|role| !["system", "user", "assistant", "tool"].contains(&role)) {
        "Failed to deserialize the JSON body into the target type: messages: unknown variant"
    } else {
        return None;
    };
    let kind = "invalid_request_error";
    Some(json!({"error": {"message": message, "type": kind, "param": null, "code": kind}}))
}
