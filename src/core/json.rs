//! Decides what JSON stands in a text that a model wrote.
//!
//! Forgives what leaves no doubt about the meaning (prose and fences around it, trailing commas, raw line ends inside
//! strings, an object written as a string) and says what it forgave. Every text is read in linear time and bounded
//! depth. Never closes what was cut off: that is an error of its own, [`Unreadable::Cut`], and [`close`] is for whoever
//! wants it closed. Never looks at what was asked for: that is decided in [`crate::answer`].

#[cfg(test)]
pub(crate) mod laws;
mod reader;

use reader::{Reader, Stop};
use serde_json::Value;

/// The most bytes that are read.
pub const LARGEST: usize = 64 << 20;
/// The deepest nesting that is read.
pub const DEEPEST: usize = 100;
/// How often an object may be wrapped into a string.
const WRAPPED: usize = 3;
/// Steps for every byte of the text, all attempts together.
const EFFORT: usize = 16;

/// A JSON value that stands in a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The value.
    pub value: Value,
    /// What had to be forgiven, each in a few words.
    pub notes: Vec<String>,
    /// How many bytes of the text it took.
    pub length: usize,
}

/// Why a text has no JSON to use.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unreadable {
    /// There is none.
    #[error("the answer has no JSON in it")]
    Nothing,
    /// It ends in the middle.
    #[error("the JSON of the answer ends in the middle")]
    Cut {
        /// What could be read, closed where it was cut.
        partial: Value,
        /// What had to be forgiven in it.
        notes: Vec<String>,
        /// What stands complete before it.
        complete: Vec<Found>,
    },
    /// It is nested too deeply.
    #[error("the JSON of the answer is nested deeper than {DEEPEST} levels")]
    TooDeep,
    /// There is too much of it.
    #[error("the answer is larger than {LARGEST} bytes")]
    TooLarge,
}

/// Every object and list in a text, in order, none inside another.
pub fn all(text: &str) -> Result<Vec<Found>, Unreadable> {
    gather(text, 0)
}

/// The part of a JSON text that a pointer names: a text as it is, anything else as JSON; nothing where there is no such
/// part.
pub fn part(text: &str, pointer: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    match value.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(part) => serde_json::to_string_pretty(part).unwrap_or_default(),
        None => String::new(),
    }
}

/// The JSON of a text; of several values the longest object, else the longest list.
pub fn read(text: &str) -> Result<Found, Unreadable> {
    let mut found = all(text)?;
    let others = found.len() - 1;
    let mut best = 0;
    for (at, one) in found.iter().enumerate() {
        if (one.value.is_object(), one.length) > (found[best].value.is_object(), found[best].length) {
            best = at;
        }
    }
    let mut best = found.swap_remove(best);
    if others > 0 {
        best.notes.push(format!("{others} other JSON values left out"));
    }
    Ok(best)
}

/// As [`read`], with everything closed that was cut off.
pub fn close(text: &str) -> Option<Value> {
    match read(text) {
        Ok(found) => Some(found.value),
        Err(Unreadable::Cut { partial, .. }) => Some(partial),
        Err(_) => None,
    }
}

fn gather(text: &str, wrapped: usize) -> Result<Vec<Found>, Unreadable> {
    if text.len() > LARGEST {
        return Err(Unreadable::TooLarge);
    }
    let mut common = Vec::new();
    let mut body = text.trim();
    if let Some(rest) = body.strip_prefix('\u{feff}') {
        common.push("byte order mark".to_owned());
        body = rest.trim_start();
    }
    if body.starts_with('"')
        && wrapped < WRAPPED
        && let Some(inner) = whole_string(body)
    {
        let mut found = gather(&inner, wrapped + 1)?;
        found.iter_mut().for_each(|one| one.notes.insert(0, "JSON inside a string".into()));
        return Ok(found);
    }

    let mut found: Vec<Found> = Vec::new();
    let mut outside = String::new();
    let mut effort = EFFORT * body.len() + 1024;
    let (mut at, mut too_deep) = (0, false);
    while let Some(start) = body[at..].find(['{', '[']).map(|offset| at + offset) {
        outside.push_str(&body[at..start]);
        let mut reader = Reader::new(body, start, effort);
        let result = reader.value(0);
        effort = effort.saturating_sub(reader.position() - start + 1);
        if reader.gave_up() {
            break;
        }
        match result {
            Ok(value) if reader.cut && !is_hollow(&value) => {
                let notes = [common, reader.into_notes()].concat();
                return Err(Unreadable::Cut { partial: value, notes, complete: found });
            }
            Ok(value) if !reader.cut => {
                at = reader.position();
                found.push(Found { value, length: at - start, notes: reader.into_notes() });
            }
            stopped => {
                too_deep |= matches!(stopped, Err(Stop::TooDeep));
                // What stands inside a broken object is debris, not an answer.
                let next = if reader.members > 0 && !reader.cut { reader.position() } else { start + 1 };
                let next = (next.max(start + 1)..=body.len()).find(|i| body.is_char_boundary(*i)).unwrap_or(body.len());
                outside.push_str(&body[start..next]);
                at = next;
            }
        }
    }
    if found.is_empty() {
        return Err(if too_deep { Unreadable::TooDeep } else { Unreadable::Nothing });
    }
    outside.push_str(&body[at..]);
    common.extend(surroundings(&outside));
    found.iter_mut().for_each(|one| one.notes.splice(0..0, common.iter().cloned()).for_each(drop));
    Ok(found)
}

/// Nothing was read of it: a lone bracket in prose is not an answer that was cut off.
fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.iter().all(is_hollow),
        Value::Null => true,
        _ => false,
    }
}

/// The text of a string that is all there is.
fn whole_string(body: &str) -> Option<String> {
    let mut reader = Reader::new(body, 0, EFFORT * body.len() + 1024);
    match reader.value(0) {
        Ok(Value::String(inner)) if !reader.cut && body[reader.position()..].trim().is_empty() => Some(inner),
        _ => None,
    }
}

/// What stood around the values, as notes.
fn surroundings(outside: &str) -> Vec<String> {
    let mut notes = Vec::new();
    let is_fence = |line: &str| line.starts_with("```") || line.starts_with("~~~");
    if outside.lines().any(|line| is_fence(line.trim())) {
        notes.push("code fence".to_owned());
    }
    let is_prose = |line: &str| !line.is_empty() && !is_fence(line) && line != ",";
    if outside.lines().any(|line| is_prose(line.trim())) {
        notes.push("text around the JSON".to_owned());
    }
    notes
}
