//! Decides the form of the tables: what a slot of a vocabulary holds, and the sorts that characters have.
//!
//! The build script writes the tables by it and the library reads them by it: both compile this one file.

/// So many bits of a slot say where its token begins; the others are a part of its hash, to pass by most wrong tokens
/// unread.
pub(crate) const OFFSET_BITS: u32 = 21;

/// The part of a hash that a slot holds, in its place.
#[inline]
pub(crate) fn mark(hash: u64) -> u32 {
    (hash >> 32) as u32 >> OFFSET_BITS << OFFSET_BITS
}

/// The place of two bytes in the table of pairs.
#[inline]
pub(crate) fn pair(first: u8, second: u8) -> usize {
    usize::from(first) << 8 | usize::from(second)
}

/// Stands for the rank of what is no token.
pub(crate) const NEVER: u32 = u32::MAX;

/// So many characters have one entry in the index of sorts.
pub(crate) const BLOCK: usize = 128;

/// The sorts of characters, a bit for each so that a set of them is a mask.
pub(crate) mod sort {
    /// A letter with a case other than the lower one.
    pub(crate) const UPPER: u8 = 1;
    /// A letter in lower case.
    pub(crate) const LOWER: u8 = 1 << 1;
    /// A letter without case.
    pub(crate) const CASELESS: u8 = 1 << 2;
    /// What is added to a letter.
    pub(crate) const MARK: u8 = 1 << 3;
    /// Any character that is a number.
    pub(crate) const DIGIT: u8 = 1 << 4;
    /// The end of a line.
    pub(crate) const LINE: u8 = 1 << 5;
    /// Other white space.
    pub(crate) const BLANK: u8 = 1 << 6;
    /// All the rest.
    pub(crate) const SIGN: u8 = 1 << 7;
}
