//! The laws of knitting, on many documents: whatever was cut comes together again.
//!
//! The number of cases is `KNIT_CASES`, in documents of the largest law: 100000 for the full proof, a part of that
//! otherwise. `KNIT_SEED` repeats a run, and so does `PROPTEST_RNG_SEED`; every run prints its own. Real answers are knit where they are at hand, as in `answers.rs`.

#[path = "knitting/afresh.rs"]
mod afresh;
#[path = "cpu_time.rs"]
mod cpu_time;
#[path = "knitting/document.rs"]
mod document;
#[path = "knitting/onward.rs"]
mod onward;
#[path = "knitting/real.rs"]
mod real;
#[path = "knitting/repairing.rs"]
mod repairing;

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::hash::{BuildHasher, RandomState};

/// The documents of the largest law when everything is proved.
const FULL: u64 = 100_000;
/// The documents of the largest law in a usual run.
const USUAL: u64 = 1_500;

/// A runner for so many cases out of the full number.
fn runner(law: &str, full: u64) -> TestRunner {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = (full * number("KNIT_CASES").unwrap_or(USUAL) / FULL).max(10);
    let seed = number("KNIT_SEED").or(number("PROPTEST_RNG_SEED"));
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(law));
    println!("{law}: {cases} cases, KNIT_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: u32::try_from(cases).unwrap(),
        failure_persistence: None,
        max_shrink_iters: 4096,
        ..Config::default()
    };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}
