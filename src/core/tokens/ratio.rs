//! Decides what a count comes to for a model that has tokens of its own, and learns it from what its provider reports.
//!
//! The count in o200k_base times a factor: near for every model that is known, and high rather than low until enough
//! calls have told better. Never stores what it learned.

#[cfg(test)]
mod laws;

/// For what is not known. Llama, Qwen, DeepSeek and Mistral are up to seven percent above o200k_base on prose and
/// Markdown, nine on code; Google's own rule, four characters a token, is a fifth above it on prose, which the margin
/// covers.
const OTHERS: f64 = 1.1;
/// Claude before 4.7.
const CLAUDE: f64 = 1.15;
/// Claude from 4.7 on has a tokenizer that makes up to a third more of the same text.
const CLAUDE_4_7: f64 = 1.4;

/// What no tokenizer for text leaves; a provider that reports otherwise reports something else.
const LOWEST: f64 = 0.5;
const HIGHEST: f64 = 3.0;
/// From so many samples on a ratio is trusted, and a new sample weighs one in so many.
const TRUSTED: u32 = 20;
/// How far a ratio that is not trusted yet may be off.
const MARGIN: f64 = 1.1;
/// In a shorter prompt what a provider puts around the messages outweighs them.
const TELLING: u64 = 100;

/// How many tokens of a model are one token of o200k_base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    factor: f64,
    samples: u32,
}

impl Ratio {
    /// What a ratio starts as, by the provider's name of a model; none for the models of OpenAI, whose tokens are
    /// counted exactly.
    pub fn of(api_model: &str) -> Option<Self> {
        let name = api_model.to_ascii_lowercase();
        // A gateway puts the maker first.
        let name = name.rsplit('/').next().unwrap_or_default();
        let factor = match name.split_once("claude") {
            Some((_, version)) if is_before_4_7(version) => CLAUDE,
            Some(_) => CLAUDE_4_7,
            None if is_of_openai(name) => return None,
            None => OTHERS,
        };
        Some(Self { factor, samples: 0 })
    }

    /// A ratio as it was kept.
    pub fn new(factor: f64, samples: u32) -> Self {
        let factor = if factor.is_nan() { OTHERS } else { factor.clamp(LOWEST, HIGHEST) };
        Self { factor, samples }
    }

    /// The factor, from 0.5 to 3.
    pub fn factor(self) -> f64 {
        self.factor
    }

    /// How many calls it was learned from.
    pub fn samples(self) -> u32 {
        self.samples
    }

    /// Whether enough calls have told.
    pub fn is_trusted(self) -> bool {
        self.samples >= TRUSTED
    }

    /// What a count most likely comes to.
    pub fn estimate(self, counted: u64) -> u64 {
        times(counted, self.factor)
    }

    /// What a count comes to at the most: the estimate, and a tenth more until twenty calls have told better.
    pub fn at_most(self, counted: u64) -> u64 {
        times(counted, if self.is_trusted() { self.factor } else { self.factor * MARGIN })
    }

    /// What a count comes to that nobody should exceed: a tenth more than by the ratio, or than by the one it started
    /// as where that is more. Whoever can make a ratio learn from odd texts must not make the others cheap by it.
    pub fn worst(self, first: Self, counted: u64) -> u64 {
        times(counted, self.factor.max(first.factor) * MARGIN)
    }

    /// The ratio after a call whose messages were counted as so many tokens, the ratio not applied, and of which the
    /// provider says that so many were read. First the mean of all samples, the start being one of them; then each new
    /// one weighs a twentieth. A short prompt and a report of nothing tell nothing.
    #[must_use]
    pub fn learn(self, counted: u64, actual: u64) -> Self {
        if counted < TELLING || actual == 0 {
            return self;
        }
        let sample = (actual as f64 / counted as f64).clamp(LOWEST, HIGHEST);
        let weight = 1.0 / f64::from(self.samples.saturating_add(2).min(TRUSTED));
        Self::new(self.factor + (sample - self.factor) * weight, self.samples.saturating_add(1))
    }
}

/// Rounded up; a product beyond all counts is the largest of them.
fn times(counted: u64, factor: f64) -> u64 {
    (counted as f64 * factor).ceil() as u64
}

/// Whether the numbers in the rest of Claude's name are a version before 4.7; a longer number is a date. A name without
/// any is taken for a new one: that is the higher estimate.
fn is_before_4_7(version: &str) -> bool {
    let numbers = version.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| part.len() <= 2);
    let mut numbers = numbers.filter_map(|part| part.parse::<u8>().ok());
    numbers.next().is_some_and(|major| (major, numbers.next().unwrap_or(0)) < (4, 7))
}

/// Whether a model counts in an encoding of OpenAI; not so the models of others that call themselves GPT.
fn is_of_openai(name: &str) -> bool {
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let begins_with_digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let is_gpt = |rest: &str| begins_with_digit(rest) || rest.starts_with("oss");
    let is_reasoning = |rest: &str| matches!(rest.as_bytes(), [b'1'..=b'9'] | [b'1'..=b'9', b'-', ..]);
    name.strip_prefix("gpt-").is_some_and(is_gpt)
        || name.strip_prefix('o').is_some_and(is_reasoning)
        || ["chatgpt-", "codex-", "text-embedding-3-", "text-embedding-ada-"]
            .iter()
            .any(|start| name.starts_with(start))
}
