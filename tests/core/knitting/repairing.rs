//! The law of repair: of every beginning of a document, every complete value is kept and nothing is made up.

use super::document::{self, Style, write};
use super::runner;
use dialectic_core::knit;
use proptest::prelude::*;
use serde_json::Value;

/// Whether every part of a repaired value stands in the document too, texts as beginnings of its texts.
fn is_part(repaired: &Value, whole: &Value) -> bool {
    match (repaired, whole) {
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

#[test]
fn every_beginning_of_a_document_keeps_its_complete_values() {
    let strategy = (document::document(), document::style());
    let law = |(value, style): (Value, Style)| {
        let written = write(&value, style);
        for end in (1..=written.text.len()).filter(|end| written.text.is_char_boundary(*end)) {
            let beginning = &written.text[..end];
            let Some((repaired, is_repaired)) = knit::repair(beginning) else {
                return Err(TestCaseError::fail(format!("nothing of {beginning}")));
            };
            prop_assert_eq!(is_repaired, end < written.text.len());
            prop_assert!(is_part(&repaired, &value), "{}\n{}", beginning, repaired);
            for span in written.spans.iter().filter(|span| span.end <= end) {
                // A number or a word is complete when something stands behind it.
                let has_end = span.value.is_string() || span.value.is_array() || span.value.is_object();
                if has_end || span.end < end {
                    prop_assert_eq!(repaired.pointer(&span.pointer), Some(&span.value), "{}", beginning);
                }
            }
            let knitted = knit::json(&[beginning], None, None);
            prop_assert_eq!(serde_json::from_str::<Value>(&knitted.text).ok(), Some(repaired));
            prop_assert_eq!(knitted.is_repaired, is_repaired);
        }
        Ok(())
    };
    runner("repair", 1_000).run(&strategy, law).unwrap();
}
