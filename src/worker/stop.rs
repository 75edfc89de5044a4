//! Ending a call early: a word to the thread that waits, and the end of the socket it waits on. Knows nothing of
//! Postgres.

use crate::worker::pool::lock;
use std::sync::{Condvar, Mutex, PoisonError, Weak};
use std::time::Instant;
use ureq::unversioned::transport::ShutdownHandle;

/// Ends a waiting thread early.
#[derive(Default)]
pub(crate) struct Stop {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_asked: bool,
    socket: Option<Weak<dyn ShutdownHandle>>,
}

impl Stop {
    /// Asks the thread to end: what it waits for is over, and its socket is closed.
    pub(crate) fn ask(&self) {
        let mut state = lock(&self.state);
        state.is_asked = true;
        if let Some(socket) = state.socket.take().and_then(|socket| socket.upgrade()) {
            socket.shutdown();
        }
        self.changed.notify_all();
    }

    pub(crate) fn is_asked(&self) -> bool {
        lock(&self.state).is_asked
    }

    /// The socket the thread waits on from now on; false when it is to end instead.
    pub(crate) fn attach(&self, socket: &Weak<dyn ShutdownHandle>) -> bool {
        let mut state = lock(&self.state);
        if !state.is_asked {
            state.socket = Some(Weak::clone(socket));
        }
        !state.is_asked
    }

    /// The thread waits on no socket any more: the connection may be somebody else's.
    pub(crate) fn detach(&self) {
        lock(&self.state).socket = None;
    }

    /// Waits until the moment comes or a stop is asked for; true when it was.
    pub(crate) fn wait_until(&self, moment: Instant) -> bool {
        let mut state = lock(&self.state);
        while !state.is_asked {
            let Some(left) = moment.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
