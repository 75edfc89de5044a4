//! Cancelling a call: a flag, a wake-up for a thread that sleeps, and a shutdown of the socket that it reads.

use crate::lock;
use std::sync::{Condvar, Mutex, PoisonError, Weak};
use std::time::Instant;
use ureq::unversioned::transport::ShutdownHandle;

/// Shared by the main thread, which cancels, and the thread of one call.
#[derive(Default)]
pub(crate) struct CancelToken {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_cancelled: bool,
    socket: Option<Weak<dyn ShutdownHandle>>,
}

impl CancelToken {
    /// Cancels the call: its sleep ends, and its socket is shut down.
    pub(crate) fn cancel(&self) {
        let mut state = lock(&self.state);
        state.is_cancelled = true;
        if let Some(socket) = state.socket.take().and_then(|socket| socket.upgrade()) {
            socket.shutdown();
        }
        self.changed.notify_all();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        lock(&self.state).is_cancelled
    }

    /// Registers the socket that the thread is about to wait on; false when the call is cancelled already.
    pub(crate) fn attach_socket(&self, socket: &Weak<dyn ShutdownHandle>) -> bool {
        let mut state = lock(&self.state);
        if !state.is_cancelled {
            state.socket = Some(Weak::clone(socket));
        }
        !state.is_cancelled
    }

    /// Forgets the socket: its connection may serve another call from now on.
    pub(crate) fn detach_socket(&self) {
        lock(&self.state).socket = None;
    }

    /// Sleeps until the deadline or a cancellation; true when the call was cancelled.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        let mut state = lock(&self.state);
        while !state.is_cancelled {
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[derive(Debug, Default)]
    struct Socket(AtomicUsize);

    impl ShutdownHandle for Socket {
        fn shutdown(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn socket() -> (Arc<Socket>, Weak<dyn ShutdownHandle>) {
        let socket = Arc::new(Socket::default());
        let weak: Weak<Socket> = Arc::downgrade(&socket);
        (socket, weak)
    }

    #[test]
    fn cancelling_ends_a_sleep_early() {
        let token = Arc::new(CancelToken::default());
        let sleeper = Arc::clone(&token);
        let thread = std::thread::spawn(move || sleeper.wait_until(Instant::now() + Duration::from_secs(600)));
        token.cancel();
        assert!(thread.join().unwrap());
    }

    #[test]
    fn sleep_ends_at_the_deadline_without_a_cancellation() {
        assert!(!CancelToken::default().wait_until(Instant::now() + Duration::from_millis(1)));
    }

    #[test]
    fn cancelling_shuts_the_attached_socket_down() {
        let token = CancelToken::default();
        let (socket, weak) = socket();
        assert!(token.attach_socket(&weak));
        token.cancel();
        assert_eq!(socket.0.load(Ordering::SeqCst), 1);
        assert!(!token.attach_socket(&weak), "a cancelled call waits on no socket");
    }

    #[test]
    fn cancelling_leaves_a_detached_socket_open() {
        let token = CancelToken::default();
        let (socket, weak) = socket();
        assert!(token.attach_socket(&weak));
        token.detach_socket();
        token.cancel();
        assert_eq!(socket.0.load(Ordering::SeqCst), 0);
    }
}
