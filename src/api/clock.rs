//! The clock of the SQL side, which test builds can move, and ids for SQL. Never decides how an id is made.

use crate::{test_hooks, uuid_v7};
use pgrx::prelude::*;

/// The present moment, as jobs see it.
#[pg_extern(volatile, parallel_safe)]
pub(crate) fn _now() -> TimestampWithTimeZone {
    // SAFETY: reads the system clock, no more.
    let present = unsafe { pg_sys::GetCurrentTimestamp() } + test_hooks::clock_offset_micros();
    TimestampWithTimeZone::try_from(present).unwrap_or_else(|_| TimestampWithTimeZone::positive_infinity())
}

/// A UUID version 7: later ones sort after earlier ones of the same process, whatever the resolution of the clock.
#[pg_extern(volatile, parallel_safe)]
pub(crate) fn _uuid_v7() -> pgrx::Uuid {
    uuid_v7::generate()
}
