//! The claimer that this backend is while `run_pending` runs: its lock and its calls.
//!
//! The lock is a session-level advisory lock on the claimer's name; while it is held the claims are alive. When the transaction
//! that runs `run_pending` aborts, the lock is released and the calls are dropped there and then, so that the next claimer
//! frees the jobs at once.

use crate::error::Error;
use crate::settings;
use crate::worker::calls::{Call, Calls};
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::cell::RefCell;

struct Claimer {
    lock: (i32, i32),
    calls: Calls,
    /// Replies that could not be kept yet, in the shape that `_keep` takes.
    put_back: Vec<serde_json::Value>,
}

thread_local! {
    static CLAIMER: RefCell<Option<Claimer>> = const { RefCell::new(None) };
}

/// Registers, once per process, what happens to the claimer when its transaction aborts.
pub(crate) fn init() {
    // SAFETY: the callback lives as long as the library, which is never unloaded.
    unsafe { pg_sys::RegisterXactCallback(Some(on_transaction_end), std::ptr::null_mut()) };
}

#[pg_guard]
unsafe extern "C-unwind" fn on_transaction_end(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    if event == pg_sys::XactEvent::XACT_EVENT_ABORT
        && let Some(claimer) = CLAIMER.take()
    {
        release(claimer.lock);
    }
}

/// Begins to be the claimer whose advisory lock this backend has just taken.
#[pg_extern(volatile)]
pub(crate) fn _hold_claimer(space: i32, key: i32) -> Result<(), ErrorReport> {
    let calls = Calls::new().map_err(|problem| Error::Gone(format!("no socket for call threads: {problem}")))?;
    if let Some(before) = CLAIMER.replace(Some(Claimer { lock: (space, key), calls, put_back: Vec::new() })) {
        release(before.lock);
    }
    Ok(())
}

/// Ends being one.
#[pg_extern(volatile)]
fn _close_claimer() {
    if let Some(claimer) = CLAIMER.take() {
        release(claimer.lock);
    }
}

/// How many more calls may be started.
#[pg_extern(volatile)]
fn _free_threads() -> i32 {
    let free = settings::max_concurrent_calls().saturating_sub(under_way());
    i32::try_from(free).unwrap_or(i32::MAX)
}

/// How many calls are under way.
#[pg_extern(volatile)]
fn _calls_in_flight() -> i32 {
    i32::try_from(under_way()).unwrap_or(i32::MAX)
}

/// Hands requests to the call threads; returns how many were started. A request that no thread could be had for is left to
/// its claim, which is void when this claimer ends.
#[pg_extern(volatile)]
pub(crate) fn _send_requests(requests: JsonB) -> Result<i32, ErrorReport> {
    let requests: Vec<Call> =
        serde_json::from_value(requests.0).map_err(|source| Error::Json { what: "requests", source })?;
    let mut started = 0;
    with_claimer(|claimer| {
        for call in requests {
            claimer.calls.start(call).map_err(|problem| Error::Gone(format!("no thread for a call: {problem}")))?;
            started += 1;
        }
        Ok(started)
    })
    .map_err(ErrorReport::from)
}

/// What came back since the last time, in the shape that `_keep` takes.
#[pg_extern(volatile)]
fn _take_replies() -> Result<JsonB, ErrorReport> {
    with_claimer(|claimer| {
        let mut replies = std::mem::take(&mut claimer.put_back);
        for done in claimer.calls.take_back() {
            replies.push(serde_json::to_value(done).map_err(|source| Error::Json { what: "replies", source })?);
        }
        Ok(JsonB(serde_json::Value::Array(replies)))
    })
    .map_err(ErrorReport::from)
}

/// Gives back replies that cannot be kept now; they come again with the next ones.
#[pg_extern(volatile)]
fn _put_back(replies: JsonB) -> Result<(), ErrorReport> {
    let replies: Vec<serde_json::Value> =
        serde_json::from_value(replies.0).map_err(|source| Error::Json { what: "replies", source })?;
    with_claimer(|claimer| {
        claimer.put_back.extend(replies);
        Ok(())
    })
    .map_err(ErrorReport::from)
}

/// The socket that rings when a call comes back, where this backend is a claimer.
pub(crate) fn socket() -> Option<i32> {
    CLAIMER.with_borrow(|claimer| claimer.as_ref().map(|claimer| claimer.calls.socket()))
}

pub(crate) fn under_way() -> usize {
    CLAIMER
        .with_borrow(|claimer| claimer.as_ref().map_or(0, |claimer| claimer.calls.under_way() + claimer.put_back.len()))
}

fn with_claimer<T>(work: impl FnOnce(&mut Claimer) -> Result<T, Error>) -> Result<T, Error> {
    CLAIMER.with_borrow_mut(|claimer| match claimer {
        Some(claimer) => work(claimer),
        None => Err(Error::Gone("this backend is not a claimer".to_owned())),
    })
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
