//! Writes recipes as JSON. Decides nothing: what is none is left out.

use serde_json::Value;

pub(super) fn text(word: &str) -> Value {
    Value::String(word.to_owned())
}

pub(super) fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value)));
    Value::Object(given.collect())
}
