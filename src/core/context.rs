//! Decides whether a prompt fits into a model's window, and how documents that do not fit are cut into groups.
//!
//! Each group is condensed by a combine job of its own, whose prompt fits the window: documents are measured as they
//! stand in that prompt, with their tags and with the same safety as the whole. The texts that combine jobs write are
//! grouped again where the step still does not fit, at most [`DEEPEST`] times. Never creates a job and never drops a
//! document.

use crate::definition::{Definition, Document, Turn};
use crate::prompt::{Message, PromptError};
use crate::recipe::{HEADER_CONTEXT, Origin};
use crate::tokens::Measure;
use std::fmt;
use std::sync::Arc;

/// How often texts may be condensed again.
pub const DEEPEST: u32 = 4;
/// Tokens that a document may add where it meets the text around it.
pub(crate) const SEAM: u64 = 2;

/// The window of a model, and how it may be used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The most tokens the model can read.
    pub tokens: u64,
    /// The most it may write.
    pub output: u64,
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
        Window { tokens, output, safety: self.safety, ratio: self.ratio }
    }
}

impl Window {
    /// The tokens that a prompt may have; a quarter of the window at the most is kept free for the answer.
    pub fn limit(&self) -> u64 {
        let filled = (self.tokens as f64 * self.safety) as u64;
        filled.saturating_sub(self.output.min(self.tokens / 4))
    }

    /// The tokens that a prompt may have for its documents to be condensed.
    fn most(&self) -> u64 {
        self.limit().saturating_add((self.tokens as f64 * self.ratio) as u64)
    }

    /// Whether an answer can go on behind a prompt of so many tokens: there should be room for more than a few words.
    pub fn has_room_after(&self, tokens: u64) -> bool {
        let filled = (self.tokens as f64 * self.safety) as u64;
        filled.saturating_sub(tokens) >= self.output.min(self.tokens / 16).max(1)
    }
}

/// A document of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The tokens that it adds to a combine prompt, its tags included, at the most.
    pub tokens: u64,
    /// Whether it may be condensed.
    pub may_shrink: bool,
    /// How often it was condensed already.
    pub depth: u32,
}

/// Whether a document of this type may be condensed: not what the user said, nor what binds the writer.
pub fn may_shrink(r#type: &str) -> bool {
    Origin::of(r#type) != Origin::Prompt && r#type != HEADER_CONTEXT
}

/// Why a prompt cannot be sent, nor be made to fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overflow {
    tokens: u64,
    limit: u64,
    reason: String,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the prompt has {} tokens, {} over the {} that fit: {}",
            self.tokens,
            self.tokens - self.limit,
            self.limit,
            self.reason
        )
    }
}

/// The tokens of the combine prompt of a job without any document, and what each of the job's documents adds to it.
pub fn measure_pieces(
    definition: &Definition,
    turn: &Turn,
    depths: &[u32],
    measure: &Measure,
) -> Result<(u64, Vec<Piece>), PromptError> {
    let bare = Turn {
        stage: turn.stage.clone(),
        iteration: turn.iteration,
        step_key: turn.step_key.clone(),
        model: turn.model.clone(),
        is_combine: true,
        original_user_request: Arc::clone(&turn.original_user_request),
        documents: Vec::new(),
    };
    let counted = |messages: Vec<Message>| measure.counted(&messages);
    let combine = |documents: Vec<Document>| definition.messages(&Turn { documents, ..bare.clone() }).map(counted);
    // A template of a user may need a document; an empty one has no more than its tags.
    let blank = || turn.documents.first().map(|first| Document { content: "".into(), ..first.clone() });
    let frame = combine(Vec::new()).or_else(|_| combine(blank().into_iter().collect()))?;
    let pieces = turn.documents.iter().zip(depths).map(|(document, &depth)| {
        let may_shrink = may_shrink(&document.r#type);
        let added = if may_shrink { combine(vec![document.clone()])?.saturating_sub(frame) + SEAM } else { 0 };
        Ok(Piece { tokens: measure.at_most(added), may_shrink, depth })
    });
    Ok((measure.at_most(frame), pieces.collect::<Result<_, PromptError>>()?))
}

/// The most groups that the documents of a prompt with at most `most` tokens are cut into, and the most tokens that
/// combine jobs read. Their prompts have `frame` tokens without documents, and `tags` more than the prompt has for all
/// documents together. Nothing where the prompt fits or fails.
pub fn most_groups(most: u64, frame: u64, tags: u64, documents: u64, window: &Window) -> (u64, u64) {
    let (limit, room) = (window.limit(), room(frame, window));
    if most <= limit || room == 0 {
        return (0, 0);
    }
    let most = most.min(window.most()) + tags;
    // A group begins with the document that the group before had no room for, so two neighbours exceed one room.
    let groups = (2 * most / room + 1).min(documents);
    (groups, most + groups * frame)
}

/// The tokens of documents that a combine prompt has room for.
fn room(frame: u64, window: &Window) -> u64 {
    window.limit().saturating_sub(frame)
}

/// The groups of documents, by position, that are to be condensed, where a combine prompt without documents has `frame`
/// tokens; none when a prompt of `total` tokens fits as it is.
pub fn groups(total: u64, frame: u64, pieces: &[Piece], window: &Window) -> Result<Vec<Vec<usize>>, Overflow> {
    let limit = window.limit();
    if total <= limit {
        return Ok(Vec::new());
    }
    let overflow = |reason: String| Overflow { tokens: total, limit, reason };
    if total > window.most() {
        let (ratio, tokens) = (window.ratio, window.tokens);
        return Err(overflow(format!("more than {ratio} times the window of {tokens} over it is not condensed")));
    }
    let room = room(frame, window);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut filled = u64::MAX;
    for (at, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.may_shrink) {
        if piece.depth >= DEEPEST {
            return Err(overflow(format!("it has been condensed {DEEPEST} times")));
        }
        if piece.tokens > room {
            return Err(overflow(format!(
                "document {} alone has {} tokens, and a combine prompt has room for {room}",
                at + 1,
                piece.tokens
            )));
        }
        match groups.last_mut() {
            Some(group) if filled.saturating_add(piece.tokens) <= room => {
                group.push(at);
                filled += piece.tokens;
            }
            _ => {
                groups.push(vec![at]);
                filled = piece.tokens;
            }
        }
    }
    if groups.is_empty() {
        return Err(overflow("nothing in it may be condensed".to_owned()));
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Window = Window { tokens: 10_000, output: 1_000, safety: 1.0, ratio: 2.0 };

    fn pieces(tokens: &[u64]) -> Vec<Piece> {
        tokens.iter().map(|&tokens| Piece { tokens, may_shrink: true, depth: 0 }).collect()
    }

    #[test]
    fn what_fits_is_left_alone_and_what_does_not_is_grouped() {
        assert_eq!(WINDOW.limit(), 9_000);
        assert_eq!(groups(9_000, 1_210, &pieces(&[8_000]), &WINDOW), Ok(vec![]));
        let cut = groups(12_000, 1_210, &pieces(&[4_000, 3_000, 3_000, 1_500]), &WINDOW).unwrap();
        assert_eq!(cut, [vec![0, 1], vec![2, 3]]);
    }

    #[test]
    fn what_cannot_be_made_to_fit_says_why() {
        let why = |total, pieces: &[Piece]| groups(total, 1_210, pieces, &WINDOW).unwrap_err().to_string();
        assert!(why(29_001, &pieces(&[4_000])).contains("2 times the window of 10000"));
        assert!(why(12_000, &pieces(&[8_500])).contains("document 1 alone"));
        assert!(why(12_000, &[Piece { tokens: 9, may_shrink: false, depth: 0 }]).contains("nothing in it"));
        assert!(why(12_000, &[Piece { tokens: 9, may_shrink: true, depth: DEEPEST }]).contains("4 times"));
        assert!(why(12_000, &[]).contains("3000 over the 9000"));
    }

    proptest! {
        #[test]
        fn every_group_fits_and_every_document_is_in_one(sizes in prop::collection::vec(1_u64..4_000, 1..40)) {
            let total: u64 = sizes.iter().sum::<u64>() + 500;
            const FRAME: u64 = 1_250;
            if let Ok(cut) = groups(total, FRAME, &pieces(&sizes), &WINDOW) && total > WINDOW.limit() {
                let listed: Vec<usize> = cut.iter().flatten().copied().collect();
                prop_assert_eq!(listed, (0..sizes.len()).collect::<Vec<_>>());
                let (groups, read) = most_groups(total, FRAME, 0, sizes.len() as u64, &WINDOW);
                prop_assert!(cut.len() as u64 <= groups && sizes.iter().sum::<u64>() + groups * FRAME <= read);
                for group in cut {
                    prop_assert!(group.iter().map(|&at| sizes[at]).sum::<u64>() + FRAME <= WINDOW.limit());
                }
            }
        }
    }
}
