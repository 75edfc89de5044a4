//! The clock of the SQL side, which test builds can move, and ids for SQL. Never decides how an id is made.

use crate::{test_hooks, uuid_v7};
use pgrx::prelude::*;

/// The present moment, as jobs see it.
#[pg_extern(volatile, parallel_safe)]
pub(crate) fn _now() -> TimestampWithTimeZone {
    TimestampWithTimeZone::try_from(now_micros()).unwrap_or_else(|_| TimestampWithTimeZone::positive_infinity())
}

/// The same, in microseconds since the epoch of Postgres.
pub(crate) fn now_micros() -> i64 {
    // SAFETY: reads the system clock, no more.
    unsafe { pg_sys::GetCurrentTimestamp() }.saturating_add(test_hooks::clock_offset_micros())
}

/// A UUID version 7: later ones sort after earlier ones of the same process, whatever the resolution of the clock.
#[pg_extern(volatile, parallel_safe)]
pub(crate) fn _uuid_v7() -> pgrx::Uuid {
    uuid_v7::generate()
}
