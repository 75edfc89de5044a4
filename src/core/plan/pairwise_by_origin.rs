//! `pairwise_by_origin`: one job for each original and each critique of it.
//!
//! A critique belongs to the original of its lineage; one without a lineage speaks of them all. The other inputs are
//! joined by the original's lineage and the critique's reviewer, so a pair never reads another reviewer's words.

use super::candidates::{Candidates, missing};
use super::children::{Children, Descent};
use super::{PlanError, Source};
use crate::id::Id;

pub(super) fn plan(found: &Candidates<'_>, children: &mut Children<'_>) -> Result<(), PlanError> {
    let step = found.step;
    let (Some(original), Some(critique)) = (step.original_input(), step.critique_input()) else {
        return Err(PlanError {
            step: step.key.clone(),
            input: "inputs_required".to_owned(),
            message: "there is no original and critique among the inputs".to_owned(),
        });
    };
    for &first in found.all(original) {
        let lineage = first.lineage_id.as_ref();
        let critiques = critiques(found, critique, lineage);
        let asked = &step.inputs_required[critique];
        if asked.required && critiques.is_empty() {
            let message = format!("nothing criticises {}", first.id);
            return Err(missing(step, asked, &message));
        }
        for second in critiques {
            // Where one critique covers all originals it has no reviewer; its writer is the one who reviewed.
            let reviewer = second.reviewer.as_deref().or(second.model.as_deref());
            let pair = [(original, vec![first]), (critique, vec![second])];
            let chosen = found.joined(&pair, lineage, reviewer);
            let group = format!("{}:{}", first.id, second.id);
            children.add(group, &chosen, Descent { lineage, reviewer })?;
        }
    }
    Ok(())
}

fn critiques<'a>(found: &Candidates<'a>, input: usize, lineage: Option<&Id>) -> Vec<&'a Source> {
    let mut critiques = found.of_lineage(input, None);
    if lineage.is_some() {
        critiques.extend(found.of_lineage(input, lineage));
    }
    critiques
}
