//! Counts held against recorded ones and, text by text, against tiktoken-rs; and the time that counting takes against its.

#[path = "cpu_time.rs"]
mod cpu_time;

use cpu_time::cpu_time;
use dialectic_core::tokens::{Encoding, count};
use proptest::prelude::*;
use serde::Deserialize;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tiktoken_rs::{CoreBPE, cl100k_base_singleton, o200k_base_singleton};

fn references() -> [(Encoding, &'static CoreBPE); 2] {
    [(Encoding::O200kBase, o200k_base_singleton()), (Encoding::Cl100kBase, cl100k_base_singleton())]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files of a folder and of the folders in it that hold text, in order.
fn texts(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => texts(&path),
        false => fs::read_to_string(&path).map(|text| (path, text)).into_iter().collect(),
    });
    let mut found: Vec<_> = found.collect();
    found.sort();
    found
}

#[derive(Deserialize)]
struct Recorded {
    text: String,
    #[serde(default = "once")]
    times: usize,
    o200k_base: u64,
    cl100k_base: u64,
}

fn once() -> usize {
    1
}

#[test]
fn every_recorded_count_is_met_also_of_a_megabyte_of_anything() {
    let file = fs::read_to_string(root().join("tests/fixtures/tokens/counts.json")).unwrap();
    let all: Vec<Recorded> = serde_json::from_str(&file).unwrap();
    assert!(all.iter().filter(|one| one.text.len() * one.times > 900_000).count() > 10);
    for Recorded { text, times, o200k_base, cl100k_base } in all {
        let repeated = text.repeat(times);
        for (encoding, recorded) in [(Encoding::O200kBase, o200k_base), (Encoding::Cl100kBase, cl100k_base)] {
            // Time that grew with the square of the length would be hours here.
            assert_eq!(count(encoding, &repeated), recorded, "{} times {text:?} in {}", times, encoding.as_str());
        }
    }
}

#[test]
fn every_text_of_this_project_has_the_count_of_the_reference() {
    let folders = ["sql", "src", "tests/fixtures"].map(|folder| texts(&root().join(folder)));
    let mut all = folders.concat();
    assert!(all.len() > 300, "only {} texts", all.len());
    // Answers of a real model, where they are at hand.
    let samples = std::env::var_os("DIALECTIC_SAMPLES").map(PathBuf::from);
    all.extend(texts(&samples.unwrap_or_else(|| root().join("../shared/samples"))));
    for (path, text) in all {
        for (encoding, reference) in references() {
            let expected = reference.encode_ordinary(&text).len() as u64;
            assert_eq!(count(encoding, &text), expected, "{} in {}", path.display(), encoding.as_str());
        }
    }
}

/// Characters that the patterns of the encodings tell apart, each of them often.
fn telling() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        4 => "[a-z]{1,12}",
        2 => "[A-Z]{1,4}",
        2 => "[ \t\u{a0}\u{3000}]{1,3}",
        2 => "[\r\n]{1,3}",
        2 => "['/.,:!<|>{}\"-]{1,3}",
        2 => "'([sdmtSDMTſ]|[lL]{2}|[vV][eE]|[rR][eE])",
        2 => "[0-9]{1,7}",
        1 => "[\u{661}-\u{669}ⅷ²]{1,4}",
        2 => "[\\p{Lo}]{1,4}",
        1 => "[\\p{Lt}\\p{Lm}\\p{M}]{1,3}",
        1 => "[一-龥]{1,30}",
        1 => "[\u{1f300}-\u{1f64f}\u{200d}\u{fe0f}]{1,5}",
        1 => "\\PC{1,3}",
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(one, 0..24).prop_map(|parts| parts.concat())
}

/// One word, over and over: long pieces, where the order of joining tells.
fn dull() -> impl Strategy<Value = String> {
    ("[a-cé中]{1,4}", 1_usize..120).prop_map(|(word, times)| word.repeat(times))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_has_the_count_of_the_reference(text in prop_oneof![3 => telling(), 1 => dull(), 1 => "[a-z]{100,400}", 1 => ".*"]) {
        for (encoding, reference) in references() {
            prop_assert_eq!(count(encoding, &text), reference.encode_ordinary(&text).len() as u64, "{}", encoding.as_str());
        }
    }
}

#[test]
fn counting_takes_less_than_two_thirds_of_the_time_of_the_reference() {
    let of = |folder: &str, end: &str| {
        let found = texts(&root().join(folder)).into_iter();
        found.filter(|(path, _)| path.to_str().unwrap().ends_with(end)).map(|(_, text)| text).collect::<String>()
    };
    let chinese = "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。".repeat(400);
    let corpora = [
        ("prompts", of("tests/fixtures/prompts", ".txt")),
        ("documents", of("tests/fixtures/documents", ".md")),
        ("json", of("tests/fixtures/documents", ".json")),
        ("code", of("src/core/provider", ".rs")),
        ("chinese", chinese),
    ];
    for (name, text) in corpora {
        assert!(text.len() > 20_000, "{name}: {}", text.len());
        for (encoding, reference) in references() {
            let ours = cpu_time(|| count(encoding, black_box(&text)));
            let theirs = cpu_time(|| reference.encode_ordinary(black_box(&text)).len() as u64);
            let speed = |time: Duration| text.len() as f64 / time.as_secs_f64() / 1e6;
            let times = theirs.as_secs_f64() / ours.as_secs_f64();
            let encoding = encoding.as_str();
            println!(
                "{name:10} {encoding:12} {:6.1} MB/s, tiktoken-rs {:6.1} MB/s: {times:.1} times",
                speed(ours),
                speed(theirs)
            );
            assert!(times > 1.5, "{name} in {encoding}: {times:.2} times the speed of tiktoken-rs");
        }
    }
}
