//! Planning for SQL: which steps are ready, and what jobs a step becomes.

use super::{decode, encode};
use crate::error::Error;
use dialectic_core::plan::{self, Source};
use dialectic_core::readiness::{self, Progress};
use dialectic_core::recipe::Recipe;
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Which steps of a stage a model may begin now, and where its plan job goes when they are planned.
#[pg_extern(immutable, parallel_safe)]
fn _ready_steps(recipe: JsonB, model: &str, progress: JsonB, min_models: i32) -> Result<JsonB, ErrorReport> {
    let recipe = Recipe::parse(&recipe.0).map_err(Error::from)?;
    let progress: Vec<Progress> = decode("progress", progress)?;
    let least = usize::try_from(min_models).unwrap_or(1);
    Ok(encode("decision", &readiness::decide(&recipe, model, &progress, least).map_err(Error::from)?)?)
}

/// The jobs that one step becomes for one model.
#[pg_extern(immutable, parallel_safe)]
fn _plan_step(recipe: JsonB, step_key: &str, stage: &str, model: &str, sources: JsonB) -> Result<JsonB, ErrorReport> {
    let recipe = Recipe::parse(&recipe.0).map_err(Error::from)?;
    let sources: Vec<Source> = decode("sources", sources)?;
    let step = recipe
        .steps
        .iter()
        .find(|step| step.key == step_key)
        .ok_or_else(|| Error::Unknown { argument: "step", value: step_key.to_owned() })?;
    let children = plan::plan_step(step, Some(stage), &sources, model).map_err(Error::from)?;
    Ok(encode("children", &children)?)
}

/// The jobs that a whole recipe becomes over these sources and models.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _plan_recipe(
    recipe: JsonB,
    stage: Option<&str>,
    sources: JsonB,
    models: Vec<String>,
) -> Result<JsonB, ErrorReport> {
    let mut value = recipe.0;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("stage");
    }
    let recipe = Recipe::parse(&value).map_err(Error::from)?;
    let sources: Vec<Source> = decode("sources", sources)?;
    let children = plan::plan(&recipe, stage, &sources, &models).map_err(Error::from)?;
    Ok(encode("children", &children)?)
}
