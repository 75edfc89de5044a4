//! Decides how the chunks of an answer that was cut off become one text.
//!
//! Models go on in two ways. *Onward*: the text goes on where it stopped. *Afresh*: a new object with the same outer keys
//! comes, with what was still to be written. They are told apart by evidence, the strongest first:
//!
//! 1. All chunks set one behind another are one JSON document that is complete: then that is it, byte for byte. An object
//!    begun afresh has its own ends, so what was open before it would never be closed; this evidence cannot mislead.
//! 2. The chunk ends something that was open before it, or repeats the end of the text: onward.
//! 3. Only one of the two is possible: behind the text it is no JSON, so it is afresh; it begins no object, so it is onward.
//! 4. Both are possible, as where the next item of a list was due: afresh if its keys are rather the outer keys of the
//!    document than those of the items of that list.
//!
//! A repetition of up to 200 characters is trimmed where it is no accident: from 12 characters on that are not the rhythm of
//! the text itself, or where the text is JSON only without it. Shorter ones inside a text are kept: nothing tells `ha` +
//! `ha` from a repetition. Equal neighbours in a list are the limit of that evidence: two that are exactly alike, cut exactly
//! between them, are taken for a repetition, unless the document had the like of it before.
//!
//! No text is lost and none is doubled; other documents that were added unasked stay out, and a note says so. JSON is
//! repaired only where nothing else is left, and that is recorded. Whether to ask for more is not decided here.

mod chain;
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
mod standing;

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

/// Joins the chunks of an answer that was to be JSON. `shape` is what the step asked for, where that is known: its outer
/// keys count; `document_key` is the document it is for.
pub fn json(chunks: &[&str], shape: Option<&Value>, document_key: Option<&str>) -> Knitted {
    let knitted = chain::run(chunks, &Wanted { shape, document_key }).finish();
    let mut notes = knitted.notes;
    notes.dedup();
    notes.truncate(NOTES);
    Knitted { notes, ..knitted }
}

/// Valid JSON that keeps every complete value of a text, and whether it had to be repaired. Of what was cut off, a text is
/// kept as far as it goes; half a number or half a word says something else than the whole, and is left out.
pub fn repair(text: &str) -> Option<(Value, bool)> {
    let content = Segment::open(text)?.content()?;
    Some((content.value, content.cut.is_some() || content.is_forgiven))
}
