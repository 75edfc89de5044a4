//! Decides what the chunks of a JSON answer come to, and what the whole of them still needs.
//!
//! One chunk is read as an answer is read; several are knitted first. Never decides whether what is needed is asked
//! for.

use super::super::{Answer, Unusable, merge, note, read};
use super::Why;
use crate::json::Unreadable;
use crate::knit::{self, Ending, Joint};
use serde_json::Value;
use std::fmt;

/// All chunks of an answer as one.
pub(super) struct Whole {
    pub(super) answer: Answer,
    pub(super) ending: Ending,
    /// Whether its JSON ends in the middle, be it behind what was asked for.
    pub(super) is_cut: bool,
    /// Whether the last chunk brought something.
    pub(super) is_new: bool,
    knitting: Vec<String>,
}

/// Chunks of which nothing was asked for.
pub(super) struct Unread {
    /// Why, in words.
    pub(super) problem: String,
    /// Whether an object in it is not closed.
    pub(super) is_open: bool,
    /// Whether the last chunk brought something.
    pub(super) is_new: bool,
}

/// What an answer still needs.
pub(super) enum Need {
    /// Its end; where it is open.
    End(Option<String>),
    /// These keys.
    Keys(Vec<String>),
    /// What the model says that it would add.
    More,
}

impl Need {
    pub(super) fn why(self) -> Why {
        match self {
            Self::End(_) => Why::Cut,
            Self::Keys(keys) => Why::Missing(keys),
            Self::More => Why::Asked,
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::End(Some(place)) if !place.is_empty() => write!(f, "cut off inside \"{place}\""),
            Self::End(_) => write!(f, "cut off"),
            Self::Keys(keys) => write!(f, "missing: {}", keys.join(", ")),
            Self::More => write!(f, "the model says that it has not finished"),
        }
    }
}

impl Whole {
    pub(super) fn read(chunks: &[&str], shape: &Value, key: Option<&str>) -> Result<Self, Unread> {
        match chunks {
            [only] => Self::of_one(only, shape, key),
            several => Self::of_several(several, shape, key),
        }
    }

    fn of_one(text: &str, shape: &Value, key: Option<&str>) -> Result<Self, Unread> {
        let knitted = || knit::whole(&[text], Some(shape), key);
        match read(text, Some(shape), key) {
            // What it says about itself matters only where it would go on.
            Ok(answer) => {
                let elsewhere = if answer.continuation_needed { knitted().1.elsewhere } else { None };
                let would_go_on = answer.continuation_needed && elsewhere.is_none();
                let ending = Ending { is_object: true, would_go_on, elsewhere, ..Ending::default() };
                Ok(Self { answer, ending, is_cut: false, is_new: true, knitting: Vec::new() })
            }
            Err(Unusable::Json(Unreadable::Cut { .. })) => {
                let (knitted, ending) = knitted();
                Self::of_knitted(knitted, ending, shape, key).map(|whole| Self { is_cut: true, is_new: true, ..whole })
            }
            Err(problem) => {
                let ending = knitted().1;
                Err(Unread { problem: problem.to_string(), is_open: ending.is_open && ending.is_object, is_new: true })
            }
        }
    }

    fn of_several(chunks: &[&str], shape: &Value, key: Option<&str>) -> Result<Self, Unread> {
        let (knitted, ending) = knit::whole(chunks, Some(shape), key);
        let mut whole = Self::of_knitted(knitted, ending, shape, key)?;
        // What stood in several objects of the first answer was read together then, and counts as well.
        if !whole.answer.missing.is_empty()
            && let Some(first) = chunks.first().and_then(|first| read(first, Some(shape), key).ok())
            && whole.answer.missing.iter().any(|missing| !first.missing.contains(missing))
            && let Ok(more) = read(&merge(whole.answer.content.clone(), first.content).to_string(), Some(shape), key)
        {
            (whole.answer.content, whole.answer.missing) = (more.content, more.missing);
        }
        Ok(whole)
    }

    fn of_knitted(knitted: knit::Knitted, ending: Ending, shape: &Value, key: Option<&str>) -> Result<Self, Unread> {
        let is_new = knitted.joints.last() != Some(&Joint::Nothing);
        match read(&knitted.text, Some(shape), key) {
            Ok(answer) => Ok(Self { answer, is_cut: ending.is_open, ending, is_new, knitting: knitted.notes }),
            Err(problem) => {
                Err(Unread { problem: problem.to_string(), is_open: ending.is_open && ending.is_object, is_new })
            }
        }
    }

    /// What it needs; nothing where all is there.
    pub(super) fn need(&self) -> Option<Need> {
        if self.ending.is_open {
            return Some(Need::End(self.ending.open_at.clone()));
        }
        self.lacks().map(Need::Keys).or_else(|| self.ending.would_go_on.then_some(Need::More))
    }

    /// Whether it lacks nothing that is known of but its last brackets.
    pub(super) fn is_all_but_closed(&self) -> bool {
        self.ending.is_open && self.ending.is_between && self.answer.missing.is_empty() && !self.ending.would_go_on
    }

    /// The keys it lacks, where it has an end.
    pub(super) fn lacks(&self) -> Option<Vec<String>> {
        let missing = &self.answer.missing;
        (!self.ending.is_open && !missing.is_empty()).then(|| missing.clone())
    }

    /// What was left out or forgiven.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(other) = &self.ending.elsewhere {
            note(&mut notes, &format!("it would go on with \"{other}\", which was not asked for"));
        }
        self.knitting.iter().chain(&self.answer.notes).for_each(|text| note(&mut notes, text));
        notes
    }
}
