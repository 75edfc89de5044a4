//! `per_source_document_by_lineage`: one job for each lineage, with all documents of that lineage.
//!
//! Lineages are gathered over every input to fan out over; documents without one go to each job. When no document has a
//! lineage there is one job for all of them. Never splits a lineage by reviewer.

use std::collections::BTreeSet;

use super::PlanError;
use super::candidates::Candidates;
use super::children::{Children, Descent};
use crate::id::Id;

pub(super) fn plan(found: &Candidates<'_>, children: &mut Children<'_>) -> Result<(), PlanError> {
    let mut lineages: BTreeSet<Option<&Id>> = BTreeSet::new();
    for input in found.fanning()? {
        lineages.extend(found.lineages(input));
    }
    if lineages.len() > 1 {
        lineages.remove(&None);
    }
    for lineage in lineages {
        let descent = Descent { lineage, reviewer: None };
        let group = lineage.map_or("none", Id::as_str).to_owned();
        children.add(group, &found.joined(&[], lineage, None), descent)?;
    }
    Ok(())
}
