//! Decides which of the chunks that were found answer a query: ranks by meaning and by words become one score, and of
//! chunks that say the same the better one is taken.
//!
//! Ties go to the candidate that comes first, so equal input gives equal output. Never finds a candidate itself.

use std::collections::HashSet;

/// A chunk that was found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidate {
    /// Its place among the chunks nearest to the query, from 1 on.
    pub distance_rank: Option<u32>,
    /// Its place among the chunks that have the words of the query, from 1 on.
    pub text_rank: Option<u32>,
    /// Its cosine distance to the query, where that alone decides its relevance.
    pub distance: Option<f64>,
    /// Its embedding.
    pub vector: Option<Vec<f32>>,
    /// Its text.
    pub content: String,
}

/// The settings of a ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranking {
    /// The constant of reciprocal rank fusion: the larger, the less the first ranks count.
    pub rrf_k: f64,
    /// How much relevance counts against diversity: 1 takes the most relevant, 0 the most different.
    pub mmr_lambda: f64,
    /// How many are chosen at the most.
    pub match_count: usize,
}

/// The chosen candidates by their positions, best score first. The score is the cosine similarity where a distance
/// alone was given, else the fused rank.
pub fn select(candidates: &[Candidate], ranking: Ranking) -> Vec<(usize, f64)> {
    let scores: Vec<f64> = candidates.iter().map(|candidate| score(candidate, ranking.rrf_k)).collect();
    let relevance = if candidates.iter().all(|candidate| candidate.distance.is_some()) {
        scores.clone()
    } else {
        stretched(&scores)
    };
    let has_vectors = candidates.iter().all(|candidate| candidate.vector.is_some());
    let text_of = |candidate: &Candidate| if has_vectors { HashSet::new() } else { words(&candidate.content) };
    let words: Vec<HashSet<String>> = candidates.iter().map(text_of).collect();
    let similarity = |a: usize, b: usize| match (&candidates[a].vector, &candidates[b].vector) {
        (Some(a), Some(b)) if a.len() == b.len() => cosine(a, b),
        _ => overlap(&words[a], &words[b]),
    };
    let mut chosen = diverse(&relevance, similarity, ranking.mmr_lambda, ranking.match_count);
    chosen.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    chosen.into_iter().map(|position| (position, scores[position])).collect()
}

fn score(candidate: &Candidate, rrf_k: f64) -> f64 {
    let share = |rank: Option<u32>| rank.map_or(0.0, |rank| 1.0 / (rrf_k + f64::from(rank)));
    match candidate.distance {
        Some(distance) => 1.0 - distance,
        None => share(candidate.distance_rank) + share(candidate.text_rank),
    }
}

/// Scores on a scale from 0 to 1, on which they can be weighed against similarities. Fused ranks differ by little.
fn stretched(scores: &[f64]) -> Vec<f64> {
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lowest = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let width = highest - lowest;
    scores.iter().map(|score| if width > 0.0 { (score - lowest) / width } else { 1.0 }).collect()
}

/// Maximal marginal relevance: takes one after the other what is most relevant and least similar to what is taken.
pub fn diverse(
    relevance: &[f64],
    similarity: impl Fn(usize, usize) -> f64,
    lambda: f64,
    match_count: usize,
) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::with_capacity(match_count.min(relevance.len()));
    let mut closest = vec![0.0_f64; relevance.len()];
    let mut left: Vec<usize> = (0..relevance.len()).collect();
    while chosen.len() < match_count && !left.is_empty() {
        let value = |position: usize| lambda * relevance[position] - (1.0 - lambda) * closest[position];
        let mut best = 0;
        for nth in 1..left.len() {
            if value(left[nth]).total_cmp(&value(left[best])).is_gt() {
                best = nth;
            }
        }
        let taken = left.remove(best);
        for other in &left {
            let near = similarity(taken, *other);
            if near > closest[*other] {
                closest[*other] = near;
            }
        }
        chosen.push(taken);
    }
    chosen
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let (mut dot, mut left, mut right) = (0.0_f32, 0.0_f32, 0.0_f32);
    for (a, b) in a.iter().zip(b) {
        dot += a * b;
        left += a * a;
        right += b * b;
    }
    let length = f64::from(left).sqrt() * f64::from(right).sqrt();
    if length > 0.0 { f64::from(dot) / length } else { 0.0 }
}

fn words(text: &str) -> HashSet<String> {
    let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// The share of common words.
fn overlap(a: &HashSet<String>, b: &HashSet<String>) -> f64 {
    let common = a.intersection(b).count();
    let all = a.len() + b.len() - common;
    if all > 0 { common as f64 / all as f64 } else { 0.0 }
}
