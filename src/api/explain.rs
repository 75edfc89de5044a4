//! What a session will do, for SQL.

use super::decode;
use crate::error::Error;
use crate::store::definition::definition;
use dialectic_core::explain::explain;
use dialectic_core::plan::Source;
use dialectic_core::recipe::Recipe;
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// The steps of a definition, in the order they run, with the calls each becomes for these models over these sources.
#[pg_extern(stable)]
#[allow(clippy::type_complexity)] // a row, a column each
pub(crate) fn _explain(
    definition_id: &str,
    models: Vec<String>,
    sources: JsonB,
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
        ),
    >,
    ErrorReport,
> {
    let definition = definition(definition_id)?;
    let sources: Vec<Source> = decode("sources", sources)?;
    let stages: Vec<(&str, &Recipe)> =
        definition.stages.iter().map(|stage| (stage.slug.as_str(), &stage.recipe)).collect();
    let estimates = explain(&stages, &models, &sources).map_err(Error::from)?;
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let rows: Vec<_> = estimates
        .into_iter()
        .map(|one| {
            let strategy = one.strategy.as_str();
            (one.stage, one.step_key, one.name, strategy, count(one.calls), count(one.documents), count(one.inputs))
        })
        .collect();
    Ok(TableIterator::new(rows))
}
