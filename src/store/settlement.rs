//! Settling calls that were closed, and calls whose claimer died.
//!
//! Reads what a call held and cost, asks the core what it is charged, and writes the result. Never decides a price.

use super::composite::{self, Composite};
use super::sent_prompt;
use super::{Row, query};
use crate::error::Error;
use dialectic_core::money::{correct, settle as settled};
use pgrx::Uuid;
use pgrx::datum::DatumWithOid;
use std::collections::HashMap;

const CLOSE_LOST: &str = "select call_id, session_id, payer, held, cost, estimate, charged, balance, budget_left \
     from dialectic._close_lost_calls($1)";
const SETTLE: &str = "select dialectic._settle_calls($1)";

/// A call that was closed.
pub(super) struct ClosedCall {
    call: Uuid,
    session: Uuid,
    payer: Option<String>,
    held: Option<i64>,
    cost: i64,
    /// Set where the call was settled before, as lost.
    estimate: Option<i64>,
    charged: Option<i64>,
    balance: Option<i64>,
    budget_left: Option<i64>,
}

impl ClosedCall {
    pub(super) fn read(row: &Row) -> Result<Option<Self>, Error> {
        let Some(call) = row.nullable("call_id")? else { return Ok(None) };
        Ok(Some(ClosedCall {
            call,
            session: row.get("session_id")?,
            payer: row.nullable("payer")?,
            held: row.nullable("held")?,
            cost: row.get("cost")?,
            estimate: row.nullable("estimate")?,
            charged: row.nullable("charged")?,
            balance: row.nullable("balance")?,
            budget_left: row.nullable("budget_left")?,
        }))
    }
}

struct Settlement<'a> {
    call: &'a ClosedCall,
    kind: &'static str,
    refund: i64,
    released: i64,
    spent: i64,
    unbilled: Option<i64>,
}

/// An amount is never below zero.
fn amount(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn number(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// Settles closed calls. A call that was settled as lost is corrected.
pub(super) fn settle<'a>(closed: impl Iterator<Item = &'a ClosedCall>) -> Result<(), Error> {
    let mut free = Free::default();
    let settlements: Vec<Settlement> = closed
        .map(|call| match call.estimate {
            None => first_settlement(call),
            Some(estimate) => correction(call, estimate, &mut free),
        })
        .collect();
    if settlements.is_empty() {
        return Ok(());
    }
    query(SETTLE, &[composite::array(&settlements)?], |_| Ok(())).map(drop)
}

fn first_settlement(call: &ClosedCall) -> Settlement<'_> {
    let held = call.held.unwrap_or(0);
    let settled = settled(amount(held), amount(call.cost));
    let unbilled = call.held.and((settled.unbilled > 0).then(|| number(settled.unbilled)));
    let (refund, released) = (number(settled.released), held);
    Settlement { call, kind: "settlement", refund, released, spent: call.cost, unbilled }
}

/// What wallets and budgets have left after the corrections before.
#[derive(Default)]
struct Free<'a> {
    wallets: HashMap<&'a str, i64>,
    budgets: HashMap<Uuid, i64>,
}

fn correction<'a>(call: &'a ClosedCall, estimate: i64, free: &mut Free<'a>) -> Settlement<'a> {
    let spent = call.cost - estimate;
    let Some(held) = call.held else {
        return Settlement { call, kind: "correction", refund: 0, released: 0, spent, unbilled: None };
    };
    let wallet = match (call.payer.as_deref(), call.balance) {
        (Some(payer), Some(balance)) => Some(free.wallets.entry(payer).or_insert(balance)),
        _ => None,
    };
    let budget = call.budget_left.map(|left| free.budgets.entry(call.session).or_insert(left));
    // What the call held was released long ago: more is charged only as far as both still have it.
    let left = [wallet.as_deref(), budget.as_deref()].into_iter().flatten().min().copied().unwrap_or(held);
    let charged = call.charged.map_or_else(|| settled(amount(held), amount(estimate)).charged, amount);
    let corrected = correct(amount(held), charged, amount(call.cost), amount(left));
    let refund = number(corrected.returned) - number(corrected.added);
    if let Some(balance) = wallet {
        *balance += refund;
    }
    if let Some(left) = budget {
        *left = (*left - spent).max(0);
    }
    Settlement { call, kind: "correction", refund, released: 0, spent, unbilled: Some(number(corrected.unbilled)) }
}

/// Closes calls whose claimer died, and settles them at the tokens that can be counted: what was sent, and what was
/// streamed of the answer.
pub(crate) fn close_lost(calls: Vec<Uuid>) -> Result<(), Error> {
    if calls.is_empty() {
        return Ok(());
    }
    let counted: Vec<LostCall> = sent_prompt::of_lost(calls)?
        .into_iter()
        .filter_map(|sent| {
            let (input, output) = (sent.input_tokens(), sent.streamed_tokens());
            sent.call.map(|call| LostCall { call, input, output })
        })
        .collect();
    let closed = query(CLOSE_LOST, &[composite::array(&counted)?], ClosedCall::read)?;
    settle(closed.iter().flatten())
}

struct LostCall {
    call: Uuid,
    input: u64,
    output: u64,
}

impl Composite for LostCall {
    const TYPE: &'static str = "dialectic._lost_call";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![self.call.into(), number(self.input).into(), number(self.output).into()]
    }
}

impl Composite for Settlement<'_> {
    const TYPE: &'static str = "dialectic._settlement";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![
            self.call.call.into(),
            self.call.session.into(),
            self.call.payer.as_deref().into(),
            self.kind.into(),
            self.refund.into(),
            self.released.into(),
            self.spent.into(),
            self.unbilled.into(),
        ]
    }
}
