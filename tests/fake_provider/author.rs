//! Decides what an honest model says that has one document to write: as much of it as it may at a time, and then on from where
//! its own text stops, as the request shows it.
//!
//! There are two ways to go on. *Onward*: with the next character, perhaps after some words once more, a sentence or a fence.
//! *Afresh*: with a new object that has what is still missing. It compares texts and nothing else, so that no mistake in how
//! chunks are put together can be made here too. Never remembers: the request alone says how far it has come.

use super::act::Answer;
use super::speech;
use dialectic_core::provider::dialect::Dialect;
use serde_json::{Map, Value};
use std::sync::Arc;

/// How an author that begins afresh gives the item in which it was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// With all its fields.
    Whole,
    /// With its first field, which names it, and with those that were not yet complete.
    Lacking,
}

/// A model and the document it writes.
#[derive(Debug, Clone)]
pub struct Author {
    whole: Arc<str>,
    most: usize,
    afresh: Option<Again>,
    repeats: usize,
    lead_in: String,
    is_fenced: bool,
    stride: Option<usize>,
}

impl Author {
    /// Writes this, all at once and onward.
    pub fn of(whole: &str) -> Self {
        Author {
            whole: whole.into(),
            most: usize::MAX,
            afresh: None,
            repeats: 0,
            lead_in: String::new(),
            is_fenced: false,
            stride: None,
        }
    }

    /// Stops after so many characters, for want of tokens; what leads in counts.
    pub fn at_most(self, characters: usize) -> Self {
        Author { most: characters, ..self }
    }

    /// Goes on afresh. The document is an object with texts and one list of objects; no text in it occurs twice.
    pub fn afresh(self, again: Again) -> Self {
        Author { afresh: Some(again), ..self }
    }

    /// Goes on at least so many characters before its text stopped, at the beginning of a word.
    pub fn repeating(self, characters: usize) -> Self {
        Author { repeats: characters, ..self }
    }

    /// Says this before it goes on.
    pub fn led_in(self, by: &str) -> Self {
        Author { lead_in: by.to_owned(), ..self }
    }

    /// Goes on in a fence.
    pub fn fenced(self) -> Self {
        Author { is_fenced: true, ..self }
    }

    /// Says so many characters in a message; otherwise a word.
    pub fn in_strides(self, characters: usize) -> Self {
        Author { stride: Some(characters.max(1)), ..self }
    }

    /// What it answers when this is put before it as its own words; none when it has not begun.
    pub(super) fn answer(&self, dialect: Dialect, said: Option<&str>) -> Answer {
        let text = match (said, self.afresh) {
            (None, _) => self.whole.to_string(),
            (Some(said), None) => self.led(self.onward(said), ""),
            (Some(said), Some(again)) => self.led(&self.missing(said, again), "json"),
        };
        let kept = text.char_indices().nth(self.most).map_or(text.len(), |(at, _)| at);
        let answer = self.spoken(&text[..kept]);
        if kept < text.len() { answer.finish(speech::length_word(dialect)) } else { answer }
    }

    fn spoken(&self, text: &str) -> Answer {
        let Some(stride) = self.stride else { return Answer::of(text) };
        let letters: Vec<char> = text.chars().collect();
        let deltas: Vec<String> = letters.chunks(stride).map(|letters| letters.iter().collect()).collect();
        let output_tokens = deltas.len() as u64;
        Answer { deltas, output_tokens, ..Answer::of("") }
    }

    fn led(&self, rest: &str, language: &str) -> String {
        match self.is_fenced {
            true => format!("{}```{language}\n{rest}\n```\n", self.lead_in),
            false => format!("{}{rest}", self.lead_in),
        }
    }

    /// What comes behind as much of the document as is there already.
    fn onward(&self, said: &str) -> &str {
        let same = self.whole.char_indices().zip(said.chars()).take_while(|((_, one), other)| one == other);
        let mut at = same.last().map_or(0, |((at, last), _)| at + last.len_utf8());
        if self.repeats > 0 {
            at = self.whole[..at].char_indices().rev().nth(self.repeats - 1).map_or(0, |(back, _)| back);
            at = self.whole[..at].rfind(char::is_whitespace).map_or(0, |space| space + 1);
        }
        &self.whole[at..]
    }

    /// An object with what is not yet there: all texts of the document, and of its list the items from the interrupted one on.
    fn missing(&self, said: &str, again: Again) -> String {
        let Ok(Value::Object(whole)) = serde_json::from_str(&self.whole) else { return self.whole.to_string() };
        let mut missing = Map::new();
        for (key, value) in whole {
            let Value::Array(mut items) = value else {
                missing.insert(key, value);
                continue;
            };
            items.drain(..items.iter().take_while(|item| is_there(said, item)).count());
            if let (Again::Lacking, Some(Value::Object(item))) = (again, items.first_mut()) {
                let name = item.keys().next().cloned();
                item.retain(|field, value| name.as_ref() == Some(field) || !is_there(said, value));
            }
            if !items.is_empty() {
                missing.insert(key, items.into());
            }
        }
        Value::Object(missing).to_string()
    }
}

/// Whether all texts of a value are in what was said, each to its closing quote.
fn is_there(said: &str, value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(|item| is_there(said, item)),
        Value::Object(fields) => fields.values().all(|field| is_there(said, field)),
        text => said.contains(&text.to_string()),
    }
}
