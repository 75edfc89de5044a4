//! Laws of the recipes that ship: sound stage after stage, written in the order they run, and each step with the shape of
//! its answer.
//!
//! Looks at `sql/seed/processes` as it is. Never at the wording of a hint.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use dialectic_core::recipe::{Context, FileType, HEADER_CONTEXT, JobType, Origin, Recipe, Step};
use serde_json::Value;

use super::read;

const ESSAY: &str = include_str!("../../../sql/seed/processes/essay.json");
const DIALECTIC: &str = include_str!("../../../sql/seed/processes/dialectic.json");
pub(super) const PROCESSES: [&str; 2] = [ESSAY, DIALECTIC];

pub(super) fn stages(process: &str) -> Vec<(String, Recipe)> {
    let process: Value = serde_json::from_str(process).unwrap();
    let stages = process["stages"].as_array().unwrap().iter();
    stages.map(|stage| (stage["slug"].as_str().unwrap().to_owned(), read(&stage["recipe"]))).collect()
}

fn templates() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sql/seed/prompts");
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.trim_end_matches(".md.j2").to_owned()).collect()
}

#[test]
fn the_shipped_recipes_are_sound_stage_after_stage() {
    for process in PROCESSES {
        let mut upstream = Vec::new();
        for (slug, recipe) in stages(process) {
            let context =
                Context { upstream: Some(upstream.clone()), stage: Some(slug.clone()), templates: Some(templates()) };
            recipe.validate(&context).unwrap_or_else(|problems| panic!("{slug}: {problems:?}"));
            upstream.extend(recipe.outputs(&slug));
        }
    }
}

#[test]
fn the_shipped_recipes_are_written_in_the_order_they_run() {
    for (slug, recipe) in PROCESSES.into_iter().flat_map(stages) {
        let written: Vec<&str> = recipe.steps.iter().map(|step| step.key.as_str()).collect();
        let ordered: Vec<&str> = recipe.order().iter().map(|step| step.key.as_str()).collect();
        assert_eq!(written, ordered, "{slug}");
    }
}

#[test]
fn the_dialectic_has_the_documented_steps_and_their_conventions() {
    let steps: Vec<Step> = stages(DIALECTIC).into_iter().flat_map(|(_, recipe)| recipe.steps).collect();
    let keys: BTreeSet<&str> = steps.iter().map(|step| step.key.as_str()).collect();
    assert_eq!((steps.len(), keys.len()), (33, 33), "a key stands for one step in the whole process");
    for step in &steps {
        assert_eq!(step.prompt_template_name, format!("dialectic_{}", step.key));
        let json_only = step.key == "comparison_vector"
            || ["pairwise_", "document_"].iter().any(|prefix| step.key.starts_with(prefix));
        let expected = match step.job_type {
            JobType::Plan => (HEADER_CONTEXT, FileType::Json),
            JobType::Execute if json_only => (step.key.as_str(), FileType::Json),
            JobType::Execute => (step.key.as_str(), FileType::Markdown),
        };
        assert_eq!((step.output_type.as_str(), step.file_type), expected, "{}", step.key);
        if step.job_type == JobType::Execute {
            assert_eq!(step.document_key.as_ref(), Some(&step.key));
        }
    }
    assert_eq!(steps.iter().filter(|step| step.file_type == FileType::Markdown).count(), 18);
}

#[test]
fn feedback_attachments_and_the_iteration_before_are_optional_in_the_dialectic() {
    for (slug, recipe) in stages(DIALECTIC) {
        for step in &recipe.steps {
            for input in &step.inputs_required {
                let optional = input.r#type == "user_feedback"
                    || input.origin() == Origin::ProjectResource
                    || input.previous_iteration
                    || (step.key == "advisor_recommendations" && input.r#type == HEADER_CONTEXT);
                assert_eq!(input.required, !optional, "{slug} {} {}", step.key, input.r#type);
            }
        }
    }
}

/// A shape: texts are hints, a number is 0, a list shows its entry, an object its keys.
fn check(shape: &Value, place: &str) {
    match shape {
        Value::String(hint) => assert!(!hint.trim().is_empty() && hint.len() <= 240, "{place}: {hint}"),
        Value::Number(number) => assert_eq!(number.as_i64(), Some(0), "{place}"),
        Value::Object(fields) => fields.iter().for_each(|(key, shape)| check(shape, &format!("{place}.{key}"))),
        Value::Array(entries) => {
            let named = entries.iter().all(|entry| entry["document_key"].is_string());
            assert!(entries.len() == 1 || (entries.len() > 1 && named), "{place} does not show its entry");
            entries.iter().for_each(|entry| check(entry, &format!("{place}[]")));
        }
        Value::Null | Value::Bool(_) => panic!("{place}: {shape} is no shape"),
    }
}

#[test]
fn every_step_of_the_dialectic_shows_the_shape_of_its_answer() {
    for (slug, recipe) in stages(DIALECTIC) {
        for step in &recipe.steps {
            let shape = step.content_to_include.as_ref().unwrap_or_else(|| panic!("{} has no shape", step.key));
            assert!(shape.is_object() && !step.content_keys().is_empty());
            check(shape, &format!("{slug}.{}", step.key));
        }
    }
}

#[test]
fn a_header_plans_every_key_of_exactly_the_documents_that_follow_it() {
    for (slug, recipe) in stages(DIALECTIC) {
        for header in recipe.steps.iter().filter(|step| step.job_type == JobType::Plan) {
            let shape = header.content_to_include.as_ref().unwrap();
            let parts = header.content_keys();
            let reviews = parts.iter().any(|part| part == "review_metadata");
            assert_eq!((parts.len(), reviews), (2 + usize::from(reviews), slug == "antithesis"));
            assert_eq!(shape["system_materials"].as_object().unwrap().len(), 6);
            let readers: Vec<&Step> = recipe
                .steps
                .iter()
                .filter(|step| {
                    step.inputs_required.iter().any(|input| !input.previous_iteration && header.produces(input))
                })
                .collect();
            let planned = shape["context_for_documents"].as_array().unwrap();
            assert_eq!(planned.len(), readers.len(), "{}", header.key);
            for (entry, reader) in planned.iter().zip(readers) {
                assert_eq!(entry["document_key"], reader.key.as_str());
                let keys: Vec<&String> = entry["content_to_include"].as_object().unwrap().keys().collect();
                assert_eq!(keys, reader.content_keys().iter().collect::<Vec<_>>(), "{}", reader.key);
            }
        }
    }
}
