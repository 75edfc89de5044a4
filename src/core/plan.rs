//! Which jobs a step becomes for a model, and what each is given.
//!
//! A pure function from a step, a model and the artifacts there are to child specifications: the same for any order of
//! the artifacts, with no clock and no minted ids. Who reads what is decided here and nowhere else; a job reads the
//! artifacts its specification names, never the latest of a kind. A required input that finds nothing is an error, not
//! an empty list.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::hash;
use crate::id::Id;
use crate::recipe::{Recipe, Step, Strategy};

mod advance;
mod all_to_one;
mod by_lineage;
mod candidates;
mod children;
mod pairwise_by_origin;
mod per_source_document;
mod per_source_group;

pub use advance::{Advance, StageProgress};
use candidates::Candidates;
use children::Children;

/// The most artifacts all children of one plan may be given together; more is a mistake in the recipe.
pub const MAX_LINKS: usize = 1_000_000;

/// An artifact a step may read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its id.
    pub id: Id,
    /// The id of the JSON it was rendered from, which is what a part is taken from.
    #[serde(default)]
    pub json_id: Option<Id>,
    /// Its type: the `output_type` of the step that made it, or a type the shell provides.
    pub r#type: String,
    /// The stage it was made in; `None` is the stage being planned.
    #[serde(default)]
    pub stage: Option<String>,
    /// Its document key.
    #[serde(default)]
    pub document_key: Option<String>,
    /// The model that wrote it.
    #[serde(default)]
    pub model: Option<String>,
    /// The thesis it descends from.
    #[serde(default)]
    pub lineage_id: Option<Id>,
    /// The model whose view of that thesis it carries.
    #[serde(default)]
    pub reviewer: Option<String>,
    /// Whether it was made in the iteration before.
    #[serde(default)]
    pub previous_iteration: bool,
}

/// One job to create.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Child {
    /// The step it belongs to.
    pub step_key: String,
    /// The model that is asked.
    pub model: String,
    /// Tells it apart from its siblings of the same step and model.
    pub group_key: String,
    /// The lineage it continues.
    pub lineage_id: Option<Id>,
    /// Whether its answer begins a lineage.
    pub starts_lineage: bool,
    /// The model whose view of the lineage it carries.
    pub reviewer: Option<String>,
    /// What it reads: in the order of the step's inputs.
    pub inputs: Vec<ChildInput>,
}

/// One artifact a job reads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChildInput {
    /// The id of the artifact.
    pub artifact: Id,
    /// What the prompt calls it.
    pub role: String,
    /// A JSON pointer to the part of it that is read; the whole without one.
    pub part: Option<String>,
    /// How long compression keeps it.
    pub relevance: f64,
    /// The input of the step that has passages of it retrieved, counted from 1; none where all of it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<u32>,
}

/// A step that cannot be planned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step}, input {input}: {message}")]
pub struct PlanError {
    /// The step.
    pub step: String,
    /// The input, by role.
    pub input: String,
    /// What is wrong.
    pub message: String,
}

/// The jobs of one step for one model, given the artifacts there are.
pub fn plan_step(step: &Step, stage: Option<&str>, sources: &[Source], model: &str) -> Result<Vec<Child>, PlanError> {
    let found = Candidates::find(step, stage, sources, model)?;
    let mut children = Children::new(step, stage, model);
    match step.granularity_strategy {
        Strategy::AllToOne | Strategy::PerModel => all_to_one::plan(&found, &mut children)?,
        Strategy::PerSourceDocument => per_source_document::plan(&found, &mut children)?,
        Strategy::PerSourceDocumentByLineage => by_lineage::plan(&found, &mut children)?,
        Strategy::PerSourceGroup => per_source_group::plan(&found, &mut children)?,
        Strategy::PairwiseByOrigin => pairwise_by_origin::plan(&found, &mut children)?,
    }
    Ok(children.into_list())
}

/// The jobs of a whole stage, as if every step delivered: steps in order, what one produces offered to the next.
pub fn plan(
    recipe: &Recipe,
    stage: Option<&str>,
    sources: &[Source],
    models: &[String],
) -> Result<Vec<Child>, PlanError> {
    let mut seen = BTreeSet::new();
    let models: Vec<&String> = models.iter().filter(|model| seen.insert(*model)).collect();
    let mut known = sources.to_vec();
    let mut children: Vec<Child> = Vec::new();
    let mut links = 0;
    for step in recipe.order() {
        let begun = children.len();
        for model in &models {
            let planned = plan_step(step, stage, &known, model)?;
            links += planned.iter().map(|child| child.inputs.len() + 1).sum::<usize>();
            if links > MAX_LINKS {
                return Err(children::too_many(step));
            }
            children.extend(planned);
        }
        known.extend(children[begun..].iter().map(|child| product(step, stage, child)));
    }
    Ok(children)
}

/// What the children of a stage will have produced, as the sources of a later one.
pub fn products(recipe: &Recipe, stage: Option<&str>, children: &[Child]) -> Vec<Source> {
    let steps: BTreeMap<&str, &Step> = recipe.steps.iter().map(|step| (step.key.as_str(), step)).collect();
    let step_of = |child: &Child| steps.get(child.step_key.as_str()).copied();
    children.iter().filter_map(|child| Some(product(step_of(child)?, stage, child))).collect()
}

/// What a child will have produced, before it has: its id is made of its step, model and group.
pub fn product(step: &Step, stage: Option<&str>, child: &Child) -> Source {
    let id = Id::from(format!("{}/{}/{}", child.step_key, child.model, short(&child.group_key)));
    Source {
        r#type: step.output_type.clone(),
        stage: stage.map(str::to_owned),
        document_key: step.document_key.clone(),
        model: Some(child.model.clone()),
        lineage_id: if child.starts_lineage { Some(id.clone()) } else { child.lineage_id.clone() },
        reviewer: child.reviewer.clone(),
        previous_iteration: false,
        json_id: None,
        id,
    }
}

/// Groups name the ids of their sources, whose ids name groups: past a length only a digest keeps them from doubling
/// with every step.
fn short(group: &str) -> String {
    const LONG: usize = 200;
    if group.len() <= LONG {
        return group.to_owned();
    }
    let digest = |seed| hash::fnv1a_64(seed, group.as_bytes());
    format!("{:016x}{:016x}", digest(hash::FNV_BASIS_64), digest(0x9e37_79b9_7f4a_7c15))
}
