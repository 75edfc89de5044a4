//! Decides how deep a template and the values that it makes may be nested, so that an ordinary stack holds the engine.
//!
//! The engine bounds brackets and blocks, but neither chains of operators, filters and `elif`, nor lists in lists that
//! a template builds by assignments. Templates are therefore measured by their tokens before the engine parses them,
//! and every assigned value is measured when it is assigned. Never renders a template.

#[cfg(test)]
mod tests;

use super::PromptError;
use minijinja::machinery::{Token, WhitespaceConfig, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

/// Operators, brackets and filters that contain each other in one tag.
pub(super) const OPERATORS: usize = 400;
/// Brackets and filters that contain each other in one tag: each may put a value into another one.
pub(super) const BRACKETS: usize = 20;
/// Blocks that contain each other; an `elif` is a block within its `if`.
pub(super) const BLOCKS: usize = 50;
/// Lists and maps that contain each other in a value that is assigned.
pub(super) const VALUES: usize = 256;
/// Lists, maps and plain values together in a value that is assigned.
const PARTS: usize = 1 << 20;
/// The filter that measures the value of a variable.
const ASSIGNED: &str = "_assigned";
/// The filter that measures the value of an attribute of a namespace.
const KEPT: &str = "_kept";

/// The longest path through the expression of one tag, bracket by bracket.
#[derive(Default)]
struct Path {
    outer: Vec<Level>,
    level: Level,
}

/// What is between two brackets. Its parts are separated by commas and do not contain each other.
#[derive(Default, Clone, Copy)]
struct Level {
    longest: usize,
    steps: usize,
    inner: usize,
}

impl Level {
    fn length(self) -> usize {
        self.longest.max(self.steps + self.inner)
    }
}

impl Path {
    fn step(&mut self) {
        self.level.steps += 1;
    }

    fn open(&mut self) {
        self.step();
        self.outer.push(std::mem::take(&mut self.level));
    }

    fn close(&mut self) {
        if let Some(mut outer) = self.outer.pop() {
            outer.inner = outer.inner.max(self.level.length());
            self.level = outer;
        }
    }

    fn next_part(&mut self) {
        self.level = Level { longest: self.level.length(), ..Level::default() };
    }

    /// The length of the whole path; the next token begins another one.
    fn end(&mut self) -> usize {
        while !self.outer.is_empty() {
            self.close();
        }
        std::mem::take(&mut self.level).length()
    }
}

/// Checks the nesting of a template; returns it with a check of every value that it assigns.
pub(super) fn checked(name: &str, body: &str) -> Result<String, PromptError> {
    let mut nesting = Nesting::default();
    for token in tokenize(body, false, SyntaxConfig, WhitespaceConfig::default()) {
        // The engine names the fault of a text that has no tokens.
        let Ok((token, span)) = token else { break };
        let too_deep = nesting.add(&token, span.start_offset as usize, span.end_offset as usize);
        if let Some((what, most)) = too_deep {
            return Err(PromptError::too_deep(name, span.start_line.into(), what, most));
        }
    }
    let mut checked = String::with_capacity(body.len());
    let mut copied = 0;
    for (start, end, filter) in nesting.assigned {
        let (Some(before), Some(value)) = (body.get(copied..start), body.get(start..end)) else { continue };
        checked.push_str(&format!("{before}({value})|{filter}"));
        copied = end;
    }
    checked.push_str(body.get(copied..).unwrap_or_default());
    Ok(checked)
}

/// What is open while the tokens of a template pass by.
#[derive(Default)]
struct Nesting {
    operators: Path,
    brackets: Path,
    /// For each open block, how many `elif` it has.
    blocks: Vec<usize>,
    tag: Option<Tag>,
    /// From where to where the values are that the template assigns, and the filter that measures them.
    assigned: Vec<(usize, usize, &'static str)>,
}

/// A tag that is not closed yet.
#[derive(Default)]
struct Tag {
    keyword: String,
    is_first: bool,
    has_assignment: bool,
    /// Whether an attribute is assigned and not a variable.
    has_attribute: bool,
    /// Where the value of an assignment begins, once there is a token of it.
    value: Option<Option<usize>>,
    /// Where the token before ends.
    end: usize,
}

impl Nesting {
    /// One more token; what is too deep, and how deep it may be.
    fn add(&mut self, token: &Token<'_>, start: usize, end: usize) -> Option<(&'static str, usize)> {
        match token {
            Token::TemplateData(_) => return None,
            Token::VariableStart | Token::BlockStart => {
                self.tag = Some(Tag { is_first: matches!(token, Token::BlockStart), ..Tag::default() });
                return None;
            }
            Token::VariableEnd | Token::BlockEnd => return self.end_tag(),
            _ => {}
        }
        let is_outside = self.operators.outer.is_empty();
        let Some(tag) = &mut self.tag else { return None };
        match token {
            Token::Ident(word) if std::mem::take(&mut tag.is_first) => tag.keyword = (*word).to_owned(),
            Token::Assign if is_outside && matches!(tag.keyword.as_str(), "set" | "with") => {
                tag.has_assignment = true;
                tag.value = Some(None);
            }
            Token::Comma if is_outside && tag.keyword == "with" => {
                if let Some(Some(from)) = tag.value.take() {
                    self.assigned.push((from, tag.end, ASSIGNED));
                }
            }
            Token::Dot if !tag.has_assignment => tag.has_attribute = true,
            _ => {
                if let Some(from) = &mut tag.value {
                    from.get_or_insert(start);
                }
            }
        }
        tag.end = end;
        match token {
            Token::BracketOpen | Token::ParenOpen | Token::BraceOpen => {
                self.operators.open();
                self.brackets.open();
            }
            Token::BracketClose | Token::ParenClose | Token::BraceClose => {
                self.operators.close();
                self.brackets.close();
            }
            Token::Comma | Token::Colon | Token::Assign => {
                self.operators.next_part();
                self.brackets.next_part();
            }
            Token::Pipe => {
                self.operators.step();
                self.brackets.step();
            }
            Token::Ident(word) if !matches!(*word, "not" | "and" | "or" | "if" | "else" | "is" | "in") => {}
            Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => {}
            _ => self.operators.step(),
        }
        None
    }

    fn end_tag(&mut self) -> Option<(&'static str, usize)> {
        let tag = self.tag.take()?;
        if let Some(Some(from)) = tag.value {
            self.assigned.push((from, tag.end, if tag.has_attribute { KEPT } else { ASSIGNED }));
        }
        match tag.keyword.as_str() {
            "set" if tag.has_assignment => {}
            "for" | "if" | "with" | "block" | "macro" | "call" | "filter" | "autoescape" | "set" => self.blocks.push(1),
            "elif" => self.blocks.last_mut().into_iter().for_each(|depth| *depth += 1),
            word if word.starts_with("end") => _ = self.blocks.pop(),
            _ => {}
        }
        let (operators, brackets) = (self.operators.end(), self.brackets.end());
        if brackets > BRACKETS {
            return Some(("brackets and filters", BRACKETS));
        }
        if operators > OPERATORS {
            return Some(("operators", OPERATORS));
        }
        (self.blocks.iter().sum::<usize>() > BLOCKS).then_some(("blocks", BLOCKS))
    }
}

/// Adds the filters that measure assigned values. What `is_leaf` knows to be shallow is not looked into.
pub(crate) fn add_filters(env: &mut Environment<'_>, is_leaf: fn(&Value) -> bool) {
    env.add_filter(ASSIGNED, move |value: Value| measured(value, is_leaf, |_| true));
    env.add_filter(KEPT, move |value: Value| measured(value, is_leaf, is_data));
}

/// Whether a namespace may keep a value. It lasts longer than a loop, so macros, loops and other namespaces, which
/// refer to other values, could form a chain in it.
fn is_data(value: &Value) -> bool {
    let is_reference = |name: &str| name.starts_with("minijinja::vm::") || name.ends_with("::Namespace");
    value.kind() != ValueKind::Plain && value.as_object().is_none_or(|object| !is_reference(object.type_name()))
}

fn measured(value: Value, is_leaf: fn(&Value) -> bool, may_be_assigned: fn(&Value) -> bool) -> Result<Value, Error> {
    let refused = |detail| Err(Error::new(ErrorKind::InvalidOperation, detail));
    // Iterables refer to the values that they are made of: a list does not.
    let value = if value.kind() == ValueKind::Iterable { Value::from_iter(value.try_iter()?) } else { value };
    let mut open = vec![(value.clone(), 0)];
    let mut parts = 0;
    while let Some((value, depth)) = open.pop() {
        parts += 1;
        if depth > VALUES {
            return refused(format!("a value is nested deeper than {VALUES} levels"));
        }
        if parts > PARTS {
            return refused(format!("a value has more than {PARTS} parts"));
        }
        match value.kind() {
            _ if is_leaf(&value) => {}
            _ if !may_be_assigned(&value) => {
                return refused("a namespace keeps texts, numbers, lists and maps only".to_owned());
            }
            ValueKind::Seq | ValueKind::Iterable => open.extend(value.try_iter()?.map(|item| (item, depth + 1))),
            ValueKind::Map => {
                for key in value.try_iter()? {
                    open.push((value.get_item(&key)?, depth + 1));
                }
            }
            _ => {}
        }
    }
    Ok(value)
}
