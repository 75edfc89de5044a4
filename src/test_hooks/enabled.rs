//! The hooks of a test build. Nothing here runs unless a superuser has set one of the two settings.

use crate::worker::database_worker::{is_worker, report_activity};
use crate::worker::signals;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use std::ffi::CString;

/// How far the clock of SQL is moved, in seconds.
static CLOCK_OFFSET: GucSetting<f64> = GucSetting::<f64>::new(0.0);
/// Where the worker stops and waits, so that a test can kill it there.
static STOP_AT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

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
