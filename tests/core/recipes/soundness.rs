//! Laws of sound recipes: each fault that validation knows, one law each.
//!
//! Each spoils one thing in a sound recipe and looks for the step and the field that are blamed.

use dialectic_core::recipe::{Context, Output};
use serde_json::json;

use super::{is_refused, is_unsound, read, sound, spoilt};

#[test]
fn two_steps_of_one_key_are_refused() {
    is_refused(&spoilt("/steps/2", "key", json!("write")), "write", "key", "write");
}

#[test]
fn two_producers_of_one_document_are_refused() {
    let mut value = spoilt("/steps/2", "output_type", json!("document"));
    value["steps"][2]["document_key"] = json!("essay");
    is_refused(&value, "sum", "document_key", "write already");
}

#[test]
fn an_unknown_template_is_refused_once_templates_are_known() {
    let templates = ["header", "sum"].map(str::to_owned).into();
    let context = Context { templates: Some(templates), ..Context::default() };
    is_unsound(&sound(), &context, "write", "prompt_template_name", "write");
}

#[test]
fn a_step_that_nobody_feeds_is_refused() {
    is_refused(
        &spoilt("/steps/2/inputs_required/0", "type", json!("letter")),
        "sum",
        "inputs_required[0].type",
        "letter",
    );
    is_refused(
        &spoilt("/steps/2/inputs_required/0", "document_key", json!("poem")),
        "sum",
        "inputs_required[0].document_key",
        "poem",
    );
}

#[test]
fn an_input_that_no_earlier_stage_produces_is_refused_once_they_are_known() {
    let value = spoilt("/steps/2/inputs_required/0", "stage", json!("thesis"));
    read(&value).validate(&Context::default()).unwrap();
    let offers = |stage: &str, key: &str| Context {
        upstream: Some(vec![Output {
            stage: stage.to_owned(),
            output_type: "document".to_owned(),
            document_key: Some(key.to_owned()),
        }]),
        ..Context::default()
    };
    read(&value).validate(&offers("thesis", "essay")).unwrap();
    is_unsound(&value, &offers("thesis", "poem"), "sum", "inputs_required[0].document_key", "essay");
    is_unsound(&value, &offers("prelude", "essay"), "sum", "inputs_required[0].stage", "thesis");
}

#[test]
fn a_step_that_feeds_itself_is_refused() {
    is_refused(
        &spoilt("/steps/2", "inputs_required", json!([{"type": "summary"}])),
        "sum",
        "inputs_required[0].type",
        "itself",
    );
}

#[test]
fn a_cycle_is_refused_with_its_steps_in_order() {
    let mut value = sound();
    value["steps"][0]["inputs_required"] = json!([{"type": "summary"}]);
    is_refused(&value, "header", "needs", "header needs sum needs write needs header");
    is_refused(&spoilt("/steps/1", "needs", json!(["header", "write"])), "write", "needs", "write needs write");
}

#[test]
fn an_unknown_need_is_refused() {
    is_refused(&spoilt("/steps/2", "needs", json!(["write", "edit"])), "sum", "needs[1]", "edit");
}

#[test]
fn needs_that_leave_out_a_producer_are_refused() {
    is_refused(&spoilt("/steps/2", "needs", json!(["header"])), "sum", "needs", "write");
}

#[test]
fn a_pair_without_a_critique_or_an_original_is_refused() {
    let mut value = spoilt("/steps/2", "granularity_strategy", json!("pairwise_by_origin"));
    is_refused(&value, "sum", "inputs_required", "origin_type");
    value["steps"][2]["inputs_required"][0]["origin_type"] = json!("thesis");
    is_refused(&value, "sum", "inputs_required[0].origin_type", "no other");
    // What the user said of the original is not the original.
    let inputs = value["steps"][2]["inputs_required"].as_array_mut().unwrap();
    inputs.push(json!({"type": "user_feedback", "document_key": "thesis"}));
    is_refused(&value, "sum", "inputs_required[0].origin_type", "no other");
    value["steps"][2]["inputs_required"][1] = json!({"type": "general_resource", "document_key": "thesis"});
    read(&value).validate(&Context::default()).unwrap();
}

#[test]
fn a_step_cannot_fan_out_over_prompts() {
    for strategy in ["per_source_document", "per_source_document_by_lineage", "per_source_group"] {
        let mut value = spoilt("/steps/0", "granularity_strategy", json!(strategy));
        value["steps"][0]["inputs_required"] =
            json!([{"type": "seed_prompt"}, {"type": "initial_user_prompt"}, {"type": "user_feedback"}]);
        is_refused(&value, "header", "inputs_required", strategy);
        value["steps"][0]["inputs_required"] = json!([{"type": "seed_prompt"}, {"type": "reference_documents"}]);
        read(&value).validate(&Context::default()).unwrap();
    }
}

#[test]
fn headers_come_from_plan_steps_and_from_no_others() {
    is_refused(&spoilt("/steps/0", "output_type", json!("outline")), "header", "output_type", "header_context");
    is_refused(&spoilt("/steps/2", "output_type", json!("header_context")), "sum", "output_type", "plan");
    is_refused(&spoilt("/steps/2", "output_type", json!("seed_prompt")), "sum", "output_type", "user");
}

#[test]
fn a_header_must_prepare_every_document_that_follows_it() {
    for listed in [json!(["poem"]), json!([{"document_key": "poem"}])] {
        let value = spoilt("/steps/0/content_to_include", "context_for_documents", listed);
        is_refused(&value, "header", "content_to_include", "essay");
    }
    let value = spoilt("/steps/0/content_to_include", "context_for_documents", json!(["essay", 3]));
    is_refused(&value, "header", "content_to_include", "no document_key");
    read(&spoilt("/steps/0", "content_to_include", json!(["context_for_documents"])))
        .validate(&Context::default())
        .unwrap();
}
