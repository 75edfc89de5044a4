//! Calls of models on threads, without Postgres: values of the core go in and come out.
//!
//! | module | decides |
//! |---|---|
//! | [`call_threads`] | which task runs on which pool, and what a task that panics comes back as |
//! | [`thread_pool`] | when a thread is started, and when an idle one ends |
//! | [`wake_channel`] | how a result wakes the thread that waits for sockets and latches |
//! | [`http`] | one call over HTTP: connections, timeouts, addresses, certificates |
//! | [`cancel`] | how a call ends early |
//! | [`partial_text`] | which text of a streaming answer is not stored yet |
//! | [`secret`] | which references to secrets may be read, and how |
//! | [`os`] | system calls that the standard library does not offer |
//!
//! Nothing here imports Postgres, and every thread has all signals blocked: handlers run on the main thread only.

mod call_threads;
mod cancel;
mod http;
mod os;
mod partial_text;
mod secret;
mod thread_pool;
mod wake_channel;

pub use call_threads::{CallThreads, ClaimId, Finished, ModelCall, RENDER_THREADS};
pub use http::{CallResult, Policy, Route};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also one that a thread held while it panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
