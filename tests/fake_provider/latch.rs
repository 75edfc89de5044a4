//! Decides when something goes on that was told to wait: a condition in the hand of the test.
//!
//! Once lifted it stays lifted. Never waits itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Down until it is lifted; copies are the same latch.
#[derive(Debug, Clone, Default)]
pub struct Latch(Arc<AtomicBool>);

impl Latch {
    pub fn lift(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_down(&self) -> bool {
        !self.0.load(Ordering::SeqCst)
    }
}
