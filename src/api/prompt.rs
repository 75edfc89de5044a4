//! Prompts for SQL: checking a template, filling one. Values are data and are never rendered as templates.
//!
//! The engine goes as deep as a template is long, deeper than the stack of a backend allows, so templates are compiled and filled
//! on a thread that has room; it sees no Postgres.
//!
//! Templates of a session come from its definition, which never changes and is named by its content, so a compiled set can be
//! kept for as long as the process lives.

use crate::error::Error;
use crate::store::definition;
use crate::worker::calls::with_signals_blocked;
use dialectic_core::prompt::{self, Templates};
use dialectic_core::provider::simulator;
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// How many compiled definitions a process keeps.
const KEPT_DEFINITIONS: usize = 16;

/// Room for the deepest template there can be.
const DEEP_STACK: usize = 256 << 20;

/// Runs work on a thread with a deep stack; a panic there is an error here.
fn deep<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
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

/// One of the templates `{name: body}`, filled.
#[pg_extern(immutable, parallel_safe)]
fn _render_template(bodies: JsonB, name: &str, vars: JsonB) -> Result<String, ErrorReport> {
    let bodies = bodies_of(bodies.0);
    Ok(deep(|| Ok(Templates::new(bodies)?.render(name, &vars.0)?))?)
}

/// A seed prompt of a definition, filled.
#[pg_extern(stable)]
pub(crate) fn _render_seed(definition_id: &str, name: &str, vars: JsonB) -> Result<String, ErrorReport> {
    let templates = templates_of(definition_id)?;
    Ok(deep(|| Ok(templates.render(name, &vars.0)?))?)
}

/// The messages of a turn: `{"messages": […]}`, or `{"error": "…"}` so that one bad prompt does not fail a whole batch.
#[pg_extern(stable)]
pub(crate) fn _messages(definition_id: &str, name: &str, vars: JsonB) -> Result<JsonB, ErrorReport> {
    let templates = templates_of(definition_id)?;
    Ok(JsonB(match deep(|| Ok(templates.messages(name, &vars.0)?)) {
        Ok(messages) => serde_json::json!({ "messages": messages }),
        Err(problem) => serde_json::json!({ "error": problem.to_string() }),
    }))
}

/// Refuses settings that the simulator does not know.
#[pg_extern(immutable, parallel_safe)]
fn _check_simulator_settings(settings: JsonB) -> Result<(), ErrorReport> {
    Ok(simulator::check_settings(&settings.0).map_err(Error::Setting)?)
}

thread_local! {
    static COMPILED: RefCell<HashMap<String, Arc<Templates>>> = RefCell::new(HashMap::new());
}

fn templates_of(definition_id: &str) -> Result<Arc<Templates>, Error> {
    if let Some(kept) = COMPILED.with_borrow(|compiled| compiled.get(definition_id).cloned()) {
        return Ok(kept);
    }
    let bodies = bodies_of(definition::prompts(definition_id)?);
    let templates = Arc::new(deep(|| Ok(Templates::new(bodies)?))?);
    COMPILED.with_borrow_mut(|compiled| {
        if compiled.len() >= KEPT_DEFINITIONS {
            compiled.clear();
        }
        compiled.insert(definition_id.to_owned(), Arc::clone(&templates));
    });
    Ok(templates)
}

fn bodies_of(value: serde_json::Value) -> Vec<(String, String)> {
    match value {
        serde_json::Value::Object(bodies) => {
            bodies.into_iter().filter_map(|(name, body)| body.as_str().map(|text| (name, text.to_owned()))).collect()
        }
        _ => Vec::new(),
    }
}
