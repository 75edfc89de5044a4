//! Recipes for SQL: checking one, and what it produces.

use super::{decode, encode};
use crate::error::Error;
use dialectic_core::recipe::{Context, Output, Recipe};
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// The recipe with its defaults filled in, or an error that lists every problem. `upstream` holds the outputs of the
/// stages before it; null leaves inputs from other stages unchecked.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _check_recipe(
    recipe: Option<JsonB>,
    stage: Option<String>,
    upstream: Option<JsonB>,
    templates: Vec<String>,
) -> Result<JsonB, ErrorReport> {
    let value = recipe.map_or(serde_json::Value::Null, |json| json.0);
    let upstream: Option<Vec<Output>> = upstream.map(|json| decode("upstream", json)).transpose()?;
    let mut parsed = Recipe::parse(&value).map_err(Error::from)?;
    if let Some(stage) = &stage {
        parsed = parsed.at_stage(stage);
    }
    let context = Context { templates: Some(templates.into_iter().collect()), upstream, stage };
    parsed.validate(&context).map_err(Error::from)?;
    Ok(JsonB(parsed.to_value()))
}

/// What a stage with this recipe produces, for the checks of the stages after it.
#[pg_extern(immutable, parallel_safe)]
fn _recipe_outputs(recipe: JsonB, stage: &str) -> Result<JsonB, ErrorReport> {
    let parsed = Recipe::parse(&recipe.0).map_err(Error::from)?;
    Ok(encode("outputs", &parsed.outputs(stage))?)
}

/// The recipe with the steps that a setting holds together (false in `settings`) made into one call each.
#[pg_extern(immutable, parallel_safe)]
fn _isolate_recipe(recipe: JsonB, settings: JsonB) -> Result<JsonB, ErrorReport> {
    let parsed = Recipe::parse(&recipe.0).map_err(Error::from)?;
    let isolated = parsed.with_isolation(|key| settings.0.get(key).and_then(serde_json::Value::as_bool) != Some(false));
    Ok(JsonB(isolated.to_value()))
}
