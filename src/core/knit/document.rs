//! Decides how the segments of an answer become one document, and what it says about itself.
//!
//! A document is what the segments so far come to, with the place where it is open. Never decides where a segment
//! begins.

use super::control;
use super::kin::{self, Kin, Wanted};
use super::merge::{self, Open, Outcome};
use super::scan::{Cut, Step};
use super::segment::Content;
use crate::answer::CONTROL;
use serde_json::{Map, Value};

/// The segments of an answer as one document.
#[derive(Debug, Clone)]
pub(super) struct Document {
    pub(super) value: Value,
    pub(super) cut: Option<Cut>,
    /// The wrappers around what was asked for.
    pub(super) around: Vec<String>,
    /// Other documents that the model said it would go on with.
    pub(super) elsewhere: Vec<String>,
    pub(super) is_forgiven: bool,
    /// Texts that were cut off and never completed.
    pub(super) fragments: usize,
    /// Whether something in it came again otherwise, or came and has no place in it.
    pub(super) is_doubtful: bool,
}

impl Document {
    pub(super) fn new(content: Content, wanted: &Wanted) -> Self {
        let around = kin::wrappers(&content.value, wanted);
        let Content { value, cut, is_forgiven } = content;
        let mut document =
            Self { value, cut, around, elsewhere: Vec::new(), is_forgiven, fragments: 0, is_doubtful: false };
        document.elsewhere.extend(elsewhere(&document.value, &document.around, wanted));
        document
    }

    /// What was asked for, without its wrappers.
    pub(super) fn inner(&self) -> &Value {
        kin::inside(&self.value, &self.around).unwrap_or(&self.value)
    }

    pub(super) fn inner_cut(&self) -> Option<Cut> {
        kin::cut_inside(self.cut.as_ref(), &self.around)
    }

    /// Whether something in what was asked for is not closed; what is cut off behind it is not.
    pub(super) fn is_open(&self) -> bool {
        self.cut.is_some() && (self.around.is_empty() || self.inner_cut().is_some())
    }

    /// Whether it says itself that it would go on, and not with another document.
    pub(super) fn would_go_on(&self) -> bool {
        let mut levels = (0..=self.around.len()).filter_map(|depth| kin::inside(&self.value, &self.around[..depth]));
        self.elsewhere.is_empty()
            && levels.any(|level| control::would_go_on(level.get("continuation_needed"), level.get("resume_cursor")))
    }

    /// Puts a segment into it; whether that brought anything.
    pub(super) fn add(&mut self, content: Content, wanted: &Wanted, notes: &mut Vec<String>) -> bool {
        let around = kin::wrappers(&content.value, wanted);
        let control = said(&content.value, &around);
        let other = elsewhere(&content.value, &around, wanted);
        // A list or an item belongs to something; another document stands for itself.
        let is_stray = content.value.is_array() || content.value.get("id").is_some();
        let was = self.inner_cut();
        let theirs = match kin::judge(self.inner(), was.as_ref(), content, wanted, &self.elsewhere, notes) {
            Kin::Same(theirs) => theirs,
            Kin::Other(name) => {
                notes.push(format!("other document \"{name}\" left out"));
                self.elsewhere.extend(other);
                self.is_doubtful |= is_stray;
                return false;
            }
            Kin::Nothing => return false,
        };
        let mut outcome = Outcome::default();
        let mut inner = &mut self.value;
        for key in &self.around {
            inner = match inner {
                Value::Object(fields) => fields.entry(key.clone()).or_insert(Value::Null),
                other => other,
            };
        }
        let (ours_open, theirs_open) = (open(was.as_ref()), open(theirs.cut.as_ref()));
        let way = merge::merge(inner, theirs.value, ours_open, theirs_open, false, &mut outcome);
        let was_text = was.is_some_and(|cut| cut.is_text);
        let keeps_cut = theirs.cut.is_some() && way.is_none();
        self.fragments += usize::from(was_text && !outcome.is_text_completed && !keeps_cut);
        if outcome.left_out > 0 {
            notes.push(format!("{} complete values that came again otherwise left out", outcome.left_out));
        }
        self.is_doubtful |= outcome.is_contradicted;
        self.is_forgiven |= theirs.is_forgiven;
        match (theirs.cut, way) {
            (None, _) => self.cut = None,
            (Some(cut), Some(way)) => {
                let around = self.around.iter().cloned().map(Step::Key);
                self.cut = Some(Cut { path: around.chain(way).collect(), ..cut });
            }
            // It came less far than what was there.
            (Some(_), None) => {}
        }
        self.set_control(control, other, notes);
        outcome.is_changed
    }

    /// What the last answer said about itself counts, unless it speaks of another document.
    fn set_control(&mut self, control: Map<String, Value>, other: Option<String>, notes: &mut Vec<String>) {
        let mut level = Some(&mut self.value);
        let mut keys = self.around.iter();
        while let Some(Value::Object(fields)) = level {
            CONTROL.iter().for_each(|key| drop(fields.shift_remove(*key)));
            level = keys.next().and_then(|key| fields.get_mut(key));
        }
        match (other, &mut self.value) {
            (Some(name), _) => {
                notes.push(format!("it would go on with \"{name}\", which was not asked for"));
                self.elsewhere.push(name);
            }
            (None, Value::Object(fields)) => fields.extend(control),
            _ => {}
        }
    }
}

fn open(cut: Option<&Cut>) -> Option<Open<'_>> {
    cut.map(|cut| Open { path: &cut.path, is_text: cut.is_text })
}

/// The other document that an answer would go on with.
fn elsewhere(value: &Value, around: &[String], wanted: &Wanted) -> Option<String> {
    let key = wanted.document_key?;
    kin::cursor(value, around, wanted).filter(|name| !kin::same(name, key))
}

/// What an answer says about itself.
fn said(value: &Value, around: &[String]) -> Map<String, Value> {
    let levels = (0..=around.len()).filter_map(|depth| kin::inside(value, &around[..depth])?.as_object());
    let words = levels.flat_map(|fields| fields.iter().filter(|(key, _)| kin::is_control(key)));
    words.map(|(key, value)| (key.clone(), value.clone())).collect()
}
