//! The texts that calls read: those that are there, and those that stand in for others that will be. Decides how many
//! tokens each comes to for a model, counting it once for all who count alike.
//!
//! Never decides who reads what.

use super::mark::glimpse;
use crate::tokens::Measure;
use std::collections::HashMap;

/// Bytes of a text that stand in a prompt for all of it.
const GLIMPSE: usize = 512;
/// Bytes of the request that do: what it is about is told by its words.
const REQUEST: usize = 4096;

/// A text, or one in its place.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) content: String,
    /// Its first words.
    pub(super) glimpse: String,
    /// How much longer the real one is than this.
    scale: f64,
    /// The most tokens it can have, where it is not there yet.
    pub(super) most: Option<u64>,
}

/// Texts by number.
#[derive(Debug)]
pub(super) struct Library {
    texts: Vec<Text>,
    /// The measures there are, and by text and measure what was counted.
    measures: Vec<Measure>,
    counts: HashMap<(usize, usize), u64>,
}

impl Library {
    /// Nothing but the request, which is the first text.
    pub(super) fn new(request: &str) -> Self {
        let request = Text { content: request.to_owned(), glimpse: glimpse(request, REQUEST), scale: 1.0, most: None };
        Self { texts: vec![request], measures: Vec::new(), counts: HashMap::new() }
    }

    /// The request.
    pub(super) const REQUEST: usize = 0;

    /// Adds a text that is there.
    pub(super) fn add(&mut self, content: String) -> usize {
        self.put(content, 1.0, None)
    }

    /// Adds a text in the place of another that will be so much longer and has so many tokens at the most.
    pub(super) fn put(&mut self, content: String, scale: f64, most: Option<u64>) -> usize {
        let glimpse = glimpse(&content, GLIMPSE);
        self.texts.push(Text { content, glimpse, scale, most });
        self.texts.len() - 1
    }

    /// A text.
    pub(super) fn text(&self, number: usize) -> &Text {
        &self.texts[number]
    }

    /// The tokens of a text in the encoding of a measure, before any ratio.
    pub(super) fn counted(&mut self, number: usize, measure: &Measure) -> u64 {
        let scale = self.texts[number].scale;
        (self.counted_as_it_is(number, measure) as f64 * scale).round() as u64
    }

    /// The same of the text that stands in its place.
    pub(super) fn counted_as_it_is(&mut self, number: usize, measure: &Measure) -> u64 {
        let alike = match self.measures.iter().position(|known| known == measure) {
            Some(alike) => alike,
            None => {
                self.measures.push(*measure);
                self.measures.len() - 1
            }
        };
        let text = &self.texts[number];
        *self.counts.entry((number, alike)).or_insert_with(|| measure.counted_text(&text.content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_counts_as_the_model_counts_it_and_as_long_as_it_will_be() {
        let mut library = Library::new("What is to be done?");
        let (simulator, other) = (Measure::new("simulator", "s", None), Measure::new("o200k_base", "gpt-5", None));
        let long = "internationalisation ".repeat(50);
        let there = library.add(long.clone());
        let twice = library.put(long.clone(), 2.0, Some(9));
        for measure in [simulator, other] {
            assert_eq!(library.counted(there, &measure), measure.text(&long));
            assert_eq!(library.counted(twice, &measure), 2 * measure.text(&long));
        }
        assert_ne!(library.counted(there, &simulator), library.counted(there, &other));
        assert_eq!((library.text(there).most, library.text(twice).most), (None, Some(9)));
        assert!(library.text(there).glimpse.len() <= GLIMPSE && long.starts_with(&library.text(there).glimpse));
    }
}
