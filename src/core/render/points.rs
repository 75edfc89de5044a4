//! Decides how values look as points below points.
//!
//! A point is a text, a label with a text, or a name with what belongs to it further in. What is already marked as a
//! point or numbered keeps one mark. Never goes further in than a page can show: below that only what stands at the
//! ends is listed.

use super::generic::{begins_block, brief, is_blank, is_brief, label_text, labelled, labelled_blocks, name, scalar};
use super::prose;
use super::words::title;
use serde_json::Value;

/// The deepest nesting of points.
const DEEPEST_POINT: usize = 8;

/// Values as nested points.
pub(super) fn points(items: &[&Value]) -> String {
    let mut out = String::new();
    let numbered = items.iter().all(|item| item.as_str().is_some_and(|text| number_mark(text) > 0));
    for item in items {
        match item {
            Value::String(text) if numbered => {
                let text = text.trim();
                let (mark, text) = text.split_at(number_mark(text));
                push_point(&mut out, 0, mark, &prose::blocks(text.trim_start(), None));
            }
            Value::Array(_) if is_brief(item) => push_point(&mut out, 0, "-", &brief(item)),
            Value::Array(parts) => {
                let parts = parts.iter().filter(|part| !is_blank(part));
                parts.enumerate().for_each(|(at, part)| point(&mut out, usize::from(at > 0), "", part));
            }
            item => point(&mut out, 0, "", item),
        }
    }
    out
}

/// A list of things to do.
pub(super) fn tasks(items: &[&Value]) -> String {
    let mut out = String::new();
    for item in items {
        match item {
            Value::String(text) => {
                let text = text.trim();
                let text = text.strip_prefix("- ").unwrap_or(text).trim_start();
                // What begins a block of its own cannot stand behind a box.
                let marked = begins_block(text) || ["[ ] ", "[x] ", "[X] "].iter().any(|mark| text.starts_with(mark));
                let text = prose::blocks(text, None);
                push_point(&mut out, 0, "-", &if marked { text } else { format!("[ ] {text}") });
            }
            item => point(&mut out, 0, "", item),
        }
    }
    out
}

/// One point and what stands below it.
fn point(out: &mut String, depth: usize, label: &str, value: &Value) {
    match value {
        _ if is_blank(value) => {}
        _ if depth >= DEEPEST_POINT => {
            for end in ends(value) {
                push_point(out, depth, "-", &prose::blocks(&scalar(end), None));
            }
        }
        Value::Array(items) => {
            if !label.is_empty() {
                push_point(out, depth, "-", &format!("**{}:**", label_text(label)));
            }
            let mut below = depth + usize::from(!label.is_empty());
            for item in items.iter().filter(|item| !is_blank(item)) {
                match item {
                    Value::Array(_) if is_brief(item) => push_point(out, below, "-", &brief(item)),
                    item => point(out, below, "", item),
                }
                // A list in a list has nothing to stand under but its own first item.
                below += usize::from(below == depth && depth > 0 && label.is_empty());
            }
        }
        Value::Object(fields) => {
            let (name, used) = name(fields);
            let head = match (label.is_empty(), name) {
                (true, Some(name)) => format!("**{}**", label_text(&name)),
                (true, None) => String::new(),
                (false, Some(name)) => format!("**{}:** {}", label_text(label), prose::line(&name)),
                (false, None) => format!("**{}:**", label_text(label)),
            };
            let headed = !head.is_empty();
            if headed {
                push_point(out, depth, "-", &head);
            }
            let used_up = |key: &str| headed && used.contains(&key);
            let mut below = depth + usize::from(headed);
            for (key, value) in fields.iter().filter(|(key, value)| !is_blank(value) && !used_up(key)) {
                point(out, below, &title(key), value);
                // Without a name its first member stands for it.
                below = depth + 1;
            }
        }
        Value::String(text) => {
            let text = if label.is_empty() { prose::blocks(bare(text), None) } else { labelled_blocks(label, text) };
            push_point(out, depth, "-", &text);
        }
        value if label.is_empty() => push_point(out, depth, "-", &scalar(value)),
        value => push_point(out, depth, "-", &labelled(label, &scalar(value))),
    }
}

fn push_point(out: &mut String, depth: usize, mark: &str, text: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    out.extend(std::iter::repeat_n(' ', 2 * depth));
    out.push_str(mark);
    out.push(' ');
    let text = if text.trim().is_empty() { "—" } else { text.trim_end() };
    out.push_str(&prose::indent(text, 2 * depth + mark.len() + 1));
}

/// A text without the mark of a point that it is about to get.
fn bare(text: &str) -> &str {
    let text = text.trim();
    let marked = text.starts_with(['-', '*', '+']) && prose::list_mark(text) > 0 && !text.contains('\n');
    if marked { text[1..].trim_start() } else { text }
}

fn number_mark(text: &str) -> usize {
    let text = text.trim();
    if text.starts_with(|c: char| c.is_ascii_digit()) { prose::list_mark(text) } else { 0 }
}

/// Everything that stands at the ends of a value, without recursion.
fn ends(value: &Value) -> Vec<&Value> {
    let mut found = Vec::new();
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items.iter().rev()),
            Value::Object(fields) => open.extend(fields.values().rev()),
            value if is_blank(value) => {}
            value => found.push(value),
        }
    }
    found
}
