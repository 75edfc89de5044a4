//! What only the server knows of itself and of roles: whether a role's owner comes from claims, whether the extension
//! is being installed, whether the library is preloaded. Who is asking is found in `entry`.

use pgrx::prelude::*;

/// Whether the owner is taken from the claims of this role. The settings are read here and not in SQL: before the
/// library is loaded anyone could set them.
#[pg_extern(stable, parallel_restricted)]
pub(crate) fn _has_jwt_identity(role: &str) -> bool {
    crate::settings::is_jwt_role(role)
}

/// Whether an extension script is running: what it defines ships, and is not the user's.
#[pg_extern(stable, parallel_restricted)]
pub(crate) fn _is_shipping() -> bool {
    // SAFETY: reads a flag that only this process writes.
    unsafe { pg_sys::creating_extension }
}

/// Whether the library was loaded when the server started.
#[pg_extern(stable, parallel_restricted)]
fn _is_preloaded() -> bool {
    crate::worker::is_preloaded()
}

/// The time, in milliseconds, that 99 of 100 turns of the worker stay within; null when it has not made any.
#[pg_extern(volatile, parallel_restricted)]
pub(crate) fn _turn_p99_ms() -> Option<f64> {
    // SAFETY: set at the start of the process.
    let turns = crate::worker::shmem::turns(unsafe { pg_sys::MyDatabaseId }.to_u32())?;
    turns.quantile(0.99).map(|micros| micros / 1000.0)
}

/// What errors hold up in this database, as its worker sees it: a session, or (null) everything.
#[pg_extern(volatile, parallel_restricted)]
#[allow(clippy::type_complexity)]
pub(crate) fn _worker_hold_ups() -> TableIterator<
    'static,
    (
        name!(session_id, Option<pgrx::Uuid>),
        name!(sqlstate, String),
        name!(message, String),
        name!(failures, i64),
        name!(since, TimestampWithTimeZone),
        name!(hidden, i64),
    ),
> {
    // SAFETY: set at the start of the process.
    let (shown, count) = crate::worker::shmem::hold_ups(unsafe { pg_sys::MyDatabaseId }.to_u32());
    let hidden = i64::try_from(count.saturating_sub(shown.len())).unwrap_or(0);
    TableIterator::new(shown.into_iter().map(move |held| {
        (
            held.session.map(pgrx::Uuid::from_bytes),
            String::from_utf8_lossy(&held.sqlstate).into_owned(),
            held.message().to_owned(),
            i64::from(held.failures),
            TimestampWithTimeZone::try_from(held.since).unwrap_or(TimestampWithTimeZone::positive_infinity()),
            hidden,
        )
    }))
}

/// How many jobs the worker has in flight, by place; null where there is no worker.
#[pg_extern(volatile, parallel_restricted)]
pub(crate) fn _jobs_in_flight() -> Option<pgrx::JsonB> {
    use crate::worker::in_flight::KIND_NAMES;
    // SAFETY: set at the start of the process.
    let counts = crate::worker::shmem::in_flight(unsafe { pg_sys::MyDatabaseId }.to_u32())?;
    let named = KIND_NAMES.iter().zip(counts).filter(|(_, count)| *count > 0);
    Some(pgrx::JsonB(named.map(|(name, count)| ((*name).to_owned(), serde_json::Value::from(count))).collect()))
}

/// Where this database stands with its worker: wanted, starting, served, fallen, refused or held; null when it never
/// asked for one.
#[pg_extern(volatile, parallel_restricted)]
pub(crate) fn _worker_state() -> Option<&'static str> {
    use crate::worker::shmem::{self, State};
    // SAFETY: set at the start of the process.
    shmem::state(unsafe { pg_sys::MyDatabaseId }.to_u32()).map(|state| match state {
        State::Wanted => "wanted",
        State::Starting => "starting",
        State::Served => "served",
        State::Fallen => "fallen",
        State::Refused => "refused",
        State::Held => "held",
    })
}
