//! `per_source_document`: one job for each artifact of the leading input.
//!
//! The other inputs are joined to that artifact by lineage and reviewer, never multiplied with it: a critique reads the
//! thesis its header reviews, not the latest of any model.

use super::PlanError;
use super::candidates::Candidates;
use super::children::{Children, Descent};

pub(super) fn plan(found: &Candidates<'_>, children: &mut Children<'_>) -> Result<(), PlanError> {
    let Some(&leading) = found.fanning()?.first() else {
        return Ok(());
    };
    for &source in found.all(leading) {
        let lineage = source.lineage_id.as_ref();
        let reviewer = source.reviewer.as_deref();
        let chosen = found.joined(&[(leading, vec![source])], lineage, reviewer);
        let descent = Descent { lineage, reviewer: None };
        children.add(source.id.as_str().to_owned(), &chosen, descent)?;
    }
    Ok(())
}
