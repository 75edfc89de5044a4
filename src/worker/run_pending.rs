//! Works the queue in the connection of the caller: `run_pending`.
//!
//! A procedure, because only a procedure may commit: between cycles it holds neither a lock nor a snapshot. It sleeps
//! on the latch of the process, so that Ctrl-C, timeouts and barriers are answered at once.

use crate::error::{Error, Problem};
use crate::store::{claim, schema};
use crate::worker::claimer;
use crate::worker::commit_hook::claim_floor;
use crate::worker::engine::{Engine, Host};
use crate::worker::{session_settings, signals};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

/// The longest wait for jobs that are not due yet or locked by others, and for money that calls of others hold.
const MAX_IDLE_WAIT: Duration = Duration::from_secs(30);
/// How often a session that another transaction has locked is tried again.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);
/// How often the procedure checks whether claims were revoked.
const REVOKED_CLAIM_INTERVAL: Duration = Duration::from_millis(50);
/// The shortest wait on the latch.
const MIN_WAIT: Duration = Duration::from_millis(1);

/// Works the queue until nothing is due soon.
#[pg_extern(
    sql = "create procedure run_pending(max_jobs integer default null) language c as 'MODULE_PATHNAME', '_run_pending_wrapper';"
)]
fn _run_pending(max_jobs: Option<i32>, fcinfo: pg_sys::FunctionCallInfo) -> Result<(), ErrorReport> {
    let mut left = match max_jobs {
        Some(number) if number < 1 => {
            let report = ErrorReport::new(
                PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("max_jobs cannot be {number}"),
                "dialectic",
            );
            return Err(report.set_hint("Give a number from 1 on, or null for all there is."));
        }
        Some(number) => number.unsigned_abs() as usize,
        None => usize::MAX,
    };
    let mut host = Procedure { fcinfo };
    if !host.may_commit() {
        return Err(report_transaction_block(
            "run_pending",
            "It commits between claiming, calling and keeping, so that no lock is held while a model is called.",
        ));
    }
    if crate::api::entry::is_replica() {
        return Err(crate::api::entry::report_replica("dialectic.run_pending"));
    }
    host.begin_next();
    host.run(schema::check)?;
    let name = host.run(|| claimer::open("run_pending"))?;
    let mut engine = Engine::new(name)?;
    let mut held_up_since = None;
    loop {
        let report = match engine.cycle(&mut host, left, true) {
            Ok(report) => report,
            Err(problem) => {
                host.run(|| claim::leave(engine.claimer()))?;
                return Err(problem.into());
            }
        };
        left = left.saturating_sub(report.claimed);
        if report.is_busy {
            held_up_since = None;
            signals::interrupts();
            continue;
        }
        let rest = if report.is_held_up || engine.waits_for_money() {
            let since = *held_up_since.get_or_insert_with(Instant::now);
            // What was asked is paid for: it is not left before its answer is kept.
            if since.elapsed() > MAX_IDLE_WAIT && !engine.has_answers() {
                break;
            }
            Some(BUSY_INTERVAL)
        } else if engine.is_idle() {
            held_up_since = None;
            let full = engine.full_queues();
            let asked = full.clone();
            let due = host
                .run(|| claim::next_due(engine.claimer(), true, claim_floor(), asked, &engine.unclaimable()))?
                .map(Duration::from_secs_f64);
            let room = engine.rest(&full);
            match due.into_iter().chain(room).min().filter(|due| left > 0 && *due <= MAX_IDLE_WAIT) {
                // What is due and was not claimed is held by somebody else.
                Some(due) => Some(due.max(BUSY_INTERVAL)),
                None => break,
            }
        } else {
            held_up_since = None;
            // An answer, a claim that is taken away: looked for now and then, for this backend is not told.
            let room = engine.rest(&engine.full_queues()).map_or(REVOKED_CLAIM_INTERVAL, |room| room.max(MIN_WAIT));
            Some(room.min(REVOKED_CLAIM_INTERVAL))
        };
        signals::wait(rest, Some(engine.socket()));
    }
    host.run(|| claim::leave(engine.claimer()))?;
    claimer::_close_claimer();
    // The settings that were pinned end with their transaction.
    host.commit();
    Ok(())
}

/// The transactions of a procedure.
pub(super) struct Procedure {
    pub(super) fcinfo: pg_sys::FunctionCallInfo,
}

impl Procedure {
    /// Whether whoever called lets the procedure commit.
    pub(super) fn may_commit(&self) -> bool {
        // SAFETY: the server passes a CallContext to a procedure, and says in it whether it may commit.
        unsafe {
            let context = (*self.fcinfo).context;
            !context.is_null()
                && pgrx::is_a(context, pg_sys::NodeTag::T_CallContext)
                && !(*context.cast::<pg_sys::CallContext>()).atomic
                && !pg_sys::IsTransactionBlock()
        }
    }

    /// Commits, and so lets go of every snapshot.
    pub(super) fn commit(&self) {
        // SAFETY: only called where the procedure may commit.
        unsafe {
            if pg_sys::SPI_connect_ext(pg_sys::SPI_OPT_NONATOMIC as i32) == pg_sys::SPI_OK_CONNECT as i32 {
                pg_sys::SPI_commit();
                pg_sys::SPI_finish();
            }
        }
    }

    /// Commits, and begins the next transaction with the settings of the engine, before any statement of it.
    fn begin_next(&self) {
        self.commit();
        session_settings::pin_for_transaction();
    }

    fn run<T>(&mut self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let result = work()?;
        self.begin_next();
        Ok(result)
    }
}

impl Host for Procedure {
    /// In a subtransaction, so that an error belongs to what was tried and not to the whole call.
    fn transaction<T>(&mut self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Problem> {
        let result = subtransaction(work)?;
        self.begin_next();
        Ok(result)
    }

    fn raises(&self) -> bool {
        true
    }
}

/// Runs work in a subtransaction; an error ends it and is returned. A cancelled statement and the end of the process
/// are not errors of the work, and pass through.
fn subtransaction<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Problem> {
    // SAFETY: reads where the server stands, to go back there.
    let (context, owner) = unsafe { (pg_sys::CurrentMemoryContext, pg_sys::CurrentResourceOwner) };
    // SAFETY: ends exactly the subtransaction that is begun below, which nothing in between ends.
    let end = move |is_good: bool| unsafe {
        if is_good {
            pg_sys::ReleaseCurrentSubTransaction();
        } else {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
        }
        pg_sys::MemoryContextSwitchTo(context);
        pg_sys::CurrentResourceOwner = owner;
    };
    // SAFETY: a transaction is open wherever a procedure runs.
    unsafe {
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(context);
    }
    let work = AssertUnwindSafe(work);
    PgTryBuilder::new(move || {
        let result = { work }.0();
        end(result.is_ok());
        result.map_err(Problem::from)
    })
    .catch_when(PgSqlErrorCode::ERRCODE_QUERY_CANCELED, move |cause| {
        end(false);
        cause.rethrow()
    })
    .catch_others(move |cause| {
        end(false);
        Err(Problem::from(cause))
    })
    .execute()
}

/// Refuses where the procedure that calls it cannot commit.
#[pg_extern(
    sql = "create procedure _require_commits(caller text) language c as 'MODULE_PATHNAME', '_require_commits_wrapper';"
)]
pub(crate) fn _require_commits(caller: &str, fcinfo: pg_sys::FunctionCallInfo) -> Result<(), ErrorReport> {
    if (Procedure { fcinfo }).may_commit() {
        return Ok(());
    }
    Err(report_transaction_block(caller, "It commits after each batch, so that no lock is held for long."))
}

fn report_transaction_block(procedure: &str, detail: &str) -> ErrorReport {
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_ACTIVE_SQL_TRANSACTION,
        format!("{procedure} cannot run in a transaction block"),
        "dialectic",
    )
    .set_detail(detail)
    .set_hint("CALL it by itself, outside BEGIN … COMMIT.")
}
