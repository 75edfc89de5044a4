//! Hooks that only tests use: the settings `dialectic.clock_offset`, `dialectic.stop_at` and `dialectic.wait_poll_ms`.
//!
//! They exist in builds with the cargo feature `test-hooks` and in no other: without it the functions here do nothing,
//! and nobody can move the clock, stop the worker or keep `wait` from polling. Tests in the layer `release-surface`
//! check that.

#[cfg(feature = "test-hooks")]
mod enabled;

#[cfg(feature = "test-hooks")]
pub(crate) use enabled::{clock_offset_micros, define_settings, stop_here, stop_inside, wait_poll_interval};

#[cfg(not(feature = "test-hooks"))]
pub(crate) use disabled::{clock_offset_micros, define_settings, stop_here, stop_inside, wait_poll_interval};

#[cfg(not(feature = "test-hooks"))]
mod disabled {
    pub(crate) fn define_settings() {}

    pub(crate) fn clock_offset_micros() -> i64 {
        0
    }

    pub(crate) fn stop_here(_place: &str) {}

    pub(crate) fn stop_inside(_place: &str) {}

    pub(crate) fn wait_poll_interval(default: std::time::Duration) -> std::time::Duration {
        default
    }
}
