//! Decides how long an answer will be, without writing it: sentences are as long as they are on average, and as many as
//! there is room for.
//!
//! Follows what [`super`] and `object` do with words, phrase by phrase, and must change with them; a law compares the
//! two. Never draws a number and never puts a sentence together.

use super::super::tokenizer::tokens;
use super::object::{LED, SENTENCE};
use super::phrases::{ADJECTIVES, CONDITIONS, NOUNS, VERBS};
use super::{LIST_AND_END, Pen, name};
use crate::provider::expected::{filled, filler};
use crate::provider::simulator::reading::{excerpt, spell};
use crate::provider::simulator::shape::{Room, Shape};
use serde_json::Value;
use std::ops::{Add, Mul};

/// Words and tokens.
#[derive(Clone, Copy, Default)]
struct Size {
    words: f64,
    tokens: f64,
}

impl Size {
    fn of(text: &str) -> Self {
        Self { words: text.split_whitespace().count() as f64, tokens: tokens(text) as f64 }
    }

    /// Of one of these, any as likely as the other.
    fn mean(all: impl ExactSizeIterator<Item = Size>) -> Self {
        let count = all.len().max(1) as f64;
        all.fold(Self::default(), Add::add) * (1.0 / count)
    }

    fn filler(self) -> String {
        filler(self.words.round() as usize, self.tokens.round() as usize)
    }
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { words: self.words + other.words, tokens: self.tokens + other.tokens }
    }
}

impl Mul<f64> for Size {
    type Output = Self;

    fn mul(self, times: f64) -> Self {
        Self { words: self.words * times, tokens: self.tokens * times }
    }
}

/// How long the phrases of a pen are on average.
struct Means {
    topic: Size,
    noun: Size,
    adjective: Size,
    condition: Size,
    verb: Size,
}

impl Means {
    fn of(pen: &Pen<'_>) -> Self {
        let mean = |list: &[&str]| Size::mean(list.iter().map(|text| Size::of(text)));
        Self {
            topic: mean(&pen.topics),
            noun: mean(NOUNS),
            adjective: mean(ADJECTIVES),
            condition: mean(CONDITIONS),
            verb: mean(VERBS),
        }
    }

    /// Of a sentence made by one of these frames.
    fn frame(&self, frames: &[&str]) -> Size {
        Size::mean(frames.iter().map(|frame| {
            let mut parts = frame.split('{');
            let mut size =
                Size { words: Size::of(frame).words, tokens: Size::of(parts.next().unwrap_or_default()).tokens };
            for part in parts {
                let (slot, text) = part.split_once('}').unwrap_or(("", part));
                let filled = match slot {
                    "noun" => self.noun,
                    "adjective" => self.adjective,
                    "condition" => self.condition,
                    _ => self.topic,
                };
                // The slot itself was one word of the frame.
                size = size + filled + Size { words: -1.0, tokens: Size::of(text).tokens };
            }
            size
        }))
    }

    fn label(&self) -> Size {
        self.adjective + self.noun
    }

    fn phrase(&self, room: f64) -> Size {
        if room < 6.0 {
            return self.label() + Size::of("for") + self.topic;
        }
        self.point()
    }

    fn point(&self) -> Size {
        self.verb + self.topic + self.condition + Size { words: 0.0, tokens: 1.0 }
    }
}

impl Pen<'_> {
    /// The introduction up to the sentence that ends it: others quote it, so it stands here as it will.
    fn expected_introduction(&self) -> String {
        let request = excerpt(&self.brief.request, 160);
        format!("{}{} takes up the request “{request}” {}.", self.mark, self.model, self.voice.manner)
    }

    /// JSON of this shape, as long as the one that would be written.
    pub(in super::super) fn expected_object(&self, shape: &Shape<'_>) -> Value {
        let means = Means::of(self);
        let sentence = means.frame(self.frames.sentences);
        let units = shape.units().max(1) as f64;
        let (mut done, mut written, mut is_first) = (0.0, 0.0, true);
        filled(shape, &mut |place, hint, room| {
            done += room.units() as f64;
            let due = (self.words as f64 * done / units).floor();
            let was_first = std::mem::take(&mut is_first);
            let begun = match (was_first, place.begins_document) {
                (true, _) => format!("{}. {} ", self.title(), self.expected_introduction()),
                (false, true) => self.mark.clone(),
                (false, false) => String::new(),
            };
            written += Size::of(&begun).words;
            let mut size = if was_first { sentence } else { Size::default() };
            let left = |size: &Size| due - written - size.words;
            if room == Room::Label || left(&size) < SENTENCE as f64 {
                if !was_first {
                    size = size + if room == Room::Label { means.label() } else { means.phrase(left(&size)) };
                }
            } else {
                if !was_first && room == Room::Passage && left(&size) >= LED as f64 {
                    let subject = if hint.trim().is_empty() { spell(place.key) } else { excerpt(hint, 80) };
                    size = size + Size::of(&format!("On “{subject}”:"));
                }
                // Sentences are added until there is no room for another one.
                let room = left(&size) - (SENTENCE as f64 - 1.0);
                size = size + sentence * (room / sentence.words).ceil().max(0.0);
            }
            written += size.words;
            begun + &size.filler()
        })
    }

    /// A Markdown document as long as the one that would be written.
    pub(in super::super) fn expected_document(&self) -> String {
        let means = Means::of(self);
        let sentence = means.frame(self.frames.sentences);
        let mut out = format!("# {}\n\n{} {}\n", self.title(), self.expected_introduction(), sentence.filler());
        if !self.brief.sources.is_empty() {
            out += &format!("\n## {}\n\n", self.voice.sources);
            let remark = means.frame(self.frames.remarks).filler();
            for source in &self.brief.sources {
                out += &format!("- The **{}** opens: “{}” {remark}\n", name(source), source.opening);
            }
        }
        out += &format!("\n## {}\n", self.voice.body);
        let enough = (self.words as f64 - LIST_AND_END as f64 - out.split_whitespace().count() as f64).max(0.0);
        // Two or three sentences, by turns.
        let paragraph = sentence * 2.5;
        let paragraphs = (enough / paragraph.words).ceil().max(2.0) as usize;
        for at in 0..paragraphs {
            if at > 0 && at % 4 == 0 {
                out += &format!("\n## On {}, further\n", means.topic.filler());
            }
            out += &format!("\n{}\n", paragraph.filler());
        }
        out += &format!("\n{}\n\n", self.voice.list);
        for _ in 0..3 {
            out += &format!("- {}\n", means.point().filler());
        }
        out + &format!("\n## Conclusion\n\n{} {}\n", self.voice.conclusion, (sentence * 2.0).filler())
    }
}
