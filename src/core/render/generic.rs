//! Decides how any JSON looks as Markdown when no layout says so.
//!
//! Keys become headings as far down as headings help, then labels, then nested points. Plain lists are points, lists of
//! flat objects tables, other objects sections under their names. Nothing is left out but what is empty, and nothing is
//! nested further than a page can show: below that only what stands at the ends is listed. Linear in the content.

use super::points::points;
use super::words::title;
use super::{prose, table};
use serde_json::{Map, Value};

/// The deepest heading made of a key; below it there are labels.
const DEEPEST_HEADING: usize = 4;
/// The longest text behind a label on the same line, in a run of such.
const SHORT: usize = 100;

/// The longest text of a point that begins with a label.
const SENTENCES: usize = 500;
/// The shortest text that is a paragraph rather than a point, where it stands alone.
const PARAGRAPH: usize = 160;

/// A document while it is written.
#[derive(Debug, Default)]
pub(super) struct Page {
    out: String,
}

impl Page {
    /// Adds a block, with an empty line before it.
    pub(super) fn block(&mut self, block: &str) {
        if block.trim().is_empty() {
            return;
        }
        if !self.out.is_empty() {
            self.out.push_str("\n\n");
        }
        self.out.push_str(block.trim_end());
    }

    /// Whether nothing has been written yet.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// The text.
    pub(super) fn into_text(self) -> String {
        self.out
    }

    /// A heading, or a label where headings are used up.
    pub(super) fn heading(&mut self, text: &str, level: usize) {
        if text.trim().is_empty() {
        } else if level <= DEEPEST_HEADING {
            self.block(&format!("{} {}", "#".repeat(level.max(1)), prose::line(text)));
        } else {
            self.block(&format!("**{}**", prose::line(&text.replace("**", ""))));
        }
    }

    /// A value whose own headings begin at `level`.
    pub(super) fn value(&mut self, value: &Value, level: usize) {
        match value {
            Value::Null => {}
            Value::String(text) => self.block(&prose::blocks(text, Some(level))),
            Value::Bool(_) | Value::Number(_) => self.block(&scalar(value)),
            Value::Array(items) => self.list(items, level),
            Value::Object(fields) => self.object(fields, level),
        }
    }

    /// A value under a heading of its own; nothing at all when the value is empty.
    pub(super) fn section(&mut self, heading: &str, value: &Value, level: usize) {
        if is_blank(value) {
            return;
        }
        if level > DEEPEST_HEADING && is_short(value, SHORT * 4) && !heading.trim().is_empty() {
            return self.block(&labelled(heading, &prose::line(&scalar(value))));
        }
        self.heading(heading, level);
        match value {
            // A text that begins with the heading it was given need not say it twice.
            Value::String(text) => self.block(&prose::blocks(without_title(text, heading), Some(level + 1))),
            value => self.value(value, level + 1),
        }
    }

    fn list(&mut self, items: &[Value], level: usize) {
        let items: Vec<&Value> = items.iter().filter(|item| !is_blank(item)).collect();
        match items.as_slice() {
            [] => {}
            // A paragraph that stands alone is no point.
            [Value::String(text)] if text.trim().contains('\n') || text.len() > PARAGRAPH => {
                self.block(&prose::blocks(text, Some(level)))
            }
            items if items.iter().all(|item| item.is_object()) => self.records(items, level),
            items => self.block(&points(items)),
        }
    }

    fn records(&mut self, records: &[&Value], level: usize) {
        if let Some(table) = table::table(records) {
            return self.block(&table);
        }
        if level > DEEPEST_HEADING {
            return self.block(&points(records));
        }
        for (at, record) in records.iter().enumerate() {
            let Value::Object(fields) = record else { continue };
            let (name, used) = name(fields);
            self.heading(&name.unwrap_or_else(|| format!("Item {}", at + 1)), level);
            let rest: Vec<(&String, &Value)> = fields.iter().filter(|(key, _)| !used.contains(&key.as_str())).collect();
            self.members(&rest, level + 1);
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, level: usize) {
        // Objects of one kind, keyed by their names.
        if level > 2 && fields.values().all(|value| value.as_object().is_some_and(|inner| !inner.contains_key(""))) {
            let rows: Vec<Value> = fields.iter().map(|(key, value)| named_row(key, value)).collect();
            if let Some(table) = table::table(&rows.iter().collect::<Vec<_>>()) {
                return self.block(&table);
            }
        }
        self.members(&fields.iter().collect::<Vec<_>>(), level);
    }

    /// The members of an object: the short ones at its head as points, each of the others under its key.
    fn members(&mut self, members: &[(&String, &Value)], level: usize) {
        let fits = |value: &Value| is_brief(value) || is_short(value, SENTENCES);
        if level > 2 && members.len() > 1 && members.iter().all(|(key, value)| fits(value) && !key.trim().is_empty()) {
            let lines = members.iter().map(|(key, value)| format!("- {}", labelled(&title(key), &brief(value))));
            return self.block(&lines.collect::<Vec<_>>().join("\n"));
        }
        let members: Vec<&(&String, &Value)> = members.iter().filter(|(_, value)| !is_blank(value)).collect();
        let head = members.iter().take_while(|(key, value)| is_short(value, SHORT) && !key.trim().is_empty()).count();
        let lines = members[..head]
            .iter()
            .map(|(key, value)| format!("- {}", labelled(&title(key), &prose::line(&scalar(value)))));
        self.block(&lines.collect::<Vec<_>>().join("\n"));
        for (key, value) in &members[head..] {
            if level > DEEPEST_HEADING && value.is_object() {
                self.block(&points(&[&Value::Object(Map::from_iter([((*key).clone(), (*value).clone())]))]));
            } else {
                self.section(&title(key), value, level);
            }
        }
    }
}

/// An object with its name as a first, nameless member.
fn named_row(name: &str, value: &Value) -> Value {
    let name = (String::new(), Value::String(title(name)));
    let members = value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
    Value::Object(std::iter::once(name).chain(members).collect())
}

/// What an object is called, and the keys that say so.
pub(super) fn name(fields: &Map<String, Value>) -> (Option<String>, Vec<&str>) {
    let short = |key: &str, value: &Value| !key.is_empty() && value.is_string() && is_short(value, 90);
    let names = |key: &str| key == "name" || key == "title" || key.ends_with("_name") || key.ends_with("_title");
    let find = |is_it: &dyn Fn(&str) -> bool| fields.iter().find(|(key, value)| is_it(key) && short(key, value));
    let id = find(&|key| key == "id");
    let name = find(&names)
        .or_else(|| find(&|key| ["risk", "dimension", "metric", "path", "key", "document_key"].contains(&key)));
    let said = match (id, name) {
        (Some(id), Some(name)) => vec![id, name],
        (Some(one), None) | (None, Some(one)) => vec![one],
        (None, None) => fields.iter().next().filter(|(key, value)| short(key, value)).into_iter().collect(),
    };
    let text = said.iter().map(|(_, value)| scalar(value)).collect::<Vec<_>>().join(": ");
    (Some(text).filter(|text| !text.is_empty()), said.into_iter().map(|(key, _)| key.as_str()).collect())
}

/// A value without members as text.
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Whether there is nothing to show.
pub(super) fn is_blank(value: &Value) -> bool {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Null => {}
            Value::String(text) if text.trim().is_empty() => {}
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            _ => return false,
        }
    }
    true
}

/// Whether a value fits behind a label on one line.
pub(super) fn is_short(value: &Value, most: usize) -> bool {
    match value {
        Value::String(text) => {
            let text = text.trim();
            !text.contains(['\n', '\r']) && text.len() <= most && !begins_block(&prose::line(text))
        }
        Value::Bool(_) | Value::Number(_) => true,
        _ => false,
    }
}

/// Whether a value fits behind a label on one line, as a list of a few words too.
pub(super) fn is_brief(value: &Value) -> bool {
    match value {
        Value::Array(items) => {
            items.len() <= 8 && items.iter().all(|item| is_short(item, 60)) && brief(value).len() <= 160
        }
        Value::Object(fields) => fields.is_empty(),
        value => is_blank(value) || is_short(value, SHORT),
    }
}

/// Such a value on one line; a dash where there is nothing.
pub(super) fn brief(value: &Value) -> String {
    let text = match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(scalar).filter(|text| !text.is_empty()).collect();
            let plain = items.iter().all(|text| text.len() <= 24 && !text.contains(','));
            items.join(if plain { ", " } else { "; " })
        }
        value => scalar(value),
    };
    if text.is_empty() { "—".to_owned() } else { prose::line(&text) }
}

/// A text behind its label.
pub(super) fn labelled(label: &str, text: &str) -> String {
    format!("**{}:** {text}", label_text(label))
}

/// A text of any form behind its label, or below it where it could not stand behind.
pub(super) fn labelled_blocks(label: &str, text: &str) -> String {
    let text = text.trim();
    let blocks = prose::blocks(text, None);
    if begins_block(text) { format!("**{}:**\n\n{blocks}", label_text(label)) } else { labelled(label, &blocks) }
}

/// Whether a text means something else when it does not stand at the beginning of a line.
pub(super) fn begins_block(text: &str) -> bool {
    text.starts_with(['#', '>', '|'])
        || text.starts_with("```")
        || text.starts_with("~~~")
        || prose::list_mark(text) > 0
}

/// A label without what would end it early.
pub(super) fn label_text(label: &str) -> String {
    prose::line(&label.replace("**", "")).trim_end_matches(':').to_owned()
}

/// A text without a first heading that repeats the one it stands under.
fn without_title<'a>(text: &'a str, heading: &str) -> &'a str {
    let text = text.trim_start_matches('\n');
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let words = first.trim().trim_start_matches('#');
    let repeated = words.len() < first.trim().len() && words.trim().eq_ignore_ascii_case(heading.trim());
    if repeated && !rest.trim().is_empty() { rest } else { text }
}
