//! Hooks that only tests use: the settings `dialectic.clock_offset` and `dialectic.stop_at`.
//!
//! They exist in builds with the cargo feature `test-hooks` and in no other: without it the functions here do nothing,
//! and nobody can move the clock or stop the worker. Tests in the layer `release-surface` check that.

#[cfg(feature = "test-hooks")]
mod enabled;

#[cfg(feature = "test-hooks")]
pub(crate) use enabled::{clock_offset_micros, define_settings, stop_here, stop_inside};

#[cfg(not(feature = "test-hooks"))]
pub(crate) use disabled::{clock_offset_micros, define_settings, stop_here, stop_inside};

#[cfg(not(feature = "test-hooks"))]
mod disabled {
    pub(crate) fn define_settings() {}

    pub(crate) fn clock_offset_micros() -> i64 {
        0
    }

    pub(crate) fn stop_here(_place: &str) {}

    pub(crate) fn stop_inside(_place: &str) {}
}
