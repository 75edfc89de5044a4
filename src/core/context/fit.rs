//! Decides how many tokens a prompt and its documents have, and asks whether it fits. Never decides what follows.

use super::{Decision, Measured, Piece, SEAM, Window, decide, may_shrink};
use crate::definition::{Definition, Document, Turn};
use crate::prompt::{Message, PromptError};
use crate::structure::{self, Sections};
use crate::tokens::Measure;
use std::ops::Range;
use std::sync::Arc;

/// What is known of an input besides its text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputFacts {
    /// How much it matters to its step, from 0 to 1.
    pub relevance: f64,
    /// In how many rounds it was condensed already.
    pub depth: u32,
    /// The tokens that it was to have at the most, where it is a condensed text.
    pub most: Option<u64>,
    /// Whether only passages of it are read.
    pub is_retrieved: bool,
}

impl Default for InputFacts {
    fn default() -> Self {
        Self { relevance: 1.0, depth: 0, most: None, is_retrieved: false }
    }
}

/// How far a condensed text may exceed its limit, because tokens of other models are estimated.
const TOLERANCE: f64 = 1.1;

/// The line that stands for a document of which nothing is sent.
pub fn line(name: &str) -> String {
    format!("{name}: nothing of it was sent\n")
}

/// Decides how a prompt that was counted as `total` is made to fit a window; `facts` are those of its documents.
pub fn fit(
    definition: &Definition,
    turn: &Turn,
    facts: &[InputFacts],
    total: u64,
    (measure, window): (&Measure, &Window),
) -> Result<Decision, PromptError> {
    if total <= window.limit() {
        return Ok(Decision::Fits);
    }
    let desk = Desk { definition, turn, measure };
    let (measured, around) = desk.measured(facts, total)?;
    let mut decision = decide(&measured, window, &|at, limit| desk.parts(at, limit, around[at]));
    if let Decision::Combine(groups) = &mut decision {
        // What a model may write is limited in its own tokens.
        for group in groups {
            (group.target, group.most) = (measure.likely(group.target).max(1), measure.likely(group.most).max(1));
        }
    }
    Ok(decision)
}

struct Desk<'a> {
    definition: &'a Definition,
    turn: &'a Turn,
    measure: &'a Measure,
}

impl Desk<'_> {
    /// The prompt as it is measured, and what stands around each document in a combine prompt.
    fn measured(&self, facts: &[InputFacts], total: u64) -> Result<(Measured, Vec<u64>), PromptError> {
        let measure = self.measure;
        let (turn, documents) = (self.turn, &self.turn.documents);
        let frame = self.counted_combine(Vec::new()).or_else(|_| self.counted_combine(blank(documents.first())))?;
        let mut pieces = Vec::with_capacity(documents.len());
        let mut around = Vec::with_capacity(documents.len());
        for (at, document) in documents.iter().enumerate() {
            let facts = facts.get(at).copied().unwrap_or_default();
            let may_shrink = may_shrink(&document.r#type) && !facts.is_retrieved;
            let text = measure.counted_text(&document.content);
            let added = match may_shrink {
                true => self.counted_combine(vec![document.clone()])?.saturating_sub(frame) + SEAM,
                false => text,
            };
            around.push(measure.at_most(added.saturating_sub(text) + SEAM));
            pieces.push(Piece {
                name: document.label(),
                tokens: measure.at_most(added),
                may_shrink,
                relevance: facts.relevance,
                depth: facts.depth,
                is_stuck: facts.most.is_some_and(|most| measure.estimate(text) as f64 > most as f64 * TOLERANCE),
            });
        }
        let (bare, tag) = self.bare(&pieces)?;
        let line = |piece: &Piece| measure.at_most(measure.counted_text(&line(&piece.name))).min(piece.tokens);
        let lines: u64 = pieces.iter().filter(|piece| piece.may_shrink).map(line).sum();
        let floor = (bare + lines).min(total);
        let request = measure.at_most(measure.counted_text(&turn.original_user_request));
        let (is_combine, frame) = (turn.is_combine, measure.at_most(frame));
        Ok((Measured { total, bare, floor, frame, tag, request, pieces, is_combine }, around))
    }

    /// The tokens of the prompt without the documents that may shrink, and what a condensed text adds besides its own.
    fn bare(&self, pieces: &[Piece]) -> Result<(u64, u64), PromptError> {
        let stays = self.turn.documents.iter().zip(pieces).filter(|(_, piece)| !piece.may_shrink);
        let whole: Vec<Document> = stays.map(|(document, _)| document.clone()).collect();
        let counted = |documents: Vec<Document>| {
            self.definition.messages(&Turn { documents, ..self.turn.clone() }).map(|said| self.measure.counted(&said))
        };
        let one = || {
            let mut one = whole.clone();
            one.push(Document::condensed(self.turn));
            counted(one)
        };
        // A template of a user may need a document; an empty one has no more than its tags.
        let bare = counted(whole.clone()).or_else(|_| one())?;
        let tag = one().map_or(SEAM, |one| one.saturating_sub(bare) + SEAM);
        Ok((self.measure.at_most(bare), self.measure.at_most(tag)))
    }

    fn counted_combine(&self, documents: Vec<Document>) -> Result<u64, PromptError> {
        let turn = Turn {
            stage: self.turn.stage.clone(),
            iteration: self.turn.iteration,
            step_key: self.turn.step_key.clone(),
            model: self.turn.model.clone(),
            is_combine: true,
            // As many digits as a target has.
            target_tokens: Some(99_999),
            original_user_request: Arc::clone(&self.turn.original_user_request),
            documents,
        };
        let counted = |messages: Vec<Message>| self.measure.counted(&messages);
        self.definition.messages(&turn).map(counted)
    }

    /// The parts of a document of at most so many tokens in a combine prompt.
    fn parts(&self, at: usize, limit: u64, around: u64) -> Vec<(Range<usize>, u64)> {
        let text = &*self.turn.documents[at].content;
        let tokens = |text: &str| self.measure.at_most(self.measure.counted_text(text));
        let parts = structure::split(text, limit.saturating_sub(around).max(1), Sections::Joined, &tokens);
        let read = |range: &Range<usize>| tokens(&structure::excerpt(text, range.clone())) + around;
        parts.into_iter().map(|part| (part.range.clone(), read(&part.range))).collect()
    }
}

fn blank(document: Option<&Document>) -> Vec<Document> {
    document.map(|document| Document { content: "".into(), ..document.clone() }).into_iter().collect()
}
