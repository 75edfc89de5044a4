//! Decides the sort of a character: letter of some case, mark, digit, white space or sign.
//!
//! By the tables that the regex of the reference has, laid out when the library was built. Never looks at two
//! characters.

use super::layout::BLOCK;

static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sorts"));
/// One for every block of characters.
static INDEX: &[u8] = TABLE.split_at(BLOCKS).0;
/// The sorts of the characters of a block, block after block; the first block is ASCII.
static SORTS: &[u8] = TABLE.split_at(BLOCKS).1;
const BLOCKS: usize = (char::MAX as usize + 1) / BLOCK;

/// No sort: there is no character.
pub(super) const END: u8 = 0;

/// The sort of the character at an offset, and its length.
#[inline]
pub(super) fn at(text: &str, offset: usize) -> (u8, usize) {
    match text.as_bytes().get(offset) {
        None => (END, 0),
        Some(byte) if byte.is_ascii() => (SORTS[usize::from(*byte)], 1),
        Some(_) => text[offset..].chars().next().map_or((END, 0), |beyond| (of(beyond), beyond.len_utf8())),
    }
}

fn of(character: char) -> u8 {
    let number = character as usize;
    SORTS[usize::from(INDEX[number / BLOCK]) * BLOCK + number % BLOCK]
}
