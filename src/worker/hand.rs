//! What a claimer has in hand: every job it holds stands in exactly one of these places until it is done.
//!
//! Decides which batches of claims are over, and what is tried first when there is need for care. Never touches the database and
//! never starts a thread.

use crate::store::catalog::Model;
use crate::store::claim::Claim;
use crate::store::reply::Reply;
use crate::worker::calls::ClaimId;
use crate::worker::draft::{Ready, Rendering};
use dialectic_core::limits::Ticket;
use dialectic_core::provider::{Class, Usage};
use pgrx::Uuid;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// The places.
#[derive(Default)]
pub(crate) struct Hand {
    /// What was claimed in one go, of which something may be in hand.
    pub(crate) batches: Vec<Batch>,
    /// Batches of which nothing is, to be struck off.
    pub(crate) empty: Vec<Uuid>,
    /// Claimed, and not planned yet.
    pub(crate) plans: Vec<Claim>,
    pub(crate) rendering: HashMap<ClaimId, Rendering>,
    /// With documents that do not fit and are condensed first, in these groups.
    pub(crate) too_long: Vec<(Claim, Vec<Vec<Uuid>>)>,
    /// Rendered, and waiting at the gate or for a thread.
    pub(crate) ready: VecDeque<Ready>,
    pub(crate) calling: HashMap<ClaimId, Calling>,
    /// Calls that speak, by the moment when what they have said is put down.
    pub(crate) speaking: VecDeque<(Instant, ClaimId)>,
    /// What calls have said and nobody has put down yet.
    pub(crate) said: Vec<(Claim, String)>,
    pub(crate) replies: Vec<(Claim, Reply)>,
    /// Documents that are being made, and those that are.
    pub(crate) making: HashMap<ClaimId, Claim>,
    pub(crate) made: Vec<(Claim, String)>,
}

/// A job whose model is being called.
pub(crate) struct Calling {
    pub(crate) claim: Claim,
    pub(crate) model: Arc<Model>,
    /// How many tokens its messages were counted as, where they were.
    pub(crate) counted: u64,
    pub(crate) ticket: Option<Ticket>,
}

/// Jobs that were claimed in one go.
pub(crate) struct Batch {
    pub(crate) id: Uuid,
    pub(crate) claims: Vec<ClaimId>,
    /// Whether a claim of it could not be ended: then it stays listed for whoever comes after this claimer.
    pub(crate) is_stuck: bool,
}

/// What can be done in a transaction, one at a time when there is need for care.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    Reply,
    Document,
    TooLong,
    Ready,
    Plan,
    Nothing,
}

impl Hand {
    /// Whether nothing is claimed that is not finished.
    pub(crate) fn is_empty(&self) -> bool {
        self.held().next().is_none()
    }

    /// Every claim in hand.
    fn held(&self) -> impl Iterator<Item = ClaimId> {
        let on_threads = self.rendering.keys().chain(self.calling.keys()).chain(self.making.keys()).copied();
        on_threads
            .chain(self.plans.iter().map(|claim| claim.id))
            .chain(self.ready.iter().map(|ready| ready.claim.id))
            .chain(self.replies.iter().map(|(claim, _)| claim.id))
            .chain(self.made.iter().map(|(claim, _)| claim.id))
            .chain(self.too_long.iter().map(|(claim, _)| claim.id))
    }

    /// How many jobs stand before those that are claimed next; those of sessions that somebody else holds, and those that wait for
    /// their provider or for money, are in nobody's way.
    pub(crate) fn ahead(&self, held: &HashSet<Uuid>) -> usize {
        let plans = self.plans.iter().filter(|claim| !held.contains(&claim.session)).count();
        let goes = |ready: &&Ready| ready.goes() && ready.purse.is_none() && !held.contains(&ready.claim.session);
        let ready = self.ready.iter().filter(goes).count();
        plans + self.rendering.len() + ready + self.making.len()
    }

    /// Whether anything of a session waits for its lock.
    pub(crate) fn has_of(&self, session: Uuid) -> bool {
        self.plans.iter().any(|claim| claim.session == session)
            || self.ready.iter().any(|ready| ready.claim.session == session)
            || self.replies.iter().any(|(claim, _)| claim.session == session)
            || self.made.iter().any(|(claim, _)| claim.session == session)
            || self.too_long.iter().any(|(claim, _)| claim.session == session)
    }

    /// The owners and sessions of which something waits for money that other calls hold: no more calls of theirs are claimed.
    pub(crate) fn poor(&self) -> Vec<String> {
        let purses: HashSet<&String> = self.ready.iter().filter_map(|ready| ready.purse.as_ref()).collect();
        purses.into_iter().cloned().collect()
    }

    /// Money may have come back: what waits for it is tried again.
    pub(crate) fn try_short(&mut self) {
        self.ready.iter_mut().for_each(|ready| ready.is_short = false);
    }

    /// Whether a claim could not be ended.
    pub(crate) fn is_stuck(&self) -> bool {
        self.batches.iter().any(|batch| batch.is_stuck)
    }

    /// Whether something is only held up by a session that somebody else has locked.
    pub(crate) fn waits_for_a_session(&self) -> bool {
        !(self.replies.is_empty() && self.made.is_empty() && self.too_long.is_empty() && self.plans.is_empty())
    }

    /// Finds the batches of which nothing is in hand any more.
    pub(crate) fn find_empty(&mut self) {
        let held: HashSet<ClaimId> = self.held().collect();
        let empty = &mut self.empty;
        self.batches.retain(|batch| {
            let stays = batch.is_stuck || batch.claims.iter().any(|claim| held.contains(claim));
            if !stays {
                empty.push(batch.id);
            }
            stays
        });
    }

    /// The one thing that is tried first.
    pub(crate) fn first(&self, free_threads: usize) -> Thing {
        let places = [
            (!self.replies.is_empty(), Thing::Reply),
            (!self.made.is_empty(), Thing::Document),
            (!self.too_long.is_empty(), Thing::TooLong),
            (free_threads > 0 && self.ready.iter().any(|ready| ready.ticket.is_some()), Thing::Ready),
            (!self.plans.is_empty(), Thing::Plan),
        ];
        places.into_iter().find(|(is_there, _)| *is_there).map_or(Thing::Nothing, |(_, thing)| thing)
    }

    /// How many calls of each provider are claimed and have not been let through the gate; those of sessions that somebody else holds are in
    /// nobody's way.
    pub(crate) fn before_the_gate(&self, held: &HashSet<Uuid>) -> HashMap<&str, usize> {
        let is_before =
            |ready: &&Ready| ready.ticket.is_none() && !ready.is_short && !held.contains(&ready.claim.session);
        let waiting = self.ready.iter().filter(is_before).map(|ready| &ready.model);
        let mut counts = HashMap::new();
        for model in self.rendering.values().map(|rendering| &rendering.model).chain(waiting) {
            *counts.entry(model.provider.name.as_str()).or_default() += 1;
        }
        counts
    }

    /// The first of these cannot be done. A job that cannot go on is failed with the reason; one that cannot even be failed is let
    /// go, and its claim ends with the claimer. Returns what was reserved for it.
    pub(crate) fn give_up(&mut self, thing: Thing, problem: &str) -> Option<Ticket> {
        let mut ticket = None;
        // What cannot be kept was paid for all the same.
        let mut usage = Usage::default();
        let stuck = match thing {
            Thing::Reply => {
                let (claim, reply) = self.replies.remove(0);
                if reply.class.is_some() {
                    if let Some(batch) = self.batches.iter_mut().find(|batch| batch.claims.contains(&claim.id)) {
                        batch.is_stuck = true;
                    }
                    return None;
                }
                usage = reply.usage;
                Some(claim)
            }
            Thing::Document => Some(self.made.remove(0).0),
            Thing::TooLong => Some(self.too_long.remove(0).0),
            Thing::Ready => {
                let at = self.ready.iter().position(|ready| ready.ticket.is_some());
                at.and_then(|at| self.ready.remove(at)).map(|ready| {
                    ticket = ready.ticket;
                    ready.claim
                })
            }
            Thing::Plan => Some(self.plans.remove(0)),
            Thing::Nothing => None,
        };
        self.replies
            .extend(stuck.map(|claim| (claim, Reply { usage, ..Reply::failed(Class::Permanent, problem.to_owned()) })));
        ticket
    }
}
