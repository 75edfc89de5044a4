//! `all_to_one` and `per_model`: one job for everything.
//!
//! The two differ in whose artifacts their inputs mean when a recipe does not say, which is settled when the recipe is
//! read; here they are the same. Never splits by lineage: a job that reads several merges them.

use super::PlanError;
use super::candidates::Candidates;
use super::children::{Children, Descent};

pub(super) fn plan(found: &Candidates<'_>, children: &mut Children<'_>) -> Result<(), PlanError> {
    children.add("all".to_owned(), &found.everything(), Descent::default())
}
