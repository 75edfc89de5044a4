//! Laws of the form of a recipe: any JSON is read or refused, and a refusal lists every fault.
//!
//! Hostile values stand where a recipe expects something else. Never asks whether a readable recipe makes sense.

use std::collections::BTreeSet;

use dialectic_core::recipe::{Context, Recipe, Strategy};
use proptest::prelude::{BoxedStrategy, Just, Strategy as _, any, prop, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

use super::{blames, is_unreadable, read, sound, spoilt};

/// Item 15 of what the old system got wrong.
#[test]
fn an_unknown_strategy_is_refused_and_never_replaced() {
    for word in ["per_source", "ALL_TO_ONE", "all_to_one ", "full_context"] {
        assert!(word.parse::<Strategy>().is_err());
        is_unreadable(&spoilt("/steps/1", "granularity_strategy", json!(word)), "write", "granularity_strategy", word);
    }
    is_unreadable(&spoilt("/steps/1", "granularity_strategy", json!(null)), "write", "granularity_strategy", "missing");
}

#[test]
fn every_strategy_is_known_by_its_own_name() {
    let names: BTreeSet<&str> = Strategy::ALL.iter().map(|strategy| strategy.as_str()).collect();
    assert_eq!(names.len(), 6);
    for strategy in Strategy::ALL {
        assert_eq!(strategy.as_str().parse(), Ok(*strategy));
    }
}

#[test]
fn an_unknown_field_is_reported_where_it_stands() {
    is_unreadable(&spoilt("/steps/1", "retries", json!(1)), "write", "retries", "not a field");
    is_unreadable(
        &spoilt("/steps/1/inputs_required/0", "weight", json!(1)),
        "write",
        "inputs_required[0].weight",
        "not a field",
    );
    let problems = Recipe::parse(&spoilt("", "stage", json!("x"))).unwrap_err();
    assert_eq!((problems.0[0].step.as_deref(), problems.0[0].field.as_str()), (None, "stage"));
}

#[test]
fn all_problems_are_reported_at_once() {
    let value = json!({"steps": [{"key": "Bad", "job_type": "render", "inputs_required": [{"relevance": 2}, 7]}, 5]});
    let problems = Recipe::parse(&value).unwrap_err();
    for field in ["key", "job_type", "prompt_template_name", "granularity_strategy", "output_type"] {
        blames(&problems, "#1", field, "");
    }
    blames(&problems, "#1", "inputs_required[0].type", "missing");
    blames(&problems, "#1", "inputs_required[0].relevance", "0 to 1");
    blames(&problems, "#1", "inputs_required[1]", "object");
    blames(&problems, "#2", "steps", "object");
    assert_eq!(problems.to_string(), format!("{} (and {} more problems)", problems.0[0], problems.0.len() - 1));
}

#[test]
fn a_field_of_the_wrong_kind_is_refused() {
    let step = [
        ("step", json!(1.5)),
        ("key", json!("a-b")),
        ("key", json!("k".repeat(64))),
        ("name", json!(3)),
        ("prompt_template_name", json!("")),
        ("output_type", json!(["x"])),
        ("document_key", json!("é")),
        ("file_type", json!("pdf")),
        ("content_to_include", json!("title")),
        ("content_to_include", json!([1])),
        ("content_order", json!(["title"])),
        ("content_order", json!("title")),
        ("needs", json!("header")),
        ("needs", json!({})),
        ("isolated_by", json!(true)),
        ("inputs_required", json!({})),
        ("inputs_required", json!(null)),
        ("name", json!("a\u{0}b")),
        ("job_type", json!("combine")),
    ];
    for (field, value) in step {
        let label = if field == "key" { "#2" } else { "write" };
        is_unreadable(&spoilt("/steps/1", field, value), label, field, "");
    }
    let input = [
        ("type", json!(null)),
        ("stage", json!(1)),
        ("part", json!("body")),
        ("part", json!("/a~2")),
        ("origin_type", json!("A")),
        ("from_models", json!("some")),
        ("required", json!("yes")),
        ("multiple", json!(1)),
        ("relevance", json!(-0.1)),
        ("relevance", json!(1.01)),
        ("relevance", json!("high")),
        ("previous_iteration", json!([])),
    ];
    for (field, value) in input {
        let at = format!("inputs_required[0].{field}");
        is_unreadable(&spoilt("/steps/1/inputs_required/0", field, value), "write", &at, "");
    }
    is_unreadable(&spoilt("/steps/1", "needs", json!(["header", "header"])), "write", "needs[1]", "twice");
}

#[test]
fn a_recipe_without_a_list_of_steps_is_refused() {
    let many = vec![sound()["steps"][0].clone(); 1001];
    let hostile = [
        json!(null),
        json!([]),
        json!("x"),
        json!({}),
        json!({"steps": {}}),
        json!({"steps": []}),
        json!({"steps": null}),
        json!({"steps": many}),
    ];
    for value in hostile {
        let problems = Recipe::parse(&value).unwrap_err();
        assert_eq!((problems.0.len(), problems.0[0].step.as_deref()), (1, None), "{problems}");
    }
}

#[test]
fn hostile_size_and_depth_are_refused_in_few_words() {
    let deep = (0..100).fold(json!({}), |inner, _| json!([inner]));
    is_unreadable(
        &spoilt("/steps/1", "content_to_include", json!({"a": deep})),
        "write",
        "content_to_include",
        "deeper",
    );
    let long = "x".repeat(1_000_000);
    let problems = Recipe::parse(&spoilt("/steps/1", &long, json!(long))).unwrap_err();
    assert!(problems.to_string().len() < 300);
    let inputs = vec![json!({"type": "seed_prompt"}); 201];
    is_unreadable(&spoilt("/steps/1", "inputs_required", json!(inputs)), "write", "inputs_required", "200");
}

fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z_]{0,8}".prop_map(Value::from),
        ".*".prop_map(Value::from),
        prop::sample::select(vec!["seed_prompt", "plan", "execute", "all_to_one", "header", "write", "header_context"])
            .prop_map(Value::from),
    ];
    let names = prop_oneof![
        prop::sample::select(vec!["steps", "key", "inputs_required", "type", "needs", "part"]).prop_map(str::to_owned),
        ".{0,6}"
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::hash_map(names.clone(), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
    .boxed()
}

proptest! {
    #[test]
    fn reading_never_panics(value in any_json()) {
        let _ = Recipe::parse(&value);
        let _ = Recipe::parse(&json!({"steps": [value]}));
    }

    #[test]
    fn a_recipe_spoilt_anywhere_is_read_or_refused(step in 0usize..3, field in 0usize..9, value in any_json()) {
        let fields = ["key", "needs", "inputs_required", "output_type", "document_key", "granularity_strategy", "job_type", "content_to_include", "step"];
        let recipe = spoilt(&format!("/steps/{step}"), fields[field], value);
        if let Ok(recipe) = Recipe::parse(&recipe) {
            let _ = recipe.validate(&Context::default());
            prop_assert_eq!(recipe.order().len(), 3);
            prop_assert_eq!(read(&recipe.to_value()).to_value(), recipe.to_value());
        }
    }
}

/// A database that sorts keys must not decide in which order a model is asked for them.
#[test]
fn the_order_of_what_is_asked_for_is_kept_and_names_only_what_is_there() {
    let value = spoilt("/steps/1", "content_to_include", json!({"a": "", "b": "", "c": ""}));
    let ordered = |order: Value| {
        let mut value = value.clone();
        value["steps"][1]["content_order"] = order;
        Recipe::parse(&value)
    };
    let recipe = ordered(json!(["c", "a"])).unwrap();
    assert_eq!(recipe.steps[1].content_keys(), ["c", "a", "b"]);
    assert_eq!(recipe.to_value()["steps"][1]["content_order"], json!(["c", "a", "b"]));
    blames(&ordered(json!(["c", "d"])).unwrap_err(), "write", "content_order", "lacks");
}
