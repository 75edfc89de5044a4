//! The laws of redaction: the secret is gone, however the text was cut, and nothing else is.
//!
//! They decide nothing; they hold [`super`] to what its header says.

use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn redactor_of(secret: &str) -> Redactor {
    Redactor::new(secret).unwrap()
}

/// What is held back while a text is under way.
fn held(redactor: &Redactor) -> usize {
    redactor.text.kept.len() - redactor.text.given
}

fn longest(redactor: &Redactor) -> usize {
    redactor.search.automaton.max_pattern_len()
}

/// The same without any cleverness.
fn plainly(secret: &str, text: &str) -> String {
    let mut forms = spellings(secret);
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match forms.iter().find(|form| rest.starts_with(form.as_str())) {
            Some(form) => {
                out.push_str(MASK);
                rest = &rest[form.len()..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// Cuts a text at every place that is a multiple of `size`, between characters.
fn pieces(text: &str, size: usize) -> Vec<String> {
    text.chars().collect::<Vec<_>>().chunks(size).map(|chars| chars.iter().collect()).collect()
}

#[test]
fn the_secret_is_taken_out_of_a_whole_text() {
    let redactor = redactor_of("sk-canary-123");
    assert_eq!(
        redactor.whole("Incorrect key sk-canary-123, not sk-canary-12."),
        "Incorrect key ***, not sk-canary-12."
    );
    assert_eq!(redactor.whole("sk-canary-123sk-canary-123"), "******");
    assert_eq!(redactor.whole("sk-canary-sk-canary-123"), "sk-canary-***");
    assert_eq!(redactor.whole(""), "");
}

#[test]
fn the_secret_is_found_as_json_and_urls_write_it() {
    let redactor = redactor_of("a\"b\\c/d+é=");
    for form in [
        "a\"b\\c/d+é=",
        r#"a\"b\\c/d+é="#,
        r#"a\"b\\c\/d+é="#,
        "a%22b%5Cc%2Fd%2B%C3%A9%3D",
        "a%22b%5cc%2fd%2b%c3%a9%3d",
    ] {
        assert_eq!(redactor.whole(&format!("<{form}>")), "<***>", "{form}");
    }
    assert_eq!(redactor_of("line\nend").whole(r#"{"key": "line\nend"}"#), r#"{"key": "***"}"#);
    assert_eq!(spellings("sk-plain_1.2~3").len(), 1, "a key of plain letters has one form");
}

#[test]
fn of_two_forms_that_begin_together_the_longer_is_taken() {
    // The secret ends with a backslash, and as JSON with two.
    let mut redactor = redactor_of("abcd\\");
    assert_eq!(redactor.whole(r"abcd\\"), "***");
    assert_eq!(redactor.whole(r"abcd\!"), "***!");
    let streamed = [r"abcd\", r"\!"].map(|piece| redactor.push(piece)).concat() + &redactor.end();
    assert_eq!(streamed, "***!");
}

#[test]
fn a_secret_cut_into_any_number_of_pieces_is_found() {
    let text = "before sk-canary-123 behind";
    for size in 1..text.len() {
        let mut redactor = redactor_of("sk-canary-123");
        let mut out = String::new();
        for piece in pieces(text, size) {
            out.push_str(&redactor.push(&piece));
            assert!(held(&redactor) < longest(&redactor));
        }
        assert_eq!(out + &redactor.end(), "before *** behind", "{size}");
    }
}

#[test]
fn what_cannot_be_the_secret_is_given_out_at_once() {
    let mut redactor = redactor_of("sk-canary-123");
    assert_eq!(redactor.push("Hello, sk"), "Hello, ");
    assert_eq!(redactor.push("y is blue sk-can"), "sky is blue ");
    assert_eq!(redactor.push("ary-123"), "***");
    assert_eq!(redactor.push("sk-"), "");
    assert_eq!(redactor.end(), "sk-");
    assert_eq!(redactor.push("canary-123") + &redactor.end(), "canary-123", "another text");
}

#[test]
fn what_is_too_short_to_be_a_secret_is_not_searched_for() {
    for secret in ["", "a", "ab", "abc", "äöü"] {
        let mut redactor = redactor_of(secret);
        assert_eq!(redactor.whole("abc äöü ***"), "abc äöü ***");
        assert_eq!(redactor.push("abc äöü"), "abc äöü");
        assert_eq!(redactor.end(), "");
    }
    assert_eq!(redactor_of("äöüß").whole("äöüß"), "***");
}

#[test]
fn no_debug_output_shows_the_secret_or_a_part_of_it() {
    let mut redactor = redactor_of("sk-canary-123");
    redactor.push("sk-canary-12");
    assert_eq!(format!("{redactor:?} {redactor:#?}"), "Redactor { .. } Redactor { .. }");
}

#[test]
fn no_secret_makes_it_slow() {
    let started = Instant::now();
    let secret = "a".repeat(100_000) + "b";
    let text = "a".repeat(2_000_000);
    let mut redactor = redactor_of(&secret);
    assert_eq!(redactor.whole(&text), text);
    let mut length = 0;
    for piece in pieces(&text, 7) {
        length += redactor.push(&piece).len();
    }
    assert_eq!(length + redactor.end().len(), text.len());
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

/// Secrets and texts of few letters, so that they meet; among them what JSON and URLs write in another way.
fn secrets() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{4,7}", "[ab/\"\\\\é]{4,6}", "[a%25cC/]{4,6}", ".{0,6}", "(ab){2,4}"]
}

fn texts(secret: &str) -> impl Strategy<Value = Vec<String>> + use<> {
    let mut parts = spellings(secret);
    parts.push(secret.to_owned());
    let halves: Vec<String> = parts.iter().map(|part| part.chars().take(part.chars().count() / 2).collect()).collect();
    parts.extend(halves);
    let part = prop_oneof![prop::sample::select(parts), "[ab/\"\\\\é%25cC*]{0,5}", ".{0,3}"];
    (prop::collection::vec(part, 0..12), 1..9_usize).prop_map(|(parts, size)| pieces(&parts.concat(), size))
}

proptest! {
    #[test]
    fn pieces_give_what_the_whole_gives(
        (secret, pieces) in secrets().prop_flat_map(|secret| { let texts = texts(&secret); (Just(secret), texts) })
    ) {
        let mut redactor = redactor_of(&secret);
        let whole = redactor.whole(&pieces.concat());
        prop_assert_eq!(&whole, &plainly(&secret, &pieces.concat()));
        let mut out = String::new();
        for piece in &pieces {
            out.push_str(&redactor.push(piece));
            prop_assert!(held(&redactor) < longest(&redactor).max(1));
        }
        out.push_str(&redactor.end());
        prop_assert_eq!(&out, &whole);
        if !secret.contains('*') && secret.chars().count() >= SHORTEST {
            for form in spellings(&secret) {
                prop_assert!(!out.contains(&form), "{} in {}", form, out);
            }
        }
    }
}
