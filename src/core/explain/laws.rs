//! The laws of estimates: the documented numbers, and those of the planner for any recipe.
//!
//! They decide nothing. The planner is asked again, stage by stage and job by job, and must give what
//! [`super::explain`] said.

mod tokens;

use super::*;
use crate::plan::plan_step;
use proptest::prelude::{any, prop_assert_eq, proptest};
use proptest::strategy::Strategy as Generator;
use serde_json::{Value, json};
use std::time::Instant;

const ESSAY: &str = include_str!("../../../sql/seed/processes/essay.json");
const DIALECTIC: &str = include_str!("../../../sql/seed/processes/dialectic.json");

/// Per stage and step: two choices of inputs, a strategy, whether all models are read.
type Shape = Vec<Vec<(u8, u8, u8, bool)>>;
type Process = Vec<(String, Recipe)>;

fn shipped(process: &str) -> Process {
    let process: Value = serde_json::from_str(process).unwrap();
    let stages = process["stages"].as_array().unwrap().iter();
    let read = |stage: &Value| {
        let slug = stage["slug"].as_str().unwrap().to_owned();
        (slug.clone(), Recipe::parse(&stage["recipe"]).unwrap().at_stage(&slug))
    };
    stages.map(read).collect()
}

fn essay() -> Process {
    shipped(ESSAY)
}

fn dialectic() -> Process {
    shipped(DIALECTIC)
}

fn models(n: usize) -> Vec<String> {
    (0..n).map(|n| format!("m{n}")).collect()
}

fn source(value: Value) -> Source {
    serde_json::from_value(value).unwrap()
}

fn explained(process: &Process, models: &[String], known: &[Source]) -> Result<Vec<StepEstimate>, PlanError> {
    let stages: Vec<(&str, &Recipe)> = process.iter().map(|(slug, recipe)| (slug.as_str(), recipe)).collect();
    of_stages(&stages, models, known)
}

fn of_stages(stages: &[(&str, &Recipe)], models: &[String], known: &[Source]) -> Result<Vec<StepEstimate>, PlanError> {
    plan_stages(stages, models, known).map(|plans| explain(&plans))
}

/// The same by the planner of single steps: stage, step, calls, inputs. Keys must differ between stages.
fn planned(process: &Process, models: &[String], known: &[Source]) -> Result<Vec<(String, usize, usize)>, PlanError> {
    let mut there = known.to_vec();
    there.push(source(json!({"id": "prompt", "type": "initial_user_prompt"})));
    let mut counts = Vec::new();
    for (slug, recipe) in process {
        there.push(source(json!({"id": slug, "type": "seed_prompt", "stage": slug})));
        for step in recipe.order() {
            let mut children = Vec::new();
            for model in models {
                children.extend(plan_step(step, Some(slug), &there, model)?);
            }
            there.extend(children.iter().map(|child| crate::plan::product(step, Some(slug), child)));
            let inputs = children.iter().map(|child| child.inputs.len()).sum();
            counts.push((step.key.clone(), children.len(), inputs));
        }
    }
    Ok(counts)
}

fn counts(estimates: Vec<StepEstimate>) -> Vec<(String, usize, usize)> {
    estimates.into_iter().map(|one| (one.step_key, one.calls, one.inputs)).collect()
}

#[test]
fn an_essay_takes_the_documented_calls() {
    for n in 1..=3 {
        let estimates = explained(&essay(), &models(n), &[]).unwrap();
        let calls: Vec<usize> = estimates.iter().map(|one| one.calls).collect();
        assert_eq!(calls, [n, n * n, n * n * n, n * n, n]);
        let inputs: Vec<usize> = estimates.iter().map(|one| one.inputs).collect();
        assert_eq!(inputs, [n, 2 * n * n, 2 * n * n * n, n * n * n * n, n * (n * n + 1)]);
        let documents: Vec<usize> = estimates.iter().map(|one| one.documents).collect();
        assert_eq!(documents, [n, n * n, 0, 0, n], "what stands between two steps is no document");
        let first = &estimates[0];
        assert_eq!((first.stage.as_str(), first.name.as_str()), ("thesis", "Proposal"));
        assert_eq!((first.job_type, first.strategy), (JobType::Execute, Strategy::AllToOne));
    }
}

#[test]
fn shipped_recipes_come_to_what_the_planner_makes() {
    for process in [essay(), dialectic()] {
        for n in 0..=3 {
            let estimates = explained(&process, &models(n), &[]).unwrap();
            assert_eq!(counts(estimates), planned(&process, &models(n), &[]).unwrap());
        }
    }
    let calls = |n| explained(&dialectic(), &models(n), &[]).unwrap().iter().map(|one| one.calls).sum::<usize>();
    for n in 1..=3 {
        assert_eq!(calls(n), 5 * n + 7 * n * n + 4 * n * n * n + 9 * n + 4 * n + 4 * n);
    }
}

#[test]
fn documents_are_counted_and_headers_are_not() {
    let step = |key: &str, kind: &str, content: Value| {
        json!({"key": key, "job_type": kind, "prompt_template_name": "t", "granularity_strategy": "all_to_one",
               "inputs_required": [{"type": "seed_prompt"}], "output_type": if kind == "plan" { "header_context" } else { key },
               "content_to_include": content})
    };
    let mut json_only = step("vector", "execute", json!({"a": ""}));
    json_only["file_type"] = json!("json");
    let steps = [step("header", "plan", json!({"a": ""})), step("text", "execute", json!({"a": ""})), json_only];
    let recipe = Recipe::parse(&json!({ "steps": steps })).unwrap();
    let estimates = of_stages(&[("s", &recipe)], &models(2), &[]).unwrap();
    assert_eq!(estimates.iter().map(|one| one.documents).collect::<Vec<_>>(), [0, 2, 0]);
}

#[test]
fn one_stage_alone_is_counted_on_what_there_is() {
    let process = essay();
    let thesis = |n: usize| {
        source(json!({"id": format!("t{n}"), "type": "thesis", "stage": "thesis", "document_key": "thesis",
                                          "model": format!("m{n}"), "lineage_id": format!("t{n}")}))
    };
    let known: Vec<Source> = (0..4).map(thesis).collect();
    let alone = of_stages(&[("antithesis", &process[1].1)], &models(2), &known).unwrap();
    assert_eq!(alone[0].calls, 8);
    let seeded =
        [known.clone(), vec![source(json!({"id": "s", "type": "seed_prompt", "stage": "antithesis"}))]].concat();
    assert_eq!(of_stages(&[("antithesis", &process[1].1)], &models(2), &seeded).unwrap(), alone);
    // What a stage has made does not count beside what it is going to make.
    assert_eq!(explained(&process, &models(2), &known), explained(&process, &models(2), &[]));
    let error = of_stages(&[("antithesis", &process[1].1)], &models(2), &[]).unwrap_err();
    assert_eq!((error.step.as_str(), error.input.as_str()), ("critique", "thesis"));
}

#[test]
fn ten_thousand_sources_are_counted_in_a_moment() {
    let process = essay();
    let mut known: Vec<Source> = (0..10_000)
        .map(|n| {
            source(json!({"id": format!("t{n}"), "type": "thesis", "stage": "thesis", "document_key": "thesis",
                               "model": format!("m{}", n % 3), "lineage_id": format!("t{n}")}))
        })
        .collect();
    known.extend((0..100).map(|n| source(json!({"id": format!("r{n}"), "type": "general_resource"}))));
    let started = Instant::now();
    let estimates = of_stages(&[("antithesis", &process[1].1)], &models(3), &known).unwrap();
    // A moment even where others compile besides; were each looked for among all others it would be minutes.
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    assert_eq!(estimates[0].calls, 30_000);
}

/// Processes of up to three stages whose steps read whatever was made before; keys are shared by the stages if asked.
fn any_process() -> impl Generator<Value = Shape> {
    proptest::collection::vec(proptest::collection::vec((any::<u8>(), any::<u8>(), 0..6_u8, any::<bool>()), 1..4), 1..4)
}

fn process(shape: &Shape, share_keys: bool) -> Process {
    let mut made: Vec<Value> =
        vec![json!({"type": "seed_prompt"}), json!({"type": "general_resource", "required": false})];
    let mut process = Process::new();
    for (stage, steps) in shape.iter().enumerate() {
        let slug = format!("stage_{stage}");
        let mut written = Vec::new();
        for (number, (first, second, strategy, from_all)) in steps.iter().enumerate() {
            let pick = |choice: u8| {
                let mut input = made[usize::from(choice) % made.len()].clone();
                input["from_models"] = json!(if *from_all { "all" } else { "own" });
                if input["stage"] == json!(slug) {
                    input.as_object_mut().unwrap().remove("stage");
                }
                input
            };
            let (original, mut critique) = (pick(*first), pick(*second));
            let strategy = Strategy::ALL[usize::from(*strategy)];
            if strategy == Strategy::PairwiseByOrigin {
                critique["origin_type"] = original["type"].clone();
            }
            let key = if share_keys { format!("step_{number}") } else { format!("step_{stage}_{number}") };
            let output = format!("made_{stage}_{number}");
            written.push(json!({"key": key, "job_type": "execute", "prompt_template_name": "t", "output_type": output,
                                "inputs_required": [original, critique], "granularity_strategy": strategy.as_str()}));
            made.push(json!({"type": output, "stage": slug}));
        }
        process.push((slug, Recipe::parse(&json!({ "steps": written })).unwrap()));
    }
    process
}

proptest! {
    #[test]
    fn any_process_comes_to_what_the_planner_makes(shape in any_process(), n in 1..4_usize, resources in 0..3_usize) {
        let known: Vec<Source> =
            (0..resources).map(|n| source(json!({"id": format!("r{n}"), "type": "general_resource"}))).collect();
        let apart = process(&shape, false);
        let explained_apart = explained(&apart, &models(n), &known);
        // The words of an error may name an artifact; the place of it is the same.
        let place = |error: PlanError| (error.step, error.input);
        prop_assert_eq!(
            explained_apart.clone().map(counts).map_err(place),
            planned(&apart, &models(n), &known).map_err(place)
        );
        let shared = explained(&process(&shape, true), &models(n), &known);
        let numbers = |all: Vec<StepEstimate>| all.into_iter().map(|one| (one.calls, one.inputs)).collect::<Vec<_>>();
        prop_assert_eq!(shared.map(numbers).ok(), explained_apart.map(numbers).ok(), "keys of other stages matter");
    }
}
