//! Invents JSON documents and writes them down, noting where every value ends.
//!
//! The notes are what the laws of knitting and repair are held against; nothing here uses the code under test.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Compact,
    Pretty,
    /// Every character beyond ASCII as an escape, large ones as a pair.
    Escaped,
}

/// A value of a document: where it stands, where it ends, and what it is.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) pointer: String,
    pub(crate) end: usize,
    pub(crate) value: Value,
}

/// A document as it is written.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) spans: Vec<Span>,
}

pub(crate) fn write(value: &Value, style: Style) -> Written {
    let mut written = Written { text: String::new(), spans: Vec::new() };
    put(value, style, String::new(), 0, &mut written);
    written
}

fn put(value: &Value, style: Style, pointer: String, depth: usize, out: &mut Written) {
    let line = |out: &mut Written, depth: usize| {
        if style == Style::Pretty {
            out.text.push('\n');
            out.text.push_str(&"  ".repeat(depth));
        }
    };
    match value {
        Value::Array(items) => {
            out.text.push('[');
            for (place, item) in items.iter().enumerate() {
                out.text.push_str(if place > 0 { "," } else { "" });
                line(out, depth + 1);
                put(item, style, format!("{pointer}/{place}"), depth + 1, out);
            }
            if !items.is_empty() {
                line(out, depth);
            }
            out.text.push(']');
        }
        Value::Object(fields) => {
            out.text.push('{');
            for (place, (key, value)) in fields.iter().enumerate() {
                out.text.push_str(if place > 0 { "," } else { "" });
                line(out, depth + 1);
                put_text(key, style, &mut out.text);
                out.text.push_str(if style == Style::Compact { ":" } else { ": " });
                let key = key.replace('~', "~0").replace('/', "~1");
                put(value, style, format!("{pointer}/{key}"), depth + 1, out);
            }
            if !fields.is_empty() {
                line(out, depth);
            }
            out.text.push('}');
        }
        Value::String(text) => put_text(text, style, &mut out.text),
        plain => out.text.push_str(&plain.to_string()),
    }
    out.spans.push(Span { pointer, end: out.text.len(), value: value.clone() });
}

fn put_text(text: &str, style: Style, out: &mut String) {
    if style != Style::Escaped {
        return out.push_str(&Value::from(text).to_string());
    }
    for c in Value::from(text).to_string().chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| *out += &format!("\\u{unit:04x}"));
        }
    }
}

pub(crate) fn style() -> impl Strategy<Value = Style> {
    prop_oneof![Just(Style::Compact), Just(Style::Pretty), Just(Style::Escaped)]
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "the",
        "plan",
        "of",
        "river",
        "Größe",
        "naïve",
        "数据",
        "done.",
        "a",
        "when",
        "it",
        "😀",
        "👩‍👩‍👧",
        "\"quoted\"",
        "C:\\temp\\u00e9",
        "line\nend",
        "tab\t",
        "{brace}",
        "[1]",
        "x: y,",
        "```",
        "\u{7f}",
        "\u{1}",
        "½",
        "to",
        "be",
    ])
    .prop_map(str::to_owned)
}

/// A text such as models write, and some that they do not.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::collection::vec(word(), 0..12).prop_map(|words| words.join(" ")),
        2 => "[a-z]{0,10}",
        1 => "[^\\x00]{0,16}",
        1 => (0..40usize, prop::sample::select(vec!["a", "0", "ha", "😀"])).prop_map(|(times, what)| what.repeat(times)),
        1 => prop::collection::vec(word(), 30..90).prop_map(|words| words.join(" ")),
    ]
}

/// A number that the reader of the JSON library gives back as it was; it rounds some in their last digit.
fn exact(number: f64) -> Value {
    let value = Value::from(number);
    if serde_json::from_str::<Value>(&value.to_string()).unwrap() == value { value } else { Value::from(1e-7) }
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => (-100i64..100).prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<i32>().prop_map(|n| Value::from(f64::from(n) / 64.0)),
        1 => (-300i32..300).prop_map(|n| exact(10f64.powi(n))),
        5 => text().prop_map(Value::from),
    ]
}

/// Any value, small or nested; where it is a long list, one of plain values.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let nested = leaf().prop_recursive(5, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key(), inner), 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    });
    let deep = (leaf(), 1..70usize, any::<bool>()).prop_map(|(leaf, depth, is_list)| {
        (0..depth).fold(leaf, |inner, _| if is_list { json!([inner]) } else { json!({"d": inner}) })
    });
    let long = prop::collection::vec(0i64..1000, 0..120).prop_map(Value::from);
    prop_oneof![8 => nested, 1 => deep, 1 => long]
}

pub(crate) fn key() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z_]{1,8}", 1 => "[^\\x00]{0,6}", 1 => prop::sample::select(vec!["ключ", "k\"ey", "🔑", "a/b~c"]).prop_map(str::to_owned)]
}

/// Any document: an object, now and then a list.
pub(crate) fn document() -> impl Strategy<Value = Value> {
    let object = prop::collection::vec((key(), value()), 1..6)
        .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()));
    prop_oneof![9 => object, 1 => prop::collection::vec(value(), 1..6).prop_map(Value::from)]
}

/// A document with a list of items that have identities.
pub(crate) fn listing() -> impl Strategy<Value = Value> {
    let fields = prop::collection::vec(("[a-z]{3}_[a-z]", value()), 0..6);
    let identity = prop::sample::select(vec!["id", "path", "key", "title", "name"]);
    (text(), prop::collection::vec(text(), 0..4), identity, prop::collection::vec((fields, text()), 1..8), value())
        .prop_map(|(summary, index, identity, items, tail)| {
            let items = items.into_iter().enumerate().map(|(place, (fields, title))| {
                let mut item = Map::from_iter([(identity.to_owned(), Value::from(format!("N{place:03}")))]);
                if identity != "title" {
                    item.insert("title".to_owned(), Value::from(format!("{title} {place}")));
                }
                item.extend(fields);
                Value::Object(item)
            });
            let items: Vec<Value> = items.collect();
            json!({"summary": summary, "index": index, "nodes": items, "tail": tail})
        })
}
