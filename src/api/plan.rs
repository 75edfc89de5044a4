//! Planning for SQL: a plan job, and a recipe that is only looked at.

use super::{decode, encode};
use crate::error::Error;
use crate::store;
use crate::store::claim::Claim;
use crate::store::plan::Planned;
use dialectic_core::plan::{self, Source};
use dialectic_core::provider::storable;
use dialectic_core::recipe::Recipe;
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Plans one claimed plan job, whose session is locked; returns where it goes, or stale.
#[pg_extern(volatile)]
pub(crate) fn _plan_job(job: pgrx::Uuid, claim_id: i64) -> Result<&'static str, ErrorReport> {
    let Some(claim) = store::claim::of_job(job)?.filter(|claim| claim.id == claim_id) else { return Ok("stale") };
    let planned = with_seed(claim, store::plan::plan_jobs(&[claim])?)?;
    let status = planned.outcomes.first().map_or("stale", |outcome| outcome.status.as_str());
    match planned.store()?.unplannable.into_iter().next() {
        Some((_, problem)) => Err(problem.into()),
        None => Ok(status),
    }
}

/// Renders and stores the seed prompt that a plan lacks, and plans it again. A template that fails fails the plan.
fn with_seed(claim: Claim, mut planned: Planned) -> Result<Planned, Error> {
    let Some(seedless) = planned.seedless.pop() else { return Ok(planned) };
    match seedless.source.render() {
        Ok(seed) => {
            store::plan::store_seeds(&[(&claim, &storable(seed))])?;
            store::plan::plan_jobs(&[claim])
        }
        Err(problem) => Ok(Planned::failed(claim.job, problem.to_string())),
    }
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
