//! Claims for workers outside the server.

use crate::store::claim::claim_leased;
use crate::worker::{commit_hook, session_settings};
use pgrx::Uuid;
use pgrx::datum::Interval;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Claims due jobs until the lease ends; `claim_jobs` has checked the arguments.
#[pg_extern(volatile)]
pub(crate) fn _claim_with_lease(
    worker: &str,
    max_jobs: i32,
    lease: Interval,
) -> Result<SetOfIterator<'static, Uuid>, ErrorReport> {
    let claim = || claim_leased(worker, max_jobs, lease, commit_hook::claim_floor());
    Ok(SetOfIterator::new(session_settings::with_planner_settings(claim)?))
}
