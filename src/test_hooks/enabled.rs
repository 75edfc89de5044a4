//! The hooks of a test build. Nothing here runs unless a superuser has set one of the settings.

use crate::worker::database_worker::{is_worker, report_activity};
use crate::worker::signals;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use std::ffi::CString;
use std::time::Duration;

/// How far the clock of SQL is moved, in seconds.
static CLOCK_OFFSET: GucSetting<f64> = GucSetting::<f64>::new(0.0);
/// Where the worker stops and waits, so that a test can kill it there.
static STOP_AT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
/// How often a registered waiter checks the state of its session, in milliseconds; -1 for the default.
static WAIT_POLL_MS: GucSetting<i32> = GucSetting::<i32>::new(-1);

/// Defines the settings of the hooks.
pub(crate) fn define_settings() {
    GucRegistry::define_float_guc(
        c"dialectic.clock_offset",
        c"Moves the clock that jobs go by, in seconds.",
        c"For tests only.",
        &CLOCK_OFFSET,
        -1e9,
        1e9,
        GucContext::Suset,
        GucFlags::NO_SHOW_ALL,
    );
    GucRegistry::define_string_guc(
        c"dialectic.stop_at",
        c"Where the worker stops and waits.",
        c"For tests only: claimed, prompt_saved, calling, answered or between_batches.",
        &STOP_AT,
        GucContext::Sighup,
        GucFlags::NO_SHOW_ALL,
    );
    GucRegistry::define_int_guc(
        c"dialectic.wait_poll_ms",
        c"How often a registered waiter checks the state of its session.",
        c"For tests only.",
        &WAIT_POLL_MS,
        -1,
        i32::MAX,
        GucContext::Suset,
        GucFlags::NO_SHOW_ALL,
    );
}

/// How often a registered waiter checks the state of its session.
pub(crate) fn wait_poll_interval(default: Duration) -> Duration {
    u64::try_from(WAIT_POLL_MS.get()).map_or(default, Duration::from_millis)
}

/// The offset of the clock, in microseconds.
pub(crate) fn clock_offset_micros() -> i64 {
    (CLOCK_OFFSET.get() * 1e6) as i64
}

/// Stops the worker between two transactions, where `stop_at` names this place, until `stop_at` is changed.
pub(crate) fn stop_here(place: &str) {
    let mut shown = false;
    while stop_at().as_deref() == Some(place) {
        if !shown {
            report_activity(&format!("stopped at {place}"));
            shown = true;
        }
        signals::wait(None, None);
    }
}

/// Stops the worker inside a transaction, whose writes are not committed yet, at the place `inside_…`.
pub(crate) fn stop_inside(place: &str) {
    if is_worker() && stop_at().is_some() {
        stop_here(&format!("inside_{place}"));
    }
}

fn stop_at() -> Option<String> {
    STOP_AT.get().and_then(|value| value.into_string().ok())
}
