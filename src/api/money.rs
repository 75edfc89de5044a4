//! Decisions about money, for SQL.

use dialectic_core::money::{Ask, Purse, Verdict, admit, correct, settle};
use pgrx::Uuid;
use pgrx::prelude::*;
use std::collections::HashMap;

/// An amount is never below nothing.
fn amount(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn number(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// What becomes of calls that may cost so much, in order: `hold`, `wait` or `pause`, and which is short of it, the
/// `wallet` or the `budget`. Each is under the wallet of this owner and the budget of this session, where there is one.
#[pg_extern(immutable)]
#[allow(clippy::too_many_arguments)] // a row, a column each
pub(crate) fn _admit(
    owners: Option<Vec<String>>,
    balances: Option<Vec<i64>>,
    held_by_wallets: Option<Vec<i64>>,
    sessions: Option<Vec<Uuid>>,
    limits: Option<Vec<i64>>,
    spent: Option<Vec<i64>>,
    held_by_budgets: Option<Vec<i64>>,
    worst: Vec<i64>,
    under_owner: Vec<Option<String>>,
    under_session: Vec<Option<Uuid>>,
) -> TableIterator<'static, (name!(verdict, &'static str), name!(purse, Option<&'static str>))> {
    let (owners, sessions) = (owners.unwrap_or_default(), sessions.unwrap_or_default());
    let of_wallets = balances.unwrap_or_default().into_iter().zip(held_by_wallets.unwrap_or_default());
    let of_wallets = of_wallets.map(|(free, held)| Purse { free: amount(free), held: amount(held) });
    let of_budgets = limits.unwrap_or_default().into_iter().zip(spent.unwrap_or_default());
    let of_budgets = of_budgets.zip(held_by_budgets.unwrap_or_default());
    let of_budgets = of_budgets.map(|((limit, spent), held)| Purse::budget(amount(limit), amount(spent), amount(held)));
    let mut purses: Vec<Purse> = of_wallets.chain(of_budgets).collect();
    let wallets: HashMap<String, usize> = owners.into_iter().zip(0..).collect();
    let budgets: HashMap<Uuid, usize> = sessions.into_iter().zip(wallets.len()..).collect();
    let asks: Vec<Ask> = worst
        .into_iter()
        .zip(under_owner.into_iter().zip(under_session))
        .map(|(worst, (owner, session))| {
            let wallet = owner.and_then(|owner| wallets.get(&owner));
            let budget = session.and_then(|session| budgets.get(&session));
            Ask { amount: amount(worst), purses: wallet.into_iter().chain(budget).copied().collect() }
        })
        .collect();
    let purse = |index: usize| Some(if index < wallets.len() { "wallet" } else { "budget" });
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

/// What is charged besides to a call that was charged so much by an estimate and truly cost so much; below nothing,
/// what it gets back.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _corrected(held: i64, charged: i64, cost: i64, free: i64) -> i64 {
    let correction = correct(amount(held), amount(charged), amount(cost), amount(free));
    number(correction.added) - number(correction.returned)
}
