//! Decides whether an object that a model began is the document again, a part of it, or another document.
//!
//! The document again has outer keys of it, or stands under its name. A bare list, or an item like those of the list
//! that was cut off, is the rest of that list. Anything else is another document and stays out. Wrappers are looked
//! through. Never merges.

use super::control;
use super::document::Document;
use super::items;
use super::scan::{Cut, Step};
use super::segment::Content;
use crate::answer::CONTROL;
use serde_json::{Map, Value};

/// The most wrappers around one document.
const WRAPPERS: usize = 5;
/// What a wrapper is called.
const WRAPPER: [&str; 4] = ["content", "content_to_include", "document", "answer"];
/// How the name of a place begins that is no document.
const PLACE: [&str; 8] = ["next", "part", "section", "item", "rest", "remaining", "continue", "after"];
/// So many bytes of a name tell it.
const NAMED: usize = 4;
/// The most items whose keys are looked at.
const LOOKED_AT: usize = 64;

/// What is known of the document beforehand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) shape: Option<&'a Value>,
    pub(super) document_key: Option<&'a str>,
}

impl Wanted<'_> {
    /// The outer keys that were asked for.
    pub(super) fn keys(&self) -> Vec<&str> {
        match self.shape {
            Some(Value::Object(fields)) => fields.keys().map(String::as_str).collect(),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    fn is_it(&self, key: &str) -> bool {
        self.document_key.is_some_and(|wanted| same(wanted, key))
    }
}

/// What an object is to the document.
pub(super) enum Kin {
    /// The document again: this goes into it.
    Same(Content),
    /// Another document, of this name.
    Other(String),
    /// Nothing at all.
    Nothing,
}

/// The keys under which the document stands inside its wrappers.
pub(super) fn wrappers(value: &Value, wanted: &Wanted) -> Vec<String> {
    let asked = wanted.keys();
    let mut found: Vec<String> = Vec::new();
    let mut inner = value;
    while let (Value::Object(fields), true) = (inner, found.len() < WRAPPERS) {
        let is_beside = |key: &str, value: &Value| is_control(key) || !(value.is_object() || value.is_array());
        let is_wrapper = |(key, value): &(&String, &Value)| {
            let alone = fields.iter().all(|(other, value)| other == *key || is_beside(other, value));
            value.is_object() && (wanted.is_it(key) || (alone && WRAPPER.contains(&key.as_str())))
        };
        let is_asked = |key: &str| asked.contains(&key);
        match fields.iter().filter(|(key, _)| !is_asked(key)).find(is_wrapper) {
            Some((key, value)) => {
                found.push(key.clone());
                inner = value;
            }
            None => break,
        }
    }
    found
}

/// What is inside the wrappers.
pub(super) fn inside<'a>(value: &'a Value, wrappers: &[String]) -> Option<&'a Value> {
    wrappers.iter().try_fold(value, |value, key| value.get(key))
}

/// Where the innermost document was cut, if it was cut inside it.
pub(super) fn cut_inside(cut: Option<&Cut>, wrappers: &[String]) -> Option<Cut> {
    let cut = cut?;
    let is_way = cut.path.len() >= wrappers.len()
        && wrappers.iter().zip(&cut.path).all(|(key, step)| matches!(step, Step::Key(there) if there == key));
    is_way.then(|| Cut { path: cut.path[wrappers.len()..].to_vec(), ..cut.clone() })
}

/// Judges what a model began, against what there is of the document without its wrappers.
pub(super) fn judge(
    document: &Value,
    cut: Option<&Cut>,
    theirs: Content,
    wanted: &Wanted,
    elsewhere: &[String],
    notes: &mut Vec<String>,
) -> Kin {
    let around = wrappers(&theirs.value, wanted);
    let theirs_cut = cut_inside(theirs.cut.as_ref(), &around);
    let is_named = around.iter().any(|key| wanted.is_it(key));
    let mut value = theirs.value;
    for key in &around {
        let Value::Object(mut fields) = value else { return Kin::Nothing };
        value = fields.get_mut(key).map_or(Value::Null, Value::take);
        for (other, beside) in fields.into_iter().filter(|(other, _)| other != key && !is_control(other)) {
            if beside.is_object() || beside.is_array() {
                notes.push(format!("other document \"{other}\" left out"));
            }
        }
    }
    let content = |value, cut| Content { value, cut, is_forgiven: theirs.is_forgiven };
    match (document, value) {
        (Value::Array(_), value @ Value::Array(_)) => Kin::Same(content(value, theirs_cut)),
        (Value::Object(ours), Value::Object(mut fields)) => {
            CONTROL.iter().for_each(|key| drop(fields.shift_remove(*key)));
            if fields.is_empty() {
                return Kin::Nothing;
            }
            let asked = wanted.keys();
            let is_asked = |key: &str| asked.contains(&key) || asked.iter().any(|asked| same(asked, key));
            let is_ours = |key: &str| ours.contains_key(key) || is_asked(key);
            let shared = fields.keys().filter(|key| is_ours(key)).count();
            let most = 2 * shared >= fields.len();
            if shared > 0 && (most || elsewhere.is_empty() || is_named) {
                let is_surplus = |key: &str, value: &Value| {
                    !is_ours(key)
                        && (elsewhere.iter().any(|e| same(e, key)) || (value.is_object() && !asked.is_empty()))
                };
                for key in fields.iter().filter(|(k, v)| is_surplus(k, v)).map(|(k, _)| k.clone()).collect::<Vec<_>>() {
                    fields.shift_remove(&key);
                    notes.push(format!("other document \"{key}\" left out"));
                }
                return Kin::Same(content(Value::Object(fields), theirs_cut));
            }
            let value = Value::Object(fields);
            if is_item(document, cut, &value) {
                return rest_of_list(document, cut, vec![value], theirs_cut, Some(0), theirs.is_forgiven);
            }
            let Value::Object(fields) = value else { return Kin::Nothing };
            // Where nothing says what was asked for, what was missing may come alone; but behind a document that is
            // complete one object under a name is another document.
            let is_document = cut.is_none() && fields.len() == 1 && fields.values().all(Value::is_object);
            if is_named || (asked.is_empty() && elsewhere.is_empty() && !is_document) {
                return Kin::Same(content(Value::Object(fields), theirs_cut));
            }
            Kin::Other(fields.keys().take(3).cloned().collect::<Vec<_>>().join("\", \""))
        }
        (_, Value::Array(items)) => rest_of_list(document, cut, items, theirs_cut, None, theirs.is_forgiven),
        (Value::Array(_), Value::Object(fields)) => {
            rest_of_list(document, cut, vec![Value::Object(fields)], theirs_cut, Some(0), theirs.is_forgiven)
        }
        _ => Kin::Nothing,
    }
}

/// Whether an object that could be the next item of a list is rather the document again.
///
/// `due` is the key whose value was due at the end of the one, and the key at which the other ends, be it only half of
/// it.
pub(super) fn is_document_rather(so_far: &Document, due: [Option<&str>; 2], theirs: &Value, wanted: &Wanted) -> bool {
    let [due, begun] = due;
    let (document, cut) = (so_far.inner(), so_far.inner_cut());
    let asked = wanted.keys();
    // Where a wrapper was just opened, what comes is what it holds.
    if let Some(due) = due.filter(|due| !asked.contains(due) && (WRAPPER.contains(due) || wanted.is_it(due))) {
        return theirs
            .as_object()
            .is_some_and(|fields| fields.keys().next().map(String::as_str).or(begun) == Some(due));
    }
    let items = item_keys(document, cut.as_ref());
    // The name of the document, as far as it was written, if no item begins like it.
    let is_name = |half: &str| half.len() >= NAMED && !items.iter().any(|key| key.starts_with(half));
    let named = wanted.document_key.filter(|name| begun.is_some_and(|half| name.starts_with(half) && is_name(half)));
    let begun = named.or(begun);
    let around = wrappers(theirs, wanted);
    let open = cut.as_ref().and_then(|cut| match cut.path.first() {
        Some(Step::Key(key)) => Some(key.as_str()),
        _ => None,
    });
    let is_outer = |key: &str| {
        let is_there = so_far.value.get(key).is_some() || document.get(key).is_some();
        let is_wrapper = around.iter().any(|a| a == key) || (begun == Some(key) && WRAPPER.contains(&key));
        is_there || is_wrapper || asked.contains(&key) || wanted.is_it(key) || due == Some(key)
    };
    [Some(theirs), inside(theirs, &around)].into_iter().flatten().filter_map(Value::as_object).any(|fields| {
        let begun = begun.filter(|_| fields.is_empty());
        let keys: Vec<&str> = fields.keys().map(String::as_str).chain(begun).filter(|key| !is_control(key)).collect();
        let outer = keys.iter().filter(|key| is_outer(key)).count();
        let inner = keys.iter().filter(|key| items.contains(key)).count();
        // It goes on where it stopped, or most of it is known.
        let resumes = keys.first().is_some_and(|first| due == Some(*first) || open == Some(*first));
        outer > inner && (resumes || 2 * outer >= keys.len())
    })
}

/// The rest of the list that was cut off, in its place.
fn rest_of_list(
    document: &Value,
    cut: Option<&Cut>,
    items: Vec<Value>,
    theirs_cut: Option<Cut>,
    within: Option<usize>,
    is_forgiven: bool,
) -> Kin {
    let lists = || document.as_object().into_iter().flatten().filter(|(_, value)| value.is_array());
    let way = match cut.and_then(|cut| open_list(document, cut).map(|steps| cut.path[..steps].to_vec())) {
        Some(way) => way,
        None if lists().count() == 1 => lists().map(|(key, _)| Step::Key(key.clone())).collect(),
        None if document.is_array() => Vec::new(),
        None => return Kin::Other("a list".to_owned()),
    };
    let mut value = Value::Array(items);
    for step in way.iter().rev() {
        let Step::Key(key) = step else { return Kin::Nothing };
        value = Value::Object(Map::from_iter([(key.clone(), value)]));
    }
    let cut = theirs_cut.map(|cut| {
        let item = within.map(Step::Item).into_iter();
        Cut { path: way.into_iter().chain(item).chain(cut.path).collect(), ..cut }
    });
    Kin::Same(Content { value, cut, is_forgiven })
}

/// How many steps lead to the outermost list that is open.
pub(super) fn open_list(document: &Value, cut: &Cut) -> Option<usize> {
    let mut value = document;
    for (steps, step) in cut.path.iter().enumerate() {
        if value.is_array() {
            return Some(steps);
        }
        value = follow(value, step)?;
    }
    value.is_array().then_some(cut.path.len())
}

/// The value one step on.
pub(super) fn follow<'a>(value: &'a Value, step: &Step) -> Option<&'a Value> {
    match step {
        Step::Key(key) => value.get(key),
        Step::Item(place) => value.get(place),
    }
}

/// Whether an object is like the items of the list that was cut off.
pub(super) fn is_item(document: &Value, cut: Option<&Cut>, theirs: &Value) -> bool {
    let Some(fields) = theirs.as_object() else { return false };
    let known = item_keys(document, cut);
    let alike = fields.keys().filter(|key| known.contains(&key.as_str())).count();
    let is_identified = items::IDENTIFYING.iter().any(|field| fields.contains_key(*field) && known.contains(field));
    2 * alike > fields.len() || (is_identified && 2 * alike >= fields.len())
}

/// Whether an object is an item that comes behind those of the list that was cut off, and not the last of them again.
pub(super) fn is_next_item(document: &Value, cut: Option<&Cut>, theirs: &Value) -> bool {
    let list = cut.and_then(|cut| cut.path[..open_list(document, cut)?].iter().try_fold(document, follow));
    let last = list.and_then(Value::as_array).and_then(|items| items.last()).and_then(items::called);
    is_item(document, cut, theirs) && (last.is_none() || last != items::called(theirs))
}

/// The keys of the items of the list that was cut off.
fn item_keys<'a>(document: &'a Value, cut: Option<&Cut>) -> Vec<&'a str> {
    let Some(cut) = cut else { return Vec::new() };
    let Some(steps) = open_list(document, cut) else { return Vec::new() };
    let list = cut.path[..steps].iter().try_fold(document, follow).and_then(Value::as_array);
    let items = list.into_iter().flatten().rev().take(LOOKED_AT).filter_map(Value::as_object);
    let mut keys: Vec<&str> = items.flat_map(|item| item.keys().map(String::as_str)).take(1024).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The document that a model says it would go on with.
pub(super) fn cursor(value: &Value, around: &[String], wanted: &Wanted) -> Option<String> {
    let levels = (0..=around.len()).filter_map(|depth| inside(value, &around[..depth]));
    let cursor = levels.filter_map(|level| level.get("resume_cursor")).find(|cursor| control::is_somewhere(cursor))?;
    let name = match cursor {
        Value::String(name) => Some(name.as_str()).filter(|name| is_other_document(name, value, wanted)),
        cursor => cursor.get("document_key").and_then(Value::as_str),
    };
    name.map(str::to_owned)
}

/// Whether a text that says where to resume is the key of another document: a name of several words, and of nothing
/// here.
fn is_other_document(name: &str, value: &Value, wanted: &Wanted) -> bool {
    let mut words = name.split('_');
    let is_place = words.next().is_some_and(|first| PLACE.contains(&first));
    let is_name = name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let is_here =
        || wanted.is_it(name) || [Some(value), wanted.shape].into_iter().flatten().any(|in_it| has(in_it, name));
    is_name && !is_place && !is_here()
}

/// Whether something in a value, or in a list of keys, goes by this name.
fn has(value: &Value, name: &str) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, held)| same(key, name) || ((held.is_object() || held.is_array()) && has(held, name))),
        Value::Array(items) => items.iter().any(|item| has(item, name)),
        Value::String(key) => same(key, name),
        _ => false,
    }
}

/// Whether an object has nothing but words about itself.
pub(super) fn says_nothing(value: &Value) -> bool {
    value.as_object().is_some_and(|fields| fields.keys().all(|key| is_control(key)))
}

pub(super) fn is_control(key: &str) -> bool {
    CONTROL.contains(&key)
}

/// Whether two names are the same but for their spelling.
pub(super) fn same(one: &str, other: &str) -> bool {
    let letters =
        |name: &str| name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    letters(one) == letters(other)
}
