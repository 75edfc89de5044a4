//! What a process will do before it runs: how many calls each step becomes, and how much they read and write.
//!
//! Counted by planning and never by formula: each stage is planned as it will be, on what is there and on what the
//! stages before it will have made, so whatever a recipe says is counted as it will happen. A step that could not be
//! planned is the error it would be. Knows nothing of money; never touches what it was given, asks no model, and makes
//! no job.
//!
//! | module | decides |
//! |---|---|
//! | `forecast` | how many tokens the calls of each step read and write, as they will be and at the most |
//! | `ground` | nothing: what an estimate stands on, and what it comes to |
//! | `library` | the texts that calls read, those that are there and those that stand in for others, and their tokens |
//! | `mark` | how a text that is counted elsewhere stands in a prompt |

mod forecast;
mod ground;
mod library;
mod mark;

#[cfg(test)]
mod laws;

pub use forecast::forecast;
pub use ground::{Given, Ground, Model, Past, Tier, Tokens, Took};

use crate::id::Id;
use crate::plan::{Child, PlanError, Source, plan, products};
use crate::recipe::{FileType, INITIAL_USER_PROMPT, JobType, Origin, Recipe, SEED_PROMPT, Step, Strategy};
use std::collections::{BTreeMap, BTreeSet};

/// What one step will come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepEstimate {
    /// The stage it belongs to.
    pub stage: String,
    /// Its key.
    pub step_key: String,
    /// Its name for people.
    pub name: String,
    /// Whether it answers with a header or a document.
    pub job_type: JobType,
    /// How it fans out.
    pub strategy: Strategy,
    /// The calls of all models together.
    pub calls: usize,
    /// Those of them whose answer is, or becomes, a document that a person reads.
    pub documents: usize,
    /// The artifacts its calls read, each counted once for every call that reads it.
    pub inputs: usize,
}

/// A stage as it will be planned.
#[derive(Debug)]
pub struct StagePlan<'a> {
    /// Its slug.
    pub slug: &'a str,
    recipe: &'a Recipe,
    /// What there is for it when it begins.
    sources: Vec<Source>,
    /// Its calls, in the order of its steps.
    children: Vec<Child>,
    /// What each call will have made, by the id that the stage itself knows it by.
    products: Vec<Source>,
}

/// The plans of these stages in the order they run, for these models.
///
/// The stages are consecutive ones of a process, or one alone; `known` is everything else there is: resources of the
/// project, and what stages outside this list or the iteration before have made. What stages of this list have made is
/// not looked at, because it is planned anew. The seed prompt of each stage and the user's prompt are taken as given
/// where `known` lacks them.
pub fn plan_stages<'a>(
    stages: &[(&'a str, &'a Recipe)],
    models: &[String],
    known: &[Source],
) -> Result<Vec<StagePlan<'a>>, PlanError> {
    let slugs: BTreeSet<&str> = stages.iter().map(|(slug, _)| *slug).collect();
    let is_planned = |source: &Source| {
        Origin::of(&source.r#type) == Origin::Step
            && !source.previous_iteration
            && source.stage.as_deref().is_some_and(|stage| slugs.contains(stage))
    };
    let given: Vec<&Source> = known.iter().filter(|source| !is_planned(source)).collect();
    let mut made: Vec<Source> = Vec::new();
    let mut plans = Vec::with_capacity(stages.len());
    for (slug, recipe) in stages {
        let sources = sources(recipe, slug, given.iter().copied().chain(&made));
        let children = plan(recipe, Some(slug), &sources, models)?;
        let products = products(recipe, Some(slug), &children);
        made.extend(distinct(products.clone(), slug));
        plans.push(StagePlan { slug, recipe, sources, children, products });
    }
    Ok(plans)
}

/// What each step of these plans comes to, in the order they run.
pub fn explain(plans: &[StagePlan<'_>]) -> Vec<StepEstimate> {
    let mut estimates = Vec::new();
    for plan in plans {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for child in &plan.children {
            let (calls, inputs) = counts.entry(&child.step_key).or_default();
            *calls += 1;
            *inputs += child.inputs.len();
        }
        estimates.extend(plan.recipe.order().into_iter().map(|step| {
            let (calls, inputs) = counts.get(step.key.as_str()).copied().unwrap_or_default();
            estimate(plan.slug, step, calls, inputs)
        }));
    }
    estimates
}

fn estimate(stage: &str, step: &Step, calls: usize, inputs: usize) -> StepEstimate {
    // JSON is rendered; a plain text is a document as it comes, and one between two steps has no key.
    let is_document =
        step.file_type == FileType::Markdown && (step.document_key.is_some() || !step.content_keys().is_empty());
    StepEstimate {
        stage: stage.to_owned(),
        step_key: step.key.clone(),
        name: step.name.clone(),
        job_type: step.job_type,
        strategy: step.granularity_strategy,
        calls,
        documents: if is_document { calls } else { 0 },
        inputs,
    }
}

/// What there is for a stage, of the types its recipe asks for, with the prompts that will be there when it begins.
fn sources<'a>(recipe: &Recipe, slug: &str, there: impl Iterator<Item = &'a Source>) -> Vec<Source> {
    let inputs = recipe.steps.iter().flat_map(|step| &step.inputs_required);
    let asked: BTreeSet<&str> = inputs.map(|input| input.r#type.as_str()).collect();
    let mut sources: Vec<Source> = there.filter(|source| asked.contains(source.r#type.as_str())).cloned().collect();
    for (prompt, is_of_stage) in [(SEED_PROMPT, true), (INITIAL_USER_PROMPT, false)] {
        let is_there = |source: &Source| {
            source.r#type == prompt
                && !source.previous_iteration
                && (!is_of_stage || source.stage.as_deref().is_none_or(|stage| stage == slug))
        };
        if !sources.iter().any(is_there) {
            sources.push(Source {
                id: format!("{prompt}:{slug}").into(),
                r#type: prompt.to_owned(),
                stage: is_of_stage.then(|| slug.to_owned()),
                document_key: None,
                model: None,
                lineage_id: None,
                reviewer: None,
                previous_iteration: false,
                json_id: None,
            });
        }
    }
    sources
}

/// The id by which later stages know what a stage made.
fn renamed(slug: &str, id: &Id) -> Id {
    format!("{slug}:{id}").into()
}

/// The products of a stage under ids of their own: steps of two stages may have the same key, and what they make is not
/// the same.
fn distinct(mut products: Vec<Source>, slug: &str) -> Vec<Source> {
    let begun: BTreeSet<Id> =
        products.iter().filter(|source| source.lineage_id.as_ref() == Some(&source.id)).map(|s| s.id.clone()).collect();
    let renamed = |id: &Id| renamed(slug, id);
    for source in &mut products {
        source.id = renamed(&source.id);
        source.lineage_id = source.lineage_id.take().map(|id| if begun.contains(&id) { renamed(&id) } else { id });
    }
    products
}
