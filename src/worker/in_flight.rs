//! The jobs that a claimer has in flight: one map from claim to the place where the job is.
//!
//! A job is in exactly one place, and `advance` is the only way to another. Never decides what happens next, never
//! touches the database and never starts a thread.

use crate::error::Problem;
use crate::store::catalog::Model;
use crate::store::claim::{Claim, Work};
use crate::store::combine::Combine;
use crate::store::index::EmbeddedTexts;
use crate::store::reply::Reply;
use crate::worker::prepare::{Admission, Prepared, Preparing};
use dialectic_core::definition::Query;
use dialectic_core::limits::Ticket;
use dialectic_core::provider::Provider;
use dialectic_net::ClaimId;
use pgrx::Uuid;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// How many times a job is read before an error makes it fail.
const MOST_READS: u8 = 3;

/// Where a job is.
pub(crate) enum Place {
    /// Its claim is committed; nothing about it has been read.
    Claimed,
    /// A thread renders the seed prompt of this stage run, for this plan or for another one in flight.
    RenderingSeed(Uuid),
    /// The seed prompt of its stage run waits to be stored; then the plan is planned.
    SeedRendered(String),
    /// A thread renders and counts its prompt.
    Preparing(Box<Preparing>),
    /// Its documents do not fit: these groups are condensed first.
    Oversized(Vec<Combine>),
    /// What it retrieves from is indexed first.
    Unindexed(Vec<Query>),
    /// Its request is complete and waits for its provider, for money, or for a thread.
    Prepared(Box<Prepared>),
    /// A thread calls its model.
    Calling(Box<Calling>),
    /// Its answer, or its failure, waits to be stored.
    Answered(Box<Reply>),
    /// A thread renders its document.
    Rendering,
    /// Its document waits to be stored.
    Rendered(String),
    /// It could not be read or computed, and waits to be failed.
    Unreadable(Problem),
}

/// The places without what is in them, in the order in which `health()` shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Claimed,
    RenderingSeed,
    SeedRendered,
    Preparing,
    Oversized,
    Unindexed,
    Prepared,
    Calling,
    Answered,
    Rendering,
    Rendered,
    Unreadable,
}

/// The number of places, and what `health()` calls them.
pub(crate) const KINDS: usize = 12;
pub(crate) const KIND_NAMES: [&str; KINDS] = [
    "claimed",
    "rendering_seed",
    "seed_rendered",
    "preparing",
    "oversized",
    "unindexed",
    "prepared",
    "calling",
    "answered",
    "rendering",
    "rendered",
    "unreadable",
];

impl Place {
    fn kind(&self) -> Kind {
        match self {
            Place::Claimed => Kind::Claimed,
            Place::RenderingSeed(_) => Kind::RenderingSeed,
            Place::SeedRendered(_) => Kind::SeedRendered,
            Place::Preparing(_) => Kind::Preparing,
            Place::Oversized(_) => Kind::Oversized,
            Place::Unindexed(_) => Kind::Unindexed,
            Place::Prepared(_) => Kind::Prepared,
            Place::Calling(_) => Kind::Calling,
            Place::Answered(_) => Kind::Answered,
            Place::Rendering => Kind::Rendering,
            Place::Rendered(_) => Kind::Rendered,
            Place::Unreadable(_) => Kind::Unreadable,
        }
    }

    /// The bytes of it that only this process has, and that the next transaction should store.
    fn unstored_bytes(&self) -> usize {
        match self {
            Place::Answered(reply) => reply.bytes(),
            Place::Rendered(text) | Place::SeedRendered(text) => text.len(),
            _ => 0,
        }
    }
}

/// A job whose model is being called.
pub(crate) struct Calling {
    pub(crate) model: Arc<Model>,
    /// How many tokens its messages were counted as, where they were.
    pub(crate) counted: u64,
    pub(crate) ticket: Option<Ticket>,
    /// The texts that are embedded, where it is the call of an index job.
    pub(crate) embedded: Option<EmbeddedTexts>,
}

/// A job in flight.
pub(crate) struct Job {
    pub(crate) claim: Claim,
    place: Place,
    /// When it came to its place, as the number of the move.
    arrived: u64,
    /// The row of `claims` that lists it.
    batch: Uuid,
    /// The provider that its call will take room of, where that is limited and the job is not read yet.
    provider: Option<Arc<Provider>>,
    reads: u8,
}

impl Job {
    /// Whether neither its session nor money holds it up.
    fn is_working(&self, excluded: &HashSet<Uuid>) -> bool {
        let waits_for_money =
            matches!(&self.place, Place::Prepared(call) if matches!(call.admission, Admission::WaitingForMoney));
        !excluded.contains(&self.claim.session) && !waits_for_money
    }

    /// Whether only a transaction takes it from its place.
    fn waits_for_transaction(&self) -> bool {
        let on_thread = [Kind::RenderingSeed, Kind::Preparing, Kind::Calling, Kind::Rendering];
        !on_thread.contains(&self.place.kind())
    }
}

/// All jobs in flight.
#[derive(Default)]
pub(crate) struct InFlight {
    jobs: HashMap<ClaimId, Job>,
    /// The same by place, in the order of arrival.
    by_place: BTreeSet<(Kind, u64, ClaimId)>,
    counts: [usize; KINDS],
    moves: u64,
    unstored_bytes: usize,
    /// The rows of `claims`, with how many of their jobs are in flight.
    batches: HashMap<Uuid, usize>,
    /// The rows of `claims` of which no job is in flight, to be deleted.
    finished_batches: Vec<Uuid>,
}

impl InFlight {
    /// Jobs were claimed together, each with the provider that limits its call, and the claim is committed.
    pub(crate) fn claim(&mut self, batch: Uuid, claims: impl IntoIterator<Item = (Claim, Option<Arc<Provider>>)>) {
        for (claim, provider) in claims {
            self.moves += 1;
            let job = Job { claim, place: Place::Claimed, arrived: self.moves, batch, provider, reads: 0 };
            self.by_place.insert((Kind::Claimed, job.arrived, claim.id));
            self.counts[Kind::Claimed as usize] += 1;
            *self.batches.entry(batch).or_default() += 1;
            self.jobs.insert(claim.id, job);
        }
    }

    /// Moves a job to another place; returns what it was in before. A claim that is not in flight moves nowhere.
    pub(crate) fn advance(&mut self, id: ClaimId, place: Place) -> Option<Place> {
        let job = self.jobs.get_mut(&id)?;
        self.moves += 1;
        self.by_place.remove(&(job.place.kind(), job.arrived, id));
        self.by_place.insert((place.kind(), self.moves, id));
        self.counts[job.place.kind() as usize] -= 1;
        self.counts[place.kind() as usize] += 1;
        self.unstored_bytes = self.unstored_bytes - job.place.unstored_bytes() + place.unstored_bytes();
        job.arrived = self.moves;
        Some(std::mem::replace(&mut job.place, place))
    }

    /// Moves a job to the place that follows from what it is in.
    pub(crate) fn advance_with(&mut self, id: ClaimId, next: impl FnOnce(Place) -> Place) {
        if let Some(before) = self.advance(id, Place::Claimed) {
            self.advance(id, next(before));
        }
    }

    /// A job is done with.
    pub(crate) fn finish(&mut self, id: ClaimId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.by_place.remove(&(job.place.kind(), job.arrived, id));
        self.counts[job.place.kind() as usize] -= 1;
        self.unstored_bytes -= job.place.unstored_bytes();
        if let Some(left) = self.batches.get_mut(&job.batch) {
            *left -= 1;
            if *left == 0 {
                self.batches.remove(&job.batch);
                self.finished_batches.push(job.batch);
            }
        }
    }

    /// A job could not be read, or its model is not known. After a few times that is its place; until then it is read
    /// again.
    pub(crate) fn note_failed_read(&mut self, id: ClaimId, problem: Problem) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.reads += 1;
        let is_last = job.reads >= MOST_READS;
        self.advance(id, if is_last { Place::Unreadable(problem) } else { Place::Claimed });
    }

    /// How many jobs go on by themselves: neither their session nor money holds them up.
    pub(crate) fn working(&self, excluded: &HashSet<Uuid>) -> usize {
        self.jobs.values().filter(|job| job.is_working(excluded)).count()
    }

    /// Whether a job is in flight and goes on by itself.
    pub(crate) fn is_working(&self, id: ClaimId, excluded: &HashSet<Uuid>) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.is_working(excluded))
    }

    /// The admitted calls of a session.
    pub(crate) fn admitted(&self, session: Uuid) -> Vec<ClaimId> {
        let is_admitted = |claim: &Claim, call: &Prepared| claim.session == session && call.is_admitted();
        self.prepared().filter(|(claim, call)| is_admitted(claim, call)).map(|(claim, _)| claim.id).collect()
    }

    /// How many jobs are in a place.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.counts[kind as usize]
    }

    /// The claims of a place, in the order of arrival.
    pub(crate) fn ids(&self, kind: Kind) -> impl Iterator<Item = ClaimId> {
        self.by_place.range((kind, 0, i64::MIN)..=(kind, u64::MAX, i64::MAX)).map(|(_, _, id)| *id)
    }

    /// The jobs of a place with what they are in, in the order of arrival.
    pub(crate) fn at(&self, kind: Kind) -> impl Iterator<Item = (&Claim, &Place)> {
        self.ids(kind).filter_map(|id| self.jobs.get(&id)).map(|job| (&job.claim, &job.place))
    }

    pub(crate) fn claim_of(&self, id: ClaimId) -> Option<Claim> {
        self.jobs.get(&id).map(|job| job.claim)
    }

    pub(crate) fn prepared(&self) -> impl Iterator<Item = (&Claim, &Prepared)> {
        self.at(Kind::Prepared).filter_map(|(claim, place)| match place {
            Place::Prepared(prepared) => Some((claim, &**prepared)),
            _ => None,
        })
    }

    pub(crate) fn prepared_mut(&mut self, id: ClaimId) -> Option<(Claim, &mut Prepared)> {
        match self.jobs.get_mut(&id) {
            Some(Job { claim, place: Place::Prepared(prepared), .. }) => Some((*claim, prepared)),
            _ => None,
        }
    }

    pub(crate) fn calling(&self, id: ClaimId) -> Option<&Calling> {
        match self.jobs.get(&id) {
            Some(Job { place: Place::Calling(calling), .. }) => Some(calling),
            _ => None,
        }
    }

    /// Every session that has a job in flight.
    pub(crate) fn sessions(&self) -> HashSet<Uuid> {
        self.jobs.values().map(|job| job.claim.session).collect()
    }

    /// Whether a session has a job in a place that only a transaction takes it from.
    pub(crate) fn needs_transaction(&self, session: Uuid) -> bool {
        self.jobs.values().any(|job| job.claim.session == session && job.waits_for_transaction())
    }

    /// Whether any job is in such a place.
    pub(crate) fn waits_for_transaction(&self) -> bool {
        self.jobs.values().any(Job::waits_for_transaction)
    }

    /// The claims of a session that are not read yet, and the plans that are read again with their seed prompt.
    pub(crate) fn unread(&self, session: Uuid) -> Vec<ClaimId> {
        let unread = self.at(Kind::Claimed).chain(self.at(Kind::SeedRendered));
        unread.filter(|(claim, _)| claim.session == session).map(|(claim, _)| claim.id).collect()
    }

    /// The plans of a stage run that wait for its seed prompt to be rendered.
    pub(crate) fn rendering_seed(&self, run: Uuid) -> Vec<ClaimId> {
        let waits = |place: &Place| matches!(place, Place::RenderingSeed(of) if *of == run);
        self.at(Kind::RenderingSeed).filter(|(_, place)| waits(place)).map(|(claim, _)| claim.id).collect()
    }

    /// How many jobs will need a thread soon. Jobs of busy sessions and jobs that wait for their provider or for money
    /// do not count: they would leave threads without work.
    pub(crate) fn ahead(&self, busy: &HashSet<Uuid>) -> usize {
        let goes = |claim: &Claim, prepared: &Prepared| {
            prepared.is_next() && prepared.payer.is_none() && !busy.contains(&claim.session)
        };
        let prepared = self.prepared().filter(|(claim, prepared)| goes(claim, prepared)).count();
        let rendering = [Kind::RenderingSeed, Kind::SeedRendered, Kind::Preparing, Kind::Rendering];
        prepared + rendering.into_iter().map(|kind| self.count(kind)).sum::<usize>()
    }

    /// How many jobs are claimed and not read yet; those of busy sessions are not counted.
    pub(crate) fn unread_count(&self, busy: &HashSet<Uuid>) -> usize {
        self.at(Kind::Claimed).filter(|(claim, _)| !busy.contains(&claim.session)).count()
    }

    /// How many calls of each provider are claimed and not admitted; those of busy sessions are not counted.
    pub(crate) fn before_admission(&self, busy: &HashSet<Uuid>) -> HashMap<&str, usize> {
        let mut counts = HashMap::new();
        let before = [Kind::Claimed, Kind::Preparing, Kind::Prepared];
        for job in before.into_iter().flat_map(|kind| self.ids(kind)).filter_map(|id| self.jobs.get(&id)) {
            let is_busy = busy.contains(&job.claim.session);
            let provider = match &job.place {
                Place::Claimed if !is_busy => job.provider.as_ref(),
                Place::Preparing(preparing) => Some(&preparing.model.provider),
                Place::Prepared(prepared) if prepared.waits_for_admission() && !is_busy => {
                    Some(&prepared.model.provider)
                }
                _ => None,
            };
            if let Some(provider) = provider {
                *counts.entry(provider.name.as_str()).or_default() += 1;
            }
        }
        counts
    }

    /// The owners and sessions whose calls wait for money that other calls hold: no more calls of theirs are claimed.
    pub(crate) fn payers_waiting(&self) -> Vec<String> {
        let payers: HashSet<&String> = self.prepared().filter_map(|(_, prepared)| prepared.payer.as_ref()).collect();
        payers.into_iter().cloned().collect()
    }

    /// Money may have been released: calls that wait for it are admitted again.
    pub(crate) fn retry_unfunded(&mut self) {
        for id in self.ids(Kind::Prepared).collect::<Vec<_>>() {
            if let Some((_, prepared)) = self.prepared_mut(id)
                && matches!(prepared.admission, Admission::WaitingForMoney)
            {
                prepared.admission = Admission::Queued;
            }
        }
    }

    /// Bytes of answers and documents that are not stored yet.
    pub(crate) fn unstored_bytes(&self) -> usize {
        self.unstored_bytes
    }

    /// The rows of `claims` that list no job in flight any more.
    pub(crate) fn finished_batches(&self) -> &[Uuid] {
        &self.finished_batches
    }

    /// Those rows are deleted.
    pub(crate) fn forget_batches(&mut self, deleted: usize) {
        self.finished_batches.drain(..deleted);
    }

    /// How many jobs are in each place, for `health()`.
    pub(crate) fn counts(&self) -> [usize; KINDS] {
        self.counts
    }
}

/// Whether a job is planned in the transaction that reads it.
pub(crate) fn is_plan(claim: &Claim) -> bool {
    claim.work == Work::Plan
}
