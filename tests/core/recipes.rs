//! Laws of recipes: what is read, what is refused, and that a refusal names the step and the field.
//!
//! Each law starts from one sound recipe and spoils one thing in it. Never checks wording beyond the names a user needs
//! to find the fault.

use dialectic_core::recipe::{Context, FileType, FromModels, Problem, Problems, Recipe, Strategy};
use serde_json::{Value, json};

#[path = "recipes/form.rs"]
mod form;
#[path = "recipes/soundness.rs"]
mod soundness;

#[path = "recipes/shipped.rs"]
mod shipped;

/// A header, a document that follows it, and a summary of all documents.
fn sound() -> Value {
    json!({"steps": [
        {"step": 1, "key": "header", "job_type": "plan", "prompt_template_name": "header", "granularity_strategy": "all_to_one",
         "inputs_required": [{"type": "seed_prompt"}], "output_type": "header_context",
         "content_to_include": {"context_for_documents": [{"document_key": "essay"}]}},
        {"step": 2, "key": "write", "job_type": "execute", "prompt_template_name": "write", "granularity_strategy": "per_source_document",
         "inputs_required": [{"type": "header_context"}, {"type": "seed_prompt", "relevance": 0.5}],
         "output_type": "document", "document_key": "essay", "content_to_include": ["title", "body"]},
        {"step": 3, "key": "sum", "job_type": "execute", "prompt_template_name": "sum", "granularity_strategy": "all_to_one",
         "inputs_required": [{"type": "document", "document_key": "essay", "part": "/body"}], "output_type": "summary"},
    ]})
}

fn spoilt(pointer: &str, name: &str, value: Value) -> Value {
    let mut recipe = sound();
    let fields = recipe.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
    fields.insert(name.to_owned(), value);
    recipe
}

fn read(value: &Value) -> Recipe {
    Recipe::parse(value).unwrap_or_else(|problems| panic!("{problems}"))
}

#[track_caller]
fn blames(problems: &Problems, step: &str, field: &str, word: &str) {
    let hit = |problem: &&Problem| {
        problem.step.as_deref() == Some(step) && problem.field == field && problem.message.contains(word)
    };
    assert!(problems.0.iter().any(|problem| hit(&problem)), "{problems:?} does not blame {step} {field} for {word}");
}

#[track_caller]
fn is_unreadable(value: &Value, step: &str, field: &str, word: &str) {
    blames(&Recipe::parse(value).expect_err("must be refused"), step, field, word);
}

#[track_caller]
fn is_unsound(value: &Value, context: &Context, step: &str, field: &str, word: &str) {
    let problems = read(value).validate(context).expect_err("must be refused");
    blames(&problems, step, field, word);
}

#[track_caller]
fn is_refused(value: &Value, step: &str, field: &str, word: &str) {
    is_unsound(value, &Context::default(), step, field, word);
}

fn needs(recipe: &Recipe, step: &str) -> Vec<(String, FromModels)> {
    let step = recipe.steps.iter().find(|candidate| candidate.key == step).unwrap();
    step.needs.iter().map(|need| (need.step.clone(), need.models)).collect()
}

#[test]
fn a_sound_recipe_is_accepted() {
    read(&sound()).validate(&Context::default()).unwrap();
}

#[test]
fn absent_fields_have_documented_defaults() {
    let recipe = read(&sound());
    let [header, write, sum] = recipe.steps.as_slice() else { panic!() };
    assert_eq!((write.name.as_str(), write.file_type), ("write", FileType::Markdown));
    assert_eq!(header.file_type, FileType::Json);
    assert_eq!(write.inputs_required[0].from_models, FromModels::Own);
    assert_eq!(write.inputs_required[1].from_models, FromModels::All);
    let input = &sum.inputs_required[0];
    assert!(input.required && !input.multiple && !input.previous_iteration);
    assert_eq!((input.relevance, input.part.as_deref()), (1.0, Some("/body")));
}

#[test]
fn a_step_per_model_reads_its_own_unless_it_says_all() {
    let recipe = read(&spoilt("/steps/2", "granularity_strategy", json!("per_model")));
    assert_eq!(recipe.steps[2].inputs_required[0].from_models, FromModels::Own);
    assert_eq!(needs(&recipe, "sum"), [("write".to_owned(), FromModels::Own)]);
}

#[test]
fn a_missing_relevance_is_never_zero() {
    for relevance in [json!(null), json!(1)] {
        let recipe = read(&spoilt("/steps/0/inputs_required/0", "relevance", relevance));
        assert_eq!(recipe.steps[0].inputs_required[0].relevance, 1.0);
    }
}

#[test]
fn feedback_and_the_previous_iteration_are_optional_unless_required() {
    let mut value = sound();
    let inputs = value.pointer_mut("/steps/2/inputs_required").unwrap().as_array_mut().unwrap();
    inputs.push(json!({"type": "user_feedback"}));
    inputs.push(json!({"type": "summary", "previous_iteration": true}));
    inputs.push(json!({"type": "user_feedback", "required": true}));
    let recipe = read(&value);
    recipe.validate(&Context::default()).unwrap();
    let required: Vec<bool> = recipe.steps[2].inputs_required.iter().map(|input| input.required).collect();
    assert_eq!(required, [true, false, false, true]);
}

#[test]
fn needs_follow_from_inputs() {
    let recipe = read(&sound());
    assert_eq!(needs(&recipe, "header"), []);
    assert_eq!(needs(&recipe, "write"), [("header".to_owned(), FromModels::Own)]);
    assert_eq!(needs(&recipe, "sum"), [("write".to_owned(), FromModels::All)]);
}

#[test]
fn a_step_read_from_all_models_by_any_input_is_needed_from_all() {
    let inputs = json!([{"type": "document"}, {"type": "document", "from_models": "own"}]);
    let recipe = read(&spoilt("/steps/2", "inputs_required", inputs));
    assert_eq!(needs(&recipe, "sum"), [("write".to_owned(), FromModels::All)]);
}

#[test]
fn given_needs_are_own_unless_an_input_says_all() {
    let recipe = read(&spoilt("/steps/2", "needs", json!(["header", "write"])));
    let expected = [("header".to_owned(), FromModels::Own), ("write".to_owned(), FromModels::All)];
    assert_eq!(needs(&recipe, "sum"), expected);
}

#[test]
fn steps_run_after_what_they_need_and_otherwise_as_written() {
    let mut value = sound();
    value["steps"].as_array_mut().unwrap().reverse();
    let recipe = read(&value);
    let keys: Vec<&str> = recipe.order().iter().map(|step| step.key.as_str()).collect();
    assert_eq!(keys, ["header", "write", "sum"]);
}

#[test]
fn what_is_written_out_reads_back_the_same() {
    let shipped = shipped::PROCESSES.into_iter().flat_map(shipped::stages);
    for recipe in shipped.map(|(_, recipe)| recipe).chain([read(&sound())]) {
        let again = read(&recipe.to_value());
        assert_eq!(again.to_value(), recipe.to_value());
        assert_eq!(serde_json::to_value(&recipe).unwrap(), recipe.to_value());
        let from_serde: Recipe = serde_json::from_value(recipe.to_value()).unwrap();
        assert_eq!(from_serde, again);
        for (one, other) in recipe.steps.iter().zip(&again.steps) {
            assert_eq!(one.needs, other.needs);
        }
    }
    assert_eq!(read(&sound()).to_value()["steps"][2]["needs"], json!(["write"]));
}

#[test]
fn a_step_isolated_by_a_setting_reads_all_at_once_when_it_is_off() {
    let recipe = read(&spoilt("/steps/1", "isolated_by", json!("isolation")));
    let on = recipe.clone().with_isolation(|key| key == "isolation");
    let off = recipe.clone().with_isolation(|_| false);
    assert_eq!(on, recipe);
    assert_eq!(off.steps[1].granularity_strategy, Strategy::AllToOne);
}

#[test]
fn a_recipe_is_read_in_its_stage() {
    let value = spoilt("/steps/2/inputs_required/0", "stage", json!("thesis"));
    let context = Context { stage: Some("thesis".to_owned()), ..Context::default() };
    is_unsound(&value, &context, "sum", "inputs_required[0].stage", "thesis");
    let settled = read(&value).at_stage("thesis");
    settled.validate(&context).unwrap();
    assert_eq!(settled.to_value(), read(&sound()).to_value());
}
