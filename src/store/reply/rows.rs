//! What is written for replies: how calls ended, answers, and where jobs move, as rows of composite types.

use super::{CallEnd, Facts, Reply, ReplyResult};
use crate::store::claim::{Claim, Work};
use crate::store::composite::Composite;
use crate::store::random;
use crate::uuid_v7;
use dialectic_core::answer::Why;
use dialectic_core::provider::{Class, FinishReason};
use dialectic_core::retry::{self, Backoff, FailedAttempt, JobMove};
use pgrx::Uuid;
use pgrx::datum::DatumWithOid;
use std::time::Duration;

fn tokens(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// How the call of a claim ended.
pub(super) struct End<'a> {
    pub(super) claim: &'a Claim,
    pub(super) reply: &'a Reply,
}

impl Composite for End<'_> {
    const TYPE: &'static str = "dialectic._call_end";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        let (end, usage) = (&self.reply.end, &self.reply.end.usage);
        vec![
            self.claim.job.into(),
            self.claim.id.into(),
            self.reply.class().map(Class::as_str).into(),
            self.reply.message().into(),
            end.finish_reason.map(FinishReason::as_str).into(),
            end.finish_raw.as_deref().into(),
            end.http_status.map(i32::from).into(),
            end.first_byte.map(|then| milliseconds(then.elapsed())).into(),
            tokens(usage.input_tokens).into(),
            tokens(usage.output_tokens).into(),
            tokens(usage.cached_tokens).into(),
            tokens(usage.cache_write_tokens).into(),
            tokens(usage.reasoning_tokens).into(),
            usage.estimated.into(),
        ]
    }
}

/// What is written for a job whose claim holds.
pub(super) enum Kept<'a> {
    Answer(Answer<'a>),
    Move(Moved<'a>),
    /// An index job is complete; the note says why texts have no embedding.
    Indexed(Option<&'a str>),
}

pub(super) struct Answer<'a> {
    claim: &'a Claim,
    id: Uuid,
    end: &'a CallEnd,
    text: Option<&'a str>,
    content: Option<&'a str>,
    why: Option<&'a Why>,
    is_complete: bool,
    notes: &'a [String],
}

pub(super) struct Moved<'a> {
    job: Uuid,
    to: JobMove,
    failure: Option<(Class, &'a str)>,
    hint: Option<&'a str>,
    budget: Option<u64>,
}

impl<'a> Kept<'a> {
    pub(super) fn of(claim: &'a Claim, reply: &'a Reply, facts: &Facts, backoff: Option<&Backoff>) -> Option<Self> {
        let (end, id) = (&reply.end, uuid_v7::generate());
        Some(match &reply.result {
            ReplyResult::Kept { text, content, is_complete, notes } => {
                let (text, content) = (text.as_deref(), content.as_deref());
                Kept::Answer(Answer { claim, id, end, text, content, why: None, is_complete: *is_complete, notes })
            }
            ReplyResult::Continued { text, why } => {
                let (text, why) = (Some(text.as_str()), Some(why));
                Kept::Answer(Answer { claim, id, end, text, content: None, why, is_complete: true, notes: &[] })
            }
            ReplyResult::Starved { budget } => {
                let to = JobMove { status: facts.claimed_from, is_charged: false, after: Duration::ZERO };
                Kept::Move(Moved { job: claim.job, to, failure: None, hint: None, budget: Some(*budget) })
            }
            ReplyResult::Failed { class, message, hint, is_final } => {
                let failed = FailedAttempt {
                    class: *class,
                    is_final: *is_final,
                    charged_before: facts.attempts,
                    max_retries: facts.max_retries,
                    retry_after: end.retry_after,
                };
                let to = retry::after_failure(&failed, facts.claimed_from, backoff?, random());
                // Retrieval does without embeddings; nobody waits until a person corrects a provider.
                let is_over = to.status.is_ended() || *class == Class::Configuration;
                if claim.work == Work::Index && is_over {
                    return Some(Kept::Indexed(Some(message)));
                }
                let (failure, hint) = (Some((*class, message.as_str())), hint.as_deref());
                Kept::Move(Moved { job: claim.job, to, failure, hint, budget: None })
            }
            ReplyResult::Embedded(texts) if texts.is_last => Kept::Indexed(None),
            ReplyResult::Embedded(_) => {
                let to = JobMove { status: facts.claimed_from, is_charged: false, after: Duration::ZERO };
                Kept::Move(Moved { job: claim.job, to, failure: None, hint: None, budget: None })
            }
            ReplyResult::Indexed { note } => Kept::Indexed(note.as_deref()),
            ReplyResult::Returned | ReplyResult::Postponed => return None,
        })
    }
}

impl Composite for Answer<'_> {
    const TYPE: &'static str = "dialectic._answer";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        let missing = match self.why {
            Some(Why::Missing(keys)) => Some(keys.clone()),
            _ => None,
        };
        vec![
            self.claim.job.into(),
            self.claim.id.into(),
            self.id.into(),
            self.text.into(),
            self.end.finish_reason.map(FinishReason::as_str).into(),
            tokens(self.end.usage.input_tokens).into(),
            tokens(self.end.usage.output_tokens).into(),
            tokens(self.end.usage.cached_tokens).into(),
            self.content.into(),
            self.why.map(Why::as_str).into(),
            missing.into(),
            self.is_complete.into(),
            self.notes.to_vec().into(),
        ]
    }
}

impl Composite for Moved<'_> {
    const TYPE: &'static str = "dialectic._job_move";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![
            self.job.into(),
            self.to.status.as_str().into(),
            self.to.is_charged.into(),
            self.to.after.as_secs_f64().into(),
            self.failure.map(|(class, _)| class.as_str()).into(),
            self.failure.map(|(_, message)| message).into(),
            self.hint.into(),
            self.budget.map(tokens).into(),
        ]
    }
}
