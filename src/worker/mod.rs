//! What works the queue: claimers, and waiting for the threads that call models.
//!
//! claim, prepare, open, call, keep. The main thread is the only one that touches Postgres; the threads are in crate
//! dialectic-net, which does not know it.

pub(crate) mod admission;
pub(crate) mod cache_invalidation;
pub(crate) mod claimer;
pub(crate) mod commit_hook;
pub(crate) mod database_worker;
pub(crate) mod engine;
pub(crate) mod hold_up;
pub(crate) mod in_flight;
pub(crate) mod launcher;
pub(crate) mod maintenance;
pub(crate) mod prepare;
pub(crate) mod run_pending;
pub(crate) mod schema;
pub(crate) mod session_settings;
pub(crate) mod shmem;
pub(crate) mod signals;
pub(crate) mod waiters;

use pgrx::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

static PRELOADED: AtomicBool = AtomicBool::new(false);

/// Runs when the library is loaded. In the postmaster it asks for shared memory and the launcher; every process
/// inherits the note that the library was preloaded. A server that is being upgraded gets neither.
pub(crate) fn init() {
    // SAFETY: reads flags of the process, and sets hooks that keep the ones before them, while the postmaster starts.
    unsafe {
        if pg_sys::process_shared_preload_libraries_in_progress && !pg_sys::IsBinaryUpgrade {
            PRELOADED.store(true, Ordering::Relaxed);
            hook_shared_memory();
            launcher::register();
        }
    }
    commit_hook::init();
    claimer::init();
}

unsafe fn hook_shared_memory() {
    static mut REQUEST_BEFORE: pg_sys::shmem_request_hook_type = None;
    static mut STARTUP_BEFORE: pg_sys::shmem_startup_hook_type = None;
    #[pg_guard]
    unsafe extern "C-unwind" fn on_request() {
        // SAFETY: written once, before any hook is called.
        if let Some(before) = unsafe { REQUEST_BEFORE } {
            // SAFETY: a hook of the same kind.
            unsafe { before() };
        }
        shmem::request();
    }
    #[pg_guard]
    unsafe extern "C-unwind" fn on_startup() {
        // SAFETY: as above.
        if let Some(before) = unsafe { STARTUP_BEFORE } {
            // SAFETY: as above.
            unsafe { before() };
        }
        shmem::set_up();
    }
    // SAFETY: the postmaster is alone while it loads libraries.
    unsafe {
        REQUEST_BEFORE = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(on_request);
        STARTUP_BEFORE = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(on_startup);
    }
}

pub(crate) fn is_preloaded() -> bool {
    PRELOADED.load(Ordering::Relaxed)
}
