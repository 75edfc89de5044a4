//! Decides where the chunks of a text begin and end: at its structure, each within one section.
//!
//! Neighbours of one section share its last sentences or lines, neighbours of different sections share nothing. No text
//! is lost but white space around chunks. Never counts tokens itself.

use super::text_config::TextConfig;
use crate::structure::{Part, Sections, split};
use std::ops::Range;

/// A passage of a text that is found by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The passage, with the head of its table or fence where it begins inside one.
    pub content: String,
    /// Its tokens.
    pub tokens: u64,
    /// The headings that it stands under, outermost first.
    pub headings: Vec<String>,
    /// How its words are stemmed.
    pub text_config: TextConfig,
}

/// The chunks of a text in order, each of at most `chunk_tokens` as `count` counts them. In a section of several chunks
/// each begins with up to `overlap_tokens` of the chunk before it.
pub fn chunks(text: &str, chunk_tokens: u64, overlap_tokens: u64, count: &dyn Fn(&str) -> u64) -> Vec<Chunk> {
    let overlap = overlap_tokens.min(chunk_tokens / 2);
    let of_text = TextConfig::detect(text);
    let mut chunks = Vec::new();
    for section in sections(split(text, chunk_tokens, Sections::Apart, count)) {
        let [first, .., last] = section.as_slice() else {
            chunks.extend(section.iter().map(|part| (part.text(text), part.headings.clone())));
            continue;
        };
        let source = &text[first.range.start..last.range.end];
        let parts = split(source, chunk_tokens - overlap, Sections::Apart, count);
        let texts = overlapping(source, &parts, chunk_tokens, overlap, count);
        chunks.extend(texts.into_iter().map(|text| (text, first.headings.clone())));
    }
    let chunk = |(content, headings): (String, Vec<String>)| {
        let content = content.trim().to_owned();
        let text_config = TextConfig::detect(&content).or(of_text).unwrap_or(TextConfig::Simple);
        Chunk { tokens: count(&content), content, headings, text_config }
    };
    chunks.into_iter().filter(|(content, _)| !content.trim().is_empty()).map(chunk).collect()
}

/// Parts that belong to one section together.
fn sections(parts: Vec<Part>) -> Vec<Vec<Part>> {
    let mut sections: Vec<Vec<Part>> = Vec::new();
    for part in parts {
        match sections.last_mut() {
            Some(section) if part.continues => section.push(part),
            _ => sections.push(vec![part]),
        }
    }
    sections
}

/// The texts of parts, each but the first with the end of the part before it, as far as the limit allows.
fn overlapping(text: &str, parts: &[Part], limit: u64, overlap: u64, count: &dyn Fn(&str) -> u64) -> Vec<String> {
    let alone = parts.iter().map(|part| part.text(text));
    let before = std::iter::once(None).chain(parts.iter().map(Some));
    let text_of = |(part, (before, alone)): (&Part, (Option<&Part>, String))| {
        let Some(before) = before else { return alone };
        let from = part.lead.as_ref().map_or(before.range.start, |lead| lead.end.max(before.range.start));
        let shared = tail(text, from..before.range.end, overlap, count);
        let longer = Part { range: shared..part.range.end, ..part.clone() }.text(text);
        if count(&longer) <= limit { longer } else { alone }
    };
    parts.iter().zip(before.zip(alone)).map(text_of).collect()
}

/// Where the end of a range begins that has at most `most` tokens: at a sentence or line if one fits, else at a word.
/// Never inside a table or a fence that ends in the range.
fn tail(text: &str, range: Range<usize>, most: u64, count: &dyn Fn(&str) -> u64) -> usize {
    let mut from = range.start;
    let mut at = range.start;
    for line in text[range.clone()].split_inclusive('\n') {
        at += line.len();
        if line.trim_start().starts_with(['|', '`', '~']) {
            from = at;
        }
    }
    let (mut sentence, mut word) = (range.end, range.end);
    for (at, begins) in beginnings(&text[from..range.end]).into_iter().rev() {
        if count(text[from + at..range.end].trim()) > most {
            break;
        }
        word = from + at;
        if begins == Beginning::Sentence {
            sentence = word;
        }
    }
    if sentence < range.end { sentence } else { word }
}

#[derive(PartialEq)]
enum Beginning {
    Sentence,
    Word,
}

/// The places of a text where a sentence, a line or a word begins.
fn beginnings(text: &str) -> Vec<(usize, Beginning)> {
    let mut places = Vec::new();
    let (mut last, mut space) = (' ', true);
    let mut is_sentence = true;
    for (at, character) in text.char_indices() {
        if character.is_whitespace() {
            is_sentence |= character == '\n' || (!space && matches!(last, '.' | '!' | '?' | '…'));
            space = true;
            continue;
        }
        if space {
            places.push((at, if is_sentence { Beginning::Sentence } else { Beginning::Word }));
            (space, is_sentence) = (false, false);
        }
        last = character;
    }
    places
}
