//! From the artifacts chosen for a job to its specification.
//!
//! Decides the lineage a job continues, starts or merges away, and whose view of it the job carries. Refuses a job that
//! lacks a required input, and a step that grows beyond any use. Never looks for further artifacts.

use std::collections::BTreeSet;

use super::candidates::missing;
use super::{Child, ChildInput, MAX_LINKS, PlanError, Source};
use crate::id::Id;
use crate::recipe::{Step, Strategy};

/// The children of one step for one model, as they are planned.
pub(super) struct Children<'a> {
    step: &'a Step,
    stage: Option<&'a str>,
    model: &'a str,
    list: Vec<Child>,
    links: usize,
}

/// What a strategy knows of a job's descent; what it leaves open follows from the inputs.
#[derive(Clone, Copy, Default)]
pub(super) struct Descent<'a> {
    pub(super) lineage: Option<&'a Id>,
    pub(super) reviewer: Option<&'a str>,
}

impl<'a> Children<'a> {
    pub(super) fn new(step: &'a Step, stage: Option<&'a str>, model: &'a str) -> Children<'a> {
        Children { step, stage, model, list: Vec::new(), links: 0 }
    }

    pub(super) fn into_list(self) -> Vec<Child> {
        self.list
    }

    /// Adds the job that reads `chosen`, a list for each input of the step.
    pub(super) fn add(
        &mut self,
        group_key: String,
        chosen: &[Vec<&Source>],
        descent: Descent<'_>,
    ) -> Result<(), PlanError> {
        let mut inputs = Vec::new();
        let mut related = Vec::new();
        for ((input, sources), number) in self.step.inputs_required.iter().zip(chosen).zip(1..) {
            if input.required && sources.is_empty() {
                let message = format!("nothing of it belongs to group {group_key}");
                return Err(missing(self.step, input, &message));
            }
            inputs.extend(sources.iter().map(|source| ChildInput {
                artifact: match (&input.part, &source.json_id) {
                    (Some(_), Some(json)) => json.clone(),
                    _ => source.id.clone(),
                },
                role: input.role().to_owned(),
                part: input.part.clone(),
                relevance: input.relevance,
                retrieval: input.retrieve.as_ref().map(|_| number),
            }));
            // The iteration before had other lineages; reading it is no descent.
            if !input.previous_iteration {
                related.extend(sources.iter().copied());
            }
        }
        self.links += inputs.len() + 1;
        if self.links > MAX_LINKS {
            return Err(too_many(self.step));
        }
        let lineages: BTreeSet<&Id> = related.iter().filter_map(|source| source.lineage_id.as_ref()).collect();
        let lineage = descent.lineage.or_else(|| only(&lineages));
        self.list.push(Child {
            step_key: self.step.key.clone(),
            model: self.model.to_owned(),
            group_key,
            lineage_id: lineage.cloned(),
            starts_lineage: lineage.is_none() && lineages.is_empty(),
            reviewer: lineage.and_then(|_| self.reviewer(&related, descent.reviewer)),
            inputs,
        });
        Ok(())
    }

    /// The one reviewer the inputs speak for; a model that turns to another stage's lineage becomes its reviewer. A job
    /// for everything carries nobody's view, even where everything is a single lineage.
    fn reviewer(&self, related: &[&Source], known: Option<&str>) -> Option<String> {
        if matches!(self.step.granularity_strategy, Strategy::AllToOne | Strategy::PerModel) {
            return None;
        }
        let named = related.iter().filter_map(|source| source.reviewer.as_deref());
        let reviewers: BTreeSet<&str> = named.chain(known).collect();
        if !reviewers.is_empty() {
            return only(&reviewers).map(str::to_owned);
        }
        let comes_from_elsewhere =
            |source: &&Source| source.lineage_id.is_some() && source.stage.as_deref().or(self.stage) != self.stage;
        related.iter().any(comes_from_elsewhere).then(|| self.model.to_owned())
    }
}

pub(super) fn too_many(step: &Step) -> PlanError {
    PlanError {
        step: step.key.clone(),
        input: "inputs_required".to_owned(),
        message: format!("the plan would give its jobs more than {MAX_LINKS} artifacts"),
    }
}

fn only<'s, T: Ord + ?Sized>(set: &BTreeSet<&'s T>) -> Option<&'s T> {
    if set.len() == 1 { set.first().copied() } else { None }
}
