//! Vectors of the simulator: length, determinism, and nearness of texts that share words.

use super::super::embedding::{DIMENSIONS, embed};
use proptest::prelude::*;

fn similarity(a: &str, b: &str) -> f32 {
    embed(a).iter().zip(embed(b)).map(|(a, b)| a * b).sum()
}

#[test]
fn related_texts_are_nearer_than_unrelated_ones() {
    let passage = "The dispatch database is copied in full every Sunday at 01:30 UTC.";
    let related = similarity("When is the dispatch database copied?", passage);
    let unrelated = similarity("Which visitors need a badge for the lobby?", passage);
    assert!(related > 0.4 && unrelated < 0.2, "{related} {unrelated}");
    let inflected = similarity("full copies of databases on Sundays", passage);
    assert!(inflected > 0.3, "{inflected} {unrelated}");
}

/// Stored vectors of earlier builds depend on these values.
#[test]
fn vectors_keep_their_values() {
    let vector = embed("Die Pumpe wird geölt; pumps are oiled.");
    let strongest = (0..DIMENSIONS).max_by(|a, b| vector[*a].abs().total_cmp(&vector[*b].abs()));
    assert_eq!(strongest.map(|at| (at, vector[at])), Some((249, 0.3108633)));
}

proptest! {
    #[test]
    fn every_text_has_a_vector_of_length_one(text in "\\PC{0,200}") {
        let vector = embed(&text);
        prop_assert_eq!(vector.len(), DIMENSIONS);
        let length: f32 = vector.iter().map(|number| number * number).sum();
        prop_assert!((length - 1.0).abs() < 1e-4, "{}", length);
        prop_assert_eq!(embed(&text), vector);
    }
}
