//! Decides what of the beginning of a text repeats the end of another.
//!
//! A repetition proves something only where it is long enough and is not the rhythm of the text itself: in `0, 0, 0, 0`
//! or `aaaa` whatever comes next repeats what was there. Never looks further than [`LONGEST`] characters, but for a
//! chunk that is nothing else.

/// The most characters a model is taken to repeat.
pub(super) const LONGEST: usize = 200;
/// From so many characters on a repetition is no accident; an escape is one, and blanks in a row are one.
pub(super) const SURE: usize = 12;

/// Every length in bytes at which the beginning of `after` is the end of `before`, longest first.
pub(super) fn all(before: &str, after: &str) -> Vec<usize> {
    let tail = last(before, LONGEST);
    let head = first(after, LONGEST);
    // No text holds this byte, so no border reaches over it.
    let joined: Vec<u8> = head.bytes().chain([0xff]).chain(tail.bytes()).collect();
    let borders = borders(&joined);
    let mut found = Vec::new();
    let mut length = borders.last().copied().unwrap_or_default();
    while length > 0 {
        found.push(length);
        length = borders[length - 1];
    }
    found
}

/// As [`all`], and the whole of `after` where it is nothing but the end of `before`, however long.
pub(super) fn all_or_whole(before: &str, after: &str) -> Vec<usize> {
    let mut found = all(before, after);
    if !found.contains(&after.len()) && before.ends_with(after) && !after.is_empty() {
        found.insert(0, after.len());
    }
    found
}

/// Whether a chunk is only the one before it once more, and enough of it.
pub(super) fn is_once_more(previous: &str, chunk: &str) -> bool {
    previous == chunk && chunk.trim().chars().count() >= SURE
}

/// Of all overlaps, longest first, those that are no accident. What repeats itself in a rhythm proves nothing, and
/// neither does a part of it.
pub(super) fn sure(overlaps: &[usize], after: &str) -> impl Iterator<Item = usize> {
    let is_rhythm = |length: &&usize| is_rhythm(&after[..**length]);
    overlaps.iter().take_while(move |length| !is_rhythm(length)).copied().filter(|length| weighs(&after[..*length]))
}

/// Whether a repetition of this is no accident.
pub(super) fn is_sure(repeated: &str) -> bool {
    weighs(repeated) && !is_rhythm(repeated)
}

/// Whether there is enough in a text: an escape is one character, and blanks in a row are one.
fn weighs(text: &str) -> bool {
    let mut characters = text.chars();
    let (mut weight, mut was_blank) = (0, false);
    while let Some(c) = characters.next() {
        if c == '\\' && characters.next() == Some('u') {
            characters.by_ref().take(4).for_each(drop);
        }
        weight += usize::from(!(c.is_whitespace() && was_blank));
        was_blank = c.is_whitespace();
    }
    weight >= SURE
}

/// Whether a text is made of one shorter text, at least twice.
fn is_rhythm(text: &str) -> bool {
    let border = borders(text.as_bytes()).last().copied().unwrap_or_default();
    2 * (text.len() - border) <= text.len()
}

/// For each beginning of a text the longest shorter beginning that is also its end.
fn borders(text: &[u8]) -> Vec<usize> {
    let mut borders = vec![0; text.len()];
    let mut length = 0;
    for at in 1..text.len() {
        while length > 0 && text[at] != text[length] {
            length = borders[length - 1];
        }
        length += usize::from(text[at] == text[length]);
        borders[at] = length;
    }
    borders
}

/// The last characters of a text.
pub(super) fn last(text: &str, characters: usize) -> &str {
    let start = text.char_indices().rev().take(characters).last().map_or(text.len(), |(at, _)| at);
    &text[start..]
}

/// The first characters of a text.
pub(super) fn first(text: &str, characters: usize) -> &str {
    let end = text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    &text[..end]
}
