//! Decides which calls may begin for the money there is, and what each is charged when it comes back.
//!
//! The worst a call can cost is held before it begins, in every payer it is under: its owner's wallet, its session's
//! budget. What a call is charged never exceeds what it held; a provider that reports more leaves the rest unbilled.
//! All amounts are micro-dollars. Never knows what a token costs, never keeps a balance, never moves a job: that is
//! done where the rows are.

#[cfg(test)]
mod laws;

/// What calls may draw on: a wallet, or the budget of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payer {
    /// What may be held now.
    pub free: u64,
    /// What open calls hold and may give back.
    pub held: u64,
}

/// A call that would begin: the worst it can cost, and the payers it is under, each named once by its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// What must be held for it.
    pub amount: u64,
    /// At most two; none where nobody limits it.
    pub payers: Vec<usize>,
}

/// What becomes of a call that would begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It begins, and its amount is held.
    Hold,
    /// It may fit once open calls come back that hold of this payer.
    Wait(usize),
    /// It cannot fit into this payer whatever comes back: only more money helps.
    Pause(usize),
}

/// What becomes of what a call held, once its cost is known or estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// Paid, out of what was held.
    pub charged: u64,
    /// Free again.
    pub released: u64,
    /// Spent, but paid by nobody.
    pub unbilled: u64,
}

/// What changes when the cost of a call that was settled by an estimate comes late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// Paid on top of what was charged.
    pub added: u64,
    /// Free again, of what was charged.
    pub returned: u64,
    /// Spent, but paid by nobody: takes the place of what the settlement left unbilled.
    pub unbilled: u64,
}

impl Payer {
    /// The budget of a session that has spent so much and whose open calls hold so much.
    ///
    /// A budget lowered below that has nothing free, and of what is held only the part within it can ever be held
    /// again.
    pub fn budget(limit: u64, spent: u64, held: u64) -> Self {
        let left = limit.saturating_sub(spent);
        Payer { free: left.saturating_sub(held), held: left.min(held) }
    }

    fn lacks(&self, amount: u64) -> bool {
        amount > self.free
    }

    /// Compared by what is missing: what is free and what is held may together be more than a number can say.
    fn always_lacks(&self, amount: u64) -> bool {
        amount.saturating_sub(self.free) > self.held
    }

    fn hold(&mut self, amount: u64) {
        self.free = self.free.saturating_sub(amount);
        self.held = self.held.saturating_add(amount);
    }
}

/// Which of these calls begin now, taken in order; what they hold is taken from their payers.
///
/// Where one waits for a payer, those behind it under the same payer wait too: else cheap calls would pass a dear one
/// by for ever. One that is paused holds up nobody.
///
/// # Panics
/// Where an ask names a payer that is not there.
pub fn admit(payers: &mut [Payer], asks: &[Ask]) -> Vec<Verdict> {
    let mut is_awaited = vec![false; payers.len()];
    let verdict = |ask: &Ask| {
        if let Some(&index) = ask.payers.iter().find(|&&index| payers[index].always_lacks(ask.amount)) {
            return Verdict::Pause(index);
        }
        for &index in &ask.payers {
            is_awaited[index] |= payers[index].lacks(ask.amount);
        }
        if let Some(&index) = ask.payers.iter().find(|&&index| is_awaited[index]) {
            return Verdict::Wait(index);
        }
        ask.payers.iter().for_each(|&index| payers[index].hold(ask.amount));
        Verdict::Hold
    };
    asks.iter().map(verdict).collect()
}

/// What a call that held so much is charged for what it cost.
pub fn settle(held: u64, cost: u64) -> Settlement {
    let charged = cost.min(held);
    Settlement { charged, released: held - charged, unbilled: cost - charged }
}

/// What a call that held so much, and was charged so much by an estimate, is charged or given back for what it truly
/// cost.
///
/// What it held was released long ago, so more is charged only as far as it is still free: the least that is free in
/// the payers it is under.
pub fn correct(held: u64, charged: u64, cost: u64, free: u64) -> Correction {
    let added = cost.min(held).saturating_sub(charged).min(free);
    let returned = charged.saturating_sub(cost);
    Correction { added, returned, unbilled: cost.saturating_sub(charged) - added }
}
