//! The calls of the process and what each of them reads, written out from the standard process and from nothing else.

use std::collections::{BTreeMap, BTreeSet};

/// One call: its step, the model that is asked, whose proposal it is about, whose review it rests on, and in which iteration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) step: String,
    pub(super) model: String,
    pub(super) about: Option<String>,
    pub(super) reviewer: Option<String>,
    pub(super) iteration: i32,
}

/// Each call with the calls whose answers its prompt must hold; it must hold no other.
pub(super) type Reading = BTreeMap<Call, BTreeSet<Call>>;

pub(super) const PROPOSAL: [&str; 4] = ["business_case", "feature_spec", "technical_approach", "success_metrics"];
const REVIEW: [&str; 6] = [
    "business_case_critique",
    "technical_feasibility_assessment",
    "risk_register",
    "non_functional_requirements",
    "dependency_map",
    "comparison_vector",
];
/// What of a review a part of the proposal is weighed against.
const PAIRED: [(&str, &[&str]); 4] = [
    ("business_case", &["business_case_critique", "comparison_vector"]),
    ("feature_spec", &["technical_feasibility_assessment", "non_functional_requirements", "comparison_vector"]),
    ("technical_approach", &["risk_register", "dependency_map"]),
    ("success_metrics", &["business_case_critique", "comparison_vector"]),
];
const REFINED: [&str; 3] = ["product_requirements", "system_architecture", "tech_stack"];
const PLANS: [&str; 3] = ["technical_requirements", "master_plan", "milestone_schema"];

/// The steps that read the brief of their stage; no other prompt holds it.
pub(super) const BRIEFED: [&str; 10] = [
    "thesis_header",
    "business_case",
    "feature_spec",
    "technical_approach",
    "success_metrics",
    "review_header",
    "pairwise_header",
    "final_header",
    "planning_header",
    "implementation_header",
];

pub(super) fn call(step: &str, model: &str) -> Call {
    Call { step: step.to_owned(), model: model.to_owned(), about: None, reviewer: None, iteration: 1 }
}

/// What a reviewer writes about the proposal of an author.
fn review(step: &str, reviewer: &str, author: &str) -> Call {
    Call { about: Some(author.to_owned()), reviewer: Some(reviewer.to_owned()), ..call(step, reviewer) }
}

/// What a model makes of the proposal of an author and the review of a reviewer.
fn pair(step: &str, model: &str, author: &str, reviewer: &str) -> Call {
    Call { about: Some(author.to_owned()), reviewer: Some(reviewer.to_owned()), ..call(step, model) }
}

/// These steps by all of these models.
fn by_all(steps: &[&str], models: &[&str]) -> Vec<Call> {
    models.iter().flat_map(|model| steps.iter().map(|step| call(step, model))).collect()
}

fn by(steps: &[&str], model: &str) -> Vec<Call> {
    by_all(steps, &[model])
}

/// All calls of the first iteration.
pub(super) fn first_iteration(models: &[&str]) -> Reading {
    let mut reading = Reading::new();
    for model in models {
        proposal(&mut reading, model);
        for author in models {
            review_of(&mut reading, model, author);
        }
        refinement(&mut reading, model, models);
        planning(&mut reading, model, models);
        implementation(&mut reading, model, models);
    }
    reading
}

fn add(reading: &mut Reading, call: Call, reads: impl IntoIterator<Item = Call>) {
    let reads = reads.into_iter().collect();
    assert!(reading.insert(call.clone(), reads).is_none(), "{call:?} twice");
}

fn proposal(reading: &mut Reading, model: &str) {
    add(reading, call("thesis_header", model), []);
    for step in PROPOSAL {
        add(reading, call(step, model), [call("thesis_header", model)]);
    }
}

fn review_of(reading: &mut Reading, model: &str, author: &str) {
    let header = review("review_header", model, author);
    add(reading, header.clone(), by(&PROPOSAL, author));
    for step in REVIEW {
        add(reading, review(step, model, author), by(&PROPOSAL, author).into_iter().chain([header.clone()]));
    }
}

fn refinement(reading: &mut Reading, model: &str, models: &[&str]) {
    let pairs = || models.iter().flat_map(|author| models.iter().map(move |reviewer| (*author, *reviewer)));
    let reviews = pairs().flat_map(|(author, reviewer)| REVIEW.map(|step| review(step, reviewer, author)));
    add(reading, call("pairwise_header", model), by_all(&PROPOSAL, models).into_iter().chain(reviews));
    for (part, critiques) in PAIRED {
        let step = format!("pairwise_{part}");
        for (author, reviewer) in pairs() {
            let critiques = critiques.iter().map(|critique| review(critique, reviewer, author));
            let reads = [call("pairwise_header", model), call(part, author)];
            add(reading, pair(&step, model, author, reviewer), reads.into_iter().chain(critiques));
        }
        let everybody = models
            .iter()
            .flat_map(|other| pairs().map(|(author, reviewer)| pair(&step, other, author, reviewer)))
            .collect::<Vec<_>>();
        add(reading, call(&format!("document_{part}"), model), everybody);
    }
    let merged = || PROPOSAL.iter().flat_map(|part| by_all(&[&format!("document_{part}")], models));
    add(reading, call("final_header", model), merged());
    for step in REFINED {
        add(reading, call(step, model), merged().chain([call("final_header", model)]));
    }
}

fn planning(reading: &mut Reading, model: &str, models: &[&str]) {
    add(reading, call("planning_header", model), by_all(&REFINED, models));
    for (step, reads) in [
        ("technical_requirements", ["system_architecture", "tech_stack", "product_requirements"].as_slice()),
        ("master_plan", &["technical_requirements", "product_requirements"]),
        ("milestone_schema", &["master_plan", "system_architecture", "technical_requirements"]),
    ] {
        add(reading, call(step, model), by(reads, model).into_iter().chain([call("planning_header", model)]));
    }
}

fn implementation(reading: &mut Reading, model: &str, models: &[&str]) {
    let header = call("implementation_header", model);
    add(reading, header.clone(), by_all(&PLANS, models));
    add(reading, call("actionable_checklist", model), by(&PLANS, model).into_iter().chain([header.clone()]));
    let reads = by(&["master_plan", "milestone_schema", "actionable_checklist"], model);
    add(reading, call("updated_master_plan", model), reads.into_iter().chain([header.clone()]));
    let reads = by_all(&["product_requirements", "updated_master_plan"], models);
    add(reading, call("advisor_recommendations", model), reads.into_iter().chain([header]));
}

/// The calls of a second iteration of the last two stages: they read each other and, of the first, the refinement and what
/// their model planned before.
pub(super) fn second_planning(models: &[&str]) -> Reading {
    let mut reading = Reading::new();
    for model in models {
        planning(&mut reading, model, models);
        implementation(&mut reading, model, models);
    }
    let again: BTreeSet<Call> = reading.keys().cloned().collect();
    let anew = |call: &Call| Call { iteration: 2, ..call.clone() };
    reading
        .into_iter()
        .map(|(call, reads)| {
            let mut reads: BTreeSet<Call> =
                reads.iter().map(|read| if again.contains(read) { anew(read) } else { read.clone() }).collect();
            let before: &[&str] = match call.step.as_str() {
                "planning_header" => &["master_plan"],
                "implementation_header" => &["actionable_checklist", "updated_master_plan"],
                step => &[step],
            };
            reads.extend(by(before, &call.model));
            (anew(&call), reads)
        })
        .collect()
}
