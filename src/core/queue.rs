//! A pure model of the queue: what each verb does to jobs, stage runs and sessions.
//!
//! A verb does all that one transaction of the database does, or refuses and changes nothing. Which of the due jobs a
//! claim takes, when a failed attempt is due again and what an answer lacks are arguments. The database is tested
//! against this model by random histories, compared after every verb (`tests/engine/queue_replay`). Nothing that ships
//! uses it.

use crate::job::{Kind, Status};
use crate::recipe::FromModels;

mod claimer;
mod control;
mod stage;
mod trigger;
mod violation;

pub use claimer::{Answer, Claim};
pub use control::{Refusal, Target};
pub use stage::{RunStatus, Session, SessionStatus, StageRun};

/// The number of a job, in the order of insertion.
pub type JobId = usize;

/// A step of a stage, as far as the queue depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The steps before it that must be complete, of the own model or of all models.
    pub needs: Vec<(usize, FromModels)>,
    /// How many jobs each model gets.
    pub jobs: usize,
    /// Whether a render job makes the document from the answer.
    pub is_rendered: bool,
}

/// One row of the table of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// What it does.
    pub kind: Kind,
    /// The stage run it belongs to.
    pub run: usize,
    /// The plan that inserted it; a plan has none.
    pub parent: Option<JobId>,
    /// The step it is a job of; a plan has none.
    pub step: Option<usize>,
    /// Which of the jobs of its step it is. A render job and a continuation share it with the job they follow.
    pub group: usize,
    /// The model it asks.
    pub model: usize,
    /// 1, and one more for each regeneration.
    pub version: u32,
    /// How many chunks of its answer other jobs wrote before it.
    pub continuation: u32,
    /// Its status.
    pub status: Status,
    /// The ready status it returns to after a claim, a wait or a pause.
    pub status_before: Option<Status>,
    /// The attempts that were charged.
    pub attempts: u32,
    /// The claim that holds it.
    pub claim: Option<Claim>,
    /// How often its claimer died while it worked on nothing else.
    pub losses: u32,
    /// It cannot be claimed before this time.
    pub run_at: i64,
    /// The jobs that must complete before it is ready.
    pub prerequisites: Vec<JobId>,
    /// The prerequisite because of which it failed.
    pub cause: Option<JobId>,
    /// The steps a plan has planned.
    pub planned: Vec<usize>,
}

impl Job {
    /// A job that is ready.
    fn new(kind: Kind, run: usize, model: usize) -> Job {
        Job {
            kind,
            run,
            parent: None,
            step: None,
            group: 0,
            model,
            version: 1,
            continuation: 0,
            status: Status::Pending,
            status_before: None,
            attempts: 0,
            claim: None,
            losses: 0,
            run_at: i64::MIN,
            prerequisites: Vec::new(),
            cause: None,
            planned: Vec::new(),
        }
    }

    /// The ready status it returns to: the one it came from, else the one it begins with.
    fn ready_status(&self) -> Status {
        match self.kind {
            _ if self.status_before.is_some_and(Status::is_ready) => self.status_before.unwrap_or(Status::Pending),
            Kind::Plan if !self.planned.is_empty() => Status::PendingNextStep,
            Kind::Execute if self.continuation > 0 => Status::PendingContinuation,
            Kind::Plan | Kind::Execute | Kind::Combine | Kind::Index | Kind::Render => Status::Pending,
        }
    }
}

/// The tables: sessions, stage runs and jobs, each numbered in the order of insertion.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    sessions: Vec<Session>,
    runs: Vec<StageRun>,
    jobs: Vec<Job>,
    /// Jobs that ended in this verb; their plans have not been woken yet.
    ended: Vec<JobId>,
    /// Moves that no transition allows.
    illegal: Vec<(JobId, Status, Status)>,
}

impl Queue {
    /// Every session.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// Every stage run.
    pub fn runs(&self) -> &[StageRun] {
        &self.runs
    }

    /// Every job.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The numbers of the jobs that a condition holds for.
    fn find(&self, condition: impl Fn(&Job) -> bool) -> Vec<JobId> {
        (0..self.jobs.len()).filter(|id| condition(&self.jobs[*id])).collect()
    }

    fn children(&self, plan: JobId) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(move |job| job.parent == Some(plan))
    }

    /// Whether a plan has jobs of a step, or of any step, that have not ended.
    fn has_unfinished(&self, plan: JobId, step: Option<usize>) -> bool {
        self.children(plan).any(|child| !child.status.is_ended() && (step.is_none() || child.step == step))
    }

    fn plans_of(&self, run: usize) -> impl Iterator<Item = (JobId, &Job)> {
        self.jobs.iter().enumerate().filter(move |(_, job)| job.run == run && job.parent.is_none())
    }

    /// Whether a prerequisite has not delivered. A superseded one has: its replacement is read.
    fn is_unmet(&self, prerequisite: JobId) -> bool {
        !matches!(self.jobs[prerequisite].status, Status::Completed | Status::Superseded)
    }

    /// The only place where a status changes. A job that is not processing has no claim.
    fn set_status(&mut self, id: JobId, to: Status) {
        let job = &mut self.jobs[id];
        let from = job.status;
        if from == to {
            return;
        }
        job.status = to;
        if to != Status::Processing {
            job.claim = None;
        }
        if !from.may_become(to) {
            self.illegal.push((id, from, to));
        }
        if to.is_ended() {
            (self.jobs[id].status_before, self.jobs[id].losses) = (None, 0);
            self.ended.push(id);
        }
    }

    /// Moves a job to a ready or waiting status; a ready job is due.
    fn set_ready(&mut self, id: JobId, to: Status) {
        self.jobs[id].status_before = None;
        self.jobs[id].run_at = i64::MIN;
        self.set_status(id, to);
    }
}
