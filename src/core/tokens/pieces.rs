//! Decides where a text is split into pieces; no token reaches over such a place.
//!
//! Each encoding says it with a regex. This is what the regex of an encoding matches, read from the left without ever
//! trying again: a run of white space, or of capitals, is looked through twice at the most, so time grows with the text
//! alone. Special tokens are no pieces: their text is split as any other.

use super::layout::sort::{BLANK, CASELESS, DIGIT, LINE, LOWER, MARK, SIGN, UPPER};
use super::sorts;

/// Where the piece ends that begins at an offset before the end of the text.
pub(super) type Split = fn(&str, usize) -> usize;

/// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?`, then
/// `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?`,
/// `\p{N}{1,3}`, ` ?[^\s\p{L}\p{N}]+[\r\n/]*`, `\s*[\r\n]+`, `\s+(?!\S)`, `\s+`.
#[inline]
pub(super) fn o200k_base(text: &str, at: usize) -> usize {
    let (first, length) = sorts::at(text, at);
    let next = at + length;
    let word = match first {
        UPPER | LOWER | CASELESS => Some(cased(text, at).0),
        // One mark is a word: that comes before a word of capitals after it.
        MARK => Some(match cased(text, next) {
            (end, true) => end,
            _ => next,
        }),
        SIGN | BLANK => Some(cased(text, next).0).filter(|end| *end > next),
        _ => None,
    };
    match word {
        Some(end) => end + contraction(text, end),
        None if first == DIGIT => digits(text, at),
        None => match signs(text, at) {
            Some(end) => end + text.as_bytes()[end..].iter().take_while(|byte| b"\r\n/".contains(byte)).count(),
            None => {
                let gap = gap(text, at);
                gap.last_line.unwrap_or_else(|| gap.before_next(text))
            }
        },
    }
}

/// `'(?i:[sdmt]|ll|ve|re)`, `[^\r\n\p{L}\p{N}]?+\p{L}++`, `\p{N}{1,3}+`, ` ?[^\s\p{L}\p{N}]++[\r\n]*+`, `\s++$`,
/// `\s*[\r\n]`, `\s+(?!\S)`, `\s`.
#[inline]
pub(super) fn cl100k_base(text: &str, at: usize) -> usize {
    const LETTERS: u8 = UPPER | LOWER | CASELESS;
    let suffix = contraction(text, at);
    if suffix > 0 {
        return at + suffix;
    }
    let (first, length) = sorts::at(text, at);
    let next = at + length;
    match first {
        DIGIT => return digits(text, at),
        UPPER | LOWER | CASELESS => return run(text, next, LETTERS),
        SIGN | BLANK | MARK => {
            let end = run(text, next, LETTERS);
            if end > next {
                return end;
            }
        }
        _ => {}
    }
    match signs(text, at) {
        Some(end) => end + text.as_bytes()[end..].iter().take_while(|byte| b"\r\n".contains(byte)).count(),
        None => {
            let gap = gap(text, at);
            match gap.last_line {
                Some(line) if gap.end < text.len() => line,
                _ => gap.before_next(text),
            }
        }
    }
}

/// Where a run of characters of some sorts ends.
#[inline]
fn run(text: &str, mut at: usize, wanted: u8) -> usize {
    loop {
        let (sort, length) = sorts::at(text, at);
        if sort & wanted == 0 {
            return at;
        }
        at += length;
    }
}

/// Where a word ends whose capitals all come first, and whether it has a letter that is no capital. A word that has
/// none but for letters without case ends with the last of these.
#[inline]
fn cased(text: &str, at: usize) -> (usize, bool) {
    let (mut end, mut last_caseless) = (at, None);
    loop {
        let (sort, length) = sorts::at(text, end);
        match sort {
            UPPER => end += length,
            CASELESS | MARK => {
                end += length;
                last_caseless = Some(end);
            }
            LOWER => return (run(text, end + length, LOWER | CASELESS | MARK), true),
            _ => break,
        }
    }
    last_caseless.map_or((end, false), |end| (end, true))
}

/// The length of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d`, in either case; zero where there is none.
#[inline]
fn contraction(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    if bytes.get(at) != Some(&b'\'') {
        return 0;
    }
    let letter = |nth: usize| bytes.get(at + nth).map_or(0, u8::to_ascii_lowercase);
    match (letter(1), letter(2)) {
        (b's' | b't' | b'm' | b'd', _) => 2,
        (b'r' | b'v', b'e') | (b'l', b'l') => 3,
        // The long s is an s, for a regex that does not look at case.
        (0xc5, 0xbf) => 3,
        _ => 0,
    }
}

/// Up to three of them.
#[inline]
fn digits(text: &str, at: usize) -> usize {
    let mut end = at;
    for _ in 0..3 {
        match sorts::at(text, end) {
            (DIGIT, length) => end += length,
            _ => break,
        }
    }
    end
}

/// Where signs end that may have a space before them.
#[inline]
fn signs(text: &str, at: usize) -> Option<usize> {
    let start = at + usize::from(text.as_bytes().get(at) == Some(&b' '));
    Some(run(text, start, SIGN | MARK)).filter(|end| *end > start)
}

/// A run of white space.
struct Gap {
    start: usize,
    /// Where its last character begins.
    last: usize,
    end: usize,
    /// After the last end of a line in it.
    last_line: Option<usize>,
}

#[inline]
fn gap(text: &str, start: usize) -> Gap {
    let mut gap = Gap { start, last: start, end: start, last_line: None };
    loop {
        let (sort, length) = sorts::at(text, gap.end);
        if sort & (LINE | BLANK) == 0 {
            return gap;
        }
        gap.last = gap.end;
        gap.end += length;
        if sort == LINE {
            gap.last_line = Some(gap.end);
        }
    }
}

impl Gap {
    /// Its end; where something follows, its last character goes with that, unless it is all there is.
    fn before_next(&self, text: &str) -> usize {
        if self.end < text.len() && self.last > self.start { self.last } else { self.end }
    }
}
