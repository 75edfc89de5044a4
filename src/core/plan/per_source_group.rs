//! `per_source_group`: one job for each group of the leading input's artifacts that share a lineage.
//!
//! The other inputs are joined by lineage. Artifacts without a lineage form a group of their own and are not added to
//! the other groups, so every artifact of the leading input is read exactly once.

use super::PlanError;
use super::candidates::Candidates;
use super::children::{Children, Descent};
use crate::id::Id;

pub(super) fn plan(found: &Candidates<'_>, children: &mut Children<'_>) -> Result<(), PlanError> {
    let Some(&leading) = found.fanning()?.first() else {
        return Ok(());
    };
    for lineage in found.lineages(leading) {
        let group = found.of_lineage(leading, lineage);
        let chosen = found.joined(&[(leading, group)], lineage, None);
        let descent = Descent { lineage, reviewer: None };
        children.add(lineage.map_or("none", Id::as_str).to_owned(), &chosen, descent)?;
    }
    Ok(())
}
