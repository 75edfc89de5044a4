//! Decides which entry of a header belongs to which document.
//!
//! A header promises one entry for every document of its stage; a document without its entry could not be written, so
//! each one that is missing is named. Entries for documents that nobody asked for stay, behind the others.

use super::{fit, keys, merge as merge_values, note};
use crate::recipe::HEADER_DOCUMENTS;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// What an entry calls its document, and what it says about it.
const KEY: &str = "document_key";
const CONTENT: &str = "content_to_include";

/// Whether a shape lists the entries of a header.
pub(super) fn are_entries(key: &str, shape: &Value) -> bool {
    let entries = shape.as_array().map(Vec::as_slice).unwrap_or_default();
    key == HEADER_DOCUMENTS && !entries.is_empty() && entries.iter().all(|entry| name(entry).is_some())
}

/// Puts the entries into the order of the shape, and names those that are missing.
pub(super) fn fit(value: Value, shape: &Value, key: &str, missing: &mut Vec<String>, notes: &mut Vec<String>) -> Value {
    let wanted = shape.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut given: Vec<Option<Value>> = entries(value, notes).into_iter().map(Some).collect();
    let mut out = Vec::with_capacity(given.len());
    for entry in wanted {
        let Some(wanted_key) = name(entry) else { continue };
        let place = format!("{key}[{wanted_key}]");
        let is_it =
            |given: &Option<Value>| given.as_ref().and_then(name).is_some_and(|name| keys::same(name, wanted_key));
        let Some(found) = given.iter_mut().find(|given| is_it(given)).and_then(Option::take) else {
            missing.push(place);
            continue;
        };
        out.push(normal(found, wanted_key, entry.get(CONTENT), &place, notes));
    }
    out.extend(given.into_iter().flatten());
    Value::Array(out)
}

/// Joins two lists: entries of documents by their key; of other lists the first stays as it is.
pub(super) fn merge(first: Vec<Value>, second: Vec<Value>) -> Value {
    if !first.iter().chain(&second).all(|entry| name(entry).is_some()) {
        return Value::Array(first);
    }
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut out: Vec<Value> = first;
    for (place, entry) in out.iter().enumerate() {
        places.entry(name(entry).unwrap_or_default().to_owned()).or_insert(place);
    }
    for entry in second {
        match places.get(name(&entry).unwrap_or_default()) {
            Some(place) => {
                let ours = out[*place].take();
                out[*place] = merge_values(ours, entry);
            }
            None => {
                places.insert(name(&entry).unwrap_or_default().to_owned(), out.len());
                out.push(entry);
            }
        }
    }
    Value::Array(out)
}

fn name(entry: &Value) -> Option<&str> {
    entry.get(KEY).and_then(Value::as_str).filter(|name| !name.trim().is_empty())
}

/// The entries as a list, also when they are keyed by the document.
fn entries(value: Value, notes: &mut Vec<String>) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        Value::Object(fields) if fields.get(KEY).is_some_and(Value::is_string) => vec![Value::Object(fields)],
        Value::Object(fields) => {
            note(notes, "entries keyed by their document");
            let entry = |(key, value)| {
                let mut entry = Map::from_iter([(KEY.to_owned(), Value::String(key))]);
                match value {
                    Value::Object(inner) if inner.contains_key(CONTENT) => {
                        entry.extend(inner.into_iter().filter(|(name, _)| name != KEY));
                    }
                    other => drop(entry.insert(CONTENT.to_owned(), other)),
                }
                Value::Object(entry)
            };
            fields.into_iter().map(entry).collect()
        }
        other => vec![other],
    }
}

/// One entry: the key as asked, what the document is to say under its own name, and whatever else there was.
fn normal(entry: Value, key: &str, shape: Option<&Value>, place: &str, notes: &mut Vec<String>) -> Value {
    let Value::Object(mut fields) = entry else { return entry };
    fields.shift_remove(KEY);
    let named =
        [CONTENT, "content", "context"].into_iter().find(|name| fields.get(*name).is_some_and(|v| !v.is_null()));
    let content = match named.and_then(|name| fields.shift_remove(name)) {
        Some(content) => content,
        None => {
            note(notes, &format!("the content of {place} not under a key of its own"));
            Value::Object(std::mem::take(&mut fields))
        }
    };
    let content = match shape {
        Some(shape) => fit::fit(content, shape, place, notes),
        None => content,
    };
    let mut out = Map::from_iter([(KEY.to_owned(), Value::String(key.to_owned())), (CONTENT.to_owned(), content)]);
    for (name, value) in fields {
        out.entry(name).or_insert(value);
    }
    Value::Object(out)
}
