//! Reads single fields of a JSON object.
//!
//! Decides whether a value is text, a key, a word of a vocabulary, a flag, a number, a pointer or a list of keys. What
//! is not becomes a problem with its step and field, and the caller reads on. Never repeats more than a few words of
//! what it is given, and walks nested content without recursion.

use std::str::FromStr;

use serde_json::{Map, Value};

use super::{Problems, UnknownWord};

const MAX_TEXT: usize = 200;
/// Deeper content would overflow the stack of whoever walks it.
const MAX_DEPTH: usize = 64;

/// Reads the fields of one object; what it cannot read becomes a problem and `None`.
pub(super) struct Reader<'a> {
    pub(super) fields: &'a Map<String, Value>,
    pub(super) step: String,
    pub(super) prefix: String,
    pub(super) problems: &'a mut Problems,
}

impl<'a> Reader<'a> {
    pub(super) fn complain(&mut self, name: &str, message: impl Into<String>) {
        let field = format!("{}{}", self.prefix, clip(name));
        self.problems.add(Some(&self.step), field, message);
    }

    pub(super) fn refuse_unknown(&mut self, known: &[&str], what: &str) {
        let fields = self.fields;
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            self.complain(name, format!("is not a field of {what}"));
        }
    }

    /// The value of a field; JSON null means the same as absent.
    pub(super) fn given(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn required<T>(&mut self, name: &str, read: fn(&mut Self, &str) -> Option<T>) -> Option<T> {
        if self.given(name).is_none() {
            self.complain(name, "is missing");
            return None;
        }
        read(self, name)
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let value = self.given(name)?;
        let Value::String(text) = value else {
            self.complain(name, format!("must be text, is {}", kind(value)));
            return None;
        };
        if text.is_empty() || text.chars().count() > MAX_TEXT {
            self.complain(name, format!("must be 1 to {MAX_TEXT} characters long"));
            return None;
        }
        if text.chars().any(char::is_control) {
            self.complain(name, "must not contain control characters");
            return None;
        }
        Some(text.clone())
    }

    pub(super) fn key(&mut self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        if !is_key(&text) {
            let message = format!("\"{}\" must match [a-z][a-z0-9_]{{0,62}}", clip(&text));
            self.complain(name, message);
            return None;
        }
        Some(text)
    }

    pub(super) fn word<T: FromStr<Err = UnknownWord>>(&mut self, name: &str) -> Option<T> {
        match self.text(name)?.parse() {
            Ok(word) => Some(word),
            Err(unknown) => {
                self.complain(name, unknown.to_string());
                None
            }
        }
    }

    pub(super) fn flag(&mut self, name: &str) -> Option<bool> {
        let value = self.given(name)?;
        if value.as_bool().is_none() {
            self.complain(name, format!("must be true or false, is {}", kind(value)));
        }
        value.as_bool()
    }

    pub(super) fn whole_number(&mut self, name: &str) -> Option<i64> {
        let value = self.given(name)?;
        if value.as_i64().is_none() {
            self.complain(name, format!("must be a whole number, is {}", kind(value)));
        }
        value.as_i64()
    }

    pub(super) fn relevance(&mut self) -> Option<f64> {
        let value = self.given("relevance")?;
        let number = value.as_f64().filter(|number| (0.0..=1.0).contains(number));
        if number.is_none() {
            self.complain("relevance", "must be a number from 0 to 1");
        }
        number
    }

    pub(super) fn pointer(&mut self, name: &str) -> Option<String> {
        // The empty pointer is legal JSON and means the whole; it is the same as giving none.
        if self.given(name).and_then(Value::as_str) == Some("") {
            return None;
        }
        let text = self.text(name)?;
        let escapes_well = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if !text.starts_with('/') || !escapes_well {
            self.complain(name, "must be a JSON pointer such as /features/0");
            return None;
        }
        Some(text)
    }

    pub(super) fn content(&mut self, name: &str) -> Option<Value> {
        let value = self.given(name)?;
        let well_formed = match value {
            Value::Object(_) => true,
            Value::Array(keys) => keys.iter().all(|key| key.as_str().is_some_and(|key| !key.is_empty())),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        if !well_formed {
            self.complain(name, "must be an object or a list of keys");
            return None;
        }
        if is_deeper_than(value, MAX_DEPTH) {
            self.complain(name, format!("is nested deeper than {MAX_DEPTH}"));
            return None;
        }
        Some(value.clone())
    }

    /// The content with its keys in the order that is given, for a database may not keep the one they were written in;
    /// those that are not named follow.
    pub(super) fn ordered(&mut self, name: &str, content: Option<Value>) -> Option<Value> {
        let Some(order) = self.given(name) else { return content };
        let (Some(Value::Object(mut fields)), Value::Array(keys)) = (content, order) else {
            self.complain(name, "must be a list of the keys of content_to_include, which must be an object");
            return None;
        };
        let mut ordered = Map::new();
        for key in keys {
            match key.as_str().and_then(|key| fields.shift_remove_entry(key)) {
                Some((key, value)) => drop(ordered.insert(key, value)),
                None => {
                    self.complain(name, format!("names {}, which content_to_include lacks", clip(&key.to_string())))
                }
            }
        }
        ordered.extend(fields);
        Some(Value::Object(ordered))
    }
}

pub(super) fn is_key(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn is_deeper_than(value: &Value, limit: usize) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > limit {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|item| (item, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Enough of a foreign word to recognise it by.
pub(super) fn clip(word: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = word.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if word.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
