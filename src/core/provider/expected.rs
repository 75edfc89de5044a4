//! Decides how long an answer will be before it is asked for, from what a step asks for and nothing else.
//!
//! Of the simulator it is computed from its settings; of every other model it is a plain constant for each text in the
//! shape, which holds until that model has a history. What comes out is a text in the place of the answer: as long and
//! of the same form, with words that say nothing. Never asks a model, never draws a random number and never writes an
//! answer.

use super::simulator::{self, Room, Shape};
use crate::prompt::Message;
use serde_json::Value;

/// Words of a document in Markdown.
const DOCUMENT: usize = 900;
/// Words of a passage in JSON.
const PASSAGE: usize = 55;
/// Words of an item in a list.
const ITEM: usize = 22;
/// Words of a name.
const LABEL: usize = 3;
/// What follows a heading in a document.
const SECTION: usize = 130;

/// Words of up to six letters, one token each however tokens are counted.
const SHORT: [&str; 11] = ["the", "plan", "for", "each", "step", "and", "what", "it", "needs", "to", "hold"];
/// Words that the simulator counts as two tokens, and as three.
const LONG: [&str; 5] = ["decision", "measured", "standing", "question", "remaining"];
const LONGER: &str = "responsibilities";
/// Words to a sentence.
const SENTENCE: usize = 13;

/// What is asked, as far as the length of the answer depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The wire format of its provider.
    pub api: &'a str,
    /// The name of the model.
    pub model: &'a str,
    /// Its settings.
    pub settings: &'a Value,
    /// What a JSON answer must have; none for a plain text.
    pub content: Option<&'a Value>,
    /// What is said, where texts may be cut to their first words.
    pub messages: &'a [Message],
}

/// A text in the place of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// As long as the answer, and of its form.
    pub text: String,
    /// What is thought before its first word, in tokens.
    pub reasoning_tokens: u64,
    /// The most tokens that it comes to in one call, whatever the limit of the call.
    pub cut_after: Option<u64>,
}

/// The text to expect.
pub fn expected(asked: &Asked<'_>) -> Expected {
    if asked.api == "simulator" {
        return simulator::expected(asked);
    }
    let text = match Shape::asked(asked.content) {
        Some(shape) => {
            let words = |room: Room| match room {
                Room::Label => LABEL,
                Room::Item => ITEM,
                Room::Passage => PASSAGE,
            };
            written(&filled(&shape, &mut |_, _, room| filler(words(room), 0)))
        }
        None => {
            let sections = (DOCUMENT / SECTION).max(1);
            (0..sections).fold(format!("# {}\n", filler(8, 0)), |text, _| {
                text + &format!("\n## {}\n\n{}\n", filler(4, 0), filler(DOCUMENT / sections, 0))
            })
        }
    };
    Expected { text, reasoning_tokens: 0, cut_after: None }
}

/// JSON as models write it.
pub(super) fn written(value: &Value) -> String {
    format!("{value:#}\n")
}

/// A shape with a text in each of its places: made from its key, the hint there and how much it may say.
pub(super) fn filled(shape: &Shape<'_>, text: &mut dyn FnMut(&Place<'_>, &str, Room) -> String) -> Value {
    fill(shape, &mut Place { key: "", begins_document: false }, text)
}

/// Where a text stands.
pub(super) struct Place<'a> {
    /// The key that it, or the list it is in, stands under.
    pub(super) key: &'a str,
    /// Whether it is the first text of an entry for a document.
    pub(super) begins_document: bool,
}

fn fill<'a>(shape: &Shape<'a>, place: &mut Place<'a>, text: &mut dyn FnMut(&Place<'_>, &str, Room) -> String) -> Value {
    match shape {
        Shape::Text { hint, room } => {
            let made = text(place, hint, *room);
            place.begins_document = false;
            Value::String(made)
        }
        Shape::Number => Value::from(3),
        Shape::Flag => Value::from(true),
        Shape::Literal(given) => Value::from(*given),
        Shape::Object(fields) => {
            place.begins_document |= shape.document().is_some();
            let fields = fields.iter().map(|(key, shape)| {
                place.key = key;
                ((*key).to_owned(), fill(shape, place, text))
            });
            Value::Object(fields.collect())
        }
        Shape::List(items) => {
            let key = place.key;
            let items = items.iter().map(|shape| {
                place.key = key;
                fill(shape, place, text)
            });
            Value::Array(items.collect())
        }
    }
}

/// Sentences of so many words, of so many tokens of the simulator where that can be.
pub(super) fn filler(words: usize, tokens: usize) -> String {
    let mut out = String::with_capacity(words * 6);
    let mut spent = 0;
    for at in 0..words {
        let ends = at % SENTENCE == SENTENCE - 1 || at + 1 == words && words >= SENTENCE;
        let due = (tokens * (at + 1) / words).saturating_sub(usize::from(ends));
        let (word, tokens) = match due.saturating_sub(spent) {
            0 | 1 => (SHORT[at % SHORT.len()], 1),
            2 => (LONG[at % LONG.len()], 2),
            _ => (LONGER, 3),
        };
        spent += tokens + usize::from(ends);
        if at > 0 {
            out.push(' ');
        }
        out.push_str(word);
        if ends {
            out.push('.');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plain(content: Option<&Value>) -> String {
        let asked = Asked { api: "openai", model: "m", settings: &Value::Null, content, messages: &[] };
        expected(&asked).text
    }

    #[test]
    fn a_filler_has_the_words_and_the_tokens_that_were_asked_for() {
        for (words, tokens) in [(1, 1), (5, 6), (14, 18), (40, 55), (100, 180), (13, 30)] {
            let text = filler(words, tokens);
            assert_eq!(text.split_whitespace().count(), words, "{text}");
            let counted = simulator::tokens(&text) as usize;
            assert!(counted.abs_diff(tokens) <= 1 + words / SENTENCE, "{counted} of {tokens}: {text}");
        }
        assert_eq!(filler(0, 9), "");
    }

    #[test]
    fn every_place_of_a_shape_is_filled_and_a_longer_shape_is_a_longer_answer() {
        let small = json!({"title": "x", "body": "x"});
        let large = json!({"title": "x", "body": "x", "points": [{"name": "x", "why": "x", "score": 0}], "notes": []});
        let read = |content: &Value| -> Value { serde_json::from_str(&plain(Some(content))).unwrap() };
        assert_eq!(read(&small).as_object().unwrap().keys().collect::<Vec<_>>(), ["title", "body"]);
        assert!(read(&large)["points"][1]["why"].as_str().unwrap().len() > 100);
        assert!(plain(Some(&large)).len() > plain(Some(&small)).len());
    }

    #[test]
    fn where_nothing_is_asked_for_a_document_is_expected() {
        let words = plain(None).split_whitespace().count();
        assert!(words.abs_diff(DOCUMENT) < DOCUMENT / 10, "{words}");
        assert!(plain(None).starts_with("# "));
    }
}
