//! Keeping what models answered.

use super::query;
use crate::error::Error;
use crate::store::claim::Claim;
use dialectic_core::answer::{Verdict, Why};
use dialectic_core::provider::{Class, FinishReason, Outcome, Scope, Usage, storable};
use dialectic_net::CallResult;
use pgrx::{JsonB, Uuid};
use std::time::Instant;

const KEEP: &str = "select dialectic._keep_replies($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, \
     $19, $20, $21, $22, $23, $24) as job";

const GIVE_BACK: &str = "select dialectic._give_back($1, $2)";

/// What came back for a claim; one with a class is a failure.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reply {
    pub(crate) answer: Option<String>,
    pub(crate) finish_reason: Option<&'static str>,
    /// The same in the provider's own word.
    pub(crate) finish_raw: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) class: Option<&'static str>,
    pub(crate) message: Option<String>,
    /// How long the provider wants to be left alone.
    pub(crate) retry_after_ms: Option<i64>,
    pub(crate) http_status: Option<i32>,
    pub(crate) first_byte: Option<Instant>,
    /// Whom a wrong configuration concerns.
    pub(crate) scope: Scope,
    /// Whether the provider is to blame for the failure.
    pub(crate) is_strike: bool,
    /// The whole answer in normal form, where it is JSON or came in several chunks.
    pub(crate) content: Option<String>,
    /// Why it is gone on with.
    pub(crate) follow: Option<Why>,
    /// How many tokens may be written when the same is asked again, for nothing was said.
    pub(crate) budget: Option<u64>,
    /// What was left out or forgiven.
    pub(crate) notes: Vec<String>,
    pub(crate) is_incomplete: bool,
    /// Whether to try again would not help.
    pub(crate) is_final: bool,
    /// Whether nobody was called: its provider has no room for long.
    pub(crate) is_back: bool,
}

/// Keeps answers and failures, finishing their jobs; those that were never called are given back.
pub(crate) fn keep(replies: &[(&Claim, &Reply)]) -> Result<(), Error> {
    let (back, replies): (Vec<(&Claim, &Reply)>, Vec<_>) =
        replies.iter().copied().partition(|(_, reply)| reply.is_back);
    if !back.is_empty() {
        let (jobs, claims): (Vec<Uuid>, Vec<i64>) = back.iter().map(|(claim, _)| (claim.job, claim.id)).unzip();
        query(GIVE_BACK, &[jobs.into(), claims.into()], |_| Ok(()))?;
    }
    if replies.is_empty() {
        return Ok(());
    }
    let of = |value: fn(&Reply) -> Option<&str>| replies.iter().map(|(_, reply)| value(reply)).collect::<Vec<_>>();
    let count = |value: fn(&Usage) -> u64| {
        replies.iter().map(|(_, reply)| i64::try_from(value(&reply.usage)).unwrap_or(i64::MAX)).collect::<Vec<_>>()
    };
    let is = |value: fn(&Reply) -> bool| replies.iter().map(|(_, reply)| value(reply)).collect::<Vec<_>>();
    let follow = |reply: &Reply| reply.follow.as_ref().map(|why| JsonB(follow(why)));
    let ago =
        |reply: &Reply| reply.first_byte.map(|then| i64::try_from(then.elapsed().as_millis()).unwrap_or(i64::MAX));
    let args = [
        replies.iter().map(|(claim, _)| claim.job).collect::<Vec<_>>().into(),
        replies.iter().map(|(claim, _)| claim.id).collect::<Vec<_>>().into(),
        of(|reply| reply.answer.as_deref()).into(),
        of(|reply| reply.finish_reason).into(),
        of(|reply| reply.finish_raw.as_deref()).into(),
        count(|usage| usage.input_tokens).into(),
        count(|usage| usage.output_tokens).into(),
        count(|usage| usage.cached_tokens).into(),
        count(|usage| usage.cache_write_tokens).into(),
        count(|usage| usage.reasoning_tokens).into(),
        is(|reply| reply.usage.estimated).into(),
        of(|reply| reply.class).into(),
        of(|reply| reply.message.as_deref()).into(),
        replies.iter().map(|(_, reply)| reply.retry_after_ms).collect::<Vec<_>>().into(),
        replies.iter().map(|(_, reply)| reply.http_status).collect::<Vec<_>>().into(),
        replies.iter().map(|(_, reply)| ago(reply)).collect::<Vec<_>>().into(),
        of(|reply| Some(if reply.scope == Scope::Model { "model" } else { "provider" })).into(),
        is(|reply| reply.is_strike).into(),
        of(|reply| reply.content.as_deref()).into(),
        replies.iter().map(|(_, reply)| follow(reply)).collect::<Vec<_>>().into(),
        is(|reply| !reply.is_incomplete).into(),
        is(|reply| reply.is_final).into(),
        replies
            .iter()
            .map(|(_, reply)| reply.budget.map(|n| i64::try_from(n).unwrap_or(i64::MAX)))
            .collect::<Vec<_>>()
            .into(),
        replies.iter().map(|(_, reply)| JsonB(serde_json::json!(reply.notes))).collect::<Vec<_>>().into(),
    ];
    query(KEEP, &args, |row| row.get::<Uuid>("job")).map(drop)
}

/// What the job is made for that goes on with an answer.
pub(crate) fn follow(why: &Why) -> serde_json::Value {
    match why {
        Why::Missing(keys) => serde_json::json!({"why": why.as_str(), "missing": keys}),
        why => serde_json::json!({"why": why.as_str()}),
    }
}

impl Reply {
    /// What the reading of an answer came to.
    pub(crate) fn heard(heard: Verdict) -> Self {
        match heard {
            Verdict::Kept { content, is_complete, notes } => {
                Reply { content: content.map(storable), is_incomplete: !is_complete, notes, ..Reply::default() }
            }
            Verdict::Continue(why) => Reply { follow: Some(why), ..Reply::default() },
            Verdict::Starved { budget } => Reply { budget: Some(budget), ..Reply::default() },
            Verdict::Refused { reason, is_final } => Reply { is_final, ..Reply::failed(Class::Content, reason) },
        }
    }

    /// A failure without a call.
    pub(crate) fn failed(class: Class, message: String) -> Self {
        Reply { class: Some(class.as_str()), message: Some(storable(message)), ..Reply::default() }
    }
}

impl From<(CallResult, Verdict)> for Reply {
    fn from((call, verdict): (CallResult, Verdict)) -> Self {
        let ms = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let reply = match call.outcome {
            Outcome::Answer { text, finish_reason, finish_raw, usage } => Reply {
                answer: Some(text),
                finish_reason: Some(finish_reason.as_str()),
                finish_raw: finish_raw.map(storable),
                usage,
                retry_after_ms: call.retry_after.map(|time| ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))),
                ..match (finish_reason, Reply::heard(verdict)) {
                    // It broke off as a connection does: what it said is gone on from.
                    (FinishReason::Error, reply) => Reply { class: Some(Class::Transient.as_str()), ..reply },
                    (_, reply) => reply,
                }
            },
            Outcome::Failure { class, message, retry_after_ms, http_status, scope, usage } => Reply {
                usage,
                retry_after_ms: retry_after_ms.map(ms),
                http_status: http_status.map(i32::from),
                scope,
                ..Reply::failed(class, message)
            },
        };
        let http_status = call.http_status.map(i32::from).or(reply.http_status);
        Reply { first_byte: call.first_byte, is_strike: call.is_strike, http_status, ..reply }
    }
}
