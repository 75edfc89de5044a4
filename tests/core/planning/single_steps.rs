//! Laws of planning one step over hand-made artifacts: joins, lineages, absences, size and order.
//!
//! Each law builds the fewest artifacts that could break it. Whole processes are planned next door.

use dialectic_core::id::Id;
use dialectic_core::plan::{Child, PlanError, Source, plan, plan_step};
use dialectic_core::recipe::Recipe;
use proptest::prelude::{Just, Strategy as _, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::cpu_time::cpu_time;
use super::{models, source};

fn step(fields: Value) -> Recipe {
    let mut step = json!({"key": "step", "job_type": "execute", "prompt_template_name": "t", "output_type": "out"});
    step.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    Recipe::parse(&json!({"steps": [step]})).unwrap()
}

fn plan_one(recipe: &Recipe, sources: &[Source], model: &str) -> Result<Vec<Child>, PlanError> {
    plan_step(&recipe.steps[0], Some("now"), sources, model)
}

#[test]
fn a_fan_out_over_four_times_as_many_resources_takes_about_four_times_as_long() {
    let recipe = step(json!({"granularity_strategy": "per_source_document",
        "inputs_required": [{"type": "seed_prompt"}, {"type": "reference_documents"}, {"type": "domain_standards", "required": false}]}));
    let resource = |n| source(json!({"id": format!("r{n:05}"), "type": "reference_documents", "stage": "any"}));
    let some = |count: i32| {
        let mut sources: Vec<Source> = (0..count).rev().map(resource).collect();
        sources.push(source(json!({"id": "seed", "type": "seed_prompt"})));
        sources
    };
    let (few, many) = (some(2_500), some(10_000));
    let [brief, long] = [&few, &many].map(|sources| cpu_time(|| plan_one(&recipe, sources, "ada").unwrap()));
    println!("{brief:?} for 2,500 resources, {long:?} for 10,000");
    // With the square of their number it would be sixteen times.
    assert!(long < 10 * brief, "{long:?} after {brief:?}");
    let children = plan_one(&recipe, &many, "ada").unwrap();
    assert_eq!(children.len(), 10_000);
    assert!(children.iter().all(|child| child.inputs.len() == 2 && child.starts_lineage));
    assert!(children.is_sorted_by_key(|child| child.group_key.clone()));
}

#[test]
fn a_step_that_reads_no_lineage_starts_one_and_a_step_that_reads_several_has_none() {
    let recipe = step(json!({"granularity_strategy": "all_to_one", "inputs_required": [{"type": "doc"}]}));
    let doc =
        |id: &str, lineage: Value| source(json!({"id": id, "type": "doc", "model": "bob", "lineage_id": lineage}));
    let descent = |sources: &[Source]| {
        let child = plan_one(&recipe, sources, "ada").unwrap().remove(0);
        (child.lineage_id, child.starts_lineage)
    };
    assert_eq!(descent(&[doc("a", json!(null))]), (None, true));
    assert_eq!(descent(&[doc("a", json!(null)), doc("b", json!("L"))]), (Some(Id::from("L")), false));
    assert_eq!(descent(&[doc("a", json!("K")), doc("b", json!("L"))]), (None, false));
}

#[test]
fn the_previous_iteration_is_read_only_where_asked_and_gives_no_lineage() {
    let new = source(json!({"id": "new", "type": "doc", "model": "ada", "lineage_id": "L2"}));
    let old =
        source(json!({"id": "old", "type": "doc", "model": "ada", "lineage_id": "L1", "previous_iteration": true}));
    for strategy in ["all_to_one", "per_source_document", "per_source_group"] {
        let recipe = step(json!({"granularity_strategy": strategy, "inputs_required": [
            {"type": "doc"}, {"type": "doc", "previous_iteration": true}]}));
        let children = plan_one(&recipe, &[old.clone(), new.clone()], "ada").unwrap();
        assert_eq!((children.len(), children[0].lineage_id.as_ref().map(Id::as_str)), (1, Some("L2")));
        let read: Vec<&str> = children[0].inputs.iter().map(|input| input.artifact.as_str()).collect();
        assert_eq!(read, ["new", "old"]);
        assert_eq!(plan_one(&recipe, std::slice::from_ref(&new), "ada").unwrap()[0].inputs.len(), 1);
    }
}

#[test]
fn own_means_the_model_that_reads_and_a_seed_prompt_is_everyones() {
    let recipe = step(
        json!({"granularity_strategy": "per_model", "inputs_required": [{"type": "seed_prompt"}, {"type": "doc"}]}),
    );
    let mut sources = vec![
        source(json!({"id": "seed", "type": "seed_prompt"})),
        source(json!({"id": "alien", "type": "seed_prompt", "stage": "then"})),
    ];
    sources.extend(["ada", "bob"].map(|model| source(json!({"id": model, "type": "doc", "model": model}))));
    let child = plan_one(&recipe, &sources, "bob").unwrap().remove(0);
    let read: Vec<&str> = child.inputs.iter().map(|input| input.artifact.as_str()).collect();
    assert_eq!(read, ["seed", "bob"]);
}

#[test]
fn a_required_input_with_nothing_to_read_is_an_error_that_names_it() {
    for strategy in
        ["all_to_one", "per_model", "per_source_document", "per_source_document_by_lineage", "per_source_group"]
    {
        let recipe = step(
            json!({"granularity_strategy": strategy, "inputs_required": [{"type": "doc", "document_key": "essay"}]}),
        );
        let error = plan_one(&recipe, &[], "ada").unwrap_err();
        assert_eq!((error.step.as_str(), error.input.as_str()), ("step", "essay"));
    }
}

#[test]
fn a_required_input_of_another_lineage_is_an_error_not_a_substitute() {
    let doc = |id: &str, r#type: &str, lineage: &str| {
        source(json!({"id": id, "type": r#type, "model": "ada", "lineage_id": lineage}))
    };
    let sources = [doc("a", "lead", "K"), doc("b", "lead", "L"), doc("c", "side", "K")];
    for strategy in ["per_source_document", "per_source_document_by_lineage", "per_source_group", "pairwise_by_origin"]
    {
        let mut fields = json!({"granularity_strategy": strategy, "inputs_required": [{"type": "lead"}, {"type": "side", "origin_type": "lead"}]});
        let error = plan_one(&step(fields.clone()), &sources, "ada").unwrap_err();
        assert_eq!(error.input, "side", "{strategy}");
        fields["inputs_required"][1]["required"] = json!(false);
        let planned = plan_one(&step(fields), &sources, "ada").unwrap();
        assert_eq!(planned.len(), if strategy == "pairwise_by_origin" { 1 } else { 2 });
    }
}

#[test]
fn documents_without_a_lineage_make_one_group_when_there_is_no_other() {
    let docs = ["a", "b"].map(|id| source(json!({"id": id, "type": "doc"})));
    for strategy in ["per_source_document_by_lineage", "per_source_group"] {
        let recipe = step(json!({"granularity_strategy": strategy, "inputs_required": [{"type": "doc"}]}));
        let children = plan_one(&recipe, &docs, "ada").unwrap();
        assert_eq!((children.len(), children[0].group_key.as_str(), children[0].inputs.len()), (1, "none", 2));
        assert!(children[0].starts_lineage);
    }
}

#[test]
fn a_plan_that_outgrows_any_use_is_refused_and_long_chains_keep_short_ids() {
    // Each step pairs the two before it, so numbers of pairs multiply and ids would double in length.
    let pair = |n: usize| {
        let [original, critique] = [format!("t{}", n - 2), format!("t{}", n - 1)];
        let stage = |made_in: usize| (made_in < 2).then_some("old");
        json!({"key": format!("s{n}"), "job_type": "execute", "prompt_template_name": "t", "output_type": format!("t{n}"),
            "granularity_strategy": "pairwise_by_origin", "inputs_required": [
                {"type": original, "stage": stage(n - 2)},
                {"type": critique, "stage": stage(n - 1), "origin_type": original}]})
    };
    let steps: Vec<Value> = (2..60).map(pair).collect();
    let recipe = Recipe::parse(&json!({"steps": steps})).unwrap();
    let plan_over = |copies: usize| {
        let given = |n: usize| {
            let r#type = format!("t{}", n % 2);
            source(json!({"id": format!("g{n}"), "type": r#type, "stage": "old", "model": "ada", "lineage_id": "L"}))
        };
        let sources: Vec<Source> = (0..copies * 2).map(given).collect();
        plan(&recipe, Some("now"), &sources, &models(1))
    };
    let children = plan_over(1).unwrap();
    assert_eq!(children.len(), 58);
    assert!(children.iter().all(|child| child.group_key.len() < 1000));
    assert!(plan_over(2).unwrap_err().message.contains("more than"));
}

proptest! {
    #[test]
    fn a_plan_does_not_depend_on_the_order_of_sources(order in Just((0..40usize).collect::<Vec<_>>()).prop_shuffle(), pick in 0usize..6) {
        let strategies = ["all_to_one", "per_model", "per_source_document", "per_source_document_by_lineage", "per_source_group", "pairwise_by_origin"];
        let recipe = step(json!({"granularity_strategy": strategies[pick], "inputs_required": [
            {"type": "header_context", "required": false}, {"type": "lead", "from_models": "all"},
            {"type": "side", "from_models": "all", "origin_type": "lead", "required": false}]}));
        let make = |n: usize| Source {
            id: format!("a{}", (n * 17) % 40).into(),
            r#type: ["lead", "side", "header_context"][n % 3].to_owned(),
            stage: None,
            document_key: None,
            model: Some(["ada", "bob"][n % 2].to_owned()),
            lineage_id: [None, Some("K"), Some("L")][n / 3 % 3].map(Id::from),
            reviewer: [None, Some("ada"), Some("bob")][n / 9 % 3].map(str::to_owned),
            previous_iteration: false,
            json_id: None,
        };
        let sorted: Vec<Source> = (0..40).map(make).collect();
        let shuffled: Vec<Source> = order.into_iter().map(make).collect();
        prop_assert_eq!(plan_one(&recipe, &shuffled, "ada"), plan_one(&recipe, &sorted, "ada"));
    }
}
