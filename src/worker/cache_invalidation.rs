//! What has changed in the tables that every claimer caches: the catalog and the cooldowns of providers.
//!
//! A trigger on each of these tables invalidates its entry in the relation cache, which reaches every process at the
//! start of its next transaction. Nobody polls and nothing expires.

use pgrx::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static CATALOG: AtomicBool = AtomicBool::new(true);
static COOLDOWNS: AtomicBool = AtomicBool::new(true);
static COOLDOWNS_TABLE: AtomicU32 = AtomicU32::new(0);
static KEPT_TABLES: [AtomicU32; 4] = [const { AtomicU32::new(0) }; 4];
/// The tables that the catalog is read from.
const KEPT: [&std::ffi::CStr; 4] = [c"configuration", c"models", c"providers", c"secrets"];

/// Begins to listen, in a transaction; all that was known is old.
pub(crate) fn listen() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: a look into the catalog, in a transaction.
    let schema = unsafe { pg_sys::get_namespace_oid(c"dialectic".as_ptr(), true) };
    // SAFETY: as above.
    let table = |name: &std::ffi::CStr| unsafe { pg_sys::get_relname_relid(name.as_ptr(), schema) }.to_u32();
    COOLDOWNS_TABLE.store(table(c"provider_cooldowns"), Ordering::Relaxed);
    for (kept, name) in KEPT_TABLES.iter().zip(KEPT) {
        kept.store(table(name), Ordering::Relaxed);
    }
    // SAFETY: the callback lives as long as the library, which is never unloaded.
    ONCE.call_once(|| unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(on_change), pg_sys::Datum::from(0)) });
    forget();
}

/// All that was known is old.
pub(crate) fn forget() {
    CATALOG.store(true, Ordering::Relaxed);
    COOLDOWNS.store(true, Ordering::Relaxed);
}

/// Whether there is something to read.
pub(crate) fn is_there() -> bool {
    CATALOG.load(Ordering::Relaxed) || COOLDOWNS.load(Ordering::Relaxed)
}

/// Hears, in the middle of a transaction, what others have committed since it began.
pub(crate) fn accept() {
    // SAFETY: in a transaction; what is forgotten by it is read again when it is needed.
    unsafe { pg_sys::AcceptInvalidationMessages() };
}

/// Whether the catalog has changed since the last time it was asked.
pub(crate) fn of_catalog() -> bool {
    CATALOG.swap(false, Ordering::Relaxed)
}

/// Whether a cooldown has changed since the last time it was asked.
pub(crate) fn of_cooldowns() -> bool {
    COOLDOWNS.swap(false, Ordering::Relaxed)
}

#[pg_guard]
unsafe extern "C-unwind" fn on_change(_arg: pg_sys::Datum, table: pg_sys::Oid) {
    let table = table.to_u32();
    if table == 0 || table == COOLDOWNS_TABLE.load(Ordering::Relaxed) {
        COOLDOWNS.store(true, Ordering::Relaxed);
    }
    if table == 0 || KEPT_TABLES.iter().any(|kept| kept.load(Ordering::Relaxed) == table) {
        CATALOG.store(true, Ordering::Relaxed);
    }
}

/// One of these tables has changed: every process hears of it at commit.
#[pg_extern(volatile)]
pub(crate) fn _catalog_changed(table: pg_sys::Oid) {
    // SAFETY: the server looks the table up, and raises an error when there is none.
    unsafe { pg_sys::CacheInvalidateRelcacheByRelid(table) };
}
