//! Decides how the words of an answer are spread over the JSON a step asks for.
//!
//! Every text gets its share of the words asked for, and a text that took more leaves less for the next, so that the
//! whole comes out near its length. The first text says who writes on what, and carries the marker; so does the first
//! text of each entry for a document, because a header is handed on in parts. Never leaves a key out and never adds
//! one.

use super::phrases::{ADJECTIVES, CONDITIONS, NOUNS, VERBS};
use super::{Pen, capitalise};
use crate::provider::simulator::reading::{excerpt, spell};
use crate::provider::simulator::shape::{Room, Shape};
use serde_json::Value;
use std::fmt::Write;

/// Words from which on a sentence is worth while; below it there are phrases.
pub(super) const SENTENCE: usize = 8;
/// Words from which on a passage says first what it is about.
pub(super) const LED: usize = 24;

/// The answer as it is written.
struct Page {
    out: String,
    /// The shares of all texts, and of those written.
    units: usize,
    done: usize,
    /// The words asked for, and those written.
    words: usize,
    written: usize,
    /// Whether the next text is the first, and whether it carries the marker.
    is_first: bool,
    is_marked: bool,
}

impl Pen<'_> {
    /// The JSON of this shape, its keys in their order.
    pub(in super::super) fn object(mut self, shape: &Shape<'_>) -> String {
        let mut page = Page {
            out: String::with_capacity(1024 + self.words * 7),
            units: shape.units(),
            done: 0,
            words: self.words,
            written: 0,
            is_first: true,
            is_marked: true,
        };
        self.value(&mut page, "", shape, 0);
        page.out.push('\n');
        page.out
    }

    fn value(&mut self, page: &mut Page, key: &str, shape: &Shape<'_>, depth: usize) {
        let _ = match shape {
            Shape::Text { hint, room } => {
                let text = self.passage(page, key, hint, *room);
                write!(page.out, "{}", Value::String(text))
            }
            Shape::Number => write!(page.out, "{}", 1 + self.draw() % 5),
            Shape::Flag => write!(page.out, "{}", self.draw().is_multiple_of(2)),
            Shape::Literal(text) => write!(page.out, "{}", Value::from(*text)),
            Shape::Object(fields) if fields.is_empty() => write!(page.out, "{{}}"),
            Shape::List(items) if items.is_empty() => write!(page.out, "[]"),
            Shape::Object(fields) => {
                page.is_marked |= shape.document().is_some();
                for (at, (key, shape)) in fields.iter().enumerate() {
                    page.line(if at == 0 { "{" } else { "," }, depth + 1);
                    let _ = write!(page.out, "{}: ", Value::from(*key));
                    self.value(page, key, shape, depth + 1);
                }
                page.line("", depth);
                write!(page.out, "}}")
            }
            Shape::List(items) => {
                for (at, shape) in items.iter().enumerate() {
                    page.line(if at == 0 { "[" } else { "," }, depth + 1);
                    self.value(page, key, shape, depth + 1);
                }
                page.line("", depth);
                write!(page.out, "]")
            }
        };
    }

    /// One text of about the length that is its due.
    fn passage(&mut self, page: &mut Page, key: &str, hint: &str, room: Room) -> String {
        page.done += room.units();
        let due = (page.words as u128 * page.done as u128 / page.units.max(1) as u128) as usize;
        let mut text = match (page.is_first, page.is_marked) {
            (true, _) => format!("{}. {}", self.title(), self.introduction()),
            (false, true) => self.mark.trim_end().to_owned(),
            (false, false) => String::new(),
        };
        let is_first = std::mem::take(&mut page.is_first);
        page.is_marked = false;
        page.written += count(&text);
        let mut add = |page: &mut Page, more: &str| {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(more);
            page.written += count(more);
        };
        let left = |page: &Page| due.saturating_sub(page.written);
        if room == Room::Label || left(page) < SENTENCE {
            if !is_first {
                let phrase = if room == Room::Label { self.label() } else { self.phrase(left(page)) };
                add(page, &phrase);
            }
            return text;
        }
        if !is_first && room == Room::Passage && left(page) >= LED {
            let subject = if hint.trim().is_empty() { spell(key) } else { excerpt(hint, 80) };
            let subject = subject.trim_end_matches(['.', ':', '?', '!']);
            if !subject.is_empty() {
                add(page, &format!("On “{subject}”:"));
            }
        }
        while left(page) >= SENTENCE {
            let sentence = self.sentence();
            add(page, &sentence);
        }
        text
    }

    /// A few words where there is no room for a sentence.
    fn phrase(&mut self, room: usize) -> String {
        if room < 6 {
            return format!("{} for {}", self.label(), self.topic());
        }
        let (verb, topic, condition) = (self.pick(VERBS), self.topic(), self.pick(CONDITIONS));
        format!("{verb} {topic} {condition}.")
    }

    fn label(&mut self) -> String {
        let mut label = format!("{} {}", self.pick(ADJECTIVES), self.pick(NOUNS));
        capitalise(&mut label);
        label
    }
}

impl Page {
    fn line(&mut self, before: &str, depth: usize) {
        self.out.push_str(before);
        self.out.push('\n');
        for _ in 0..depth {
            self.out.push_str("  ");
        }
    }
}

fn count(text: &str) -> usize {
    text.split_whitespace().count()
}
