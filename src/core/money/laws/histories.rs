//! The laws of money that hold after any history: of sums, of holds, of budgets, and of what comes twice.
//!
//! They decide nothing. A history is what happens to the wallets of three owners and the budgets of two sessions each,
//! in any order: batches of calls, answers in time, late or never, lost claimers, top-ups, budgets raised and lowered.

use super::ledger::{Call, Entry, Ledger, Operation, Reason, SESSIONS, State, owner};
use super::*;
use std::collections::BTreeSet;

fn operations(amounts: impl Strategy<Value = u64> + Clone) -> impl Strategy<Value = Operation> {
    let (owner, session, call) = (0..owner(SESSIONS), 0..SESSIONS, 0..40_u8);
    let asked = (call.clone(), session.clone(), amounts.clone());
    let limits = proptest::option::weighted(0.8, amounts.clone());
    prop_oneof![
        1 => (owner.clone(), amounts.clone()).prop_map(|(owner, amount)| Operation::Open { owner, amount }),
        2 => (owner, 0..6_u8, amounts.clone()).prop_map(|(owner, key, amount)| Operation::TopUp { owner, key, amount }),
        2 => (session, limits).prop_map(|(session, limit)| Operation::Budget { session, limit }),
        6 => proptest::collection::vec(asked, 1..6).prop_map(Operation::Begin),
        8 => (call.clone(), amounts.clone()).prop_map(|(call, cost)| Operation::Answer { call, cost }),
        1 => call.clone().prop_map(|call| Operation::Answer { call, cost: 0 }),
        4 => (call, amounts).prop_map(|(call, estimate)| Operation::Lose { call, estimate }),
    ]
}

/// What a session has spent and holds, and what of it nobody pays.
fn committed(ledger: &Ledger, session: u8) -> (u128, u128) {
    let calls = ledger.calls.values().filter(|call| call.session == session);
    calls.fold((0, 0), |(sum, unbilled), call| {
        let own = if call.state == State::Open { call.held } else { call.cost };
        (sum + u128::from(own), unbilled + u128::from(call.unbilled))
    })
}

/// Every running value is the sum of its rows, and every row is there for a reason.
fn sums_agree(ledger: &Ledger) -> Result<(), TestCaseError> {
    for (number, wallet) in &ledger.wallets {
        let own = ledger.entries.iter().filter(|entry| entry.owner == *number);
        prop_assert_eq!(i128::from(wallet.free), own.map(|entry| entry.amount).sum::<i128>(), "a balance");
        let open = ledger.calls.values().filter(|call| call.is_charged && call.state == State::Open);
        let held = open.filter(|call| owner(call.session) == *number).map(|call| u128::from(call.held));
        prop_assert_eq!(u128::from(wallet.held), held.sum::<u128>(), "what a wallet holds");
    }
    for (number, session) in (0..SESSIONS).zip(&ledger.sessions) {
        prop_assert_eq!(session.spent + session.held, committed(ledger, number).0, "what a session spent and holds");
    }
    let reasons: BTreeSet<Reason> = ledger.entries.iter().map(|entry| entry.reason).collect();
    prop_assert_eq!(reasons.len(), ledger.entries.len(), "each at most once");
    ledger.calls.iter().try_for_each(|(number, call)| call_agrees(ledger, *number, call))
}

/// What the entries of a call say is what the call says.
fn call_agrees(ledger: &Ledger, number: u8, call: &Call) -> Result<(), TestCaseError> {
    let amount = |reason| ledger.entries.iter().find(|entry| entry.reason == reason).map(|entry: &Entry| entry.amount);
    let entries = [Reason::Hold(number), Reason::Settlement(number), Reason::Correction(number)].map(amount);
    let present = entries.map(|entry| entry.is_some());
    let expected = [true, call.state != State::Open, call.state == State::Corrected];
    prop_assert_eq!(present, expected.map(|is_expected| is_expected && call.is_charged));
    let gone = if call.state == State::Open { call.held } else { call.charged };
    let paid = if call.is_charged { i128::from(gone) } else { 0 };
    prop_assert_eq!(-entries.into_iter().flatten().sum::<i128>(), paid, "a closed call holds nothing");
    if call.state != State::Open {
        prop_assert!(call.charged <= call.held);
        prop_assert_eq!(u128::from(call.charged) + u128::from(call.unbilled), u128::from(call.cost));
    }
    Ok(())
}

/// Nobody goes beyond a budget, except by what nobody pays; a budget lowered below what is spent and held lets nobody
/// add to it.
fn budgets_hold(before: &Ledger, after: &Ledger) -> Result<(), TestCaseError> {
    for (number, session) in (0..SESSIONS).zip(&after.sessions) {
        let ((was, owed), (is, owes)) = (committed(before, number), committed(after, number));
        let most = session.limit.map(|limit| was.max(limit.into()) + owes.saturating_sub(owed));
        prop_assert!(most.is_none_or(|most| is <= most), "{} of {:?}", is, session);
    }
    Ok(())
}

/// Whoever waits would fit if all that is open came back for nothing; whoever is paused would not.
fn verdicts_are_true(ledger: &Ledger, asked: &[(u8, u8, u64)], told: &[(u8, Verdict)]) -> Result<(), TestCaseError> {
    for (call, verdict) in told {
        let (_, session, amount) = *asked.iter().find(|one| one.0 == *call).expect("it was asked for");
        let mut released = ledger.clone();
        let open = ledger.calls.iter().filter(|(_, call)| call.state == State::Open);
        for (&call, _) in open {
            released.apply(&Operation::Answer { call, cost: 0 });
        }
        let (wallet, budget) = (released.wallets.get(&owner(session)), &released.sessions[usize::from(session)]);
        let would_fit = wallet.is_none_or(|wallet| amount <= wallet.free)
            && budget.limit.is_none_or(|limit| u128::from(amount) <= u128::from(limit).saturating_sub(budget.spent));
        match verdict {
            Wait(_) => prop_assert!(would_fit, "{} waits for ever", call),
            Pause(_) => prop_assert!(!would_fit, "{} is paused though it could be paid for", call),
            Hold => prop_assert!(ledger.calls.contains_key(call)),
        }
    }
    Ok(())
}

/// Whether to do it once more, whenever that may be, can change nothing once it was done.
fn is_done_once(operation: &Operation) -> bool {
    !matches!(operation, Operation::Budget { .. } | Operation::Begin(_))
}

fn law(history: &[(Operation, usize)]) -> Result<(), TestCaseError> {
    let mut ledger = Ledger::default();
    let mut done: Vec<&Operation> = Vec::new();
    for (operation, earlier) in history {
        let before = ledger.clone();
        let told = ledger.apply(operation);
        sums_agree(&ledger)?;
        budgets_hold(&before, &ledger)?;
        if let Operation::Begin(asked) = operation {
            verdicts_are_true(&ledger, asked, &told)?;
        }
        let mut again = ledger.clone();
        let told_again = again.apply(operation);
        prop_assert_eq!(&again, &ledger, "at once again: {:?}", operation);
        // Which payer it waits for may be another: the ones before it hold by now.
        let told = told.iter().filter(|(_, verdict)| *verdict != Hold);
        let kind = |(call, verdict): &(u8, Verdict)| (*call, std::mem::discriminant(verdict));
        prop_assert!(told_again.iter().map(kind).eq(told.map(kind)), "{:?}", operation);
        if ledger != before && is_done_once(operation) {
            done.push(operation);
        }
        if let Some(operation) = done.get(earlier % done.len().max(1)) {
            again.apply(operation);
            prop_assert_eq!(&again, &ledger, "long after: {:?}", operation);
        }
    }
    Ok(())
}

fn history(amounts: impl Strategy<Value = u64> + Clone) -> impl Strategy<Value = Vec<(Operation, usize)>> {
    proptest::collection::vec((operations(amounts), any::<usize>()), 0..100)
}

proptest! {
    #[test]
    fn the_books_agree_after_any_history(history in history(0..60_u64)) {
        law(&history)?;
    }

    #[test]
    fn the_books_agree_whatever_the_amounts(history in history(amounts())) {
        law(&history)?;
    }
}
