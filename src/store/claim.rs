//! Claims: taking jobs, the locks of their sessions, and who still holds what.

use super::{must, query};
use crate::api::clock::_uuid_v7;
use crate::error::Error;
use pgrx::Uuid;
use std::collections::HashSet;

const TAKE: &str = "select job_id, claim_id, session_id, kind from dialectic._take($1, $2, $3, $4, $5, $6, $7)";
const LET_GO: &str = "select dialectic._let_go($1)";
const LOCK: &str = "select dialectic._lock_sessions($1)";
const REVOKED: &str = "select dialectic._revoked($1, $2)";
const NEXT_DUE: &str = "select dialectic._next_due($1, $2, $3)";

/// A job that is ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    pub(crate) job: Uuid,
    pub(crate) id: i64,
    pub(crate) session: Uuid,
    pub(crate) work: Work,
}

/// What there is to do for a claimed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Plan its stage.
    Plan,
    /// Call its model.
    Call,
    /// Render its document.
    Render,
}

impl Work {
    fn of(kind: &str) -> Self {
        match kind {
            "plan" => Work::Plan,
            "render" => Work::Render,
            _ => Work::Call,
        }
    }
}

/// Claims up to `room` due jobs, recorded as one batch; none of the sessions that somebody else holds, of narrow lanes no more
/// than there is room for, and no call of an owner or a session that waits for money.
pub(crate) fn take(
    claimer: &str,
    room: usize,
    held: &HashSet<Uuid>,
    narrow: &[(String, usize)],
    poor: Vec<String>,
) -> Result<(Uuid, Vec<Claim>), Error> {
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let room = number(room);
    let lanes: Vec<&str> = narrow.iter().map(|(lane, _)| lane.as_str()).collect();
    let rooms: Vec<i32> = narrow.iter().map(|(_, room)| number(*room)).collect();
    let batch = _uuid_v7();
    let held: Vec<Uuid> = held.iter().copied().collect();
    let args = [claimer.into(), room.into(), batch.into(), held.into(), lanes.into(), rooms.into(), poor.into()];
    let claims = query(TAKE, &args, |row| {
        Ok(Claim { job: must(row, 1)?, id: must(row, 2)?, session: must(row, 3)?, work: Work::of(must(row, 4)?) })
    })?;
    Ok((batch, claims))
}

/// Strikes off batches of which nothing is held any more.
pub(crate) fn let_go(batches: &[Uuid]) -> Result<(), Error> {
    if batches.is_empty() {
        return Ok(());
    }
    query(LET_GO, &[batches.to_vec().into()], |_| Ok(())).map(drop)
}

/// Locks those of these sessions that nobody else has locked.
pub(crate) fn lock_sessions(sessions: HashSet<Uuid>) -> Result<HashSet<Uuid>, Error> {
    if sessions.is_empty() {
        return Ok(sessions);
    }
    let sessions: Vec<Uuid> = sessions.into_iter().collect();
    Ok(query(LOCK, &[sessions.into()], |row| must(row, 1))?.into_iter().collect())
}

/// Those of these claims that were taken away.
pub(crate) fn revoked(claims: &[Claim]) -> Result<HashSet<i64>, Error> {
    let (jobs, ids): (Vec<Uuid>, Vec<i64>) = claims.iter().map(|claim| (claim.job, claim.id)).unzip();
    Ok(query(REVOKED, &[jobs.into(), ids.into()], |row| must(row, 1))?.into_iter().collect())
}

/// Seconds until the next job can be claimed, but for those in lanes that are full: 0 when one is due, none when none is coming.
pub(crate) fn next_due(claimer: &str, with_test_jobs: bool, full: Vec<String>) -> Result<Option<f64>, Error> {
    let args = [claimer.into(), with_test_jobs.into(), full.into()];
    Ok(query(NEXT_DUE, &args, |row| row.get::<f64>(1))?.into_iter().next().flatten())
}
