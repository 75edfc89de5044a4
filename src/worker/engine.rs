//! The engine of a claimer, the same in the worker and in `run_pending`: take, make, call, keep.
//!
//! A turn opens the calls whose prompts are ready, keeps what came back, plans, claims, and reads what new prompts are made from: in
//! one short transaction where there is little of it, else in one each. Rendering and calling happen on threads between turns. A
//! transaction that fails changes nothing: what was in hand is still in hand, and is gone through one by one until what cannot be
//! done is found and failed.

use crate::error::Error;
use crate::settings;
use crate::store::claim::{self, Claim, Work};
use crate::store::document;
use crate::store::reply::{self, Reply};
use crate::store::request::{self, Draft};
use crate::store::{self, plan};
use crate::worker::calls::{Calls, ClaimId, Event, Rendered};
use crate::worker::draft::{Ready, Rendering};
use crate::worker::hand::{Batch, Hand, Thing};
use dialectic_core::provider::Class;
use pgrx::Uuid;
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

/// How long a transaction should take; batches grow and shrink to stay below.
const SHORT: Duration = Duration::from_millis(25);
const SMALLEST_BATCH: usize = 8;
const LARGEST_BATCH: usize = 512;
/// So much is done in one transaction rather than in three.
const LITTLE: usize = 16;
/// How often a turn claims again because what it planned can be claimed at once.
const ROUNDS: usize = 3;

/// Where turns run: in transactions of the worker or of a procedure.
pub(crate) trait Host {
    /// Runs work in a transaction of its own, which is committed unless there is an error.
    fn transaction<T>(&mut self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, String>;
    /// A place where a test may end the process.
    fn at(&mut self, _place: &'static str) {}
}

/// One claimer at work.
pub(crate) struct Engine {
    claimer: String,
    calls: Calls,
    hand: Hand,
    batch: usize,
    /// Whether the last turn failed.
    is_careful: bool,
}

/// What a turn has done, to be taken in when it is committed.
#[derive(Default)]
struct Done {
    plans: Vec<Claim>,
    batches: Vec<Batch>,
    drafts: Vec<Draft>,
    sources: Vec<document::Source>,
    opened: HashSet<Uuid>,
    tried: HashSet<ClaimId>,
    kept: HashSet<ClaimId>,
    claimed: usize,
    planned: usize,
    revoked: HashSet<ClaimId>,
}

/// What a transaction is for.
#[derive(Default)]
struct Parts {
    open: bool,
    keep: bool,
    claim: bool,
    /// Whether to see which claims were taken away.
    look: bool,
}

/// What a turn came to.
#[derive(Default)]
pub(crate) struct Report {
    /// How many jobs were claimed.
    pub(crate) claimed: usize,
    /// Whether another turn has something to do at once.
    pub(crate) is_busy: bool,
    /// Whether something waits for a session that somebody else holds.
    pub(crate) is_held_up: bool,
}

impl Engine {
    pub(crate) fn new(claimer: String) -> Result<Self, Error> {
        let calls = Calls::new().map_err(|problem| Error::Gone(format!("no socket for call threads: {problem}")))?;
        Ok(Engine { claimer, calls, hand: Hand::default(), batch: 64, is_careful: false })
    }

    /// The socket that rings when a thread is done with something.
    pub(crate) fn socket(&self) -> i32 {
        self.calls.socket()
    }

    /// Whether anything is claimed and not finished.
    pub(crate) fn is_idle(&self) -> bool {
        self.hand.is_empty()
    }

    /// One turn: at most `most` jobs are claimed; with `look` set claims that were taken away are let go.
    pub(crate) fn turn(&mut self, host: &mut impl Host, most: usize, look: bool) -> Result<Report, String> {
        self.listen();
        if !self.hand.replies.is_empty() {
            host.at("answered");
        }
        let mut report = Report::default();
        if self.is_careful || self.hand.replies.len() + self.hand.made.len() + self.hand.ready.len() <= LITTLE {
            let parts = Parts { open: true, keep: true, claim: true, look };
            self.step(host, parts, self.room(most), &mut report)?;
        } else {
            // In this order the threads always have something to do: they call while jobs are claimed, and render while answers
            // are kept.
            self.step(host, Parts { open: true, look, ..Parts::default() }, 0, &mut report)?;
            self.step(host, Parts { claim: true, ..Parts::default() }, self.room(most), &mut report)?;
            self.listen();
            self.step(host, Parts { keep: true, ..Parts::default() }, 0, &mut report)?;
        }
        let in_line = self.hand.waits_for_a_session();
        let waits_for_thread = self.calls.under_way() >= settings::max_concurrent_calls();
        report.is_held_up = in_line || (!self.hand.ready.is_empty() && !waits_for_thread);
        // All that was in hand when a transaction failed has been gone through, or is held up.
        let was_careful = self.is_careful;
        self.is_careful &= report.is_busy;
        report.is_busy |= was_careful;
        Ok(report)
    }

    /// How many more jobs may be claimed: no more than there are threads for stand before them.
    fn room(&self, most: usize) -> usize {
        let ahead = self.hand.ahead();
        settings::max_concurrent_calls().saturating_sub(ahead).min(most)
    }

    /// One transaction.
    fn step(&mut self, host: &mut impl Host, parts: Parts, room: usize, report: &mut Report) -> Result<(), String> {
        let room = if self.is_careful { 0 } else { room.min(self.batch) };
        let work = || {
            let begun = Instant::now();
            self.work(&parts, room).map(|done| (done, begun.elapsed()))
        };
        match host.transaction(work) {
            Ok((done, took)) => {
                self.adapt(took, &done, room);
                self.take_in(host, &parts, done, report);
                Ok(())
            }
            Err(problem) if self.is_careful => {
                self.give_up_one(&problem);
                Err(problem)
            }
            Err(problem) => {
                self.is_careful = true;
                Err(problem)
            }
        }
    }

    /// Takes in what the threads have done.
    fn listen(&mut self) {
        for event in self.calls.events() {
            match event {
                Event::Rendered(id, made) => {
                    if let Some(rendering) = self.hand.rendering.remove(&id) {
                        self.rendered(rendering, made);
                    }
                }
                Event::Replied(id, outcome, heard) => {
                    if let Some(claim) = self.hand.calling.remove(&id) {
                        self.hand.replies.push((claim, Reply::from((outcome, heard))));
                    }
                }
                Event::Documented(id, made) => match (self.hand.making.remove(&id), made) {
                    (Some(claim), Ok(text)) => self.hand.made.push((claim, text)),
                    (Some(claim), Err(problem)) => {
                        self.hand.replies.push((claim, Reply::failed(Class::Permanent, problem)))
                    }
                    (None, _) => {}
                },
            }
        }
    }

    fn rendered(&mut self, of: Rendering, made: Rendered) {
        match made {
            Rendered::Ready(messages, json) => self.hand.ready.push_back(of.end(messages, json)),
            Rendered::TooLong(groups) => self.hand.too_long.push((of.claim, of.groups(&groups))),
            Rendered::Refused(class, problem) => self.hand.replies.push((of.claim, Reply::failed(class, problem))),
        }
    }

    /// The work of a transaction. Changes nothing here: it may yet fail.
    fn work(&self, parts: &Parts, room: usize) -> Result<Done, Error> {
        let mut done = Done::default();
        if parts.look {
            done.revoked = claim::revoked(&self.hand.calling.values().copied().collect::<Vec<_>>())?;
        }
        claim::let_go(&self.hand.empty)?;
        let most = |wanted: bool, there: usize, thing: Thing| match self.careful() {
            _ if !wanted => 0,
            Some(only) => usize::from(only == thing),
            None => there.min(self.batch),
        };
        let replies = &self.hand.replies[..most(parts.keep, self.hand.replies.len(), Thing::Reply)];
        let made = &self.hand.made[..most(parts.keep, self.hand.made.len(), Thing::Document)];
        let ready = most(parts.open, self.hand.ready.len().min(self.free_threads()), Thing::Ready);
        let ready: Vec<&Ready> = self.hand.ready.iter().take(ready).collect();
        let plans = &self.hand.plans[..most(parts.claim, self.hand.plans.len(), Thing::Plan)];

        let sessions = replies.iter().map(|(claim, _)| claim.session);
        let sessions = sessions.chain(ready.iter().map(|ready| ready.claim.session));
        let sessions = sessions.chain(made.iter().map(|(claim, _)| claim.session));
        let too_long = &self.hand.too_long[..most(parts.keep, self.hand.too_long.len(), Thing::TooLong)];
        let sessions = sessions.chain(too_long.iter().map(|(claim, _)| claim.session));
        let sessions = sessions.chain(plans.iter().map(|claim| claim.session)).collect();
        let free = claim::lock_sessions(sessions)?;

        let opening: Vec<&&Ready> = ready.iter().filter(|ready| free.contains(&ready.claim.session)).collect();
        done.tried = opening.iter().map(|ready| ready.claim.id).collect();
        done.opened = request::open(opening.iter().map(|r| (r.claim.job, r.claim.id, r.prompt.as_deref())).collect())?;

        let kept: Vec<&(Claim, Reply)> = replies.iter().filter(|(claim, _)| free.contains(&claim.session)).collect();
        done.kept = kept.iter().map(|(claim, _)| claim.id).collect();
        reply::keep(&kept)?;
        let documents: Vec<&(Claim, String)> = made.iter().filter(|(claim, _)| free.contains(&claim.session)).collect();
        done.kept.extend(documents.iter().map(|(claim, _)| claim.id));
        document::keep(&documents)?;
        for (claim, groups) in too_long.iter().filter(|(claim, _)| free.contains(&claim.session)) {
            request::combine(claim, groups)?;
            done.kept.insert(claim.id);
        }

        if parts.claim {
            let (now, later): (Vec<Claim>, Vec<Claim>) = plans.iter().partition(|claim| free.contains(&claim.session));
            done.plans = later;
            done.plans.extend_from_slice(&self.hand.plans[plans.len()..]);
            let claimed = self.claim_and_plan(room, now, &mut done)?;
            let of =
                |work: Work| claimed.iter().filter(move |claim| claim.work == work).map(|claim| claim.job).collect();
            done.drafts = request::drafts(of(Work::Call))?;
            done.sources = document::sources(of(Work::Render))?;
        }
        if done.kept.is_empty() && done.opened.is_empty() {
            // Claims and plans come about again by themselves if the server loses them.
            store::commit_lazily();
        }
        Ok(done)
    }

    /// Plans, claims, plans what was claimed, and claims what was planned; returns the claimed jobs that are no plans.
    fn claim_and_plan(&self, room: usize, mut plans: Vec<Claim>, done: &mut Done) -> Result<Vec<Claim>, Error> {
        let mut others = Vec::new();
        for round in 0..ROUNDS {
            let (jobs, ids) = plans.iter().map(|claim| (claim.job, claim.id)).unzip();
            let planned = plan::plan_jobs(jobs, ids)?;
            done.planned += planned.outcomes.len();
            done.plans.extend(plans.drain(..).filter(|claim| planned.left.contains(&claim.job)));
            let room = room.saturating_sub(done.claimed);
            // What was planned is claimed at once, as long as there is not more to plan.
            if room == 0 || (round > 0 && planned.outcomes.is_empty()) || !planned.left.is_empty() {
                break;
            }
            let (batch, claims) = claim::take(&self.claimer, room)?;
            if !claims.is_empty() {
                let claims = claims.iter().map(|claim| claim.id).collect();
                done.batches.push(Batch { id: batch, claims, is_stuck: false });
            }
            done.claimed += claims.len();
            let (to_plan, rest): (Vec<Claim>, Vec<Claim>) =
                claims.into_iter().partition(|claim| claim.work == Work::Plan);
            others.extend(rest);
            let free = claim::lock_sessions(to_plan.iter().map(|claim| claim.session).collect())?;
            let (now, later): (Vec<Claim>, Vec<Claim>) =
                to_plan.into_iter().partition(|claim| free.contains(&claim.session));
            done.plans.extend(later);
            plans = now;
        }
        done.plans.extend(plans);
        Ok(others)
    }

    /// What was done is committed.
    fn take_in(&mut self, host: &mut impl Host, parts: &Parts, done: Done, report: &mut Report) {
        let kept = done.kept.len();
        self.hand.replies.retain(|(claim, _)| !done.kept.contains(&claim.id));
        self.hand.made.retain(|(claim, _)| !done.kept.contains(&claim.id));
        self.hand.too_long.retain(|(claim, _)| !done.kept.contains(&claim.id));
        self.hand.empty.clear();
        self.hand.batches.extend(done.batches);
        if parts.claim {
            self.hand.plans = done.plans;
        }
        for id in &done.revoked {
            self.calls.stop(*id);
        }
        let mut opened = Vec::new();
        let mut waiting = VecDeque::with_capacity(self.hand.ready.len());
        for ready in std::mem::take(&mut self.hand.ready) {
            if done.opened.contains(&ready.claim.job) {
                opened.push(ready);
            } else if !done.tried.contains(&ready.claim.id) {
                waiting.push_back(ready);
            }
        }
        self.hand.ready = waiting;
        if !done.drafts.is_empty() {
            host.at("claimed");
        }
        for draft in done.drafts {
            self.render(draft);
        }
        for source in done.sources {
            let claim = source.claim;
            match self.calls.document(claim.id, source.definition, source.manuscript) {
                Ok(()) => drop(self.hand.making.insert(claim.id, claim)),
                Err(problem) => self.hand.replies.push((claim, no_thread(&problem))),
            }
        }
        if !opened.is_empty() {
            host.at("prompt_saved");
        }
        let sent = opened.len();
        for ready in opened {
            self.hand.calling.insert(ready.claim.id, ready.claim);
            if let Err(problem) = self.calls.call(ready.claim.id, ready.request, ready.wanted) {
                self.hand.calling.remove(&ready.claim.id);
                self.hand.replies.push((ready.claim, no_thread(&problem)));
            }
        }
        if sent > 0 {
            host.at("calling");
        }
        if kept > 0 {
            host.at("between_batches");
        }
        self.hand.find_empty();
        report.claimed += done.claimed;
        report.is_busy |= kept + sent + done.claimed + done.planned > 0;
    }

    fn free_threads(&self) -> usize {
        settings::max_concurrent_calls().saturating_sub(self.calls.under_way())
    }

    /// The one thing that is tried after a turn has failed.
    fn careful(&self) -> Option<Thing> {
        self.is_careful.then(|| self.hand.first(self.free_threads()))
    }

    fn render(&mut self, draft: Draft) {
        match Rendering::begin(draft) {
            Ok((rendering, prompt, room)) => match self.calls.render(rendering.claim.id, prompt, room) {
                Ok(()) => drop(self.hand.rendering.insert(rendering.claim.id, rendering)),
                Err(problem) => self.hand.replies.push((rendering.claim, no_thread(&problem))),
            },
            Err((claim, problem)) => self.hand.replies.push((claim, Reply::failed(Class::Permanent, problem))),
        }
    }

    /// Batches grow while transactions are short and shrink when they are not.
    fn adapt(&mut self, took: Duration, done: &Done, room: usize) {
        if took > SHORT * 3 / 2 {
            self.batch = (self.batch / 2).max(SMALLEST_BATCH);
        } else if took < SHORT / 2 && (done.claimed >= room.max(1) || done.kept.len() >= self.batch) {
            self.batch = (self.batch * 2).min(LARGEST_BATCH);
        }
    }

    /// The one thing that was tried cannot be done.
    fn give_up_one(&mut self, problem: &str) {
        let tried = self.hand.first(self.free_threads());
        self.is_careful &= tried != Thing::Nothing;
        self.hand.give_up(tried, problem);
    }
}

fn no_thread(problem: &std::io::Error) -> Reply {
    Reply::failed(Class::Transient, format!("no thread for it: {problem}"))
}
