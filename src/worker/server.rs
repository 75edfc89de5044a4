//! The worker of one database: a background process that works its queue for as long as the extension is there.
//!
//! It waits on its latch and on the socket of its call threads, and on nothing else; between its short transactions it holds
//! neither a lock nor a snapshot. An error ends the transaction it happened in, never the worker, and is not met again at once.

use crate::settings;
use crate::worker::{board, claimer, signals};
use pgrx::prelude::*;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static IS_WORKER: AtomicBool = AtomicBool::new(false);

/// What every session of the worker runs with, whatever ALTER DATABASE and ALTER ROLE say. Our own tables are found by their
/// indexes however few rows they had when a statement was first planned, and in a deadlock it is the worker that yields.
const SESSION: [(&std::ffi::CStr, &std::ffi::CStr); 14] = [
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"default_transaction_isolation", c"read committed"),
    (c"default_transaction_read_only", c"off"),
    (c"default_transaction_deferrable", c"off"),
    (c"session_replication_role", c"origin"),
    (c"statement_timeout", c"0"),
    (c"lock_timeout", c"1s"),
    (c"deadlock_timeout", c"50ms"),
    (c"idle_in_transaction_session_timeout", c"0"),
    (c"row_security", c"on"),
    (c"enable_seqscan", c"off"),
    (c"jit", c"off"),
    (c"plan_cache_mode", c"auto"),
    (c"application_name", c"pg_dialectic worker"),
];

/// Whether this process is a worker.
pub(crate) fn is_worker() -> bool {
    IS_WORKER.load(Ordering::Relaxed)
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dialectic_worker_main(arg: pg_sys::Datum) {
    let database = arg.value() as u32;
    signals::settle();
    // SAFETY: the database was given by the launcher; one that is gone meanwhile ends the process with a message.
    unsafe {
        pg_sys::BackgroundWorkerInitializeConnectionByOid(pg_sys::Oid::from(database), pg_sys::InvalidOid, 0);
        for (name, value) in SESSION {
            pg_sys::SetConfigOption(
                name.as_ptr(),
                value.as_ptr(),
                pg_sys::GucContext::PGC_SUSET,
                pg_sys::GucSource::PGC_S_OVERRIDE,
            );
        }
        if !board::sit_down(database, pg_sys::MyLatch) {
            return;
        }
        pg_sys::before_shmem_exit(Some(on_exit), pg_sys::Datum::from(database));
    }
    IS_WORKER.store(true, Ordering::Relaxed);
    serve(database);
}

#[pg_guard]
unsafe extern "C-unwind" fn on_exit(_code: core::ffi::c_int, arg: pg_sys::Datum) {
    // SAFETY: the latch is the process's own.
    board::stand_up(arg.value() as u32, unsafe { pg_sys::MyLatch });
}

/// Works the queue until there is nothing to serve here any more.
fn serve(database: u32) {
    board::look(database);
    let Some(extension) = transaction(extension).ok().flatten() else {
        return board::give_up_unless_told(database);
    };
    let mut failures = 0;
    let mut claimer = None;
    loop {
        signals::heed();
        let notice = board::look(database);
        if notice.leave {
            return;
        }
        match transaction(self::extension) {
            Ok(Some(there)) if there == extension => {}
            Ok(None) => return board::give_up_unless_told(database),
            _ => return,
        }
        let rest = match turn(&mut claimer) {
            Ok(rest) => {
                failures = 0;
                rest
            }
            Err(problem) => {
                failures = (failures + 1).min(10);
                log!("pg_dialectic worker: {problem}");
                Some(Duration::from_millis(10 << failures))
            }
        };
        report_idle();
        if rest != Some(Duration::ZERO) {
            signals::wait(rest, claimer::socket());
        }
    }
}

/// One turn with the verbs of SQL; returns how long there is nothing to do.
fn turn(claimer: &mut Option<String>) -> Result<Option<Duration>, String> {
    if claimer.is_none() {
        *claimer = transaction(|| Spi::get_one::<String>("select dialectic._open_claimer('worker')"))?
            .map_err(|e| e.to_string())?;
    }
    let name = claimer.clone().unwrap_or_default();
    let run = |query: &str| -> Result<(), String> {
        transaction(|| Spi::run_with_args(query, &[name.as_str().into()]))?.map_err(|e| e.to_string())
    };
    transaction(|| Spi::run("select dialectic._keep_replies()"))?.map_err(|e| e.to_string())?;
    run("select dialectic._take($1, dialectic._free_threads()) where dialectic._free_threads() > 0")?;
    stop_here("claimed");
    let requests =
        transaction(|| Spi::get_one_with_args::<pgrx::JsonB>("select dialectic._make($1)", &[name.as_str().into()]))?
            .map_err(|e| e.to_string())?;
    if let Some(requests) = requests {
        claimer::_send_requests(requests).map_err(|e| format!("{e:?}"))?;
    }
    let due = transaction(|| Spi::get_one::<f64>("select dialectic._next_due(false)"))?.map_err(|e| e.to_string())?;
    Ok(if claimer::under_way() > 0 { due.filter(|d| *d > 0.0) } else { due }.map(Duration::from_secs_f64))
}

/// The extension of this database, if it has it.
fn extension() -> Option<pg_sys::Oid> {
    // SAFETY: a look into the catalog, in a transaction.
    let found = unsafe { pg_sys::get_extension_oid(c"pg_dialectic".as_ptr(), true) };
    (found != pg_sys::InvalidOid).then_some(found)
}

/// Runs work in a transaction of its own; an error ends that transaction and is returned.
fn transaction<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let work = AssertUnwindSafe(work);
    // SAFETY: no transaction is open here, and whatever happens none is left open.
    PgTryBuilder::new(move || unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = { work }.0();
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
        Ok(result)
    })
    .catch_others(|cause| {
        // SAFETY: as above.
        unsafe { pg_sys::AbortCurrentTransaction() };
        Err(match cause {
            pg_sys::panic::CaughtError::PostgresError(report)
            | pg_sys::panic::CaughtError::ErrorReport(report)
            | pg_sys::panic::CaughtError::RustPanic { ereport: report, .. } => report.message().to_owned(),
        })
    })
    .execute()
}

/// Lets the statistics and pg_stat_activity know.
fn report_idle() {
    // SAFETY: outside of a transaction.
    unsafe {
        pg_sys::pgstat_report_stat(true);
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null());
    }
}

/// Where a test has asked the worker to stop, it waits here until that is taken back; it holds nothing meanwhile.
fn stop_here(place: &str) {
    let mut shown = false;
    while settings::stop_at().as_deref() == Some(place) {
        if !shown {
            let text = std::ffi::CString::new(format!("stopped at {place}")).unwrap_or_default();
            // SAFETY: outside of a transaction, with a string that is copied.
            unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, text.as_ptr()) };
            shown = true;
        }
        signals::wait(None, None);
    }
}
