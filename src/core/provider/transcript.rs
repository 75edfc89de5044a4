//! Decides what the events of a call come to: an answer, or a failure.
//!
//! An answer needs a reason why it stopped: a stream that just ends was cut. An unknown reason stays unknown. The one
//! character that Postgres cannot store is replaced. Never counts tokens: whoever asks for the outcome says what to
//! estimate with.

use super::dialect::{Counts, Event};
use super::fault::Fault;
use super::{Class, FinishReason, Outcome, Usage, storable};

/// What has been heard so far.
#[derive(Debug, Default)]
pub struct Transcript {
    text: String,
    vectors: Option<Vec<Vec<f32>>>,
    finish: Option<(FinishReason, String)>,
    counts: Counts,
    is_refused: bool,
    wants_tool: bool,
    is_cut: bool,
    fault: Option<Fault>,
}

impl Transcript {
    /// Takes an event in.
    pub fn take(&mut self, event: Event) {
        match event {
            Event::Text(text) => self.text.push_str(&storable(text)),
            Event::Refusal(_) => self.is_refused = true,
            Event::Tool => self.wants_tool = true,
            Event::Vectors(vectors) => self.vectors = Some(vectors),
            Event::Finish { reason, raw } => self.finish = Some((reason, storable(raw))),
            Event::Usage(counts) => self.counts.merge(counts),
            Event::Fault(fault) => {
                self.fault.get_or_insert(Fault { message: storable(fault.message), ..fault });
            }
        }
    }

    /// We, or the line, have cut off an answer that the provider had begun to give: what it was sent it has read.
    pub fn cut(&mut self) {
        self.is_cut = true;
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the model has said why it stopped, or has failed.
    pub fn is_ended(&self) -> bool {
        self.finish.is_some() || self.fault.is_some()
    }

    /// What it has come to. Where the provider did not say what was consumed, `estimate` counts the input and the text.
    pub fn outcome(self, http_status: Option<u16>, estimate: impl Fn(&str) -> (u64, u64)) -> Outcome {
        // A call that was not taken, and one that failed by itself before a word was said, has consumed nothing that
        // anybody knows of.
        let is_told = self.counts != Counts::default() || (self.finish.is_some() && self.fault.is_none());
        let counts = if self.text.is_empty() { self.counts } else { self.counts.without_zeros() };
        let usage = match self.text.is_empty() && !is_told && !self.is_cut {
            true => Usage::default(),
            false => counts.usage(|| estimate(&self.text)),
        };
        if let Some(fault) = self.fault {
            return Outcome::Failure {
                class: fault.class,
                message: fault.message,
                retry_after_ms: fault.retry_after_ms,
                http_status,
                scope: fault.scope,
                usage,
            };
        }
        if let Some(vectors) = self.vectors {
            return Outcome::Vectors { vectors, usage };
        }
        match self.finish {
            Some((reason, raw)) => {
                let reason = match reason {
                    // Half a refusal is one, and nothing to continue.
                    _ if self.is_refused => FinishReason::ContentFilter,
                    FinishReason::Stop | FinishReason::Unknown if self.wants_tool => FinishReason::ToolUse,
                    reason => reason,
                };
                Outcome::Answer { text: self.text, finish_reason: reason, finish_raw: Some(raw), usage }
            }
            None => Outcome::Failure {
                class: Class::Transient,
                message: "the answer broke off before the model was done".to_owned(),
                retry_after_ms: None,
                http_status,
                scope: Default::default(),
                usage,
            },
        }
    }
}
