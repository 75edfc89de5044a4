//! Decides how the chunks of an answer that was cut off become one text.
//!
//! Models go on in two ways. *Onward*: the text goes on where it stopped. *Afresh*: a new object with the same outer
//! keys comes, with what was still to be written. They are told apart by evidence, the strongest first:
//!
//! 1. All chunks set one behind another are one JSON document that is complete: then that is it, byte for byte. An object
//!    begun afresh has its own ends, so what was open before it would never be closed; this evidence cannot mislead.
//! 2. The chunk ends something that was open before it, or repeats the end of the text: onward.
//! 3. Only one of the two is possible: behind the text it is no JSON, so it is afresh; it begins no object, so it is onward.
//! 4. Both are possible, as where the next item of a list was due: afresh if its keys are rather the outer keys of the
//!    document than those of the items of that list.
//!
//! A repetition of up to 200 characters is trimmed where it is no accident: from 12 characters on that are not the
//! rhythm of the text itself, or where the text is JSON only without it. Shorter ones inside a text are kept: nothing
//! tells `ha` + `ha` from a repetition. Equal neighbours in a list are the limit of that evidence: two that are exactly
//! alike, cut exactly between them, are taken for a repetition, unless the document had the like of it before.
//!
//! Where a value has just ended and the chunk is JSON only behind a comma, the comma is supplied, and that is recorded.
//! A chunk may hold several values: each of them counts.
//!
//! No text is lost and none is doubled; other documents that were added unasked stay out, and a note says so. JSON is
//! repaired only where nothing else is left, and that is recorded. Whether to ask for more is not decided here.

mod chain;
mod control;
mod document;
mod items;
mod kin;
#[cfg(test)]
mod laws;
mod merge;
mod overlap;
mod prose;
mod scan;
mod seam;
mod segment;
mod several;
mod standing;

pub(crate) use control::would_go_on;
pub use prose::text;
pub use standing::{OpenList, Standing, standing};

use kin::Wanted;
use segment::Segment;
use serde_json::Value;

/// The most notes that are kept.
const NOTES: usize = 40;

/// How a chunk goes on from what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// It goes on where the text stopped.
    Onward,
    /// It begins the document again with what was missing.
    Afresh,
    /// It has nothing new.
    Nothing,
}

/// The chunks of an answer as one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Knitted {
    /// The text: valid JSON if any can be made of it.
    pub text: String,
    /// How every chunk but the first goes on.
    pub joints: Vec<Joint>,
    /// Whether something had to be closed or forgiven to make JSON of it.
    pub is_repaired: bool,
    /// What was left out or forgiven, each in a few words.
    pub notes: Vec<String>,
}

/// Joins the chunks of an answer that was to be JSON. `shape` is what the step asked for, where that is known: its
/// outer keys count; `document_key` is the document it is for.
pub fn json(chunks: &[&str], shape: Option<&Value>, document_key: Option<&str>) -> Knitted {
    whole(chunks, shape, document_key).0
}

/// What is open where an answer ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    /// Whether there is an object at all.
    pub(crate) is_object: bool,
    /// Whether something in it is not closed.
    pub(crate) is_open: bool,
    /// Whether only brackets are open, and every value that was begun is complete.
    pub(crate) is_between: bool,
    /// Whether a text in it was cut off and never completed.
    pub(crate) is_torn: bool,
    /// Whether it came again otherwise than it was, or with something that has no place in it.
    pub(crate) is_doubtful: bool,
    /// The keys and places that lead to where it was cut off, with points between them.
    pub(crate) open_at: Option<String>,
    /// Whether it says itself that it would go on, and not with another document.
    pub(crate) would_go_on: bool,
    /// Another document that it would go on with, unasked.
    pub(crate) elsewhere: Option<String>,
}

/// As [`json`], with what is open where it ends.
pub(crate) fn whole(chunks: &[&str], shape: Option<&Value>, document_key: Option<&str>) -> (Knitted, Ending) {
    let (knitted, ending) = chain::run(chunks, &Wanted { shape, document_key }).finish();
    let mut notes = knitted.notes;
    notes.dedup();
    notes.truncate(NOTES);
    (Knitted { notes, ..knitted }, ending)
}

/// The chunks of an answer that was to be JSON, as the model is shown what it wrote: as it stands while it went onward,
/// without what was repeated; as knitted JSON since it began afresh. One chunk is shown as it is.
pub fn so_far(chunks: &[&str], shape: Option<&Value>, document_key: Option<&str>) -> String {
    let mut written = chunks.iter().filter(|chunk| !chunk.is_empty());
    match (written.next(), written.next()) {
        (Some(only), None) => (*only).to_owned(),
        _ => chain::run(chunks, &Wanted { shape, document_key }).so_far(),
    }
}

/// The last characters of a text, as many as a model is taken to repeat.
pub fn tail(text: &str) -> &str {
    overlap::last(text, overlap::LONGEST)
}

/// Valid JSON that keeps every complete value of a text, and whether it had to be repaired. Of what was cut off, a text
/// is kept as far as it goes; half a number or half a word says something else than the whole, and is left out.
pub fn repair(text: &str) -> Option<(Value, bool)> {
    let content = Segment::open(text)?.content()?;
    Some((content.value, content.cut.is_some() || content.is_forgiven))
}
