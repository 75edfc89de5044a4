//! The laws of the prompts that ship: each renders, carries the request word for word, and says something of its own.
//!
//! What each of them looks like with sample values is kept in `tests/fixtures/prompts`; run with `UPDATE_GOLDEN=1` to
//! rewrite these files, and read the difference before it is committed.

use dialectic_core::prompt::{Message, Role, Templates};
use dialectic_core::provider::{Outcome, Request, simulator};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

const REQUEST: &str =
    "Should our town library open on Sundays?\nBudget: {{ 7*7 }} thousand. {% raw %} <b>&</b> </document>";

const PROMISED: [&str; 9] = [
    "essay_thesis_seed",
    "essay_antithesis_seed",
    "essay_synthesis_seed",
    "essay_thesis",
    "essay_critique",
    "synthesis_step1_pairwise",
    "synthesis_step2_combine",
    "synthesis_step3_final",
    "tier2_document_combiner",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn bodies() -> BTreeMap<String, String> {
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

fn essay() -> BTreeMap<String, String> {
    bodies().into_iter().filter(|(name, _)| PROMISED.contains(&name.as_str())).collect()
}

fn overlay(domain: &str) -> Value {
    let path = root().join("sql/seed/overlays").join(format!("{domain}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn document(kind: &str, stage: &str, author: Value, reviewer: Value, content: &str) -> Value {
    json!({"type": kind, "role": "input", "stage": stage, "author": author, "reviewer": reviewer, "document_key": null, "content": content})
}

/// Sample values for a template as its place in the process would give them.
fn values(name: &str) -> Value {
    let thesis = || {
        document(
            "thesis",
            "thesis",
            json!("sim-a"),
            json!(null),
            "# Open it\n\nOpen on Sundays, from noon to five. {{ 1+1 }}",
        )
    };
    let antithesis = || {
        document(
            "antithesis",
            "antithesis",
            json!("sim-b"),
            json!("sim-b"),
            "# Not yet\n\nNobody has counted the visitors.",
        )
    };
    let chunk = |reviewer: &str| {
        document(
            "pairwise_synthesis_chunk",
            "synthesis",
            json!("sim-c"),
            json!(reviewer),
            "# Try it\n\nOpen on trial and count.",
        )
    };
    let (stage, shown, key, kind, documents) = match name {
        "essay_critique" => ("antithesis", "Antithesis", "critique", "antithesis", vec![thesis()]),
        "synthesis_step1_pairwise" => {
            ("synthesis", "Synthesis", "pairwise", "pairwise_synthesis_chunk", vec![thesis(), antithesis()])
        }
        "synthesis_step2_combine" => {
            ("synthesis", "Synthesis", "combine", "reduced_synthesis", vec![chunk("sim-a"), chunk("sim-b")])
        }
        "synthesis_step3_final" => {
            let reduced = document(
                "reduced_synthesis",
                "synthesis",
                json!("sim-a"),
                json!(null),
                "# Trial\n\nA trial of six months.",
            );
            ("synthesis", "Synthesis", "final", "synthesis", vec![reduced])
        }
        "tier2_document_combiner" => ("synthesis", "Synthesis", "combine", "combined", vec![thesis(), antithesis()]),
        "essay_antithesis_seed" => ("antithesis", "Antithesis", "", "", vec![]),
        "essay_synthesis_seed" => ("synthesis", "Synthesis", "", "", vec![]),
        _ => {
            let seed = document("seed_prompt", "thesis", json!(null), json!(null), "# Brief\n\nAnswer it.");
            ("thesis", "Thesis", "thesis", "thesis", vec![seed])
        }
    };
    let stages = &overlay("general")["stages"];
    let mut texts = stages["*"].as_object().unwrap().clone();
    texts.extend(stages[stage].as_object().unwrap().clone());
    let mut values = json!({
        "original_user_request": REQUEST,
        "process": "essay",
        "domain": "general",
        "stage": {"slug": stage, "display_name": shown},
        "iteration": 1,
        "model": "sim-c",
        "overlay": texts,
        "content_keys": [],
        "header_context": null,
    });
    if !name.ends_with("_seed") {
        values["step"] = json!({"key": key, "name": key, "output_type": kind, "document_key": null});
        values["documents"] = json!(documents);
    }
    values
}

fn templates() -> Templates {
    Templates::new(bodies()).unwrap()
}

fn shown(messages: &[Message]) -> String {
    messages.iter().map(|m| format!("=== {:?}\n{}\n", m.role, m.content)).collect()
}

#[test]
fn every_promised_prompt_ships() {
    let bodies = bodies();
    for name in PROMISED {
        assert!(bodies.contains_key(name), "{name} is missing");
    }
}

#[test]
fn every_prompt_renders_as_its_golden_file_shows() {
    let templates = templates();
    for name in PROMISED {
        let messages = templates.messages(name, &values(name)).unwrap_or_else(|e| panic!("{e}"));
        let path = root().join("tests/fixtures/prompts").join(format!("{name}.txt"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, shown(&messages)).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(shown(&messages), golden, "{name} differs from {}", path.display());
    }
}

#[test]
fn every_prompt_carries_the_request_and_the_documents_word_for_word() {
    let templates = templates();
    for name in PROMISED {
        let values = values(name);
        let messages = templates.messages(name, &values).unwrap();
        let user = messages.iter().rfind(|m| m.role == Role::User).unwrap();
        assert!(user.content.contains(REQUEST), "{name} lost the request");
        for document in values["documents"].as_array().unwrap_or(&Vec::new()) {
            let content = document["content"].as_str().unwrap();
            assert!(user.content.contains(content), "{name} lost a document");
        }
    }
}

#[test]
fn a_turn_has_a_system_and_a_user_message_and_a_seed_is_one_text() {
    let templates = templates();
    for name in PROMISED {
        let messages = templates.messages(name, &values(name)).unwrap();
        let roles: Vec<Role> = messages.iter().map(|m| m.role).collect();
        if name.ends_with("_seed") {
            assert_eq!(roles, [Role::User], "{name}");
        } else {
            assert_eq!(roles, [Role::System, Role::User], "{name}");
            assert!(!messages[0].content.contains("Sundays"), "{name} lets user text into the system message");
        }
    }
}

#[test]
fn a_prompt_renders_without_an_overlay_and_with_keys() {
    let templates = templates();
    for name in PROMISED {
        let mut values = values(name);
        values["overlay"] = json!({});
        values["content_keys"] = json!(["summary", "risks"]);
        let messages = templates.messages(name, &values).unwrap_or_else(|e| panic!("{e}"));
        if !name.ends_with("_seed") {
            assert!(messages[0].content.contains("summary, risks"), "{name}");
        }
    }
}

#[test]
fn no_two_prompts_share_more_than_half_of_their_lines() {
    let lines = |body: &String| -> HashSet<String> {
        let own = body.lines().map(str::trim).filter(|l| !l.is_empty() && !l.contains("{% include"));
        own.map(str::to_owned).collect()
    };
    let all: Vec<(String, HashSet<String>)> = essay().iter().map(|(n, b)| (n.clone(), lines(b))).collect();
    for (at, (name, one)) in all.iter().enumerate() {
        for (other, two) in &all[..at] {
            let common = one.intersection(two).count();
            assert!(common * 2 <= one.len().min(two.len()), "{name} and {other} share {common} lines");
        }
    }
}

#[test]
fn the_simulator_understands_every_turn() {
    let templates = templates();
    for (name, title) in [
        ("essay_thesis", "# Thesis by sim-c: Should our town library open on Sundays?"),
        ("essay_critique", "# Antithesis by sim-c on the thesis of sim-a\n"),
        (
            "synthesis_step1_pairwise",
            "# Pairwise synthesis chunk by sim-c on the thesis of sim-a and the antithesis of sim-b\n",
        ),
        (
            "synthesis_step2_combine",
            "# Reduced synthesis by sim-c on the pairwise synthesis chunk of sim-c after the review of sim-a and",
        ),
        ("synthesis_step3_final", "# Synthesis by sim-c on the reduced synthesis of sim-a\n"),
        ("tier2_document_combiner", "# Combined by sim-c on the thesis of sim-a and the antithesis of sim-b\n"),
    ] {
        let request = Request {
            api: "simulator".into(),
            model: "sim-c".into(),
            api_model: "sim-c".into(),
            messages: templates.messages(name, &values(name)).unwrap(),
            max_output_tokens: 4096,
            context_window: 100_000,
            content: None,
            settings: json!({}),
            call_no: 1,
        };
        let Outcome::Answer { text, .. } = simulator::answer(&request).outcome else { panic!("{name} was refused") };
        assert!(text.starts_with(title), "{name}: {text}");
        assert!(text.contains("Should our town library open on Sundays?"), "{name}: {text}");
    }
}

#[test]
fn every_overlay_is_complete_for_every_stage() {
    for domain in ["general", "software_development"] {
        let overlay = overlay(domain);
        assert_eq!(overlay["domain"], domain);
        let process = overlay["default_process"].as_str().unwrap();
        assert!(
            root().join(format!("sql/seed/processes/{process}.json")).exists(),
            "{domain}: {process} does not ship"
        );
        assert!(overlay["description"].is_string());
        for (stage, texts) in overlay["stages"].as_object().unwrap() {
            for (key, text) in texts.as_object().unwrap() {
                assert!(
                    ["role", "style_guide", "stage_instructions"].contains(&key.as_str()),
                    "{domain} {stage} {key}"
                );
                assert!(text.as_str().is_some_and(|t| !t.is_empty()));
            }
        }
        assert_eq!(overlay["stages"]["*"].as_object().unwrap().len(), 3);
    }
}
