//! Decides whether bytes are a token of an encoding, and which of two tokens was learned first.
//!
//! The tables are read-only data of the library, laid out when it was built: nothing is loaded, nothing is allocated,
//! and all processes share the same pages. Never decides where a text is split.

use super::hash::hash;
use super::layout::{NEVER, OFFSET_BITS, mark, pair};

/// The tokens of an encoding.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// Open addressing, a power of two in number: where the token of that hash begins, and some of its hash.
    slots: &'static [[u8; 4]],
    /// Where a token of two bytes begins: of most pieces that are no token these are what is asked for first.
    pairs: &'static [[u8; 4]],
    /// The tokens by rank, each after its length in a byte.
    tokens: &'static [u8],
}

macro_rules! vocabulary {
    ($name:literal) => {
        Vocabulary {
            slots: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".slots")).as_chunks().0,
            pairs: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".pairs")).as_chunks().0,
            tokens: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".tokens")),
        }
    };
}

pub(super) static O200K_BASE: Vocabulary = vocabulary!("o200k_base");
pub(super) static CL100K_BASE: Vocabulary = vocabulary!("cl100k_base");

impl Vocabulary {
    /// A number that orders tokens as their ranks do: where the token stands among all. [`NEVER`] for what is no token.
    #[inline]
    pub(super) fn rank(&self, bytes: &[u8]) -> u32 {
        let hash = hash(bytes);
        let mut at = hash as usize;
        loop {
            let slot = u32::from_le_bytes(self.slots[at & (self.slots.len() - 1)]);
            if slot == 0 {
                return NEVER;
            }
            let offset = slot & ((1 << OFFSET_BITS) - 1);
            if slot ^ offset == mark(hash) && self.is_at(offset as usize, bytes) {
                return offset;
            }
            at += 1;
        }
    }

    /// The rank of the two bytes at a place; of one byte at the end it is [`NEVER`].
    #[inline]
    pub(super) fn rank_of_two(&self, bytes: &[u8], at: usize) -> u32 {
        match bytes.get(at..at + 2) {
            Some(&[first, second]) => u32::from_le_bytes(self.pairs[pair(first, second)]),
            _ => NEVER,
        }
    }

    #[inline]
    fn is_at(&self, offset: usize, bytes: &[u8]) -> bool {
        usize::from(self.tokens[offset]) == bytes.len() && self.tokens[offset + 1..].starts_with(bytes)
    }

    /// Reads a byte of every page, so that none of them waits for a disk later.
    pub(super) fn touch(&self) {
        /// No page of memory is smaller.
        const PAGE: usize = 4096;
        for bytes in [self.slots.as_flattened(), self.pairs.as_flattened(), self.tokens] {
            bytes.iter().step_by(PAGE).for_each(|byte| {
                std::hint::black_box(*byte);
            });
        }
    }
}
