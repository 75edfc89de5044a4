//! The worker of one database: a background process that works its queue for as long as the extension is there.
//!
//! It waits on its latch and on the socket of its call threads, and on nothing else; between its short transactions it
//! holds neither a lock nor a snapshot. An error ends the transaction it happened in, never the worker, and is not met
//! again at once.

use crate::error::{Error, Problem};
use crate::store::{self, claim};
use crate::test_hooks;
use crate::worker::commit_hook::claim_floor;
use crate::worker::engine::{Engine, Host, Report};
use crate::worker::hold_up::{Scope, ShownHoldUp};
use crate::worker::maintenance::Maintenance;
use crate::worker::session_settings::{self, PlanRefresh};
use crate::worker::{claimer, schema, shmem, signals};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static IS_WORKER: AtomicBool = AtomicBool::new(false);

/// How often a session that somebody else holds is looked at.
const HELD_UP: Duration = Duration::from_millis(10);
/// The latch is not waited on for less, and before so short a wait nothing is reported.
const SHORTEST: Duration = Duration::from_millis(1);

/// Whether this process is a worker.
pub(crate) fn is_worker() -> bool {
    IS_WORKER.load(Ordering::Relaxed)
}

#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn dialectic_worker_main(arg: pg_sys::Datum) {
    let database = arg.value() as u32;
    signals::settle();
    let server = session_settings::of_the_server();
    // SAFETY: the database was given by the launcher; one that is gone meanwhile ends the process with a message.
    unsafe { pg_sys::BackgroundWorkerInitializeConnectionByOid(pg_sys::Oid::from(database), pg_sys::InvalidOid, 0) };
    session_settings::pin_for_worker(&server);
    // SAFETY: the latch is the process's own.
    if !shmem::attach(database, unsafe { pg_sys::MyLatch }) {
        return;
    }
    // SAFETY: both callbacks live as long as the library. The last one is called first; where it fails, the other is
    // still called.
    unsafe {
        pg_sys::before_shmem_exit(Some(on_exit), pg_sys::Datum::from(database));
        pg_sys::before_shmem_exit(Some(on_leave), pg_sys::Datum::from(0));
    }
    IS_WORKER.store(true, Ordering::Relaxed);
    allow_sockets();
    serve(database);
}

/// Lets the process open as many sockets as it may: each call has one, and the server counts on files of its own.
fn allow_sockets() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and sets a limit of this process alone; where that fails the old one stands.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

thread_local! {
    /// The name that this worker claims by.
    static CLAIMER: std::cell::RefCell<Option<String>> = const { std::cell::RefCell::new(None) };
}

/// Notes that the worker ends in order: what it holds counts as no loss. An error here ends the process as it was to
/// end.
fn leave() {
    if let Some(claimer) = CLAIMER.take() {
        // SAFETY: ends whatever transaction the exit has interrupted.
        unsafe { pg_sys::AbortOutOfAnyTransaction() };
        if let Err(problem) = transaction(|| if extension().is_some() { claim::leave(&claimer) } else { Ok(()) }) {
            log!("pg_dialectic worker: its end could not be noted: {}", problem.message);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_leave(_code: core::ffi::c_int, _arg: pg_sys::Datum) {
    leave();
}

#[pg_guard]
unsafe extern "C-unwind" fn on_exit(code: core::ffi::c_int, arg: pg_sys::Datum) {
    // SAFETY: the latch is the process's own.
    shmem::detach(arg.value() as u32, unsafe { pg_sys::MyLatch }, code == 0);
}

/// Works the queue until there is nothing to serve here any more.
fn serve(database: u32) {
    shmem::look(database);
    let Some(extension) = transaction(|| Ok(extension())).ok().flatten() else {
        return shmem::give_up_unless_told(database);
    };
    let fits = || {
        leave_if_gone(database, extension);
        transaction(|| Ok(store::schema::check())).unwrap_or(Ok(()))
    };
    if !schema::wait_until_it_fits(database, fits) {
        return;
    }
    let mut engine = begin(database, extension);
    let mut plans = PlanRefresh::new();
    let mut maintenance = Maintenance::new();
    loop {
        signals::reset();
        let notice = shmem::look(database);
        if notice.leave {
            return;
        }
        let mut worker = Worker { extension, name: database_name() };
        let begun = Instant::now();
        let rest = match engine.cycle(&mut worker, usize::MAX, notice.revoked) {
            Ok(report) => {
                plans.count(report.claimed);
                if report.backoff.is_some() {
                    leave_if_gone(database, extension);
                }
                let rest = worker.rest(&engine, &report);
                let is_due = report.backoff.is_none().then(|| maintenance.step(&mut worker));
                rest.into_iter().chain(is_due).min()
            }
            // The worker does not raise: whatever holds it up it waits out.
            Err(_) => Some(HELD_UP),
        };
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let in_flight = engine.in_flight().counts().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        shmem::count_cycle(database, micros, in_flight);
        show_hold_ups(database, &mut engine);
        if rest != Some(Duration::ZERO) {
            if rest != Some(SHORTEST) {
                report_idle(rest.is_none_or(|rest| rest > Duration::from_millis(100)));
            }
            signals::wait(rest, Some(engine.socket()));
        }
    }
}

/// Lets other processes see what errors hold up, where that has changed.
fn show_hold_ups(database: u32, engine: &mut Engine) {
    let Some(held_up) = engine.hold_ups().changed() else { return };
    let shown: Vec<ShownHoldUp> = held_up
        .into_iter()
        .map(|(scope, held)| {
            let session = match scope {
                Scope::Session(session) => Some(*session.as_bytes()),
                Scope::Database => None,
            };
            let micros = i64::try_from(held.since.elapsed().as_micros()).unwrap_or(i64::MAX);
            // SAFETY: reads the clock.
            let since = unsafe { pg_sys::GetCurrentTimestamp() }.saturating_sub(micros);
            let problem = &held.problem;
            ShownHoldUp::new(session, problem.sqlstate, held.failures, since, &problem.message)
        })
        .collect();
    shmem::show_hold_ups(database, &shown);
}

/// The name of the database, read once: a database that has a worker cannot be renamed.
fn database_name() -> String {
    thread_local! {
        static NAME: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
    }
    NAME.with_borrow_mut(|name| {
        if name.is_empty() {
            let read = transaction(|| {
                // SAFETY: a look into the catalog, in a transaction; the name is copied before it ends.
                let found = unsafe { pg_sys::get_database_name(pg_sys::MyDatabaseId) };
                if found.is_null() {
                    return Ok(String::new());
                }
                // SAFETY: a string of the server, with an end.
                Ok(unsafe { std::ffi::CStr::from_ptr(found) }.to_string_lossy().into_owned())
            });
            *name = read.unwrap_or_default();
        }
        name.clone()
    })
}

/// Begins to be a claimer. Somebody may be changing the extension in that moment: then it is tried again, a few times.
fn begin(database: u32, extension: pg_sys::Oid) -> Engine {
    for rest in [HELD_UP, HELD_UP * 5, HELD_UP * 25] {
        match transaction(|| Engine::new(claimer::open("worker")?)) {
            Ok(engine) => {
                CLAIMER.set(Some(engine.claimer().to_owned()));
                return engine;
            }
            Err(problem) => {
                // An extension that is dropped while its worker comes is no failure of the worker.
                leave_if_gone(database, extension);
                log!("pg_dialectic worker: {}", problem.message);
                signals::wait(Some(rest), None);
                signals::heed();
            }
        }
    }
    // The launcher tries again later.
    signals::exit(1)
}

/// Ends the process, on purpose, when the extension it serves is gone; another one that has come meanwhile gets a
/// worker of its own.
fn leave_if_gone(database: u32, extension: pg_sys::Oid) {
    let there = transaction(|| Ok(self::extension()));
    match there {
        Ok(Some(there)) if there == extension => return,
        Ok(None) => shmem::give_up_unless_told(database),
        _ => {}
    }
    signals::exit(0)
}

/// Transactions of the worker; each begins by making sure that the extension is still the one it serves.
struct Worker {
    extension: pg_sys::Oid,
    /// The name of the database, for the log.
    name: String,
}

impl Worker {
    /// How long there is nothing to do.
    fn rest(&mut self, engine: &Engine, report: &Report) -> Option<Duration> {
        if report.backoff.is_some() {
            return report.backoff;
        }
        if report.awaits_prompts {
            return Some(SHORTEST);
        }
        if report.is_busy {
            return Some(Duration::ZERO);
        }
        if report.is_held_up {
            return Some(HELD_UP);
        }
        let full = engine.full_queues();
        let asked = full.clone();
        let due = self
            .transaction(|| claim::next_due(engine.claimer(), false, claim_floor(), asked, &engine.unclaimable()))
            // What cannot be asked now is asked again soon.
            .unwrap_or(Some(1.0))
            .map(Duration::from_secs_f64);
        let room = engine.rest(&full);
        // With threads all busy, what is due waits for one of them; with none busy, somebody else holds it.
        let due = due.filter(|due| engine.is_idle() || !due.is_zero()).map(|due| due.max(HELD_UP));
        room.map(|room| room.max(SHORTEST)).into_iter().chain(due).min()
    }
}

impl Host for Worker {
    fn transaction<T>(&mut self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Problem> {
        let serves = self.extension;
        transaction(move || {
            if extension() != Some(serves) {
                return Err(Error::Gone("the extension is gone".to_owned()));
            }
            work()
        })
    }

    fn raises(&self) -> bool {
        false
    }

    fn log(&mut self, problem: &Problem, session: Option<pgrx::Uuid>) {
        let of = session.map_or_else(String::new, |session| format!(" in session {session}"));
        ErrorReport::new(
            PgSqlErrorCode::ERRCODE_WARNING,
            format!(
                "pg_dialectic worker of database \"{}\" is held up by an error{of}: {} (SQLSTATE {})",
                self.name,
                problem.message,
                problem.sqlstate()
            ),
            "dialectic",
        )
        .set_hint("SELECT unnest(problems) FROM dialectic.health() shows whether it is over; nothing has been lost.")
        .report(PgLogLevel::LOG);
    }

    fn at(&mut self, place: &'static str) {
        test_hooks::stop_here(place);
    }
}

/// The extension of this database, if it has it.
fn extension() -> Option<pg_sys::Oid> {
    // SAFETY: a look into the catalog, in a transaction.
    let found = unsafe { pg_sys::get_extension_oid(c"pg_dialectic".as_ptr(), true) };
    (found != pg_sys::InvalidOid).then_some(found)
}

/// Runs work in a transaction of its own; an error ends that transaction and is returned.
fn transaction<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Problem> {
    let work = AssertUnwindSafe(work);
    PgTryBuilder::new(move || {
        begin_transaction();
        let result = { work }.0();
        end_transaction(result.is_ok());
        result.map_err(Problem::from)
    })
    .catch_others(|cause| {
        // SAFETY: ends the transaction that the error has interrupted.
        unsafe { pg_sys::AbortCurrentTransaction() };
        Err(Problem::from(cause))
    })
    .execute()
}

fn begin_transaction() {
    // SAFETY: no transaction is open here; end_transaction, or the handler of an error, ends it.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, c"working the queue".as_ptr());
        pg_sys::StartTransactionCommand();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    }
}

fn end_transaction(commits: bool) {
    // SAFETY: pops the snapshot that begin_transaction pushed, and ends its transaction.
    unsafe {
        pg_sys::PopActiveSnapshot();
        if commits {
            pg_sys::CommitTransactionCommand();
        } else {
            pg_sys::AbortCurrentTransaction();
        }
    }
}

/// Lets the statistics and pg_stat_activity know; before a long rest nothing is held back.
fn report_idle(is_long: bool) {
    // SAFETY: outside of a transaction.
    unsafe {
        pg_sys::pgstat_report_stat(is_long);
        pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, std::ptr::null());
    }
}

/// Shows in pg_stat_activity what the worker is doing between transactions.
#[cfg(feature = "test-hooks")]
pub(crate) fn report_activity(text: &str) {
    let text = std::ffi::CString::new(text).unwrap_or_default();
    // SAFETY: the server copies the string.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_IDLE, text.as_ptr()) };
}
