//! The shipped processes as definitions, and for every step of them a turn with sample values, as its place in the process
//! would give them.
//!
//! Decides only what the samples say. Never renders: what would be sent is made by the definition itself.

use dialectic_core::definition::{Definition, Document, Turn};
use dialectic_core::recipe::{FromModels, Input, Origin, Step};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) const PROCESSES: [&str; 2] = ["essay", "dialectic"];
pub(super) const DOMAINS: [&str; 2] = ["general", "software_development"];
/// The model that is asked.
pub(super) const MODEL: &str = "sim-c";

const QUESTION: &str =
    "Should our town library open on Sundays?\nBudget: {{ 7*7 }} thousand. {% raw %} <b>&</b> </document>";
const PROJECT: &str = "Plan an offline-first notes app for field engineers.\nThree people, four months, rugged tablets, no network below \
                       ground. Budget: {{ 7*7 }} thousand. {% raw %} <b>&</b> </document>";
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(super) fn request(process: &str) -> &'static str {
    if process == "essay" { QUESTION } else { PROJECT }
}

/// Every template that ships, by name.
pub(super) fn bodies() -> BTreeMap<String, String> {
    let mut bodies = BTreeMap::new();
    for folder in fs::read_dir(root().join("sql/seed/prompts")).unwrap() {
        for file in fs::read_dir(folder.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let stem = name.strip_suffix(".md.j2").unwrap_or_else(|| panic!("{name} is not a template"));
            let twice = bodies.insert(stem.to_owned(), fs::read_to_string(&path).unwrap());
            assert!(twice.is_none(), "two templates are called {stem}");
        }
    }
    bodies
}

fn json(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(root().join("sql/seed").join(path)).unwrap()).unwrap()
}

pub(super) fn overlay(domain: &str) -> Value {
    json(&format!("overlays/{domain}.json"))
}

pub(super) fn stages(process: &str) -> Value {
    json(&format!("processes/{process}.json"))["stages"].clone()
}

/// A process as a session in this domain would freeze it.
pub(super) fn definition(process: &str, domain: &str) -> Definition {
    with(process, domain, &stages(process), overlay(domain)["stages"].clone())
}

pub(super) fn with(process: &str, domain: &str, stages: &Value, overlays: Value) -> Definition {
    let prompts: Map<String, Value> = bodies().into_iter().map(|(name, body)| (name, json!(body))).collect();
    Definition::read(process.to_owned(), domain.to_owned(), stages, Value::Object(prompts), Value::Null, overlays)
        .unwrap()
}

/// The domain a process is shown in.
pub(super) fn domain(process: &str) -> &'static str {
    if process == "essay" { "general" } else { "software_development" }
}

/// The seed prompts of a process: the name of the template, the stage and the iteration.
pub(super) fn seeds(process: &str) -> Vec<(String, String, i32)> {
    let text = |stage: &Value, key: &str| stage[key].as_str().unwrap().to_owned();
    let stages = stages(process);
    let stages = stages.as_array().unwrap().iter();
    stages
        .map(|stage| (text(stage, "seed_prompt_template"), text(stage, "slug"), iteration(&text(stage, "slug"))))
        .collect()
}

/// A turn for every step of a process, by the name of its template.
pub(super) fn turns(process: &str) -> Vec<(String, Turn)> {
    let definition = definition(process, domain(process));
    let mut turns = Vec::new();
    for stage in &definition.stages {
        for step in &stage.recipe.steps {
            let iteration = iteration(&stage.slug);
            let inputs = step.inputs_required.iter().filter(|input| !input.previous_iteration || iteration > 1);
            // A user need not attach anything.
            let inputs = inputs.filter(|input| input.origin() != Origin::ProjectResource);
            let turn = Turn {
                stage: stage.slug.clone(),
                iteration,
                step_key: step.key.clone(),
                model: MODEL.to_owned(),
                is_combine: false,
                target_tokens: None,
                original_user_request: request(process).into(),
                documents: inputs.flat_map(|input| documents(process, &stage.slug, step, input)).collect(),
            };
            turns.push((step.prompt_template_name.clone(), turn));
        }
    }
    turns
}

/// The last stage is shown in its second iteration, where there is an earlier one to read.
fn iteration(stage: &str) -> i32 {
    if stage == "paralysis" { 2 } else { 1 }
}

fn documents(process: &str, stage: &str, step: &Step, input: &Input) -> Vec<Document> {
    let stage = input.stage.as_deref().unwrap_or(stage);
    let of = |author: Option<&str>, reviewer: Option<&str>| Document {
        r#type: input.r#type.clone(),
        role: input.role().to_owned(),
        name: None,
        stage: Some(stage.to_owned()).filter(|_| input.r#type != "initial_user_prompt"),
        author: author.map(str::to_owned),
        reviewer: reviewer.map(str::to_owned),
        about: reviewer.filter(|_| author != Some("sim-a")).map(|_| "sim-a".to_owned()),
        document_key: input.document_key.clone(),
        content: match input.r#type.as_str() {
            "header_context" => header(stage, step).into(),
            kind => said(process, kind, author, reviewer).into(),
        },
    };
    let is_merged_pair = input.r#type.starts_with("pairwise_");
    let several = input.multiple && !step.key.contains("review") && step.key != "critique";
    match input.r#type.as_str() {
        "seed_prompt" | "user_feedback" | "initial_user_prompt" => vec![of(None, None)],
        _ if input.from_models == FromModels::Own => vec![of(Some(MODEL), None)],
        _ if is_merged_pair => vec![of(Some(MODEL), Some("sim-a")), of(Some(MODEL), Some("sim-b"))],
        _ if stage == "antithesis" && several => {
            vec![of(Some("sim-a"), Some("sim-a")), of(Some("sim-b"), Some("sim-b"))]
        }
        _ if stage == "antithesis" => vec![of(Some("sim-b"), Some("sim-b"))],
        _ if several && stage != "thesis" => vec![of(Some("sim-a"), None), of(Some(MODEL), None)],
        _ if several => vec![of(Some("sim-a"), None), of(Some("sim-b"), None)],
        _ => vec![of(Some("sim-a"), None)],
    }
}

/// What a model would have planned for the document of this step.
fn header(stage: &str, step: &Step) -> String {
    let decided = match stage {
        "thesis" => "Paper is the competitor to beat: it never runs out of battery.",
        "antithesis" => {
            "The hour a day is asserted, not counted; serious, carried by the critique of the business case."
        }
        "synthesis" => "The tablet owns a note until it is acknowledged: ruled for all proposals.",
        "parenthesis" => "M1.1 first: a note survives a dead battery. It tests the assumption everything rests on.",
        _ => "`src/log.rs`, then `src/capture.rs`; both belong to M1.1.",
    };
    let keys = step.content_keys().into_iter().take(2);
    let planned: Map<String, Value> = keys.map(|key| (key, json!(decided))).collect();
    let mut header = json!({
        "system_materials": {
            "stage_rationale": "Local first: the tablet holds the truth until it is back above ground.",
            "agent_notes_to_self": "Call it capture, never entry. Eight hours offline is given, 400 engineers is estimated. {{ 1+1 }}",
            "validation_checkpoint": ["Does every feature work for eight hours without a network?"],
        },
        "context_for_documents": [{"document_key": step.document_key, "content_to_include": planned}],
    });
    if stage == "antithesis" {
        header["review_metadata"] = json!({"lineage_key": "local_log", "source_model": "sim-a"});
    }
    serde_json::to_string_pretty(&header).unwrap()
}

/// A text by its author: sim-b proposes otherwise than sim-a, and each reviews the other.
fn said(process: &str, r#type: &str, author: Option<&str>, reviewer: Option<&str>) -> String {
    let text = match (r#type, author) {
        ("business_case", Some("sim-b")) => {
            "Supervisors retype what crews report by radio; twelve of them, two hours each evening, counted for one week."
        }
        ("feature_spec", Some("sim-b")) => {
            "Report by voice: a minute of speech becomes a note. Confirm above ground: nothing counts before its author has read it."
        }
        ("technical_approach", Some("sim-b")) => {
            "The office is the truth; the tablet keeps a queue of recordings and forgets them when they are confirmed."
        }
        ("success_metrics", Some("sim-b")) => {
            "Evening hours of supervisors spent on retyping: baseline 24 a day, target 6 by the second month."
        }
        (kind, _) => content(process, kind),
    };
    match (author, reviewer) {
        (Some("sim-a"), _) => text.replace("by sim-a", "by sim-b").replace("\"sim-a\"", "\"sim-b\""),
        (_, Some(reviewer)) => text.replace("\"review\": \"sim-b\"", &format!("\"review\": \"{reviewer}\"")),
        _ => text.to_owned(),
    }
}

fn content(process: &str, r#type: &str) -> &'static str {
    match (process, r#type) {
        ("essay", "seed_prompt") => "# Brief\n\nAnswer it.",
        (_, "seed_prompt") => "# Brief\n\nPropose, review, settle or plan, as the stage has it.",
        (_, "initial_user_prompt") => PROJECT,
        (_, "user_feedback") => "Say more about synchronisation. {{ 2*3 }}",
        (_, "thesis") => "# Open it\n\nOpen on Sundays, from noon to five. {{ 1+1 }}",
        (_, "antithesis") => "# Not yet\n\nNobody has counted the visitors.",
        (_, "pairwise_synthesis_chunk") => "# Try it\n\nOpen on trial and count.",
        (_, "reduced_synthesis") => "# Trial\n\nA trial of six months.",
        (_, "business_case") => {
            "Engineers write on paper and lose an hour a day to copying; 400 of them, estimated from the fleet of tablets."
        }
        (_, "feature_spec") => {
            "Capture without a network: a note survives a dead battery. Synchronise above ground: conflicts are shown, never merged silently."
        }
        (_, "technical_approach") => {
            "A log on the tablet is the truth; the server keeps copies and hands out changes in order."
        }
        (_, "success_metrics") => {
            "Notes captured below ground that reach the office within a day: baseline unknown, target 95 % by the third month."
        }
        (_, "business_case_critique") => {
            "Of the proposal by sim-a: the hour a day is asserted, not counted. Serious; ask five engineers for a week."
        }
        (_, "technical_feasibility_assessment") => {
            "Of the proposal by sim-a: feasible if attachments are left out. Ten weeks of work for twelve available."
        }
        (_, "risk_register") => {
            "Of the proposal by sim-a: because tablets are shared, notes may be captured under the wrong name, so that nobody trusts them."
        }
        (_, "non_functional_requirements") => {
            "Of the proposal by sim-a: no accepted note is lost when the battery dies. Not addressed."
        }
        (_, "dependency_map") => {
            "Of the proposal by sim-a: sign-in needs the company directory, which needs the IT department, six weeks."
        }
        (_, "comparison_vector") => {
            r#"{"proposal": {"lineage_key": "local_log", "source_model": "sim-a"}, "dimensions": {"feasibility": {"score": 4, "rationale": "Ten weeks of twelve."}}}"#
        }
        (_, "product_requirements") => "The first release captures and synchronises text notes for one crew of eight.",
        (_, "system_architecture") => {
            "Tablet log, change feed, office reader. The tablet owns a note until it is acknowledged."
        }
        (_, "tech_stack") => "SQLite on the tablet, PostgreSQL in the office, nothing between them but HTTPS.",
        (_, "technical_requirements") => "TR-3: a note is on disk before the screen says that it is saved.",
        (_, "master_plan") | (_, "updated_master_plan") => {
            "M1.1 A note survives a dead battery (up next). M1.2 Two tablets agree."
        }
        (_, "milestone_schema") => "M1.1: `src/log.rs` appends and replays; `src/capture.rs` writes through it.",
        (_, "actionable_checklist") => {
            "`src/log.rs`: append, sync, replay. Commit: Keep a note through a dead battery."
        }
        (_, "advisor_recommendations") => "Choose the local log; it is the only plan that shows something in week two.",
        (_, pair) if pair.starts_with("pairwise_") => {
            r#"{"sources": {"proposal": "sim-a", "review": "sim-b"}, "resolved_positions": ["Attachments wait: ten weeks suffice without them."]}"#
        }
        (_, merged) if merged.starts_with("document_") => {
            r#"{"resolved_positions": ["The tablet owns a note until it is acknowledged."], "tradeoffs": ["No live view of the field."]}"#
        }
        (_, other) => panic!("no sample for {other}"),
    }
}
