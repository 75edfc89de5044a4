//! Decides which documents, and which parts of them, each combine job of a round reads, and how long its text may be.
//!
//! Documents are grouped in their order. One that no combine prompt has room for is cut into parts, each a group of its
//! own. Where the texts fit after one round, their limits add up to what fits. Otherwise every text is limited to
//! [`SHRINK`] of what it is made from, so rounds shrink what is left geometrically. Never reads a document.

use super::{Measured, Piece, SHRINK, Window, rounds};
use std::ops::Range;

/// A text that may have fewer tokens than this says nothing: its documents are left as they are.
const SHORTEST_TEXT: u64 = 24;
/// The part of its limit that a text is asked to have, because models write more than they are asked for.
const ASKED: f64 = 0.8;

/// Cuts a document, by position, into parts of at most so many tokens: each with its bytes and its tokens in a combine
/// prompt, tags included.
pub type Cut<'a> = dyn Fn(usize, u64) -> Vec<(Range<usize>, u64)> + 'a;

/// What one combine job reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What it reads, in order.
    pub members: Vec<Member>,
    /// The tokens of what it reads, tags included.
    pub read: u64,
    /// The tokens that its text should have.
    pub target: u64,
    /// The tokens that its text may have.
    pub most: u64,
}

/// A document, or a part of it, in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its position among the documents.
    pub document: usize,
    /// The bytes of the part; all of it without.
    pub range: Option<Range<usize>>,
}

/// What is condensed together or not at all: a group, or all parts of a document.
struct Unit {
    groups: Vec<Group>,
    read: u64,
    relevance: f64,
}

impl Unit {
    fn new(groups: Vec<Group>, pieces: &[Piece]) -> Self {
        let read = groups.iter().map(|group| group.read).sum();
        let documents = || groups.iter().flat_map(|group| &group.members).map(|member| &pieces[member.document]);
        let weight: u64 = documents().map(|piece| piece.tokens).sum();
        let value: f64 = documents().map(|piece| piece.relevance * piece.tokens as f64).sum();
        Self { read, relevance: value / weight.max(1) as f64, groups }
    }

    /// What is left of it at the most when every group is limited to this part of what it reads, tags included.
    fn left(&self, part: f64) -> u64 {
        self.groups.iter().map(|group| (group.read as f64 * part) as u64).sum()
    }

    fn can_shrink(&self, tag: u64) -> bool {
        self.groups.iter().all(|group| (group.read as f64 * SHRINK) as u64 >= tag + SHORTEST_TEXT)
    }
}

/// The groups of the next round; nothing where rounds cannot make the prompt fit.
pub(super) fn plan(prompt: &Measured, window: &Window, cut: &Cut<'_>) -> Option<Vec<Group>> {
    let most_rounds = window.rounds();
    let may_shrink = |piece: &Piece| piece.may_shrink && !piece.is_stuck && piece.depth < most_rounds;
    let there: u64 = prompt.pieces.iter().filter(|piece| piece.may_shrink).map(|piece| piece.tokens).sum();
    let all: u64 = prompt.pieces.iter().filter(|piece| may_shrink(piece)).map(|piece| piece.tokens).sum();
    // In tokens of the combine prompt: a template may print documents otherwise, or twice.
    let added = prompt.total.saturating_sub(prompt.bare).max(1);
    let fits = window.limit().saturating_sub(prompt.bare) as f64 * there as f64 / added as f64;
    let over = (there as f64 - fits).ceil().max(1.0);
    let part = |read: u64| (read as f64 - over) / read.max(1) as f64;
    let room = window.combine_room(prompt.frame);
    let output = window.combine_output() as f64;
    let capacity = room.min((output / part(all).clamp(f64::EPSILON, SHRINK)) as u64);
    let units = units(&prompt.pieces, &may_shrink, capacity, cut)?;
    let units: Vec<Unit> = units.into_iter().filter(|unit| unit.can_shrink(prompt.tag)).collect();
    if units.iter().flat_map(|unit| &unit.groups).any(|group| group.read > room) {
        return None;
    }
    let left = part(units.iter().map(|unit| unit.read).sum());
    if rounds(left) > most_rounds {
        return None;
    }
    let mut groups = match left >= SHRINK {
        true => enough(units, over),
        false => units.into_iter().flat_map(|unit| unit.groups).collect(),
    };
    for group in &mut groups {
        let text = |part: f64| ((group.read as f64 * part) as u64).saturating_sub(prompt.tag).max(1);
        group.most = text(SHRINK);
        group.target = ((text(left.min(SHRINK)) as f64 * ASKED) as u64).max(1);
    }
    groups.sort_by_key(|group| group.members.first().map(|first| first.document));
    Some(groups)
}

/// The groups that free enough when each shrinks to [`SHRINK`]: the least relevant first, of equals the largest.
fn enough(mut units: Vec<Unit>, over: f64) -> Vec<Group> {
    units.sort_by(|a, b| a.relevance.total_cmp(&b.relevance).then(b.read.cmp(&a.read)));
    let mut freed = 0.0;
    let mut chosen = Vec::new();
    for unit in units {
        if freed >= over {
            break;
        }
        freed += (unit.read - unit.left(SHRINK)) as f64;
        chosen.extend(unit.groups);
    }
    chosen
}

/// The documents that may shrink in groups of at most so many tokens; nothing where one cannot be cut that far.
fn units(pieces: &[Piece], may_shrink: &dyn Fn(&Piece) -> bool, capacity: u64, cut: &Cut<'_>) -> Option<Vec<Unit>> {
    let fit = |piece: &Piece| may_shrink(piece) && piece.tokens <= capacity;
    let small: Vec<usize> = (0..pieces.len()).filter(|&at| fit(&pieces[at])).collect();
    let mut units: Vec<Unit> =
        filled(pieces, &small, capacity).into_iter().map(|group| Unit::new(vec![group], pieces)).collect();
    for (at, piece) in pieces.iter().enumerate().filter(|(_, piece)| may_shrink(piece) && piece.tokens > capacity) {
        // Parts of about the same length, so that the last one is not a remainder.
        let parts = piece.tokens.checked_div(capacity)? + 1;
        let even = (piece.tokens / parts + piece.tokens / parts / 8).min(capacity);
        let groups = cut(at, even).into_iter().map(|(range, read)| {
            let members = vec![Member { document: at, range: Some(range) }];
            Group { members, read, target: 0, most: 0 }
        });
        units.push(Unit::new(groups.collect(), pieces));
    }
    Some(units)
}

/// Documents in as few groups as their order allows, and these about equally full.
fn filled(pieces: &[Piece], small: &[usize], capacity: u64) -> Vec<Group> {
    let fill = |capacity: u64| {
        let mut groups: Vec<Group> = Vec::new();
        for &at in small {
            let (tokens, member) = (pieces[at].tokens, Member { document: at, range: None });
            match groups.last_mut() {
                Some(group) if group.read.saturating_add(tokens) <= capacity => {
                    group.members.push(member);
                    group.read += tokens;
                }
                _ => groups.push(Group { members: vec![member], read: tokens, target: 0, most: 0 }),
            }
        }
        groups
    };
    let fewest = fill(capacity);
    let total: u64 = small.iter().map(|&at| pieces[at].tokens).sum();
    let largest = small.iter().map(|&at| pieces[at].tokens).max().unwrap_or(0);
    let even = fill(capacity.min(total / (fewest.len() as u64).max(1) + largest));
    if even.len() <= fewest.len() { even } else { fewest }
}
