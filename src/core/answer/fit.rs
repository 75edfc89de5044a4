//! Decides how a value becomes what was asked for, where that loses nothing.
//!
//! Keys get the name and the order of the shape, a text becomes a list and a list a text, an object written as a text
//! is read. What does not become what was asked for stays as it is. Never drops a value, never makes one up.

use super::{Asked, documents, keys, list, note};
use crate::json;
use serde_json::{Map, Number, Value};

/// Puts the wanted members first, under the names asked for, and says which are missing; `path` is where they stand.
pub(super) fn fields(
    given: Map<String, Value>,
    asked: &Asked,
    path: &str,
    notes: &mut Vec<String>,
) -> (Map<String, Value>, Vec<String>) {
    let pairs = keys::pair(&asked.keys, &given);
    let mut given: Vec<Option<(String, Value)>> = given.into_iter().map(Some).collect();
    let mut out = Map::new();
    let mut missing = Vec::new();
    for ((key, shape), place) in asked.keys.iter().zip(&asked.shapes).zip(pairs) {
        let here = if path.is_empty() { (*key).to_owned() } else { format!("{path}.{key}") };
        let Some((name, value)) = place.and_then(|place| given[place].take()) else {
            missing.push(here);
            continue;
        };
        if name != *key {
            note(notes, &format!("\"{name}\" read as \"{here}\""));
        }
        if value.is_null() {
            missing.push(here);
            continue;
        }
        if path.is_empty() && value.as_str().is_some_and(|text| text.trim().is_empty()) {
            note(notes, &format!("\"{here}\" is empty"));
        }
        let value = match shape {
            Some(entries) if path.is_empty() && documents::are_entries(key, entries) => {
                documents::fit(value, entries, key, &mut missing, notes)
            }
            Some(shape) => fit(value, shape, &here, notes),
            None => value,
        };
        out.insert((*key).to_owned(), value);
    }
    for (name, value) in given.into_iter().flatten() {
        // A spelling of a key that is there already loses nothing by keeping its own name.
        out.entry(name).or_insert(value);
    }
    (out, missing)
}

/// Makes a value what the shape says.
pub(super) fn fit(value: Value, shape: &Value, path: &str, notes: &mut Vec<String>) -> Value {
    match shape {
        Value::String(_) => as_text(value, path, notes),
        Value::Array(items) => as_list(value, items.first(), path, notes),
        Value::Object(fields) if fields.is_empty() => written_out(value, Value::is_object, path, notes),
        Value::Object(_) => as_object(value, shape, path, notes),
        Value::Number(_) => as_number(value, path, notes),
        Value::Null | Value::Bool(_) => value,
    }
}

/// Whether a list looks like what a shape of a list asks for: items with at least half of what each is to have.
pub(super) fn is_list_of(items: &[Value], shape: &Value) -> bool {
    match shape.get(0) {
        Some(inner @ Value::Object(_)) => {
            let asked = Asked::of(Some(inner));
            let fits =
                |item: &Value| item.as_object().is_some_and(|fields| 2 * asked.score(fields) >= asked.keys.len());
            !items.is_empty() && items.iter().all(fits)
        }
        Some(Value::String(_)) => !items.is_empty() && items.iter().all(Value::is_string),
        _ => false,
    }
}

fn as_text(value: Value, path: &str, notes: &mut Vec<String>) -> Value {
    let text = match &value {
        Value::Array(items) => list::join(items),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    };
    match text {
        Some(text) => {
            note(notes, &format!("{} as the text \"{path}\"", kind(&value)));
            Value::String(text)
        }
        None => value,
    }
}

fn as_list(value: Value, shape: Option<&Value>, path: &str, notes: &mut Vec<String>) -> Value {
    let value = written_out(value, Value::is_array, path, notes);
    let of_objects = shape.filter(|shape| shape.as_object().is_some_and(|fields| !fields.is_empty()));
    let items = match value {
        Value::Array(items) => items,
        Value::Null => return Value::Null,
        Value::Object(fields) => match of_objects {
            Some(shape) => from_object(fields, shape, path, notes),
            None => return Value::Object(fields),
        },
        Value::String(text) if text.trim().is_empty() => Vec::new(),
        Value::String(text) => {
            note(notes, &format!("a text as the list \"{path}\""));
            match list::split(&text).filter(|_| of_objects.is_none()) {
                Some(items) => items.into_iter().map(Value::String).collect(),
                None => vec![Value::String(text)],
            }
        }
        other => {
            note(notes, &format!("{} as the list \"{path}\"", kind(&other)));
            vec![other]
        }
    };
    let inside = format!("{path}[]");
    match of_objects {
        Some(shape) => items.into_iter().map(|item| as_object(item, shape, &inside, notes)).collect(),
        None => Value::Array(items),
    }
}

/// An object where a list of objects was asked for: one item, or items that are keyed by their names.
fn from_object(fields: Map<String, Value>, shape: &Value, path: &str, notes: &mut Vec<String>) -> Vec<Value> {
    let asked = Asked::of(Some(shape));
    let names_items = !fields.is_empty() && asked.score(&fields) == 0 && fields.values().all(Value::is_object);
    let Some(name) = asked.keys.first().filter(|_| names_items) else {
        note(notes, &format!("an object as the list \"{path}\""));
        return vec![Value::Object(fields)];
    };
    note(notes, &format!("an object keyed by names as the list \"{path}\""));
    let item = |(key, item): (String, Value)| {
        let Value::Object(inner) = item else { return item };
        if keys::pair(&[name], &inner).first().is_some_and(Option::is_some)
            && inner.values().any(|v| v.as_str() == Some(&key))
        {
            return Value::Object(inner);
        }
        // The item may use the name for something else; the key then goes under one of its own.
        let place = if inner.contains_key(*name) { "key" } else { name };
        let mut out = Map::from_iter([(place.to_owned(), Value::String(key))]);
        for (name, value) in inner {
            let name = if out.contains_key(&name) { format!("{name}_") } else { name };
            out.insert(name, value);
        }
        Value::Object(out)
    };
    fields.into_iter().map(item).collect()
}

fn as_object(value: Value, shape: &Value, path: &str, notes: &mut Vec<String>) -> Value {
    match written_out(value, Value::is_object, path, notes) {
        Value::Object(given) => {
            let (out, absent) = fields(given, &Asked::of(Some(shape)), path, notes);
            if !absent.is_empty() {
                let absent: Vec<&str> = absent.iter().map(String::as_str).collect();
                note(notes, &format!("not there: {}", super::name_some(&absent)));
            }
            Value::Object(out)
        }
        Value::Array(mut items) if items.len() == 1 && items[0].is_object() && !path.ends_with("[]") => {
            note(notes, &format!("a list as the object \"{path}\""));
            as_object(items.swap_remove(0), shape, path, notes)
        }
        other => other,
    }
}

fn as_number(value: Value, path: &str, notes: &mut Vec<String>) -> Value {
    let Value::String(text) = &value else { return value };
    let digits = text.trim();
    let number = digits.parse::<i64>().ok().map(Number::from);
    // Only a spelling that a number gives back is kept as one.
    let number =
        number.or_else(|| Number::from_f64(digits.parse().ok()?)).filter(|number| number.to_string() == digits);
    match number {
        Some(number) => {
            note(notes, &format!("a text as the number \"{path}\""));
            Value::Number(number)
        }
        None => value,
    }
}

/// A value that was written into a text, if it is what is wanted.
fn written_out(value: Value, is_wanted: fn(&Value) -> bool, path: &str, notes: &mut Vec<String>) -> Value {
    let Value::String(text) = &value else { return value };
    let trimmed = text.trim();
    if !(trimmed.starts_with(['{', '[']) && trimmed.ends_with(['}', ']'])) {
        return value;
    }
    match json::all(trimmed) {
        // The whole of it, or something would be lost.
        Ok(mut found) if found.len() == 1 && found[0].length == trimmed.len() && is_wanted(&found[0].value) => {
            note(notes, &format!("JSON inside the text \"{path}\""));
            found.swap_remove(0).value
        }
        _ => value,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
