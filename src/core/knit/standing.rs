//! Decides where an answer stands: what of it is there, what is open and what is still to come.
//!
//! It is for the directive that asks for the rest, which should say exactly what is missing. Never words it.

use super::kin::{self, Wanted};
use super::scan::{Cut, Step};
use super::{chain, items, overlap};
use serde_json::Value;

/// The longest name of an item.
const NAME: usize = 120;

/// Where an answer stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whether nothing is to come: it is complete, has every outer key, and does not say that it would go on.
    pub is_whole: bool,
    /// The outer keys that are still to come.
    pub missing: Vec<String>,
    /// The list in which it was cut off: of several the outermost.
    pub open_list: Option<OpenList>,
    /// Another document that it would go on with, unasked.
    pub elsewhere: Option<String>,
    /// The last characters, at most 200.
    pub tail: String,
}

/// A list that was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenList {
    /// Its keys from the outside in, with points between them; empty for a document that is a list.
    pub path: String,
    /// How many of its items are complete.
    pub items: usize,
    /// What the last complete item is called, or says if it is a text.
    pub last_complete: Option<String>,
    /// What the item is called in the middle of which it was cut off, if that is known.
    pub interrupted: Option<String>,
}

/// Where the answer stands that these chunks are.
pub fn standing(chunks: &[&str], shape: Option<&Value>, document_key: Option<&str>) -> Standing {
    let wanted = Wanted { shape, document_key };
    let mut chain = chain::run(chunks, &wanted);
    let document = chain.document();
    let tail = overlap::last(chain.tail(), overlap::LONGEST).to_owned();
    let asked = wanted.keys();
    let Some(document) = document else {
        let missing = asked.iter().map(|key| (*key).to_owned()).collect();
        return Standing { is_whole: false, missing, open_list: None, elsewhere: None, tail };
    };
    let inner = document.inner();
    let missing: Vec<String> =
        asked.iter().filter(|key| inner.get(**key).is_none_or(Value::is_null)).map(|key| (*key).to_owned()).collect();
    let cut = document.inner_cut();
    let elsewhere = document.elsewhere.last().cloned();
    let would_go_on = elsewhere.is_none() && says_more(&document.value, &document.around);
    Standing {
        is_whole: document.cut.is_none() && missing.is_empty() && !would_go_on,
        open_list: cut.and_then(|cut| open_list(inner, &cut)),
        missing,
        elsewhere,
        tail,
    }
}

fn open_list(document: &Value, cut: &Cut) -> Option<OpenList> {
    let steps = kin::open_list(document, cut)?;
    let list = cut.path[..steps].iter().try_fold(document, kin::follow)?.as_array()?;
    let is_interrupted = matches!(cut.path.get(steps), Some(Step::Item(place)) if place + 1 == list.len());
    let complete = if is_interrupted { &list[..list.len() - 1] } else { list.as_slice() };
    let keys = cut.path[..steps].iter().map(|step| match step {
        Step::Key(key) => key.clone(),
        Step::Item(place) => place.to_string(),
    });
    Some(OpenList {
        path: keys.collect::<Vec<_>>().join("."),
        items: complete.len(),
        last_complete: complete.last().and_then(name),
        interrupted: list.last().filter(|_| is_interrupted).and_then(name),
    })
}

fn name(item: &Value) -> Option<String> {
    let name = match item {
        Value::String(text) => Some(text.clone()),
        item => items::identity(item),
    }?;
    Some(overlap::first(&name, NAME).to_owned())
}

/// Whether an answer says itself that it would go on.
fn says_more(value: &Value, around: &[String]) -> bool {
    (0..=around.len()).filter_map(|depth| kin::inside(value, &around[..depth])).any(|level| {
        match level.get("continuation_needed") {
            Some(Value::Bool(needed)) => *needed,
            Some(Value::String(needed)) => needed.trim().eq_ignore_ascii_case("true"),
            _ => level.get("resume_cursor").is_some_and(|cursor| !crate::answer::is_empty(cursor)),
        }
    })
}
