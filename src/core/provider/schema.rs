//! Decides the JSON schema of what a step asks for: its `content_to_include`, in the words that every provider takes.
//!
//! Those are few: every object names its properties, requires them all and allows no other; every list says what its
//! items are; a text may have a description or be one of some words. There is no choice of types, no null, no count.
//!
//! | written | schema |
//! |---|---|
//! | `"hint"`, `null` | a text, the hint its description |
//! | `3`, `true` | a number, true or false |
//! | `[]`, `["hint"]` | a list of texts |
//! | `[{…}]`, `[{…}, …]` | a list of objects, of what all of the patterns have in common |
//! | `[{"document_key": "a", …}, …]` | the same, the key one of those |
//! | `{…}` | an object of that shape |
//! | `{}`, and what is too deep | a text that holds JSON |
//! | a list of names for the whole | an object with those keys: lists where the name is a plural, else texts |
//!
//! A strict schema cannot leave an object to the writer. A text that holds it loses least: any object can be written in
//! it, and [`crate::answer`] reads it back as an object; fixed keys would take the choice away, and pairs of name and
//! value the nesting.
//!
//! What fits the schema is never judged to lack anything. Therefore the entries of a header, of which an answer must
//! have every one, are not a list here, which may always be too short, but an object with a property for each document,
//! which is read as the list. Never grows beyond a small multiple of what it was given.

#[cfg(test)]
mod laws;

use super::simulator::is_plural;
use crate::recipe::HEADER_DOCUMENTS;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, HashSet};

/// The field that names the document an entry is for, and the one that says what is in it.
const DOCUMENT_KEY: &str = "document_key";
const CONTENT: &str = "content_to_include";
/// Objects and lists within each other; what is deeper is a text that holds JSON. OpenAI allows ten levels, of which a
/// list of names may take one more than it shows.
const DEEPEST: usize = 9;
/// Words to choose from; with more of them OpenAI counts their letters.
const WORDS: usize = 250;
/// Hints that one description is made of.
const HINTS: usize = 8;
/// Letters of the name of a schema.
const NAME: usize = 64;

/// The JSON schema of what a step asks for. Where it asks for no key, that is an object of the writer's choice.
pub fn schema(content: &Value) -> Value {
    let whole = match content {
        Value::Object(fields) if !fields.is_empty() => {
            Form::Object(fields.iter().map(|(key, value)| whole(key, value)).collect())
        }
        Value::Array(names) => keys(names),
        _ => Form::Object(Vec::new()),
    };
    match whole {
        // The whole cannot be a text. Under this name an answer is taken out of its wrapper.
        Form::Object(fields) if fields.is_empty() => Form::Object(vec![("content", Form::Json(None))]).written(),
        whole => whole.written(),
    }
}

/// A name for a schema, from any text: letters, digits, `_` and `-`, at least one and at most 64.
pub fn name(text: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = text.chars().take(NAME).map(|c| if is_kept(c) { c } else { '_' }).collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

/// What is wanted in one place.
#[derive(Debug, Clone, PartialEq)]
enum Form<'a> {
    /// A text, with hints what it is about.
    Text(Vec<&'a str>),
    Number,
    Flag,
    /// One of these words.
    Word(Vec<&'a str>),
    Object(Vec<(&'a str, Form<'a>)>),
    List(Box<Form<'a>>),
    /// JSON inside a text, where there is no schema for it; of this pattern, if there is one.
    Json(Option<&'a Value>),
}

impl Form<'_> {
    fn written(&self) -> Value {
        match self {
            Self::Text(hints) => text(hints.join("\n")),
            Self::Number => json!({"type": "number"}),
            Self::Flag => json!({"type": "boolean"}),
            Self::Word(words) if words.len() > WORDS => text(String::new()),
            Self::Word(words) => json!({"type": "string", "enum": words}),
            Self::List(item) => json!({"type": "array", "items": item.written()}),
            Self::Json(None) => text("A JSON object of your choice, written as a text".to_owned()),
            Self::Json(Some(pattern)) => text(format!("JSON like this, written as a text: {pattern}")),
            Self::Object(fields) => {
                let properties: Map<String, Value> =
                    fields.iter().map(|(key, form)| ((*key).to_owned(), form.written())).collect();
                let required: Vec<&String> = properties.keys().collect();
                json!({"type": "object", "required": required, "additionalProperties": false, "properties": properties})
            }
        }
    }
}

fn text(description: String) -> Value {
    if description.is_empty() {
        json!({"type": "string"})
    } else {
        json!({"type": "string", "description": description})
    }
}

/// One key of the whole: the entries of a header are wanted one by one.
fn whole<'a>(key: &'a str, value: &'a Value) -> (&'a str, Form<'a>) {
    let entries = value.as_array().filter(|_| key == HEADER_DOCUMENTS).and_then(|entries| each(entries));
    (key, entries.unwrap_or_else(|| read(key, value, 2)))
}

/// A property for each document; none where these are not entries, or two for one document.
fn each(entries: &[Value]) -> Option<Form<'_>> {
    let mut seen = HashSet::new();
    let entry = |entry| {
        let document = document_of(entry).filter(|document| seen.insert(*document))?;
        let fields = entry.as_object()?.iter().filter(|(key, _)| *key != DOCUMENT_KEY);
        let mut fields: Vec<_> = fields.map(|(key, value)| (key.as_str(), read(key, value, 4))).collect();
        if fields.is_empty() {
            fields.push((CONTENT, Form::Json(None)));
        }
        Some((document, Form::Object(fields)))
    };
    let entries: Option<Vec<_>> = entries.iter().map(entry).collect();
    entries.filter(|entries| !entries.is_empty()).map(Form::Object)
}

fn read<'a>(key: &str, value: &'a Value, level: usize) -> Form<'a> {
    match value {
        Value::Null => Form::Text(Vec::new()),
        Value::Bool(_) => Form::Flag,
        Value::Number(_) => Form::Number,
        Value::String(hint) => Form::Text(if hint.trim().is_empty() { Vec::new() } else { vec![hint] }),
        Value::Object(fields) if fields.is_empty() => Form::Json(None),
        _ if level > DEEPEST => Form::Json(Some(value)),
        Value::Object(fields) => {
            Form::Object(fields.iter().map(|(key, value)| (key.as_str(), read(key, value, level + 1))).collect())
        }
        Value::Array(names) if key == CONTENT && are_names(names) => keys(names),
        Value::Array(names) if key == HEADER_DOCUMENTS && are_names(names) => announced(names),
        Value::Array(items) => match list(items, level) {
            // The outermost list is the one that is read back.
            Form::Json(_) => Form::Json(Some(value)),
            item => Form::List(Box::new(item)),
        },
    }
}

/// What the items of a list are.
fn list(items: &[Value], level: usize) -> Form<'_> {
    let name_documents = match items {
        // One alone may also be the pattern of many, whose key is then a hint in words.
        [one] => document_of(one).is_some_and(|key| key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c))),
        several => several.iter().all(|entry| document_of(entry).is_some()),
    };
    let item = |item| {
        let mut form = read("", item, level + 1);
        if let (true, Form::Object(fields), Some(document)) = (name_documents, &mut form, document_of(item)) {
            for (_, form) in fields.iter_mut().filter(|(key, _)| *key == DOCUMENT_KEY) {
                *form = Form::Word(vec![document]);
            }
        }
        form
    };
    unite(items.iter().map(item).collect())
}

/// What all of some patterns have in common, so that an item of any of them fits.
fn unite(forms: Vec<Form<'_>>) -> Form<'_> {
    let mut rest = forms.into_iter();
    let Some(first) = rest.next() else { return Form::Text(Vec::new()) };
    let rest: Vec<Form> = rest.collect();
    if rest.iter().all(|form| *form == first) {
        return first;
    }
    match first {
        Form::Text(hints) => all(rest, |form| if let Form::Text(hints) = form { Some(hints) } else { None })
            .map(|more| Form::Text(distinct(hints.into_iter().chain(more.into_iter().flatten()), HINTS))),
        Form::Word(words) => all(rest, |form| if let Form::Word(words) = form { Some(words) } else { None })
            .map(|more| Form::Word(distinct(words.into_iter().chain(more.into_iter().flatten()), usize::MAX))),
        Form::List(item) => all(rest, |form| if let Form::List(item) = form { Some(*item) } else { None })
            .map(|more| unite(std::iter::once(*item).chain(more).collect()))
            .and_then(|item| if let Form::Json(_) = item { None } else { Some(Form::List(Box::new(item))) }),
        Form::Object(fields) => all(rest, |form| match form {
            Form::Object(more) if more.len() == fields.len() => Some(more.into_iter().collect::<HashMap<_, _>>()),
            _ => None,
        })
        .and_then(|mut more| {
            let field = |(key, form)| {
                let others: Option<Vec<Form>> = more.iter_mut().map(|fields| fields.remove(key)).collect();
                Some((key, unite(std::iter::once(form).chain(others?).collect())))
            };
            fields.into_iter().map(field).collect::<Option<_>>().map(Form::Object)
        }),
        Form::Number | Form::Flag | Form::Json(_) => None,
    }
    .unwrap_or(Form::Json(None))
}

fn all<'a, T>(forms: Vec<Form<'a>>, part: impl FnMut(Form<'a>) -> Option<T>) -> Option<Vec<T>> {
    forms.into_iter().map(part).collect()
}

fn distinct<'a>(words: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    words.filter(|word| seen.insert(*word)).take(most).collect()
}

fn document_of(entry: &Value) -> Option<&str> {
    entry.get(DOCUMENT_KEY)?.as_str().filter(|document| !document.trim().is_empty())
}

fn are_names(names: &[Value]) -> bool {
    !names.is_empty() && names.iter().all(Value::is_string)
}

/// An object of which only the keys are given.
fn keys(names: &[Value]) -> Form<'_> {
    let form = |name| {
        let text = Form::Text(Vec::new());
        (name, if is_plural(name) { Form::List(Box::new(text)) } else { text })
    };
    Form::Object(distinct(names.iter().filter_map(Value::as_str), usize::MAX).into_iter().map(form).collect())
}

/// Entries for documents of which only the names are given. What each is to contain is not read back here, so it is
/// plain text.
fn announced(names: &[Value]) -> Form<'_> {
    let names = names.iter().filter_map(Value::as_str).filter(|name| !name.trim().is_empty());
    let names = distinct(names, usize::MAX);
    let key = if names.is_empty() { Form::Text(names) } else { Form::Word(names) };
    Form::List(Box::new(Form::Object(vec![(DOCUMENT_KEY, key), (CONTENT, Form::Text(Vec::new()))])))
}
