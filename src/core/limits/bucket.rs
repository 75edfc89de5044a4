//! Decides how much of what is allowed per minute is there now: a bucket that fills evenly and holds very little.
//!
//! All in integers, so nothing drifts however long it runs. Never takes more than was asked, never asks whether it may: that is
//! [`super`].

use std::time::Duration;

/// One request or one token. With n allowed per minute exactly n of these grains flow in per nanosecond.
const WHOLE: i128 = 60_000_000_000;
/// A bucket holds what flows in during so many nanoseconds, or one whole: calls are paced, not sent in bursts.
const BURST: i128 = 100_000_000;

/// What is left of an allowance per minute. A level below zero is a debt.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    per_minute: u32,
    level: i128,
    at: Duration,
}

impl Bucket {
    /// A full one.
    pub(super) fn new(per_minute: u32, now: Duration) -> Self {
        let mut bucket = Bucket { per_minute, level: 0, at: now };
        bucket.level = bucket.capacity();
        bucket
    }

    /// Fills at another rate from now on. What is owed stays owed, and is paid at the new rate.
    pub(super) fn change(&mut self, per_minute: u32, now: Duration) {
        self.add(0, now);
        self.per_minute = per_minute;
    }

    pub(super) fn per_minute(&self) -> u32 {
        self.per_minute
    }

    /// How many calls of this size could take from it now; none where it does not hold them back.
    pub(super) fn room(&self, size: u64, now: Duration) -> Option<u64> {
        let (level, need) = (self.level(now), self.need(size));
        if self.per_minute == 0 || level < need {
            return Some(0);
        }
        // What is larger than the bucket leaves a debt behind it, so it goes alone.
        let taken = grains(size);
        (taken > 0).then(|| (level / taken).max(1).try_into().unwrap_or(u64::MAX))
    }

    /// When it will hold enough for a call of this size.
    pub(super) fn ready(&self, size: u64, now: Duration) -> Duration {
        let missing = self.need(size).saturating_sub(self.level(now));
        match (missing, i128::from(self.per_minute)) {
            (_, 0) => Duration::MAX,
            (..=0, _) => now,
            // Rounded up: a nanosecond early is too early.
            (missing, rate) => now.max(self.at).saturating_add(nanoseconds((missing - 1) / rate + 1)),
        }
    }

    /// Takes so much, into debt where it must.
    pub(super) fn take(&mut self, size: u64, now: Duration) {
        self.add(-grains(size), now);
    }

    /// Puts back so much; what it cannot hold is lost.
    pub(super) fn put(&mut self, size: u64, now: Duration) {
        self.add(grains(size), now);
    }

    fn add(&mut self, grains: i128, now: Duration) {
        self.level = self.level(now).saturating_add(grains);
        self.at = self.at.max(now);
    }

    fn capacity(&self) -> i128 {
        WHOLE.max(BURST * i128::from(self.per_minute))
    }

    /// A call larger than the bucket waits until the bucket is full, not for ever.
    fn need(&self, size: u64) -> i128 {
        grains(size).min(self.capacity())
    }

    /// What it cannot hold is lost, and a clock that went back fills nothing. The longest time at the highest rate
    /// comes to 2^126 grains, which fits.
    fn level(&self, now: Duration) -> i128 {
        let passed = now.saturating_sub(self.at).as_nanos() as i128;
        self.level.saturating_add(passed * i128::from(self.per_minute)).min(self.capacity())
    }
}

fn grains(size: u64) -> i128 {
    i128::from(size) * WHOLE
}

fn nanoseconds(count: i128) -> Duration {
    const SECOND: i128 = 1_000_000_000;
    u64::try_from(count / SECOND).map_or(Duration::MAX, |secs| Duration::new(secs, (count % SECOND) as u32))
}
