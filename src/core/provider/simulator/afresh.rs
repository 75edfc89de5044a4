//! Decides what a model writes that goes on by beginning a new object instead of going on where it stopped.
//!
//! Outer keys that are complete are left out, of lists only the items still to come are written, and the item that was
//! interrupted comes again whole. Never repeats what it has said, and never corrects it.

use crate::knit;
use serde_json::{Map, Value};

const MARK: char = '…';

/// What stands in a text that was cut off anywhere. A text that was cut in the middle ends in a mark, so that it is not
/// taken for complete where only its end is missing.
pub(super) fn said(so_far: &str) -> Option<Value> {
    let (said, _) = knit::repair(so_far)?;
    let marked = knit::repair(&format!("{so_far}{MARK}")).map(|(marked, _)| marked);
    let length = said.to_string().len() + MARK.len_utf8();
    Some(marked.filter(|marked| marked.to_string().len() == length).unwrap_or(said))
}

/// What is left to say of the whole, as an object with the same outer keys.
pub(super) fn rest(whole: Value, said: &Value) -> Value {
    left(whole, said).unwrap_or_else(|| Value::Object(Map::new()))
}

/// What was asked for besides and has been begun: keys and entries that the whole does not have and the said does.
pub(super) fn with_begun(whole: &mut Value, said: &Value, besides: Value) {
    let (Value::Object(whole), Value::Object(said), Value::Object(besides)) = (whole, said, besides) else { return };
    for (key, value) in besides {
        match (whole.get_mut(&key), said.get(&key), value) {
            (None, Some(_), value) => drop(whole.insert(key, value)),
            (Some(Value::Array(items)), Some(Value::Array(said)), Value::Array(more)) if said.len() > items.len() => {
                items.extend(more);
            }
            _ => {}
        }
    }
}

/// The names of what is said and not in the whole, as a repair calls them.
pub(super) fn begun(whole: &Value, said: &Value) -> Vec<String> {
    let (Value::Object(whole), Value::Object(said)) = (whole, said) else { return Vec::new() };
    let mut names = Vec::new();
    for (key, value) in said {
        match (whole.get(key), value) {
            (None, _) => names.push(key.clone()),
            (Some(Value::Array(items)), Value::Array(said)) => {
                let documents = said.iter().skip(items.len()).filter_map(|entry| entry["document_key"].as_str());
                names.extend(documents.map(|document| format!("{key}[{document}]")));
            }
            _ => {}
        }
    }
    names
}

fn left(whole: Value, said: &Value) -> Option<Value> {
    match (whole, said) {
        (whole, said) if whole == *said => None,
        (Value::Object(fields), Value::Object(said)) => {
            let lacks = |(key, value): (String, Value)| match said.get(&key) {
                Some(said) => left(value, said).map(|value| (key, value)),
                None => Some((key, value)),
            };
            let fields: Map<String, Value> = fields.into_iter().filter_map(lacks).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        (Value::Array(mut items), Value::Array(said)) => {
            let same = items.iter().zip(said).take_while(|(item, said)| item == said).count();
            items.drain(..same);
            (!items.is_empty()).then_some(Value::Array(items))
        }
        (whole, _) => Some(whole),
    }
}
