//! Decides how an object that was begun again goes into the one that was cut off.
//!
//! What is complete stays. What is missing is added, lists go on, and a text that was cut is completed by the one that
//! comes again. An item of a list that comes again is known by its identifying fields, the one that was interrupted
//! also by its place, and is merged, never doubled. Nothing moves: a way into what was there leads to the same place
//! afterwards. Never decides whether an object belongs to the document.

use super::items;
use super::overlap;
use super::scan::Step;
use crate::answer::is_empty;
use serde_json::Value;

/// The rest of the way to where a text was cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open<'a> {
    pub(super) path: &'a [Step],
    pub(super) is_text: bool,
}

impl<'a> Open<'a> {
    /// The rest of the way behind a step, if it goes that way.
    pub(super) fn behind(self, is_step: impl Fn(&Step) -> bool) -> Option<Self> {
        let (first, path) = self.path.split_first()?;
        is_step(first).then_some(Self { path, ..self })
    }

    pub(super) fn key(self, key: &str) -> Option<Self> {
        self.behind(|step| matches!(step, Step::Key(there) if there == key))
    }

    pub(super) fn item(self, place: usize) -> Option<Self> {
        self.behind(|step| *step == Step::Item(place))
    }

    /// Whether it ends here, in the middle of a text.
    fn is_here(self) -> bool {
        self.path.is_empty() && self.is_text
    }
}

/// What became of a merge.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Whether anything was added.
    pub(super) is_changed: bool,
    /// How many values that were complete came again otherwise, and were left out.
    pub(super) left_out: usize,
    /// Whether some of these stand in an item that was not interrupted.
    pub(super) is_contradicted: bool,
    /// Whether the text that was cut off came again.
    pub(super) is_text_completed: bool,
}

/// One of two values, and where it was cut.
pub(super) type Side<'a> = Option<Open<'a>>;

/// Puts `theirs` into `ours`. Returns where `theirs` was cut, as a way into `ours`; nothing where it was not cut, or
/// where `ours` had come further.
pub(super) fn merge(
    ours: &mut Value,
    theirs: Value,
    was: Side,
    is: Side,
    within_item: bool,
    outcome: &mut Outcome,
) -> Option<Vec<Step>> {
    match (&mut *ours, theirs) {
        (Value::Object(fields), Value::Object(more)) => {
            // What was complete, or came further, is not open where the other one was cut.
            let mut is_reached = was.is_some_and(|open| match open.path.first() {
                Some(Step::Key(key)) => more.contains_key(key),
                _ => true,
            });
            let mut cut = None;
            for (key, theirs) in more {
                let is = is.and_then(|open| open.key(&key));
                let way = match fields.get_mut(&key) {
                    Some(ours) => merge(ours, theirs, was.and_then(|o| o.key(&key)), is, within_item, outcome),
                    None => {
                        (outcome.is_changed, is_reached) = (true, true);
                        fields.insert(key.clone(), theirs);
                        is.map(|open| open.path.to_vec())
                    }
                };
                if is.is_some() {
                    cut = way.map(|way| [vec![Step::Key(key)], way].concat());
                }
            }
            if is.is_some_and(|open| open.path.is_empty()) && is_reached { Some(Vec::new()) } else { cut }
        }
        (Value::Array(there), Value::Array(more)) if !there.is_empty() => {
            items::merge(there, more, was, is, within_item, outcome)
        }
        (Value::String(there), Value::String(again)) if was.is_some_and(Open::is_here) => {
            let is_cut = is.is_some();
            outcome.is_text_completed |= !is_cut;
            let completed = complete(there, &again, is_cut);
            outcome.is_changed |= completed.len() > there.len() || !is_cut;
            *there = completed;
            is.map(|_| Vec::new())
        }
        (there, theirs) if is_empty(there) || was.is_some_and(Open::is_here) => {
            if is_empty(&theirs) && (was.is_none() || is.is_some() || theirs.is_null()) {
                return None;
            }
            outcome.is_text_completed |= was.is_some_and(Open::is_here);
            outcome.is_changed = true;
            *there = theirs;
            is.map(|open| open.path.to_vec())
        }
        (there, theirs) => {
            outcome.left_out += usize::from(is.is_none() && !is_empty(&theirs) && *there != theirs);
            None
        }
    }
}

/// A text that was cut, completed by what came again: the whole text, or what it lacked.
fn complete(there: &str, again: &str, is_cut: bool) -> String {
    if again.starts_with(there) {
        return again.to_owned();
    }
    if again.is_empty() || (is_cut && there.starts_with(again)) {
        return there.to_owned();
    }
    if let Some(length) = overlap::sure(&overlap::all(there, again), again).next() {
        return format!("{there}{}", &again[length..]);
    }
    // It goes on in the middle of a sentence, and does not begin as the first did: this is what was lacking.
    let goes_on = again.starts_with(|c: char| !c.is_uppercase() && !c.is_ascii_digit());
    let same = there.chars().zip(again.chars()).take_while(|(one, other)| one == other).count();
    if goes_on && same < 4 && !there.trim_end().ends_with(['.', '!', '?']) {
        return format!("{there}{again}");
    }
    // Written again in other words: one of them, and never less than was there.
    if is_cut && again.len() < there.len() { there.to_owned() } else { again.to_owned() }
}
