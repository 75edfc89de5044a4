//! Decisions about money, for SQL.

use dialectic_core::money::{Ask, Purse, Verdict, admit, correct, settle};
use pgrx::prelude::*;

/// An amount is never below nothing.
fn amount(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn number(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// What becomes of calls that may cost so much, in order: `hold`, `wait` or `pause`, and which is short of it, the `wallet` or the `budget`. Each
/// is under the wallet and the budget at these places, counted from 1, where it is under one.
#[pg_extern(immutable)]
#[allow(clippy::too_many_arguments)] // a row, a column each
pub(crate) fn _admit(
    balances: Vec<i64>,
    held_by_wallets: Vec<i64>,
    limits: Vec<i64>,
    spent: Vec<i64>,
    held_by_budgets: Vec<i64>,
    worst: Vec<i64>,
    wallets: Vec<Option<i32>>,
    budgets: Vec<Option<i32>>,
) -> TableIterator<'static, (name!(verdict, &'static str), name!(purse, Option<&'static str>))> {
    let of_wallets = balances.iter().zip(&held_by_wallets);
    let of_wallets = of_wallets.map(|(free, held)| Purse { free: amount(*free), held: amount(*held) });
    let of_budgets = limits.iter().zip(&spent).zip(&held_by_budgets);
    let of_budgets =
        of_budgets.map(|((limit, spent), held)| Purse::budget(amount(*limit), amount(*spent), amount(*held)));
    let mut purses: Vec<Purse> = of_wallets.chain(of_budgets).collect();
    let place = |before: usize, place: Option<i32>| {
        let place = place.and_then(|place| usize::try_from(place).ok())?.checked_sub(1)?;
        Some(before + place).filter(|place| *place < purses.len())
    };
    let asks: Vec<Ask> = worst
        .iter()
        .zip(wallets.into_iter().zip(budgets))
        .map(|(worst, (wallet, budget))| Ask {
            amount: amount(*worst),
            purses: place(0, wallet).into_iter().chain(place(balances.len(), budget)).collect(),
        })
        .collect();
    let purse = |index: usize| Some(if index < balances.len() { "wallet" } else { "budget" });
    let verdicts = admit(&mut purses, &asks).into_iter().map(|verdict| match verdict {
        Verdict::Hold => ("hold", None),
        Verdict::Wait(index) => ("wait", purse(index)),
        Verdict::Pause(index) => ("pause", purse(index)),
    });
    TableIterator::new(verdicts.collect::<Vec<_>>())
}

/// What is charged to a call that held so much and cost so much.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _charged(held: i64, cost: i64) -> i64 {
    number(settle(amount(held), amount(cost)).charged)
}

/// What is charged besides to a call that was charged so much by an estimate and truly cost so much; below nothing, what it gets back.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _corrected(held: i64, charged: i64, cost: i64, free: i64) -> i64 {
    let correction = correct(amount(held), amount(charged), amount(cost), amount(free));
    number(correction.added) - number(correction.returned)
}
