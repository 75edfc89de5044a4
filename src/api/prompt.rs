//! Prompts for SQL: checking a template, filling one, the request of one job. Values are data and are never rendered as
//! templates.

use super::encode;
use crate::error::Error;
use crate::store::definition::definition;
use crate::store::reply::{Reply, follow};
use crate::store::{catalog, claim, document, request};
use crate::worker::prepare::{self, Preparing};
use dialectic_core::answer::{Budget, verdict};
use dialectic_core::definition::so_far;
use dialectic_core::job_prompt::{RenderedPrompt, render_job_prompt};
use dialectic_core::prompt::{self, Message, Role, Templates};
use dialectic_core::recipe::Makes;
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

/// The document of one claimed render job.
#[pg_extern(volatile)]
pub(crate) fn _render_job(job: pgrx::Uuid) -> Result<Option<String>, ErrorReport> {
    let claims: Vec<_> = claim::of_job(job)?.into_iter().collect();
    let source = document::sources(&claims)?.into_iter().next();
    Ok(match source.map(|(_, source)| source.map_err(ErrorReport::from)).transpose()? {
        Some(source) => Some(source.definition.document(&source.manuscript).markdown),
        None => None,
    })
}

/// What there is to keep of the answer to one claimed job.
#[pg_extern(volatile)]
pub(crate) fn _read_answer(job: Option<pgrx::Uuid>, finish_reason: &str, answer: &str) -> Result<JsonB, ErrorReport> {
    let finish_reason = finish_reason
        .parse()
        .map_err(|_| Error::Unknown { argument: "finish reason", value: finish_reason.to_owned() })?;
    let models = catalog::read()?.models;
    let claim = job.map(claim::of_job).transpose()?.flatten();
    let drafts = request::drafts(&claim.into_iter().collect::<Vec<_>>())?;
    let draft = drafts.into_iter().next().map(|(_, draft)| draft.map_err(ErrorReport::from)).transpose()?;
    if let Some(gap) = draft.as_ref().and_then(|draft| draft.chain.gap.as_ref()) {
        return Ok(JsonB(serde_json::json!({ "gap": gap })));
    }
    let wanted = draft.as_ref().map(|draft| {
        let budget = models
            .get(&draft.turn.model)
            .map(|model| Budget { asked: draft.limits.window(model).output, most: model.max_output_tokens });
        prepare::wanted(draft, budget.unwrap_or_default())
    });
    let heard = Reply::heard(verdict(finish_reason, answer, &wanted.unwrap_or_default()));
    let mut told =
        serde_json::json!({"is_complete": !heard.is_incomplete, "is_final": heard.is_final, "notes": heard.notes});
    for (key, value) in [("content", heard.content), ("reason", heard.message)] {
        if let Some(value) = value {
            told[key] = value.into();
        }
    }
    if let Some(why) = &heard.follow {
        told["follow"] = follow(why);
    }
    if let Some(budget) = heard.budget {
        told["budget"] = budget.into();
    }
    Ok(JsonB(told))
}

/// All messages of a prompt that goes on with an answer: those of the turn, what these chunks have so far, and what was
/// asked for then.
#[pg_extern(stable)]
pub(crate) fn _continued_prompt(
    definition_id: &str,
    stage: &str,
    step_key: &str,
    is_combine: bool,
    turn: Option<&str>,
    chunks: Vec<String>,
    directive: &str,
) -> Result<Option<JsonB>, ErrorReport> {
    let definition = definition(definition_id)?;
    let unreadable =
        |problem: serde_json::Error| Error::Unreadable(format!("the saved prompt cannot be read: {problem}"));
    let Some(turn) = turn else { return Ok(None) };
    let mut messages: Vec<Message> = serde_json::from_str(turn).map_err(unreadable)?;
    let asked: Vec<Message> = serde_json::from_str(directive).map_err(unreadable)?;
    let step = definition.step(stage, step_key).filter(|step| step.makes() != Makes::Text && !is_combine);
    let shape = step.and_then(|step| step.content_to_include.as_ref());
    let key = step.and_then(|step| step.document_key.as_deref());
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let content = so_far(&chunks, shape, key);
    messages.push(Message { role: Role::Assistant, content });
    messages.extend(asked);
    Ok(Some(encode("prompt", &messages)?))
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

/// The request of one claimed job, saved and its call opened: `{"request": …}`, null when documents have to be
/// condensed first or there is no money for it, or `{"problem": …}` that says why there is none.
#[pg_extern(volatile)]
pub(crate) fn _make_request(job: pgrx::Uuid) -> Result<JsonB, ErrorReport> {
    let problem = |reason: String| Ok(JsonB(serde_json::json!({ "problem": reason })));
    let Some(claim) = claim::of_job(job)? else {
        return problem("it is no longer claimed".to_owned());
    };
    let Some((_, draft)) = request::drafts(&[claim])?.into_iter().next() else {
        return problem("it is no longer claimed".to_owned());
    };
    let draft = draft.map_err(ErrorReport::from)?;
    let Some(model) = catalog::read()?.models.remove(&draft.turn.model) else {
        return problem(format!("model \"{}\" does not exist", draft.turn.model));
    };
    let measure = model.measure;
    let (preparing, source, limits) = match Preparing::begin(draft, (model, measure)) {
        Ok(begun) => begun,
        Err(reason) => return problem(reason),
    };
    let prepared = match render_job_prompt(source, &limits) {
        RenderedPrompt::Ready { messages, json, tokens } => preparing.end(messages, json, tokens),
        RenderedPrompt::TooLong(groups) => {
            request::combine(&claim, &preparing.groups(&groups))?;
            return Ok(JsonB(serde_json::json!({ "request": null })));
        }
        RenderedPrompt::WindowFull => return problem("the window of the model has no room to go on in".to_owned()),
        RenderedPrompt::Failed(_, reason) => return problem(reason),
    };
    let opened = request::open(&[prepared.opening(&claim)])?;
    if opened.short.contains_key(&job) {
        return Ok(JsonB(serde_json::json!({ "request": null, "state": "waiting" })));
    }
    if opened.paused.contains(&job) {
        return Ok(JsonB(serde_json::json!({ "request": null })));
    }
    let JsonB(mut request) = encode("request", &prepared.request)?;
    request["job_id"] = job.to_string().into();
    request["claim_id"] = claim.id.into();
    request["provider"] = prepared.model.provider.name.clone().into();
    Ok(JsonB(serde_json::json!({ "request": request })))
}

fn bodies_of(value: serde_json::Value) -> Vec<(String, String)> {
    match value {
        serde_json::Value::Object(bodies) => {
            bodies.into_iter().filter_map(|(name, body)| body.as_str().map(|text| (name, text.to_owned()))).collect()
        }
        _ => Vec::new(),
    }
}
