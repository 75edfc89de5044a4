//! The statuses, moves, kinds and error classes of jobs for SQL, from the one list in the core; and what becomes of a
//! failure.

use crate::error::Error;
use dialectic_core::breaker;
use dialectic_core::job::{Kind, Phase, Status};
use dialectic_core::provider::Class;
use dialectic_core::retry::{self, Verdict};
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::time::Duration;

/// Every status, its phase and what it means.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _job_statuses()
-> TableIterator<'static, (name!(status, &'static str), name!(phase, &'static str), name!(description, &'static str))> {
    TableIterator::new(Status::ALL.map(|status| (status.as_str(), phase(status), status.description())))
}

fn phase(status: Status) -> &'static str {
    match status.phase() {
        Phase::Ready => "ready",
        Phase::Running => "running",
        Phase::Waiting => "waiting",
        Phase::Paused => "paused",
        Phase::Ended => "ended",
    }
}

/// Every legal move.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _job_transitions()
-> TableIterator<'static, (name!(from_status, &'static str), name!(to_status, &'static str))> {
    TableIterator::new(Status::transitions().map(|(from, to)| (from.as_str(), to.as_str())))
}

/// Every kind.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _job_kinds() -> SetOfIterator<'static, &'static str> {
    SetOfIterator::new(Kind::ALL.map(Kind::as_str))
}

/// Every class of error that a call can end with.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _job_error_classes() -> SetOfIterator<'static, &'static str> {
    SetOfIterator::new(Class::ALL.map(Class::as_str))
}

/// After how many failures in a row a provider is left alone.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _breaker_threshold() -> i32 {
    i32::try_from(breaker::THRESHOLD).unwrap_or(i32::MAX)
}

/// How long a provider is left alone after so many failures in a row, in seconds; null while it is not.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _breaker_rest(failures: i32, base: f64, most: f64, random: f64) -> Option<f64> {
    let seconds = |number: f64| Duration::try_from_secs_f64(number).unwrap_or_default();
    let failures = u32::try_from(failures).unwrap_or(0);
    breaker::opened(failures, seconds(base), seconds(most), random).map(|rest| rest.as_secs_f64())
}

/// What becomes of a job whose attempt failed: `{status, charged, after}`, where no status means the one it was claimed
/// from and `after` is in seconds.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _retry_verdict(
    class: &str,
    attempts: i32,
    max_retries: i32,
    retry_after: Option<f64>,
    base: f64,
    most: f64,
    random: f64,
) -> Result<JsonB, ErrorReport> {
    let class: Class =
        class.parse().map_err(|_| Error::Unknown { argument: "error class", value: class.to_owned() })?;
    let verdict = retry::verdict(
        class,
        u32::try_from(attempts).unwrap_or(0),
        u32::try_from(max_retries).unwrap_or(0),
        retry_after.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        Duration::try_from_secs_f64(base).unwrap_or_default(),
        Duration::try_from_secs_f64(most).unwrap_or_default(),
        random,
    );
    let (status, charged, after) = match verdict {
        Verdict::Return { after } => (None, 0, after),
        Verdict::Retry { after } => (Some(Status::Retrying), 1, after),
        Verdict::Fail => (Some(Status::Failed), 1, Duration::ZERO),
        Verdict::Exhausted => (Some(Status::RetryLoopFailed), 1, Duration::ZERO),
    };
    Ok(JsonB(serde_json::json!({
        "status": status.map(Status::as_str), "charged": charged, "after": after.as_secs_f64()
    })))
}
