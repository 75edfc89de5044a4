//! Signals and waiting in our own processes: SIGTERM ends them wherever they can be ended, SIGHUP has them read the
//! configuration again, and every wait is on the latch, so that barriers of the server are answered at once.

use pgrx::pg_sys;
use std::os::fd::RawFd;
use std::time::Duration;

// The handlers themselves, not pgrx's wrappers around them: nothing of Rust may run in a signal handler.
unsafe extern "C-unwind" {
    fn die(signal: core::ffi::c_int);
    fn SignalHandlerForConfigReload(signal: core::ffi::c_int);
    fn procsignal_sigusr1_handler(signal: core::ffi::c_int);
}

#[cfg(not(feature = "pg18"))]
use pg_sys::pqsignal;
#[cfg(feature = "pg18")]
use pg_sys::pqsignal_be as pqsignal;

/// Ends the process. PostgreSQL 18's headers no longer tell bindgen that `proc_exit` does not return.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: runs the exit callbacks of the server and ends the process; the caller holds nothing open.
    #[allow(unreachable_code)]
    unsafe {
        pg_sys::proc_exit(code);
        unreachable!("proc_exit does not return")
    }
}

/// Installs the handlers and lets signals in.
pub(crate) fn settle() {
    // SAFETY: called once at the start of a background process, with handlers of the server.
    unsafe {
        pqsignal(libc::SIGTERM, Some(die));
        pqsignal(libc::SIGHUP, Some(SignalHandlerForConfigReload));
        pqsignal(libc::SIGUSR1, Some(procsignal_sigusr1_handler));
        pg_sys::BackgroundWorkerUnblockSignals();
    }
}

/// Waits for the latch, the socket or the time, whichever comes first, and does what the server asks for meanwhile.
pub(crate) fn wait(time: Option<Duration>, socket: Option<RawFd>) {
    let mut events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH;
    if time.is_some() {
        events |= pg_sys::WL_TIMEOUT;
    }
    if socket.is_some() {
        events |= pg_sys::WL_SOCKET_READABLE;
    }
    // Rounded up: a wait that ends a moment too early would be repeated for nothing.
    let milliseconds = time.map_or(-1, |time| i64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i64::MAX));
    // SAFETY: the latch is the process's own; the socket is open, for its owner is the caller.
    unsafe {
        pg_sys::WaitLatchOrSocket(
            pg_sys::MyLatch,
            events as i32,
            socket.unwrap_or(pg_sys::PGINVALID_SOCKET),
            milliseconds,
            pg_sys::PG_WAIT_EXTENSION,
        );
    }
    reset();
}

/// Resets the latch and does what the server asks for. The caller then reads what it was told: a latch that is set for
/// something already read would end the next wait for nothing.
pub(crate) fn reset() {
    // SAFETY: the latch is the process's own.
    unsafe { pg_sys::ResetLatch(pg_sys::MyLatch) };
    heed();
}

/// Ends the process, or the statement, or answers a barrier, if that is asked for.
pub(crate) fn interrupts() {
    pgrx::check_for_interrupts!();
}

/// As `interrupts`; in our own processes the configuration is read again if it changed.
pub(crate) fn heed() {
    interrupts();
    // SAFETY: the flag is set by the handler of this process alone; a backend reads it between statements.
    unsafe {
        if !pg_sys::MyBgworkerEntry.is_null() && pg_sys::ConfigReloadPending != 0 {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}
