//! What a session will do, for SQL.

use super::decode;
use crate::error::Error;
use crate::store::definition::definition;
use dialectic_core::explain::{Given, Ground, Model, Past, Took, explain, forecast, plan_stages};
use dialectic_core::plan::Source;
use dialectic_core::recipe::Recipe;
use dialectic_core::render::body;
use dialectic_core::tokens::{Measure, Ratio};
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What an estimate stands on, as `_explain_facts` gathers it.
#[derive(Deserialize)]
struct Facts {
    iteration: i32,
    safety: f64,
    ratio: f64,
    request: Option<String>,
    models: Vec<Asked>,
    limits: BTreeMap<String, u64>,
    continuations: BTreeMap<String, u64>,
    sources: Vec<There>,
    past: Vec<Before>,
}

/// A model; one that is gone has nothing but its name.
#[derive(Deserialize)]
struct Asked {
    name: String,
    api: Option<String>,
    api_model: Option<String>,
    settings: Value,
    tokenizer: Option<String>,
    factor: Option<f64>,
    samples: Option<u32>,
    context_window: Option<u64>,
    max_output_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct There {
    #[serde(flatten)]
    source: Source,
    name: Option<String>,
    content: String,
    #[serde(default)]
    is_headed: bool,
}

#[derive(Deserialize)]
struct Before {
    stage: String,
    step_key: String,
    model: String,
    is_own: bool,
    output_tokens: f64,
    reasoning_tokens: f64,
    by_texts: Option<Vec<(usize, f64, f64)>>,
    scale: f64,
    text: String,
    json: Option<String>,
    is_headed: bool,
}

/// What a model is taken for whose limits are not known any more.
const UNKNOWN_WINDOW: u64 = 128_000;
const UNKNOWN_OUTPUT: u64 = 4_096;

impl From<Asked> for Model {
    fn from(asked: Asked) -> Model {
        let learned = asked.factor.map(|factor| Ratio::new(factor, asked.samples.unwrap_or(0)));
        let api_model = asked.api_model.as_deref().unwrap_or(&asked.name);
        Model {
            measure: Measure::new(asked.tokenizer.as_deref().unwrap_or_default(), api_model, learned),
            name: asked.name,
            api: asked.api.unwrap_or_default(),
            settings: asked.settings,
            context_window: asked.context_window.unwrap_or(UNKNOWN_WINDOW),
            max_output_tokens: asked.max_output_tokens.unwrap_or(UNKNOWN_OUTPUT),
        }
    }
}

impl From<Before> for Past {
    fn from(before: Before) -> Past {
        Past {
            stage: before.stage,
            step_key: before.step_key,
            model: before.model,
            is_own: before.is_own,
            took: Took { output: before.output_tokens, reasoning: before.reasoning_tokens },
            by_texts: before
                .by_texts
                .into_iter()
                .flatten()
                .map(|(texts, output, reasoning)| (texts, Took { output, reasoning }))
                .collect(),
            text: if before.is_headed { body(&before.text).to_owned() } else { before.text },
            json: before.json,
            scale: before.scale,
        }
    }
}

/// The steps of a definition, in the order they run, with the calls each becomes on these facts, and for each model
/// their tokens.
#[pg_extern(stable)]
#[allow(clippy::type_complexity)] // a row, a column each
pub(crate) fn _explain(
    definition_id: &str,
    facts: JsonB,
) -> Result<
    TableIterator<
        'static,
        (
            name!(stage, String),
            name!(step_key, String),
            name!(name, String),
            name!(granularity_strategy, &'static str),
            name!(calls, i64),
            name!(documents, i64),
            name!(inputs, i64),
            name!(tier, i32),
            name!(models, Vec<String>),
            name!(model_calls, Vec<i64>),
            name!(input_tokens, Vec<i64>),
            name!(output_tokens, Vec<i64>),
            name!(reasoning_tokens, Vec<i64>),
            name!(most_input_tokens, Vec<i64>),
            name!(most_output_tokens, Vec<i64>),
        ),
    >,
    ErrorReport,
> {
    let definition = definition(definition_id)?;
    let facts: Facts = decode("facts", facts)?;
    let stages: Vec<(&str, &Recipe)> =
        definition.stages.iter().map(|stage| (stage.slug.as_str(), &stage.recipe)).collect();
    let models: Vec<String> = facts.models.iter().map(|model| model.name.clone()).collect();
    let sources: Vec<Source> = facts.sources.iter().map(|there| there.source.clone()).collect();
    let given = |there: There| {
        let content = if there.is_headed { body(&there.content).to_owned() } else { there.content };
        Given { id: there.source.id, name: there.name, content }
    };
    let ground = Ground {
        definition: &definition,
        iteration: facts.iteration,
        request: facts.request.unwrap_or_default().into(),
        given: facts.sources.into_iter().map(given).collect(),
        models: facts.models.into_iter().map(Model::from).collect(),
        limits: facts.limits,
        continuations: facts.continuations,
        safety: facts.safety,
        ratio: facts.ratio,
        past: facts.past.into_iter().map(Past::from).collect(),
    };
    let plans = plan_stages(&stages, &models, &sources).map_err(Error::from)?;
    let tokens = forecast(&plans, &ground);
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let rows = explain(&plans).into_iter().map(|one| {
        let by_model = models.iter().map(|model| {
            let of_step = tokens.get(&(one.stage.as_str(), one.step_key.as_str(), model.as_str()));
            of_step.cloned().unwrap_or_default()
        });
        let by_model: Vec<_> = by_model.collect();
        let strategy = one.strategy.as_str();
        let tier = by_model.iter().map(|tokens| tokens.tier).max().unwrap_or_default() as i32;
        (
            (one.stage, one.step_key, one.name, strategy),
            (count(one.calls), count(one.documents), count(one.inputs), tier),
            models.clone(),
            by_model
                .iter()
                .map(|t| [t.calls, t.input, t.output, t.reasoning, t.most_input, t.most_output].map(number))
                .collect::<Vec<_>>(),
        )
    });
    let rows: Vec<_> = rows
        .map(|((stage, step_key, name, strategy), (calls, documents, inputs, tier), models, tokens)| {
            let column = |at: usize| tokens.iter().map(|of_model| of_model[at]).collect::<Vec<i64>>();
            (
                stage,
                step_key,
                name,
                strategy,
                calls,
                documents,
                inputs,
                tier,
                models,
                column(0),
                column(1),
                column(2),
                column(3),
                column(4),
                column(5),
            )
        })
        .collect();
    Ok(TableIterator::new(rows))
}
