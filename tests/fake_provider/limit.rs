//! Decides whether a request is let through: a bucket that fills at a rate, and of which every request takes its cost.
//!
//! Time is an argument, so that the arithmetic is the same in a law and on the wire. A request that costs more than the bucket
//! holds costs a full bucket: otherwise it could never be served. Never waits.

use super::Wait;
use std::time::{Duration, Instant};

/// What a limit counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Requests,
    /// What the answer's usage will say, input and output.
    Tokens,
}

/// A limit of the server.
#[derive(Debug, Clone)]
pub struct Limit {
    /// The model it holds for; none for all of them together.
    pub model: Option<String>,
    pub unit: Unit,
    pub per_second: f64,
    pub burst: f64,
    /// How the 429 says when to come back.
    pub says: Wait,
}

/// A limit and how much of it is left.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) limit: Limit,
    level: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn new(limit: Limit, now: Instant) -> Self {
        Bucket { level: limit.burst, limit, at: now }
    }

    /// How long until this cost can be taken; nothing is taken.
    pub(super) fn wait(&mut self, cost: f64, now: Instant) -> Option<Duration> {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.level = (self.level + passed * self.limit.per_second).min(self.limit.burst);
        self.at = self.at.max(now);
        let missing = cost.min(self.limit.burst) - self.level;
        // What is missing by the rounding of floats is not missing.
        (missing > 1e-9).then(|| Duration::from_secs_f64(missing / self.limit.per_second))
    }

    /// Takes a cost that need not be waited for.
    pub(super) fn take(&mut self, cost: f64) {
        self.level -= cost.min(self.limit.burst);
    }
}
