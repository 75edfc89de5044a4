//! A ledger of wallets, budgets and calls, as the database keeps it: it does what [`super`] decides, and nothing else.
//!
//! It checks nothing of itself; the laws in `histories` do, after every operation. Whatever comes a second time, a
//! top-up, an answer, a lost call, finds that it was there and changes nothing.

use super::*;
use std::collections::BTreeMap;

/// The sessions there are, two of each owner.
pub(super) const SESSIONS: u8 = 6;

/// Something that happens to money. Owners, sessions, calls and the keys of top-ups are numbers.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Open {
        owner: u8,
        amount: u64,
    },
    TopUp {
        owner: u8,
        key: u8,
        amount: u64,
    },
    Budget {
        session: u8,
        limit: Option<u64>,
    },
    /// A batch of calls that would begin: the call, its session, the worst it can cost.
    Begin(Vec<(u8, u8, u64)>),
    /// A call comes back, well or not, in time or late; one that used nothing costs nothing.
    Answer {
        call: u8,
        cost: u64,
    },
    /// Whoever made the call is gone, and what it cost is estimated.
    Lose {
        call: u8,
        estimate: u64,
    },
}

/// Why a balance changed. Each happens once, so it is the idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    Opening(u8),
    TopUp(u8, u8),
    Hold(u8),
    Settlement(u8),
    Correction(u8),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) owner: u8,
    pub(super) reason: Reason,
    pub(super) amount: i128,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Settled,
    Estimated,
    Corrected,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) session: u8,
    /// Whether its owner had a wallet when it began.
    pub(super) is_charged: bool,
    pub(super) state: State,
    pub(super) held: u64,
    pub(super) cost: u64,
    pub(super) charged: u64,
    pub(super) unbilled: u64,
}

/// What calls of a session cost and hold, whether or not it has a budget; wider than an amount, for nothing bounds the
/// sum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) limit: Option<u64>,
    pub(super) spent: u128,
    pub(super) held: u128,
}

/// Each running value beside the rows it is the sum of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    pub(super) entries: Vec<Entry>,
    pub(super) wallets: BTreeMap<u8, Payer>,
    pub(super) sessions: [Session; SESSIONS as usize],
    pub(super) calls: BTreeMap<u8, Call>,
}

pub(super) const fn owner(session: u8) -> u8 {
    session / 2
}

fn narrow(amount: u128) -> u64 {
    amount.try_into().unwrap_or(u64::MAX)
}

impl Ledger {
    /// What became of each call that would begin and had not yet, where the operation is a batch.
    pub(super) fn apply(&mut self, operation: &Operation) -> Vec<(u8, Verdict)> {
        match *operation {
            Operation::Open { owner, amount } if !self.wallets.contains_key(&owner) => {
                self.wallets.insert(owner, payer(amount, 0));
                self.enter(owner, Reason::Opening(owner), amount.into());
            }
            Operation::TopUp { owner, key, amount } => self.top_up(owner, Reason::TopUp(owner, key), amount),
            Operation::Budget { session, limit } => self.sessions[usize::from(session)].limit = limit,
            Operation::Begin(ref asked) => return self.begin(asked),
            Operation::Answer { call, cost } => self.answer(call, cost),
            Operation::Lose { call, estimate } => self.close(call, estimate, State::Estimated),
            Operation::Open { .. } => {}
        }
        Vec::new()
    }

    /// The payers a call of this session is under: its owner's wallet, its own budget.
    pub(super) fn payers(&self, session: u8) -> (Option<Payer>, Option<Payer>) {
        let Session { limit, spent, held } = self.sessions[usize::from(session)];
        let budget = limit.map(|limit| Payer::budget(limit, narrow(spent), narrow(held)));
        (self.wallets.get(&owner(session)).copied(), budget)
    }

    fn enter(&mut self, owner: u8, reason: Reason, amount: i128) {
        self.entries.push(Entry { owner, reason, amount });
    }

    /// All that was ever put into a wallet is no more than a number can say, so what comes back late still fits; a
    /// top-up beyond that is refused.
    fn top_up(&mut self, owner: u8, reason: Reason, amount: u64) {
        let is_known = self.entries.iter().any(|entry| entry.reason == reason);
        let is_put_in = |entry: &&Entry| matches!(entry.reason, Reason::Opening(_) | Reason::TopUp(..));
        let own = self.entries.iter().filter(|entry| entry.owner == owner).filter(is_put_in);
        let all = own.map(|entry| entry.amount).sum::<i128>() + i128::from(amount);
        let Some(wallet) = self.wallets.get_mut(&owner).filter(|_| !is_known) else { return };
        if all <= i128::from(u64::MAX) {
            wallet.free += amount;
            self.enter(owner, reason, amount.into());
        }
    }

    fn begin(&mut self, asked: &[(u8, u8, u64)]) -> Vec<(u8, Verdict)> {
        let mut fresh: Vec<(u8, u8, u64)> = Vec::new();
        for one in asked.iter().filter(|(call, ..)| !self.calls.contains_key(call)) {
            if fresh.iter().all(|(call, ..)| *call != one.0) {
                fresh.push(*one);
            }
        }
        // Wallets by owner first, then budgets by session; those that are not there are named by nobody.
        let owners = owner(SESSIONS);
        let wallets = (0..owners).map(|owner| self.payers(owner * 2).0);
        let all: Vec<Option<Payer>> = wallets.chain((0..SESSIONS).map(|session| self.payers(session).1)).collect();
        let mut payers: Vec<Payer> = all.iter().map(|payer| payer.unwrap_or(Payer { free: 0, held: 0 })).collect();
        let under = |session: u8| {
            let indexes = [usize::from(owner(session)), usize::from(owners + session)];
            indexes.into_iter().filter(|index| all[*index].is_some()).collect()
        };
        let asks: Vec<Ask> = fresh.iter().map(|&(_, session, amount)| Ask { amount, payers: under(session) }).collect();
        let verdicts = admit(&mut payers, &asks);
        for (owner, wallet) in &mut self.wallets {
            *wallet = payers[usize::from(*owner)];
        }
        for (&(call, session, held), _) in fresh.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Hold) {
            let is_charged = self.wallets.contains_key(&owner(session));
            let (state, cost, charged, unbilled) = (State::Open, 0, 0, 0);
            self.calls.insert(call, Call { session, is_charged, state, held, cost, charged, unbilled });
            self.sessions[usize::from(session)].held += u128::from(held);
            if is_charged {
                self.enter(owner(session), Reason::Hold(call), -i128::from(held));
            }
        }
        fresh.into_iter().map(|(call, ..)| call).zip(verdicts).collect()
    }

    fn answer(&mut self, number: u8, cost: u64) {
        match self.calls.get(&number).map(|call| call.state) {
            Some(State::Open) => self.close(number, cost, State::Settled),
            Some(State::Estimated) => self.mend(number, cost),
            Some(State::Settled | State::Corrected) | None => {}
        }
    }

    fn close(&mut self, number: u8, cost: u64, state: State) {
        let Some(call) = self.calls.get_mut(&number).filter(|call| call.state == State::Open) else { return };
        let Settlement { charged, released, unbilled } = settle(call.held, cost);
        (call.state, call.cost, call.charged, call.unbilled) = (state, cost, charged, unbilled);
        let session = &mut self.sessions[usize::from(call.session)];
        session.held -= u128::from(call.held);
        session.spent += u128::from(cost);
        if call.is_charged {
            let owner = owner(call.session);
            if let Some(wallet) = self.wallets.get_mut(&owner) {
                wallet.held -= call.held;
                wallet.free += released;
            }
            self.enter(owner, Reason::Settlement(number), released.into());
        }
    }

    fn mend(&mut self, number: u8, cost: u64) {
        let Some(session) = self.calls.get(&number).map(|call| call.session) else { return };
        let (wallet, budget) = self.payers(session);
        let Some(call) = self.calls.get_mut(&number) else { return };
        // A wallet opened after the call began has nothing to do with it.
        let payers = [wallet.filter(|_| call.is_charged), budget];
        let free = payers.into_iter().flatten().map(|payer| payer.free).min().unwrap_or(u64::MAX);
        let Correction { added, returned, unbilled } = correct(call.held, call.charged, cost, free);
        let session = &mut self.sessions[usize::from(session)];
        session.spent = session.spent - u128::from(call.cost) + u128::from(cost);
        call.charged = call.charged - returned + added;
        (call.state, call.cost, call.unbilled) = (State::Corrected, cost, unbilled);
        if call.is_charged {
            let owner = owner(call.session);
            if let Some(wallet) = self.wallets.get_mut(&owner) {
                wallet.free = wallet.free - added + returned;
            }
            self.enter(owner, Reason::Correction(number), i128::from(returned) - i128::from(added));
        }
    }
}
