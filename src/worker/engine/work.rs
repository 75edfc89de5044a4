//! What one transaction of the engine does: open, store, plan, read, claim, in this order.
//!
//! Nothing here changes the engine, because the transaction may yet fail; `apply` does that when it is committed. The
//! phase tells whether an error came from reading a job or from writing.

use super::{Engine, UNSTORED_BYTES_LIMIT, read_news};
use crate::error::{Error, Problem};
use crate::store::claim::{self, Claim, Order, Read, Taken, Work};
use crate::store::index::{self, IndexDraft};
use crate::store::opening::{self, Opened};
use crate::store::request::{self, Draft};
use crate::store::{self, catalog, combine, document, partial, plan, reply};
use crate::test_hooks::stop_inside;
use crate::worker::admission::News;
use crate::worker::cache_invalidation;
use crate::worker::commit_hook;
use crate::worker::engine::isolate::Only;
use crate::worker::in_flight::{Kind, Place, is_plan};
use dialectic_core::definition::SeedSource;
use dialectic_net::ClaimId;
use pgrx::Uuid;
use std::cell::Cell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// What a transaction is for.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) open: bool,
    pub(super) keep: bool,
    pub(super) claim: bool,
    /// Whether to see which claims were revoked.
    pub(super) look: bool,
}

/// What a transaction was doing when it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// What concerns no session: the catalog, finished claims, learned token ratios.
    Housekeeping,
    Reading,
    Writing,
    Claiming,
}

/// What a transaction has done, to be applied when it is committed.
#[derive(Default)]
pub(super) struct Done {
    /// Jobs that were read; those that could not be come with the reason.
    pub(super) drafts: Vec<Read<Draft>>,
    pub(super) sources: Vec<Read<document::Source>>,
    pub(super) index_drafts: Vec<IndexDraft>,
    /// Claims that were read or planned. One that appears in no other field is no longer ours.
    pub(super) read: HashSet<ClaimId>,
    /// Plans that are left for another transaction.
    pub(super) left: HashSet<ClaimId>,
    pub(super) unplannable: Vec<(Claim, Problem)>,
    /// Plans whose stage run has no seed prompt, with the stage run and what its seed prompt is rendered from.
    pub(super) seedless: Vec<(Claim, Uuid, SeedSource)>,
    pub(super) opened: Opened,
    /// Sessions that were to be locked, and those of them that another transaction has locked.
    pub(super) wanted: HashSet<Uuid>,
    pub(super) busy: HashSet<Uuid>,
    pub(super) tried: HashSet<ClaimId>,
    pub(super) stored: HashSet<ClaimId>,
    pub(super) taken: Taken,
    /// Whether nothing was claimed because the prompts of what was read come first.
    pub(super) has_put_off_claim: bool,
    pub(super) planned: usize,
    /// How long planning took, which sees to its own bounds.
    pub(super) planning: Duration,
    pub(super) revoked: HashSet<ClaimId>,
    pub(super) partial_texts: HashSet<ClaimId>,
    pub(super) finished_batches: usize,
    pub(super) has_learned: bool,
    /// What has changed in the tables that are cached.
    pub(super) news: News,
}

impl Done {
    pub(super) fn claimed(&self) -> usize {
        self.taken.claims.len()
    }

    pub(super) fn has_written(&self) -> bool {
        self.claimed() + self.stored.len() + self.opened.open.len() + self.planned + self.partial_texts.len() > 0
    }
}

impl Done {
    /// Whether anything was done for a job, written or not.
    pub(super) fn has_tried(&self) -> bool {
        self.has_written() || self.tried.len() + self.read.len() > 0
    }
}

impl Engine {
    /// The work of a transaction.
    pub(super) fn work(&self, parts: &Parts, room: usize, only: Only, phase: &Cell<Phase>) -> Result<Done, Error> {
        let mut done = Done { news: read_news()?, ..Done::default() };
        self.keep_house(parts, only, &mut done)?;
        if only == Only::Housekeeping {
            return Ok(done);
        }
        phase.set(Phase::Writing);
        let free = self.store(parts, only, &mut done)?;
        if parts.claim {
            self.plan(only, &free, phase, &mut done)?;
            phase.set(Phase::Reading);
            self.read(only, &mut done)?;
            phase.set(Phase::Claiming);
            // Where there is little to do, what was just read is prepared before more is claimed.
            done.has_put_off_claim =
                parts.open && !done.drafts.is_empty() && done.stored.is_empty() && done.planned == 0;
            if !done.has_put_off_claim {
                self.claim(room, only, &mut done)?;
            }
        }
        let loses_nothing = done.stored.is_empty() && done.opened.open.is_empty() && done.partial_texts.is_empty();
        if loses_nothing && !done.taken.is_alone {
            // Claims and plans come about again by themselves if the server loses them; answers do not. A claim to work
            // a job alone must be known to whoever finds it lost.
            store::commit_lazily();
        }
        Ok(done)
    }

    /// What concerns no session.
    fn keep_house(&self, parts: &Parts, only: Only, done: &mut Done) -> Result<(), Error> {
        if parts.look {
            let calling: Vec<Claim> = self.in_flight.at(Kind::Calling).map(|(claim, _)| *claim).collect();
            done.revoked = claim::revoked(&calling)?;
        }
        if matches!(only, Only::All | Only::Housekeeping) {
            let finished = self.in_flight.finished_batches();
            claim::release(finished)?;
            done.finished_batches = finished.len();
            catalog::learn(self.admissions.learned())?;
            done.has_learned = true;
        }
        Ok(())
    }

    /// Stores answers, documents and failures, and opens calls; returns the sessions that are locked for it.
    fn store(&self, parts: &Parts, only: Only, done: &mut Done) -> Result<HashSet<Uuid>, Error> {
        let texts: Vec<&(Claim, String)> =
            self.partial_texts.iter().filter(|(claim, _)| self.may_touch(only, claim)).collect();
        done.partial_texts = texts.iter().map(|(claim, _)| claim.id).collect();
        partial::append(&texts)?;

        let some = |kind: Kind, wanted: bool| -> Vec<(&Claim, &Place)> {
            let most = if wanted { self.batch } else { 0 };
            self.in_flight.at(kind).filter(|(claim, _)| self.may_touch(only, claim)).take(most).collect()
        };
        let answered = some(Kind::Answered, parts.keep);
        let rendered = some(Kind::Rendered, parts.keep);
        let oversized = [some(Kind::Oversized, parts.keep), some(Kind::Unindexed, parts.keep)].concat();
        let unreadable = some(Kind::Unreadable, parts.keep);
        let may_open = parts.open && self.in_flight.unstored_bytes() < UNSTORED_BYTES_LIMIT;
        let admitted: Vec<_> = self
            .in_flight
            .prepared()
            .filter(|(claim, prepared)| prepared.is_admitted() && self.may_touch(only, claim))
            .take(if may_open { self.free_threads().min(self.batch) } else { 0 })
            .collect();
        let plans = some(Kind::Claimed, parts.claim).into_iter().filter(|(claim, _)| is_plan(claim));
        let plans = plans.chain(some(Kind::SeedRendered, parts.claim));

        done.wanted = if only == Only::All { self.busy.clone() } else { HashSet::new() };
        let stored = answered.iter().chain(&rendered).chain(&oversized).chain(&unreadable);
        done.wanted.extend(stored.map(|(claim, _)| claim.session));
        done.wanted.extend(admitted.iter().map(|(claim, _)| claim.session));
        done.wanted.extend(plans.map(|(claim, _)| claim.session));
        let locked = claim::lock_sessions(&done.wanted)?;
        let free: HashSet<Uuid> = locked.keys().copied().collect();
        done.busy = done.wanted.difference(&free).copied().collect();
        let is_free = |claim: &Claim| free.contains(&claim.session);

        let is_limited = |claim: &Claim| locked.get(&claim.session).copied().unwrap_or_default();
        let admitted: Vec<_> = admitted.into_iter().filter(|(claim, _)| is_free(claim)).collect();
        done.tried = admitted.iter().map(|(claim, _)| claim.id).collect();
        let calls: Vec<_> =
            admitted.iter().map(|(claim, prepared)| prepared.opening(claim, is_limited(claim))).collect();
        done.opened = opening::open(&calls)?;
        if !calls.is_empty() {
            stop_inside("opening");
        }

        let mut replies = Vec::new();
        let mut documents = Vec::new();
        let mut failures = Vec::new();
        for (claim, place) in answered.into_iter().chain(rendered).chain(oversized).chain(unreadable) {
            if !is_free(claim) {
                continue;
            }
            match place {
                Place::Answered(reply) => replies.push((claim, &**reply)),
                Place::Rendered(text) => documents.push((claim, text.as_str())),
                Place::Oversized(groups) => combine::combine(claim, groups)?,
                Place::Unindexed(queries) => index::wait_for_index(claim, queries)?,
                Place::Unreadable(problem) => failures.push((claim, problem)),
                _ => continue,
            }
            done.stored.insert(claim.id);
        }
        reply::keep(&replies)?;
        document::keep(&documents)?;
        claim::fail_unreadable(&failures)?;
        if !done.stored.is_empty() {
            stop_inside("storing");
        }
        Ok(free)
    }

    /// Stores seed prompts, and plans what was claimed before.
    fn plan(&self, only: Only, free: &HashSet<Uuid>, phase: &Cell<Phase>, done: &mut Done) -> Result<(), Error> {
        let is_now = |claim: &Claim| is_plan(claim) && self.may_touch(only, claim) && free.contains(&claim.session);
        let places = self.in_flight.at(Kind::SeedRendered).chain(self.in_flight.at(Kind::Claimed));
        let places: Vec<_> = places.filter(|(claim, _)| is_now(claim)).take(self.batch).collect();
        if places.is_empty() {
            return Ok(());
        }
        let seeds: Vec<(&Claim, &str)> = places.iter().filter_map(|(claim, place)| seed_at(claim, place)).collect();
        plan::store_seeds(&seeds)?;
        if !seeds.is_empty() {
            stop_inside("storing_seed");
        }
        let plans: Vec<Claim> = places.into_iter().map(|(claim, _)| *claim).collect();
        phase.set(Phase::Reading);
        let begun = Instant::now();
        let planned = plan::plan_jobs(&plans)?;
        let found = planned.jobs();
        let lacking = self.lacking(plans.iter().filter(|claim| !found.contains(&claim.job)).copied().collect())?;
        done.unplannable = lacking;
        phase.set(Phase::Writing);
        let outcome = planned.store()?;
        done.planning += begun.elapsed();
        done.planned += outcome.planned;
        done.read.extend(plans.iter().map(|claim| claim.id));
        done.left = plans.iter().filter(|claim| outcome.left.contains(&claim.job)).map(|claim| claim.id).collect();
        let claim_of = |job: Uuid| plans.iter().find(|claim| claim.job == job).copied();
        for (job, problem) in outcome.unplannable {
            done.unplannable.extend(claim_of(job).map(|claim| (claim, problem)));
        }
        for seedless in outcome.seedless {
            done.seedless.extend(claim_of(seedless.job).map(|claim| (claim, seedless.run, seedless.source)));
        }
        stop_inside("planning");
        Ok(())
    }

    /// Reads what prompts and documents of jobs that were claimed before are made from.
    fn read(&self, only: Only, done: &mut Done) -> Result<(), Error> {
        let unread: Vec<Claim> = self
            .in_flight
            .at(Kind::Claimed)
            .map(|(claim, _)| claim)
            .filter(|claim| !is_plan(claim) && self.may_touch(only, claim))
            .take(self.batch)
            .copied()
            .collect();
        if unread.is_empty() {
            return Ok(());
        }
        let of = |work: Work| -> Vec<Claim> { unread.iter().filter(|claim| claim.work == work).copied().collect() };
        done.drafts = request::drafts(&of(Work::Call))?;
        done.sources = document::sources(&of(Work::Render))?;
        done.index_drafts = index::drafts(&of(Work::Index))?;
        self.note_missing(&unread, done)?;
        done.read.extend(unread.iter().map(|claim| claim.id));
        // A model that was added together with a job of its own is known before that job is prepared.
        cache_invalidation::accept();
        done.news.add(read_news()?);
        stop_inside("reading");
        Ok(())
    }

    /// Jobs of which nothing was found are no longer claimed, or a row that they are made from is missing.
    fn note_missing(&self, unread: &[Claim], done: &mut Done) -> Result<(), Error> {
        let read: HashSet<ClaimId> = done
            .drafts
            .iter()
            .map(|(claim, _)| claim.id)
            .chain(done.sources.iter().map(|(claim, _)| claim.id))
            .chain(done.index_drafts.iter().map(|draft| draft.claim.id))
            .collect();
        let missing = unread.iter().filter(|claim| !read.contains(&claim.id)).copied().collect();
        done.drafts.extend(self.lacking(missing)?.into_iter().map(|(claim, problem)| (claim, Err(problem))));
        Ok(())
    }

    /// Those of these claims that are still ours, although nothing was found of their jobs.
    fn lacking(&self, missing: Vec<Claim>) -> Result<Vec<(Claim, Problem)>, Error> {
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let revoked = claim::revoked(&missing)?;
        let problem = || Problem::from(Error::Unreadable("a row that the job is made from is missing".to_owned()));
        let ours = missing.into_iter().filter(|claim| !revoked.contains(&claim.id));
        Ok(ours.map(|claim| (claim, problem())).collect())
    }

    /// Claims due jobs; they are read in the next transaction.
    fn claim(&self, room: usize, only: Only, done: &mut Done) -> Result<(), Error> {
        let mut excluded = self.unclaimable();
        excluded.extend(&done.busy);
        let in_flight = self.in_flight.working(&excluded).saturating_sub(done.stored.len());
        match only {
            Only::All => {}
            Only::Session(session) => {
                excluded.extend(claim::due_sessions()?);
                excluded.remove(&session);
            }
            Only::Claim(_) | Only::Housekeeping => return Ok(()),
        }
        if room == 0 {
            return Ok(());
        }
        let limited = self.admissions.queues(|| self.in_flight.before_admission(&excluded));
        done.taken = claim::claim_batch(&Order {
            claimer: &self.claimer,
            max_jobs: room,
            in_flight,
            // Read before the statement takes its snapshot: a job that becomes ready later is told of later.
            floor: commit_hook::claim_floor(),
            excluded: &excluded,
            limited: &limited,
            payers_waiting: self.in_flight.payers_waiting(),
        })?;
        if let Some(floor) = done.taken.floor {
            commit_hook::raise_floor(floor);
        }
        if done.claimed() > 0 {
            stop_inside("claiming");
        }
        Ok(())
    }

    /// Whether a transaction for this may touch a job. After an error the busy sessions are tried too.
    fn may_touch(&self, only: Only, claim: &Claim) -> bool {
        match only {
            Only::All => !self.busy.contains(&claim.session) && !self.hold_ups.is_held(claim.session),
            Only::Session(session) => claim.session == session,
            Only::Claim(id) => claim.id == id,
            Only::Housekeeping => false,
        }
    }
}

/// The seed prompt that waits to be stored for a plan.
fn seed_at<'a>(claim: &'a Claim, place: &'a Place) -> Option<(&'a Claim, &'a str)> {
    match place {
        Place::SeedRendered(seed) => Some((claim, seed)),
        _ => None,
    }
}
