//! Decides how many durations are counted so that their quantiles can be told: four steps to each doubling, from a
//! microsecond on.
//!
//! A fixed size, whatever is counted, so that it fits into shared memory. Never forgets and never measures.

/// Four steps a doubling, up to more than a minute.
const STEPS: usize = 108;

/// Counted durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram([u32; STEPS]);

impl Histogram {
    /// Nothing is counted yet.
    pub const EMPTY: Self = Histogram([0; STEPS]);

    /// Counts a duration.
    pub fn count(&mut self, micros: u64) {
        let at = (4.0 * (micros.max(1) as f64).log2()) as usize;
        let step = &mut self.0[at.min(STEPS - 1)];
        *step = step.saturating_add(1);
    }

    /// The duration, in microseconds, that this share of all stays within; none when nothing is counted. Never told too
    /// short, and at most a fifth too long.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let total: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let wanted = ((total as f64) * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.0.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return Some(((at + 1) as f64 / 4.0).exp2());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Histogram::EMPTY.quantile(0.99), None);
    }

    #[test]
    fn one_in_a_hundred_does_not_move_the_99th_and_two_do() {
        let mut counted = Histogram::EMPTY;
        (0..99).for_each(|_| counted.count(100));
        counted.count(1_000_000);
        assert!(counted.quantile(0.99).unwrap() < 130.0);
        counted.count(1_000_000);
        assert!(counted.quantile(0.99).unwrap() >= 1_000_000.0);
    }

    proptest! {
        #[test]
        fn a_quantile_is_never_too_short_and_at_most_a_fifth_too_long(
            mut micros in proptest::collection::vec(1..60_000_000_u64, 1..200),
            share in 0.01..1.0_f64,
        ) {
            let mut counted = Histogram::EMPTY;
            micros.iter().for_each(|one| counted.count(*one));
            micros.sort_unstable();
            let at = ((micros.len() as f64 * share).ceil() as usize).max(1) - 1;
            let told = counted.quantile(share).unwrap();
            prop_assert!(told >= micros[at] as f64);
            prop_assert!(told <= micros[at] as f64 * 1.2);
        }

        #[test]
        fn no_duration_is_too_absurd(micros in any::<u64>()) {
            let mut counted = Histogram::EMPTY;
            counted.count(micros);
            prop_assert!(counted.quantile(0.5).is_some());
        }
    }
}
