//! That the simulator knows how long its answers will be, without writing them.

use super::*;
use crate::provider::expected::Asked;

fn asked(request: &Request) -> Asked<'_> {
    Asked {
        api: &request.api,
        model: &request.model,
        settings: &request.settings,
        content: request.content.as_ref(),
        messages: &request.messages,
    }
}

/// How far what was expected is from what was said, in percent, over many answers together.
fn off_by(requests: impl Iterator<Item = Request>) -> f64 {
    let (mut foreseen, mut written) = (0, 0);
    for request in requests {
        let expected = expected(&asked(&request));
        foreseen += expected.reasoning_tokens + tokens(&expected.text);
        written += said(&request).2.output_tokens;
    }
    100.0 * (foreseen as f64 / written as f64 - 1.0)
}

fn shapes() -> [Option<Value>; 5] {
    [
        None,
        Some(json!({"summary": "In a sentence"})),
        Some(json!(["title", "risks", "verdict"])),
        Some(
            json!({"summary": "What it is", "goals": [], "risks": [{"name": "x", "why": "Why it matters", "score": 0}],
                    "plan": {"first": "", "later": ["A step"]}, "is_open": true}),
        ),
        Some(
            json!({"decision": "", "context_for_documents": [{"document_key": "a", "content_to_include": {"x": "", "y": []}},
                                                              {"document_key": "b", "content_to_include": {}}]}),
        ),
    ]
}

#[test]
fn an_answer_is_as_long_as_was_expected() {
    for words in [0, 60, 120, 400, 2000] {
        for content in shapes() {
            for marker in [None, Some("auto")] {
                let requests = (0..40).map(|seed| {
                    let mut settings = json!({"answer_words": words, "seed": seed, "thinks_tokens": 9});
                    if let Some(marker) = marker {
                        settings["marker"] = marker.into();
                    }
                    let mut request = critique(["sim-a", "sim-b", "sim-c", "sim-d", "sim-e"][seed % 5], settings);
                    request.content = content.clone();
                    request
                });
                let off = off_by(requests);
                assert!(off.abs() < 5.0, "{off:.1} % at {words} words of {content:?}");
            }
        }
    }
}

#[test]
fn the_number_of_texts_an_answer_is_about_lengthens_it_as_expected() {
    for texts in [0, 1, 2, 3, 12, 40] {
        let requests = (0..40).map(|seed| {
            let document = |n: usize| {
                format!(
                    "<document type=\"thesis\" author=\"m{n}\">\nText {n} says this of it. And more.\n</document>\n\n"
                )
            };
            let user: String = (0..texts).map(document).collect();
            let messages =
                vec![message(Role::User, format!("{user}<request>\nShould shops close on Sundays?\n</request>"))];
            request("sim-a", messages, json!({ "seed": seed }))
        });
        let off = off_by(requests);
        assert!(off.abs() < 5.0, "{off:.1} % with {texts} texts");
    }
}

#[test]
fn what_is_expected_has_every_key_that_was_asked_for() {
    for content in shapes().into_iter().flatten() {
        let mut request = critique("sim-a", json!({"wrap": "prose", "omit_keys": ["goals"]}));
        request.content = Some(content);
        let (foreseen, written) = (expected(&asked(&request)).text, said(&request).0);
        let keys = |text: &str| {
            let found = crate::json::read(text).unwrap().value;
            found.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
        };
        assert_eq!(keys(&foreseen), keys(&written));
    }
}
