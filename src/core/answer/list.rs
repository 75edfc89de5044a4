//! Decides when a text is a list, and how a list is written as a text.
//!
//! A text is a list only when every line of it is an item or goes on with one. Never splits prose at commas.

use serde_json::Value;

/// The items of a text that is nothing but a list.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    let mut items: Vec<String> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let indented = line.starts_with([' ', '\t']);
        match (item(line.trim_start()), items.last_mut()) {
            (Some(item), None) => items.push(item.to_owned()),
            (Some(item), Some(_)) if !indented => items.push(item.to_owned()),
            (_, Some(last)) if indented => {
                last.push('\n');
                last.push_str(line.trim_end());
            }
            _ => return None,
        }
    }
    if items.is_empty() || items.iter().any(|item| item.trim().is_empty()) { None } else { Some(items) }
}

/// What stands behind the mark of a list item.
fn item(line: &str) -> Option<&str> {
    let rest = match line.chars().next()? {
        mark @ ('-' | '*' | '+' | '•' | '–' | '·' | '▪') => &line[mark.len_utf8()..],
        '0'..='9' => {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            if line.len() - rest.len() > 3 {
                return None;
            }
            rest.strip_prefix(['.', ')'])?
        }
        _ => return None,
    };
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

/// A list of plain values as Markdown; `None` when something in it is not plain.
pub(super) fn join(items: &[Value]) -> Option<String> {
    let texts: Option<Vec<String>> = items
        .iter()
        .map(|item| match item {
            Value::String(text) => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            _ => None,
        })
        .collect();
    match texts?.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => {
            // Items that are already marked keep their marks.
            let marked = several.iter().all(|text| item(text).is_some());
            let mark = if marked { "" } else { "- " };
            let lines = several.iter().map(|text| format!("{mark}{}", text.replace('\n', "\n  ")));
            Some(lines.collect::<Vec<_>>().join("\n"))
        }
    }
}
