//! Decides what a model is told when more of an answer is wanted: the turn as it was sent, everything it wrote so far,
//! and a directive that depends on why it stopped.
//!
//! The directive says exactly what is missing, and that nothing else is wanted. Never decides whether more is wanted.

use super::Definition;
use crate::answer::{self, Why};
use crate::knit;
use crate::prompt::{Message, PromptError, Role};
use serde_json::{Map, Value, json};

/// The template that asks for what an answer lacks.
const REPAIR: &str = "repair_missing_keys";
/// The template that asks for the rest of an answer.
pub(super) const CONTINUE: &str = "continue_answer";
/// The rest is asked for in these words where a definition was frozen without any.
pub(super) const SHIPPED: &str = include_str!("../../../sql/seed/prompts/shared/continue_answer.md.j2");

/// An answer of which more is wanted.
#[derive(Debug, Clone)]
pub struct Continuing {
    /// The messages it answered, as they were saved.
    pub turn: String,
    /// What the model wrote so far, chunk by chunk, oldest first.
    pub chunks: Vec<String>,
    /// Why more is wanted.
    pub why: Why,
    /// The shape of the JSON; none for a plain text.
    pub shape: Option<Value>,
    /// The document it is for.
    pub document_key: Option<String>,
}

impl Definition {
    /// The messages that ask for more of an answer. A model that has not written anything yet is sent its turn again.
    pub fn go_on(&self, continuing: &Continuing) -> Result<Vec<Message>, PromptError> {
        let template = if matches!(continuing.why, Why::Missing(_)) { REPAIR } else { CONTINUE };
        let mut messages: Vec<Message> = serde_json::from_str(&continuing.turn)
            .map_err(|problem| PromptError::unreadable(template, &problem.to_string()))?;
        let chunks: Vec<&str> = continuing.chunks.iter().map(String::as_str).collect();
        let so_far = so_far(&chunks, continuing.shape.as_ref(), continuing.document_key.as_deref());
        if so_far.trim().is_empty() {
            return Ok(messages);
        }
        let values = match &continuing.why {
            // A key that the shape does not know is asked for as a text.
            Why::Missing(missing) => {
                let shape = continuing.shape.as_ref().unwrap_or(&Value::Null);
                json!({"missing": missing, "shape": wanted(missing, shape)})
            }
            _ => continuing.values(&chunks, &so_far),
        };
        let directive = self.templates.render(template, &values)?;
        messages.push(Message { role: Role::Assistant, content: so_far });
        messages.push(Message { role: Role::User, content: directive.trim_end().to_owned() });
        Ok(messages)
    }
}

/// What a model is shown of what it wrote so far: in this shape, or as a plain text.
pub fn so_far(chunks: &[&str], shape: Option<&Value>, document_key: Option<&str>) -> String {
    match shape {
        Some(shape) => knit::so_far(chunks, Some(shape), document_key),
        None => knit::text(chunks).text,
    }
}

impl Continuing {
    /// What a directive may say.
    fn values(&self, chunks: &[&str], so_far: &str) -> Value {
        let key = self.document_key.as_deref();
        let mut values = json!({
            "why": self.why.as_str(), "is_json": self.shape.is_some(), "document_key": key,
            "is_closed": false, "missing": [], "open_at": null, "open_list": null,
        });
        let Some(shape) = &self.shape else {
            values["tail"] = knit::tail(so_far).into();
            return values;
        };
        let standing = knit::standing(chunks, Some(shape), key);
        // As it is shown it may be closed although it was cut off.
        let is_closed = !standing.is_open || serde_json::from_str::<serde::de::IgnoredAny>(so_far).is_ok();
        let read = answer::read(&knit::json(chunks, Some(shape), key).text, Some(shape), key);
        values["is_closed"] = is_closed.into();
        values["missing"] = read.map_or(standing.missing, |answer| answer.missing).into();
        values["tail"] = standing.tail.into();
        values["open_at"] = standing.open_at.filter(|place| !place.is_empty()).into();
        values["open_list"] = standing.open_list.map_or(Value::Null, |list| {
            json!({"path": list.path, "items": list.items, "last_complete": list.last_complete,
                   "interrupted": list.interrupted})
        });
        values
    }
}

/// The shape of what is missing. A document that a header does not speak of is missing from a list, as in
/// `list[document]`.
fn wanted(missing: &[String], shape: &Value) -> Map<String, Value> {
    let mut wanted = Map::new();
    for key in missing {
        let entry = key.strip_suffix(']').and_then(|key| key.split_once('['));
        let entry = entry.and_then(|(list, document)| {
            let entries = shape.get(list)?.as_array()?;
            Some((list, entries.iter().find(|entry| entry["document_key"] == *document)?))
        });
        match entry {
            Some((list, entry)) => {
                if let Value::Array(entries) = wanted.entry(list).or_insert_with(|| json!([])) {
                    entries.push(entry.clone());
                }
            }
            None => {
                let shape = shape.get(key).cloned().unwrap_or_else(|| json!("The text of this part."));
                wanted.insert(key.clone(), shape);
            }
        }
    }
    wanted
}
