//! The backends that sleep in `wait`, in shared memory: a commit that moves jobs wakes those of its database.
//!
//! Decides when a sleeping backend checks the state of its session again, and never what that state is. A backend
//! registers before it checks, so that no commit falls between its check and its sleep. The table is bounded: a
//! backend that finds no place in it polls, as it does where the library is not preloaded.

use crate::test_hooks;
use crate::worker::run_pending::Procedure;
use crate::worker::{commit_hook, shmem, signals};
use pgrx::datum::TimestampWithTimeZone;
use pgrx::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many backends of a server can be registered at once.
const MAX_WAITERS: usize = 64;
/// A registered backend checks this often although nobody wakes it: COMMIT PREPARED sends no wake-up.
const REGISTERED_POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often a backend checks that nobody can wake.
const UNREGISTERED_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Wake-ups are coalesced: a busy worker commits more often than a session needs to be checked.
const MIN_SLEEP: Duration = Duration::from_millis(20);

/// A registered backend. The latch is in shared memory and outlives the backend; null marks a free entry.
#[derive(Clone, Copy)]
struct Waiter {
    database: u32,
    latch: *mut pg_sys::Latch,
    /// Set together with the latch, because other waits of the backend reset the latch.
    is_notified: bool,
}

const FREE: Waiter = Waiter { database: 0, latch: std::ptr::null_mut(), is_notified: false };

/// The table of waiters. Everything but the count is changed under the lock of the shared memory.
pub(super) struct Waiters {
    /// Read without the lock: a commit takes the lock only where somebody waits.
    count: AtomicUsize,
    entries: [Waiter; MAX_WAITERS],
}

impl Waiters {
    pub(super) fn empty() -> Waiters {
        Waiters { count: AtomicUsize::new(0), entries: [FREE; MAX_WAITERS] }
    }
}

thread_local! {
    /// The entry of this backend.
    static ENTRY: Cell<Option<usize>> = const { Cell::new(None) };
    /// Set while `wait` commits before it sleeps; any other end of a transaction ends the registration.
    static IS_KEPT: Cell<bool> = const { Cell::new(false) };
}

/// Wakes the backends that wait in this database. Called at the end of a commit, so it cannot fail.
pub(super) fn wake(database: u32) {
    // A waiter registers before it takes a snapshot. If its snapshot misses this commit, this load sees its entry.
    if shmem::waiters().is_none_or(|waiters| waiters.count.load(Ordering::SeqCst) == 0) {
        return;
    }
    shmem::with(|shmem| {
        for waiter in shmem.waiters.entries.iter_mut().filter(|waiter| waiter.database == database) {
            if !waiter.is_notified {
                waiter.is_notified = true;
                shmem::set_latch(waiter.latch);
            }
        }
    });
}

/// Ends the registration of this backend, if it has one, when its transaction ends.
pub(super) fn on_transaction_end(is_commit: bool) {
    // An error while `wait` commits aborts, and the flag must not outlive it.
    if !IS_KEPT.replace(false) || !is_commit {
        _unregister_waiter();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_exit(_code: core::ffi::c_int, _arg: pg_sys::Datum) {
    _unregister_waiter();
}

/// Registers this backend as a waiter until its transaction ends; false when commits cannot wake it.
#[pg_extern(volatile)]
pub(crate) fn _register_waiter() -> bool {
    thread_local! { static HAS_EXIT_CALLBACK: Cell<bool> = const { Cell::new(false) }; }
    if ENTRY.get().is_some() {
        return true;
    }
    if !HAS_EXIT_CALLBACK.replace(true) {
        // SAFETY: the callback lives as long as the library, which is never unloaded.
        unsafe { pg_sys::before_shmem_exit(Some(on_exit), pg_sys::Datum::from(0)) };
    }
    // SAFETY: set at the start of the process; the latch of a backend is in shared memory.
    let (database, latch) = unsafe { (pg_sys::MyDatabaseId.to_u32(), pg_sys::MyLatch) };
    let entry = shmem::with(|shmem| {
        let free = shmem.waiters.entries.iter().position(|waiter| waiter.latch.is_null())?;
        shmem.waiters.entries[free] = Waiter { database, latch, is_notified: false };
        shmem.waiters.count.fetch_add(1, Ordering::SeqCst);
        Some(free)
    });
    ENTRY.set(entry.flatten());
    ENTRY.get().is_some()
}

/// Ends the registration of this backend, if it has one.
#[pg_extern(volatile)]
pub(crate) fn _unregister_waiter() {
    if let Some(entry) = ENTRY.take() {
        shmem::with(|shmem| {
            shmem.waiters.entries[entry] = FREE;
            shmem.waiters.count.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// Whether a commit has notified this backend since it last asked.
fn take_notice() -> bool {
    let Some(entry) = ENTRY.get() else { return false };
    shmem::with(|shmem| std::mem::take(&mut shmem.waiters.entries[entry].is_notified)).unwrap_or(false)
}

/// Commits where it may, then sleeps until a commit may have changed the session, or the next check is due, or the
/// deadline has come.
#[pg_extern(sql = "create procedure _sleep_until_change(deadline timestamptz) language c \
           as 'MODULE_PATHNAME', '_sleep_until_change_wrapper';")]
fn _sleep_until_change(deadline: TimestampWithTimeZone, fcinfo: pg_sys::FunctionCallInfo) {
    let procedure = Procedure { fcinfo };
    if procedure.may_commit() {
        IS_KEPT.set(true);
        procedure.commit();
    }
    let interval = if ENTRY.get().is_some() {
        test_hooks::wait_poll_interval(REGISTERED_POLL_INTERVAL)
    } else {
        UNREGISTERED_POLL_INTERVAL
    };
    let deadline = pg_sys::TimestampTz::from(deadline);
    // SAFETY: reads the clock.
    let micros_left = deadline.saturating_sub(unsafe { pg_sys::GetCurrentTimestamp() });
    let limit = interval.min(Duration::from_micros(u64::try_from(micros_left).unwrap_or(0)));
    let (begin, mut is_notified) = (Instant::now(), false);
    loop {
        is_notified |= take_notice();
        let limit = if is_notified { limit.min(MIN_SLEEP) } else { limit };
        match limit.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
            Some(left) => signals::wait(Some(left), None),
            None => break,
        }
    }
}

/// Trigger: the commit of this transaction wakes the waiters of this database.
#[pg_trigger]
fn _wake_waiters<'a>(
    _trigger: &'a pgrx::PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, pgrx::AllocatedByPostgres>>, pgrx::PgTriggerError> {
    commit_hook::wake_waiters_at_commit();
    Ok(None)
}

/// Whether this xid is the current transaction or one of its subtransactions. Compares no epochs, so it stays right
/// after the xid counter has wrapped.
#[pg_extern(volatile)]
pub(crate) fn _is_current_xid(xid: pg_sys::TransactionId) -> bool {
    // SAFETY: compares the xid with those of the open transaction.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId(xid) }
}
