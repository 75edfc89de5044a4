//! Decides whether a prompt fits into a model's window, and how documents that do not are cut into groups that do.
//!
//! What does not fit a step does not fit one call that condenses it either: the documents are cut into groups that each fit,
//! each group becomes one text, and so again over these texts until the step fits. Which artifacts a step reads is never
//! changed, only how much of each. Never counts a token itself and never makes a job.

use crate::recipe::{HEADER_CONTEXT, Origin};
use std::fmt;

/// How often texts may be condensed again.
pub const DEEPEST: u32 = 4;
/// What the instructions of a call that condenses take, the request aside.
const INSTRUCTIONS: u64 = 1200;

/// The window of a model, and how it may be used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    /// The most tokens the model can read.
    pub tokens: u64,
    /// The most it may write.
    pub output: u64,
    /// The part of the window that may be filled.
    pub safety: f64,
    /// How far over it documents may be and still be condensed.
    pub ratio: f64,
}

impl Window {
    /// The tokens that a prompt may have; a quarter of the window at the most is kept free for the answer.
    pub fn limit(&self) -> u64 {
        let filled = (self.tokens as f64 * self.safety) as u64;
        filled.saturating_sub(self.output.min(self.tokens / 4))
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
    /// Its tokens.
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

/// The most groups that so many documents of a prompt are cut into which has no more tokens than these, and the most tokens that are
/// read to condense them; none where it fits or fails.
pub fn most_groups(most: u64, request: u64, documents: u64, window: &Window) -> (u64, u64) {
    let (limit, room) = (window.limit(), room(request, window));
    if most <= limit || room == 0 {
        return (0, 0);
    }
    let most = most.min((limit as f64 * window.ratio) as u64);
    // Of two groups side by side the second begins with what the first has no room for: together they are more than one is full.
    let groups = (2 * most / room + 1).min(documents);
    (groups, most + groups * (limit - room))
}

/// What a call that condenses has room for.
fn room(request: u64, window: &Window) -> u64 {
    window.limit().saturating_sub(INSTRUCTIONS + request)
}

/// The groups of documents, by position, that are to be condensed; none when a prompt of so many tokens fits as it is.
pub fn groups(total: u64, request: u64, pieces: &[Piece], window: &Window) -> Result<Vec<Vec<usize>>, Overflow> {
    let limit = window.limit();
    if total <= limit {
        return Ok(Vec::new());
    }
    let overflow = |reason: String| Overflow { tokens: total, limit, reason };
    if total as f64 > limit as f64 * window.ratio {
        return Err(overflow(format!("more than {} times as much is not condensed", window.ratio)));
    }
    let room = room(request, window);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut filled = u64::MAX;
    for (at, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.may_shrink) {
        if piece.depth >= DEEPEST {
            return Err(overflow(format!("it has been condensed {DEEPEST} times")));
        }
        if piece.tokens > room {
            return Err(overflow(format!(
                "document {} alone has {} tokens, and {room} could be condensed",
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
        assert_eq!(groups(9_000, 10, &pieces(&[8_000]), &WINDOW), Ok(vec![]));
        let cut = groups(12_000, 10, &pieces(&[4_000, 3_000, 3_000, 1_500]), &WINDOW).unwrap();
        assert_eq!(cut, [vec![0, 1], vec![2, 3]]);
    }

    #[test]
    fn what_cannot_be_made_to_fit_says_why() {
        let why = |total, pieces: &[Piece]| groups(total, 10, pieces, &WINDOW).unwrap_err().to_string();
        assert!(why(19_000, &pieces(&[4_000])).contains("2 times"));
        assert!(why(12_000, &pieces(&[8_500])).contains("document 1 alone"));
        assert!(why(12_000, &[Piece { tokens: 9, may_shrink: false, depth: 0 }]).contains("nothing in it"));
        assert!(why(12_000, &[Piece { tokens: 9, may_shrink: true, depth: DEEPEST }]).contains("4 times"));
        assert!(why(12_000, &[]).contains("3000 over the 9000"));
    }

    proptest! {
        #[test]
        fn every_group_fits_and_every_document_is_in_one(sizes in prop::collection::vec(1_u64..4_000, 1..40)) {
            let total: u64 = sizes.iter().sum::<u64>() + 500;
            if let Ok(cut) = groups(total, 50, &pieces(&sizes), &WINDOW) && total > WINDOW.limit() {
                let listed: Vec<usize> = cut.iter().flatten().copied().collect();
                prop_assert_eq!(listed, (0..sizes.len()).collect::<Vec<_>>());
                let (groups, read) = most_groups(total, 50, sizes.len() as u64, &WINDOW);
                prop_assert!(cut.len() as u64 <= groups && sizes.iter().sum::<u64>() + groups * (INSTRUCTIONS + 50) <= read);
                for group in cut {
                    prop_assert!(group.iter().map(|&at| sizes[at]).sum::<u64>() + INSTRUCTIONS + 50 <= WINDOW.limit());
                }
            }
        }
    }
}
