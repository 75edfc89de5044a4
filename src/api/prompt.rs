//! Prompts for SQL: checking a template, filling one. Values are data and are never rendered as
//! templates.
//!
//! The engine goes as deep as a template is long, deeper than the stack of a backend allows, so templates are compiled
//! and filled on a thread that has room; it sees no Postgres.

use crate::error::Error;
use crate::store::definition::definition;
use dialectic_core::prompt::{self, Templates};
use dialectic_core::render::{self, FrontMatter, Layouts};
use dialectic_net::{DEEP_STACK, with_signals_blocked};
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Runs work on a thread with a deep stack; a panic there is an error here.
pub(crate) fn deep<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    let no_thread = |problem: std::io::Error| Error::Gone(format!("no thread to render on: {problem}"));
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(DEEP_STACK);
        let thread = with_signals_blocked(|| builder.spawn_scoped(scope, work)).map_err(no_thread)?;
        thread.join().unwrap_or_else(|_| Err(Error::Gone("the template engine panicked".to_owned())))
    })
}

/// Refuses a template that does not parse.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _check_template(name: &str, body: &str) -> Result<(), ErrorReport> {
    Ok(deep(|| Ok(prompt::check(name, body)?))?)
}

/// The variables that nobody gives one of the templates `{name: body}` where it is used, and those that it is given
/// there.
#[pg_extern(immutable, parallel_safe)]
#[allow(clippy::type_complexity)]
fn _unknown_variables(
    bodies: JsonB,
    name: &str,
    used_as: &str,
) -> Result<
    TableIterator<'static, (name!(template, String), name!(variable, String), name!(known, Vec<String>))>,
    ErrorReport,
> {
    let argument = "use of a template";
    let used_as = prompt::UsedAs::of(used_as).ok_or_else(|| Error::Unknown { argument, value: used_as.to_owned() })?;
    let bodies = bodies_of(bodies.0).into_iter().collect();
    let unknown = deep(|| Ok(prompt::unknown_variables(&bodies, name, used_as)))?;
    let known: Vec<String> = used_as.variables().iter().map(|name| (*name).to_owned()).collect();
    Ok(TableIterator::new(unknown.into_iter().map(move |found| (found.template, found.variable, known.clone()))))
}

/// One of the templates `{name: body}`, filled.
#[pg_extern(immutable, parallel_safe)]
fn _render_template(bodies: JsonB, name: &str, vars: JsonB) -> Result<String, ErrorReport> {
    let bodies = bodies_of(bodies.0);
    Ok(deep(|| Ok(Templates::new(bodies)?.render(name, &vars.0)?))?)
}

/// Refuses a layout of a document that does not parse.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _check_document_template(key: &str, body: &str) -> Result<(), ErrorReport> {
    Ok(deep(|| Ok(render::check(key, body)?))?)
}

/// The Markdown of an answer, without a head; by a layout if there is one.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _render_markdown(
    content: Option<JsonB>,
    document_key: Option<&str>,
    layout: Option<&str>,
) -> Result<Option<String>, ErrorReport> {
    let (Some(content), Some(key)) = (content, document_key) else { return Ok(None) };
    Ok(deep(|| {
        let layouts = Layouts::new(layout.map(|body| (key.to_owned(), body.to_owned())))?;
        let front = FrontMatter { document: key.to_owned(), ..FrontMatter::default() };
        let made = render::markdown(Some((&layouts, key)), &content.0, &front, &render::title(key));
        Ok(Some(render::body(&made.markdown).to_owned()))
    })?)
}

/// The seed prompt of a stage, filled.
#[pg_extern(stable)]
pub(crate) fn _render_seed(
    definition_id: &str,
    stage: &str,
    iteration: i32,
    request: Option<&str>,
) -> Result<String, ErrorReport> {
    let definition = definition(definition_id)?;
    let request = request.unwrap_or_default();
    Ok(deep(|| Ok(definition.seed_prompt(stage, iteration, request)?))?)
}

fn bodies_of(value: serde_json::Value) -> Vec<(String, String)> {
    match value {
        serde_json::Value::Object(bodies) => {
            bodies.into_iter().filter_map(|(name, body)| body.as_str().map(|text| (name, text.to_owned()))).collect()
        }
        _ => Vec::new(),
    }
}
