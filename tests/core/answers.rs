//! The laws of reading answers, held against real answers of a real model where they are at hand.
//!
//! The answers are not part of the project: `DIALECTIC_SAMPLES` names the folder, `../shared/samples` beside the checkout
//! is looked for, and without either the test has nothing to say.

use dialectic_core::answer::{self, Unusable};
use dialectic_core::json::{self, Unreadable};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn shapes() -> Value {
    serde_json::from_str(&fs::read_to_string(root().join("tests/fixtures/documents/shapes.json")).unwrap()).unwrap()
}

/// Every file of a real run, by its path.
fn samples() -> BTreeMap<String, String> {
    let named = std::env::var_os("DIALECTIC_SAMPLES").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| root().join("../shared/samples")).join("real-run");
    let mut found = BTreeMap::new();
    let mut open = vec![folder.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "json") {
                found.insert(path.to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

fn key(path: &str) -> &str {
    Path::new(path).file_name().unwrap().to_str().unwrap().split('.').next().unwrap()
}

/// A text without its marks.
fn letters(text: &str) -> String {
    let text = text.trim_start_matches(|c: char| c.is_ascii_digit() || " .)-*".contains(c));
    text.chars().filter(|c| c.is_alphabetic()).collect()
}

/// Every text of a value.
fn words(value: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::String(text) => found.push(text.as_str()),
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    found
}

#[test]
fn real_answers_are_accepted_and_lose_nothing() {
    let shapes = shapes();
    for (path, text) in samples() {
        let key = key(&path);
        let Some(shape) = shapes.get(key) else { continue };
        match answer::read(&text, Some(shape), Some(key)) {
            Ok(answer) => {
                println!("{key}: missing {:?}, {:?}", answer.missing, answer.notes);
                assert!(answer.content.is_object() && answer.content.get("content").is_none(), "{path}");
                let written = json::read(&text).unwrap().value;
                let content = letters(&words(&answer.content).concat());
                let control = [&written["stop_reason"], &written["resume_cursor"]].map(words).concat();
                let lines = words(&written).into_iter().filter(|text| !control.contains(text)).flat_map(str::lines);
                let lost: Vec<&str> = lines.filter(|line| !content.contains(&letters(line))).collect();
                assert_eq!(lost, Vec::<&str>::new(), "{path}");
                let again = answer::read(&answer.content.to_string(), Some(shape), Some(key)).unwrap();
                assert_eq!((again.content, again.missing), (answer.content, answer.missing), "{path}");
            }
            Err(Unusable::Json(Unreadable::Cut { partial, .. })) => {
                assert!(serde_json::from_str::<Value>(&text).is_err(), "{path}");
                assert_eq!(json::close(&text), Some(partial), "{path}");
            }
            // What was written unasked, after the document was finished.
            Err(Unusable::NothingAsked { .. }) => assert!(path.contains("continuation_4"), "{path}"),
            Err(problem) => panic!("{path}: {problem}"),
        }
    }
}

#[test]
fn real_headers_have_every_document() {
    for (path, text) in samples().into_iter().filter(|(path, _)| path.contains("/headers/")) {
        let header = json::read(&text).unwrap().value;
        let shape = json!({"system_materials": {}, "context_for_documents": header["context_for_documents"]});
        let answer = answer::read(&text, Some(&shape), Some("header_context")).unwrap();
        assert_eq!(answer.missing, Vec::<String>::new(), "{path}");
        let mut wider = shape.clone();
        wider["context_for_documents"]
            .as_array_mut()
            .unwrap()
            .push(json!({"document_key": "unwritten", "content_to_include": {}}));
        let answer = answer::read(&text, Some(&wider), None).unwrap();
        assert_eq!(answer.missing, ["context_for_documents[unwritten]"], "{path}");
    }
}
