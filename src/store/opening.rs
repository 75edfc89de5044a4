//! Opening calls: their prompts are stored, what they may cost is held, and their rows are inserted.
//!
//! Where a wallet or a budget limits a call, the core decides whether it is funded now. Never sends anything.

use super::composite::{self, Composite};
use super::query;
use super::reply::return_claims;
use crate::error::Error;
use crate::store::catalog::Model;
use crate::store::claim::{Claim, Work};
use crate::store::index;
use crate::store::request::Saving;
use dialectic_core::money::{Ask, Payer, Verdict, admit};
use pgrx::Uuid;
use pgrx::datum::DatumWithOid;
use std::collections::{HashMap, HashSet};

const FUNDING: &str = "select job_id, is_counted, worst_cost, owner, balance, held_by_wallet, budget_session, \
     budget, spent, \
     held_by_budget from dialectic._funding_facts($1)";
const OPEN: &str = "select dialectic._open_calls($1) as job";
const PAUSE: &str = "select dialectic._pause_unfunded($1)";

/// The note of an index job that nobody can pay for.
const UNFUNDED_NOTE: &str = "there is no money for embeddings";

/// A call that is to be opened.
pub(crate) struct Opening<'a> {
    pub(crate) claim: &'a Claim,
    /// The prompt, unless it is stored already.
    pub(crate) prompt: Option<&'a Saving>,
    pub(crate) model: &'a Model,
    /// The most tokens it sends, where they were counted, and the most it may be answered.
    pub(crate) input_tokens: Option<u64>,
    pub(crate) output_tokens: u64,
    /// Whether a wallet or a budget limits it.
    pub(crate) is_limited: bool,
}

/// What became of calls that were to be opened; a call whose claim is revoked is in none of them.
#[derive(Default)]
pub(crate) struct Opened {
    /// The jobs whose calls may leave once this is committed.
    pub(crate) open: HashSet<Uuid>,
    /// Jobs that wait for money which other calls hold, with the owner or the session that is short of it.
    pub(crate) waiting: HashMap<Uuid, String>,
    /// Jobs that are paused because there is no money for them, or returned to the queue.
    pub(crate) paused: HashSet<Uuid>,
}

/// What pays for a call.
struct Funding {
    held: i64,
    payer: Option<String>,
}

/// Opens calls; the caller has locked their sessions and wallets.
pub(crate) fn open(calls: &[Opening]) -> Result<Opened, Error> {
    let mut opened = Opened::default();
    let limited: Vec<&Opening> = calls.iter().filter(|call| call.is_limited).collect();
    let funded = if limited.is_empty() { HashMap::new() } else { fund(&limited, &mut opened)? };
    let openings: Vec<OpeningRow> = calls
        .iter()
        .filter(|call| !call.is_limited || funded.contains_key(&call.claim.job))
        .map(|call| OpeningRow { call, funding: funded.get(&call.claim.job) })
        .collect();
    if !openings.is_empty() {
        opened.open = query(OPEN, &[composite::array(&openings)?], |row| row.get("job"))?.into_iter().collect();
        let opened_now = openings.iter().filter(|row| opened.open.contains(&row.call.claim.job));
        let passages = opened_now.flat_map(|row| {
            let sent = row.call.prompt.map_or(&[][..], |prompt| prompt.passages.as_slice());
            sent.iter().map(|passages| (row.call.claim.job, passages))
        });
        index::save_passages(&passages.collect::<Vec<_>>())?;
    }
    Ok(opened)
}

/// Decides which of these calls are funded now. Those that only more money helps are paused; those that were prepared
/// before anything limited them are returned, to be counted.
fn fund(calls: &[&Opening], opened: &mut Opened) -> Result<HashMap<Uuid, Funding>, Error> {
    let (uncounted, facts): (Vec<Facts>, Vec<Facts>) = read_facts(calls)?.into_iter().partition(|facts| {
        let is_limited = facts.wallet.is_some() || facts.budget.is_some();
        is_limited && !facts.is_counted
    });
    let mut payers = Vec::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    let asks: Vec<Ask> = facts
        .iter()
        .map(|facts| {
            let payers = facts.payers().map(|(name, payer)| {
                *names.entry(name).or_insert_with(|| {
                    payers.push(payer);
                    payers.len() - 1
                })
            });
            Ask { amount: amount(facts.worst_cost), payers: payers.collect() }
        })
        .collect();
    let name_of = |index: usize| names.iter().find(|(_, at)| **at == index).map(|(name, _)| name.clone());
    let (mut funded, mut unfunded, mut unembedded) = (HashMap::new(), Vec::new(), Vec::new());
    let of_index = |call: &&&Opening| call.claim.work == Work::Index;
    let indexes: HashSet<Uuid> = calls.iter().filter(of_index).map(|call| call.claim.job).collect();
    for (facts, verdict) in facts.iter().zip(admit(&mut payers, &asks)) {
        match verdict {
            Verdict::Hold => {
                let payer = facts.wallet.as_ref().map(|(owner, _)| owner.clone());
                funded.insert(facts.job, Funding { held: facts.worst_cost, payer });
            }
            Verdict::Wait(index) => drop(opened.waiting.insert(facts.job, name_of(index).unwrap_or_default())),
            Verdict::Pause(_) if indexes.contains(&facts.job) => unembedded.push(facts.job),
            Verdict::Pause(index) => {
                let is_wallet = facts.wallet.as_ref().map(|(owner, _)| owner) == name_of(index).as_ref();
                let short_of = if is_wallet { "wallet" } else { "budget" };
                unfunded.push(Unfunded { job: facts.job, short_of, needed: facts.worst_cost });
            }
        }
    }
    // A step does without embeddings rather than wait for money.
    index::complete(unembedded.iter().map(|job| (*job, Some(UNFUNDED_NOTE))).collect())?;
    opened.paused = unfunded.iter().map(|unfunded| unfunded.job).chain(unembedded).collect();
    if !unfunded.is_empty() {
        query(PAUSE, &[composite::array(&unfunded)?], |_| Ok(()))?;
    }
    let uncounted: HashSet<Uuid> = uncounted.iter().map(|facts| facts.job).collect();
    let back: Vec<&Claim> =
        calls.iter().map(|call| call.claim).filter(|claim| uncounted.contains(&claim.job)).collect();
    if !back.is_empty() {
        return_claims(&back)?;
        opened.paused.extend(uncounted);
    }
    Ok(funded)
}

/// What limits a call.
struct Facts {
    job: Uuid,
    is_counted: bool,
    worst_cost: i64,
    wallet: Option<(String, Payer)>,
    budget: Option<(String, Payer)>,
}

impl Facts {
    fn payers(&self) -> impl Iterator<Item = (String, Payer)> {
        self.wallet.iter().chain(&self.budget).cloned()
    }
}

fn amount(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn read_facts(calls: &[&Opening]) -> Result<Vec<Facts>, Error> {
    let estimates: Vec<Estimate> = calls.iter().map(|call| Estimate(call)).collect();
    query(FUNDING, &[composite::array(&estimates)?], |row| {
        let number = |column| row.get::<i64>(column).map(amount);
        let wallet = match row.nullable::<String>("owner")? {
            Some(owner) => Some((owner, Payer { free: number("balance")?, held: number("held_by_wallet")? })),
            None => None,
        };
        let budget = match row.nullable::<Uuid>("budget_session")? {
            Some(session) => {
                let payer = Payer::budget(number("budget")?, number("spent")?, number("held_by_budget")?);
                Some((session.to_string(), payer))
            }
            None => None,
        };
        let (job, is_counted) = (row.get("job_id")?, row.get("is_counted")?);
        Ok(Facts { job, is_counted, worst_cost: row.get("worst_cost")?, wallet, budget })
    })
}

fn tokens(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

struct Estimate<'a>(&'a Opening<'a>);

impl Composite for Estimate<'_> {
    const TYPE: &'static str = "dialectic._call_estimate";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![
            self.0.claim.job.into(),
            self.0.claim.id.into(),
            self.0.model.name.as_str().into(),
            self.0.input_tokens.map(tokens).into(),
            tokens(self.0.output_tokens).into(),
        ]
    }
}

struct OpeningRow<'a> {
    call: &'a Opening<'a>,
    funding: Option<&'a Funding>,
}

impl Composite for OpeningRow<'_> {
    const TYPE: &'static str = "dialectic._opening";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        let prompt = self.call.prompt;
        vec![
            self.call.claim.job.into(),
            self.call.claim.id.into(),
            prompt.map(|prompt| prompt.messages.as_str()).into(),
            prompt.is_some_and(|prompt| prompt.goes_on).into(),
            self.call.model.provider.name.as_str().into(),
            self.call.model.name.as_str().into(),
            self.funding.map(|funding| funding.held).into(),
            self.funding.and_then(|funding| funding.payer.as_deref()).into(),
        ]
    }
}

struct Unfunded {
    job: Uuid,
    short_of: &'static str,
    needed: i64,
}

impl Composite for Unfunded {
    const TYPE: &'static str = "dialectic._unfunded_job";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![self.job.into(), self.short_of.into(), self.needed.into()]
    }
}
