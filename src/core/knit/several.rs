//! Decides what the values are that a chunk holds, where it holds more than one, and which of them go together.
//!
//! Asked for the rest, some models write one object behind another, in fences of their own or with words between them.
//! Those that are items of the list that was cut off become one list, in their order; the others stay objects of their
//! own, behind it. Never puts them into the document.

use super::document::Document;
use super::kin::{self, Wanted};
use super::scan::Scanner;
use super::seam;
use super::segment::Segment;
use serde_json::Value;

/// The most brackets of one chunk that are tried.
const MOST: usize = 1024;

/// The parts of a chunk in the order in which they go into the document; none where it is not several values.
pub(super) fn parts(chunk: &str, so_far: &Document, wanted: &Wanted) -> Vec<Segment> {
    let values = values(seam::barest(chunk));
    if values.len() < 2 {
        return Vec::new();
    }
    let (items, mut parts): (Vec<_>, Vec<_>) = values.into_iter().partition(|value| is_of_list(value, so_far, wanted));
    // First what was cut off, while it is known where.
    if let Some(list) = list(&items) {
        parts.insert(0, list);
    }
    parts
}

/// The objects and lists of a text, one behind another. None where one of them is no JSON: what is inside it is no
/// value of its own.
fn values(text: &str) -> Vec<Segment> {
    let mut found = Vec::new();
    let (mut at, mut tried) = (0, 0);
    while let Some(start) = text[at..].find(['{', '[']).map(|offset| at + offset) {
        let is_list = text[start..].starts_with('[');
        let starts_line = text[..start].rsplit('\n').next().is_none_or(|line| line.trim().is_empty());
        // A bracket among words is of those words.
        match (!is_list || starts_line).then(|| value(&text[start..])).flatten() {
            Some(value) => {
                at = start + value.text.len();
                found.push(value);
            }
            None if is_list => at = start + 1,
            None => return Vec::new(),
        }
        tried += 1;
        if tried > MOST {
            return Vec::new();
        }
    }
    found
}

/// The value that a text begins with.
fn value(text: &str) -> Option<Segment> {
    let read = |lenient| {
        let mut scanner = Scanner::new(lenient);
        let taken = scanner.feed(text).ok()?;
        Some(Segment { text: text[..taken].to_owned(), start: 0, scanner: Some(scanner), has_surroundings: false })
    };
    read(false).or_else(|| read(true))
}

/// Whether a value goes into the list that was cut off.
fn is_of_list(value: &Segment, so_far: &Document, wanted: &Wanted) -> bool {
    let cut = so_far.inner_cut();
    match value.content().map(|content| content.value) {
        Some(Value::Array(_)) => cut.is_some_and(|cut| kin::open_list(so_far.inner(), &cut).is_some()),
        Some(item @ Value::Object(_)) => {
            kin::is_item(so_far.inner(), cut.as_ref(), &item)
                && !kin::is_document_rather(so_far, [None, None], &item, wanted)
        }
        _ => false,
    }
}

/// Items and lists of them as one list, open where the last of them is.
fn list(items: &[Segment]) -> Option<Segment> {
    let is_done = items.last()?.is_done();
    let texts: Vec<&str> = items.iter().map(bare).filter(|text| !text.is_empty()).collect();
    Segment::open(&format!("[{}{}", texts.join(","), if is_done { "]" } else { "" }))
}

/// What a value is inside a list: an object itself, and of a list what it holds.
fn bare(value: &Segment) -> &str {
    let text = value.text.trim();
    match text.strip_prefix('[') {
        Some(held) if value.is_done() => held.strip_suffix(']').unwrap_or(held).trim().trim_end_matches(','),
        Some(held) => held.trim_start(),
        None => text,
    }
}
