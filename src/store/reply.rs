//! Keeping what models answered.

use super::{must, query};
use crate::error::Error;
use crate::store::claim::Claim;
use dialectic_core::answer::Verdict;
use dialectic_core::provider::{Class, Outcome};
use pgrx::{JsonB, Uuid};

const KEEP: &str = "select dialectic._keep_replies($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";

/// What came back for a claim; one with a class is a failure.
#[derive(Debug, Default, Clone)]
pub(crate) struct Reply {
    pub(crate) answer: Option<String>,
    pub(crate) finish_reason: Option<&'static str>,
    pub(crate) input_tokens: i64,
    pub(crate) output_tokens: i64,
    pub(crate) cached_tokens: i64,
    pub(crate) class: Option<&'static str>,
    pub(crate) message: Option<String>,
    pub(crate) retry_after_ms: Option<i64>,
    pub(crate) http_status: Option<i32>,
    /// The answer in normal form, where it is JSON.
    pub(crate) content: Option<String>,
    /// The keys that it lacks.
    pub(crate) missing: Option<Vec<String>>,
    pub(crate) is_incomplete: bool,
    /// Whether to try again would not help.
    pub(crate) is_final: bool,
}

/// Keeps answers and failures, finishing their jobs.
pub(crate) fn keep(replies: &[&(Claim, Reply)]) -> Result<(), Error> {
    if replies.is_empty() {
        return Ok(());
    }
    let (mut jobs, mut claims) = (Vec::new(), Vec::new());
    let (mut answers, mut finish_reasons) = (Vec::new(), Vec::new());
    let (mut read, mut written, mut cached) = (Vec::new(), Vec::new(), Vec::new());
    let (mut classes, mut messages, mut delays, mut codes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut contents, mut missing, mut complete, mut finals) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (claim, reply) in replies {
        jobs.push(claim.job);
        claims.push(claim.id);
        answers.push(reply.answer.as_deref());
        finish_reasons.push(reply.finish_reason);
        read.push(reply.input_tokens);
        written.push(reply.output_tokens);
        cached.push(reply.cached_tokens);
        classes.push(reply.class);
        messages.push(reply.message.as_deref());
        delays.push(reply.retry_after_ms);
        codes.push(reply.http_status);
        contents.push(reply.content.as_deref());
        missing.push(reply.missing.as_ref().map(|keys| JsonB(serde_json::json!(keys))));
        complete.push(!reply.is_incomplete);
        finals.push(reply.is_final);
    }
    let args = [
        jobs.into(),
        claims.into(),
        answers.into(),
        finish_reasons.into(),
        read.into(),
        written.into(),
        cached.into(),
        classes.into(),
        messages.into(),
        delays.into(),
        codes.into(),
        contents.into(),
        missing.into(),
        complete.into(),
        finals.into(),
    ];
    query(KEEP, &args, |row| must::<Uuid>(row, 1)).map(drop)
}

impl Reply {
    /// What the reading of an answer came to.
    pub(crate) fn heard(heard: Verdict) -> Self {
        match heard {
            Verdict::Text => Reply::default(),
            Verdict::Whole { content, is_complete } => {
                Reply { content: Some(content.to_string()), is_incomplete: !is_complete, ..Reply::default() }
            }
            Verdict::Lacking { missing } => Reply { missing: Some(missing), ..Reply::default() },
            Verdict::Refused { reason, is_final } => Reply { is_final, ..Reply::failed(Class::Content, reason) },
        }
    }

    /// A failure without a call.
    pub(crate) fn failed(class: Class, message: String) -> Self {
        Reply { class: Some(class.as_str()), message: Some(message.replace('\0', "\u{fffd}")), ..Reply::default() }
    }
}

impl From<(Outcome, Verdict)> for Reply {
    fn from((outcome, heard): (Outcome, Verdict)) -> Self {
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        match outcome {
            Outcome::Answer { text, finish_reason, usage, .. } => Reply {
                answer: Some(text),
                finish_reason: Some(finish_reason.as_str()),
                input_tokens: count(usage.input_tokens),
                output_tokens: count(usage.output_tokens),
                cached_tokens: count(usage.cached_tokens),
                ..Reply::heard(heard)
            },
            Outcome::Failure { class, message, retry_after_ms, http_status, usage, .. } => Reply {
                input_tokens: count(usage.input_tokens),
                output_tokens: count(usage.output_tokens),
                cached_tokens: count(usage.cached_tokens),
                retry_after_ms: retry_after_ms.map(count),
                http_status: http_status.map(i32::from),
                ..Reply::failed(class, message)
            },
        }
    }
}
