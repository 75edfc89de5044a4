//! A pure model of the job table: what claiming, finishing and waking do to it, one operation at a time.
//!
//! Each operation is total: it does the whole of what one transaction of the database does, or refuses and changes nothing.
//! The time is an argument, and claims and jobs are numbered in order. The model never calls a model, plans a step or
//! decides when a failure is worth another attempt; it says what follows once others have decided. The database is
//! tested against it, and [`Queue::invariants`] says in words what must hold after every operation.

use crate::job::{Kind, Status};
use std::collections::BTreeSet;

mod finish;
mod invariant;
mod person;
mod settle;

pub use finish::{Claim, Failure, Planned};
pub use person::Pause;

/// What a caller says about a job to be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// What it does.
    pub kind: Kind,
    /// The plan it belongs to; a `plan` without one is the root of its model.
    pub parent: Option<u64>,
    /// The stage run it belongs to.
    pub stage_run: u64,
    /// The step it is a job of; a root has none.
    pub step: Option<u64>,
    /// The model it asks.
    pub model: u64,
    /// `pending` or `pending_continuation`.
    pub status: Status,
    /// How many attempts may follow the first.
    pub max_retries: u32,
    /// Not to be claimed before.
    pub run_at: u64,
    /// The jobs that must complete before it is ready.
    pub prerequisites: Vec<u64>,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its number: the place in the order of insertion.
    pub id: u64,
    /// What it was inserted as; `prerequisites` grows when it declares more.
    pub spec: NewJob,
    /// The jobs planned under it.
    pub children: Vec<u64>,
    /// Where it stands.
    pub status: Status,
    /// Where it returns to from `processing`, `waiting_for_prerequisite` or a pause.
    pub status_before: Status,
    /// The attempts that failed in a way that may pass.
    pub attempt_count: u32,
    /// The claim that holds it.
    pub claim_id: Option<u64>,
    /// Who holds that claim.
    pub claimer: Option<u64>,
    /// Not to be claimed before.
    pub run_at: u64,
    /// The other job because of which it failed or was cancelled.
    pub cause: Option<u64>,
    /// How often an answer of it was saved.
    pub answers: u32,
    /// How often the end of other jobs woke it.
    pub woken: u32,
    /// Something ended since it was last claimed that its next plan must see.
    pub news: bool,
}

impl Job {
    /// Whether it plans a whole model's share of a stage run.
    pub fn is_root(&self) -> bool {
        self.spec.kind == Kind::Plan && self.spec.parent.is_none()
    }
}

/// Why an operation did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such job.
    #[error("job {0} does not exist")]
    UnknownJob(u64),
    /// Not in the table of transitions.
    #[error("job {job} cannot go from {from} to {to}")]
    Illegal {
        /// The job that was to move.
        job: u64,
        /// Where it stands.
        from: Status,
        /// Where it was to go.
        to: Status,
    },
    /// A job is inserted as `pending` or `pending_continuation`.
    #[error("a job cannot be inserted as {0}")]
    NotAStart(Status),
    /// What it belongs to has ended and will not look at it again.
    #[error("job {0} has ended")]
    ParentEnded(u64),
    /// It has children that have not ended.
    #[error("job {0} has unfinished children")]
    UnfinishedChildren(u64),
    /// It would wait for a job that waits for it.
    #[error("a job that waits for job {0} would wait for itself")]
    WaitsForItself(u64),
}

/// What an operation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It was done.
    Done,
    /// The claim no longer holds the job: the answer came late and nothing changed.
    Stale,
    /// It may not be done, and nothing changed.
    Refused(Refusal),
}

/// How a stage run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageRun {
    /// At least one root has not ended.
    Active,
    /// Every root has ended and enough of them completed.
    Completed,
    /// Every root has ended and too few of them completed.
    Failed,
}

/// The table of jobs, and who is alive to claim them.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    jobs: Vec<Job>,
    alive: BTreeSet<u64>,
    /// Every claim ever made, claim and job, in order.
    claims: Vec<(u64, u64)>,
    /// Every move ever made: job, from, to.
    moves: Vec<(u64, Status, Status)>,
    /// Moves that no transition allows; the database would have raised an error.
    illegal: Vec<(u64, Status, Status)>,
    /// Jobs that ended and of which nobody has been told yet.
    ended: Vec<u64>,
    late: u64,
}

impl Queue {
    /// The job with this number.
    pub fn job(&self, id: u64) -> Option<&Job> {
        self.jobs.get(usize::try_from(id).ok()?)
    }

    /// Every job, in the order of insertion.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Every move ever made: job, from, to.
    pub fn moves(&self) -> &[(u64, Status, Status)] {
        &self.moves
    }

    /// How many answers came after their claim had been lost.
    pub fn late_answers(&self) -> u64 {
        self.late
    }

    /// How a stage run stands. It is computed, never stored: a retry that brings a root back reopens its stage run, and
    /// the run can complete after it had failed. Superseded roots have been replaced and do not count.
    pub fn stage_run(&self, stage_run: u64, min_models: usize) -> StageRun {
        let roots = || {
            let of_run = |job: &&Job| job.is_root() && job.spec.stage_run == stage_run;
            self.jobs.iter().filter(of_run)
        };
        let completed = roots().filter(|root| root.status == Status::Completed);
        if roots().any(|root| !root.status.is_ended()) {
            StageRun::Active
        } else if completed.count() >= min_models {
            StageRun::Completed
        } else {
            StageRun::Failed
        }
    }

    /// Inserts a job; one with prerequisites starts as `waiting_for_prerequisite`.
    pub fn insert(&mut self, new: NewJob) -> Result<u64, Refusal> {
        self.admit(&new)?;
        let id = self.push(new);
        self.settle();
        Ok(id)
    }

    /// Whether a job may be inserted.
    fn admit(&self, new: &NewJob) -> Result<(), Refusal> {
        if !matches!(new.status, Status::Pending | Status::PendingContinuation) {
            return Err(Refusal::NotAStart(new.status));
        }
        if let Some(parent) = new.parent {
            let parent = self.job(parent).ok_or(Refusal::UnknownJob(parent))?;
            if parent.status.is_ended() {
                return Err(Refusal::ParentEnded(parent.id));
            }
        }
        self.admit_prerequisites(new.parent, new.stage_run, &new.prerequisites)
    }

    /// Whether `waiter`, or a new child of it, may wait for these jobs. The roots of its stage run may come to wait for it, so a
    /// prerequisite that needs one of them is refused as well.
    fn admit_prerequisites(&self, waiter: Option<u64>, stage_run: u64, prerequisites: &[u64]) -> Result<(), Refusal> {
        let waits = |job: &Job| Some(job.id) == waiter || (job.is_root() && job.spec.stage_run == stage_run);
        for &id in prerequisites {
            self.job(id).ok_or(Refusal::UnknownJob(id))?;
            if self.needs(id, waits) {
                return Err(Refusal::WaitsForItself(id));
            }
        }
        Ok(())
    }

    /// Whether `id` cannot end before one of the jobs looked for does.
    fn needs(&self, id: u64, looked_for: impl Fn(&Job) -> bool) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = vec![id];
        while let Some(id) = next.pop() {
            let Some(job) = self.job(id).filter(|_| seen.insert(id)) else {
                continue;
            };
            if looked_for(job) {
                return true;
            }
            next.extend(job.children.iter().chain(&job.spec.prerequisites));
            let peer = |other: &&Job| job.is_root() && other.is_root() && other.spec.stage_run == job.spec.stage_run;
            next.extend(self.jobs.iter().filter(peer).map(|root| root.id));
        }
        false
    }

    /// Adds an admitted job to the table.
    fn push(&mut self, new: NewJob) -> u64 {
        let id = self.jobs.len() as u64;
        if let Some(parent) = new.parent.and_then(|parent| self.job_mut(parent)) {
            parent.children.push(id);
        }
        self.jobs.push(Job {
            id,
            children: Vec::new(),
            status: if new.prerequisites.is_empty() { new.status } else { Status::WaitingForPrerequisite },
            status_before: new.status,
            attempt_count: 0,
            claim_id: None,
            claimer: None,
            run_at: new.run_at,
            cause: None,
            answers: 0,
            woken: 0,
            news: false,
            spec: new,
        });
        id
    }

    fn job_mut(&mut self, id: u64) -> Option<&mut Job> {
        self.jobs.get_mut(usize::try_from(id).ok()?)
    }

    /// The only place a status changes: a job that leaves `processing` gives up its claim, one that ends is reported.
    fn move_to(&mut self, id: u64, to: Status) {
        let Some(job) = self.job_mut(id) else { return };
        let from = job.status;
        if from == to {
            return;
        }
        job.status = to;
        if to != Status::Processing {
            (job.claim_id, job.claimer) = (None, None);
        }
        self.moves.push((id, from, to));
        if !from.may_become(to) {
            self.illegal.push((id, from, to));
        }
        if to.is_ended() {
            self.ended.push(id);
        }
    }

    /// Whether every child of a job has ended.
    fn children_ended(&self, job: &Job) -> bool {
        let mut children = job.children.iter().filter_map(|id| self.job(*id));
        children.all(|child| child.status.is_ended())
    }

    /// A prerequisite that has not delivered. One that was superseded has: whoever needs it reads what replaced it.
    fn unmet<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Job> {
        let prerequisites = job.spec.prerequisites.iter();
        prerequisites
            .filter_map(|id| self.job(*id))
            .filter(|job| !matches!(job.status, Status::Completed | Status::Superseded))
    }
}
