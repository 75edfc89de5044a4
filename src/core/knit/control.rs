//! Decides what an answer means by the words it says about itself: whether it would go on.
//!
//! The model's word counts; where it gave none, a place to resume at does. Both come in many spellings. Never decides
//! which document is meant.

use crate::answer::is_empty;
use serde_json::Value;

/// How a model says that there is no place to resume at.
const NOWHERE: [&str; 5] = ["none", "null", "end", "complete", "done"];

/// Whether an answer would go on that says this of what is needed, and of where to resume.
pub(crate) fn would_go_on(needed: Option<&Value>, cursor: Option<&Value>) -> bool {
    match needed {
        Some(Value::Bool(needed)) => *needed,
        Some(Value::Number(needed)) => needed.as_f64().is_some_and(|needed| needed != 0.0),
        Some(Value::String(needed)) => ["true", "yes", "1"].iter().any(|word| needed.trim().eq_ignore_ascii_case(word)),
        _ => cursor.is_some_and(is_somewhere),
    }
}

/// Whether a place to resume at is one.
pub(super) fn is_somewhere(cursor: &Value) -> bool {
    match cursor {
        Value::Bool(is_so) => *is_so,
        Value::String(place) if NOWHERE.iter().any(|word| place.trim().eq_ignore_ascii_case(word)) => false,
        other => !is_empty(other),
    }
}
