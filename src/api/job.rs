//! The statuses, moves, kinds and error classes of jobs for SQL, from the one list in the core.

use dialectic_core::breaker;
use dialectic_core::job::{Kind, Phase, Status};
use dialectic_core::provider::Class;
use pgrx::prelude::*;

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

/// After how many failures in a row a circuit opens; the install script makes a constant of it.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _core_breaker_threshold() -> i32 {
    i32::try_from(breaker::THRESHOLD).unwrap_or(i32::MAX)
}
