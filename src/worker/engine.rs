//! The engine of a claimer, the same in the worker and in `run_pending`: claim, prepare, open, call, keep.
//!
//! A cycle opens the calls that are admitted, stores what came back, plans and reads what was claimed before, and
//! claims more: in one short transaction where there is little of it, else in one each. What a transaction claims is
//! read in the next one, so a claim is committed before anything about the job is read. A transaction that fails
//! changes nothing; `isolate` then finds the job or the session that is the cause. Rendering and calling happen on
//! threads between transactions.

mod apply;
mod events;
mod isolate;
mod work;

use crate::error::{Error, Problem};
use crate::settings;
use crate::store::catalog;
use crate::worker::admission::{Admissions, News};
use crate::worker::cache_invalidation;
use crate::worker::hold_up::{HoldUps, Scope};
use crate::worker::in_flight::{InFlight, Kind};
use crate::worker::prepare::Admission;
use dialectic_net::{CallThreads, ClaimId};
use isolate::{Isolation, Only};
use pgrx::Uuid;
use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};
use work::{Done, Parts, Phase};

/// How long a transaction should take, planning aside; batches grow and shrink to stay below.
const SHORT: Duration = Duration::from_millis(15);
const SMALLEST_BATCH: usize = 8;
const LARGEST_BATCH: usize = 512;
/// Open, claim, keep.
const STEPS: usize = 3;
/// Up to this many jobs are worked in one transaction rather than in three.
const FEW_JOBS: usize = 16;
/// How often calls that wait for money look for it, when no call of this claimer released any.
const MONEY_INTERVAL: Duration = Duration::from_millis(250);
/// How often the pool tries to start a thread for calls that wait for one.
const THREAD_INTERVAL: Duration = Duration::from_secs(1);
/// While this many bytes of answers are not stored, no call is opened.
const UNSTORED_BYTES_LIMIT: usize = 64 << 20;

/// Where transactions run: in the worker, or in a procedure.
pub(crate) trait Host {
    /// Runs work in a transaction of its own, which is committed unless there is an error.
    fn transaction<T>(&mut self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Problem>;
    /// Whether an error while writing ends the claimer instead of being waited out.
    fn raises(&self) -> bool;
    /// Logs an error that holds work up.
    fn log(&mut self, _problem: &Problem, _session: Option<Uuid>) {}
    /// A place between transactions where a test may end the process.
    fn at(&mut self, _place: &'static str) {}
}

/// What a cycle came to.
#[derive(Default)]
pub(crate) struct Report {
    /// How many jobs were claimed.
    pub(crate) claimed: usize,
    /// Whether another cycle has something to do at once.
    pub(crate) is_busy: bool,
    /// Whether the prompts that are being rendered come before the next claim.
    pub(crate) awaits_prompts: bool,
    /// Whether something waits for a session that another transaction has locked.
    pub(crate) is_held_up: bool,
    /// How long everything waits because the database is held up.
    pub(crate) backoff: Option<Duration>,
}

/// A transaction that succeeded.
struct Succeeded {
    has_written: bool,
    /// Whether it did anything for a job.
    has_tried: bool,
}

/// A transaction that failed.
struct Failed {
    problem: Problem,
    phase: Phase,
}

/// One claimer at work.
pub(crate) struct Engine {
    claimer: String,
    calls: CallThreads,
    in_flight: InFlight,
    hold_ups: HoldUps,
    isolation: Option<Isolation>,
    batch: usize,
    /// Sessions that another transaction has locked: their jobs wait, and no more of them are claimed.
    busy: HashSet<Uuid>,
    admissions: Admissions,
    /// Calls that stream, by the moment when their text is stored next.
    streaming: VecDeque<(Instant, ClaimId)>,
    /// Text of calls that is not stored yet.
    partial_texts: Vec<(crate::store::claim::Claim, String)>,
    /// The job in flight that was claimed to be worked alone.
    alone: Option<ClaimId>,
    /// How many searches in a row have not found the cause of an error.
    fruitless_searches: u32,
    /// Whether claims may have been revoked since they were last looked at.
    look_due: bool,
    /// With which of its steps a cycle begins.
    next_step: usize,
    /// When calls look again for money that other claimers may have released.
    money_due: Instant,
    /// Whether no thread could be started, and the log says so.
    lacks_threads: bool,
}

impl Engine {
    pub(crate) fn new(claimer: String) -> Result<Self, Error> {
        let calls =
            CallThreads::new().map_err(|problem| Error::Gone(format!("no socket for call threads: {problem}")))?;
        cache_invalidation::listen();
        let mut admissions = Admissions::new();
        admissions.hear(read_news()?);
        Ok(Engine {
            claimer,
            calls,
            in_flight: InFlight::default(),
            hold_ups: HoldUps::default(),
            isolation: None,
            batch: 64,
            busy: HashSet::new(),
            admissions,
            streaming: VecDeque::new(),
            partial_texts: Vec::new(),
            alone: None,
            fruitless_searches: 0,
            look_due: false,
            next_step: 0,
            money_due: Instant::now(),
            lacks_threads: false,
        })
    }

    /// The name it claims by.
    pub(crate) fn claimer(&self) -> &str {
        &self.claimer
    }

    /// The socket on which a byte arrives when a thread is done with something.
    pub(crate) fn socket(&self) -> i32 {
        self.calls.socket()
    }

    /// Whether no job is in flight that could go on.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.working(&self.unclaimable()) == 0
    }

    /// Whether a call waits for money that no call of its own can release.
    pub(crate) fn waits_for_money(&self) -> bool {
        self.calls.in_flight() == 0 && self.has_unfunded()
    }

    fn has_unfunded(&self) -> bool {
        self.in_flight.prepared().any(|(_, prepared)| matches!(prepared.admission, Admission::WaitingForMoney))
    }

    /// Whether models are being called, or have answered and nothing of it is stored.
    pub(crate) fn has_answers(&self) -> bool {
        self.calls.in_flight() > 0 || self.in_flight.count(Kind::Answered) > 0
    }

    /// What `health()` shows of it.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// What is held up, where that has changed since the last time.
    pub(crate) fn hold_ups(&mut self) -> &mut HoldUps {
        &mut self.hold_ups
    }

    /// The queues of which nothing more may be claimed now.
    pub(crate) fn full_queues(&self) -> Vec<String> {
        let excluded = self.unclaimable();
        let queues = self.admissions.queues(|| self.in_flight.before_admission(&excluded));
        queues.into_iter().filter(|(_, room)| *room == 0).map(|(queue, _)| queue).collect()
    }

    /// How long nothing happens unless a thread or another process says so: until a provider has room again, streamed
    /// text is stored, or something is tried again.
    pub(crate) fn rest(&self, full: &[String]) -> Option<Duration> {
        if cache_invalidation::is_there() {
            return Some(Duration::ZERO);
        }
        let now = Instant::now();
        let streams = |(_, id): &&(Instant, ClaimId)| self.in_flight.calling(*id).is_some();
        let flush = self.streaming.iter().find(streams).map(|(due, _)| due.saturating_duration_since(now));
        let money = self.has_unfunded().then(|| self.money_due.saturating_duration_since(now));
        let thread = self.calls.is_short_of_threads().then_some(THREAD_INTERVAL);
        let waiting = self.in_flight.prepared().map(|(_, prepared)| prepared);
        let held_up = self.hold_ups.rest(now);
        self.admissions.next(full, waiting).into_iter().chain(flush).chain(money).chain(thread).chain(held_up).min()
    }

    /// One cycle: at most `most` jobs are claimed; with `look` set, calls whose claim was revoked are cancelled. An
    /// error is returned only where the host raises.
    pub(crate) fn cycle(&mut self, host: &mut impl Host, most: usize, look: bool) -> Result<Report, Problem> {
        self.look_due |= look;
        self.listen();
        if self.in_flight.count(Kind::Answered) > 0 {
            host.at("answered");
        }
        self.collect_partial_texts();
        let now = Instant::now();
        if self.money_due <= now {
            self.in_flight.retry_unfunded();
            self.money_due = now + MONEY_INTERVAL;
        }
        let due_session = self.hold_ups.due_session(now);
        self.admit(due_session);
        let mut report = Report::default();
        if let Some(rest) = self.hold_ups.database_rest(now) {
            report.backoff = Some(rest);
            return Ok(report);
        }
        if self.isolation.is_some() {
            self.isolate(host, most, &mut report)?;
            report.is_busy = true;
            return Ok(report);
        }
        match self.steps(host, most, &mut report) {
            Ok(has_written) => {
                self.fruitless_searches = 0;
                if has_written || !self.in_flight.waits_for_transaction() {
                    self.hold_ups.remove(Scope::Database);
                } else {
                    self.hold_ups.postpone(Scope::Database, Instant::now());
                }
            }
            Err(failed) => self.begin_isolation(host, failed)?,
        }
        if self.isolation.is_none()
            && let Some(session) = due_session
        {
            self.retry_session(host, session, most, &mut report)?;
        }
        report.is_busy |= self.isolation.is_some();
        report.backoff = self.hold_ups.database_rest(Instant::now());
        report.is_held_up = self.is_held_up();
        Ok(report)
    }

    /// All steps of a cycle, for every session that is not held up; whether anything was written.
    fn steps(&mut self, host: &mut impl Host, most: usize, report: &mut Report) -> Result<bool, Failed> {
        let stored_soon = [Kind::Answered, Kind::Rendered, Kind::SeedRendered, Kind::Prepared]
            .into_iter()
            .map(|kind| self.in_flight.count(kind));
        if stored_soon.sum::<usize>() <= FEW_JOBS {
            let parts = Parts { open: true, keep: true, claim: true, look: self.look_due };
            return Ok(self.step(host, &parts, self.room(most), Only::All, report)?.has_written);
        }
        // In this order the threads always have something to do: they call while jobs are claimed, and render while
        // answers are stored. A long cycle ends early, and the next one begins with the step that is left.
        let begun = Instant::now();
        let mut has_written = false;
        for _ in 0..STEPS {
            let parts = Parts { look: self.look_due, ..Parts::default() };
            has_written |= match self.next_step {
                0 => self.step(host, &Parts { open: true, ..parts }, 0, Only::All, report)?,
                1 => self.step(host, &Parts { claim: true, ..parts }, self.room(most), Only::All, report)?,
                _ => {
                    self.listen();
                    self.step(host, &Parts { keep: true, ..parts }, 0, Only::All, report)?
                }
            }
            .has_written;
            self.next_step = (self.next_step + 1) % STEPS;
            if begun.elapsed() > SHORT {
                report.is_busy = true;
                break;
            }
        }
        Ok(has_written)
    }

    /// Whether a job only waits for a session that another transaction has locked.
    fn is_held_up(&self) -> bool {
        let is_free = |session: Uuid| !self.hold_ups.is_held(session);
        let waits = [
            Kind::Answered,
            Kind::Rendered,
            Kind::Oversized,
            Kind::Unindexed,
            Kind::Claimed,
            Kind::SeedRendered,
            Kind::Unreadable,
        ];
        if waits.into_iter().any(|kind| self.in_flight.at(kind).any(|(claim, _)| is_free(claim.session))) {
            return true;
        }
        let has_thread = self.calls.in_flight() < settings::max_concurrent_calls();
        has_thread && self.in_flight.prepared().any(|(claim, prepared)| prepared.is_next() && is_free(claim.session))
    }

    /// How many more jobs may be claimed: as many as there are threads, and as many again, because what is claimed now
    /// is read in the next transaction and prepared after it.
    fn room(&self, most: usize) -> usize {
        let excluded = self.unclaimable();
        if self.alone.is_some_and(|id| self.in_flight.is_working(id, &excluded)) {
            return 0;
        }
        let ahead = self.in_flight.ahead(&excluded) + self.in_flight.unread_count(&excluded);
        let threads = settings::max_concurrent_calls();
        (2 * threads).saturating_sub(ahead).min(threads).min(most)
    }

    /// The sessions of which nothing is claimed: another transaction has locked them, or an error holds them up.
    pub(crate) fn unclaimable(&self) -> HashSet<Uuid> {
        self.busy.iter().copied().chain(self.hold_ups.sessions()).collect()
    }

    /// One transaction.
    fn step(
        &mut self,
        host: &mut impl Host,
        parts: &Parts,
        room: usize,
        only: Only,
        report: &mut Report,
    ) -> Result<Succeeded, Failed> {
        let room = room.min(self.batch);
        let phase = Cell::new(Phase::Housekeeping);
        let work = || {
            let begun = Instant::now();
            self.work(parts, room, only, &phase).map(|done| (done, begun.elapsed()))
        };
        match host.transaction(work) {
            Ok((done, took)) => {
                self.adapt(took.saturating_sub(done.planning), &done, room);
                self.look_due &= !parts.look;
                let succeeded = Succeeded { has_written: done.has_written(), has_tried: done.has_tried() };
                self.apply(host, only, done, report);
                Ok(succeeded)
            }
            Err(problem) => {
                // What it had read of the tables that are cached is lost with it.
                cache_invalidation::forget();
                Err(Failed { problem, phase: phase.get() })
            }
        }
    }

    fn free_threads(&self) -> usize {
        settings::max_concurrent_calls().saturating_sub(self.calls.in_flight())
    }

    /// Batches grow while transactions are short and shrink when they are not.
    fn adapt(&mut self, took: Duration, done: &Done, room: usize) {
        if took > SHORT * 3 / 2 {
            self.batch = (self.batch / 2).max(SMALLEST_BATCH);
        } else if took < SHORT / 2
            && (done.claimed() >= room.max(1)
                || done.stored.len() >= self.batch
                || self.partial_texts.len() >= self.batch)
        {
            self.batch = (self.batch * 2).min(LARGEST_BATCH);
        }
    }
}

/// What has changed since the last time; when it cannot be read it is still to be read.
fn read_news() -> Result<News, Error> {
    let read = || {
        let catalog = cache_invalidation::of_catalog().then(catalog::read).transpose()?;
        Ok(News { catalog, cooldowns: cache_invalidation::of_cooldowns().then(catalog::cooldowns).transpose()? })
    };
    read().inspect_err(|_| cache_invalidation::forget())
}
