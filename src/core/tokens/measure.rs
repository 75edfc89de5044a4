//! Decides how the tokens of one model are counted: in which encoding, and what a count comes to.
//!
//! Never knows what was counted before: what a ratio has learned is given.

use super::{Encoding, Ratio, count, count_messages};
use crate::prompt::Message;

/// Of so many calls one tells a ratio that is trusted whether it still holds.
const SELDOM: u64 = 16;

/// How the tokens of a model are counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measure {
    encoding: Encoding,
    /// None where the count itself is exact.
    ratio: Option<Ratio>,
    /// What it started as.
    first: Option<Ratio>,
}

impl Measure {
    /// By the tokenizer of a model, its provider's name for it, and what was learned of it. A tokenizer that nobody
    /// knows is taken for the usual one.
    pub fn new(tokenizer: &str, api_model: &str, learned: Option<Ratio>) -> Self {
        let encoding = tokenizer.parse().unwrap_or(Encoding::O200kBase);
        let first = match encoding {
            Encoding::Simulator => None,
            Encoding::O200kBase | Encoding::Cl100kBase => Ratio::of(api_model),
        };
        Self { encoding, ratio: first.map(|first| learned.unwrap_or(first)), first }
    }

    /// The same with what was learned since, where that is more.
    #[must_use]
    pub fn with(self, learned: Option<Ratio>) -> Self {
        let is_newer = |new: &Ratio| self.ratio.is_some_and(|old| old.samples() < new.samples());
        Self { ratio: learned.filter(is_newer).or(self.ratio), ..self }
    }

    /// The ratio, where there is one.
    pub fn ratio(&self) -> Option<Ratio> {
        self.ratio
    }

    /// Whether the call of this number should be counted, so that the ratio learns from it.
    pub fn learns_from(&self, number: u64) -> bool {
        self.ratio.is_some_and(|ratio| !ratio.is_trusted() || number.is_multiple_of(SELDOM))
    }

    /// The tokens of a text, as near as is known.
    pub fn text(&self, text: &str) -> u64 {
        self.estimate(count(self.encoding, text))
    }

    /// The tokens of a text in the encoding, before any ratio.
    pub fn counted_text(&self, text: &str) -> u64 {
        count(self.encoding, text)
    }

    /// The tokens of messages, as near as is known.
    pub fn messages(&self, messages: &[Message]) -> u64 {
        self.estimate(self.counted(messages))
    }

    /// The tokens of messages in the encoding, before any ratio.
    pub fn counted(&self, messages: &[Message]) -> u64 {
        count_messages(self.encoding, messages)
    }

    /// What a count comes to at the most.
    pub fn at_most(&self, counted: u64) -> u64 {
        self.ratio.map_or(counted, |ratio| ratio.at_most(counted))
    }

    /// What a count comes to that a call is paid for beforehand.
    pub fn worst(&self, counted: u64) -> u64 {
        self.ratio.zip(self.first).map_or(counted, |(ratio, first)| ratio.worst(first, counted))
    }

    /// What so many tokens, which are a count at the most, most likely are.
    pub fn likely(&self, at_most: u64) -> u64 {
        const MANY: u64 = 1_000_000;
        (at_most as f64 * self.estimate(MANY) as f64 / self.at_most(MANY).max(1) as f64) as u64
    }

    /// What a count most likely comes to.
    pub fn estimate(&self, counted: u64) -> u64 {
        self.ratio.map_or(counted, |ratio| ratio.estimate(counted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::Role;

    fn said(text: &str) -> Vec<Message> {
        vec![Message { role: Role::User, content: text.to_owned() }]
    }

    #[test]
    fn a_model_of_openai_and_the_simulator_are_counted_as_they_count() {
        for (tokenizer, name, text) in
            [("o200k_base", "gpt-5-nano", 2), ("cl100k_base", "gpt-4", 2), ("simulator", "x", 2)]
        {
            let measure = Measure::new(tokenizer, name, Some(Ratio::new(2.0, 30)));
            assert_eq!((measure.text("hello world"), measure.ratio()), (text, None), "{tokenizer}");
            assert_eq!(measure.messages(&said("hello world")), measure.at_most(measure.counted(&said("hello world"))));
            assert!(!measure.learns_from(0));
        }
    }

    #[test]
    fn another_model_is_counted_by_its_ratio_and_learns_until_it_is_trusted_and_then_seldom() {
        let measure = Measure::new("o200k_base", "claude-haiku-4-5", None);
        let text = "word ".repeat(100);
        assert!(measure.text(&text) > 110 && measure.at_most(100) > measure.estimate(100));
        assert!((0..SELDOM).all(|number| measure.learns_from(number)));
        let learned = measure.with(Some(Ratio::new(2.0, 20)));
        assert_eq!(learned.text(&text), 2 * count(Encoding::O200kBase, &text));
        assert_eq!((0..32).filter(|number| learned.learns_from(*number)).count(), 2);
        assert_eq!(learned.with(Some(Ratio::new(1.0, 3))), learned, "what was learned from fewer calls");
        assert_eq!(Measure::new("o200k_base", "claude-haiku-4-5", Some(Ratio::new(2.0, 20))), learned);
    }

    #[test]
    fn a_tokenizer_that_nobody_knows_is_taken_for_the_usual_one() {
        assert_eq!(Measure::new("sentencepiece", "gpt-5", None), Measure::new("o200k_base", "gpt-5", None));
    }
}
