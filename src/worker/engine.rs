//! The engine of a claimer, the same in the worker and in `run_pending`: take, make, call, keep.
//!
//! A turn opens the calls whose prompts are ready, keeps what came back, plans, claims, and reads what new prompts are made from: in
//! one short transaction where there is little of it, else in one each. Rendering and calling happen on threads between turns. A
//! transaction that fails changes nothing: what was in hand is still in hand, and is gone through one by one until what cannot be
//! done is found and failed.

mod taking;
mod threads;

use crate::error::Error;
use crate::settings;
use crate::store::claim::{self, Claim, Work};
use crate::store::document;
use crate::store::reply::{self, Reply};
use crate::store::request;
use crate::store::{self, catalog, partial, plan};
use crate::worker::calls::Calls;
use crate::worker::draft::Ready;
use crate::worker::gate::{Gate, News};
use crate::worker::hand::{Batch, Hand, Thing};
use crate::worker::news;
use crate::worker::turn::{Done, Host, Parts, Report};
use pgrx::Uuid;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long a transaction should take, what it plans left aside; batches grow and shrink to stay below.
const SHORT: Duration = Duration::from_millis(15);
const SMALLEST_BATCH: usize = 8;
const LARGEST_BATCH: usize = 512;
/// Open, claim, keep.
const STEPS: usize = 3;
/// So much is done in one transaction rather than in three.
const LITTLE: usize = 16;
/// How often calls that wait for money look for it, when none of this claimer gave any back.
const MONEY: Duration = Duration::from_millis(250);
/// How often a thread is tried again to be started for calls that wait for one.
const THREAD: Duration = Duration::from_secs(1);
/// How often a turn claims again because what it planned can be claimed at once.
const ROUNDS: usize = 3;

/// One claimer at work.
pub(crate) struct Engine {
    claimer: String,
    calls: Calls,
    hand: Hand,
    batch: usize,
    /// Sessions that somebody else holds: what is in hand of them waits, and no more of them is claimed.
    held: HashSet<Uuid>,
    /// Whether the last turn failed.
    is_careful: bool,
    gate: Gate,
    /// With which of its steps a turn begins.
    next: usize,
    /// When money is looked for again that other claimers may have given back.
    money_due: Instant,
}

impl Engine {
    pub(crate) fn new(claimer: String) -> Result<Self, Error> {
        let calls = Calls::new().map_err(|problem| Error::Gone(format!("no socket for call threads: {problem}")))?;
        news::listen();
        let mut gate = Gate::new();
        gate.hear(read_news()?);
        Ok(Engine {
            claimer,
            calls,
            hand: Hand::default(),
            batch: 64,
            held: HashSet::new(),
            is_careful: false,
            gate,
            next: 0,
            money_due: Instant::now(),
        })
    }

    /// The name it claims by.
    pub(crate) fn claimer(&self) -> &str {
        &self.claimer
    }

    /// The socket that rings when a thread is done with something.
    pub(crate) fn socket(&self) -> i32 {
        self.calls.socket()
    }

    /// Whether anything is claimed and not finished.
    pub(crate) fn is_idle(&self) -> bool {
        self.hand.is_empty()
    }

    /// Whether something waits for money that none of its own calls can give back.
    pub(crate) fn waits_for_money(&self) -> bool {
        self.calls.under_way() == 0 && self.hand.ready.iter().any(|ready| ready.is_short)
    }

    /// Whether models are being asked, or have answered and nothing of it is kept.
    pub(crate) fn has_answers(&self) -> bool {
        self.calls.under_way() > 0 || !self.hand.replies.is_empty()
    }

    /// Whether nothing is in hand but a claim that only ends with the claimer.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_idle() && self.hand.is_stuck()
    }

    /// The lanes of which nothing more may be claimed now.
    pub(crate) fn full_lanes(&self) -> Vec<String> {
        let lanes = self.gate.lanes(|| self.hand.before_the_gate(&self.held));
        lanes.into_iter().filter(|(_, room)| *room == 0).map(|(lane, _)| lane).collect()
    }

    /// How long nothing happens unless somebody says so: until a provider has room again, what is being said is put down, or money or a
    /// thread is looked for.
    pub(crate) fn rest(&self, full: &[String]) -> Option<Duration> {
        if news::is_there() {
            return Some(Duration::ZERO);
        }
        let speaks = |(_, id): &&(Instant, _)| self.hand.calling.contains_key(id);
        let first = self.hand.speaking.iter().find(speaks);
        let flush = first.map(|(due, _)| due.saturating_duration_since(Instant::now()));
        let money = self
            .hand
            .ready
            .iter()
            .any(|ready| ready.is_short)
            .then(|| self.money_due.saturating_duration_since(Instant::now()));
        let thread = self.calls.waits_for_a_thread().then_some(THREAD);
        self.gate.next(full, &self.hand.ready).into_iter().chain(flush).chain(money).chain(thread).min()
    }

    /// One turn: at most `most` jobs are claimed; with `look` set claims that were taken away are let go.
    pub(crate) fn turn(&mut self, host: &mut impl Host, most: usize, look: bool) -> Result<Report, String> {
        self.listen();
        if !self.hand.replies.is_empty() {
            host.at("answered");
        }
        self.overhear();
        if self.money_due <= Instant::now() {
            self.hand.try_short();
            self.money_due = Instant::now() + MONEY;
        }
        self.admit();
        let mut report = Report::default();
        if self.is_careful || self.hand.replies.len() + self.hand.made.len() + self.hand.ready.len() <= LITTLE {
            let parts = Parts { open: true, keep: true, claim: true, look };
            self.step(host, parts, self.room(most), &mut report)?;
        } else {
            // In this order the threads always have something to do: they call while jobs are claimed, and render while answers
            // are kept. What a long turn does not come to is what the next begins with.
            let begun = Instant::now();
            for nth in 0..STEPS {
                let parts = Parts { look: look && nth == 0, ..Parts::default() };
                match self.next {
                    0 => self.step(host, Parts { open: true, ..parts }, 0, &mut report)?,
                    1 => self.step(host, Parts { claim: true, ..parts }, self.room(most), &mut report)?,
                    _ => {
                        self.listen();
                        self.step(host, Parts { keep: true, ..parts }, 0, &mut report)?;
                    }
                }
                self.next = (self.next + 1) % STEPS;
                if begun.elapsed() > SHORT {
                    report.is_busy = true;
                    break;
                }
            }
        }
        let in_line = self.hand.waits_for_a_session();
        let waits_for_thread = self.calls.under_way() >= settings::max_concurrent_calls();
        report.is_held_up = in_line || (self.hand.ready.iter().any(Ready::goes) && !waits_for_thread);
        // All that was in hand when a transaction failed has been gone through, or is held up.
        let was_careful = self.is_careful;
        self.is_careful &= report.is_busy;
        report.is_busy |= was_careful;
        Ok(report)
    }

    /// How many more jobs may be claimed: no more than there are threads for stand before them.
    fn room(&self, most: usize) -> usize {
        let ahead = self.hand.ahead(&self.held);
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
                self.adapt(took.saturating_sub(done.planning), &done, room);
                self.take_in(host, &parts, done, report);
                Ok(())
            }
            // The server may be over it soon, and everything is still in hand.
            Err(problem) if !problem.is_of_the_work => Err(problem.message),
            Err(problem) if self.is_careful => {
                self.give_up_one(&problem.message);
                Err(problem.message)
            }
            Err(problem) => {
                self.is_careful = true;
                Err(problem.message)
            }
        }
    }

    /// The work of a transaction. Changes nothing here: it may yet fail.
    fn work(&self, parts: &Parts, room: usize) -> Result<Done, Error> {
        let mut done = Done { news: read_news()?, ..Done::default() };
        if parts.look {
            let calling: Vec<Claim> = self.hand.calling.values().map(|calling| calling.claim).collect();
            done.revoked = claim::revoked(&calling)?;
        }
        claim::let_go(&self.hand.empty)?;
        partial::append(&self.hand.said)?;
        catalog::learn(self.gate.learned())?;
        let most = |wanted: bool, there: usize, thing: Thing| match self.careful() {
            _ if !wanted => 0,
            Some(only) => usize::from(only == thing),
            None => there.min(self.batch),
        };
        let of = |(claim, _): &(Claim, Reply)| claim.session;
        let replies = self.some(self.hand.replies.iter(), of, most(parts.keep, usize::MAX, Thing::Reply));
        let of = |(claim, _): &(Claim, String)| claim.session;
        let made = self.some(self.hand.made.iter(), of, most(parts.keep, usize::MAX, Thing::Document));
        let of = |(claim, _): &(Claim, Vec<Vec<Uuid>>)| claim.session;
        let too_long = self.some(self.hand.too_long.iter(), of, most(parts.keep, usize::MAX, Thing::TooLong));
        let of = |ready: &Ready| ready.claim.session;
        let through = self.hand.ready.iter().filter(|ready| ready.ticket.is_some());
        let ready = self.some(through, of, most(parts.open, self.free_threads(), Thing::Ready));
        let of = |claim: &Claim| claim.session;
        let plans = self.some(self.hand.plans.iter(), of, most(parts.claim, usize::MAX, Thing::Plan));

        done.asked = self.held.clone();
        done.asked.extend(replies.iter().map(|(claim, _)| claim.session));
        done.asked.extend(made.iter().map(|(claim, _)| claim.session));
        done.asked.extend(too_long.iter().map(|(claim, _)| claim.session));
        done.asked.extend(ready.iter().map(|ready| ready.claim.session));
        done.asked.extend(plans.iter().map(|claim| claim.session));
        let free = claim::lock_sessions(done.asked.clone())?;
        done.held = done.asked.difference(&free).copied().collect();

        let opening: Vec<&Ready> = ready.into_iter().filter(|ready| free.contains(&ready.claim.session)).collect();
        done.tried = opening.iter().map(|ready| ready.claim.id).collect();
        done.opened = request::open(&opening.iter().map(|ready| ready.opening()).collect::<Vec<_>>())?;

        let kept: Vec<&(Claim, Reply)> =
            replies.into_iter().filter(|(claim, _)| free.contains(&claim.session)).collect();
        done.kept = kept.iter().map(|(claim, _)| claim.id).collect();
        reply::keep(&kept)?;
        let documents: Vec<&(Claim, String)> =
            made.into_iter().filter(|(claim, _)| free.contains(&claim.session)).collect();
        done.kept.extend(documents.iter().map(|(claim, _)| claim.id));
        document::keep(&documents)?;
        for (claim, groups) in too_long.into_iter().filter(|(claim, _)| free.contains(&claim.session)) {
            request::combine(claim, groups)?;
            done.kept.insert(claim.id);
        }

        if parts.claim {
            let now: Vec<Claim> = plans.into_iter().copied().filter(|claim| free.contains(&claim.session)).collect();
            let is_now = |claim: &&Claim| now.iter().any(|one| one.id == claim.id);
            done.plans = self.hand.plans.iter().filter(|claim| !is_now(claim)).copied().collect();
            let claimed = self.claim_and_plan(room, now, &mut done)?;
            let of =
                |work: Work| claimed.iter().filter(move |claim| claim.work == work).map(|claim| claim.job).collect();
            done.drafts = request::drafts(of(Work::Call))?;
            // Who added a model and at once a job for it is believed in both.
            news::accept();
            done.news.add(read_news()?);
            done.sources = document::sources(of(Work::Render))?;
        }
        if done.kept.is_empty() && done.opened.open.is_empty() && self.hand.said.is_empty() {
            // Claims and plans come about again by themselves if the server loses them; what was said does not.
            store::commit_lazily();
        }
        Ok(done)
    }

    /// Plans, claims, plans what was claimed, and claims what was planned; returns the claimed jobs that are no plans.
    fn claim_and_plan(&self, room: usize, mut plans: Vec<Claim>, done: &mut Done) -> Result<Vec<Claim>, Error> {
        let mut others = Vec::new();
        for round in 0..ROUNDS {
            let (jobs, ids) = plans.iter().map(|claim| (claim.job, claim.id)).unzip();
            let begun = Instant::now();
            let planned = plan::plan_jobs(jobs, ids)?;
            done.planning += begun.elapsed();
            done.planned += planned.outcomes.len();
            done.plans.extend(plans.drain(..).filter(|claim| planned.left.contains(&claim.job)));
            let room = room.saturating_sub(done.claimed);
            // What was planned is claimed at once, as long as there is not more to plan.
            if room == 0 || (round > 0 && planned.outcomes.is_empty()) || !planned.left.is_empty() {
                break;
            }
            let narrow = self.gate.lanes(|| self.hand.before_the_gate(&self.held));
            let (batch, claims) = claim::take(&self.claimer, room, &self.held, &narrow, self.hand.poor())?;
            if !claims.is_empty() {
                let claims = claims.iter().map(|claim| claim.id).collect();
                done.batches.push(Batch { id: batch, claims, is_stuck: false });
            }
            done.claimed += claims.len();
            let (to_plan, rest): (Vec<Claim>, Vec<Claim>) =
                claims.into_iter().partition(|claim| claim.work == Work::Plan);
            others.extend(rest);
            let asked: HashSet<Uuid> = to_plan.iter().map(|claim| claim.session).collect();
            let free = claim::lock_sessions(asked.clone())?;
            done.held.extend(asked.difference(&free));
            done.asked.extend(asked);
            let (now, later): (Vec<Claim>, Vec<Claim>) =
                to_plan.into_iter().partition(|claim| free.contains(&claim.session));
            done.plans.extend(later);
            plans = now;
        }
        done.plans.extend(plans);
        Ok(others)
    }

    /// Up to so many of these, but for those whose session somebody else holds; with care, the very first.
    fn some<'a, T>(&self, items: impl Iterator<Item = &'a T>, session: impl Fn(&T) -> Uuid, most: usize) -> Vec<&'a T> {
        items.filter(|item| self.is_careful || !self.held.contains(&session(item))).take(most).collect()
    }

    fn free_threads(&self) -> usize {
        settings::max_concurrent_calls().saturating_sub(self.calls.under_way())
    }

    /// The one thing that is tried after a turn has failed.
    fn careful(&self) -> Option<Thing> {
        self.is_careful.then(|| self.hand.first(self.free_threads()))
    }

    /// Batches grow while transactions are short and shrink when they are not.
    fn adapt(&mut self, took: Duration, done: &Done, room: usize) {
        if took > SHORT * 3 / 2 {
            self.batch = (self.batch / 2).max(SMALLEST_BATCH);
        } else if took < SHORT / 2
            && (done.claimed >= room.max(1) || done.kept.len() >= self.batch || self.hand.said.len() >= self.batch)
        {
            self.batch = (self.batch * 2).min(LARGEST_BATCH);
        }
    }

    /// The one thing that was tried cannot be done.
    fn give_up_one(&mut self, problem: &str) {
        let tried = self.hand.first(self.free_threads());
        self.is_careful &= tried != Thing::Nothing;
        if let Some(ticket) = self.hand.give_up(tried, problem) {
            self.gate.give_back(ticket);
        }
    }
}

/// What has changed since the last time; when it cannot be read it is still to be read.
fn read_news() -> Result<News, Error> {
    let read = || {
        let catalog = news::of_catalog().then(catalog::read).transpose()?;
        Ok(News { catalog, clocks: news::of_clocks().then(catalog::clocks).transpose()? })
    };
    read().inspect_err(|_| news::forget())
}
