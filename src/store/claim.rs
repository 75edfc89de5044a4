//! Claims: taking jobs, the locks of their sessions, and who still holds what.

use super::{Row, catalog, query, settlement};
use crate::error::{Error, Problem};
use dialectic_core::provider::storable;
use pgrx::Uuid;
use pgrx::datum::Interval;
use std::collections::{HashMap, HashSet};

const CLAIM_BATCH: &str = "select * from dialectic._claim_batch($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const CLAIM_LEASED: &str = "select dialectic._claim_leased($1, $2, $3, $4, $5, $6) as job_id";
const OF_JOB: &str = "select id as job_id, claim_id, session_id, kind from dialectic.jobs \
     where id operator(pg_catalog.=) $1 and claim_id is not null";
const UNDER: &str = "select id as job_id, $2::bigint as claim_id, session_id, kind from dialectic.jobs \
     where id operator(pg_catalog.=) $1";
const POSTPONE: &str = "select dialectic._postpone_unfunded($1, $2)";
const DUE_SESSIONS: &str = "select dialectic._due_sessions() as session";
const LEAVE: &str = "select dialectic._release_claimer($1)";
const FAIL_UNREADABLE: &str = "select dialectic._fail_unreadable($1, $2, $3, $4, $5)";
const RELEASE: &str = "select dialectic._release_claims($1)";
const LOCK: &str = "select session, is_limited from dialectic._lock_sessions($1)";
const RELEASE_VOID: &str = "select dialectic._release_void_claims($1, $2) as call";
const DELETE_VOID: &str = "select dialectic._delete_void_claims($1)";
const HAS_VOID: &str = "select dialectic._has_void_claims($1) as has_void";
const STATUS: &str = "select status from dialectic.jobs where id operator(pg_catalog.=) $1";
const REVOKED: &str = "select dialectic._revoked($1, $2) as claim";
const NEXT_DUE: &str = "select dialectic._next_due($1, $2, $3, $4, $5) as seconds";

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
    /// Have texts embedded.
    Index,
}

impl Work {
    fn of(kind: &str) -> Self {
        match kind {
            "plan" => Work::Plan,
            "render" => Work::Render,
            "index" => Work::Index,
            _ => Work::Call,
        }
    }
}

/// What was read of a claimed job, or why it cannot be read.
pub(crate) type Read<T> = (Claim, Result<T, Problem>);

/// What was claimed together.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// The row of `claims` that lists it, where anything was claimed.
    pub(crate) batch: Option<Uuid>,
    /// Each claim with the queue of its job.
    pub(crate) claims: Vec<(Claim, String)>,
    /// Whether it is one job that is worked alone, because an earlier claim of it was lost.
    pub(crate) is_alone: bool,
    /// The lowest position of a job that is ready, where the claim has looked for it.
    pub(crate) floor: Option<i64>,
}

/// What a claimer inside the server may claim.
pub(crate) struct Order<'a> {
    pub(crate) claimer: &'a str,
    pub(crate) max_jobs: usize,
    /// How many jobs it has in flight: a job that is worked alone is claimed only when there is none.
    pub(crate) in_flight: usize,
    /// No job with a lower position is ready.
    pub(crate) floor: i64,
    /// Sessions of which nothing is claimed.
    pub(crate) excluded: &'a HashSet<Uuid>,
    /// Queues of which no more may be claimed than this.
    pub(crate) limited: &'a [(String, usize)],
    /// Owners and sessions whose calls wait for money.
    pub(crate) payers_waiting: Vec<String>,
}

/// Claims due jobs for a claimer inside the server; void claims of others are released first.
pub(crate) fn claim_batch(order: &Order) -> Result<Taken, Error> {
    match try_claim_batch(order, false)? {
        Some(taken) => Ok(taken),
        None => {
            release_void(order.claimer, order.excluded)?;
            Ok(try_claim_batch(order, true)?.unwrap_or_default())
        }
    }
}

/// None where void claims have to be released first.
fn try_claim_batch(order: &Order, is_recovered: bool) -> Result<Option<Taken>, Error> {
    let (queues, rooms): (Vec<&str>, Vec<i32>) =
        order.limited.iter().map(|(queue, room)| (queue.as_str(), number(*room))).unzip();
    let excluded: Vec<Uuid> = order.excluded.iter().copied().collect();
    let args = [
        order.claimer.into(),
        number(order.max_jobs).into(),
        number(order.in_flight).into(),
        order.floor.into(),
        is_recovered.into(),
        excluded.into(),
        queues.into(),
        rooms.into(),
        order.payers_waiting.clone().into(),
    ];
    let mut taken = Some(Taken::default());
    query(CLAIM_BATCH, &args, |row| {
        if row.get("has_void_claims")? {
            taken = None;
        }
        let Some(taken) = &mut taken else { return Ok(()) };
        // The last row says the floor.
        let Some(batch) = row.nullable::<Uuid>("claim")? else {
            taken.floor = Some(row.get("next_floor")?);
            return Ok(());
        };
        taken.batch = Some(batch);
        taken.is_alone |= row.get::<bool>("is_alone")?;
        taken.claims.push((read(row)?, row.get("queue")?));
        Ok(())
    })?;
    Ok(taken)
}

/// Releases void claims: their jobs return to the queue, their calls are closed as lost and settled.
fn release_void(claimer: &str, excluded: &HashSet<Uuid>) -> Result<(), Error> {
    let excluded: Vec<Uuid> = excluded.iter().copied().collect();
    let lost = query(RELEASE_VOID, &[claimer.into(), excluded.into()], |row| row.get::<Uuid>("call"))?;
    settlement::close_lost(lost)?;
    query(DELETE_VOID, &[claimer.into()], |_| Ok(())).map(drop)
}

/// Claims due jobs for a worker outside the server, until the lease ends; returns the jobs.
pub(crate) fn claim_leased(worker: &str, max_jobs: i32, lease: Interval, floor: i64) -> Result<Vec<Uuid>, Error> {
    let has_void = query(HAS_VOID, &[worker.into()], |row| row.get::<bool>("has_void"))?.contains(&true);
    if has_void {
        release_void(worker, &HashSet::new())?;
    }
    let closed = catalog::closed_models()?;
    let args = [worker.into(), max_jobs.into(), lease.into(), floor.into(), has_void.into(), closed.into()];
    query(CLAIM_LEASED, &args, |row| row.get("job_id"))
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The claim of one job, if it is claimed.
pub(crate) fn of_job(job: Uuid) -> Result<Option<Claim>, Error> {
    Ok(query(OF_JOB, &[job.into()], read)?.into_iter().next())
}

/// A claim of a job, whether or not it still holds.
pub(crate) fn under(job: Uuid, claim_id: i64) -> Result<Claim, Error> {
    let claim = query(UNDER, &[job.into(), claim_id.into()], read)?.into_iter().next();
    claim.ok_or_else(|| Error::Gone(format!("job \"{job}\" does not exist")))
}

/// Returns a job to the queue that waits for money which other calls hold; it is due again soon.
pub(crate) fn postpone(claim: &Claim) -> Result<(), Error> {
    query(POSTPONE, &[claim.job.into(), claim.id.into()], |_| Ok(())).map(drop)
}

fn read(row: &Row) -> Result<Claim, Error> {
    let work = Work::of(row.get("kind")?);
    Ok(Claim { job: row.get("job_id")?, id: row.get("claim_id")?, session: row.get("session_id")?, work })
}

/// Notes that a claimer ends in order.
pub(crate) fn leave(claimer: &str) -> Result<(), Error> {
    query(LEAVE, &[claimer.into()], |_| Ok(())).map(drop)
}

/// The sessions that have due jobs.
pub(crate) fn due_sessions() -> Result<Vec<Uuid>, Error> {
    query(DUE_SESSIONS, &[], |row| row.get("session"))
}

/// Fails jobs that cannot be read or computed.
pub(crate) fn fail_unreadable(failures: &[(&Claim, &Problem)]) -> Result<(), Error> {
    if failures.is_empty() {
        return Ok(());
    }
    let (jobs, ids): (Vec<Uuid>, Vec<i64>) = failures.iter().map(|(claim, _)| (claim.job, claim.id)).unzip();
    let sqlstates: Vec<&str> = failures.iter().map(|(_, problem)| problem.sqlstate()).collect();
    let messages: Vec<String> = failures.iter().map(|(_, problem)| storable(problem.message.clone())).collect();
    let hints: Vec<Option<&str>> = failures.iter().map(|(_, problem)| problem.hint.as_deref()).collect();
    let args = [jobs.into(), ids.into(), sqlstates.into(), messages.into(), hints.into()];
    query(FAIL_UNREADABLE, &args, |_| Ok(())).map(drop)
}

/// Deletes batches of which nothing is held any more.
pub(crate) fn release(batches: &[Uuid]) -> Result<(), Error> {
    if batches.is_empty() {
        return Ok(());
    }
    query(RELEASE, &[batches.to_vec().into()], |_| Ok(())).map(drop)
}

/// Locks those of these sessions that nobody else has locked; each with whether a wallet or a budget limits it.
pub(crate) fn lock_sessions(sessions: &HashSet<Uuid>) -> Result<HashMap<Uuid, bool>, Error> {
    if sessions.is_empty() {
        return Ok(HashMap::new());
    }
    let sessions: Vec<Uuid> = sessions.iter().copied().collect();
    let locked = query(LOCK, &[sessions.into()], |row| Ok((row.get("session")?, row.get("is_limited")?)))?;
    Ok(locked.into_iter().collect())
}

/// The status of a job.
pub(crate) fn status(job: Uuid) -> Result<Option<String>, Error> {
    Ok(query(STATUS, &[job.into()], |row| row.get("status"))?.into_iter().next())
}

/// Those of these claims that were taken away.
pub(crate) fn revoked(claims: &[Claim]) -> Result<HashSet<i64>, Error> {
    let (jobs, ids): (Vec<Uuid>, Vec<i64>) = claims.iter().map(|claim| (claim.job, claim.id)).unzip();
    Ok(query(REVOKED, &[jobs.into(), ids.into()], |row| row.get("claim"))?.into_iter().collect())
}

/// Seconds until the next job can be claimed, but for those in queues that are full: 0 when one is due, none when none
/// is coming.
pub(crate) fn next_due(
    claimer: &str,
    with_test_jobs: bool,
    floor: i64,
    full: Vec<String>,
    excluded: &HashSet<Uuid>,
) -> Result<Option<f64>, Error> {
    let excluded: Vec<Uuid> = excluded.iter().copied().collect();
    let args = [claimer.into(), with_test_jobs.into(), floor.into(), full.into(), excluded.into()];
    Ok(query(NEXT_DUE, &args, |row| row.nullable::<f64>("seconds"))?.into_iter().next().flatten())
}
