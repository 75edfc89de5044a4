//! Decides how a template and its values become messages.
//!
//! Values are data: they are printed, never parsed, so nothing a user or a model wrote can act as a template, and each
//! block is rendered on its own, so nothing they wrote can open a message. An undefined variable is an error, not a
//! blank. Work, output and nesting are bounded: a template that never ends, that multiplies a large value, or that
//! would need a deep stack, ends in an error. Never reads a file, never escapes, never caches a rendered text.

#[cfg(test)]
mod laws;
mod nesting;
mod variables;

pub(crate) use nesting::add_filters;
pub use variables::{UnknownVariable, UsedAs, unknown_variables};

use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::io::{self, Write};

/// Instructions one rendering may spend; a real prompt with hundreds of documents takes some ten thousand.
const FUEL: u64 = 200_000;
/// Nesting of includes, macros and loops together; an include costs ten.
const RECURSION: usize = 100;
/// The longest template, in bytes.
const BODY: usize = 64 << 10;
/// Filters that ask for memory by a number in the template, which nothing would bound.
const UNBOUNDED_FILTERS: [&str; 3] = ["batch", "indent", "slice"];
/// Nesting of the values; the conversion recurses, so it is measured before.
const DEPTH: usize = 128;
/// Bytes one rendering may produce: no model reads this much.
const OUTPUT: usize = 64 << 20;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The frame: role, style guide, output contract.
    System,
    /// The material and the request.
    User,
    /// What a model has already said.
    Assistant,
}

/// One message of the array sent to a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

/// What is wrong with a template or with the values it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptError {
    /// The template at fault; for an include, the included one.
    pub template: String,
    /// The line at fault, counted from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong, in words.
    pub message: String,
    /// Whether the template is nested too deep.
    pub is_too_deep: bool,
}

impl fmt::Display for PromptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template \"{}\"", self.template)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for PromptError {}

impl PromptError {
    fn new(template: &str, message: impl Into<String>) -> Self {
        Self { template: template.to_owned(), line: None, message: message.into(), is_too_deep: false }
    }

    fn too_deep(template: &str, line: usize, what: &str, most: usize) -> Self {
        let message = format!("{what} are nested deeper than {most} levels");
        Self { line: Some(line), is_too_deep: true, ..Self::new(template, message) }
    }

    /// Messages that were saved and cannot be read again.
    pub(crate) fn unreadable(name: &str, problem: &str) -> Self {
        Self::new(name, format!("the messages before it cannot be read: {problem}"))
    }

    /// A part of the definition that a prompt needs and that is not there.
    pub(crate) fn missing(kind: &str, name: &str) -> Self {
        Self::new(name, format!("the {kind} does not exist"))
    }

    fn from_engine(template: &str, error: &minijinja::Error) -> Self {
        // Includes and blocks wrap the error they met; the innermost one knows what happened and where.
        let mut cause = error;
        let mut place = (error.name(), error.line());
        while let Some(inner) = std::error::Error::source(cause).and_then(|e| e.downcast_ref::<minijinja::Error>()) {
            cause = inner;
            if inner.line().is_some() {
                place = (inner.name(), inner.line());
            }
        }
        Self { line: place.1, ..Self::new(place.0.unwrap_or(template), describe(cause)) }
    }
}

fn describe(error: &minijinja::Error) -> String {
    let detail = error.detail().unwrap_or_default();
    let code = code(error);
    match error.kind() {
        ErrorKind::UndefinedError if !code.is_empty() => {
            format!("unknown variable \"{code}\"")
        }
        ErrorKind::UndefinedError => "unknown variable".to_owned(),
        ErrorKind::OutOfFuel => {
            format!("the template does not come to an end: it ran out of fuel after {FUEL} instructions")
        }
        ErrorKind::WriteFailure => format!("the rendered text is larger than {OUTPUT} bytes"),
        ErrorKind::TemplateNotFound => format!("unknown template: {detail}"),
        kind if detail.is_empty() => kind.to_string(),
        kind => format!("{kind}: {detail}"),
    }
}

/// The expression at fault. The engine points at `.b` of `a.b`, which alone would name nothing.
fn code(error: &minijinja::Error) -> &str {
    let (Some(range), Some(source)) = (error.range(), error.template_source()) else {
        return "";
    };
    let before = source.get(..range.start).unwrap_or_default();
    let start = before.trim_end_matches(|c: char| c.is_alphanumeric() || "_.[]".contains(c)).len();
    source.get(start..range.end).unwrap_or_default().trim()
}

/// A set of templates that may include each other.
#[derive(Debug)]
pub struct Templates {
    env: Environment<'static>,
    /// Those that are a system message and a user message, and nothing else.
    pairs: HashSet<String>,
}

/// Checks the syntax of one template; whether its includes and variables exist shows when it is rendered.
pub fn check(name: &str, body: &str) -> Result<(), PromptError> {
    Templates::new([(name.to_owned(), body.to_owned())]).map(drop)
}

/// Renders a template that stands alone.
pub(crate) fn render_once(name: &str, body: &str, vars: &serde_json::Value) -> Result<String, PromptError> {
    Templates::new([(name.to_owned(), body.to_owned())])?.render(name, vars)
}

impl Templates {
    /// Compiles templates given as (name, body).
    pub fn new(bodies: impl IntoIterator<Item = (String, String)>) -> Result<Self, PromptError> {
        let bodies: Vec<(String, String)> = bodies.into_iter().collect();
        let pairs = bodies.iter().filter(|(_, body)| is_pair(body)).map(|(name, _)| name.clone()).collect();
        Ok(Self { env: compile(environment(), bodies)?, pairs })
    }

    /// Renders a template as one text.
    pub fn render(&self, name: &str, vars: &serde_json::Value) -> Result<String, PromptError> {
        let fail = |e: minijinja::Error| PromptError::from_engine(name, &e);
        let vars = values(name, vars)?;
        render_bounded(&self.env.get_template(name).map_err(fail)?, vars)
    }

    /// Renders the blocks `system` and `user` of a template, each into a message of its own; a template without blocks
    /// is one user message. Text outside the blocks is refused rather than lost.
    pub fn messages(&self, name: &str, vars: &serde_json::Value) -> Result<Vec<Message>, PromptError> {
        let fail = |e: minijinja::Error| PromptError::from_engine(name, &e);
        let vars = values(name, vars)?;
        let template = self.env.get_template(name).map_err(fail)?;
        let mut whole = Bounded::default();
        let mut rendered = template.render_captured_to(vars, &mut whole).map_err(fail)?;
        let mut whole = whole.text(name)?;

        let mut messages = Vec::with_capacity(2);
        if self.pairs.contains(name) {
            // What is not the first block is the second, which holds the documents and need not be rendered again.
            let mut system = Bounded::default();
            rendered.with_state_mut(|state| state.render_block_to_write("system", &mut system)).map_err(fail)?;
            let user = whole.split_off(system.0.len());
            push(&mut messages, Role::System, whole);
            push(&mut messages, Role::User, user);
            return if messages.is_empty() { Err(nothing_to_say(name)) } else { Ok(messages) };
        }
        let mut blocks = 0;
        let mut inked = 0;
        for (role, block) in [(Role::System, "system"), (Role::User, "user")] {
            let mut out = Bounded::default();
            match rendered.with_state_mut(|state| state.render_block_to_write(block, &mut out)) {
                Err(e) if e.kind() == ErrorKind::UnknownBlock => continue,
                result => result.map_err(fail)?,
            }
            let content = out.text(name)?;
            blocks += 1;
            inked += ink(&content);
            push(&mut messages, role, content);
        }
        if blocks == 0 {
            push(&mut messages, Role::User, whole);
        } else if inked != ink(&whole) {
            return Err(PromptError::new(name, "text outside of the blocks \"system\" and \"user\" would be lost"));
        }
        if messages.is_empty() {
            return Err(nothing_to_say(name));
        }
        Ok(messages)
    }
}

fn nothing_to_say(name: &str) -> PromptError {
    PromptError::new(name, "nothing is left to say: every message is empty")
}

/// Whether a template is the blocks `system` and `user`, one right after the other, and nothing around them. Such a
/// template is rendered once and not twice, which saves a tenth to a half of the time of a prompt.
fn is_pair(body: &str) -> bool {
    body.starts_with("{% block system %}\n")
        && body.contains("{% endblock %}\n{% block user %}\n")
        && (body.ends_with("{% endblock %}") || body.ends_with("{% endblock %}\n"))
        && body.matches("{% block ").count() == 2
        && body.matches("endblock").count() == 2
}

/// The engine as every template of ours finds it: strict, unescaped, bounded.
pub(crate) fn environment() -> Environment<'static> {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    // An include stands on a line of its own, and its tag takes that line's end with it: the text brings its own.
    env.set_keep_trailing_newline(true);
    env.set_recursion_limit(RECURSION);
    env.set_fuel(Some(FUEL));
    // Without it an error cannot say which variable was unknown.
    env.set_debug(true);
    for filter in UNBOUNDED_FILTERS {
        env.remove_filter(filter);
    }
    add_filters(&mut env, |_| false);
    // The engine's own takes a width to indent by.
    env.add_filter("tojson", |value: &minijinja::Value| {
        serde_json::to_string_pretty(value)
            .map_err(|e| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string()))
    });
    env
}

/// Puts templates into an engine.
pub(crate) fn compile(
    mut env: Environment<'static>,
    bodies: impl IntoIterator<Item = (String, String)>,
) -> Result<Environment<'static>, PromptError> {
    for (name, body) in bodies {
        if body.len() > BODY {
            return Err(PromptError::new(&name, format!("it is {} bytes long, and {BODY} are the most", body.len())));
        }
        if env.get_template(&name).is_ok() {
            return Err(PromptError::new(&name, "given twice"));
        }
        let body = nesting::checked(&name, &body)?;
        env.add_template_owned(name.clone(), body).map_err(|e| PromptError::from_engine(&name, &e))?;
    }
    Ok(env)
}

/// Renders a template as one text of bounded size.
pub(crate) fn render_bounded(template: &minijinja::Template<'_, '_>, vars: Value) -> Result<String, PromptError> {
    let mut out = Bounded::default();
    template.render_captured_to(vars, &mut out).map_err(|e| PromptError::from_engine(template.name(), &e))?;
    out.text(template.name())
}

/// Adds a message unless it is blank; the line end before `{% endblock %}` belongs to the template, not to the text.
fn push(messages: &mut Vec<Message>, role: Role, mut content: String) {
    if content.ends_with('\n') {
        content.pop();
    }
    if !content.trim().is_empty() {
        messages.push(Message { role, content });
    }
}

/// How much of a text is not blank.
fn ink(text: &str) -> usize {
    text.bytes().map(|byte| usize::from(byte > b' ')).sum()
}

fn values(name: &str, vars: &serde_json::Value) -> Result<Value, PromptError> {
    let mut open = vec![(vars, 0)];
    while let Some((value, depth)) = open.pop() {
        if depth > DEPTH {
            return Err(PromptError::new(name, format!("the values are nested deeper than {DEPTH} levels")));
        }
        match value {
            serde_json::Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            serde_json::Value::Object(fields) => open.extend(fields.values().map(|item| (item, depth + 1))),
            _ => {}
        }
    }
    Ok(Value::from_serialize(vars))
}

#[derive(Default)]
struct Bounded(Vec<u8>);

impl Bounded {
    fn text(self, name: &str) -> Result<String, PromptError> {
        String::from_utf8(self.0).map_err(|e| PromptError::new(name, e.to_string()))
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT {
            return Err(io::Error::other("too large"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
