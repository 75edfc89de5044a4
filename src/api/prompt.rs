//! Prompts for SQL: checking a template, filling one. Values are data and are never rendered as
//! templates.

use crate::error::Error;
use crate::store::definition::definition;
use dialectic_core::prompt::{self, Templates};
use dialectic_core::render::{self, FrontMatter, Layouts};
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Refuses a template that does not parse.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _check_template(name: &str, body: &str) -> Result<(), ErrorReport> {
    Ok(prompt::check(name, body).map_err(Error::from)?)
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
    let unknown = prompt::unknown_variables(&bodies, name, used_as);
    let known: Vec<String> = used_as.variables().iter().map(|name| (*name).to_owned()).collect();
    Ok(TableIterator::new(unknown.into_iter().map(move |found| (found.template, found.variable, known.clone()))))
}

/// One of the templates `{name: body}`, filled.
#[pg_extern(immutable, parallel_safe)]
fn _render_template(bodies: JsonB, name: &str, vars: JsonB) -> Result<String, ErrorReport> {
    let bodies = bodies_of(bodies.0);
    Ok(Templates::new(bodies).and_then(|set| set.render(name, &vars.0)).map_err(Error::from)?)
}

/// Refuses a layout of a document that does not parse.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _check_document_template(key: &str, body: &str) -> Result<(), ErrorReport> {
    Ok(render::check(key, body).map_err(Error::from)?)
}

/// The Markdown of an answer, without a head; by a layout if there is one.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _render_markdown(
    content: Option<JsonB>,
    document_key: Option<&str>,
    layout: Option<&str>,
) -> Result<Option<String>, ErrorReport> {
    let (Some(content), Some(key)) = (content, document_key) else { return Ok(None) };
    let layouts = Layouts::new(layout.map(|body| (key.to_owned(), body.to_owned()))).map_err(Error::from)?;
    let front = FrontMatter { document: key.to_owned(), ..FrontMatter::default() };
    let made = render::markdown(Some((&layouts, key)), &content.0, &front, &render::title(key));
    Ok(Some(render::body(&made.markdown).to_owned()))
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
    Ok(definition.seed_prompt(stage, iteration, request).map_err(Error::from)?)
}

fn bodies_of(value: serde_json::Value) -> Vec<(String, String)> {
    match value {
        serde_json::Value::Object(bodies) => {
            bodies.into_iter().filter_map(|(name, body)| body.as_str().map(|text| (name, text.to_owned()))).collect()
        }
        _ => Vec::new(),
    }
}
