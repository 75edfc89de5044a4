//! The laws of the prompts that ship: each renders, carries the request word for word, and says something of its own.
//!
//! What each of them looks like with sample values is kept in `tests/fixtures/prompts`, exactly as it would be sent; run with
//! `UPDATE_GOLDEN=1` to rewrite these files, and read the difference before it is committed.

use dialectic_core::definition::Turn;
use dialectic_core::prompt::{Message, Role, Templates};
use dialectic_core::provider::{Outcome, Request, simulator};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::fs;

#[path = "prompts/continuing.rs"]
mod continuing;
#[path = "prompts/going_on.rs"]
mod going_on;
#[path = "prompts/samples.rs"]
mod samples;
#[path = "prompts/turns.rs"]
mod turns;

use samples::{DOMAINS, MODEL, PROCESSES, bodies, definition, domain, overlay, request, root, seeds, with};

/// Templates that no step and no stage names: they go with every process.
const STEPLESS: [&str; 3] = ["continue_answer", "repair_missing_keys", "tier2_document_combiner"];

/// A shipped prompt as it would be sent.
struct Sent {
    name: String,
    process: &'static str,
    turn: Option<Turn>,
    messages: Vec<Message>,
}

impl Sent {
    fn user(&self) -> &str {
        &self.messages.iter().rfind(|m| m.role == Role::User).unwrap().content
    }
}

fn all() -> Vec<Sent> {
    PROCESSES.into_iter().flat_map(|process| sent(process, &definition(process, domain(process)))).collect()
}

fn sent(process: &'static str, definition: &dialectic_core::definition::Definition) -> Vec<Sent> {
    let mut all = Vec::new();
    for (name, stage, iteration) in seeds(process) {
        let content = definition.seed_prompt(&stage, iteration, request(process)).unwrap_or_else(|e| panic!("{e}"));
        let messages = vec![Message { role: Role::User, content }];
        all.push(Sent { name, process, turn: None, messages });
    }
    for (name, turn) in samples::turns(process) {
        let messages = definition.messages(&turn).unwrap_or_else(|e| panic!("{e}"));
        all.push(Sent { name, process, turn: Some(turn), messages });
    }
    all
}

/// The combiner, which has no step to be a turn of.
fn combiner() -> Vec<Message> {
    let mut texts = overlay("general")["stages"]["*"].as_object().unwrap().clone();
    texts.extend(overlay("general")["stages"]["synthesis"].as_object().unwrap().clone());
    let document = |kind: &str, author: &str, content: &str| {
        json!({"type": kind, "role": kind, "name": null, "stage": kind, "author": author, "reviewer": null, "about": null,
               "document_key": null, "content": content})
    };
    let values = json!({
        "original_user_request": request("essay"), "process": "essay", "domain": "general", "iteration": 1, "model": MODEL,
        "stage": {"slug": "synthesis", "display_name": "Refinement"}, "overlay": texts, "content_keys": [],
        "content_to_include": null, "header_context": null, "target_words": 1200,
        "step": {"key": "combine", "name": "combine", "output_type": "combined", "document_key": null},
        "documents": [document("thesis", "sim-a", "Open on Sundays."), document("antithesis", "sim-b", "Not yet.")],
    });
    Templates::new(bodies()).unwrap().messages("tier2_document_combiner", &values).unwrap()
}

fn shown(messages: &[Message]) -> String {
    messages.iter().map(|m| format!("=== {:?}\n{}\n", m.role, m.content)).collect()
}

fn is_golden(name: &str, messages: &[Message]) {
    let path = root().join("tests/fixtures/prompts").join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, shown(messages)).unwrap();
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(shown(messages), golden, "{name} differs from {}", path.display());
}

#[test]
fn every_template_that_ships_is_used_and_every_used_one_ships() {
    let bodies = bodies();
    let mut used: BTreeSet<String> = all().into_iter().map(|sent| sent.name).collect();
    used.extend(STEPLESS.map(str::to_owned));
    assert_eq!(used.len(), 8 + 38 + 3);
    let included = |name: &str| bodies.values().any(|body| body.contains(&format!("{{% include \"{name}\" %}}")));
    for name in bodies.keys() {
        assert_ne!(used.contains(name), name.starts_with("shared_"), "{name}");
        assert!(used.contains(name) || included(name), "nothing uses {name}");
    }
    assert!(used.iter().all(|name| bodies.contains_key(name)));
}

#[test]
fn every_prompt_renders_as_its_golden_file_shows() {
    let all = all();
    for sent in &all {
        is_golden(&sent.name, &sent.messages);
    }
    is_golden("tier2_document_combiner", &combiner());
    for file in fs::read_dir(root().join("tests/fixtures/prompts")).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        let name = file.trim_end_matches(".txt");
        // What goes with every process is shown once for each occasion.
        let template = name.split('.').next().unwrap_or_default();
        assert!(STEPLESS.contains(&template) || all.iter().any(|sent| sent.name == name), "{file} is left over");
    }
}

#[test]
fn every_prompt_carries_the_request_and_the_documents_word_for_word() {
    for sent in all() {
        assert!(sent.user().contains(request(sent.process)), "{} lost the request", sent.name);
        for document in sent.turn.iter().flat_map(|turn| &turn.documents) {
            assert!(sent.user().contains(&*document.content), "{} lost {}", sent.name, document.role);
        }
    }
}

#[test]
fn a_turn_has_a_system_and_a_user_message_and_what_others_wrote_is_never_in_the_first() {
    for sent in all() {
        let roles: Vec<Role> = sent.messages.iter().map(|m| m.role).collect();
        let Some(turn) = &sent.turn else {
            assert_eq!(roles, [Role::User], "{}", sent.name);
            continue;
        };
        assert_eq!(roles, [Role::System, Role::User], "{}", sent.name);
        let foreign = turn.documents.iter().map(|document| &*document.content).chain([request(sent.process)]);
        for text in foreign {
            assert!(
                !sent.messages[0].content.contains(text),
                "{} lets foreign text into the system message",
                sent.name
            );
        }
    }
}

#[test]
fn every_process_renders_in_every_domain_and_without_any() {
    for process in PROCESSES {
        for domain in DOMAINS {
            for sent in sent(process, &definition(process, domain)) {
                let stage = sent.turn.map_or_else(|| sent.name.clone(), |turn| turn.stage);
                let texts = &overlay(domain)["stages"];
                let said = |text: &str| sent.messages.iter().any(|m| m.content.contains(text));
                let instructions = texts.get(&stage).and_then(|texts| texts["stage_instructions"].as_str());
                assert!(process == "essay" || instructions.is_none_or(said), "{} in {domain}", sent.name);
            }
        }
        let mut stages = samples::stages(process);
        for step in stages.as_array_mut().unwrap().iter_mut().flat_map(|s| s["recipe"]["steps"].as_array_mut().unwrap())
        {
            step["content_to_include"] = json!(["summary", "risks"]);
            step["content_order"] = Value::Null;
        }
        for sent in sent(process, &with(process, "nowhere", &stages, json!({}))) {
            assert!(sent.turn.is_none() || sent.messages[0].content.contains("summary, risks"), "{}", sent.name);
            assert!(!shown(&sent.messages).contains("```json"), "{} shows a shape that is none", sent.name);
        }
    }
}

#[test]
fn no_two_prompts_share_more_than_half_of_their_lines() {
    let lines = |body: &String| -> HashSet<String> {
        let own = body.lines().map(str::trim).filter(|l| !l.is_empty() && !l.contains("{% include"));
        own.map(str::to_owned).collect()
    };
    let own = bodies().into_iter().filter(|(name, _)| !name.starts_with("shared_"));
    let all: Vec<(String, HashSet<String>)> = own.map(|(name, body)| (name, lines(&body))).collect();
    for (at, (name, one)) in all.iter().enumerate() {
        for (other, two) in &all[..at] {
            let common = one.intersection(two).count();
            assert!(common * 2 <= one.len().min(two.len()), "{name} and {other} share {common} lines");
        }
    }
}

#[test]
fn a_prompt_of_the_dialectic_is_neither_a_stub_nor_a_lecture() {
    for (name, body) in bodies().into_iter().filter(|(name, _)| name.starts_with("dialectic_")) {
        let system = body.split("{% block user %}").next().unwrap().split_whitespace().count();
        let expected = if name.ends_with("_seed") { 150..=350 } else { 250..=600 };
        assert!(expected.contains(&system), "{name} has {system} words");
    }
}

#[test]
fn the_simulator_understands_every_turn() {
    for (name, messages, title) in [
        ("essay_thesis", None, "# Thesis by sim-c: Should our town library open on Sundays?"),
        ("essay_critique", None, "# Antithesis by sim-c on the thesis of sim-a\n"),
        (
            "synthesis_step1_pairwise",
            None,
            "# Pairwise synthesis chunk by sim-c on the thesis of sim-a and the antithesis of sim-b\n",
        ),
        (
            "synthesis_step2_combine",
            None,
            "# Reduced synthesis by sim-c on the pairwise synthesis chunk of sim-c after the review of sim-a and",
        ),
        ("synthesis_step3_final", None, "# Synthesis by sim-c on the reduced synthesis of sim-a"),
        (
            "tier2_document_combiner",
            Some(combiner()),
            "# Combined by sim-c on the thesis of sim-a and the antithesis of sim-b\n",
        ),
    ] {
        let of_turn = || all().into_iter().find(|sent| sent.name == name).unwrap().messages;
        let request = Request {
            api: "simulator".into(),
            model: MODEL.into(),
            api_model: MODEL.into(),
            messages: messages.unwrap_or_else(of_turn),
            max_output_tokens: 4096,
            context_window: 100_000,
            content: None,
            settings: json!({}),
            call_no: 1,
            embeds: None,
        };
        let Outcome::Answer { text, .. } = simulator::answer(&request).outcome else { panic!("{name} was refused") };
        assert!(text.starts_with(title), "{name}: {text}");
        assert!(text.contains("Should our town library open on Sundays?"), "{name}: {text}");
    }
}

#[test]
fn every_overlay_is_complete_for_every_stage() {
    for domain in DOMAINS {
        let overlay = overlay(domain);
        assert_eq!(overlay["domain"], domain);
        assert_eq!(overlay["default_process"], "dialectic");
        assert!(overlay["description"].is_string());
        let known = ["role", "style_guide", "stage_instructions", "terms"];
        for (stage, texts) in overlay["stages"].as_object().unwrap() {
            for (key, text) in texts.as_object().unwrap() {
                assert!(known.contains(&key.as_str()), "{domain} {stage} {key}");
                assert!(text.as_str().is_some_and(|t| !t.is_empty()));
            }
            for key in ["role", "stage_instructions"] {
                assert!(texts[key].is_string(), "{domain} {stage} has no {key}");
            }
        }
        assert_eq!(overlay["stages"]["*"].as_object().unwrap().len(), known.len());
        for stage in samples::stages("dialectic").as_array().unwrap() {
            let slug = stage["slug"].as_str().unwrap();
            assert!(overlay["stages"].get(slug).is_some_and(Value::is_object), "{domain} says nothing of {slug}");
        }
    }
}
