//! The laws of going onward: a document cut anywhere, with or without repetition, fence or lead-in, comes back exactly.

use super::cpu_time::cpu_time;
use super::document::{self, Style, write};
use super::runner;
use dialectic_core::knit::{self, Joint};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use std::cell::Cell;

/// The shortest repetition that is no accident, and the longest that is looked for.
const SURE: usize = 12;
const LONGEST: usize = 200;

fn back(text: &str, from: usize, characters: usize) -> usize {
    text[..from].char_indices().rev().nth(characters.saturating_sub(1)).map_or(0, |(at, _)| at)
}

/// Whether a text is one shorter text over and over.
fn is_rhythm(text: &str) -> bool {
    (1..=text.len() / 2).any(|period| text.as_bytes()[period..] == text.as_bytes()[..text.len() - period])
}

/// How many characters there are, an escape as one and blanks in a row as one.
fn weight(text: &str) -> usize {
    let mut letters: Vec<char> = Vec::new();
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        let escaped = if letter == '\\' { rest.next() } else { None };
        if escaped == Some('u') {
            rest.nth(3);
        }
        letters.push(if letter == '\\' { '.' } else { letter });
    }
    let goes_on = |at: usize| at > 0 && letters[at].is_whitespace() && letters[at - 1].is_whitespace();
    (0..letters.len()).filter(|at| !goes_on(*at)).count()
}

/// Whether a reader could not know what is meant: the end of the text stands at the beginning of the chunk in another way.
fn is_ambiguous(text: &str, cut: usize, from: usize, to: usize) -> bool {
    let chunk = &text[from..to];
    let repeated = &text[from..cut];
    let tails = text[..cut].char_indices().rev().take(LONGEST).map(|(at, _)| &text[at..cut]);
    let longest = tails.filter(|tail| chunk.starts_with(tail)).last().unwrap_or_default();
    let other =
        if from < cut { longest.len() > repeated.len() } else { weight(longest) >= SURE && !is_rhythm(longest) };
    other || (from < cut && (is_rhythm(repeated) || text[..from].contains(repeated)))
}

/// The chunks of a text, each with as much repetition as is asked for where that can be told; how many repeat.
fn cut(text: &str, cuts: &[(Index, usize)], whole_words: bool) -> (Vec<String>, usize, usize) {
    let mut places: Vec<(usize, usize)> =
        cuts.iter().map(|(at, repeat)| (text.floor_char_boundary(at.index(text.len() + 1)), *repeat)).collect();
    places.sort_unstable();
    places.dedup_by_key(|(at, _)| *at);
    let (mut chunks, mut repeating, mut dropped) = (Vec::new(), 0, 0);
    let mut end = text.len();
    let mut rest = Vec::new();
    for (at, repeat) in places.into_iter().rev() {
        let from = if repeat < SURE { at } else { back(text, at, repeat) };
        let from = if whole_words { word(text, from, at) } else { from };
        let from = if weight(&text[from..at]) < SURE || is_ambiguous(text, at, from, end) { at } else { from };
        if is_ambiguous(text, at, from, end) {
            dropped += 1;
            continue;
        }
        repeating += usize::from(from < at);
        rest.push(text[from..end].to_owned());
        end = at;
    }
    chunks.push(text[..end].to_owned());
    chunks.extend(rest.into_iter().rev());
    (chunks, repeating, dropped)
}

/// The first word that begins at a place or behind it.
fn word(text: &str, from: usize, end: usize) -> usize {
    let skipped = text[..from].ends_with(char::is_alphanumeric);
    let rest = text[from..end].char_indices().skip_while(|(_, c)| skipped && c.is_alphanumeric());
    let start = rest.map(|(at, _)| from + at).next().unwrap_or(end);
    let letters = text[start..end].chars().filter(|c| c.is_alphanumeric()).count();
    if letters < 4 { end } else { start }
}

fn cuts() -> impl Strategy<Value = Vec<(Index, usize)>> {
    prop::collection::vec((any::<Index>(), prop_oneof![Just(0usize), SURE..=LONGEST]), 0..8)
}

fn borrowed(chunks: &[String]) -> Vec<&str> {
    chunks.iter().map(String::as_str).collect()
}

#[test]
fn a_document_that_was_cut_anywhere_comes_back_exactly() {
    let (seams, repeats, lost) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let strategy = (document::document(), document::style(), cuts());
    let law = |(value, style, cuts): (Value, Style, Vec<(Index, usize)>)| {
        let text = write(&value, style).text;
        let (chunks, repeating, dropped) = cut(&text, &cuts, false);
        seams.set(seams.get() + chunks.len() - 1);
        repeats.set(repeats.get() + repeating);
        lost.set(lost.get() + dropped);
        let knitted = knit::json(&borrowed(&chunks), None, None);
        prop_assert_eq!(&knitted.text, &text, "{:?}", chunks);
        prop_assert!(!knitted.is_repaired);
        prop_assert_eq!(knitted.joints.len(), chunks.len() - 1);
        prop_assert!(!knitted.joints.contains(&Joint::Afresh));
        Ok(())
    };
    runner("onward", 100_000).run(&strategy, law).unwrap();
    let (seams, repeats, lost) = (seams.get(), repeats.get(), lost.get());
    println!("{seams} seams, {repeats} with a repetition; {lost} that nobody could tell left out");
    assert!(repeats * 5 > seams && lost * 50 < seams);
}

#[test]
fn fences_and_lead_ins_are_taken_off() {
    let strategy = (document::document(), document::style(), cuts(), prop::collection::vec(0..4usize, 9));
    let law = |(value, style, cuts, ways): (Value, Style, Vec<(Index, usize)>, Vec<usize>)| {
        let text = write(&value, style).text;
        let (mut chunks, ..) = cut(&text, &cuts, false);
        // A first chunk in which no JSON begins yet is not told from prose.
        prop_assume!(!chunks[0].is_empty());
        for (chunk, way) in chunks.iter_mut().skip(1).zip(ways) {
            *chunk = match way {
                0 => format!("```json\n{chunk}\n```"),
                1 => format!("Here is the rest of it:\n\n{chunk}"),
                2 => format!("Continuing from where I stopped.\n```\n{chunk}\n```"),
                _ => chunk.clone(),
            };
        }
        let knitted = knit::json(&borrowed(&chunks), None, None);
        prop_assert_eq!(&knitted.text, &text, "{:?}", chunks);
        Ok(())
    };
    runner("fences", 20_000).run(&strategy, law).unwrap();
}

/// A mark at the beginning of a line, and words behind it.
type Block = (&'static str, Vec<String>);

#[test]
fn a_plain_text_that_was_cut_anywhere_comes_back_exactly() {
    let paragraph = prop::collection::vec("[a-zäé]{1,9}|[A-Z][a-z]{2,6}[.,:]|😀|数据|\\*\\*[a-z]{3}\\*\\*", 1..60);
    let block = (prop::sample::select(vec!["", "# ", "## ", "- ", "1. ", "> ", "| "]), paragraph);
    let strategy = (prop::collection::vec(block, 1..12), cuts());
    let law = |(blocks, cuts): (Vec<Block>, Vec<(Index, usize)>)| {
        let blocks: Vec<String> =
            blocks.into_iter().map(|(mark, words)| format!("{mark}{}\n", words.join(" "))).collect();
        let text = blocks.join("\n");
        let (chunks, ..) = cut(&text, &cuts, true);
        let knitted = knit::text(&borrowed(&chunks));
        prop_assert_eq!(&knitted.text, &text, "{:?}", chunks);
        Ok(())
    };
    runner("texts", 20_000).run(&strategy, law).unwrap();
}

#[test]
fn no_chunks_make_it_fall() {
    let piece = prop_oneof![
        any::<String>(),
        "[\\[\\]{}\",:\\\\/ a-f0-9u\n.é`-]{0,60}",
        prop::sample::select(vec![
            "{\"a\": [",
            "{\"a\":",
            "```json\n",
            "\"id\": 1}",
            "]}",
            "{\"content\": {",
            "\\ud83d",
            "Here is the rest:\n\n"
        ])
        .prop_map(str::to_owned),
    ];
    let strategy = prop::collection::vec(piece, 0..8);
    let shape = serde_json::json!({"a": [], "b": ""});
    let law = |chunks: Vec<String>| {
        let chunks = borrowed(&chunks);
        for shape in [None, Some(&shape)] {
            let knitted = knit::json(&chunks, shape, Some("content"));
            prop_assert_eq!(knitted.joints.len(), chunks.len().saturating_sub(1));
            let _ = knit::standing(&chunks, shape, None);
        }
        let _ = (knit::text(&chunks), knit::repair(&chunks.concat()));
        Ok(())
    };
    runner("anything", 100_000).run(&strategy, law).unwrap();
}

/// A document of about 300 kB.
fn large() -> Value {
    let item = |place: usize| {
        let words =
            |salt: usize| (0..40).map(|n| format!("w{} ", (place * 31 + n * 7 + salt) % 9973)).collect::<String>();
        serde_json::json!({"id": format!("N{place:04}"), "title": words(1), "objective": [words(2), words(3)], "steps": words(4)})
    };
    serde_json::json!({"summary": "large", "nodes": (0..300).map(item).collect::<Vec<_>>()})
}

/// What became of some chunks and of four times as many of the same text, which must not take as if each were read with all
/// before it and again for every one of them: that would be sixteen times as long.
fn in_proportion(what: &str, few: &[&str], many: &[&str]) -> knit::Knitted {
    let [brief, long] = [few, many].map(|chunks| cpu_time(|| knit::json(chunks, None, None)));
    println!("{what}: {brief:?} for {} chunks, {long:?} for {}", few.len(), many.len());
    assert!(long < 12 * brief, "{what}: {long:?} after {brief:?}");
    knit::json(many, None, None)
}

#[test]
fn knitting_takes_time_in_proportion_to_the_chunks() {
    let text = serde_json::to_string_pretty(&large()).unwrap();
    assert!(text.len() > 300_000, "{}", text.len());
    let repeating = |count: usize| -> Vec<&str> {
        let place = |n: usize| text.floor_char_boundary(text.len() * n / count);
        (0..count).map(|n| &text[place(n).saturating_sub(if n > 0 { 100 } else { 0 })..place(n + 1)]).collect()
    };
    assert_eq!(in_proportion("onward", &repeating(10), &repeating(40)).text, text);

    let Value::Array(nodes) = large()["nodes"].take() else { unreachable!() };
    let begun_again = |size: usize| -> Vec<String> {
        let part = |(at, part): (usize, &[Value])| {
            let again = [if at > 0 { &nodes[at * size - 1..at * size] } else { &[] }, part].concat();
            let text = serde_json::json!({"summary": "large", "nodes": again}).to_string();
            // Cut in the last item, which the next one begins with again.
            if (at + 1) * size < nodes.len() { text[..text.len() - 60].to_owned() } else { text }
        };
        nodes.chunks(size).enumerate().map(part).collect()
    };
    let (few, many) = (begun_again(28), begun_again(7));
    let knitted = in_proportion("afresh", &borrowed(&few), &borrowed(&many));
    assert_eq!(serde_json::from_str::<Value>(&knitted.text).unwrap(), large());
    assert!(!knitted.is_repaired && knitted.joints.iter().all(|joint| *joint == Joint::Afresh));
}
