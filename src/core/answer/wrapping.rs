//! Decides which object of a value is the answer, when others stand around it.
//!
//! A wrapper is taken off when what it holds has more of what was asked for than it has itself; without a shape, only a
//! wrapper that is known by its name. What stands beside the answer stays with it, except other documents.
//! Never goes deeper than a few wrappers.

use super::{Asked, CONTROL, fit, is_empty, keys};
use crate::{json, knit};
use serde_json::{Map, Value};

/// The most wrappers around one answer.
const WRAPPERS: usize = 5;
/// The most members of an object that are looked into.
const TRIED: usize = 32;
/// What a wrapper around one document is called.
const AROUND_ONE: [&str; 4] = ["content", "content_to_include", "document", "answer"];
/// What a list of documents is called.
const AROUND_MANY: [&str; 2] = ["documents", "context_for_documents"];

/// An object with its wrappers taken off.
pub(super) struct Opened {
    pub(super) fields: Map<String, Value>,
    pub(super) notes: Vec<String>,
    pub(super) control: Control,
    /// How many of the wanted keys it has.
    pub(super) score: usize,
}

/// What a model said about its answer.
#[derive(Default)]
pub(super) struct Control(Map<String, Value>);

impl Control {
    fn take(fields: &mut Map<String, Value>, asked: &Asked) -> Self {
        let mut control = Map::new();
        for key in CONTROL.iter().filter(|key| !asked.keys.contains(key)) {
            if let Some(value) = fields.shift_remove(*key) {
                control.insert((*key).to_owned(), value);
            }
        }
        Self(control)
    }

    pub(super) fn join(&mut self, other: Self) {
        for (key, value) in other.0 {
            self.0.entry(key).or_insert(value);
        }
    }

    /// The model's word counts; where it gave none, a place to resume at does.
    pub(super) fn needs_more(&self) -> bool {
        knit::would_go_on(self.0.get("continuation_needed"), self.0.get("resume_cursor"))
    }
}

/// Takes the wrappers off; `None` when there is no object.
pub(super) fn open(value: Value, asked: &Asked, document_key: Option<&str>) -> Option<Opened> {
    open_within(value, asked, document_key, WRAPPERS)
}

fn open_within(value: Value, asked: &Asked, document_key: Option<&str>, left: usize) -> Option<Opened> {
    match value {
        Value::Object(fields) => Some(open_object(fields, asked, document_key, left)),
        Value::Array(items) => open_list(items, asked, document_key, left),
        Value::String(text) if left > 0 && text.trim_start().starts_with(['{', '[', '`', '"']) => {
            let found = json::read(&text).ok()?;
            let mut opened = open_within(found.value, asked, document_key, left - 1)?;
            opened.notes.insert(0, "JSON inside a string".into());
            Some(opened)
        }
        _ => None,
    }
}

fn open_object(mut fields: Map<String, Value>, asked: &Asked, document_key: Option<&str>, left: usize) -> Opened {
    let control = Control::take(&mut fields, asked);
    let score = asked.score(&fields);
    let mut best: Option<(String, Opened)> = None;
    if left > 0 {
        let alone = fields.len() == 1;
        for (key, value) in fields.iter().take(TRIED) {
            let named = is_wrapper(key, asked, document_key);
            let may_wrap = named || alone || score == 0;
            if !may_wrap
                || asked.keys.contains(&key.as_str())
                || !(value.is_object() || value.is_array() || value.is_string())
            {
                continue;
            }
            if let Some(inner) = open_within(value.clone(), asked, document_key, left - 1) {
                // A member among others that has a little of it may be anything.
                let enough = named || alone || 2 * inner.score >= asked.keys.len();
                let sure = !AROUND_MANY.contains(&key.as_str()) || alone || names_it(value, document_key);
                let wins = (inner.score > score && enough) || (asked.keys.is_empty() && named && sure);
                if wins && best.as_ref().is_none_or(|(_, other)| inner.score > other.score) {
                    best = Some((key.clone(), inner));
                }
            }
        }
    }
    match best {
        None => Opened { fields, notes: Vec::new(), control, score },
        Some((wrapper, inner)) => join(fields, &wrapper, inner, control, asked, document_key),
    }
}

/// Puts what stood beside a wrapper behind what was in it.
fn join(
    outer: Map<String, Value>,
    wrapper: &str,
    mut inner: Opened,
    control: Control,
    asked: &Asked,
    document_key: Option<&str>,
) -> Opened {
    inner.notes.insert(0, format!("inside \"{wrapper}\""));
    inner.control.join(control);
    let among_documents = AROUND_MANY.contains(&wrapper) || document_key.is_some_and(|key| keys::same(key, wrapper));
    let beside: Vec<String> = outer.keys().filter(|key| *key != wrapper).cloned().collect();
    let wanted = keys::pair(&asked.keys, &outer);
    let is_wanted = |key: &str| wanted.iter().flatten().any(|place| outer.keys().nth(*place).is_some_and(|k| k == key));
    for key in beside {
        let value = &outer[&key];
        if key == "document_key" && !asked.keys.contains(&"document_key") {
            continue;
        }
        if among_documents && (value.is_object() || value.is_array()) && !is_wanted(&key) {
            inner.notes.push(format!("other document \"{key}\" left out"));
        } else {
            let ours = inner.fields.get_mut(&key).map_or(Value::Null, Value::take);
            if !is_empty(&ours) && ours != *value {
                inner.notes.push(format!("another \"{key}\" beside the answer left out"));
            }
            inner.fields.insert(key, super::merge(ours, value.clone()));
        }
    }
    inner.score = asked.score(&inner.fields);
    inner
}

fn is_wrapper(key: &str, asked: &Asked, document_key: Option<&str>) -> bool {
    let known = AROUND_ONE.contains(&key) || AROUND_MANY.contains(&key);
    (known && !asked.keys.contains(&key)) || document_key.is_some_and(|wanted| keys::same(wanted, key))
}

fn open_list(mut items: Vec<Value>, asked: &Asked, document_key: Option<&str>, left: usize) -> Option<Opened> {
    // A list where the only thing asked for was a list.
    if let ([key], [Some(shape @ Value::Array(_))]) = (asked.keys.as_slice(), asked.shapes.as_slice())
        && fit::is_list_of(&items, shape)
    {
        let fields = Map::from_iter([((*key).to_owned(), Value::Array(items))]);
        return Some(Opened {
            fields,
            notes: vec![format!("without \"{key}\"")],
            control: Control::default(),
            score: 1,
        });
    }
    let left = left.checked_sub(1)?;
    if let Some(place) = items.iter().position(|item| is_named(item, document_key)) {
        return open_within(items.swap_remove(place), asked, document_key, left);
    }
    // Without a shape nothing says which of several it would be.
    if items.len() > TRIED || (asked.keys.is_empty() && items.len() > 1) {
        return None;
    }
    let opened = items.into_iter().filter_map(|item| open_within(item, asked, document_key, left));
    let mut best = opened.reduce(|best, other| if other.score > best.score { other } else { best })?;
    best.notes.insert(0, "inside a list".into());
    Some(best)
}

/// Whether an entry says that it is for this document.
fn is_named(entry: &Value, document_key: Option<&str>) -> bool {
    let name = entry.get("document_key").or_else(|| entry.get("key")).and_then(Value::as_str);
    matches!((name, document_key), (Some(name), Some(wanted)) if keys::same(name, wanted))
}

/// Whether one of several documents is this one.
fn names_it(documents: &Value, document_key: Option<&str>) -> bool {
    match documents {
        Value::Array(entries) => entries.iter().any(|entry| is_named(entry, document_key)),
        Value::Object(fields) => fields.keys().any(|key| document_key.is_some_and(|wanted| keys::same(wanted, key))),
        _ => false,
    }
}
