//! What a transaction has to tell other processes, and when: at its commit, never before, and not at all when it
//! aborts.
//!
//! Jobs that became ready, claims that were taken away, an extension that came or went, a database that is being
//! dropped; and to the backends in `wait`, that a session may have changed. One callback a process and one at the very
//! end of a commit; what they do cannot fail.

use crate::worker::{shmem, waiters};
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::cell::Cell;

/// What this transaction will say.
#[derive(Clone, Copy)]
struct Saying {
    work: bool,
    /// The lowest position of the jobs that became ready.
    first_position: i64,
    revoked: bool,
    /// Jobs moved or sessions changed: backends that wait for a session check it.
    wakes_waiters: bool,
    drops: Option<u32>,
    /// What the worker has found out about the line.
    floor: Option<i64>,
}

impl Default for Saying {
    fn default() -> Self {
        NOTHING
    }
}

const NOTHING: Saying =
    Saying { work: false, first_position: i64::MAX, revoked: false, wakes_waiters: false, drops: None, floor: None };

thread_local! {
    static SAYING: Cell<Saying> = const { Cell::new(NOTHING) };
    /// What a transaction that is committed has yet to say.
    static COMMITTED: Cell<Saying> = const { Cell::new(NOTHING) };
}

/// Registers, once per process, what happens at the end of a transaction; where the library is preloaded also who is
/// told of objects being dropped.
pub(crate) fn init() {
    // SAFETY: the callbacks live as long as the library, which is never unloaded.
    unsafe {
        pg_sys::RegisterXactCallback(Some(on_transaction_end), std::ptr::null_mut());
        pg_sys::RegisterResourceReleaseCallback(Some(on_release), std::ptr::null_mut());
    }
    if super::is_preloaded() {
        // SAFETY: done once, while the postmaster loads the library and before any hook is called.
        unsafe {
            EARLIER_HOOK = pg_sys::object_access_hook;
            pg_sys::object_access_hook = Some(on_object_access);
        }
    }
}

/// The hook of a library that was loaded before.
static mut EARLIER_HOOK: pg_sys::object_access_hook_type = None;

#[pg_guard]
unsafe extern "C-unwind" fn on_object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    sub_id: core::ffi::c_int,
    arg: *mut core::ffi::c_void,
) {
    // SAFETY: written once, before any hook is called.
    if let Some(earlier) = unsafe { EARLIER_HOOK } {
        // SAFETY: passes on what the server gave.
        unsafe { earlier(access, class, object, sub_id, arg) };
    }
    if access == pg_sys::ObjectAccessType::OAT_DROP {
        on_drop(class, object);
    }
}

/// A worker must look again when an extension goes; it must go at once from a database that is to be dropped, for the
/// server waits a few seconds for it to be gone.
fn on_drop(class: pg_sys::Oid, object: pg_sys::Oid) {
    if class == pg_sys::ExtensionRelationId {
        say(|saying| saying.work = true);
    } else if class == pg_sys::DatabaseRelationId {
        let database = object.to_u32();
        say(|saying| saying.drops = Some(database));
        shmem::ask_to_leave(database);
    }
}

fn say(add: impl FnOnce(&mut Saying)) {
    let mut saying = SAYING.get();
    add(&mut saying);
    SAYING.set(saying);
}

#[pg_guard]
unsafe extern "C-unwind" fn on_transaction_end(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PRE_PREPARE, XACT_EVENT_PREPARE};
    if [XACT_EVENT_COMMIT, XACT_EVENT_ABORT, XACT_EVENT_PREPARE].contains(&event) {
        waiters::on_transaction_end(event == XACT_EVENT_COMMIT);
    }
    match event {
        XACT_EVENT_COMMIT => {
            let saying = SAYING.take();
            if let Some(floor) = saying.floor {
                shmem::raise_floor(database(), floor);
            }
            COMMITTED.set(saying);
        }
        XACT_EVENT_ABORT => {
            if let Some(database) = SAYING.take().drops {
                shmem::ask_to_return(database);
            }
        }
        XACT_EVENT_PRE_PREPARE if SAYING.get().work && shmem::is_set_up() => {
            ErrorReport::new(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot PREPARE a transaction that has given work to pg_dialectic",
                "dialectic",
            )
            .set_detail("The worker is told at COMMIT, and nobody would tell it at COMMIT PREPARED.")
            .set_hint("COMMIT it in one step.")
            .report(PgLogLevel::ERROR);
        }
        _ => {}
    }
}

/// The last thing in a commit, when every process has been told which of its copies are old: whoever is called now
/// finds that out as soon as it looks.
#[pg_guard]
unsafe extern "C-unwind" fn on_release(
    phase: pg_sys::ResourceReleasePhase::Type,
    _is_commit: bool,
    is_top_level: bool,
    _arg: *mut core::ffi::c_void,
) {
    if phase != pg_sys::ResourceReleasePhase::RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level {
        return;
    }
    let saying = COMMITTED.take();
    if saying.work || saying.revoked {
        shmem::notify(database(), saying.first_position, saying.work, saying.revoked);
    }
    if saying.wakes_waiters {
        waiters::wake(database());
    }
    if let Some(database) = saying.drops {
        shmem::give_up(database);
    }
}

fn database() -> u32 {
    // SAFETY: set at the start of the process.
    unsafe { pg_sys::MyDatabaseId }.to_u32()
}

/// At commit the worker of this database is told that jobs from this position on became ready (null: only to look), or
/// that claims were taken away. Where jobs have moved, the backends that wait for a session check its state.
#[pg_extern(volatile)]
pub(crate) fn _notify_worker(first_position: Option<i64>, revoked: bool, moved: default!(bool, false)) {
    say(|saying| {
        saying.work |= first_position.is_some() || !(revoked || moved);
        saying.wakes_waiters |= moved;
        saying.first_position = saying.first_position.min(first_position.unwrap_or(i64::MAX));
        saying.revoked |= revoked && !super::database_worker::is_worker();
    });
}

/// At commit the backends that wait for a session of this database check its state.
pub(crate) fn wake_waiters_at_commit() {
    say(|saying| saying.wakes_waiters = true);
}

/// The lowest queue position at which a claim has to look. A job that this transaction itself has made ready is not in
/// shared memory yet.
pub(crate) fn claim_floor() -> i64 {
    shmem::floor(database(), super::database_worker::is_worker()).min(SAYING.get().first_position)
}

/// A claim of the worker has found that no job below this position is ready; others may rely on it once the transaction
/// is committed.
pub(crate) fn raise_floor(floor: i64) {
    if super::database_worker::is_worker() {
        say(|saying| saying.floor = Some(floor));
    }
}
