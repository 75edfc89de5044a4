//! Decides what of a model's answer is what its step asked for.
//!
//! An answer is accepted where its meaning is clear: wrapped, with keys spelt otherwise, with one type for another. It
//! comes out in normal form: the keys that were asked for, in that order and under those names, then whatever else
//! there was. Of the answer nothing is thrown away but the control keys, and nothing is put in that was not written;
//! what stood beside it and was not asked for, as other documents, may be left out. What was left out or had to be
//! forgiven is noted. Whether to ask again for what is missing is not decided here.
//!
//! The shape asked for is JSON: an object whose keys are wanted, or a list of their names. Under a key, a text stands
//! for a text, a list for a list of what it holds, an object for an object (`{}` for any), a number for a number. Only
//! the keys of the outermost object are required; of a header also the entry of every document.

mod documents;
mod fit;
mod keys;
#[cfg(test)]
mod laws;
mod list;
mod verdict;
mod wrapping;

pub use verdict::{Budget, Verdict, Wanted, Why, assembled, verdict};

use crate::json::{self, Unreadable};
use serde_json::{Map, Value};

/// The keys by which a model speaks about its answer rather than in it.
pub const CONTROL: [&str; 3] = ["continuation_needed", "resume_cursor", "stop_reason"];
/// The most notes that are kept of one answer.
const NOTES: usize = 40;

/// An answer in normal form.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What was written: an object.
    pub content: Value,
    /// The required keys that are not in it.
    pub missing: Vec<String>,
    /// What had to be forgiven, each in a few words.
    pub notes: Vec<String>,
    /// Whether the model says that it has not finished.
    pub continuation_needed: bool,
}

/// Why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unusable {
    /// There is no JSON to read in it, or it is cut off.
    #[error(transparent)]
    Json(#[from] Unreadable),
    /// There is JSON, and no object.
    #[error("the JSON of the answer is no object")]
    NoObject,
    /// There is an object, and nothing in it was asked for.
    #[error("nothing that was asked for is in the answer: it has {given}, and {asked} was wanted")]
    NothingAsked {
        /// The keys that are there.
        given: String,
        /// The keys that were wanted.
        asked: String,
    },
}

/// Reads an answer against the shape that was asked for. Without a shape any object will do.
pub fn read(text: &str, shape: Option<&Value>, document_key: Option<&str>) -> Result<Answer, Unusable> {
    let asked = Asked::of(shape);
    match json::all(text) {
        Ok(found) => choose(found, &asked, document_key),
        Err(Unreadable::Cut { partial, notes, complete }) => {
            // Something that was begun after a whole answer takes nothing away from it.
            let whole = if complete.is_empty() { None } else { choose(complete.clone(), &asked, document_key).ok() };
            match whole {
                Some(mut answer) if answer.missing.is_empty() && !asked.keys.is_empty() => {
                    note(&mut answer.notes, "something cut off behind the answer left out");
                    Ok(answer)
                }
                _ => Err(Unreadable::Cut { partial, notes, complete }.into()),
            }
        }
        Err(problem) => Err(problem.into()),
    }
}

/// Puts into a first answer what it lacks and a second one has. Nothing of the first is lost or replaced but what is
/// empty; objects are merged key by key, entries of documents by their document key.
pub fn merge(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Object(mut first), Value::Object(second)) => {
            for (key, theirs) in second {
                let ours = first.get_mut(&key).map_or(Value::Null, Value::take);
                first.insert(key, merge(ours, theirs));
            }
            Value::Object(first)
        }
        (Value::Array(first), Value::Array(second)) if !first.is_empty() => documents::merge(first, second),
        (first, second) if is_empty(&first) && !second.is_null() => second,
        (first, _) => first,
    }
}

/// Whether a value says nothing: null, blank, or without members.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The keys that are wanted, with the shape of each.
struct Asked<'a> {
    keys: Vec<&'a str>,
    shapes: Vec<Option<&'a Value>>,
}

impl<'a> Asked<'a> {
    fn of(shape: Option<&'a Value>) -> Self {
        let (keys, shapes) = match shape {
            Some(Value::Object(fields)) => fields.iter().map(|(key, shape)| (key.as_str(), Some(shape))).unzip(),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(|key| (key, None)).unzip(),
            _ => (Vec::new(), Vec::new()),
        };
        Self { keys, shapes }
    }

    /// How many of the wanted keys an object has, however they are spelt.
    fn score(&self, fields: &Map<String, Value>) -> usize {
        keys::pair(&self.keys, fields).into_iter().flatten().count()
    }
}

/// Of several values the one that has most of what was asked for; what it lacks may stand in the others.
fn choose(found: Vec<json::Found>, asked: &Asked, document_key: Option<&str>) -> Result<Answer, Unusable> {
    let total = found.len();
    let mut opened: Vec<(wrapping::Opened, Vec<String>, usize)> = found
        .into_iter()
        .filter_map(|one| {
            let opened = wrapping::open(one.value, asked, document_key)?;
            Some((opened, one.notes, one.length))
        })
        .collect();
    opened.sort_by_key(|(opened, _, length)| std::cmp::Reverse((opened.score, *length)));
    let mut opened = opened.into_iter();
    let (best, mut notes, _) = opened.next().ok_or(Unusable::NoObject)?;
    if best.score == 0 && !asked.keys.is_empty() {
        return Err(nothing_asked(&best.fields, asked));
    }
    let mut control = best.control;
    best.notes.iter().for_each(|text| note(&mut notes, text));
    let (mut fields, mut missing) = fit::fields(best.fields, asked, "", &mut notes);
    let mut used = 1;
    for (other, ..) in opened {
        if missing.is_empty() || other.score == 0 {
            continue;
        }
        control.join(other.control);
        let more = fit::fields(other.fields, asked, "", &mut Vec::new()).0;
        if let Value::Object(merged) = merge(Value::Object(fields.clone()), Value::Object(more)) {
            (fields, missing) = fit::fields(merged, asked, "", &mut Vec::new());
        }
        used += 1;
        note(&mut notes, "several objects taken together");
    }
    if total > used {
        note(&mut notes, &format!("{} other JSON values left out", total - used));
    }
    Ok(Answer { content: Value::Object(fields), missing, notes, continuation_needed: control.needs_more() })
}

fn nothing_asked(fields: &Map<String, Value>, asked: &Asked) -> Unusable {
    let given: Vec<&str> = fields.keys().map(String::as_str).collect();
    Unusable::NothingAsked { given: name_some(&given), asked: name_some(&asked.keys) }
}

/// The first of some keys, for a message.
fn name_some(keys: &[&str]) -> String {
    const SHOWN: usize = 8;
    let quote = |key: &&str| format!("\"{}\"", key.chars().take(60).collect::<String>());
    let mut names = keys.iter().take(SHOWN).map(quote).collect::<Vec<_>>().join(", ");
    if keys.len() > SHOWN {
        names += &format!(" and {} more", keys.len() - SHOWN);
    }
    if keys.is_empty() { "nothing".to_owned() } else { names }
}

/// Adds a note, unless it is there or there are enough.
fn note(notes: &mut Vec<String>, text: &str) {
    if notes.len() < NOTES && !notes.iter().any(|there| there == text) {
        notes.push(text.chars().take(200).collect());
    }
}
