//! Time and the ids made from it. `_now` is the only clock of the SQL side; test builds can move it. Ids go by the true
//! clock always.

use crate::test_hooks;
use pgrx::prelude::*;
use std::cell::{Cell, RefCell};

/// Microseconds from the Unix epoch to that of Postgres.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

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
    thread_local! { static LAST: Cell<u64> = const { Cell::new(0) }; }
    // SAFETY: reads the system clock, no more.
    let micros = (unsafe { pg_sys::GetCurrentTimestamp() } + POSTGRES_EPOCH) as u64;
    // 48 bits of milliseconds, then 12 bits that count quarter-microseconds, so that ids made within one still differ
    // in order.
    let tick = ((micros / 1000) << 12) | ((micros % 1000) << 2);
    let tick = LAST.with(|last| {
        let next = tick.max(last.get() + 1);
        last.set(next);
        next
    });
    let random = random_bytes();
    let high = ((tick >> 12) << 16) | 0x7000 | (tick & 0xfff);
    let low = (u64::from_be_bytes(random) & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
    let mut bytes = [0u8; 16];
    bytes[..8].copy_from_slice(&high.to_be_bytes());
    bytes[8..].copy_from_slice(&low.to_be_bytes());
    pgrx::Uuid::from_bytes(bytes)
}

/// Eight strong random bytes. They are asked for many at a time, for asking is slow; a process never uses those of its
/// parent.
fn random_bytes() -> [u8; 8] {
    const MANY: usize = 4096;
    thread_local! { static STORE: RefCell<(u32, usize, [u8; MANY])> = const { RefCell::new((0, MANY, [0; MANY])) }; }
    STORE.with_borrow_mut(|(owner, used, bytes)| {
        let process = std::process::id();
        if *owner != process || *used + 8 > MANY {
            // SAFETY: fills exactly the buffer it is given.
            if !unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), MANY) } {
                pgrx::error!("no random bytes are to be had");
            }
            (*owner, *used) = (process, 0);
        }
        let mut eight = [0u8; 8];
        eight.copy_from_slice(&bytes[*used..*used + 8]);
        *used += 8;
        eight
    })
}
