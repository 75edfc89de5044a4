//! Decides how a text that a model wrote stands inside a document without leaving its place.
//!
//! The text is Markdown and stays so. Its headings go below a given level, or become bold where none may stand; a fence
//! it leaves open is closed; a line that would turn the one above into a heading does not; `<` is escaped where it
//! would begin a tag, a comment or an autolink, except in code. Where it is not certain that something is code, it is
//! escaped. Never drops a word.

mod fence;

pub(super) use fence::{Fences, Line, list_mark};

/// The deepest heading there is.
const DEEPEST_HEADING: usize = 6;

/// A text as blocks; its headings begin at the given level, or are bold lines without one.
pub(super) fn blocks(text: &str, headings: Option<usize>) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "\u{fffd}");
    let text = if text.contains('\t') { spaced(&text) } else { text };
    let lines = Fences::split(text.trim_matches('\n').trim_end());
    let levels =
        lines.iter().filter_map(heading).filter(|heading| heading.marks.is_empty()).map(|heading| heading.level);
    let highest = levels.min().unwrap_or(1);
    let mut out: Vec<String> = Vec::with_capacity(lines.len());
    let mut open_tick = false;
    let mut after_heading = false;
    for line in &lines {
        let written = match line {
            Line::Code(code) => (*code).to_owned(),
            Line::Doubtful(code) => escape(code, Some(&mut true)),
            Line::Fence(fence) => fence.clone(),
            Line::Text(text) => {
                let above = out.last().map(String::as_str).unwrap_or_default();
                let above_is_text = !above.trim().is_empty() && !after_heading;
                if let Some(found) = heading(line) {
                    if !above.trim().is_empty() && found.marks.is_empty() {
                        out.push(String::new());
                    }
                    let words = if found.marks.is_empty() {
                        open_tick = false;
                        lowered(found.level - highest, found.words, headings)
                    } else if open_tick {
                        // So far in it may be the rest of a paragraph, with code that began above.
                        format!("\\# {}", escape(found.words, Some(&mut open_tick)))
                    } else {
                        // Inside of a list or a quotation no heading can stand.
                        lowered(0, found.words, None)
                    };
                    out.push(format!("{}{words}", found.marks));
                    after_heading = found.marks.is_empty();
                    continue;
                }
                open_tick &= !text.trim().is_empty();
                match underline(text).filter(|_| above_is_text) {
                    Some(true) => {
                        out.push(String::new());
                        (*text).to_owned()
                    }
                    Some(false) => {
                        let marks = text.len() - text.trim_start_matches([' ', '\t', '>']).len();
                        format!("{}\\{}", &text[..marks], &text[marks..])
                    }
                    None => escape(text, Some(&mut open_tick)),
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

/// A text with spaces for the tabs its lines begin with, which would be narrower further in.
fn spaced(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let rest = line.trim_start_matches([' ', '\t']);
        line[..line.len() - rest.len()].replace('\t', "    ") + rest
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A text on one line: in a heading, behind a label.
pub(super) fn line(text: &str) -> String {
    let joined = text.replace('\0', "\u{fffd}").split_whitespace().collect::<Vec<_>>().join(" ");
    // Whatever it is joined with on the line, code that it begins ends in it.
    escape(&joined, None)
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

/// A heading in a text, and the marks of lists and quotations it stands behind.
struct Heading<'a> {
    marks: &'a str,
    level: usize,
    words: &'a str,
}

fn heading<'a>(line: &Line<'a>) -> Option<Heading<'a>> {
    let Line::Text(text) = line else { return None };
    let mut rest = text.trim_start_matches([' ', '\t']);
    let far_in = text.len() - rest.len() >= 4 || text.starts_with('\t');
    loop {
        let taken = if rest.starts_with('>') { 1 } else { list_mark(rest) };
        if taken == 0 {
            break;
        }
        rest = rest[taken..].trim_start_matches([' ', '\t']);
    }
    let marks = &text[..text.len() - rest.len()];
    let words = rest.trim_start_matches('#');
    let level = rest.len() - words.len();
    let is_one = (1..=DEEPEST_HEADING).contains(&level) && (words.is_empty() || words.starts_with([' ', '\t']));
    // So far in it stands in a list, if it is one at all.
    let marks = if marks.trim().is_empty() && !far_in { "" } else { marks };
    is_one.then(|| Heading { marks, level, words: words.trim().trim_end_matches('#').trim_end() })
}

fn lowered(below: usize, words: &str, headings: Option<usize>) -> String {
    if words.trim().is_empty() {
        return "\\#".to_owned();
    }
    match headings.map(|level| level + below).filter(|level| *level <= DEEPEST_HEADING) {
        Some(level) => format!("{} {}", "#".repeat(level), line(words)),
        // Bold inside bold would end it.
        None => format!("**{}**", line(&words.replace("**", ""))),
    }
}

/// Whether a line would underline the one above; true when it may stay as a line across the page.
fn underline(text: &str) -> Option<bool> {
    let marks = text.trim_start_matches([' ', '\t', '>']).trim_end();
    let first = marks.chars().next().filter(|c| matches!(c, '=' | '-'))?;
    marks.chars().all(|c| c == first).then_some(first == '-' && marks.len() >= 3)
}

/// Escapes what would begin a tag. `open_tick` says that code may have begun on a line before, and then nothing is
/// taken for code; without it the line stands for itself, and a backtick that begins no code is escaped too.
fn escape(text: &str, mut open_tick: Option<&mut bool>) -> String {
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
                let length = 1 + usize::from(rest[1..].starts_with(|c: char| c.is_ascii_punctuation()));
                out.push_str(&rest[..length]);
                length
            }
            _ => {
                let run = rest.len() - rest.trim_start_matches('`').len();
                let span = if open_tick.as_deref() == Some(&true) { None } else { closing(&rest[run..], run) };
                let length = run + span.unwrap_or(0);
                match (&mut open_tick, span) {
                    (None, None) => out.push_str(&"\\`".repeat(run)),
                    (open_tick, span) => {
                        if let Some(open_tick) = open_tick {
                            **open_tick |= span.is_none();
                        }
                        out.push_str(&rest[..length]);
                    }
                }
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
