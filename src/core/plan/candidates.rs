//! Which artifacts each input of a step could mean, and which of them belong together.
//!
//! Decides matching (type, document, stage, iteration, model) and joining (lineage and reviewer). Sorts what it finds,
//! so that nothing after it depends on the order artifacts came in, and indexes it, so that a join costs what it
//! returns. Never picks one of several.

use std::collections::BTreeMap;

use super::{PlanError, Source};
use crate::id::Id;
use crate::recipe::{FromModels, INITIAL_USER_PROMPT, Input, Origin, Step};

/// The artifacts of one input by lineage and reviewer, as positions in its sorted list.
type Index<'a> = BTreeMap<Option<&'a Id>, BTreeMap<Option<&'a str>, Vec<usize>>>;

pub(super) struct Candidates<'a> {
    pub(super) step: &'a Step,
    lists: Vec<Vec<&'a Source>>,
    indexes: Vec<Index<'a>>,
}

impl<'a> Candidates<'a> {
    /// What there is for each input; a required input with nothing is an error.
    pub(super) fn find(
        step: &'a Step,
        stage: Option<&str>,
        sources: &'a [Source],
        model: &str,
    ) -> Result<Candidates<'a>, PlanError> {
        let mut lists = Vec::with_capacity(step.inputs_required.len());
        let mut indexes = Vec::with_capacity(step.inputs_required.len());
        for input in &step.inputs_required {
            let mut list: Vec<&Source> =
                sources.iter().filter(|source| is_candidate(input, stage, source, model)).collect();
            if input.required && list.is_empty() {
                return Err(missing(step, input, "nothing there is matches it"));
            }
            list.sort_by_key(|source| rank(source));
            let mut index = Index::new();
            for (position, source) in list.iter().enumerate() {
                let reviewers = index.entry(source.lineage_id.as_ref()).or_default();
                let positions = reviewers.entry(source.reviewer.as_deref()).or_default();
                positions.push(position);
            }
            lists.push(list);
            indexes.push(index);
        }
        Ok(Candidates { step, lists, indexes })
    }

    /// Everything an input could mean, sorted.
    pub(super) fn all(&self, input: usize) -> &[&'a Source] {
        &self.lists[input]
    }

    pub(super) fn everything(&self) -> Vec<Vec<&'a Source>> {
        self.lists.clone()
    }

    /// The lineages among the artifacts of an input.
    pub(super) fn lineages(&self, input: usize) -> impl Iterator<Item = Option<&'a Id>> {
        self.indexes[input].keys().copied()
    }

    /// The artifacts of exactly this lineage.
    pub(super) fn of_lineage(&self, input: usize, lineage: Option<&Id>) -> Vec<&'a Source> {
        let reviewers = self.indexes[input].get(&lineage);
        let positions = reviewers.into_iter().flat_map(BTreeMap::values).flatten();
        self.pick(input, positions.copied().collect())
    }

    /// The artifacts of every input that belong to this lineage and reviewer, `fixed` ones as they are.
    pub(super) fn joined(
        &self,
        fixed: &[(usize, Vec<&'a Source>)],
        lineage: Option<&Id>,
        reviewer: Option<&str>,
    ) -> Vec<Vec<&'a Source>> {
        (0..self.lists.len())
            .map(|input| match fixed.iter().find(|(given, _)| *given == input) {
                Some((_, sources)) => sources.clone(),
                None => self.join(input, lineage, reviewer),
            })
            .collect()
    }

    /// What has no lineage belongs to every one, and so for reviewers. The iteration before had lineages of its own, so
    /// what comes from it is not joined but given whole.
    fn join(&self, input: usize, lineage: Option<&Id>, reviewer: Option<&str>) -> Vec<&'a Source> {
        if self.step.inputs_required[input].previous_iteration {
            return self.lists[input].clone();
        }
        let positions = matching(&self.indexes[input], lineage)
            .into_iter()
            .flat_map(|reviewers| matching(reviewers, reviewer))
            .flatten();
        self.pick(input, positions.copied().collect())
    }

    fn pick(&self, input: usize, mut positions: Vec<usize>) -> Vec<&'a Source> {
        positions.sort_unstable();
        positions.into_iter().map(|position| self.lists[input][position]).collect()
    }

    /// The inputs to fan out over, first the one that leads: what steps made, else what the user attached.
    pub(super) fn fanning(&self) -> Result<Vec<usize>, PlanError> {
        let inputs = &self.step.inputs_required;
        let from = |origin| {
            let positions = (0..inputs.len()).filter(move |&input| inputs[input].origin() == origin);
            positions.collect::<Vec<usize>>()
        };
        let mut fanning = from(Origin::Step);
        if fanning.is_empty() {
            fanning = from(Origin::ProjectResource);
        }
        if fanning.is_empty() {
            return Err(PlanError {
                step: self.step.key.clone(),
                input: "inputs_required".to_owned(),
                message: format!("{} has nothing to fan out over", self.step.granularity_strategy),
            });
        }
        Ok(fanning)
    }
}

pub(super) fn missing(step: &Step, input: &Input, message: &str) -> PlanError {
    PlanError { step: step.key.clone(), input: input.role().to_owned(), message: message.to_owned() }
}

fn is_candidate(input: &Input, stage: Option<&str>, source: &Source, model: &str) -> bool {
    source.r#type == input.r#type
        && (input.document_key.is_none() || input.document_key == source.document_key)
        && source.previous_iteration == input.previous_iteration
        && is_of_stage(input, stage, source)
        && is_of_model(input, source, model)
}

fn is_of_stage(input: &Input, stage: Option<&str>, source: &Source) -> bool {
    let belongs_to_the_project = input.r#type == INITIAL_USER_PROMPT || input.origin() == Origin::ProjectResource;
    belongs_to_the_project || source.stage.as_deref().or(stage) == input.stage.as_deref().or(stage)
}

/// What no model wrote, such as a seed prompt, is every model's own.
fn is_of_model(input: &Input, source: &Source, model: &str) -> bool {
    match (input.from_models, source.model.as_deref()) {
        (FromModels::All, _) => true,
        (FromModels::Own, Some(writer)) => writer == model,
        (FromModels::Own, None) => input.origin() != Origin::Step,
    }
}

type Rank<'a> =
    ((&'a Option<String>, &'a Option<Id>, &'a Option<String>, &'a Id), (&'a Option<String>, &'a Option<String>));

fn rank(source: &Source) -> Rank<'_> {
    ((&source.model, &source.lineage_id, &source.reviewer, &source.id), (&source.stage, &source.document_key))
}

/// The entries a key goes with: its own and the nameless one; every entry for no key.
fn matching<'m, K: Ord + ?Sized, T>(entries: &'m BTreeMap<Option<&'m K>, T>, key: Option<&'m K>) -> Vec<&'m T> {
    match key {
        None => entries.values().collect(),
        Some(_) => [entries.get(&None), entries.get(&key)].into_iter().flatten().collect(),
    }
}
