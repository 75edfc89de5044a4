//! What memory asks of the core: chunks of a text, vectors of the simulator, the choice among found chunks. Reads no
//! table.

use crate::error::Error;
use dialectic_core::memory::ranking::{Candidate, Ranking, select};
use dialectic_core::memory::{TextConfig, chunks};
use dialectic_core::provider::simulator::embedding::embed;
use dialectic_core::tokens::{Encoding, count};
use pgrx::datum::UnboxDatum;
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

fn number(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or(i32::MAX)
}

/// The chunks of a text, numbered from 1 on; tokens are those of o200k_base.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _chunks(
    text: &str,
    chunk_tokens: i32,
    overlap_tokens: i32,
) -> TableIterator<
    'static,
    (
        name!(chunk_no, i32),
        name!(content, String),
        name!(tokens, i32),
        name!(headings, Vec<String>),
        name!(text_config, &'static str),
    ),
> {
    let limit = u64::try_from(chunk_tokens).unwrap_or(0).max(1);
    let overlap = u64::try_from(overlap_tokens).unwrap_or(0);
    let found = chunks(text, limit, overlap, &|text| count(Encoding::O200kBase, text));
    TableIterator::new(found.into_iter().enumerate().map(|(nth, chunk)| {
        (number(nth + 1), chunk.content, number(chunk.tokens), chunk.headings, chunk.text_config.as_str())
    }))
}

/// The text search configurations that chunks may have.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _text_configs() -> Vec<&'static str> {
    TextConfig::ALL.map(TextConfig::as_str).to_vec()
}

/// The vector of a text by the embedding model of the simulator.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _simulate_embedding(text: &str) -> Vec<f32> {
    embed(text)
}

/// Chooses among chunks that were found. `sql/api/search.sql` declares it, because its argument is a type of that file.
#[pg_extern(sql = false)]
fn _select_candidates(
    candidates: Array<'_, pgrx::composite_type!("dialectic._candidate")>,
    rrf_k: f64,
    mmr_lambda: f64,
    match_count: i32,
) -> Result<TableIterator<'static, (name!(position, i32), name!(score, f64))>, ErrorReport> {
    let candidates = candidates.iter().flatten().map(|row| candidate(&row)).collect::<Result<Vec<_>, Error>>()?;
    let ranking = Ranking { rrf_k, mmr_lambda, match_count: usize::try_from(match_count).unwrap_or(0) };
    let chosen = select(&candidates, ranking);
    Ok(TableIterator::new(chosen.into_iter().map(|(position, score)| (number(position + 1), score))))
}

fn candidate(row: &PgHeapTuple<'_, AllocatedByRust>) -> Result<Candidate, Error> {
    let rank = |column| attribute::<i32>(row, column).map(|rank| rank.and_then(|rank| u32::try_from(rank).ok()));
    Ok(Candidate {
        distance_rank: rank("distance_rank")?,
        text_rank: rank("text_rank")?,
        distance: attribute(row, "distance")?,
        vector: attribute::<Array<'_, f32>>(row, "vector")?.and_then(|numbers| Some(numbers.as_slice().ok()?.to_vec())),
        content: attribute(row, "content")?.unwrap_or_default(),
    })
}

fn attribute<'row, T>(row: &'row PgHeapTuple<'_, AllocatedByRust>, column: &'static str) -> Result<Option<T>, Error>
where
    T: FromDatum + IntoDatum + UnboxDatum<As<'row> = T> + 'row,
{
    row.get_by_name(column).map_err(|error| Error::Column { column, problem: error.to_string() })
}
