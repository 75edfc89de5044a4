//! The laws of the simulator as a whole, on plain, hostile and very large requests.
//!
//! They decide nothing; they hold [`super`] to what its header says: the same reply to the same request, pieces that
//! join to the whole, faults exactly as often as the settings ask. Never about single words of an answer.

mod embedding;
mod going_on;
mod json;
mod length;

use super::*;
use crate::prompt::Role;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::time::Instant;

fn message(role: Role, content: impl Into<String>) -> Message {
    Message { role, content: content.into() }
}

fn request(model: &str, messages: Vec<Message>, settings: Value) -> Request {
    Request {
        api: "simulator".into(),
        model: model.into(),
        api_model: model.into(),
        messages,
        max_output_tokens: 100_000,
        context_window: 100_000_000,
        content: None,
        settings,
        call_no: 1,
        embeds: None,
    }
}

fn critique(model: &str, settings: Value) -> Request {
    let user = "<document type=\"thesis\" author=\"sim-a\">\n# Thesis\n\nOpen the library on Sundays. It is cheap.\n</document>\n\n\
                <request>\nShould our town library open on Sundays?\n</request>";
    let system = message(Role::System, "You are a reviewer.\n\nDeliver: antithesis (step \"Critique\").");
    request(model, vec![system, message(Role::User, user)], settings)
}

fn said(request: &Request) -> (String, FinishReason, Usage) {
    match answer(request).outcome {
        Outcome::Answer { text, finish_reason, usage, .. } => (text, finish_reason, usage),
        failure => panic!("{failure:?}"),
    }
}

fn failed(request: &Request) -> Option<(Class, Option<u16>, Option<u64>)> {
    match answer(request).outcome {
        Outcome::Answer { .. } | Outcome::Vectors { .. } => None,
        Outcome::Failure { class, http_status, retry_after_ms, .. } => Some((class, http_status, retry_after_ms)),
    }
}

#[test]
fn an_answer_shows_who_wrote_it_on_whom_and_about_what() {
    let (text, finish, _) = said(&critique("sim-b", json!({})));
    assert_eq!(finish, FinishReason::Stop);
    assert!(text.starts_with("# Antithesis by sim-b on the thesis of sim-a\n"), "{text}");
    assert!(text.contains("“Open the library on Sundays.”"), "{text}");
    assert!(text.contains("Should our town library open on Sundays?"), "{text}");
    assert!(text.contains("\n- ") && text.contains("## Conclusion"), "{text}");
}

#[test]
fn no_two_models_and_no_two_seeds_write_the_same_body() {
    let mut seen = std::collections::HashSet::new();
    let mut lines = 0;
    for model in ["sim-a", "sim-b", "sim-c"] {
        for seed in 0..10 {
            let (text, ..) = said(&critique(model, json!({ "seed": seed })));
            for paragraph in text.lines().filter(|l| l.split(' ').count() > 15 && !l.contains('“')) {
                lines += 1;
                assert!(seen.insert(paragraph.to_owned()), "said twice: {paragraph}");
            }
        }
    }
    assert!(lines > 50);
}

#[test]
fn pieces_of_a_cut_answer_join_to_the_whole() {
    for (content, wrap) in
        [(None, None), (Some(json!({"a": [{"b": ""}], "c": []})), None), (Some(json!(["a"])), Some("fence"))]
    {
        let mut uncut = critique("sim-b", json!({ "wrap": wrap }));
        uncut.content = content;
        let whole = said(&uncut).0;
        let mut joined = String::new();
        for call in 1.. {
            let mut next = uncut.clone();
            next.settings = json!({ "cut_after_tokens": 40, "wrap": wrap });
            next.call_no = call;
            if !joined.is_empty() {
                next.messages.push(message(Role::Assistant, joined.clone()));
                next.messages.push(message(Role::User, "Go on exactly where you stopped."));
            }
            let (text, finish, _) = said(&next);
            joined.push_str(&text);
            if finish == FinishReason::Stop {
                break;
            }
            assert_eq!(finish, FinishReason::Length);
        }
        assert_eq!(joined, whole);
    }
}

#[test]
fn faults_come_as_often_as_the_settings_say() {
    let fates = |settings: Value| {
        let mut asked = critique("sim-a", settings);
        [1, 2, 3].map(|call| {
            asked.call_no = call;
            failed(&asked)
        })
    };
    let transient = Some((Class::Transient, Some(503), None));
    let throttled = Some((Class::Throttled, Some(429), Some(70)));
    let dropped = Some((Class::Transient, None, None));
    assert_eq!(fates(json!({"fail_first": 2})), [transient, transient, None]);
    assert_eq!(
        fates(json!({"fail_first": 1, "fail_class": "throttled", "retry_after_ms": 70})),
        [throttled, None, None]
    );
    assert_eq!(fates(json!({"fail_always": true})), [transient; 3]);
    assert_eq!(fates(json!({"drop_connection": 1})), [dropped, None, None]);
    assert_eq!(fates(json!({"drop_connection": true})), [dropped; 3]);
    assert_eq!(fates(json!({"unheard_of": 1, "fail_first": "many"})), [None; 3]);
    assert_eq!(said(&critique("sim-a", json!({"refuse": true}))).1, FinishReason::ContentFilter);
}

#[test]
fn input_over_the_window_is_refused_as_a_real_api_refuses_it() {
    let mut asked = critique("sim-a", json!({}));
    let size = said(&asked).2.input_tokens;
    asked.context_window = size;
    assert_eq!(failed(&asked), None);
    asked.context_window = size - 1;
    assert_eq!(failed(&asked), Some((Class::ContextWindow, Some(400), None)));
}

#[test]
fn answers_have_about_the_length_asked_for() {
    for words in [200, 1000, 5000] {
        let (text, ..) = said(&critique("sim-c", json!({ "answer_words": words })));
        let written = text.split_whitespace().count();
        assert!((words * 3 / 4..words * 3 / 2).contains(&written), "{written} for {words}");
    }
}

#[test]
fn many_sources_are_counted_not_copied() {
    let huge = "x".repeat(20_000);
    let user: String =
        (0..40).map(|n| format!("<document type=\"thesis\" author=\"m{n}\">\n{huge}\n</document>\n")).collect();
    let (text, ..) = said(&request("sim-a", vec![message(Role::User, user)], json!({})));
    assert!(text.contains("and 28 more") && text.contains("over 40 texts"), "{text}");
    assert!(text.len() < 8_000, "{}", text.len());
}

#[test]
fn no_size_and_no_emptiness_is_too_much() {
    for content in ["é".repeat(5 << 20), "<document ".repeat(1 << 20), "\n".repeat(10 << 20), String::new()] {
        let started = Instant::now();
        answer(&request("", vec![message(Role::System, content.clone()), message(Role::User, content)], json!({})));
        assert!(started.elapsed().as_secs() < 20);
    }
    answer(&request("sim-a", Vec::new(), json!({})));
    answer(&request("sim-a", vec![message(Role::Assistant, "")], json!([])));
}

#[test]
#[ignore = "a measurement: cargo test --release -- --ignored"]
fn a_page_is_answered_in_well_under_a_tenth_of_a_millisecond() {
    let mut asked = critique("sim-b", json!({}));
    asked.messages[0].content.push_str(&"All prose is made of words. ".repeat(140));
    let started = Instant::now();
    for _ in 0..1000 {
        std::hint::black_box(answer(std::hint::black_box(&asked)));
    }
    assert!(started.elapsed().as_micros() < 100_000, "{:?} for a thousand", started.elapsed());
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "(<document |type=\"|author=\"|\"|>|\n|</document>|<request>|</request>|Deliver: |é|[a-z ]{1,8}|#|\\. ){0,30}",
    ]
}

proptest! {
    #[test]
    fn the_same_request_gets_the_same_reply_whatever_it_is(
        system in hostile(),
        user in hostile(),
        model in any::<String>(),
        keys in proptest::collection::vec(any::<String>(), 0..4),
        limit in 0..300_u64,
        seed in any::<u64>(),
    ) {
        let messages = vec![message(Role::System, system), message(Role::User, user)];
        let mut asked = request(&model, messages, json!({"seed": seed, "latency_ms": [1, 50]}));
        asked.content = (!keys.is_empty()).then(|| json!(keys));
        let (whole, finish, usage) = said(&asked);
        prop_assert_eq!(finish, FinishReason::Stop);
        prop_assert_eq!(usage.output_tokens, tokens(&whole));
        prop_assert_eq!(usage.input_tokens, asked.messages.iter().map(|m| tokens(&m.content)).sum::<u64>());
        if !keys.is_empty() {
            let value: Value = serde_json::from_str(&whole).unwrap();
            prop_assert!(keys.iter().all(|k| value.get(k).is_some()));
        }
        asked.max_output_tokens = limit;
        let (cut, finish, usage) = said(&asked);
        prop_assert!(whole.starts_with(&cut));
        prop_assert_eq!(usage.output_tokens, tokens(&whole).min(limit));
        prop_assert_eq!(finish == FinishReason::Length, cut.len() < whole.len());
        prop_assert_eq!(answer(&asked), answer(&asked.clone()));
    }
}
