//! Decides how a text that a model wrote stands inside a document without leaving its place.
//!
//! The text is Markdown and stays so. Its headings go below a given level, or become bold where none may stand; a fence it
//! leaves open is closed; a line that would turn the one above into a heading does not; `<` is escaped where it would begin
//! a tag, a comment or an autolink, except in code. Where it is not certain that something is code, it is escaped.
//! Never drops a word.

mod fence;

pub(super) use fence::{Fences, Line, list_mark};

/// The deepest heading there is.
const DEEPEST_HEADING: usize = 6;

/// A text as blocks; its headings begin at the given level, or are bold lines without one.
pub(super) fn blocks(text: &str, headings: Option<usize>) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "\u{fffd}");
    let lines = Fences::split(text.trim_matches('\n').trim_end());
    let highest = lines.iter().filter_map(|line| heading(line)).map(|(level, _)| level).min().unwrap_or(1);
    let mut out: Vec<String> = Vec::with_capacity(lines.len());
    let mut open_tick = false;
    let mut after_heading = false;
    for line in &lines {
        let written = match line {
            Line::Code(code) => (*code).to_owned(),
            Line::Doubtful(code) => escape(code, &mut true),
            Line::Fence(fence) => fence.clone(),
            Line::Text(text) => {
                let above = out.last().map(String::as_str).unwrap_or_default();
                let above_is_text = !above.trim().is_empty() && !after_heading;
                if let Some((level, words)) = heading(line) {
                    if !above.trim().is_empty() {
                        out.push(String::new());
                    }
                    out.push(lowered(level - highest, words, headings));
                    (after_heading, open_tick) = (true, false);
                    continue;
                }
                open_tick &= !text.trim().is_empty();
                match underline(text).filter(|_| above_is_text) {
                    Some(true) => {
                        out.push(String::new());
                        (*text).to_owned()
                    }
                    Some(false) => format!("\\{}", text.trim()),
                    None => escape(text, &mut open_tick),
                }
            }
        };
        if after_heading && !written.trim().is_empty() {
            out.push(String::new());
        }
        after_heading = false;
        out.push(written);
    }
    out.join("\n")
}

/// A text on one line: in a heading, behind a label.
pub(super) fn line(text: &str) -> String {
    let joined = text.replace('\0', "\u{fffd}").split_whitespace().collect::<Vec<_>>().join(" ");
    escape(&joined, &mut false)
}

/// A text as the cell of a table.
pub(super) fn cell(text: &str) -> String {
    let lines = text.lines().map(|one| line(one).replace('|', "\\|")).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("<br>")
}

/// Puts every line but the first, and but the empty ones, further in.
pub(super) fn indent(text: &str, by: usize) -> String {
    let mut lines = text.lines();
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        out.push('\n');
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', by));
            out.push_str(line);
        }
    }
    out
}

/// A text in a fence of its own, longer than any inside.
pub(super) fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}\n{}\n{fence}", text.replace('\0', "\u{fffd}").trim_matches('\n'))
}

fn heading<'a>(line: &Line<'a>) -> Option<(usize, &'a str)> {
    let Line::Text(text) = line else { return None };
    let marks = text.trim_start_matches(' ');
    let words = marks.trim_start_matches('#');
    let level = marks.len() - words.len();
    let is_one = (1..=DEEPEST_HEADING).contains(&level) && text.len() - marks.len() < 4;
    (is_one && (words.is_empty() || words.starts_with([' ', '\t'])))
        .then(|| (level, words.trim().trim_end_matches('#').trim_end()))
}

fn lowered(below: usize, words: &str, headings: Option<usize>) -> String {
    let words = line(words);
    match headings.map(|level| level + below).filter(|level| *level <= DEEPEST_HEADING) {
        Some(level) => format!("{} {words}", "#".repeat(level)),
        None if words.is_empty() => String::new(),
        // Bold inside bold would end it.
        None => format!("**{}**", words.replace("**", "")),
    }
}

/// Whether a line would underline the one above; true when it may stay as a line across the page.
fn underline(text: &str) -> Option<bool> {
    let marks = text.trim();
    let first = marks.chars().next().filter(|c| matches!(c, '=' | '-'))?;
    (marks.chars().all(|c| c == first) && text.len() - text.trim_start().len() < 4)
        .then_some(first == '-' && marks.len() >= 3)
}

/// Escapes what would begin a tag. `open_tick` says that code may have begun on a line before, and then nothing is
/// taken for code.
fn escape(text: &str, open_tick: &mut bool) -> String {
    if !text.contains(['<', '`']) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find(['<', '`', '\\']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match rest.as_bytes()[0] {
            b'<' => {
                let begins = rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
                out.push_str(if begins { "&lt;" } else { "<" });
                1
            }
            b'\\' => {
                let length = 1 + rest[1..].chars().next().filter(|c| *c == '`').map_or(0, char::len_utf8);
                out.push_str(&rest[..length]);
                length
            }
            _ => {
                let run = rest.len() - rest.trim_start_matches('`').len();
                let span = if *open_tick { None } else { closing(&rest[run..], run) };
                *open_tick |= span.is_none();
                let length = run + span.unwrap_or(0);
                out.push_str(&rest[..length]);
                length
            }
        };
        rest = &rest[taken..];
    }
    out + rest
}

/// Where a run of so many backticks ends, if there is one.
fn closing(text: &str, run: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(offset) = text[at..].find('`') {
        let start = at + offset;
        let length = text[start..].len() - text[start..].trim_start_matches('`').len();
        if length == run {
            return Some(start + length);
        }
        at = start + length;
    }
    None
}
