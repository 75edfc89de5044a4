//! The laws of money: nothing is held that is not there, nothing is charged that was not held, nothing is lost on the
//! way.
//!
//! They decide nothing; they hold [`super`] to what its header says. What holds after any history is told in
//! `histories`, of a small `ledger` that does with the decisions what the database does.

use super::*;
use Verdict::{Hold, Pause, Wait};
use proptest::prelude::*;

mod histories;
mod ledger;

const fn payer(free: u64, held: u64) -> Payer {
    Payer { free, held }
}

fn ask(amount: u64, payers: &[usize]) -> Ask {
    Ask { amount, payers: payers.to_vec() }
}

/// Amounts that often meet, and those at the end of what a number can say.
fn amounts() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![8 => 0..30_u64, 1 => any::<u64>(), 1 => Just(u64::MAX), 1 => Just(u64::MAX - 1)]
}

#[test]
fn what_fits_into_every_payer_is_held_in_each() {
    let mut payers = [payer(10, 0), payer(7, 5), payer(1, 1)];
    assert_eq!(admit(&mut payers, &[ask(7, &[0, 1])]), [Hold]);
    assert_eq!(payers, [payer(3, 7), payer(0, 12), payer(1, 1)]);
}

#[test]
fn what_nobody_limits_is_never_held_up() {
    assert_eq!(admit(&mut [], &[ask(u64::MAX, &[]), ask(u64::MAX, &[])]), [Hold, Hold]);
    let mut payers = [payer(1, 1)];
    assert_eq!(admit(&mut payers, &[ask(2, &[0]), ask(u64::MAX, &[])]), [Wait(0), Hold]);
}

#[test]
fn two_calls_never_both_take_what_is_there_for_one() {
    let mut payers = [payer(10, 0)];
    assert_eq!(admit(&mut payers, &[ask(6, &[0]), ask(6, &[0])]), [Hold, Wait(0)]);
    assert_eq!(payers, [payer(4, 6)]);
}

#[test]
fn what_may_come_back_is_waited_for_and_what_may_not_pauses() {
    for (amount, verdict) in [(0, Hold), (4, Hold), (5, Wait(0)), (10, Wait(0)), (11, Pause(0)), (u64::MAX, Pause(0))] {
        assert_eq!(admit(&mut [payer(4, 6)], &[ask(amount, &[0])]), [verdict], "{amount}");
    }
}

#[test]
fn one_payer_that_is_short_decides_for_both_and_takes_nothing_from_the_other() {
    for (short, verdict) in [(payer(4, 6), Wait as fn(usize) -> Verdict), (payer(4, 0), Pause)] {
        for (mut payers, indexes, at) in [([payer(100, 0), short], [0, 1], 1), ([short, payer(100, 0)], [1, 0], 0)] {
            let before = payers;
            assert_eq!(admit(&mut payers, &[ask(5, &indexes)]), [verdict(at)], "and it is named");
            assert_eq!(payers, before);
        }
    }
}

#[test]
fn a_dear_call_that_waits_is_not_passed_by_under_the_same_payer() {
    let mut payers = [payer(4, 6), payer(50, 0)];
    let asks = [ask(1, &[0]), ask(9, &[0, 1]), ask(1, &[0, 1]), ask(11, &[0]), ask(50, &[1])];
    assert_eq!(
        admit(&mut payers, &asks),
        [Hold, Wait(0), Wait(0), Pause(0), Hold],
        "it waits for the first payer only"
    );
}

#[test]
fn a_call_held_up_by_another_holds_up_nobody_under_its_other_payer() {
    let mut payers = [payer(0, 6), payer(50, 0)];
    assert_eq!(admit(&mut payers, &[ask(5, &[0]), ask(0, &[0, 1]), ask(50, &[1])]), [Wait(0), Wait(0), Hold]);
}

#[test]
fn who_waits_is_told_for_which_payer_by_what_is_left_in_it_then() {
    // The budget has enough for either, and not for both; the wallet for all.
    let mut payers = [payer(1_000, 0), payer(100, 0)];
    let asks = [ask(40, &[0, 1]), ask(40, &[0, 1]), ask(40, &[0, 1]), ask(1, &[0, 1]), ask(40, &[0])];
    assert_eq!(admit(&mut payers, &asks), [Hold, Hold, Wait(1), Wait(1), Hold]);
}

#[test]
fn a_paused_call_does_not_stop_those_behind_it() {
    let mut payers = [payer(4, 6)];
    assert_eq!(admit(&mut payers, &[ask(11, &[0]), ask(4, &[0])]), [Pause(0), Hold]);
}

#[test]
fn a_budget_lowered_below_what_is_held_promises_no_more_than_it_is() {
    for (limit, spent, held, expected) in [
        (100, 30, 20, payer(50, 20)),
        (50, 30, 20, payer(0, 20)),
        (40, 30, 20, payer(0, 10)),
        (30, 30, 20, payer(0, 0)),
        (0, 30, 20, payer(0, 0)),
        (u64::MAX, u64::MAX, u64::MAX, payer(0, 0)),
        (u64::MAX, 0, u64::MAX, payer(0, u64::MAX)),
    ] {
        assert_eq!(Payer::budget(limit, spent, held), expected, "{limit}, {spent} spent, {held} held");
    }
}

#[test]
fn a_call_is_charged_what_it_cost_and_never_more_than_it_held() {
    for (held, cost, charged, released, unbilled) in [
        (100, 0, 0, 100, 0),
        (100, 40, 40, 60, 0),
        (100, 100, 100, 0, 0),
        (100, 130, 100, 0, 30),
        (0, 30, 0, 0, 30),
        (u64::MAX, u64::MAX, u64::MAX, 0, 0),
    ] {
        assert_eq!(settle(held, cost), Settlement { charged, released, unbilled }, "{cost} of {held}");
    }
}

#[test]
fn an_estimate_is_corrected_as_far_as_was_held_and_is_free() {
    // Of a hundred held, forty were charged.
    for (cost, free, added, returned, unbilled) in [
        (40, 500, 0, 0, 0),
        (25, 0, 0, 15, 0),
        (0, 0, 0, 40, 0),
        (70, 500, 30, 0, 0),
        (70, 20, 20, 0, 10),
        (70, 0, 0, 0, 30),
        (130, 500, 60, 0, 30),
        (130, 50, 50, 0, 40),
        (u64::MAX, u64::MAX, 60, 0, u64::MAX - 100),
    ] {
        assert_eq!(correct(100, 40, cost, free), Correction { added, returned, unbilled }, "{cost} with {free} free");
    }
}

proptest! {
    #[test]
    fn no_amount_is_too_absurd(held in amounts(), estimate in amounts(), cost in amounts(), free in amounts()) {
        let Settlement { charged, released, unbilled } = settle(held, estimate);
        prop_assert_eq!((charged.checked_add(released), charged.checked_add(unbilled)), (Some(held), Some(estimate)));
        let Correction { added, returned, unbilled } = correct(held, charged, cost, free);
        let paid = charged - returned + added;
        prop_assert!(paid <= held && added <= free && (added == 0 || returned == 0));
        prop_assert_eq!(paid.checked_add(unbilled), Some(cost));
        // What could have been paid was.
        prop_assert!(unbilled == 0 || paid == held || added == free);
    }

    #[test]
    fn each_call_begins_waits_or_pauses_for_a_reason(
        payers in proptest::collection::vec((amounts(), amounts()), 3),
        asks in proptest::collection::vec((amounts(), proptest::sample::subsequence(vec![0, 1, 2], 0..=2)), 0..12),
    ) {
        let before: Vec<Payer> = payers.into_iter().map(|(free, held)| payer(free, held)).collect();
        let asks: Vec<Ask> = asks.into_iter().map(|(amount, payers)| Ask { amount, payers }).collect();
        let mut after = before.clone();
        let verdicts = admit(&mut after, &asks);
        prop_assert_eq!(verdicts.len(), asks.len());
        let held = |index: usize, asked: usize| -> u128 {
            let holding = (0..asked).filter(|&at| verdicts[at] == Hold && asks[at].payers.contains(&index));
            holding.map(|at| u128::from(asks[at].amount)).sum()
        };
        let waits_for = |at: usize, index: usize| {
            let wanted = u128::from(asks[at].amount) + held(index, at);
            matches!(verdicts[at], Wait(_)) && asks[at].payers.contains(&index) && wanted > before[index].free.into()
        };
        for (at, ask) in asks.iter().enumerate() {
            let ever = |index: usize| u128::from(before[index].free) + u128::from(before[index].held);
            let beyond = ask.payers.iter().find(|&&index| u128::from(ask.amount) > ever(index));
            let behind = ask.payers.iter().find(|&&index| (0..=at).any(|other| waits_for(other, index)));
            let expected = beyond.map(|&index| Pause(index)).or(behind.map(|&index| Wait(index))).unwrap_or(Hold);
            prop_assert_eq!(verdicts[at], expected, "{} of {:?}", at, &verdicts);
        }
        for (index, (before, after)) in before.iter().zip(&after).enumerate() {
            let held = held(index, asks.len());
            prop_assert_eq!(u128::from(before.free), u128::from(after.free) + held);
            prop_assert_eq!(u128::from(after.held), (u128::from(before.held) + held).min(u64::MAX.into()));
        }
    }
}
