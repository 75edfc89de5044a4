//! Laws of planning the shipped dialectic: its calls, its documents, and what every job of it reads.
//!
//! All five stages are planned in a chain, each over what the earlier ones would have produced. Never looks at shapes or
//! prompts.

use std::collections::BTreeSet;

use dialectic_core::plan::{Child, Source, plan};
use dialectic_core::recipe::{FileType, Recipe};
use serde_json::json;

use super::{Run, models, shipped, source};

const DIALECTIC: &str = include_str!("../../../sql/seed/processes/dialectic.json");
const PROPOSAL: [&str; 4] = ["business_case", "feature_spec", "technical_approach", "success_metrics"];

fn process() -> Vec<(String, Recipe)> {
    shipped(DIALECTIC)
}

fn run(n: usize) -> Run {
    Run::of(&process(), &models(n))
}

/// A job reads these roles, each so many times, and nothing else.
#[track_caller]
fn reads(child: &Child, expected: &[(&str, usize)]) {
    let roles: BTreeSet<&str> = child.inputs.iter().map(|input| input.role.as_str()).collect();
    assert_eq!(roles, expected.iter().map(|(role, _)| *role).collect(), "{}", child.step_key);
    for (role, times) in expected {
        let found = child.inputs.iter().filter(|input| input.role == *role).count();
        assert_eq!(found, *times, "{} reads {role}", child.step_key);
    }
}

fn is_by(source: &Source, child: &Child) -> bool {
    source.model.as_ref() == Some(&child.model)
}

#[test]
fn a_dialectic_by_n_models_takes_the_documented_calls() {
    for (n, calls, rendered) in [(1, 33, 18), (2, 104, 46), (3, 237, 84)] {
        let run = run(n);
        assert_eq!(run.count("thesis"), 5 * n);
        assert_eq!(run.count("antithesis"), 7 * n * n);
        assert_eq!(run.count("synthesis"), 4 * n * n * n + 9 * n);
        assert_eq!(run.count("parenthesis"), 4 * n);
        assert_eq!(run.count("paralysis"), 4 * n);
        assert_eq!(run.stages.values().map(Vec::len).sum::<usize>(), calls);
        let process = process();
        let steps = process.iter().flat_map(|(slug, recipe)| recipe.steps.iter().map(move |step| (slug, step)));
        let markdown = steps.filter(|(_, step)| step.file_type == FileType::Markdown);
        let documents: usize = markdown.map(|(slug, step)| run.step(slug, &step.key).len()).sum();
        assert_eq!((documents, 5 * n * n + 13 * n), (rendered, rendered));
    }
}

#[test]
fn a_proposal_follows_the_header_that_starts_its_lineage() {
    let run = run(3);
    for header in run.step("thesis", "thesis_header") {
        assert!(header.starts_lineage);
        reads(header, &[("seed_prompt", 1)]);
    }
    for document in run.stages["thesis"].iter().filter(|child| child.step_key != "thesis_header") {
        let header = run.read_one(document, "header_context");
        assert!(is_by(header, document));
        assert_eq!((&document.lineage_id, document.starts_lineage), (&header.lineage_id, false));
        assert_eq!((&document.lineage_id.as_ref(), &document.reviewer), (&Some(&header.id), &None));
        reads(document, &[("header_context", 1), ("seed_prompt", 1)]);
    }
}

#[test]
fn a_review_reads_one_proposal_and_its_documents_the_header_of_that_review() {
    let run = run(3);
    let mut reviewed = BTreeSet::new();
    for header in run.step("antithesis", "review_header") {
        let mut expected = vec![("seed_prompt", 1)];
        expected.extend(PROPOSAL.map(|key| (key, 1)));
        reads(header, &expected);
        for key in PROPOSAL {
            assert_eq!(run.read_one(header, key).lineage_id, header.lineage_id);
        }
        assert_eq!(header.reviewer.as_ref(), Some(&header.model));
        reviewed.insert((header.model.clone(), header.lineage_id.clone()));
    }
    assert_eq!(reviewed.len(), 9, "every model reviews every proposal, its own included");
    for critique in run.stages["antithesis"].iter().filter(|child| child.step_key != "review_header") {
        let header = run.read_one(critique, "header_context");
        assert!(is_by(header, critique));
        assert_eq!((&critique.lineage_id, &critique.reviewer), (&header.lineage_id, &header.reviewer));
        let mut expected = vec![("header_context", 1)];
        expected.extend(PROPOSAL.map(|key| (key, 1)));
        reads(critique, &expected);
        for key in PROPOSAL {
            assert_eq!(run.read_one(critique, key).lineage_id, critique.lineage_id);
        }
    }
}

#[test]
fn a_pair_reads_one_original_and_what_one_reviewer_said_of_it() {
    let run = run(3);
    let pairs: [(&str, &[&str]); 4] = [
        ("business_case", &["business_case_critique", "comparison_vector"]),
        ("feature_spec", &["technical_feasibility_assessment", "non_functional_requirements", "comparison_vector"]),
        ("technical_approach", &["risk_register", "dependency_map"]),
        ("success_metrics", &["business_case_critique", "comparison_vector"]),
    ];
    for (key, said) in pairs {
        let mut seen = BTreeSet::new();
        for pair in run.step("synthesis", &format!("pairwise_{key}")) {
            assert!(is_by(run.read_one(pair, "pairwise_header"), pair));
            let original = run.read_one(pair, key);
            assert_eq!(pair.lineage_id, original.lineage_id);
            for role in said {
                let critique = run.read_one(pair, role);
                assert_eq!((&critique.lineage_id, &critique.reviewer), (&original.lineage_id, &pair.reviewer));
            }
            assert_eq!(pair.inputs.len(), 2 + said.len());
            seen.insert((pair.model.clone(), pair.lineage_id.clone(), pair.reviewer.clone()));
        }
        assert_eq!(seen.len(), 27, "{key}");
    }
}

#[test]
fn what_merges_lineages_has_none() {
    let run = run(3);
    for header in run.step("synthesis", "pairwise_header") {
        assert_eq!((&header.lineage_id, header.starts_lineage, header.inputs.len()), (&None, false, 1 + 4 * 3 + 6 * 9));
    }
    for key in PROPOSAL {
        for merged in run.step("synthesis", &format!("document_{key}")) {
            reads(merged, &[(&format!("pairwise_{key}"), 27)]);
            assert_eq!((&merged.lineage_id, merged.starts_lineage, &merged.reviewer), (&None, false, &None));
        }
    }
}

#[test]
fn only_reviews_and_pairs_speak_for_a_reviewer() {
    for n in 1..=3 {
        for (stage, children) in &run(n).stages {
            for child in children {
                let speaks =
                    stage == "antithesis" || child.step_key.starts_with("pairwise_") && child.group_key != "all";
                assert_eq!(child.reviewer.is_some(), speaks, "{} of {n} models", child.step_key);
            }
        }
    }
}

#[test]
fn the_final_documents_read_every_merged_document_and_their_own_second_header() {
    let run = run(3);
    for key in ["product_requirements", "system_architecture", "tech_stack"] {
        for last in run.step("synthesis", key) {
            let header = run.read_one(last, "final_header");
            assert!(is_by(header, last));
            assert_eq!(header.document_key.as_deref(), Some("final_header"));
            assert!(run.read(last, "pairwise_header").is_empty());
            for part in PROPOSAL {
                assert_eq!(run.read(last, &format!("document_{part}")).len(), 3);
            }
            assert_eq!(last.inputs.len(), 13);
        }
    }
}

#[test]
fn planning_and_implementation_read_their_own_and_headers_and_advice_read_all() {
    let run = run(3);
    let own: [(&str, &str, &[&str]); 5] = [
        ("parenthesis", "technical_requirements", &["system_architecture", "tech_stack", "product_requirements"]),
        ("parenthesis", "master_plan", &["technical_requirements", "product_requirements"]),
        ("parenthesis", "milestone_schema", &["master_plan", "system_architecture", "technical_requirements"]),
        ("paralysis", "actionable_checklist", &["technical_requirements", "master_plan", "milestone_schema"]),
        ("paralysis", "updated_master_plan", &["master_plan", "milestone_schema", "actionable_checklist"]),
    ];
    for (stage, step, roles) in own {
        for document in run.step(stage, step) {
            for role in roles.iter().chain(&["header_context"]) {
                assert!(is_by(run.read_one(document, role), document), "{step} reads {role}");
            }
            assert_eq!(document.inputs.len(), roles.len() + 1);
        }
    }
    for header in run.step("parenthesis", "planning_header") {
        reads(
            header,
            &[("seed_prompt", 1), ("product_requirements", 3), ("system_architecture", 3), ("tech_stack", 3)],
        );
    }
    for header in run.step("paralysis", "implementation_header") {
        let plans = [("technical_requirements", 3), ("master_plan", 3), ("milestone_schema", 3)];
        reads(header, &[&[("seed_prompt", 1)], &plans[..]].concat());
    }
    for advice in run.step("paralysis", "advisor_recommendations") {
        let plans = [("product_requirements", 3), ("updated_master_plan", 3)];
        reads(advice, &[&[("initial_user_prompt", 1), ("header_context", 1)], &plans[..]].concat());
        assert!(is_by(run.read_one(advice, "header_context"), advice));
    }
}

#[test]
fn a_later_iteration_reads_its_own_earlier_plan_and_what_was_said_of_it() {
    let (slug, recipe) = process().into_iter().find(|(slug, _)| slug == "parenthesis").unwrap();
    let mut sources: Vec<Source> = run(2).artifacts.into_values().collect();
    for model in models(2) {
        sources.push(source(json!({
            "id": format!("old-{model}"), "type": "master_plan", "document_key": "master_plan", "stage": slug,
            "model": model, "lineage_id": "old", "previous_iteration": true,
        })));
    }
    let said = |id: &str, stage: &str, previous: bool| {
        source(json!({"id": id, "type": "user_feedback", "stage": stage, "previous_iteration": previous}))
    };
    sources.extend([said("of design", "synthesis", false), said("of plan", &slug, true)]);
    sources.retain(|source| {
        source.stage.as_deref() != Some("parenthesis") || source.previous_iteration || source.model.is_none()
    });
    let children = plan(&recipe, Some(&slug), &sources, &models(2)).unwrap();
    for child in children {
        let read: Vec<&str> = child.inputs.iter().map(|input| input.artifact.as_str()).collect();
        let continues = ["planning_header", "master_plan"].contains(&child.step_key.as_str());
        assert_eq!(read.contains(&format!("old-{}", child.model).as_str()), continues, "{}", child.step_key);
        assert_eq!(read.iter().filter(|id| id.starts_with("old-")).count(), usize::from(continues));
        assert!(read.contains(&"of plan"), "{}", child.step_key);
        assert_eq!(read.contains(&"of design"), child.step_key == "planning_header");
    }
}
