//! Decides how a text that is counted elsewhere stands in a prompt: its first words, and behind them its number between
//! two signs that no text has.
//!
//! So a prompt can be rendered as it will be, its long texts left out, and still be seen to hold each of them once,
//! twice or never. Never counts a token.

use crate::prompt::Message;

const OPEN: char = '\u{e000}';
const CLOSE: char = '\u{e001}';
/// What stands for a text where the frame around it is counted: one token, however tokens are counted.
const STAND_IN: char = 'x';

/// The first words of a text, at most so many bytes.
pub(super) fn glimpse(text: &str, most: usize) -> String {
    let first = &text[..text.floor_char_boundary(most.min(text.len()))];
    first.chars().filter(|c| ![OPEN, CLOSE].contains(c)).collect()
}

/// A text as it stands in a prompt.
pub(super) fn marked(glimpse: &str, number: usize) -> String {
    format!("{glimpse}{OPEN}{number}{CLOSE}")
}

/// What is left of messages without the texts that are marked in them, and how often each of these stands there.
pub(super) fn unmarked(messages: &[Message], glimpses: &[&str]) -> (Vec<Message>, Vec<u64>) {
    let mut times = vec![0; glimpses.len()];
    let bare = messages.iter().map(|message| {
        let mut out = String::with_capacity(message.content.len());
        let mut rest = message.content.as_str();
        while let Some((before, after)) = rest.split_once(OPEN) {
            rest = after;
            out.push_str(before);
            let number =
                after.split_once(CLOSE).and_then(|(number, after)| Some((number.parse::<usize>().ok()?, after)));
            if let Some((number, after)) = number.filter(|(number, _)| *number < times.len()) {
                times[number] += 1;
                // A filter may have changed the first words; then they are left to be counted.
                if out.ends_with(glimpses[number]) {
                    out.truncate(out.len() - glimpses[number].len());
                }
                out.push(STAND_IN);
                rest = after;
            }
        }
        out.push_str(rest);
        Message { role: message.role, content: out }
    });
    (bare.collect(), times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::Role;

    fn said(content: String) -> Vec<Message> {
        vec![Message { role: Role::User, content }]
    }

    #[test]
    fn a_text_is_found_as_often_as_it_stands_there() {
        let glimpses = ["one", "", "three words here"];
        let [one, two, _] = [0, 1, 2].map(|n| marked(glimpses[n], n));
        let (bare, times) = unmarked(&said(format!("<a>{one}</a> {two}{two}.")), &glimpses);
        assert_eq!((bare[0].content.as_str(), times), ("<a>x</a> xx.", vec![1, 2, 0]));
    }

    #[test]
    fn signs_that_mean_nothing_stay_where_they_are() {
        for odd in ["a\u{e000}", "\u{e000}7\u{e001}", "\u{e000}x\u{e001}", "\u{e001}\u{e000}"] {
            let (bare, times) = unmarked(&said(odd.to_owned()), &["g"]);
            assert_eq!(times, [0], "{odd:?}");
            assert_eq!(bare[0].content, odd.replace('\u{e000}', ""), "{odd:?}");
        }
        assert_eq!(glimpse("\u{e000}é", 4), "");
        assert_eq!(glimpse("éé", 3), "é");
    }
}
