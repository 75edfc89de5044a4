//! What a call has heard since somebody last looked. Written by the thread of the call, read by the main thread, which
//! waits for nobody: a thread that stands back may keep what it holds for long.

use std::sync::{Mutex, TryLockError};

/// The end of a text that is still coming.
#[derive(Debug, Default)]
pub(crate) struct Tail(Mutex<String>);

impl Tail {
    /// The text goes on.
    pub(crate) fn push(&self, text: &str) {
        if !text.is_empty() {
            let mut tail = crate::worker::pool::lock(&self.0);
            // Without the one character that Postgres cannot store.
            tail.extend(text.chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }));
        }
    }

    /// All that came since the last time; none while somebody writes. It is a copy: to free what another thread has
    /// allocated may mean to wait for that thread.
    pub(crate) fn take(&self) -> Option<String> {
        let mut tail = match self.0.try_lock() {
            Ok(tail) => tail,
            Err(TryLockError::Poisoned(tail)) => tail.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let text = tail.clone();
        tail.clear();
        Some(text)
    }
}
