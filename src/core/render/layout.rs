//! Decides what a layout can say: the template of one document key and the functions it has.
//!
//! | function | writes |
//! |---|---|
//! | `section(heading, value, level=2, style=)` | the value under a heading; nothing when it is empty |
//! | `group(heading, [[heading, value], …], level=2)` | sections under a common heading |
//! | `md(value, level=2, style=)` | the value alone |
//! | `records(value)` | nothing: the objects of a list, to go through |
//! | `heading(record, level, key, …, prefix=, join=": ", default=)` | a heading made of these members |
//! | `facts(record, key, …)` | these members on one line, as far as they are short; as code where the key is in backticks |
//! | `rest(record, level)` | what has not been written of it yet |
//! | `matrix(options, level)` | options compared by scores |
//!
//! The answer is `doc`, the title `title`. A style is `tasks` or `code`. Whatever a layout does not write follows
//! behind it. A layout never sees an undefined value as an error: what is not there is not written.

use super::generic::{self, Page, is_blank, is_short, scalar};
use super::node::Node;
use super::prose::{self, Fences, Line};
use super::words::title as title_of;
use super::{FrontMatter, matrix, points};
use crate::prompt::{PromptError, add_filters, compile, environment, render_bounded};
use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, context};
use serde_json::Value;
use std::sync::Arc;

/// Instructions one document may spend; a list of ten thousand records takes some two million.
const FUEL: u64 = 10_000_000;
/// The deepest content that is given to a layout.
const DEPTH: usize = 120;
/// The heading of what a layout does not mention.
const FURTHER: &str = "Further points";

/// The layouts of documents, by their names.
#[derive(Debug)]
pub struct Layouts {
    env: Environment<'static>,
}

/// Checks the syntax of one layout.
pub fn check(name: &str, body: &str) -> Result<(), PromptError> {
    Layouts::new([(name.to_owned(), body.to_owned())]).map(drop)
}

impl Layouts {
    /// Compiles layouts given as (document key, body).
    pub fn new(bodies: impl IntoIterator<Item = (String, String)>) -> Result<Self, PromptError> {
        let mut env = environment();
        env.set_undefined_behavior(UndefinedBehavior::Chainable);
        env.set_fuel(Some(FUEL));
        // Looking into a part of the document would count as writing it.
        add_filters(&mut env, |value| Node::behind(value).is_some());
        env.add_function("section", section);
        env.add_function("group", group);
        env.add_function("md", md);
        env.add_function("records", records);
        env.add_function("heading", heading);
        env.add_function("facts", facts);
        env.add_function("rest", rest);
        env.add_function("matrix", matrix::of);
        Ok(Self { env: compile(env, bodies)? })
    }

    /// Whether there is one of that name.
    pub fn has(&self, name: &str) -> bool {
        self.env.get_template(name).is_ok()
    }

    /// Renders an answer; `None` when there is no layout of that name.
    pub(super) fn render(
        &self,
        name: &str,
        content: &Value,
        front: &FrontMatter,
        title: &str,
    ) -> Result<Option<String>, String> {
        let Ok(template) = self.env.get_template(name) else { return Ok(None) };
        if !content.is_object() {
            return Err("the content is no object".to_owned());
        }
        if is_deeper(content, DEPTH) {
            return Err(format!("the content is nested deeper than {DEPTH} levels"));
        }
        let doc = Node::of(content);
        let vars = context! {
            doc => minijinja::Value::from_dyn_object(doc.clone()),
            title => prose::line(title),
            document => front.document, project => front.project, model => front.model, stage => front.stage,
            iteration => front.iteration,
        };
        let text = render_bounded(&template, vars).map_err(|problem| problem.to_string())?;
        let mut page = Page::default();
        page.block(&tidy(&text));
        if let Some(left) = doc.take_rest().filter(|left| !is_blank(left)) {
            page.heading(FURTHER, 2);
            page.value(&left, 3);
        }
        Ok(Some(page.into_text()))
    }
}

/// Leaves one empty line where there are several, outside of code.
fn tidy(text: &str) -> String {
    let mut fences = Fences::default();
    let mut out = String::with_capacity(text.len());
    let mut blank = true;
    for line in text.lines() {
        let is_text = matches!(fences.next(line), Line::Text(_));
        let is_blank = is_text && line.trim().is_empty();
        if !(is_blank && blank) {
            out.push_str(if is_text { line.trim_end() } else { line });
            out.push('\n');
        }
        blank = is_blank;
    }
    out
}

fn is_deeper(value: &Value, most: usize) -> bool {
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        if depth > most {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => open.extend(fields.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    false
}

/// The JSON of a value that a layout gives to a function; all of it counts as written.
pub(super) fn taken(value: &minijinja::Value) -> Value {
    match Node::behind(value) {
        Some(node) => node.take(),
        None if value.is_undefined() => Value::Null,
        None => serde_json::to_value(value).unwrap_or_else(|_| Value::String(value.to_string())),
    }
}

/// A block on lines of its own, wherever the layout called for it.
pub(super) fn on_its_own(page: Page) -> String {
    format!("\n{}\n", page.into_text())
}

fn styled(page: &mut Page, value: &Value, level: usize, style: Option<&str>) -> Result<(), Error> {
    match (style, value) {
        (Some("tasks"), Value::Array(items)) => {
            let items: Vec<&Value> = items.iter().filter(|item| !is_blank(item)).collect();
            page.block(&points::tasks(&items));
        }
        (Some("code"), Value::String(text)) if !text.contains("```") => page.block(&prose::code(text)),
        (None | Some("tasks" | "code"), value) => page.value(value, level),
        (Some(other), _) => {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("unknown style \"{other}\"")));
        }
    }
    Ok(())
}

fn style(options: &Kwargs) -> Result<Option<String>, Error> {
    let style = options.get("style")?;
    options.assert_all_used()?;
    Ok(style)
}

fn section(heading: String, value: minijinja::Value, level: Option<usize>, options: Kwargs) -> Result<String, Error> {
    let (level, style, value) = (level.unwrap_or(2), style(&options)?, taken(&value));
    let mut page = Page::default();
    if style.is_none() {
        page.section(&heading, &value, level);
    } else if !is_blank(&value) {
        page.heading(&heading, level);
        styled(&mut page, &value, level + 1, style.as_deref())?;
    }
    Ok(on_its_own(page))
}

fn group(heading: String, parts: Vec<minijinja::Value>, level: Option<usize>) -> Result<String, Error> {
    let level = level.unwrap_or(2);
    let mut page = Page::default();
    for part in parts {
        let title = part.get_item_by_index(0)?.to_string();
        let value = taken(&part.get_item_by_index(1)?);
        if is_blank(&value) {
            continue;
        }
        let mut below = Page::default();
        below.section(&title, &value, level + 1);
        let below = below.into_text();
        if below.is_empty() {
            continue;
        }
        if page.is_empty() {
            page.heading(&heading, level);
        }
        page.block(&below);
    }
    Ok(on_its_own(page))
}

fn md(value: minijinja::Value, level: Option<usize>, options: Kwargs) -> Result<String, Error> {
    let mut page = Page::default();
    styled(&mut page, &taken(&value), level.unwrap_or(2), style(&options)?.as_deref())?;
    Ok(on_its_own(page))
}

fn records(value: minijinja::Value) -> Vec<minijinja::Value> {
    let node = Node::behind(&value).unwrap_or_else(|| Node::of(&taken(&value)));
    if is_blank(&node.look()) {
        return Vec::new();
    }
    let records = node.records().into_iter().filter(|record| !is_blank(&record.look()));
    records.map(minijinja::Value::from_dyn_object).collect()
}

fn record(value: &minijinja::Value) -> Arc<Node> {
    Node::behind(value).unwrap_or_else(|| Node::of(&taken(value)))
}

fn heading(of: minijinja::Value, level: usize, keys: Rest<minijinja::Value>, options: Kwargs) -> Result<String, Error> {
    let default: Option<String> = options.get("default")?;
    let prefix: Option<String> = options.get("prefix")?;
    let join: Option<String> = options.get("join")?;
    options.assert_all_used()?;
    let record = record(&of);
    let members = keys.iter().filter_map(|key| record.member(key.as_str()?));
    let short = members.filter(|node| {
        let value = node.look();
        is_short(&value, 120) && !is_blank(&value)
    });
    let words: Vec<String> = short.map(|node| scalar(&node.take())).collect();
    let mut page = Page::default();
    let words = words.join(join.as_deref().unwrap_or(": "));
    let words = if words.is_empty() { default.unwrap_or_default() } else { prefix.unwrap_or_default() + &words };
    page.heading(&words, level);
    Ok(on_its_own(page))
}

fn facts(of: minijinja::Value, keys: Rest<minijinja::Value>) -> String {
    let record = record(&of);
    let mut said = Vec::new();
    for written in keys.iter().filter_map(|key| key.as_str()) {
        let key = written.trim_matches('`');
        let Some(node) = record.member(key) else { continue };
        let value = node.look();
        let texts: Vec<String> = match &value {
            Value::Array(items) if items.iter().all(|item| is_short(item, 60)) => items.iter().map(scalar).collect(),
            value if is_short(value, 160) => vec![scalar(value)],
            _ => continue,
        };
        let as_code = |text: &String| {
            if key == written || text.contains('`') { status(&prose::line(text)) } else { format!("`{text}`") }
        };
        let texts: Vec<String> = texts.iter().filter(|text| !text.is_empty()).map(as_code).collect();
        let text = texts.join(if texts.iter().any(|text| text.contains(',')) { "; " } else { ", " });
        if !text.is_empty() && text.len() <= 240 {
            node.take();
            said.push(generic::labelled(&title_of(key), &text));
        }
    }
    format!("\n{}\n", said.join(" · "))
}

/// The marks that plans use for how far something is, in words.
fn status(text: &str) -> String {
    let words = match text {
        "[ ]" | "[]" => "not begun",
        "[x]" | "[X]" | "[✅]" => "done",
        "[~]" | "[-]" | "[🚧]" | "[/]" => "under way",
        _ => return text.to_owned(),
    };
    format!("`{text}` {words}")
}

/// Every member under a heading of its own, so that none seems to belong to what was written before.
fn rest(of: minijinja::Value, level: Option<usize>) -> String {
    let mut page = Page::default();
    let level = level.unwrap_or(3);
    match record(&of).take_rest() {
        Some(Value::Object(left)) => left.iter().for_each(|(key, value)| page.section(&title_of(key), value, level)),
        left => page.value(&left.unwrap_or_default(), level),
    }
    on_its_own(page)
}
