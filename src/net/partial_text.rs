//! The text of a streaming answer that is not stored yet. The call thread writes it; the main thread takes it.
//!
//! The main thread never waits for it: a low-priority thread may be preempted while it holds the lock.

use crate::lock;
use std::sync::{Mutex, TryLockError};

/// Text that arrived since it was last taken.
#[derive(Debug, Default)]
pub(crate) struct PartialText(Mutex<String>);

impl PartialText {
    /// Appends text, without the one character that Postgres cannot store.
    pub(crate) fn push(&self, text: &str) {
        if !text.is_empty() {
            lock(&self.0).extend(text.chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }));
        }
    }

    /// Takes the text; none while the call thread writes it. Returns a copy, because freeing memory that another
    /// thread allocated may wait for that thread's arena.
    pub(crate) fn take(&self) -> Option<String> {
        let mut text = match self.0.try_lock() {
            Ok(text) => text,
            Err(TryLockError::Poisoned(text)) => text.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let copy = text.clone();
        text.clear();
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_taken_once_and_without_nul() {
        let text = PartialText::default();
        text.push("one\0");
        text.push("two");
        assert_eq!(text.take().as_deref(), Some("one\u{fffd}two"));
        assert_eq!(text.take().as_deref(), Some(""));
    }

    #[test]
    fn reader_does_not_wait_for_the_writer() {
        let text = PartialText::default();
        let writing = lock(&text.0);
        assert_eq!(text.take(), None);
        drop(writing);
        assert_eq!(text.take().as_deref(), Some(""));
    }
}
