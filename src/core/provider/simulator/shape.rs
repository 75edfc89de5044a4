//! Decides what JSON a step asks for: its `content_to_include`, read as a shape to be filled.
//!
//! | written | wanted |
//! |---|---|
//! | `"hint"` | a text |
//! | `[]`, `["hint"]` | a list of texts |
//! | `[{…}]` | a list of objects of that shape |
//! | `[{"document_key": "a", …}, …]` | one entry for each, with that very key |
//! | `{…}`, `{}` | an object of that shape, an object of the writer's choice |
//! | `3`, `true` | a number from 1 to 5, true or false |
//!
//! A list of names in the place of the whole is an object with those keys: lists where the name is a plural, else
//! texts. Never writes a word, and never grows beyond a small multiple of what it was given, however deep that is.

use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The field that names the document an entry is for.
const DOCUMENT_KEY: &str = "document_key";
/// The field in which a header names its documents; plain names will do there.
const DOCUMENTS: &str = "context_for_documents";
/// The field in which a header says what a document contains, as a step does.
const CONTENT: &str = "content_to_include";
/// Texts in a list of texts.
const TEXTS: usize = 3;
/// Objects in a list of objects, as long as lists are not nested deeper than `NESTED`.
const OBJECTS: usize = 2;
const NESTED: usize = 3;
/// Levels that are looked into; what is deeper is a text.
const DEEPEST: usize = 64;

/// What is wanted in one place.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::provider) enum Shape<'a> {
    /// A text, with a hint what it is about and its share of the words.
    Text { hint: &'a str, room: Room },
    /// A number from 1 to 5.
    Number,
    /// True or false.
    Flag,
    /// A text that is given.
    Literal(&'a str),
    /// An object with these keys.
    Object(Vec<(&'a str, Shape<'a>)>),
    /// A list of exactly these.
    List(Vec<Shape<'a>>),
}

/// How much a text may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::provider) enum Room {
    /// A name: two or three words, whatever the length of the answer.
    Label,
    /// An item of a list.
    Item,
    /// A passage.
    Passage,
}

impl Room {
    /// Its share, next to those of the other texts.
    pub(super) fn units(self) -> usize {
        match self {
            Self::Label => 0,
            Self::Item => 1,
            Self::Passage => 3,
        }
    }
}

impl<'a> Shape<'a> {
    /// The shape of a whole answer; none where a plain text is wanted.
    pub(in crate::provider) fn asked(content: Option<&'a Value>) -> Option<Self> {
        match content? {
            Value::Object(fields) if !fields.is_empty() => Some(object(fields, Level::default())),
            Value::Array(names) => Some(keys(names)).filter(|shape| !shape.is_empty()),
            _ => None,
        }
    }

    /// The shape of an answer that supplies what was missing: exactly these names, of the shape they had where it is
    /// known.
    pub(super) fn missing(asked: Option<&Self>, names: &[&'a str]) -> Self {
        let known: HashMap<&str, &Self> = match asked {
            Some(Self::Object(fields)) => fields.iter().map(|(key, shape)| (*key, shape)).collect(),
            _ => HashMap::new(),
        };
        let parts = |name: &'a str| if known.contains_key(name) { (name, None) } else { split(name) };
        let mut wanted: Vec<(&'a str, Option<&'a str>)> = names.iter().map(|name| parts(name)).collect();
        let wholes: HashSet<&str> = wanted.iter().filter(|(_, part)| part.is_none()).map(|(key, _)| *key).collect();
        let mut seen = HashSet::new();
        wanted.retain(|(key, part)| seen.insert((*key, *part)) && (part.is_none() || !wholes.contains(key)));
        let mut fields: Vec<(&'a str, Self)> = Vec::new();
        let mut lists: HashMap<&str, usize> = HashMap::new();
        for (key, part) in wanted {
            let shape = known.get(key).copied();
            match part {
                None => fields.push((key, shape.cloned().unwrap_or_else(|| by_plural(key)))),
                Some(document) => {
                    let place = *lists.entry(key).or_insert(fields.len());
                    if place == fields.len() {
                        fields.push((key, Self::List(Vec::new())));
                    }
                    if let Self::List(entries) = &mut fields[place].1 {
                        entries.push(entry(shape, document));
                    }
                }
            }
        }
        Self::Object(fields)
    }

    /// Leaves out keys of the whole, and entries named as in `context_for_documents[business_case]`.
    pub(super) fn omit(&mut self, names: &[String]) {
        let Self::Object(fields) = self else { return };
        let names: HashSet<&str> = names.iter().map(String::as_str).collect();
        fields.retain(|(key, _)| !names.contains(key));
        for (key, shape) in fields {
            if let Self::List(entries) = shape {
                let is_named = |document| names.contains(format!("{key}[{document}]").as_str());
                entries.retain(|entry| !entry.document().is_some_and(is_named));
            }
        }
    }

    /// The document an entry is for.
    pub(in crate::provider) fn document(&self) -> Option<&'a str> {
        let Self::Object(fields) = self else { return None };
        fields.iter().find_map(|(key, shape)| match shape {
            Self::Literal(document) if *key == DOCUMENT_KEY => Some(*document),
            _ => None,
        })
    }

    /// The shares of all its texts.
    pub(super) fn units(&self) -> usize {
        match self {
            Self::Text { room, .. } => room.units(),
            Self::Number | Self::Flag | Self::Literal(_) => 0,
            Self::Object(fields) => fields.iter().map(|(_, shape)| shape.units()).sum(),
            Self::List(items) => items.iter().map(Self::units).sum(),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Object(fields) if fields.is_empty())
    }
}

/// A name such as `context_for_documents[business_case]` in its two parts.
fn split(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((key, document)) => (key, Some(document)),
        None => (name, None),
    }
}

fn entry<'a>(list: Option<&Shape<'a>>, document: &'a str) -> Shape<'a> {
    let entries = match list {
        Some(Shape::List(entries)) => entries.as_slice(),
        _ => &[],
    };
    let known = entries.iter().find(|entry| entry.document() == Some(document)).cloned();
    known.unwrap_or_else(|| Shape::Object(vec![(DOCUMENT_KEY, Shape::Literal(document))]))
}

#[derive(Clone, Copy, Default)]
struct Level {
    depth: usize,
    lists: usize,
}

impl Level {
    fn inside(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    fn inside_list(self) -> Self {
        Self { depth: self.depth + 1, lists: self.lists + 1 }
    }
}

fn read<'a>(key: &str, value: &'a Value, level: Level) -> Shape<'a> {
    if level.depth > DEEPEST {
        return text(key, "");
    }
    match value {
        Value::Null => text(key, ""),
        Value::Bool(_) => Shape::Flag,
        Value::Number(_) => Shape::Number,
        Value::String(hint) => text(key, hint),
        Value::Object(fields) if fields.is_empty() => free(),
        Value::Object(fields) => object(fields, level),
        Value::Array(names) if key == CONTENT && are_names(names) => keys(names),
        Value::Array(names) if key == DOCUMENTS && are_names(names) => {
            Shape::List(names.iter().filter_map(Value::as_str).map(announced).collect())
        }
        Value::Array(items) => list(items, level),
    }
}

fn object(fields: &Map<String, Value>, level: Level) -> Shape<'_> {
    Shape::Object(fields.iter().map(|(key, value)| (key.as_str(), read(key, value, level.inside()))).collect())
}

fn list(items: &[Value], level: Level) -> Shape<'_> {
    match items {
        [] => texts(""),
        [Value::String(hint)] => texts(hint),
        entries if name_documents(entries) => Shape::List(entries.iter().map(|entry| named(entry, level)).collect()),
        [one] => {
            let copies = if level.lists < NESTED { OBJECTS } else { 1 };
            Shape::List(vec![item(one, level); copies])
        }
        several => Shape::List(several.iter().map(|one| item(one, level)).collect()),
    }
}

fn item(value: &Value, level: Level) -> Shape<'_> {
    match value {
        Value::String(hint) => Shape::Text { hint, room: Room::Item },
        other => read("", other, level.inside_list()),
    }
}

/// Whether these are entries for documents. One alone may also be the pattern of many, whose key is then a hint in
/// words.
fn name_documents(entries: &[Value]) -> bool {
    let is_word = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
    match entries {
        [one] => document_of(one).is_some_and(is_word),
        several => several.iter().all(|entry| document_of(entry).is_some()),
    }
}

fn document_of(entry: &Value) -> Option<&str> {
    entry.get(DOCUMENT_KEY)?.as_str()
}

/// An entry for a document, whose key is given and not a hint.
fn named(entry: &Value, level: Level) -> Shape<'_> {
    let mut shape = read("", entry, level.inside());
    if let (Shape::Object(fields), Some(document)) = (&mut shape, document_of(entry)) {
        for (_, shape) in fields.iter_mut().filter(|(key, _)| *key == DOCUMENT_KEY) {
            *shape = Shape::Literal(document);
        }
    }
    shape
}

/// The entry for a document of which only the name is given.
fn announced(document: &str) -> Shape<'_> {
    Shape::Object(vec![(DOCUMENT_KEY, Shape::Literal(document)), (CONTENT, free())])
}

fn are_names(names: &[Value]) -> bool {
    !names.is_empty() && names.iter().all(Value::is_string)
}

fn keys(names: &[Value]) -> Shape<'_> {
    let mut seen = HashSet::new();
    let names = names.iter().filter_map(Value::as_str).filter(|name| seen.insert(*name));
    Shape::Object(names.map(|name| (name, by_plural(name))).collect())
}

fn by_plural<'a>(key: &str) -> Shape<'a> {
    if is_plural(key) { texts("") } else { text(key, "") }
}

/// Whether a key of which only the name is given stands for a list.
pub(in crate::provider) fn is_plural(key: &str) -> bool {
    key.ends_with('s') && !key.ends_with("ss") && !key.ends_with("is") && !key.ends_with("us") && key.len() > 2
}

fn free<'a>() -> Shape<'a> {
    Shape::Object(vec![("summary", text("", "")), ("rationale", text("", "")), ("points", texts(""))])
}

fn texts(hint: &str) -> Shape<'_> {
    Shape::List(vec![Shape::Text { hint, room: Room::Item }; TEXTS])
}

fn text<'a>(key: &str, hint: &'a str) -> Shape<'a> {
    let is_label = matches!(
        key,
        "id" | "name" | "title" | "path" | "status" | "owner" | "role" | "dimension" | "impact" | "likelihood"
    ) || key.ends_with("_id")
        || key.ends_with("_name");
    Shape::Text { hint, room: if is_label { Room::Label } else { Room::Passage } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_in_brackets_is_an_entry_unless_it_is_a_key() {
        let content = json!({"a[b]": "", "docs": [{"document_key": "x", "n": 1}, {"document_key": "y", "n": 1}]});
        let asked = Shape::asked(Some(&content));
        let Shape::Object(fields) = Shape::missing(asked.as_ref(), &["a[b]", "docs[y]", "docs[z]", "docs[y]"]) else {
            panic!("no object");
        };
        assert_eq!(fields.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["a[b]", "docs"]);
        let Shape::List(entries) = &fields[1].1 else { panic!("no list") };
        assert_eq!(entries.iter().map(Shape::document).collect::<Vec<_>>(), [Some("y"), Some("z")]);
    }

    #[test]
    fn what_is_wanted_as_a_whole_wins_over_its_parts() {
        let content = json!({"docs": [{"document_key": "x"}, {"document_key": "y"}]});
        let asked = Shape::asked(Some(&content));
        for names in [["docs", "docs[x]"], ["docs[x]", "docs"]] {
            assert_eq!(Shape::missing(asked.as_ref(), &names), asked.clone().unwrap());
        }
    }

    #[test]
    fn lists_in_lists_do_not_multiply_without_end() {
        let mut deep = json!({"leaf": ""});
        for _ in 0..60 {
            deep = json!([{ "x": deep }]);
        }
        let content = json!({ "x": deep });
        assert!(Shape::asked(Some(&content)).unwrap().units() < 100);
    }

    #[test]
    fn without_a_key_a_plain_text_is_wanted() {
        for content in [json!({}), json!([]), json!(null), json!("text"), json!(3), json!([1])] {
            assert_eq!(Shape::asked(Some(&content)), None, "{content}");
        }
    }
}
