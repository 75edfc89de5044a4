//! Laws of planning: how many jobs there are, and who reads what.
//!
//! The shipped processes are planned stage by stage, each fed with what the earlier ones would have produced. Counts are
//! those of the documentation; reading laws look at single jobs.

use std::collections::{BTreeMap, BTreeSet};

use dialectic_core::id::Id;
use dialectic_core::plan::{Child, Source, plan, products};
use dialectic_core::recipe::Recipe;
use serde_json::{Value, json};

#[path = "cpu_time.rs"]
mod cpu_time;
#[path = "planning/dialectic.rs"]
mod dialectic;
#[path = "planning/single_steps.rs"]
mod single_steps;

const ESSAY: &str = include_str!("../../sql/seed/processes/essay.json");

fn models(n: usize) -> Vec<String> {
    ["ada", "bob", "cyd", "dan"][..n].iter().map(|&name| name.to_owned()).collect()
}

fn source(value: Value) -> Source {
    serde_json::from_value(value).unwrap()
}

fn shipped(process: &str) -> Vec<(String, Recipe)> {
    let process: Value = serde_json::from_str(process).unwrap();
    let stages = process["stages"].as_array().unwrap().iter();
    stages.map(|stage| (stage["slug"].as_str().unwrap().to_owned(), Recipe::parse(&stage["recipe"]).unwrap())).collect()
}

fn essay() -> Vec<(String, Recipe)> {
    shipped(ESSAY)
}

/// A process run on paper: the jobs of each stage, and every artifact by id.
struct Run {
    stages: BTreeMap<String, Vec<Child>>,
    artifacts: BTreeMap<Id, Source>,
}

impl Run {
    fn of(process: &[(String, Recipe)], models: &[String]) -> Run {
        let mut run = Run { stages: BTreeMap::new(), artifacts: BTreeMap::new() };
        for (slug, recipe) in process {
            let seed = source(json!({"id": format!("seed-{slug}"), "type": "seed_prompt", "stage": slug}));
            run.artifacts.insert(seed.id.clone(), seed);
            let request = source(json!({"id": "request", "type": "initial_user_prompt"}));
            run.artifacts.insert(request.id.clone(), request);
            let sources: Vec<Source> = run.artifacts.values().cloned().collect();
            let children = plan(recipe, Some(slug), &sources, models).unwrap();
            let made = products(recipe, Some(slug), &children);
            let before = run.artifacts.len();
            run.artifacts.extend(made.into_iter().map(|made| (made.id.clone(), made)));
            assert_eq!(run.artifacts.len(), before + children.len(), "two jobs of {slug} share an id");
            run.stages.insert(slug.clone(), children);
        }
        run
    }

    fn count(&self, stage: &str) -> usize {
        self.stages[stage].len()
    }

    fn step(&self, stage: &str, step: &str) -> Vec<&Child> {
        self.stages[stage].iter().filter(|child| child.step_key == step).collect()
    }

    /// What a job reads of one role.
    fn read(&self, child: &Child, role: &str) -> Vec<&Source> {
        child.inputs.iter().filter(|input| input.role == role).map(|input| &self.artifacts[&input.artifact]).collect()
    }

    fn read_one(&self, child: &Child, role: &str) -> &Source {
        let read = self.read(child, role);
        assert_eq!(read.len(), 1, "{} reads {} of {role}", child.step_key, read.len());
        read[0]
    }
}

#[test]
fn an_essay_by_n_models_takes_n_then_n_squared_then_n_cubed_and_its_reductions() {
    for n in 1..=4 {
        let run = Run::of(&essay(), &models(n));
        assert_eq!(run.count("thesis"), n);
        assert_eq!(run.count("antithesis"), n * n);
        assert_eq!(run.count("synthesis"), n * n * n + n * n + n);
        assert_eq!(run.step("synthesis", "pairwise").len(), n * n * n);
        assert_eq!(run.step("synthesis", "reduce").len(), n * n);
        assert_eq!(run.step("synthesis", "final").len(), n);
    }
}

#[test]
fn without_isolation_each_model_reviews_once() {
    for n in 1..=4 {
        let process: Vec<(String, Recipe)> =
            essay().into_iter().map(|(slug, recipe)| (slug, recipe.with_isolation(|_| false))).collect();
        let run = Run::of(&process, &models(n));
        assert_eq!(run.count("antithesis"), n);
        for critique in run.step("antithesis", "critique") {
            assert_eq!(run.read(critique, "thesis").len(), n);
            assert_eq!(critique.lineage_id.is_some(), n == 1);
        }
        // A critique of all theses is paired with each of them.
        assert_eq!(run.count("synthesis"), n * n * n + n * n + n);
        for pair in run.step("synthesis", "pairwise") {
            assert_eq!(pair.reviewer, run.read_one(pair, "antithesis").model);
        }
    }
}

/// Item 7 of what the old system got wrong.
#[test]
fn a_critique_reads_exactly_the_thesis_of_its_lineage() {
    let run = Run::of(&essay(), &models(3));
    let mut seen = BTreeSet::new();
    for critique in run.step("antithesis", "critique") {
        let thesis = run.read_one(critique, "thesis");
        assert_eq!(critique.inputs.len(), 2, "the seed prompt and one thesis");
        assert_eq!((&critique.lineage_id, critique.group_key.as_str()), (&thesis.lineage_id, thesis.id.as_str()));
        assert_eq!(critique.reviewer.as_ref(), Some(&critique.model));
        assert!(!critique.starts_lineage);
        seen.insert((critique.model.clone(), thesis.model.clone()));
    }
    assert_eq!(seen.len(), 9, "every model reviews every model, itself included");
}

#[test]
fn a_pair_reads_its_thesis_and_one_critique_of_it_and_nothing_else() {
    let run = Run::of(&essay(), &models(3));
    let mut seen = BTreeSet::new();
    for pair in run.step("synthesis", "pairwise") {
        let (thesis, critique) = (run.read_one(pair, "thesis"), run.read_one(pair, "antithesis"));
        assert_eq!(pair.inputs.len(), 2);
        assert_eq!(critique.lineage_id, thesis.lineage_id);
        assert_eq!((&pair.lineage_id, &pair.reviewer), (&thesis.lineage_id, &critique.reviewer));
        assert_eq!(pair.group_key, format!("{}:{}", thesis.id, critique.id));
        seen.insert((pair.model.clone(), pair.group_key.clone()));
    }
    assert_eq!(seen.len(), 27);
}

#[test]
fn a_reduction_reads_every_pair_of_one_thesis_and_the_final_text_every_reduction() {
    let run = Run::of(&essay(), &models(3));
    for reduction in run.step("synthesis", "reduce") {
        let chunks = run.read(reduction, "pairwise_synthesis_chunk");
        assert_eq!(chunks.len(), 9);
        assert!(chunks.iter().all(|chunk| chunk.lineage_id == reduction.lineage_id));
        assert_eq!(
            (Some(reduction.group_key.as_str()), &reduction.reviewer),
            (reduction.lineage_id.as_ref().map(Id::as_str), &None)
        );
    }
    for last in run.step("synthesis", "final") {
        assert_eq!(run.read(last, "reduced_synthesis").len(), 9);
        assert_eq!((&last.lineage_id, last.starts_lineage, last.group_key.as_str()), (&None, false, "all"));
    }
}
