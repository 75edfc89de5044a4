//! Joining the chunks of an answer and repairing its JSON, for whoever asks from SQL.

use dialectic_core::provider::storable;
use dialectic_core::{json, knit};
use pgrx::JsonB;
use pgrx::prelude::*;
use serde_json::Value;

/// The chunks as one text: as JSON where the first of them begins with some, else as prose.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _knit(chunks: Vec<Option<String>>) -> String {
    let chunks: Vec<&str> = chunks.iter().flatten().map(String::as_str).collect();
    let is_json = chunks.first().is_some_and(|first| !matches!(json::all(first), Err(json::Unreadable::Nothing)));
    if is_json { knit::json(&chunks, None, None).text } else { knit::text(&chunks).text }
}

/// JSON that keeps every complete value of a text; null when there is none in it.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _repair_json(text: &str) -> Option<JsonB> {
    knit::repair(text).map(|(value, _)| JsonB(storable_json(value)))
}

/// All its texts without the one character that Postgres cannot store.
fn storable_json(value: Value) -> Value {
    match value {
        Value::String(string) => Value::String(storable(string)),
        Value::Array(items) => items.into_iter().map(storable_json).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (storable(key), storable_json(value))).collect(),
        other => other,
    }
}
