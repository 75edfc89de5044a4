//! Decides what follows a failed attempt: try again and when, hand the job back uncharged, or give up.
//!
//! Only the class of the failure counts, never the text of a message. Randomness comes in as an argument, so the same
//! arguments give the same verdict. Never sleeps, never reads a clock, never counts attempts itself.

use crate::provider::Class;
use std::time::Duration;

/// What to do with a job after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The fault is not the job's: back to the queue, no attempt charged.
    Return {
        /// Not before this much time has passed.
        after: Duration,
    },
    /// Charged, and tried again.
    Retry {
        /// Not before this much time has passed.
        after: Duration,
    },
    /// Charged, and no repetition can help.
    Fail,
    /// Charged, and that was the last attempt allowed.
    Exhausted,
}

/// The wait before the given attempt (counted from 1): exponential, with full jitter from `random` in 0..1.
pub fn delay(attempt: u32, base: Duration, max: Duration, random: f64) -> Duration {
    let doublings = attempt.saturating_sub(1);
    let ceiling = 1_u32.checked_shl(doublings).and_then(|factor| base.checked_mul(factor)).map_or(max, |d| d.min(max));
    // Beyond 31 doublings the factor no longer fits, and a base of zero stays zero however often it is doubled.
    let ceiling = if base.is_zero() { Duration::ZERO } else { ceiling };
    share(ceiling, random)
}

/// Integers, because `Duration::mul_f64` panics where rounding carries it over the largest duration.
fn share(whole: Duration, random: f64) -> Duration {
    const UNIT: u32 = u32::MAX;
    let random = if random.is_nan() { 1.0 } else { random.clamp(0.0, 1.0) };
    let nanos = whole.as_nanos() * (random * f64::from(UNIT)) as u128 / u128::from(UNIT);
    let (secs, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    Duration::new(secs.try_into().unwrap_or(u64::MAX), nanos as u32)
}

/// What follows a failure of this class, after `attempts_charged_before` failures that were charged to the job.
pub fn verdict(
    class: Class,
    attempts_charged_before: u32,
    max_retries: u32,
    retry_after: Option<Duration>,
    base: Duration,
    max: Duration,
    random: f64,
) -> Verdict {
    match class {
        // At least the base, and spread over as much again: the jobs of a throttled provider must not return as one.
        Class::Throttled => {
            Verdict::Return { after: retry_after.unwrap_or_else(|| base.saturating_add(delay(1, base, max, random))) }
        }
        // A wrong key mends only by hand; whoever mends it wakes the provider, so asking seldom loses nothing.
        Class::Configuration => Verdict::Return { after: retry_after.unwrap_or(max) },
        Class::Transient | Class::Content => {
            let attempt = attempts_charged_before.saturating_add(1);
            if attempt > max_retries || attempts_charged_before == u32::MAX {
                return Verdict::Exhausted;
            }
            Verdict::Retry { after: delay(attempt, base, max, random).max(retry_after.unwrap_or_default()) }
        }
        Class::Permanent | Class::ContextWindow | Class::Internal => Verdict::Fail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: Duration = Duration::from_secs(2);
    const MAX: Duration = Duration::from_secs(300);

    fn judge(class: Class, before: u32, retry_after: Option<Duration>) -> Verdict {
        verdict(class, before, 3, retry_after, BASE, MAX, 1.0)
    }

    #[test]
    fn the_wait_doubles_up_to_the_maximum() {
        let waits: Vec<u64> = (1..=10).map(|n| delay(n, BASE, MAX, 1.0).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(delay(5, BASE, MAX, 0.0), Duration::ZERO);
        assert_eq!(delay(1, BASE, MAX, 0.5).as_millis(), 999);
    }

    #[test]
    fn a_throttled_call_costs_no_attempt_and_obeys_the_provider() {
        let hour = Duration::from_secs(3600);
        assert_eq!(judge(Class::Throttled, 99, Some(hour)), Verdict::Return { after: hour });
        assert_eq!(judge(Class::Throttled, 0, None), Verdict::Return { after: BASE * 2 });
    }

    #[test]
    fn a_configuration_fault_is_never_charged_to_a_job() {
        assert_eq!(judge(Class::Configuration, 99, None), Verdict::Return { after: MAX });
    }

    #[test]
    fn three_retries_mean_four_attempts() {
        for class in [Class::Transient, Class::Content] {
            let verdicts: Vec<bool> = (0..5).map(|n| matches!(judge(class, n, None), Verdict::Retry { .. })).collect();
            assert_eq!(verdicts, [true, true, true, false, false]);
            assert_eq!(judge(class, 3, None), Verdict::Exhausted);
        }
    }

    #[test]
    fn what_repetition_cannot_mend_fails_at_once() {
        assert_eq!(judge(Class::Permanent, 0, None), Verdict::Fail);
        assert_eq!(judge(Class::ContextWindow, 0, Some(BASE)), Verdict::Fail);
    }

    fn durations() -> impl Strategy<Value = Duration> {
        prop_oneof![(any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)), Just(Duration::MAX)]
    }

    proptest! {
        #[test]
        fn no_number_is_too_absurd(
            attempt in prop_oneof![any::<u32>(), 0..70_u32],
            retries in any::<u32>(),
            base in durations(),
            max in durations(),
            hint in proptest::option::of(durations()),
            random in any::<f64>(),
        ) {
            prop_assert!(delay(attempt, base, max, random) <= max);
            for class in Class::ALL {
                match verdict(class, attempt, retries, hint, base, max, random) {
                    Verdict::Return { after } => prop_assert!(hint.is_none_or(|h| after == h)),
                    Verdict::Retry { after } => {
                        prop_assert!(attempt < retries);
                        prop_assert!(hint.is_none_or(|h| after >= h));
                    }
                    Verdict::Fail | Verdict::Exhausted => {}
                }
            }
        }

        #[test]
        fn more_attempts_never_wait_less(attempt in 1..100_u32, base in 0..10_000_u64, random in 0.0..1.0_f64) {
            let wait = |n| delay(n, Duration::from_millis(base), MAX, random);
            prop_assert!(wait(attempt) <= wait(attempt + 1));
        }

        #[test]
        fn a_throttled_call_waits_at_least_the_base(random in 0.0..1.0_f64) {
            let Verdict::Return { after } = verdict(Class::Throttled, 0, 0, None, BASE, MAX, random) else {
                return Err(TestCaseError::fail("charged"));
            };
            prop_assert!(after >= BASE);
        }
    }
}
