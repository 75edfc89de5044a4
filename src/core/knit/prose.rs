//! Decides how the chunks of a plain text or a Markdown text join.
//!
//! Nothing shows in a text where it was cut, so the least is done: whole words that are repeated beyond accident are
//! trimmed, and so is a heading that comes again, or the beginning of a line that was interrupted and is written again
//! whole. A sentence that leads in goes only where it is unmistakable: behind it comes a blank line, a fence or a
//! heading, or it ends its line with a colon. A text that was begun again from its beginning is not a continuation: the
//! longer of the two stays. Never rewords.

use super::overlap;
use super::seam;
use super::{Joint, Knitted};

/// So many characters the same from the beginning are no accident.
const BEGINNING: usize = 120;
/// So many characters that come again, beginning within a word, are no accident.
const WITHIN_A_WORD: usize = 20;
/// So many letters of a line that was interrupted show that it is written again.
const BEGUN: usize = 3;
/// The longest lead-in, in characters.
const LEAD_IN: usize = 160;
/// How a lead-in begins.
const OPENERS: [&str; 12] = [
    "here is",
    "here's",
    "here are",
    "sure",
    "certainly",
    "of course",
    "continuing",
    "continuation",
    "okay",
    "ok,",
    "understood",
    "picking up",
];
/// What a lead-in speaks of.
const SUBJECTS: [&str; 8] = ["continu", "rest", "remain", "resum", "left off", "next part", "stopped", "pick"];

/// Joins the chunks of a plain text or a Markdown text.
pub fn text(chunks: &[&str]) -> Knitted {
    let mut joined = chunks.first().copied().unwrap_or_default().to_owned();
    let (mut joints, mut notes) = (Vec::new(), Vec::new());
    for (previous, chunk) in chunks.iter().zip(chunks.iter().skip(1)) {
        if overlap::is_once_more(previous, chunk) {
            joints.push(Joint::Nothing);
            continue;
        }
        let rest = bare(&joined, chunk);
        if rest.len() < chunk.len() {
            notes.push("text around a chunk left out".to_owned());
        }
        let joint = match begins_again(&joined, rest) {
            Some(true) => {
                notes.push("begun again from its beginning: the longer text kept".to_owned());
                rest.clone_into(&mut joined);
                Joint::Afresh
            }
            Some(false) => {
                notes.push("begun again from its beginning: the longer text kept".to_owned());
                Joint::Nothing
            }
            None => {
                let rest = &rest[begun_line(&joined, rest).unwrap_or_else(|| repeated(&joined, rest))..];
                if is_glued(&joined, rest) {
                    joined.push_str("\n\n");
                }
                joined.push_str(rest);
                if rest.is_empty() { Joint::Nothing } else { Joint::Onward }
            }
        };
        joints.push(joint);
    }
    notes.dedup();
    Knitted { text: joined, joints, is_repaired: false, notes }
}

/// Whether a chunk begins the whole text again, and then whether it is the longer one.
fn begins_again(before: &str, chunk: &str) -> Option<bool> {
    let same = before.chars().zip(chunk.chars()).take_while(|(one, other)| one == other).take(BEGINNING).count();
    // A text that is shorter than that may well come again as an overlap.
    let is_sure = same == BEGINNING && overlap::is_sure(overlap::first(before, BEGINNING));
    is_sure.then_some(chunk.len() > before.len())
}

/// How many bytes of a chunk write the beginning of a line again that was interrupted: an item, a heading or a row.
fn begun_line(before: &str, chunk: &str) -> Option<usize> {
    let line = before.rsplit('\n').next()?;
    let whole = chunk.lines().next()?;
    let marked = line.trim_start();
    let number = marked.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = number.len() < marked.len() && (number.starts_with(". ") || number.starts_with(") "));
    let is_marked = is_numbered || ["- ", "* ", "+ ", "#", "|"].iter().any(|mark| marked.starts_with(mark));
    let has_letters = line.chars().filter(|c| c.is_alphabetic()).count() >= BEGUN;
    (is_marked && has_letters && whole.len() > line.len() && whole.starts_with(line)).then_some(line.len())
}

/// How many bytes of a chunk repeat the end of the text, in whole words or lines.
fn repeated(before: &str, chunk: &str) -> usize {
    let overlaps = overlap::all_or_whole(before, chunk);
    let sure: Vec<usize> = overlap::sure(&overlaps, chunk).collect();
    let is_whole = |length: usize| {
        let begins = before[..before.len() - length].chars().next_back().is_none_or(|c| !c.is_alphanumeric())
            || !chunk.starts_with(char::is_alphanumeric)
            || chunk[..length].chars().count() >= WITHIN_A_WORD;
        let repeated = &chunk[..length];
        let starts_line = before[..before.len() - length].chars().next_back().is_none_or(|c| c == '\n');
        let is_heading = starts_line && repeated.starts_with('#') && repeated.ends_with('\n') && has_words(repeated);
        begins && (is_heading || (sure.contains(&length) && has_words(repeated)))
    };
    overlaps.iter().copied().find(|length| is_whole(*length)).unwrap_or_default()
}

/// Rules and the frames of tables are repeated without meaning it.
fn has_words(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).count() >= 4
}

/// A heading that would stand in the line of a sentence that has ended.
fn is_glued(before: &str, rest: &str) -> bool {
    let marks = rest.len() - rest.trim_start_matches('#').len();
    (1..=6).contains(&marks) && rest[marks..].starts_with(' ') && before.ends_with(['.', '!', '?'])
}

/// A chunk without an unmistakable lead-in and without a fence of its own.
fn bare<'a>(before: &str, chunk: &'a str) -> &'a str {
    let mut rest = chunk;
    if let Some((line, behind)) = chunk.trim_start().split_once('\n') {
        let behind_blank = behind.strip_prefix('\n');
        let next = behind.trim_start();
        if is_lead_in(line)
            && (behind_blank.is_some()
                || next.starts_with("```")
                || next.starts_with('#')
                || line.trim_end().ends_with(':'))
        {
            rest = behind_blank.unwrap_or(behind);
        }
    }
    let info = rest.trim_start().lines().next().unwrap_or_default().trim();
    if matches!(info, "```markdown" | "```md") {
        let is_wrapped = before.trim_start().starts_with("```m");
        if is_wrapped || fences(before).is_multiple_of(2) {
            rest = seam::unfenced(rest).unwrap_or(rest);
            if fences(rest) % 2 == 1 && !is_wrapped {
                rest = seam::closing_fence(rest).map_or(rest, |end| &rest[..end]);
            }
        }
    }
    rest
}

/// How many lines open or close a fence.
fn fences(text: &str) -> usize {
    text.lines().filter(|line| line.trim_start().starts_with("```")).count()
}

pub(super) fn is_lead_in(line: &str) -> bool {
    let line = line.trim().to_lowercase();
    line.chars().count() <= LEAD_IN
        && line.ends_with([':', '…', '.', '!'])
        && OPENERS.iter().any(|opener| line.starts_with(opener))
        && SUBJECTS.iter().any(|subject| line.contains(subject))
}
