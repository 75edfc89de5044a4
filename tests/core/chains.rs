//! The laws of whole chains: an answer that is cut off again and again is judged chunk by chunk, as the worker does it, until
//! it is one document.
//!
//! A real chain is judged where it is at hand, as in `answers.rs`. Never about single rules: those stand beside the code.

#[path = "cpu_time.rs"]
mod cpu_time;

use cpu_time::cpu_time;
use dialectic_core::answer::{Verdict, Wanted, Why, assembled, verdict};
use dialectic_core::knit;
use dialectic_core::provider::FinishReason;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// What is wanted behind the first chunks of a chain.
fn wanted(shape: Option<&Value>, key: &str, before: &[String]) -> Wanted {
    Wanted {
        shape: shape.cloned(),
        document_key: Some(key.to_owned()),
        before: before.to_vec(),
        may_continue: true,
        ..Wanted::default()
    }
}

/// Judges every chunk behind those before it, as the worker does it: all but the last ask for more.
#[track_caller]
fn judged(shape: Option<&Value>, chunks: &[String]) -> Verdict {
    for (at, chunk) in chunks.iter().enumerate() {
        let is_last = at + 1 == chunks.len();
        let finish = if is_last { FinishReason::Stop } else { FinishReason::Length };
        let heard = verdict(finish, chunk, &wanted(shape, "plan", &chunks[..at]));
        if is_last {
            return heard;
        }
        assert_eq!(heard, Verdict::Continue(Why::Cut), "chunk {at}");
        let borrowed: Vec<&str> = chunks[..=at].iter().map(String::as_str).collect();
        match shape {
            Some(shape) => {
                assert!(!knit::so_far(&borrowed, Some(shape), Some("plan")).is_empty());
                assert!(knit::standing(&borrowed, Some(shape), Some("plan")).is_open);
            }
            None => assert_eq!(knit::text(&borrowed).text, borrowed.concat()),
        }
    }
    unreachable!("a chain has chunks");
}

#[track_caller]
fn complete(heard: Verdict) -> String {
    match heard {
        Verdict::Kept { content: Some(content), is_complete: true, .. } => content,
        other => panic!("{other:?}"),
    }
}

fn words(place: usize, salt: usize) -> String {
    (0..40).map(|n| format!("w{} ", (place * 31 + n * 7 + salt) % 9973)).collect()
}

/// A plan of about 300 kB, most of it one long list.
fn plan() -> Value {
    let item = |place: usize| {
        json!({"id": format!("N{place:04}"), "title": words(place, 1), "steps": [words(place, 2), words(place, 3)],
               "done": words(place, 4)})
    };
    json!({"summary": "large", "nodes": (0..300).map(item).collect::<Vec<_>>(), "notes": "the end"})
}

fn cut(text: &str, count: usize) -> Vec<String> {
    let place = |n: usize| text.floor_char_boundary(text.len() * n / count);
    (0..count).map(|n| text[place(n)..place(n + 1)].to_owned()).collect()
}

/// The plan in objects begun afresh, each with the item that was interrupted and those behind it.
fn afresh(plan: &Value, count: usize) -> Vec<String> {
    let nodes = plan["nodes"].as_array().unwrap();
    let size = nodes.len().div_ceil(count);
    let part = |at: usize| {
        let first = (at * size).saturating_sub(usize::from(at > 0));
        let last = ((at + 1) * size).min(nodes.len());
        if last < nodes.len() {
            let text = json!({"summary": plan["summary"], "nodes": nodes[first..last]}).to_string();
            return text[..text.len() - 60].to_owned();
        }
        json!({"nodes": nodes[first..last], "notes": plan["notes"]}).to_string()
    };
    (0..nodes.len().div_ceil(size)).map(part).collect()
}

/// The result of some work on four times as many chunks as `few`, which takes about four times as long: every step reads
/// what there is once. With the square of the number of chunks at each step it would be 64 times.
fn in_proportion<T>(what: &str, few: impl Fn() -> T, many: impl Fn() -> T) -> T {
    let (brief, long) = (cpu_time(few), cpu_time(&many));
    println!("{what}: {brief:?} for ten chunks, {long:?} for forty");
    assert!(long < 16 * brief, "{what}: {long:?} after {brief:?}");
    many()
}

#[test]
fn judging_at_every_step_takes_time_in_proportion_to_the_chunks() {
    let plan = plan();
    let shape = json!({"summary": "", "nodes": [{"id": "", "title": "", "steps": [], "done": ""}], "notes": ""});
    let text = serde_json::to_string_pretty(&plan).unwrap();
    assert!(text.len() > 300_000, "{}", text.len());
    for (way, few, many) in
        [("onward", cut(&text, 10), cut(&text, 40)), ("afresh", afresh(&plan, 10), afresh(&plan, 40))]
    {
        let heard = in_proportion(way, || judged(Some(&shape), &few), || judged(Some(&shape), &many));
        assert_eq!(serde_json::from_str::<Value>(&complete(heard)).unwrap(), plan, "{way}");
    }
    let paragraph = |n: usize| format!("## Part {n}\n\n{}\n\n```sh\necho {n}\n```\n\n- {}\n", words(n, 1), words(n, 2));
    let markdown: String = (0..700).map(paragraph).collect();
    assert!(markdown.len() > 300_000, "{}", markdown.len());
    let (few, many) = (cut(&markdown, 10), cut(&markdown, 40));
    assert_eq!(complete(in_proportion("text", || judged(None, &few), || judged(None, &many))), markdown);
}

#[test]
fn wherever_a_document_is_cut_off_its_chain_goes_on_until_it_is_whole() {
    let plan = json!({"summary": "Ein \"Satz\" – 中文 😀", "nodes": [
        {"id": "a", "title": "One, and\nanother", "steps": ["x", "y \\ z"]}, {"id": "b", "title": "", "steps": []},
        {"id": "c", "title": "Three", "steps": [1.5e3, true, null]}], "notes": "end"});
    let shape = json!({"summary": "", "nodes": [], "notes": ""});
    for text in [plan.to_string(), serde_json::to_string_pretty(&json!({ "content": plan })).unwrap()] {
        let places: Vec<usize> = (1..text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        for (at, first) in places.iter().enumerate() {
            let second = places[at..].iter().copied().nth(17).unwrap_or(text.len());
            let chunks = [&text[..*first], &text[*first..second], &text[second..]];
            let chunks: Vec<String> = chunks.iter().filter(|c| !c.trim().is_empty()).map(|&c| c.to_owned()).collect();
            let mut so_far = String::new();
            for (at, chunk) in chunks.iter().enumerate() {
                let is_last = at + 1 == chunks.len();
                let finish = if is_last { FinishReason::Stop } else { FinishReason::Length };
                so_far.push_str(chunk);
                match verdict(finish, chunk, &wanted(Some(&shape), "plan", &chunks[..at])) {
                    Verdict::Continue(Why::Cut) if !is_last => {}
                    // The brackets of a wrapper are no part of the document.
                    heard => {
                        assert!(so_far.trim_end().len() + 2 >= text.len(), "{so_far}: {heard:?}");
                        assert_eq!(serde_json::from_str::<Value>(&complete(heard)).unwrap(), plan, "{so_far}");
                        break;
                    }
                }
                let borrowed: Vec<&str> = chunks[..=at].iter().map(String::as_str).collect();
                assert_eq!(knit::so_far(&borrowed, Some(&shape), Some("plan")), so_far);
            }
        }
    }
}

fn real() -> Option<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = std::env::var_os("DIALECTIC_SAMPLES").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root.join("../shared/samples")).join("real-run/5_paralysis/answers");
    let names = ["", ".continuation_1", ".continuation_2", ".continuation_3", ".continuation_4"];
    names.iter().map(|name| fs::read_to_string(folder.join(format!("actionable_checklist{name}.json"))).ok()).collect()
}

#[test]
fn a_real_chain_ends_where_its_document_does() {
    let Some(chunks) = real() else { return };
    let first = knit::repair(&chunks[0]).unwrap().0;
    let keys: Vec<&String> = first["content"].as_object().unwrap().keys().collect();
    for shape in [json!({"nodes": []}), json!(keys)] {
        for (at, chunk) in chunks.iter().enumerate() {
            let of = wanted(Some(&shape), "actionable_checklist", &chunks[..at]);
            // The first three were cut off; with the fourth the checklist is there, and the fifth was never wanted.
            if at < 3 {
                assert_eq!(verdict(FinishReason::Length, chunk, &of), Verdict::Continue(Why::Cut), "{at}");
                let Verdict::Kept { is_complete: false, notes, .. } =
                    verdict(FinishReason::Length, chunk, &Wanted { may_continue: false, ..of })
                else {
                    panic!("the cap assembles what there is")
                };
                assert!(notes.iter().any(|note| note.contains("cut off inside \"nodes.4")), "{notes:?}");
                continue;
            }
            let Verdict::Kept { content: Some(content), is_complete, notes } = verdict(FinishReason::Stop, chunk, &of)
            else {
                panic!("{at}")
            };
            let checklist: Value = serde_json::from_str(&content).unwrap();
            assert_eq!(checklist["nodes"].as_array().unwrap().len(), 6);
            assert!(checklist.get("updated_master_plan").is_none() && checklist.get("resume_cursor").is_none());
            assert!(is_complete, "{notes:?}");
            assert!(notes.iter().any(|note| note.contains("it would go on with \"updated_master_plan\"")), "{notes:?}");
        }
    }
    let stopped = assembled(&wanted(Some(&json!({"nodes": []})), "actionable_checklist", &chunks[..2]), "stopped");
    assert!(matches!(stopped, Verdict::Kept { is_complete: false, .. }), "{stopped:?}");
}
