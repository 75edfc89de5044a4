//! The law of beginning afresh: however often a document is begun again, with the interrupted item repeated, resumed or
//! skipped, it comes together with every item once.

use super::document::{self, Style, Written, write};
use super::runner;
use dialectic_core::knit;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::collections::BTreeSet;

/// How a model takes up the item it was interrupted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Whole, from its beginning.
    Repeated,
    /// With the fields that it lacked.
    Resumed,
    /// Not at all.
    Skipped,
}

/// What stands around a chunk.
#[derive(Debug, Clone, Copy)]
enum Around {
    Nothing,
    Content,
    Name,
    Fence,
}

/// What a reader has of a document: its outer keys, and the fields of its items, as far as they are complete.
#[derive(Debug, Default, Clone)]
struct Delivered {
    keys: BTreeSet<String>,
    fields: BTreeSet<(usize, String)>,
    items: BTreeSet<usize>,
}

impl Delivered {
    /// Adds what is complete in a chunk whose first item is `first` of the document.
    fn add(&mut self, written: &Written, end: usize, around: &str, places: &[usize]) {
        for span in &written.spans {
            let is_word = !(span.value.is_string() || span.value.is_array() || span.value.is_object());
            if span.end + usize::from(is_word) > end {
                continue;
            }
            let Some(pointer) = span.pointer.strip_prefix(around) else { continue };
            match pointer.split('/').skip(1).collect::<Vec<_>>().as_slice() {
                [key] => _ = self.keys.insert((*key).to_owned()),
                ["nodes", place] => _ = self.items.insert(places[place.parse::<usize>().unwrap()]),
                ["nodes", place, field] => {
                    self.fields.insert((places[place.parse::<usize>().unwrap()], (*field).to_owned()));
                }
                _ => {}
            }
        }
    }
}

/// The chunk that a model writes next, and which items of the document stand in it.
fn next(whole: &Value, delivered: &Delivered, way: Way, skipped: &mut BTreeSet<usize>) -> (Value, Vec<usize>) {
    let nodes = whole["nodes"].as_array().unwrap();
    let mut out = Map::new();
    let mut places = Vec::new();
    for (key, value) in whole.as_object().unwrap() {
        if key != "nodes" {
            if !delivered.keys.contains(key) {
                out.insert(key.clone(), value.clone());
            }
            continue;
        }
        if delivered.keys.contains(key) {
            continue;
        }
        let begun = (0..nodes.len()).rev().find(|place| delivered.fields.iter().any(|(there, _)| there == place));
        let mut items = Vec::new();
        for (place, node) in nodes.iter().enumerate().filter(|(place, _)| !delivered.items.contains(place)) {
            let is_interrupted = begun == Some(place);
            if skipped.contains(&place) || (is_interrupted && way == Way::Skipped) {
                skipped.insert(place);
                continue;
            }
            let lacking = |field: &String| !delivered.fields.contains(&(place, field.clone()));
            let node = match node {
                Value::Object(fields) if is_interrupted && way == Way::Resumed => {
                    let fields = fields.iter().filter(|(field, _)| lacking(field));
                    Value::Object(fields.map(|(field, value)| (field.clone(), value.clone())).collect())
                }
                node => node.clone(),
            };
            // All its fields were there, only its end was not.
            if node.as_object().is_some_and(Map::is_empty) {
                continue;
            }
            items.push(node);
            places.push(place);
        }
        out.insert(key.clone(), Value::Array(items));
    }
    (Value::Object(out), places)
}

fn wrap(value: Value, around: Around) -> (Value, &'static str) {
    match around {
        Around::Content => (json!({"content": value}), "/content"),
        Around::Name => (json!({"checklist": value}), "/checklist"),
        _ => (value, ""),
    }
}

/// Whether an item holds nothing but what the document has of it.
fn is_part(item: &Value, whole: &Value) -> bool {
    match (item, whole) {
        (Value::Object(some), Value::Object(all)) => {
            some.iter().all(|(key, value)| all.get(key).is_some_and(|whole| is_part(value, whole)))
        }
        (Value::Array(some), Value::Array(all)) => {
            some.len() <= all.len() && some.iter().zip(all).all(|(value, whole)| is_part(value, whole))
        }
        (Value::String(some), Value::String(all)) => all.starts_with(some.as_str()),
        (one, other) => one == other,
    }
}

fn name(item: &Value) -> Option<String> {
    let named = ["id", "path", "key", "name", "title"].iter().find_map(|field| item.get(field)?.as_str());
    named.filter(|name| name.len() == 4).map(str::to_owned)
}

#[test]
fn a_document_that_was_begun_again_has_everything_once() {
    let way = prop_oneof![3 => Just(Way::Repeated), 3 => Just(Way::Resumed), 1 => Just(Way::Skipped)];
    let around =
        prop::sample::select(vec![Around::Nothing, Around::Nothing, Around::Content, Around::Name, Around::Fence]);
    let rounds = prop::collection::vec((any::<Index>(), way, around), 1..5);
    let strategy = (document::listing(), document::style(), rounds, any::<bool>());
    let (chunked, exact) = (Cell::new(0u32), Cell::new(0u32));
    let law = |(whole, style, rounds, with_shape): (Value, Style, Vec<(Index, Way, Around)>, bool)| {
        let mut delivered = Delivered::default();
        let mut skipped = BTreeSet::new();
        let mut chunks: Vec<String> = Vec::new();
        let count = rounds.len();
        for (round, (at, way, around)) in rounds.into_iter().enumerate() {
            let (value, places) = next(&whole, &delivered, way, &mut skipped);
            if value.as_object().is_some_and(Map::is_empty) {
                break;
            }
            let (value, pointer) = wrap(value, around);
            let written = write(&value, style);
            // The first has its first key, so that it is known what it is; the last is whole.
            let first = written
                .spans
                .iter()
                .find(|span| span.pointer == format!("{pointer}/summary"))
                .map_or(2, |span| span.end);
            let end = if round + 1 == count && round > 0 {
                written.text.len()
            } else if round == 0 {
                first + at.index(written.text.len() - first)
            } else {
                12.min(written.text.len()) + at.index(written.text.len().max(12) - 11)
            };
            let end = written.text.floor_char_boundary(end);
            delivered.add(&written, end, pointer, &places);
            let text = &written.text[..end];
            chunks.push(match around {
                Around::Fence => format!("```json\n{text}"),
                _ => text.to_owned(),
            });
        }
        // The round that brings the rest.
        let (value, _) = next(&whole, &delivered, Way::Repeated, &mut skipped);
        if !value.as_object().is_some_and(Map::is_empty) {
            chunks.push(value.to_string());
        }
        prop_assume!(chunks.len() > 1);
        chunked.set(chunked.get() + 1);
        let borrowed: Vec<&str> = chunks.iter().map(String::as_str).collect();
        let shape = json!({"summary": "", "index": [], "nodes": [], "tail": {}});
        let knitted = knit::json(&borrowed, with_shape.then_some(&shape), Some("checklist"));
        let mut got: Value = serde_json::from_str(&knitted.text).unwrap();
        for wrapper in ["content", "checklist"] {
            if let Some(inner) = got.get_mut(wrapper) {
                got = inner.take();
            }
        }
        if skipped.is_empty() {
            exact.set(exact.get() + 1);
            prop_assert!(got == whole, "{:?}\ngot {}\nfor {}", chunks, got, whole);
            return Ok(());
        }
        let nodes = whole["nodes"].as_array().unwrap();
        for (key, value) in whole.as_object().unwrap().iter().filter(|(key, _)| *key != "nodes") {
            prop_assert_eq!(got.get(key), Some(value), "{} of {:?}", key, &chunks);
        }
        let mut seen = BTreeSet::new();
        for item in got["nodes"].as_array().unwrap() {
            let Some(name) = name(item) else {
                prop_assert!(nodes.iter().any(|node| is_part(item, node)), "{} in {:?}", item, &chunks);
                continue;
            };
            prop_assert!(seen.insert(name.clone()), "{} twice in {:?}", name, &chunks);
            let place: usize = name[1..].parse().unwrap();
            if skipped.contains(&place) {
                prop_assert!(is_part(item, &nodes[place]), "{:?}", &chunks);
                for (_, field) in delivered.fields.iter().filter(|(there, _)| *there == place) {
                    prop_assert_eq!(&item[field], &nodes[place][field], "{:?}", &chunks);
                }
            } else {
                prop_assert_eq!(item, &nodes[place], "{:?}", &chunks);
            }
        }
        let expected = (0..nodes.len()).filter(|place| !skipped.contains(place)).map(|place| format!("N{place:03}"));
        for name in expected {
            prop_assert!(seen.contains(&name), "{} lost of {:?}", name, &chunks);
        }
        Ok(())
    };
    runner("afresh", 20_000).run(&strategy, law).unwrap();
    println!("{} documents begun again, {} of them without a skipped item", chunked.get(), exact.get());
    assert!(exact.get() * 3 > chunked.get());
}
