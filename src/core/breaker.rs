//! Decides whether the circuit of a provider that keeps failing is open, and for how long.
//!
//! After [`THRESHOLD`] failures in a row the circuit opens: nobody calls the provider until the time is over. Then one
//! call at a time is let through; a failure opens the circuit again for longer, a success closes it. The caller keeps
//! the count of failures and passes randomness in. Never reads a clock, never decides what becomes of a job.

use crate::provider::Class;
use crate::retry::Backoff;
use std::time::Duration;

/// This many failures in a row open the circuit.
pub const THRESHOLD: u32 = 5;

/// Whether a failure of this class counts against the provider.
///
/// Only what the provider failed to do. A provider that throttles works, one with a wrong key is paused until a person
/// corrects it, and all other classes are about what was asked or answered.
pub fn counts(class: Class) -> bool {
    match class {
        Class::Transient => true,
        Class::Throttled
        | Class::Configuration
        | Class::Content
        | Class::Permanent
        | Class::ContextWindow
        | Class::Internal => false,
    }
}

/// How long the circuit is open after this many failures in a row; none while it stays closed.
///
/// At least the base, plus a delay that doubles with each failed probe, with full jitter; never above the maximum.
pub fn opened(failures: u32, backoff: &Backoff, random: f64) -> Option<Duration> {
    let opening = failures.checked_sub(THRESHOLD)?.saturating_add(1);
    Some(backoff.base.saturating_add(backoff.delay(opening, random)).min(backoff.max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BACKOFF: Backoff = Backoff { base: Duration::from_secs(10), max: Duration::from_secs(300) };

    #[test]
    fn only_what_the_provider_failed_to_do_counts_against_it() {
        let counted: Vec<Class> = Class::ALL.into_iter().filter(|class| counts(*class)).collect();
        assert_eq!(counted, [Class::Transient]);
    }

    #[test]
    fn the_fifth_failure_in_a_row_opens_the_circuit_and_a_success_closes_it() {
        let open: Vec<bool> = (0..8).map(|failures| opened(failures, &BACKOFF, 0.5).is_some()).collect();
        assert_eq!(open, [false, false, false, false, false, true, true, true]);
    }

    #[test]
    fn each_failed_probe_doubles_what_comes_on_top_of_the_base_up_to_the_maximum() {
        let waits = |random| (5..12).map(|failures| opened(failures, &BACKOFF, random).unwrap().as_secs()).collect();
        let (longest, shortest): (Vec<u64>, Vec<u64>) = (waits(1.0), waits(0.0));
        assert_eq!(longest, [20, 30, 50, 90, 170, 300, 300]);
        assert_eq!(shortest, [10; 7]);
    }

    fn durations() -> impl Strategy<Value = Duration> {
        prop_oneof![(any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)), Just(Duration::MAX)]
    }

    proptest! {
        #[test]
        fn no_number_is_too_absurd(
            failures in prop_oneof![any::<u32>(), 0..70_u32, Just(u32::MAX)],
            base in durations(),
            max in durations(),
            random in any::<f64>(),
        ) {
            match opened(failures, &Backoff { base, max }, random) {
                None => prop_assert!(failures < THRESHOLD),
                Some(wait) => {
                    prop_assert!(failures >= THRESHOLD);
                    prop_assert!(wait <= max);
                    prop_assert!(wait >= base.min(max));
                }
            }
        }

        #[test]
        fn more_failures_never_open_it_for_less(
            failures in 0..100_u32, base in 0..10_000_u64, random in 0.0..1.0_f64,
        ) {
            let wait = |n| opened(n, &Backoff { base: Duration::from_millis(base), ..BACKOFF }, random);
            prop_assert!(wait(failures) <= wait(failures + 1));
        }

        #[test]
        fn two_that_open_together_need_not_close_together(failures in 5..100_u32, random in 0.0..0.4_f64) {
            prop_assert!(opened(failures, &BACKOFF, random) < opened(failures, &BACKOFF, random + 0.5));
        }
    }
}
