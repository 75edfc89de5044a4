//! Laws of what a turn's prompt is given: the shape of the answer, the header it follows, the documents it reads.
//!
//! Never about the wording of a prompt.

use super::samples::{MODEL, bodies, definition, domain, turns, with};
use dialectic_core::definition::{Document, Turn};
use dialectic_core::prompt::Templates;
use serde_json::json;

#[test]
fn every_turn_of_the_dialectic_shows_the_exact_shape_of_its_answer() {
    let definition = definition("dialectic", domain("dialectic"));
    for (name, turn) in turns("dialectic") {
        let step = definition.step(&turn.stage, &turn.step_key).unwrap();
        let shape = serde_json::to_string_pretty(step.content_to_include.as_ref().unwrap()).unwrap();
        let messages = definition.messages(&turn).unwrap();
        assert!(messages[0].content.contains(&format!("```json\n{shape}\n```")), "{name}");
        assert!(messages[0].content.contains(&step.content_keys().join(", ")), "{name}");
    }
}

#[test]
fn a_header_is_shown_once_and_apart_from_the_documents() {
    let definition = definition("dialectic", domain("dialectic"));
    for (name, turn) in turns("dialectic") {
        let headers = turn.documents.iter().filter(|document| document.r#type == "header_context").count();
        let user = &definition.messages(&turn).unwrap()[1].content;
        assert_eq!(
            user.matches("\n<header_context>\n").count() + usize::from(user.starts_with("<header_context>\n")),
            headers
        );
        assert!(!user.contains("type=\"header_context\""), "{name} shows the header as a document");
        // The request closes every prompt; it is not shown a second time as a document.
        let requests = turn.documents.iter().filter(|document| document.r#type == "initial_user_prompt").count();
        assert_eq!(user.matches("<document type=").count(), turn.documents.len() - headers - requests, "{name}");
        for header in turn.documents.iter().filter(|document| document.r#type == "header_context") {
            assert_eq!(user.matches(&*header.content).count(), 1, "{name}");
        }
    }
}

/// A definition of one step with this template.
fn plain(template: &str, documents: Vec<Document>) -> Result<String, String> {
    let stages = json!([{"slug": "only", "display_name": "Only", "seed_prompt_template": "t", "recipe": {"steps": [
        {"key": "write", "job_type": "execute", "prompt_template_name": "t", "granularity_strategy": "all_to_one",
         "inputs_required": [{"type": "seed_prompt"}], "output_type": "text", "content_to_include": {"body": "The text"}}]}}]);
    let definition = dialectic_core::definition::Definition::read(
        "one".into(),
        "none".into(),
        &stages,
        json!({"t": template}),
        json!({}),
        json!({}),
    );
    let turn = Turn {
        stage: "only".into(),
        iteration: 1,
        step_key: "write".into(),
        model: MODEL.into(),
        is_combine: false,
        target_tokens: None,
        original_user_request: "Why?".into(),
        documents,
    };
    let messages = definition.unwrap().messages(&turn).map_err(|e| e.message)?;
    Ok(messages[0].content.clone())
}

fn document(r#type: &str, content: &str) -> Document {
    Document {
        r#type: r#type.into(),
        role: r#type.into(),
        name: None,
        stage: None,
        author: None,
        reviewer: None,
        about: None,
        document_key: None,
        content: content.into(),
    }
}

#[test]
fn one_header_leads_and_several_are_material() {
    let template = "{{ header_context }}|{% for document in documents %}{{ document.content }},{% endfor %}";
    let header = |content: &str| document("header_context", content);
    let read = |documents| plain(template, documents).unwrap();
    assert_eq!(read(vec![document("a", "A")]), "None|A,");
    assert_eq!(read(vec![document("a", "A"), header("{{ H }}"), document("b", "B")]), "{{ H }}|A,B,");
    assert_eq!(read(vec![header("G"), header("H")]), "None|G,H,");
    assert_eq!(read(vec![header("same"), document("a", "same")]), "same|same,");
}

#[test]
fn a_turn_is_given_its_shape_and_nothing_undefined() {
    assert_eq!(plain("{{ content_to_include.body }} {{ content_keys[0] }}", vec![]).unwrap(), "The text body");
    for unknown in ["{{ content_to_include.title }}", "{{ title }}", "{{ documents[0].content }}"] {
        assert!(plain(unknown, vec![]).unwrap_err().contains("unknown variable"), "{unknown}");
    }
}

#[test]
fn hints_and_texts_with_braces_stay_what_they_are() {
    let mut stages = super::samples::stages("essay");
    let step = &mut stages[0]["recipe"]["steps"][0];
    step["content_to_include"] = json!({"body": "{{ 7*7 }} {% endblock %}"});
    let definition = with("essay", "general", &stages, json!({"*": {"role": "{{ 8*8 }}"}}));
    let (_, turn) = turns("essay").into_iter().next().unwrap();
    let system = &definition.messages(&turn).unwrap()[0].content;
    assert!(system.contains("{{ 7*7 }} {% endblock %}") && system.contains("{{ 8*8 }}"));
}

#[test]
fn no_shipped_template_renders_without_its_variables() {
    let templates = Templates::new(bodies()).unwrap();
    let optional = ["shared_role", "shared_style", "shared_instructions"];
    for name in bodies().keys().filter(|name| !optional.contains(&name.as_str())) {
        let error = templates.render(name, &json!({})).unwrap_err();
        assert!(error.message.contains("unknown variable"), "{name}: {error}");
    }
}
