//! Decides the vectors of the simulator's embedding model: hashed words and parts of words.
//!
//! Texts that share words, or words of one stem, are near each other; meaning without shared letters is not seen. The
//! same text has the same vector in every build. Never reads a setting.

use crate::hash::{FNV_BASIS_64, fnv1a_64};
use crate::memory::text_config::is_function_word;
use std::collections::HashMap;

/// The length of the vectors.
pub const DIMENSIONS: usize = 256;

/// How much a whole word counts against each of its parts.
const WORD_WEIGHT: f32 = 1.0;
/// How much a function word, which says little of what a text is about, counts against another word.
const FUNCTION_WORD_WEIGHT: f32 = 0.05;
/// The letters of a part of a word.
const PART_LETTERS: usize = 4;

/// The vector of a text, of length one. A text without words has the vector of the empty word.
pub fn embed(text: &str) -> Vec<f32> {
    let mut features: HashMap<u64, f32> = HashMap::new();
    for word in text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()) {
        add_word(&word.to_lowercase(), &mut features);
    }
    let mut vector = vec![0.0_f32; DIMENSIONS];
    // The order of additions decides the last bit of a sum.
    let mut features: Vec<(u64, f32)> = features.into_iter().collect();
    features.sort_unstable_by_key(|(feature, _)| *feature);
    for (feature, weight) in features {
        // A word that is repeated counts more, but less each time.
        let weight = weight.sqrt();
        let place = &mut vector[(feature % DIMENSIONS as u64) as usize];
        // A bit that the place does not depend on: collisions cancel out rather than add up.
        *place += if feature >> 63 == 0 { weight } else { -weight };
    }
    normalised(vector)
}

fn add_word(word: &str, features: &mut HashMap<u64, f32>) {
    let weight = if is_function_word(word) { FUNCTION_WORD_WEIGHT } else { 1.0 };
    let mut add = |kind: &str, feature: &str, weight: f32| {
        let hash = fnv1a_64(fnv1a_64(FNV_BASIS_64, kind.as_bytes()), feature.as_bytes());
        // The low bits of FNV depend on few of the bits of a short word.
        *features.entry((hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)).or_default() += weight;
    };
    add("word", word, weight * WORD_WEIGHT);
    let letters: Vec<char> = std::iter::once('^').chain(word.chars()).chain(['$']).collect();
    for part in letters.windows(PART_LETTERS) {
        add("part", &part.iter().collect::<String>(), weight / (letters.len() as f32).sqrt());
    }
}

fn normalised(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    match length > 0.0 {
        true => vector.iter_mut().for_each(|number| *number /= length),
        false => vector[0] = 1.0,
    }
    vector
}
