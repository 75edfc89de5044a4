//! Laws of chains as a whole: a simulated model of short breath is asked to go on in the shipped words, and judged, until its
//! document is there. It is the one it would have written in one breath.

use super::samples::{definition, domain, turns};
use dialectic_core::answer::{Verdict, Wanted, Why, verdict};
use dialectic_core::definition::Continuing;
use dialectic_core::provider::{Outcome, Request, simulator};
use serde_json::{Value, json};

/// The chunks of a chain and what they came to.
struct Chain {
    chunks: Vec<String>,
    whys: Vec<Why>,
    heard: Verdict,
}

/// Asks, and asks on, as the worker does it.
fn chain(process: &str, step: &str, settings: Value) -> Chain {
    let definition = definition(process, domain(process));
    let (_, turn) = turns(process).into_iter().find(|(name, _)| name == step).unwrap();
    let of = definition.step(&turn.stage, &turn.step_key).unwrap();
    let first = definition.messages(&turn).unwrap();
    let mut request = Request {
        api: "simulator".into(),
        model: "sim-a".into(),
        api_model: "sim-a".into(),
        messages: first.clone(),
        max_output_tokens: 4096,
        context_window: 1_000_000,
        content: of.content_to_include.clone(),
        settings,
        call_no: 1,
        embeds: None,
    };
    let mut wanted = Wanted {
        shape: of.content_to_include.clone(),
        document_key: of.document_key.clone(),
        may_continue: true,
        ..Wanted::default()
    };
    let mut whys = Vec::new();
    loop {
        let Outcome::Answer { text, finish_reason, .. } = simulator::answer(&request).outcome else {
            panic!("refused")
        };
        let heard = verdict(finish_reason, &text, &wanted);
        wanted.before.push(text);
        let Verdict::Continue(why) = heard else { return Chain { chunks: wanted.before, whys, heard } };
        assert!(whys.len() < 200, "it never ends");
        let continuing = Continuing {
            turn: serde_json::to_string(&first).unwrap(),
            chunks: wanted.before.clone(),
            why: why.clone(),
            shape: wanted.shape.clone(),
            document_key: wanted.document_key.clone(),
        };
        request.messages = definition.go_on(&continuing).unwrap();
        assert_eq!(request.messages[..first.len()], first);
        whys.push(why);
    }
}

#[track_caller]
fn content(chain: &Chain) -> &str {
    match &chain.heard {
        Verdict::Kept { content: Some(content), is_complete: true, .. } => content,
        Verdict::Kept { content: None, is_complete: true, .. } => &chain.chunks[0],
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_document_in_many_breaths_is_the_one_of_one_breath() {
    for step in ["dialectic_risk_register", "dialectic_feature_spec", "dialectic_thesis_header"] {
        for wrap in [None, Some("content"), Some("fence"), Some("prose"), Some("document_key")] {
            let with = |way: &str, tokens: u64| {
                let mut settings = json!({"answer_words": 400, "continue": way, "cut_after_tokens": tokens});
                wrap.into_iter().for_each(|wrap| settings["wrap"] = json!(wrap));
                settings
            };
            let whole = chain("dialectic", step, with("onward", 100_000));
            assert_eq!(whole.chunks.len(), 1);
            // Going on afresh takes breath enough for one item, and any beginning enough for a word before the JSON.
            let all = simulator::tokens(&whole.chunks[0]);
            let ways =
                [("onward", 20), ("onward", 60), ("onward", all - 2), ("afresh", all * 3 / 5), ("afresh", all - 2)];
            for (way, tokens) in ways {
                let cut = chain("dialectic", step, with(way, tokens));
                assert!(cut.whys.iter().all(|why| *why == Why::Cut), "{:?}", cut.whys);
                assert!(
                    tokens + 2 == all || !cut.whys.is_empty(),
                    "{step} {wrap:?} {way} {tokens} of {all}: {:?}",
                    cut.chunks
                );
                assert_eq!(content(&cut), content(&whole), "{step} {wrap:?} {way} {tokens}");
                let written = |chain: &Chain| chain.chunks.iter().map(String::len).sum::<usize>();
                assert!(way == "afresh" || written(&cut) <= written(&whole), "nothing was written twice");
            }
        }
    }
}

#[test]
fn a_text_in_many_breaths_is_the_one_of_one_breath() {
    let with = |way: &str, tokens: u64| json!({"answer_words": 400, "continue": way, "cut_after_tokens": tokens});
    let whole = chain("essay", "essay_thesis", with("onward", 100_000));
    for (way, tokens) in [("onward", 7), ("onward", 90), ("afresh", 90)] {
        let cut = chain("essay", "essay_thesis", with(way, tokens));
        assert!(cut.whys.len() > 3);
        assert_eq!(content(&cut), content(&whole), "{way} {tokens}");
    }
}

#[test]
fn what_is_left_out_and_cut_off_is_there_in_the_end() {
    for (step, omitted, breaths) in [
        ("dialectic_risk_register", json!(["mitigation_plan", "notes"]), [350, 400]),
        (
            "dialectic_thesis_header",
            json!(["context_for_documents[feature_spec]", "context_for_documents[business_case]"]),
            [700, 800],
        ),
    ] {
        for tokens in breaths {
            let settings = json!({"omit_keys": omitted, "cut_after_tokens": tokens, "answer_words": 300});
            let chain = chain("dialectic", step, settings);
            assert!(matches!(chain.whys.first(), Some(Why::Cut)), "{:?}", chain.whys);
            assert!(chain.whys.iter().any(|why| matches!(why, Why::Missing(_))), "{:?}", chain.whys);
            assert!(serde_json::from_str::<Value>(content(&chain)).is_ok());
        }
    }
}

#[test]
fn a_model_that_never_gives_what_is_missing_is_asked_once() {
    let settings = json!({"omit_keys": ["notes"], "omit_always": true});
    let chain = chain("dialectic", "dialectic_risk_register", settings);
    assert_eq!(chain.whys, [Why::Missing(vec!["notes".into()])]);
    let Verdict::Kept { is_complete: false, notes, .. } = &chain.heard else { panic!("{:?}", chain.heard) };
    assert!(notes.contains(&"missing: notes".to_owned()), "{notes:?}");
}
