//! What works the queue: claimers, the threads that call models, and waiting for them.
//!
//! take, make, call, keep. The main thread is the only one that touches Postgres; call threads see core values only, and
//! everything crosses between them by a channel and a byte on a socket.

pub(crate) mod calls;
pub(crate) mod claimer;
pub(crate) mod waiting;

use pgrx::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

static PRELOADED: AtomicBool = AtomicBool::new(false);

/// Notes whether the library is being loaded by the postmaster; every process it starts inherits the note.
pub(crate) fn note_preload() {
    // SAFETY: reads a flag that only the process itself writes.
    PRELOADED.store(unsafe { pg_sys::process_shared_preload_libraries_in_progress }, Ordering::Relaxed);
}

pub(crate) fn is_preloaded() -> bool {
    PRELOADED.load(Ordering::Relaxed)
}
