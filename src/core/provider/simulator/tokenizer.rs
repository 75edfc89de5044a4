//! Decides what a token of the simulator is, and where a text of so many tokens ends.
//!
//! Near four characters per token on English prose, in one pass over the text. Reads from the left and never looks
//! back, so the first n tokens of a text are also the tokens of the text cut after them.

/// The longest run of letters and digits that is one token.
const RUN: usize = 6;

/// Counts the tokens of a text. A token is a run of up to six letters and digits, or one other visible character, or a
/// run of two and more white-space characters; a single space is part of what follows it.
pub fn tokens(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let (mut count, mut place, mut at) = (0, START, 0);
    while let Some(&byte) = bytes.get(at) {
        let sort = if byte.is_ascii() {
            at += 1;
            SORTS[usize::from(byte)]
        } else {
            let beyond = text[at..].chars().next().unwrap_or_default();
            at += beyond.len_utf8();
            sort(beyond)
        };
        let step = STEPS[usize::from(place)][usize::from(sort)];
        place = step >> 1;
        count += u64::from(step & 1);
    }
    count
}

/// Sorts of characters: signs, letters and digits, white space.
const SIGN: u8 = 0;
const LETTER: u8 = 1;
const BLANK: u8 = 2;

/// Places in a text: after a sign or at its start, after one blank, after more of them, then after so many letters of a
/// run.
const START: u8 = 0;
const GAP: u8 = 1;
const WIDE: u8 = 2;
const RUNNING: u8 = 3;

fn sort(character: char) -> u8 {
    match character {
        c if c.is_whitespace() => BLANK,
        c if c.is_alphanumeric() => LETTER,
        _ => SIGN,
    }
}

/// The sorts of ASCII.
const SORTS: [u8; 128] = {
    let mut sorts = [SIGN; 128];
    let mut byte = 0;
    while byte < 128 {
        if (byte as u8).is_ascii_alphanumeric() {
            sorts[byte] = LETTER;
        } else if byte == b' ' as usize || (byte >= b'\t' as usize && byte <= b'\r' as usize) {
            sorts[byte] = BLANK;
        }
        byte += 1;
    }
    sorts
};

/// From a place, by a sort of character: the next place, and in the lowest bit whether a token begins.
const STEPS: [[u8; 3]; RUNNING as usize + RUN] = {
    let mut steps = [[0; 3]; RUNNING as usize + RUN];
    let mut place = 0;
    while place < steps.len() {
        steps[place][SIGN as usize] = START << 1 | 1;
        steps[place][BLANK as usize] = match place as u8 {
            GAP => WIDE << 1 | 1,
            WIDE => WIDE << 1,
            _ => GAP << 1,
        };
        // A run that is full begins anew.
        let is_running = place >= RUNNING as usize && place + 1 < steps.len();
        steps[place][LETTER as usize] = if is_running { (place as u8 + 1) << 1 } else { RUNNING << 1 | 1 };
        place += 1;
    }
    steps
};

/// The text up to the end of its n-th token, or all of it when it has no more than n.
pub(super) fn cut(text: &str, limit: u64) -> &str {
    // A token has a byte at least.
    if text.len() as u64 <= limit {
        return text;
    }
    let mut ends = Ends { text, at: 0 };
    let mut end = 0;
    for _ in 0..limit {
        match ends.next() {
            Some(next) => end = next,
            None => return text,
        }
    }
    if ends.next().is_none() { text } else { &text[..end] }
}

/// The offsets at which tokens end.
struct Ends<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Ends<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            if let Some(step) = ascii(&self.text.as_bytes()[self.at..]) {
                self.at += step.bytes;
                if step.counts {
                    return Some(self.at);
                }
                continue;
            }
            let rest = &self.text[self.at..];
            let first = rest.chars().next()?;
            if first.is_whitespace() {
                let run = rest.len() - rest.trim_start().len();
                self.at += run;
                if run > first.len_utf8() {
                    return Some(self.at);
                }
                continue;
            }
            self.at += if first.is_alphanumeric() {
                let run = rest.chars().take(RUN).take_while(|c| c.is_alphanumeric());
                run.map(char::len_utf8).sum()
            } else {
                first.len_utf8()
            };
            return Some(self.at);
        }
    }
}

struct Step {
    bytes: usize,
    counts: bool,
}

/// The short way for what most text is made of; none where a gap is long or a letter beyond ASCII has a say.
fn ascii(rest: &[u8]) -> Option<Step> {
    let letters = rest.iter().take(RUN).take_while(|b| b.is_ascii_alphanumeric()).count();
    let next = rest.get(letters);
    match (letters, next) {
        (RUN, _) => Some(Step { bytes: RUN, counts: true }),
        (1.., None) => Some(Step { bytes: letters, counts: true }),
        (1.., Some(next)) if next.is_ascii() => Some(Step { bytes: letters, counts: true }),
        (0, Some(b' ')) if rest.get(1).is_some_and(u8::is_ascii_graphic) => Some(Step { bytes: 1, counts: false }),
        (0, Some(sign)) if sign.is_ascii_graphic() => Some(Step { bytes: 1, counts: true }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_is_a_short_run_a_sign_or_a_gap() {
        for (text, count) in
            [("", 0), (" ", 0), ("word", 1), ("longer", 1), ("longest", 2), ("a b", 2), ("a, b", 3), ("a\n\nb", 3)]
        {
            assert_eq!(tokens(text), count, "{text:?}");
        }
    }

    #[test]
    fn prose_is_near_four_characters_per_token() {
        let prose = "The library opened on a Sunday, and nobody who came could say why it had ever been closed. \
                     Readers returned their overdue books without embarrassment; the librarians, for their part, \
                     forgave every fine, and the committee reconsidered its entire schedule.";
        let ratio = prose.len() as f64 / tokens(prose) as f64;
        assert!((3.6..4.8).contains(&ratio), "{ratio}");
    }

    /// The definition in its plainest form.
    fn slowly(text: &str) -> u64 {
        let (mut count, mut run, mut gap) = (0, 0, 0);
        for c in text.chars() {
            gap = if c.is_whitespace() { gap + 1 } else { 0 };
            count += u64::from(gap == 2);
            if c.is_alphanumeric() {
                count += u64::from(run % RUN == 0);
                run += 1;
            } else {
                run = 0;
                count += u64::from(gap == 0);
            }
        }
        count
    }

    proptest! {
        #[test]
        fn the_short_way_counts_as_the_definition_does(text in any::<String>(), dense in "[a-cé \n\t,\u{0b}\u{a0}]{0,80}") {
            prop_assert_eq!(tokens(&text), slowly(&text));
            prop_assert_eq!(tokens(&dense), slowly(&dense));
            let plain: String = text.chars().map(|c| char::from((c as u32 % 128) as u8)).collect();
            prop_assert_eq!(tokens(&plain), slowly(&plain));
        }

        #[test]
        fn the_first_tokens_are_the_tokens_of_the_cut_text(text in any::<String>(), limit in 0..40_u64) {
            let cut = cut(&text, limit);
            prop_assert!(text.starts_with(cut));
            prop_assert_eq!(tokens(cut), tokens(&text).min(limit));
        }
    }
}
