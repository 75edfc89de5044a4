//! Random histories of claims, answers, failures, deaths and people's verbs, through the SQL verbs and through the model in
//! `dialectic_core::queue`. After every action each job, stage run and session of the database is as the model says.
//!
//! `make test` runs the same histories every time. `PROPTEST_RNG_SEED=n` draws others and `REPLAY_CASES=n` more of them; a
//! history that fails is shortened, and printed with what differs.

mod compare;
mod database;
#[path = "../core/queue/history.rs"]
mod history;

use database::Replay;
use dialectic_tests::*;
use history::{Operation, World, histories};
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

/// How many operations a history has at most.
const OPERATIONS: usize = 120;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number"))
}

/// Runs histories one after the other, each in a database of its own.
fn replay(cases: u32, operations: usize) {
    let config = Config {
        cases: number("REPLAY_CASES").map_or(cases, |cases| cases as u32),
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(1)),
        max_shrink_iters: 400,
        failure_persistence: None,
        ..Config::default()
    };
    let run = |history: Vec<Operation>| replayed(&history).map_err(TestCaseError::fail);
    if let Err(error) = TestRunner::new(config).run(&histories(operations), run) {
        panic!("{error}");
    }
}

/// Does a history to a database and to the model; what differs first is the error, with all that led to it.
fn replayed(history: &[Operation]) -> Result<(), String> {
    let database = Database::by_hand();
    let mut world = World::new();
    let mut replay = Replay::new(&database);
    let mut done = Vec::new();
    replay.compare(&world)?;
    for operation in history {
        let Some(action) = world.resolve(*operation) else { continue };
        done.push(format!("{action:?}"));
        let step = replay.act(&mut world, action).and_then(|()| replay.compare(&world));
        step.map_err(|difference| format!("{difference}\nafter\n  {}", done.join("\n  ")))?;
    }
    assert_sound(&mut database.connect());
    Ok(())
}

#[test]
fn every_status_is_as_the_model_says_after_every_verb() {
    replay(40, OPERATIONS);
}
