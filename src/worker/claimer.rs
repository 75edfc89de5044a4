//! A claimer inside the server: its name and the lock that says it lives.
//!
//! The lock is a session-level advisory lock on the claimer's name; while it is held the claims are alive. When a
//! transaction aborts in a backend that is a claimer, the lock is released there and then, so that the next claimer
//! frees the jobs at once; the worker, whose transactions may fail without ending it, keeps its own.

use crate::error::Error;
use crate::worker::{database_worker, shmem};
use pgrx::prelude::*;
use std::cell::Cell;

thread_local! {
    static LOCK: Cell<Option<(i32, i32)>> = const { Cell::new(None) };
}

/// Registers, once per process, what happens to the claimer when its transaction aborts.
pub(crate) fn init() {
    // SAFETY: the callback lives as long as the library, which is never unloaded.
    unsafe { pg_sys::RegisterXactCallback(Some(on_transaction_end), std::ptr::null_mut()) };
}

#[pg_guard]
unsafe extern "C-unwind" fn on_transaction_end(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    if event == pg_sys::XactEvent::XACT_EVENT_ABORT
        && !database_worker::is_worker()
        && let Some(lock) = LOCK.take()
    {
        release(lock);
        // Its claims are free now.
        // SAFETY: set at the start of the process.
        shmem::notify(unsafe { pg_sys::MyDatabaseId }.to_u32(), i64::MAX, true, false);
    }
}

/// Begins to be a claimer; returns its name.
pub(crate) fn open(kind: &str) -> Result<String, Error> {
    Spi::get_one_with_args::<String>("select dialectic._open_claimer($1)", &[kind.into()])?
        .ok_or_else(|| Error::Gone("the claimer has no name".to_owned()))
}

/// Begins to be the claimer whose advisory lock this backend has just taken.
#[pg_extern(volatile)]
pub(crate) fn _hold_claimer(space: i32, key: i32) {
    if let Some(before) = LOCK.replace(Some((space, key))) {
        release(before);
    }
}

/// Ends being one.
#[pg_extern(volatile)]
pub(crate) fn _close_claimer() {
    if let Some(lock) = LOCK.take() {
        release(lock);
    }
}

fn release((space, key): (i32, i32)) {
    let tag = pg_sys::LOCKTAG {
        // SAFETY: set at the start of the process.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: space as u32,
        locktag_field3: key as u32,
        locktag_field4: 2,
        locktag_type: pg_sys::LockTagType::LOCKTAG_ADVISORY as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    };
    // SAFETY: the tag is complete; releasing a lock that is not held is only warned of.
    unsafe { pg_sys::LockRelease(&tag, pg_sys::ExclusiveLock as i32, true) };
}
