//! How ids are made: UUIDs version 7, from the true clock of the server. Test builds never move it.

use pgrx::prelude::*;
use std::cell::{Cell, RefCell};

/// Microseconds from the Unix epoch to that of Postgres.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

/// A UUID version 7: later ones sort after earlier ones of the same process, whatever the resolution of the clock.
pub(crate) fn generate() -> pgrx::Uuid {
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

/// Eight strong random bytes. Reading them is slow, so a process reads many at a time; a child process never uses the
/// bytes that its parent has read.
fn random_bytes() -> [u8; 8] {
    const BATCH: usize = 4096;
    thread_local! { static STORE: RefCell<(u32, usize, [u8; BATCH])> = const { RefCell::new((0, BATCH, [0; BATCH])) }; }
    STORE.with_borrow_mut(|(owner, used, bytes)| {
        let process = std::process::id();
        if *owner != process || *used + 8 > BATCH {
            // SAFETY: fills exactly the buffer it is given.
            if !unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), BATCH) } {
                pgrx::error!("could not generate random bytes for a UUID");
            }
            (*owner, *used) = (process, 0);
        }
        let mut eight = [0u8; 8];
        eight.copy_from_slice(&bytes[*used..*used + 8]);
        *used += 8;
        eight
    })
}
