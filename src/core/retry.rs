//! Decides what becomes of a job after a failed attempt: its next status, whether the attempt is charged, and when it
//! is due again.
//!
//! Only the class of the failure counts, never the text of a message. Randomness comes in as an argument, so the same
//! arguments give the same result. Retries, cooldowns and circuits share [`Backoff::delay`]. Never sleeps, never reads a
//! clock, never counts attempts itself.

use crate::job::Status;
use crate::provider::Class;
use std::time::Duration;

/// How delays grow: the first is `base`, each further one twice as long, none longer than `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub base: Duration,
    /// The longest delay.
    pub max: Duration,
}

/// A failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAttempt {
    /// What kind of failure it was.
    pub class: Class,
    /// Whether a repetition cannot help, whatever the class.
    pub is_final: bool,
    /// Failed attempts that were charged to the job before.
    pub charged_before: u32,
    /// How many failed attempts may be repeated.
    pub max_retries: u32,
    /// The pause that the provider asked for.
    pub retry_after: Option<Duration>,
}

/// What becomes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobMove {
    /// Its next status.
    pub status: Status,
    /// Whether the attempt counts.
    pub is_charged: bool,
    /// It is not due before this much time has passed.
    pub after: Duration,
}

impl Backoff {
    /// The delay before the given attempt (counted from 1), with full jitter from `random` in 0..1.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let doublings = attempt.saturating_sub(1);
        let longest = 1_u32.checked_shl(doublings).and_then(|factor| self.base.checked_mul(factor));
        // Beyond 31 doublings the factor no longer fits, and a base of zero stays zero however often it is doubled.
        let longest = if self.base.is_zero() { Duration::ZERO } else { longest.map_or(self.max, |d| d.min(self.max)) };
        share(longest, random)
    }

    /// The delay before the given attempt, without jitter.
    pub fn full_delay(&self, attempt: u32) -> Duration {
        self.delay(attempt, 1.0)
    }
}

/// Integers, because `Duration::mul_f64` panics where rounding carries it over the largest duration.
fn share(whole: Duration, random: f64) -> Duration {
    const UNIT: u32 = u32::MAX;
    let random = if random.is_nan() { 1.0 } else { random.clamp(0.0, 1.0) };
    let nanos = whole.as_nanos() * (random * f64::from(UNIT)) as u128 / u128::from(UNIT);
    let (secs, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    Duration::new(secs.try_into().unwrap_or(u64::MAX), nanos as u32)
}

/// What becomes of a job after a failed attempt; a failure that is not its fault returns it to `claimed_from`.
pub fn after_failure(failed: &FailedAttempt, claimed_from: Status, backoff: &Backoff, random: f64) -> JobMove {
    let ended = |status| JobMove { status, is_charged: true, after: Duration::ZERO };
    if failed.is_final {
        return ended(Status::Failed);
    }
    match failed.class {
        // The provider is at fault: its cooldown delays the job, and nothing else does.
        Class::Throttled | Class::Configuration => {
            JobMove { status: claimed_from, is_charged: false, after: Duration::ZERO }
        }
        Class::Transient | Class::Content => match failed.charged_before.checked_add(1) {
            Some(attempt) if attempt <= failed.max_retries => {
                let after = backoff.delay(attempt, random).max(failed.retry_after.unwrap_or_default());
                JobMove { status: Status::Retrying, is_charged: true, after }
            }
            _ => ended(Status::RetryLoopFailed),
        },
        Class::Permanent | Class::ContextWindow | Class::Internal => ended(Status::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BACKOFF: Backoff = Backoff { base: Duration::from_secs(2), max: Duration::from_secs(300) };

    fn failed(class: Class, charged_before: u32, retry_after: Option<Duration>) -> FailedAttempt {
        FailedAttempt { class, is_final: false, charged_before, max_retries: 3, retry_after }
    }

    fn moved(class: Class, charged_before: u32, retry_after: Option<Duration>) -> JobMove {
        after_failure(&failed(class, charged_before, retry_after), Status::Pending, &BACKOFF, 1.0)
    }

    #[test]
    fn delay_doubles_up_to_the_maximum() {
        let waits: Vec<u64> = (1..=10).map(|n| BACKOFF.full_delay(n).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(BACKOFF.delay(5, 0.0), Duration::ZERO);
        assert_eq!(BACKOFF.delay(1, 0.5).as_millis(), 999);
    }

    #[test]
    fn failure_of_the_provider_returns_the_job_uncharged_and_due() {
        let hour = Duration::from_secs(3600);
        for (class, hint) in [(Class::Throttled, Some(hour)), (Class::Throttled, None), (Class::Configuration, None)] {
            for claimed_from in [Status::Pending, Status::PendingContinuation, Status::Retrying] {
                let moved = after_failure(&failed(class, 99, hint), claimed_from, &BACKOFF, 1.0);
                assert_eq!(moved, JobMove { status: claimed_from, is_charged: false, after: Duration::ZERO });
            }
        }
    }

    #[test]
    fn three_retries_mean_four_attempts() {
        for class in [Class::Transient, Class::Content] {
            let statuses = (0..5).map(|n| moved(class, n, None).status).collect::<Vec<_>>();
            let (retrying, ended) = (Status::Retrying, Status::RetryLoopFailed);
            assert_eq!(statuses, [retrying, retrying, retrying, ended, ended]);
        }
    }

    #[test]
    fn failure_that_repetition_cannot_help_fails_the_job() {
        for class in [Class::Permanent, Class::ContextWindow, Class::Internal] {
            assert_eq!(moved(class, 0, Some(BACKOFF.base)).status, Status::Failed);
        }
        let last = FailedAttempt { is_final: true, ..failed(Class::Content, 0, None) };
        assert_eq!(after_failure(&last, Status::Pending, &BACKOFF, 1.0).status, Status::Failed);
    }

    fn durations() -> impl Strategy<Value = Duration> {
        prop_oneof![(any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)), Just(Duration::MAX)]
    }

    proptest! {
        #[test]
        fn extreme_numbers_do_not_panic(
            charged_before in prop_oneof![any::<u32>(), 0..70_u32, Just(u32::MAX)],
            max_retries in any::<u32>(),
            base in durations(),
            max in durations(),
            retry_after in proptest::option::of(durations()),
            random in any::<f64>(),
        ) {
            let backoff = Backoff { base, max };
            prop_assert!(backoff.delay(charged_before, random) <= max);
            for class in Class::ALL {
                let failed = FailedAttempt { class, is_final: false, charged_before, max_retries, retry_after };
                let moved = after_failure(&failed, Status::Pending, &backoff, random);
                prop_assert!(Status::Processing.may_become(moved.status));
                if moved.status == Status::Retrying {
                    prop_assert!(charged_before < max_retries);
                    prop_assert!(retry_after.is_none_or(|asked| moved.after >= asked));
                } else {
                    prop_assert_eq!(moved.after, Duration::ZERO);
                }
            }
        }

        #[test]
        fn more_attempts_never_wait_less(attempt in 1..100_u32, base in 0..10_000_u64, random in 0.0..1.0_f64) {
            let backoff = Backoff { base: Duration::from_millis(base), ..BACKOFF };
            prop_assert!(backoff.delay(attempt, random) <= backoff.delay(attempt + 1, random));
        }
    }
}
