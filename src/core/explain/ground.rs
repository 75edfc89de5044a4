//! What an estimate stands on and what it comes to, as values. Decides nothing.

use crate::definition::Definition;
use crate::id::Id;
use crate::tokens::Measure;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A model as far as tokens depend on it.
#[derive(Debug, Clone)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// The wire format of its provider.
    pub api: String,
    /// Its settings.
    pub settings: Value,
    /// How its tokens are counted.
    pub measure: Measure,
    /// The most tokens it reads.
    pub context_window: u64,
    /// The most tokens it writes.
    pub max_output_tokens: u64,
}

/// A text that is there.
#[derive(Debug, Clone)]
pub struct Given {
    /// The id that plans know it by.
    pub id: Id,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The text.
    pub content: String,
}

/// What a step by a model came to before.
#[derive(Debug, Clone)]
pub struct Past {
    /// The stage.
    pub stage: String,
    /// The step.
    pub step_key: String,
    /// The model.
    pub model: String,
    /// Whether it is what this session made, in a stage that is complete: then it is what later stages read.
    pub is_own: bool,
    /// What an answer took.
    pub took: Took,
    /// The same of those that read as many texts; none where that was not kept.
    pub by_texts: Vec<(usize, Took)>,
    /// One of the texts as others read it.
    pub text: String,
    /// The JSON it was rendered from.
    pub json: Option<String>,
    /// How much longer they were than this one, on average.
    pub scale: f64,
}

/// What answers took on average, in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Took {
    /// Written, those only thought included.
    pub output: f64,
    /// Only thought.
    pub reasoning: f64,
}

impl Past {
    /// What an answer took that read so many texts, or as nearly as many as there was one.
    pub fn took(&self, texts: usize) -> Took {
        let nearest = self.by_texts.iter().min_by_key(|(number, _)| number.abs_diff(texts));
        nearest.map_or(self.took, |(_, took)| *took)
    }

    /// How much longer its text was than the one that is kept.
    pub fn scale(&self, texts: usize) -> f64 {
        let average = self.took.output;
        if average > 0.0 { self.scale * self.took(texts).output / average } else { self.scale }
    }
}

/// What an estimate stands on.
#[derive(Debug)]
pub struct Ground<'a> {
    /// The process.
    pub definition: &'a Definition,
    /// The iteration that is asked about.
    pub iteration: i32,
    /// What the user asked for.
    pub request: Arc<str>,
    /// The texts that are there.
    pub given: Vec<Given>,
    /// The models that are asked.
    pub models: Vec<Model>,
    /// The longest answers that stages want, where they want any.
    pub limits: BTreeMap<String, u64>,
    /// How often an answer that was cut off is gone on with, by stage.
    pub continuations: BTreeMap<String, u64>,
    /// The part of a window that may be filled.
    pub safety: f64,
    /// By how many windows a prompt may exceed its limit and still be condensed.
    pub ratio: f64,
    /// What there was before.
    pub past: Vec<Past>,
}

/// The tokens of all calls of a step by a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    /// The calls, those that go on with an answer included.
    pub calls: u64,
    /// Read.
    pub input: u64,
    /// Written, those only thought included.
    pub output: u64,
    /// Only thought.
    pub reasoning: u64,
    /// Read at the most: every text of an earlier step as long as it may be, as far as the window lets it in.
    pub most_input: u64,
    /// Written at the most.
    pub most_output: u64,
    /// How the prompt that fits worst is made to fit.
    pub tier: Tier,
}

/// How a prompt is made to fit the window of its model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// It fits.
    #[default]
    Fits = 1,
    /// Some of its texts are condensed first.
    Condensed = 2,
    /// Passages of its texts would be sent; its call fails as long as there is no retrieval.
    Retrieved = 3,
    /// Nothing helps: its call will fail.
    TooLarge = 4,
}
