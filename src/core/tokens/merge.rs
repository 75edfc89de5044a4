//! Decides how many tokens a piece of a text is.
//!
//! Byte-pair encoding as it was trained: of all neighbours that together are a token, those whose token has the lowest
//! rank are joined, the leftmost first, until none are left. Never looks beyond the piece, and never takes time or
//! memory that grows faster than its length times the logarithm of it.

use super::layout::NEVER;
use super::vocabulary::Vocabulary;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Up to here all pairs are looked through for the lowest again and again: that is faster than to keep them in order.
const SHORT: usize = 128;
/// A longer piece is cut: what is kept for every byte of it must not become more than a process may have. A cut can add
/// a token or two; no text has a word of a megabyte.
const LONGEST: usize = 1 << 20;
/// A pair of a short piece is a number: its rank, and below it where it begins.
const PLACE_BITS: u32 = SHORT.trailing_zeros();
/// No pair. Signed, because every processor finds the lowest of many such numbers at once.
const NO_KEY: i32 = i32::MAX;

/// How many tokens a piece is.
#[inline]
pub(super) fn tokens(vocabulary: &Vocabulary, piece: &[u8]) -> u64 {
    match piece.len() {
        0 | 1 => piece.len() as u64,
        _ if vocabulary.rank(piece) != NEVER => 1,
        2..=SHORT => short(vocabulary, piece),
        _ => piece.chunks(LONGEST).map(|piece| long(vocabulary, piece)).sum(),
    }
}

/// On the stack, all pairs looked through for each joining.
fn short(vocabulary: &Vocabulary, piece: &[u8]) -> u64 {
    // By where a part begins: where it ends, where the one before it begins, and the key of it with the next.
    let (mut ends, mut befores, mut keys) = ([0_u8; SHORT], [0_u8; SHORT], [NO_KEY; SHORT]);
    let key = |rank: u32, at: usize| if rank == NEVER { NO_KEY } else { (rank as i32) << PLACE_BITS | at as i32 };
    let size = piece.len().min(SHORT);
    for at in 0..size {
        ends[at] = at as u8 + 1;
        befores[at] = (at as u8).saturating_sub(1);
        keys[at] = key(vocabulary.rank_of_two(piece, at), at);
    }
    let mut count = size as u64;
    loop {
        let lowest = keys[..size].iter().copied().min().unwrap_or(NO_KEY);
        if lowest == NO_KEY {
            return count;
        }
        let at = (lowest & ((1 << PLACE_BITS) - 1)) as usize;
        let gone = usize::from(ends[at]);
        let end = usize::from(ends[gone]);
        keys[gone] = NO_KEY;
        ends[at] = end as u8;
        count -= 1;
        let before = usize::from(befores[at]);
        keys[at] = if end < size {
            befores[end] = at as u8;
            key(vocabulary.rank(&piece[at..usize::from(ends[end])]), at)
        } else {
            NO_KEY
        };
        if at > 0 {
            keys[before] = key(vocabulary.rank(&piece[before..end]), before);
        }
    }
}

/// A part of a long piece; it stands in the list where it begins.
#[derive(Clone, Copy)]
struct Part {
    /// Where the part before it begins.
    before: u32,
    /// Where it ends and the next begins.
    end: u32,
    /// The rank of it with the next.
    rank: u32,
}

/// With the pairs in a heap.
fn long(vocabulary: &Vocabulary, piece: &[u8]) -> u64 {
    let mut parts: Vec<Part> = (0..piece.len())
        .map(|at| Part {
            before: at.saturating_sub(1) as u32,
            end: at as u32 + 1,
            rank: vocabulary.rank_of_two(piece, at),
        })
        .collect();
    // The rank above and the place below: the lowest number is the pair to join next.
    let key = |rank: u32, at: usize| Reverse(u64::from(rank) << 32 | at as u64);
    let pairs = parts.iter().enumerate().filter(|(_, part)| part.rank != NEVER);
    let mut heap = BinaryHeap::from(pairs.map(|(at, part)| key(part.rank, at)).collect::<Vec<_>>());
    let mut count = parts.len() as u64;
    while let Some(Reverse(lowest)) = heap.pop() {
        let (wanted, at) = ((lowest >> 32) as u32, lowest as u32 as usize);
        // What was joined otherwise meanwhile has another rank, or none.
        if parts[at].rank != wanted {
            continue;
        }
        let gone = parts[at].end as usize;
        let end = parts[gone].end as usize;
        parts[gone].rank = NEVER;
        parts[at].end = end as u32;
        if let Some(next) = parts.get_mut(end) {
            next.before = at as u32;
        }
        count -= 1;
        let before = parts[at].before as usize;
        // It and the next are a new pair, where there is a next; so are the one before and it.
        let next = parts.get(end).map(|next| (at, next.end as usize));
        let pairs = next.into_iter().chain((at > 0).then_some((before, end)));
        parts[at].rank = NEVER;
        for (left, end) in pairs {
            let rank = vocabulary.rank(&piece[left..end]);
            parts[left].rank = rank;
            if rank != NEVER {
                heap.push(key(rank, left));
            }
        }
    }
    count
}
