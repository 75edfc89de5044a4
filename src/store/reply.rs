//! Keeping what came back for claimed jobs: calls are closed and settled, cooldowns set, answers stored, jobs moved.
//!
//! Reads the facts, asks the core what follows from them, and writes the result; several replies at once, each step one
//! statement, and steps without work are left out. Never decides about money, cooldowns or retries.

mod cooldown;
mod rows;

use super::composite;
use super::query;
use super::settlement::{self, ClosedCall};
use crate::error::Error;
use crate::store::claim::{self, Claim};
use crate::store::index::{self, EmbeddedTexts};
use dialectic_core::answer::{Verdict, Why};
use dialectic_core::job::Status;
use dialectic_core::provider::{Class, FinishReason, Outcome, Scope, Usage, storable};
use dialectic_core::retry::Backoff;
use dialectic_net::CallResult;
use pgrx::Uuid;
use rows::{End, Kept};
use std::time::{Duration, Instant};

const CLOSE: &str = "select is_current, claimed_from, attempt_count, max_retries, has_cooldowns, is_limited, \
     is_deleted, \
     (closed).call_id, (closed).session_id, (closed).payer, (closed).held, (closed).cost, (closed).estimate, \
     (closed).charged, (closed).balance, (closed).budget_left from dialectic._close_calls($1)";
const ADD_LATE_USAGE: &str = "select dialectic._add_late_usage($1)";
const STORE: &str = "select dialectic._store_answers($1)";
const MOVE: &str = "select dialectic._move_jobs($1)";
const RETURN: &str = "select dialectic._return_claims($1, $2)";
const RETRY_SETTINGS: &str = "select base_seconds, max_seconds from dialectic._retry_settings()";

/// What came back for a claim.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) end: CallEnd,
    pub(crate) result: ReplyResult,
}

/// How the call of a claim ended; all is empty where no call was made.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallEnd {
    /// Whether the provider answered, however useful the answer is.
    pub(crate) has_answered: bool,
    pub(crate) finish_reason: Option<FinishReason>,
    /// The same in the provider's own word.
    pub(crate) finish_raw: Option<String>,
    pub(crate) usage: Usage,
    /// The pause that the provider asks for.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) http_status: Option<u16>,
    pub(crate) first_byte: Option<Instant>,
    /// Whom a wrong configuration concerns.
    pub(crate) scope: Scope,
    /// Whether the provider is to blame for the failure.
    pub(crate) is_strike: bool,
}

/// What there is to keep.
#[derive(Debug, Clone)]
pub(crate) enum ReplyResult {
    /// An answer that is all there will be.
    Kept {
        /// Null where no call was made: the document is assembled from earlier chunks.
        text: Option<String>,
        /// The whole answer in normal form, where it is JSON or came in several chunks.
        content: Option<String>,
        is_complete: bool,
        /// What was left out or accepted although it was not asked for.
        notes: Vec<String>,
    },
    /// An answer of which more is asked for.
    Continued { text: String, why: Why },
    /// All tokens were spent on reasoning: the same is asked again with this budget.
    Starved { budget: u64 },
    /// The vectors of texts that an index job had embedded.
    Embedded(EmbeddedTexts),
    /// An index job ends without further embeddings; the note says why some are missing.
    Indexed { note: Option<String> },
    /// Nothing that can be used.
    Failed {
        class: Class,
        message: String,
        /// What the user can do.
        hint: Option<String>,
        /// Whether a repetition cannot help.
        is_final: bool,
    },
    /// No call was made, because the provider has no room for long.
    Returned,
    /// No call was made, because another claim has the same texts embedded.
    Postponed,
}

impl Reply {
    /// A failure without a call.
    pub(crate) fn failed(class: Class, message: String) -> Self {
        let result = ReplyResult::Failed { class, message: storable(message), hint: None, is_final: false };
        Reply { end: CallEnd::default(), result }
    }

    /// A prompt that does not fit the window, without a call; and what would help.
    pub(crate) fn too_large(message: String, hint: String) -> Self {
        let (class, message, hint) = (Class::ContextWindow, storable(message), Some(storable(hint)));
        Reply { end: CallEnd::default(), result: ReplyResult::Failed { class, message, hint, is_final: true } }
    }

    /// A job that goes back to the queue without a call.
    pub(crate) fn returned() -> Self {
        Reply { end: CallEnd::default(), result: ReplyResult::Returned }
    }

    /// A document that is assembled without a call.
    pub(crate) fn without_call(verdict: Verdict) -> Self {
        Reply { end: CallEnd::default(), result: ReplyResult::of(None, verdict) }
    }

    /// An answer and what the core made of it.
    pub(crate) fn answered(end: CallEnd, text: String, verdict: Verdict) -> Self {
        let is_broken = end.finish_reason == Some(FinishReason::Error);
        let result = match ReplyResult::of(Some(text), verdict) {
            // It broke off as a connection does: the next call continues what it streamed.
            ReplyResult::Failed { message, hint, is_final, .. } if is_broken => {
                ReplyResult::Failed { class: Class::Transient, message, hint, is_final }
            }
            result => result,
        };
        Reply { end: CallEnd { has_answered: true, ..end }, result }
    }

    /// An index job whose texts another claim has embedded; it is due again soon.
    pub(crate) fn postponed() -> Self {
        Reply { end: CallEnd::default(), result: ReplyResult::Postponed }
    }

    /// An index job that needs no call, or whose texts cannot be embedded.
    pub(crate) fn indexed(note: Option<String>) -> Self {
        Reply { end: CallEnd::default(), result: ReplyResult::Indexed { note: note.map(storable) } }
    }

    /// The same with the texts that the vectors are of.
    pub(crate) fn of_texts(mut self, embedded: Option<EmbeddedTexts>) -> Self {
        if let (ReplyResult::Embedded(texts), Some(embedded)) = (&mut self.result, embedded) {
            *texts = EmbeddedTexts { vectors: std::mem::take(&mut texts.vectors), ..embedded };
        }
        self
    }

    /// The class of its failure.
    pub(crate) fn class(&self) -> Option<Class> {
        match self.result {
            ReplyResult::Failed { class, .. } => Some(class),
            _ => None,
        }
    }

    fn message(&self) -> Option<&str> {
        match &self.result {
            ReplyResult::Failed { message, .. } => Some(message),
            _ => None,
        }
    }

    /// How many bytes of text it holds.
    pub(crate) fn bytes(&self) -> usize {
        match &self.result {
            ReplyResult::Kept { text, content, .. } => {
                text.as_ref().map_or(0, String::len) + content.as_ref().map_or(0, String::len)
            }
            ReplyResult::Continued { text, .. } => text.len(),
            ReplyResult::Embedded(texts) => texts.bytes(),
            _ => 0,
        }
    }
}

impl ReplyResult {
    fn of(text: Option<String>, verdict: Verdict) -> Self {
        match verdict {
            Verdict::Kept { content, is_complete, notes } => {
                ReplyResult::Kept { text, content: content.map(storable), is_complete, notes }
            }
            Verdict::Continue(why) => ReplyResult::Continued { text: text.unwrap_or_default(), why },
            Verdict::Starved { budget } => ReplyResult::Starved { budget },
            Verdict::Refused { reason, is_final } => {
                ReplyResult::Failed { class: Class::Content, message: storable(reason), hint: None, is_final }
            }
        }
    }
}

impl From<(CallResult, Verdict)> for Reply {
    fn from((call, verdict): (CallResult, Verdict)) -> Self {
        let end = CallEnd {
            http_status: call.http_status,
            first_byte: call.first_byte,
            is_strike: call.is_strike,
            retry_after: call.retry_after,
            ..CallEnd::default()
        };
        match call.outcome {
            Outcome::Answer { text, finish_reason, finish_raw, usage } => {
                let finish_raw = finish_raw.map(storable);
                Reply::answered(CallEnd { finish_reason: Some(finish_reason), finish_raw, usage, ..end }, text, verdict)
            }
            Outcome::Vectors { vectors, usage } => {
                let end = CallEnd { has_answered: true, finish_reason: Some(FinishReason::Stop), usage, ..end };
                Reply { end, result: ReplyResult::Embedded(EmbeddedTexts { vectors, ..EmbeddedTexts::default() }) }
            }
            Outcome::Failure { class, message, retry_after_ms, http_status, scope, usage } => {
                let retry_after = retry_after_ms.map(Duration::from_millis);
                let http_status = end.http_status.or(http_status);
                Reply {
                    end: CallEnd { usage, retry_after, http_status, scope, ..end },
                    ..Reply::failed(class, message)
                }
            }
        }
    }
}

/// What is known of a claim when its reply is kept.
struct Facts {
    is_current: bool,
    claimed_from: Status,
    attempts: u32,
    max_retries: u32,
    has_cooldowns: bool,
    is_limited: bool,
    /// Whether its call was deleted before it ended.
    is_deleted: bool,
    closed: Option<ClosedCall>,
}

/// Keeps replies, finishing their jobs; returns the jobs whose claim still held. A reply to a revoked claim closes and
/// settles its call and counts for the cooldown of its provider; it changes no job and stores no text.
pub(crate) fn keep(replies: &[(&Claim, &Reply)]) -> Result<Vec<Uuid>, Error> {
    let is_returned = |reply: &Reply| matches!(reply.result, ReplyResult::Returned);
    let is_postponed = |reply: &Reply| matches!(reply.result, ReplyResult::Postponed);
    let (late, replies): (Vec<_>, Vec<_>) = replies.iter().copied().partition(|(_, reply)| is_postponed(reply));
    for (claim, _) in late {
        claim::postpone(claim)?;
    }
    let (back, replies): (Vec<_>, Vec<_>) = replies.into_iter().partition(|(_, reply)| is_returned(reply));
    if !back.is_empty() {
        return_claims(&back.iter().map(|(claim, _)| *claim).collect::<Vec<_>>())?;
    }
    if replies.is_empty() {
        return Ok(Vec::new());
    }
    let facts = close(&replies)?;
    if facts.iter().any(|facts| facts.is_limited) {
        settlement::settle(facts.iter().filter_map(|facts| facts.closed.as_ref()))?;
    }
    let of_deleted: Vec<End> = replies
        .iter()
        .zip(&facts)
        .filter(|(_, facts)| facts.is_deleted)
        .map(|((claim, reply), _)| End { claim, reply })
        .collect();
    if !of_deleted.is_empty() {
        query(ADD_LATE_USAGE, &[composite::array(&of_deleted)?], |_| Ok(()))?;
    }
    let says_something = |reply: &Reply| reply.end.retry_after.is_some() || reply.class().is_some();
    let must_cool = facts.iter().any(|facts| facts.has_cooldowns) || replies.iter().any(|(_, r)| says_something(r));
    let must_move = replies.iter().any(|(_, r)| r.class().is_some());
    let backoff = if must_cool || must_move { Some(backoff()?) } else { None };
    if let (true, Some(backoff)) = (must_cool, &backoff) {
        cooldown::update(&replies, backoff)?;
    }
    let (mut answers, mut moves, mut indexed) = (Vec::new(), Vec::new(), Vec::new());
    for ((claim, reply), facts) in replies.iter().zip(&facts).filter(|(_, facts)| facts.is_current) {
        match Kept::of(claim, reply, facts, backoff.as_ref()) {
            Some(Kept::Answer(answer)) => answers.push(answer),
            Some(Kept::Move(moved)) => moves.push(moved),
            Some(Kept::Indexed(note)) => indexed.push((claim.job, note)),
            None => {}
        }
        if let ReplyResult::Embedded(texts) = &reply.result {
            index::store_vectors(texts)?;
        }
    }
    index::complete(indexed)?;
    if !answers.is_empty() {
        query(STORE, &[composite::array(&answers)?], |_| Ok(()))?;
    }
    if !moves.is_empty() {
        query(MOVE, &[composite::array(&moves)?], |_| Ok(()))?;
    }
    let current = replies.iter().zip(&facts).filter(|(_, facts)| facts.is_current);
    Ok(current.map(|((claim, _), _)| claim.job).collect())
}

/// Returns claimed jobs to where they were.
pub(crate) fn return_claims(claims: &[&Claim]) -> Result<(), Error> {
    let (jobs, ids): (Vec<Uuid>, Vec<i64>) = claims.iter().map(|claim| (claim.job, claim.id)).unzip();
    query(RETURN, &[jobs.into(), ids.into()], |_| Ok(())).map(drop)
}

fn backoff() -> Result<Backoff, Error> {
    let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or_default();
    let read = query(RETRY_SETTINGS, &[], |row| {
        Ok(Backoff { base: seconds(row.get("base_seconds")?), max: seconds(row.get("max_seconds")?) })
    })?;
    read.into_iter().next().ok_or_else(|| Error::Unreadable("the settings of retries are missing".to_owned()))
}

fn close(replies: &[(&Claim, &Reply)]) -> Result<Vec<Facts>, Error> {
    let ends: Vec<End> = replies.iter().map(|(claim, reply)| End { claim, reply }).collect();
    query(CLOSE, &[composite::array(&ends)?], |row| {
        let is_current: bool = row.get("is_current")?;
        let count = |column| Ok::<_, Error>(row.nullable::<i32>(column)?.unwrap_or(0).unsigned_abs());
        Ok(Facts {
            is_current,
            claimed_from: if is_current { row.parse("claimed_from")? } else { Status::Pending },
            attempts: count("attempt_count")?,
            max_retries: count("max_retries")?,
            has_cooldowns: row.get("has_cooldowns")?,
            is_limited: row.get("is_limited")?,
            is_deleted: row.get("is_deleted")?,
            closed: ClosedCall::read(row)?,
        })
    })
}
