//! Decides how a prompt is made to fit the window of its model: the one decision that the worker and `explain` share.
//!
//! A prompt fits (tier 1), has its documents condensed by combine jobs first (tier 2), needs retrieval (tier 3), or
//! cannot be sent (tier 4). Every combine prompt fits by arithmetic, and every text that a combine job writes is
//! bounded by its output limit, so a combine prompt is never condensed itself. Never creates a job and never drops a
//! document.
//!
//! | module | decides |
//! |---|---|
//! | `groups` | which documents, and which parts of them, each combine job reads, and how long its text may be |
//! | `fit` | how many tokens a prompt and its documents have |
//! | `overflow` | what a user is told of a prompt that cannot be sent |

mod fit;
mod groups;
mod overflow;

#[cfg(test)]
mod tests;

pub use fit::{InputFacts, fit, line};
pub use groups::{Cut, Group, Member};
pub use overflow::{Candidate, Overflow, Reason};

use crate::recipe::{HEADER_CONTEXT, Origin};

/// Tokens that a document may add where it meets the text around it.
pub(crate) const SEAM: u64 = 2;
/// The most that a round leaves of the tokens that it condenses.
pub const SHRINK: f64 = 0.7;

/// The window of a model, and how it may be used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The most tokens the model can read.
    pub tokens: u64,
    /// The most it may write.
    pub output: u64,
    /// The most it can write, whatever its stage wants.
    pub max_output: u64,
    /// The part of the window that may be filled.
    pub safety: f64,
    /// By how many windows a prompt may exceed its limit and still be condensed.
    pub ratio: f64,
}

/// What limits prompts and answers whatever the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageLimits {
    /// The longest answer that the stage wants.
    pub output: Option<u64>,
    /// The part of the window that may be filled.
    pub safety: f64,
    /// By how many windows a prompt may exceed its limit and still be condensed.
    pub ratio: f64,
}

impl StageLimits {
    /// The window of a model that reads and writes at most this many tokens.
    pub fn window(&self, tokens: u64, max_output: u64) -> Window {
        let output = self.output.map_or(max_output, |most| most.min(max_output));
        Window { tokens, output, max_output, safety: self.safety, ratio: self.ratio }
    }
}

impl Window {
    /// The tokens that a prompt may have; a quarter of the window at the most is kept free for the answer.
    pub fn limit(&self) -> u64 {
        self.filled().saturating_sub(self.output.min(self.tokens / 4))
    }

    fn filled(&self) -> u64 {
        (self.tokens as f64 * self.safety) as u64
    }

    /// The tokens that a prompt may have for its documents to be condensed.
    fn most(&self) -> u64 {
        self.limit().saturating_add((self.tokens as f64 * self.ratio) as u64)
    }

    /// The most tokens that one combine call writes.
    fn combine_output(&self) -> u64 {
        self.max_output.min(self.tokens / 4).max(1)
    }

    /// The tokens of documents that a combine prompt with this frame has room for. A sixteenth stays free, because a
    /// model's token ratio may grow between the planning of a group and its call.
    fn combine_room(&self, frame: u64) -> u64 {
        let limit = self.filled().saturating_sub(self.combine_output());
        (limit - limit / 16).saturating_sub(frame)
    }

    /// The most rounds in which documents are condensed: as many as the longest prompt needs that may be condensed.
    fn rounds(&self) -> u32 {
        rounds(self.limit() as f64 / self.most().max(1) as f64)
    }

    /// Whether an answer can go on behind a prompt of so many tokens: there should be room for more than a few words.
    pub fn has_room_after(&self, tokens: u64) -> bool {
        self.filled().saturating_sub(tokens) >= self.output.min(self.tokens / 16).max(1)
    }
}

/// The rounds after which at most this part is left, where each leaves [`SHRINK`] of what it reads.
fn rounds(part: f64) -> u32 {
    match part {
        part if part >= 1.0 => 0,
        part if part > 0.0 => (part.ln() / SHRINK.ln() - 1e-9).ceil() as u32,
        _ => u32::MAX,
    }
}

/// A document of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// What a user knows it by.
    pub name: String,
    /// The tokens that it adds to a combine prompt, its tags included, at the most; of one that may not shrink those of
    /// its text.
    pub tokens: u64,
    /// Whether it may be condensed.
    pub may_shrink: bool,
    /// How much it matters to its step, from 0 to 1.
    pub relevance: f64,
    /// In how many rounds it was condensed already.
    pub depth: u32,
    /// Whether the round before did not condense it as far as it had to.
    pub is_stuck: bool,
}

/// Whether a document of this type may be condensed: not what the user said, nor what binds the writer.
pub fn may_shrink(r#type: &str) -> bool {
    Origin::of(r#type) != Origin::Prompt && r#type != HEADER_CONTEXT
}

/// A prompt as it is measured, in tokens at the most.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// All of it.
    pub total: u64,
    /// Without the documents that may shrink.
    pub bare: u64,
    /// With one line for each document that may shrink: less is never sent.
    pub floor: u64,
    /// The prompt of a combine job without documents.
    pub frame: u64,
    /// What a condensed text adds besides its own tokens.
    pub tag: u64,
    /// The request alone.
    pub request: u64,
    /// The documents, in order.
    pub pieces: Vec<Piece>,
    /// Whether it is the prompt of a combine job.
    pub is_combine: bool,
}

/// How a prompt is made to fit.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Tier 1: it fits.
    Fits,
    /// Tier 2: these groups are condensed first, each by a combine job. Documents in none of them stay whole.
    Combine(Vec<Group>),
    /// Tier 3: documents would be replaced by the passages that matter. Until there is retrieval it cannot be sent.
    Retrieve(Overflow),
    /// Tier 4: nothing helps.
    TooLarge(Overflow),
}

/// Decides how a prompt is made to fit a window; `cut` cuts a document into parts.
pub fn decide(prompt: &Measured, window: &Window, cut: &Cut<'_>) -> Decision {
    let limit = window.limit();
    if prompt.total <= limit {
        return Decision::Fits;
    }
    let overflow = |reason| Overflow::new(prompt, window, reason);
    if prompt.is_combine {
        return Decision::TooLarge(overflow(Reason::CombinePrompt));
    }
    if prompt.floor > limit {
        return Decision::TooLarge(overflow(Reason::Floor));
    }
    if prompt.total > window.most() {
        return Decision::Retrieve(overflow(Reason::Ratio));
    }
    match groups::plan(prompt, window, cut) {
        Some(groups) => Decision::Combine(groups),
        None => Decision::Retrieve(overflow(Reason::Rounds)),
    }
}

/// The most tokens that combine jobs read and write for a prompt that has at most `most` tokens, over all rounds. Their
/// prompts have `frame` tokens without documents, and `tags` more than the prompt has for all documents together.
/// Nothing where the prompt fits.
pub fn most_groups(most: u64, frame: u64, tags: u64, window: &Window) -> (u64, u64) {
    let room = window.combine_room(frame);
    if most <= window.limit() || room == 0 {
        return (0, 0);
    }
    let read = most.min(window.most()) + tags;
    // A group or part begins where the one before had no room, so two neighbours exceed one capacity.
    let capacity = room.min((window.combine_output() as f64 / SHRINK) as u64).max(1);
    let groups = 2 * read / capacity + 2;
    let (mut input, mut output, mut part) = (0.0, 0.0, 1.0);
    for _ in 0..window.rounds() {
        input += part * (read + groups * frame) as f64;
        part *= SHRINK;
        output += part * read as f64;
    }
    (input as u64, output as u64)
}
