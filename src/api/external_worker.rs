//! What the verbs of a worker outside the server do: open the request of a claimed job, keep its answer or its failure.
//!
//! Each is one job through the functions that the worker uses for many: prepare, open, judge, keep. The arguments are
//! checked in `sql/api/external_worker.sql`. Never calls a model.

use super::encode;
use crate::error::{Error, Problem};
use crate::store::claim::{self, Claim, Work};
use crate::store::index;
use crate::store::reply::{self, CallEnd, Reply};
use crate::store::request::{self, Draft};
use crate::store::{catalog, combine, document, opening, partial, sent_prompt, settlement};
use crate::worker::admission::{Admissions, News};
use crate::worker::prepare::{self, Preparing};
use dialectic_core::answer::{Budget, Wanted, verdict};
use dialectic_core::cooldown::{Answering, Availability, answering};
use dialectic_core::job_prompt::{RenderedPrompt, render_job_prompt};
use dialectic_core::provider::{Class, FinishReason, Usage, storable};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use pgrx::{JsonB, Uuid};
use serde_json::Value;
use std::time::Duration;

/// What the verbs return for a claim that is no longer the job's.
const STALE: &str = "stale";
/// The note of an index job that a worker outside the server has claimed: it has no verb for vectors.
const NOT_EMBEDDED: &str = "a worker outside the server does not embed texts";

/// A job whose request cannot be made.
fn no_request(job: Uuid, reason: &str) -> ErrorReport {
    Problem {
        sqlstate: *b"55000",
        message: format!("job \"{job}\" has no request: {reason}"),
        detail: None,
        hint: Some("Give it up with dialectic.fail_job(job, claim_id, class, message).".to_owned()),
    }
    .into()
}

fn unknown(argument: &'static str, value: &str) -> Error {
    Error::Unknown { argument, value: value.to_owned() }
}

fn draft(claim: &Claim) -> Result<Option<Draft>, ErrorReport> {
    let read = request::drafts(&[*claim])?.into_iter().next();
    read.map(|(_, draft)| draft.map_err(ErrorReport::from)).transpose()
}

fn admissions() -> Result<Admissions, Error> {
    let mut admissions = Admissions::new();
    admissions.hear(News { catalog: Some(catalog::read()?), cooldowns: Some(catalog::cooldowns()?) });
    Ok(admissions)
}

/// The request of a claimed job, whose session and wallet are locked: its prompt is stored and its call opened. None
/// when documents have to be condensed first, or there is no money for it.
#[pg_extern(volatile)]
pub(crate) fn _open_request(job: Uuid, claim_id: i64) -> Result<Option<JsonB>, ErrorReport> {
    let claim = claim::of_job(job)?.filter(|claim| claim.id == claim_id);
    let claim = claim.ok_or_else(|| no_request(job, "it is no longer claimed"))?;
    if claim.work == Work::Index {
        index::drafts(&[claim])?;
        reply::keep(&[(&claim, &Reply::indexed(Some(NOT_EMBEDDED.to_owned())))])?;
        return Ok(None);
    }
    let draft = draft(&claim)?.ok_or_else(|| no_request(job, "it is no longer claimed"))?;
    let (name, is_limited) = (draft.turn.model.clone(), draft.is_funded);
    let admissions = admissions()?;
    let Some(model) = admissions.answering(&name, draft.is_last_attempt) else {
        return Err(no_request(job, &format!("model \"{name}\" does not exist")));
    };
    let measure = model.measure;
    let (preparing, source, limits) =
        Preparing::begin(draft, (model.clone(), measure)).map_err(|reason| no_request(job, &reason))?;
    let prepared = match render_job_prompt(source, &limits) {
        RenderedPrompt::Ready { messages, json, tokens } => preparing.end(messages, json, tokens),
        RenderedPrompt::TooLong(groups) => {
            combine::combine(&claim, &preparing.combine_jobs(&groups))?;
            return Ok(None);
        }
        RenderedPrompt::Unindexed(queries) => {
            index::wait_for_index(&claim, &queries)?;
            return Ok(None);
        }
        RenderedPrompt::WindowFull => {
            return Err(no_request(job, "there is no room to go on in"));
        }
        RenderedPrompt::Overflow(overflow) => return Err(no_request(job, &overflow.to_string())),
        RenderedPrompt::Failed(_, reason) => return Err(no_request(job, &reason)),
    };
    let opened = opening::open(&[prepared.opening(&claim, is_limited)])?;
    if opened.waiting.contains_key(&job) {
        claim::postpone(&claim)?;
        return Ok(None);
    }
    if opened.paused.contains(&job) {
        return Ok(None);
    }
    let JsonB(mut request) = encode("request", &prepared.request)?;
    request["job_id"] = job.to_string().into();
    request["claim_id"] = claim.id.into();
    request["provider"] = prepared.model.provider.name.clone().into();
    Ok(Some(JsonB(request)))
}

/// Keeps the answer of a job; returns its new status, or `stale` when the claim is no longer the job's.
#[pg_extern(volatile)]
pub(crate) fn _keep_answer(
    job: Uuid,
    claim_id: Option<i64>,
    answer: &str,
    finish_reason: &str,
    usage: JsonB,
) -> Result<String, ErrorReport> {
    let finish_reason: FinishReason = finish_reason.parse().map_err(|_| unknown("finish reason", finish_reason))?;
    let Some(claim_id) = claim_id else { return Ok(STALE.to_owned()) };
    let claim = claim::under(job, claim_id)?;
    let wanted = match claim::of_job(job)?.filter(|current| current.id == claim_id) {
        Some(current) => draft(&current)?.map(wanted).transpose()?,
        None => None,
    };
    let judged = verdict(finish_reason, answer, &wanted.unwrap_or_default());
    let usage = counted(&claim, Some(answer), &usage.0)?;
    let end = CallEnd { finish_reason: Some(finish_reason), usage, ..CallEnd::default() };
    let reply = Reply::answered(end, answer.to_owned(), judged);
    if finish_reason == FinishReason::Error {
        // What was said before the call broke off is continued.
        partial::append(&[&(claim, answer.to_owned())])?;
    }
    Ok(kept(&claim, &reply)?)
}

/// What the answer of a job is read against.
fn wanted(mut draft: Draft) -> Result<Wanted, Error> {
    if let Some(gap) = &draft.chain.gap {
        return Err(Error::Unreadable(format!("cannot continue the answer: {gap} is missing")));
    }
    let admissions = admissions()?;
    let budget = admissions.answering(&draft.turn.model, draft.is_last_attempt).map(|model| {
        draft.limit_text(&model.measure);
        let window = draft.limits.window(model.context_window, model.max_output_tokens);
        Budget { asked: window.output, most: model.max_output_tokens }
    });
    Ok(prepare::wanted(&draft, budget.unwrap_or_default()))
}

/// Keeps the failure of a job; returns its new status, or `stale` when the claim is no longer the job's.
#[pg_extern(volatile)]
pub(crate) fn _keep_failure(
    job: Uuid,
    claim_id: Option<i64>,
    class: &str,
    message: &str,
    retry_after_ms: Option<i64>,
    usage: JsonB,
) -> Result<String, ErrorReport> {
    let class: Class = class.parse().map_err(|_| unknown("error class", class))?;
    let Some(claim_id) = claim_id else { return Ok(STALE.to_owned()) };
    let claim = claim::under(job, claim_id)?;
    let usage = match class {
        Class::Transient | Class::Content => counted(&claim, None, &usage.0)?,
        // A request that was refused has consumed nothing.
        _ => Given::read(&usage.0).usage(None),
    };
    let retry_after = retry_after_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis);
    let failed = Reply::failed(class, storable(message.to_owned()));
    let reply = Reply { end: CallEnd { usage, retry_after, ..CallEnd::default() }, ..failed };
    Ok(kept(&claim, &reply)?)
}

fn kept(claim: &Claim, reply: &Reply) -> Result<String, Error> {
    if reply::keep(&[(claim, reply)])?.is_empty() {
        return Ok(STALE.to_owned());
    }
    Ok(claim::status(claim.job)?.unwrap_or_else(|| STALE.to_owned()))
}

/// Usage as a worker gave it.
#[derive(Clone, Copy)]
struct Given {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    rest: Usage,
}

impl Given {
    fn read(usage: &Value) -> Self {
        let number = |key: &str| usage.get(key).and_then(Value::as_f64).map(|number| number as u64);
        let rest = Usage {
            cached_tokens: number("cached_tokens").unwrap_or(0),
            cache_write_tokens: number("cache_write_tokens").unwrap_or(0),
            reasoning_tokens: number("reasoning_tokens").unwrap_or(0),
            ..Usage::default()
        };
        Given { input_tokens: number("input_tokens"), output_tokens: number("output_tokens"), rest }
    }

    /// The usage, with what was not given from these counts.
    fn usage(self, counts: Option<(u64, u64)>) -> Usage {
        let (input, output) = counts.unwrap_or_default();
        Usage {
            input_tokens: self.input_tokens.unwrap_or(input),
            output_tokens: self.output_tokens.unwrap_or(output),
            estimated: counts.is_some(),
            ..self.rest
        }
    }
}

/// What a call consumed. What is not given is counted, and so is a text that is said to be made of nothing.
fn counted(claim: &Claim, answer: Option<&str>, usage: &Value) -> Result<Usage, Error> {
    let mut given = Given::read(usage);
    let is_text = answer.is_some_and(|answer| !answer.is_empty());
    if is_text && given.input_tokens == Some(0) && given.output_tokens == Some(0) {
        (given.input_tokens, given.output_tokens) = (None, None);
    }
    if given.input_tokens.is_some() && given.output_tokens.is_some() {
        return Ok(given.usage(None));
    }
    let sent = sent_prompt::of_claim(claim.job, Some(claim.id))?.filter(|sent| sent.call.is_some());
    let counts = sent.map(|sent| (sent.input_tokens(), answer.map_or(0, |answer| sent.text_tokens(answer))));
    Ok(given.usage(counts))
}

/// Renders the document of a claimed render job; returns its new status, or `stale`.
#[pg_extern(volatile)]
pub(crate) fn _render_document(job: Uuid, claim_id: Option<i64>) -> Result<String, ErrorReport> {
    let current = claim::of_job(job)?.filter(|claim| Some(claim.id) == claim_id);
    let Some(claim) = current else { return Ok(STALE.to_owned()) };
    let Some((_, source)) = document::sources(&[claim])?.into_iter().next() else { return Ok(STALE.to_owned()) };
    let source = source.map_err(ErrorReport::from)?;
    let text = source.definition.document(&source.manuscript).markdown;
    if document::keep(&[(&claim, text.as_str())])?.is_empty() {
        return Ok(STALE.to_owned());
    }
    Ok(claim::status(job)?.unwrap_or_else(|| STALE.to_owned()))
}

/// All messages that the call of a claim sent, or would send again; none before there is a prompt.
#[pg_extern(stable)]
pub(crate) fn _sent_messages(job: Uuid, claim_id: Option<i64>) -> Result<Option<JsonB>, ErrorReport> {
    let Some(sent) = sent_prompt::of_claim(job, claim_id)? else { return Ok(None) };
    let messages = sent.messages()?;
    Ok(messages.map(|messages| encode("prompt", &messages)).transpose()?)
}

/// Closes and settles open calls of a session that is being deleted.
#[pg_extern(volatile)]
pub(crate) fn _settle_lost_calls(calls: Vec<Uuid>) -> Result<(), ErrorReport> {
    Ok(settlement::close_lost(calls)?)
}

/// Whether the fallback of a model answers for it; what is known of both comes as columns.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _has_fallback(
    is_paused: bool,
    has_open_circuit: bool,
    is_cooling: bool,
    has_fallback: bool,
    fallback_is_paused: bool,
    fallback_has_open_circuit: bool,
    fallback_is_cooling: bool,
) -> bool {
    let availability = |is_paused, has_open_circuit, is_cooling| {
        let pause = if is_cooling { Duration::MAX } else { Duration::ZERO };
        Availability { is_paused, has_open_circuit, pause }
    };
    let fallback = availability(fallback_is_paused, fallback_has_open_circuit, fallback_is_cooling);
    let own = availability(is_paused, has_open_circuit, is_cooling);
    answering(own, has_fallback.then_some(fallback), false) == Answering::Fallback
}
