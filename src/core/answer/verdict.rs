//! Decides what becomes of an answer: it is kept, more of it is asked for, or it cannot be used.
//!
//! An answer is judged together with everything its model wrote before: the chunks of a chain are one answer. A refusal
//! is a failure whatever came before it. More is asked for only as long as that brings something new; whatever was
//! written is then kept, and what it lacks is named. Never decides when a failure is tried again, nor how more is asked
//! for.

#[cfg(test)]
mod laws;
mod whole;

use super::{CONTROL, note};
use crate::knit::{self, Joint};
use crate::provider::{FinishReason, judge};
use serde_json::Value;
use whole::{Need, Whole};

/// The note on a chain that ended because it came no further.
const ADDED_NOTHING: &str = "asked to go on, the model added nothing";

/// What a job wants of its answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wanted {
    /// The shape of the JSON; none for a plain text.
    pub shape: Option<Value>,
    /// The document it is for.
    pub document_key: Option<String>,
    /// Whether other jobs stand on it: it may not stay without what was asked for.
    pub is_header: bool,
    /// What the model wrote before, chunk by chunk, oldest first.
    pub before: Vec<String>,
    /// Whether more may be asked for.
    pub may_continue: bool,
    /// How many tokens it may write.
    pub budget: Budget,
}

/// How many tokens an answer may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budget {
    /// Those that were asked for this time.
    pub asked: u64,
    /// The most that could be asked for.
    pub most: u64,
}

/// Why more is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It was cut off.
    Cut,
    /// The model says that it has not finished.
    Asked,
    /// These keys are not there.
    Missing(Vec<String>),
    /// The call broke off.
    Interrupted,
}

impl Why {
    /// The reason that goes by a word; for keys that are missing also which.
    pub fn of(word: &str, missing: Vec<String>) -> Option<Self> {
        match word {
            "cut" => Some(Self::Cut),
            "asked" => Some(Self::Asked),
            "missing" => Some(Self::Missing(missing)),
            "interrupted" => Some(Self::Interrupted),
            _ => None,
        }
    }

    /// The word for it in the database and in prompts.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Asked => "asked",
            Self::Missing(_) => "missing",
            Self::Interrupted => "interrupted",
        }
    }
}

/// What becomes of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// This is all there will be of it.
    Kept {
        /// JSON in normal form, or the chunks of a text as one; none where the answer itself is the whole text.
        content: Option<String>,
        /// Whether nothing is missing.
        is_complete: bool,
        /// What was left out, forgiven or never written, each in a few words.
        notes: Vec<String>,
    },
    /// More is asked for.
    Continue(Why),
    /// Everything was spent on thinking: asked again, with so many tokens.
    Starved {
        /// The tokens.
        budget: u64,
    },
    /// Nothing that can be used.
    Refused {
        /// Why, in words.
        reason: String,
        /// Whether to ask once more would not help.
        is_final: bool,
    },
}

/// Judges what a model has answered.
pub fn verdict(finish_reason: FinishReason, text: &str, wanted: &Wanted) -> Verdict {
    let is_blank = text.trim().is_empty();
    if is_blank && finish_reason == FinishReason::Length {
        return starved(wanted);
    }
    if let Some(reason) = judge(finish_reason, text) {
        return Verdict::Refused { reason: reason.to_owned(), is_final: finish_reason == FinishReason::ContentFilter };
    }
    match &wanted.shape {
        Some(shape) => of_json(finish_reason, text, wanted, shape),
        None => of_text(finish_reason, text, wanted),
    }
}

/// What there is of a chain that cannot go on, for the reason given, without another answer.
pub fn assembled(wanted: &Wanted, reason: &str) -> Verdict {
    let chunks: Vec<&str> = wanted.before.iter().map(String::as_str).collect();
    if chunks.iter().all(|chunk| chunk.trim().is_empty()) {
        return Verdict::Refused { reason: reason.to_owned(), is_final: true };
    }
    let mut notes = vec![reason.to_owned()];
    let Some(shape) = &wanted.shape else {
        let knitted = knit::text(&chunks);
        knitted.notes.iter().for_each(|text| note(&mut notes, text));
        return Verdict::Kept { content: Some(knitted.text), is_complete: false, notes };
    };
    match Whole::read(&chunks, shape, wanted.document_key.as_deref()) {
        Ok(whole) => {
            whole.notes().iter().for_each(|text| note(&mut notes, text));
            Verdict::Kept { content: Some(whole.answer.content.to_string()), is_complete: false, notes }
        }
        Err(unread) => Verdict::Refused { reason: format!("{reason}: {}", unread.problem), is_final: true },
    }
}

/// Nothing was written before the limit: a larger one may leave room for an answer.
fn starved(wanted: &Wanted) -> Verdict {
    let Budget { asked, most } = wanted.budget;
    if asked < most {
        return Verdict::Starved { budget: asked.max(1).saturating_mul(2).min(most) };
    }
    let reason = format!("the model spent its whole budget of {asked} tokens without writing anything");
    assembled(wanted, &reason)
}

fn of_text(finish_reason: FinishReason, text: &str, wanted: &Wanted) -> Verdict {
    let knitted = (!wanted.before.is_empty()).then(|| {
        let chunks: Vec<&str> = wanted.before.iter().map(String::as_str).chain([text]).collect();
        knit::text(&chunks)
    });
    let is_new = knitted.as_ref().is_none_or(|knitted| knitted.joints.last() != Some(&Joint::Nothing));
    let is_complete = match finish_reason {
        // JSON shows by itself whether it is whole; a text does not.
        FinishReason::Unknown => {
            return Verdict::Refused {
                reason: "the model did not say why it stopped, or in a word that is not known".to_owned(),
                is_final: false,
            };
        }
        FinishReason::Length if wanted.may_continue && is_new => return Verdict::Continue(Why::Cut),
        FinishReason::Length => false,
        _ => true,
    };
    let mut notes = Vec::new();
    if !is_complete {
        note(&mut notes, if is_new { "cut off" } else { ADDED_NOTHING });
    }
    let content = knitted.map(|knitted| {
        knitted.notes.iter().for_each(|text| note(&mut notes, text));
        knitted.text
    });
    Verdict::Kept { content, is_complete, notes }
}

fn of_json(finish_reason: FinishReason, text: &str, wanted: &Wanted, shape: &Value) -> Verdict {
    let key = wanted.document_key.as_deref();
    let is_first = wanted.before.iter().all(|chunk| chunk.trim().is_empty());
    let before: Vec<&str> = wanted.before.iter().map(String::as_str).filter(|_| !is_first).collect();
    let chunks: Vec<&str> = before.iter().copied().chain([text]).collect();
    let says_done = finish_reason == FinishReason::Stop;
    let whole = match Whole::read(&chunks, shape, key) {
        // A model that says it is done has not been cut off: it has written broken JSON, and is asked again.
        Ok(whole) if is_first && says_done && whole.is_cut => {
            return Verdict::Refused {
                reason: "the JSON of the answer ends in the middle".to_owned(),
                is_final: false,
            };
        }
        Ok(whole) => whole,
        // What was asked for may come later.
        Err(unread) if unread.is_open && unread.is_new && wanted.may_continue && !(is_first && says_done) => {
            return Verdict::Continue(Why::Cut);
        }
        Err(unread) => return Verdict::Refused { reason: unread.problem, is_final: false },
    };
    // Asked for the rest, a model that answers with an empty object says that there is none.
    let is_all = says_done && !is_first && !whole.is_new && whole.is_all_but_closed() && is_empty_object(text);
    let Some(need) = whole.need().filter(|_| !is_all) else {
        let is_complete = !whole.ending.is_torn && !whole.ending.is_doubtful;
        let content = Some(whole.answer.content.to_string());
        return Verdict::Kept { content, is_complete, notes: whole.notes() };
    };
    // What was asked for already, if the chain before lacked nothing else.
    let asked = match &need {
        Need::Keys(_) if !is_first => Whole::read(&before, shape, key).ok().and_then(|before| before.lacks()),
        _ => None,
    };
    let is_new = match (&need, &asked) {
        (Need::Keys(missing), Some(asked)) => asked.iter().any(|key| !missing.contains(key)),
        _ => is_first || whole.is_new,
    };
    if wanted.may_continue && is_new {
        return Verdict::Continue(need.why());
    }
    let missing = &whole.answer.missing;
    if wanted.is_header && !is_first && !missing.is_empty() {
        // What could not be read as a first answer is no answer to a repair either: the same is asked again.
        if asked.is_some()
            && !is_new
            && let Err(unread) = Whole::read(&[text], shape, key)
        {
            let reason = format!("the answer lacks {}; asked for it: {}", missing.join(", "), unread.problem);
            return Verdict::Refused { reason, is_final: false };
        }
        let when = if asked.is_some() { "did so again when asked for it" } else { "goes on no more" };
        let reason = format!("the answer lacks {}, and {when}", missing.join(", "));
        return Verdict::Refused { reason, is_final: true };
    }
    let mut notes = vec![need.to_string()];
    if !is_new {
        note(&mut notes, ADDED_NOTHING);
    }
    whole.notes().iter().for_each(|text| note(&mut notes, text));
    Verdict::Kept { content: Some(whole.answer.content.to_string()), is_complete: false, notes }
}

/// Whether an answer is an object that says nothing of the document.
fn is_empty_object(text: &str) -> bool {
    let said = knit::repair(text);
    let fields = said.as_ref().and_then(|(value, _)| value.as_object());
    fields.is_some_and(|fields| fields.keys().all(|key| CONTROL.contains(&key.as_str())))
}
