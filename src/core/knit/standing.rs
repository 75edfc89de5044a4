//! Decides where an answer stands: what of it is there, what is open and what is still to come.
//!
//! It is for the directive that asks for the rest, which should say exactly what is missing. Never words it.

use super::kin::{self, Wanted};
use super::scan::{self, Cut, Step};
use super::{chain, items, overlap};
use serde_json::Value;

/// The longest name of an item.
const NAME: usize = 120;

/// Where an answer stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether nothing is to come: it is complete, has every outer key, and does not say that it would go on.
    pub is_whole: bool,
    /// Whether its end is still to come: nothing of it is there, or something in it is not closed.
    pub is_open: bool,
    /// Whether it says itself that it would go on, and not with another document.
    pub would_go_on: bool,
    /// The keys and places that lead to where it was cut off, with points between them.
    pub open_at: Option<String>,
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
    let tail = super::tail(chain.tail()).to_owned();
    let asked = wanted.keys();
    let Some(document) = document else {
        let missing = asked.iter().map(|key| (*key).to_owned()).collect();
        return Standing { is_open: true, missing, tail, ..Standing::default() };
    };
    let inner = document.inner();
    let missing: Vec<String> =
        asked.iter().filter(|key| inner.get(**key).is_none_or(Value::is_null)).map(|key| (*key).to_owned()).collect();
    let cut = document.inner_cut();
    let would_go_on = document.would_go_on();
    Standing {
        is_whole: document.cut.is_none() && missing.is_empty() && !would_go_on,
        is_open: document.is_open(),
        would_go_on,
        open_at: cut.as_ref().map(|cut| scan::way(&cut.path)),
        open_list: cut.and_then(|cut| open_list(inner, &cut)),
        missing,
        elsewhere: document.elsewhere.last().cloned(),
        tail,
    }
}

fn open_list(document: &Value, cut: &Cut) -> Option<OpenList> {
    let steps = kin::open_list(document, cut)?;
    let list = cut.path[..steps].iter().try_fold(document, kin::follow)?.as_array()?;
    let is_interrupted = matches!(cut.path.get(steps), Some(Step::Item(place)) if place + 1 == list.len());
    let complete = if is_interrupted { &list[..list.len() - 1] } else { list.as_slice() };
    Some(OpenList {
        path: scan::way(&cut.path[..steps]),
        items: complete.len(),
        last_complete: complete.last().and_then(name),
        interrupted: list.last().filter(|_| is_interrupted).and_then(name),
    })
}

fn name(item: &Value) -> Option<String> {
    let name = match item {
        Value::String(text) => Some(text.clone()),
        item => items::called(item),
    }?;
    Some(overlap::first(&name, NAME).to_owned())
}
