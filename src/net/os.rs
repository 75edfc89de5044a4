//! System calls that the standard library does not offer. The only file of this crate with `unsafe`.
//!
//! Where a call fails or the platform does not have it, nothing changes: none is needed for a correct result.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// The most malloc arenas of this process.
#[cfg(target_env = "gnu")]
const MALLOC_ARENAS: i32 = 128;

/// Raises glibc's arena limit, so that low-priority call threads rarely share an arena with the main thread: a
/// preempted thread that holds an arena lock would block it.
pub(crate) fn raise_arena_limit() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a limit of the allocator, and takes no pointer.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, MALLOC_ARENAS)
    };
}

/// Lowers the priority of the calling thread: it gets less time, and does not preempt other threads when it wakes.
#[cfg(target_os = "linux")]
pub(crate) fn lower_thread_priority(nice: i32) {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread on Linux, and the parameters outlive the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters) };
    // SAFETY: 0 is the calling thread on Linux; no pointer is passed.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

/// Other platforms count `nice` per process, which would slow the main thread down too.
#[cfg(not(target_os = "linux"))]
pub(crate) fn lower_thread_priority(_nice: i32) {}

/// Runs `spawn` with all signals blocked: the thread it starts inherits the mask and never runs a handler of the
/// server.
pub(crate) fn with_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    let _mask = BlockedSignals::new();
    spawn()
}

/// Holds the signal mask from before; dropping it restores that mask.
struct BlockedSignals(Option<libc::sigset_t>);

impl BlockedSignals {
    fn new() -> Self {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the set may be uninitialised; the call fills it.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: `all` is filled above, and `before` may be uninitialised.
        let failed = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) } != 0;
        // SAFETY: the call that did not fail has filled it.
        BlockedSignals((!failed).then(|| unsafe { before.assume_init() }))
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // SAFETY: `before` is a mask that the same call returned.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: i32) -> bool {
        let mut now = MaybeUninit::uninit();
        // SAFETY: a null set changes nothing; the call fills `now`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), now.as_mut_ptr()) };
        // SAFETY: filled above.
        unsafe { libc::sigismember(now.as_ptr(), signal) == 1 }
    }

    #[test]
    fn spawned_thread_has_signals_blocked_and_its_parent_has_not() {
        let thread = with_signals_blocked(|| std::thread::spawn(|| is_blocked(libc::SIGUSR1)));
        assert!(thread.join().unwrap());
        assert!(!is_blocked(libc::SIGUSR1));
    }

    #[test]
    fn signal_mask_is_restored_after_a_panic() {
        let panicked = std::panic::catch_unwind(|| with_signals_blocked(|| panic!("in the closure")));
        assert!(panicked.is_err());
        assert!(!is_blocked(libc::SIGUSR1));
    }
}
