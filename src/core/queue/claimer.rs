//! The verbs of a claimer: claim, complete, fail, wait for condensed documents; and the release of lost claims.
//!
//! Every result names the claim it was made under. Under a claim that no longer holds the job it changes nothing.

use super::{Job, JobId, Queue};
use crate::job::{Kind, Status};
use crate::provider::Class;
use crate::retry::{self, Backoff, FailedAttempt};
use std::time::Duration;

/// The model is told when a retry is due; the length of delays is not its business.
const IMMEDIATE: Backoff = Backoff { base: Duration::ZERO, max: Duration::ZERO };

/// Who holds a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The number that every result of the claim must name.
    pub id: i64,
    /// The claimer.
    pub claimer: usize,
    /// Whether the claimer works on nothing else, because an earlier claimer of the job died.
    pub is_alone: bool,
}

/// How often a claimer may die that works on one job alone before that job fails.
const MAX_LOSSES: u32 = 3;

/// What came back for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// All that was asked for.
    Whole,
    /// A part of it: a job that continues it follows.
    CutOff,
}

impl Queue {
    /// Whether a job could be claimed at this time.
    pub fn is_due(&self, id: JobId, now: i64) -> bool {
        self.jobs[id].status.is_ready() && self.jobs[id].run_at <= now
    }

    /// Gives a ready job to a claimer.
    pub fn claim(&mut self, id: JobId, claim: Claim) {
        let job = &mut self.jobs[id];
        job.status_before = Some(job.status);
        job.claim = Some(claim);
        self.set_status(id, Status::Processing);
    }

    /// Returns the jobs of claimers that are gone to the status they were claimed from. No attempt is charged, but a
    /// job fails if claimers keep dying that work on it alone.
    pub fn release(&mut self, is_gone: impl Fn(usize) -> bool) {
        let lost = self.find(|job| job.claim.is_some_and(|claim| is_gone(claim.claimer)));
        let is_alone = |job: &Job| job.claim.is_some_and(|claim| claim.is_alone);
        let mut alone: Vec<JobId> = lost.iter().copied().filter(|id| is_alone(&self.jobs[*id])).collect();
        for id in lost {
            self.return_job(id);
        }
        self.settle();
        alone.retain(|id| self.jobs[*id].status.is_ready());
        for id in alone {
            self.jobs[id].losses += 1;
            if self.jobs[id].losses == MAX_LOSSES {
                self.set_status(id, Status::Processing);
                self.set_status(id, Status::Failed);
            }
        }
        self.settle();
    }

    fn return_job(&mut self, id: JobId) {
        let to = self.jobs[id].ready_status();
        self.jobs[id].status_before = None;
        self.set_status(id, to);
    }

    /// The claim of a job was lost: it is not due before this time.
    pub fn delay(&mut self, id: JobId, run_at: i64) {
        self.jobs[id].run_at = run_at;
    }

    /// Completes a job: a plan plans, any other job keeps its answer. Returns the new status, or none if the claim is
    /// lost.
    pub fn complete(&mut self, id: JobId, claim_id: i64, answer: Answer) -> Option<Status> {
        if !self.is_claimed_under(id, claim_id) {
            return None;
        }
        if self.jobs[id].kind == Kind::Plan {
            self.plan(id);
        } else {
            self.keep(id, answer);
        }
        self.settle();
        Some(self.jobs[id].status)
    }

    /// What follows from an answer is inserted before the job completes, so that its plan is not woken too early.
    fn keep(&mut self, id: JobId, answer: Answer) {
        let job = self.jobs[id].clone();
        let is_rendered = matches!(job.kind, Kind::Execute) && self.step_of(&job).is_some_and(|step| step.is_rendered);
        let follower = match answer {
            Answer::CutOff => Some((job.kind, Status::PendingContinuation, job.continuation + 1)),
            Answer::Whole if is_rendered => Some((Kind::Render, Status::Pending, job.continuation)),
            Answer::Whole => None,
        };
        if let Some((kind, status, continuation)) = follower {
            let waiters = self.find(|other| other.prerequisites.contains(&id));
            let fresh = Job::new(kind, job.run, job.model);
            let (parent, step, group, version) = (job.parent, job.step, job.group, job.version);
            self.jobs.push(Job { parent, step, group, version, status, continuation, ..fresh });
            if answer == Answer::CutOff {
                for waiter in waiters {
                    let continued = self.jobs.len() - 1;
                    self.jobs[waiter].prerequisites.push(continued);
                }
            }
        }
        self.jobs[id].attempts += 1;
        self.set_status(id, Status::Completed);
        if job.version > 1 && follower.is_none() && job.kind != Kind::Combine {
            self.supersede_older(&job);
        }
    }

    /// A new version that is complete replaces the older ones.
    fn supersede_older(&mut self, job: &Job) {
        let place = |job: &Job| (job.parent, job.step, job.group);
        let is_older = |other: &Job| {
            place(other) == place(job) && other.version < job.version && other.status == Status::Completed
        };
        for id in self.find(|other| other.kind != Kind::Combine && is_older(other)) {
            self.set_status(id, Status::Superseded);
        }
    }

    /// Records a failed attempt. `run_at` is when the next one is due, where there is one.
    pub fn fail(&mut self, id: JobId, claim_id: i64, class: Class, run_at: i64) -> Option<Status> {
        if !self.is_claimed_under(id, claim_id) {
            return None;
        }
        let max_retries = self.sessions[self.runs[self.jobs[id].run].session].max_retries;
        let job = &mut self.jobs[id];
        let claimed_from = job.status_before.unwrap_or(Status::Pending);
        let charged_before = job.attempts;
        let failed = FailedAttempt { class, is_final: false, charged_before, max_retries, retry_after: None };
        let moved = retry::after_failure(&failed, claimed_from, &IMMEDIATE, 0.0);
        job.losses = 0;
        job.attempts += u32::from(moved.is_charged);
        if moved.is_charged {
            if moved.status == Status::Retrying {
                (job.run_at, job.status_before) = (run_at, None);
            }
            self.set_status(id, moved.status);
        } else {
            job.run_at = i64::MIN;
            self.return_job(id);
        }
        self.settle();
        Some(self.jobs[id].status)
    }

    /// The documents of a job do not fit: it waits for this many jobs that condense them. False if the claim is lost.
    pub fn condense(&mut self, id: JobId, claim_id: i64, groups: usize) -> bool {
        if !self.is_claimed_under(id, claim_id) {
            return false;
        }
        let job = self.jobs[id].clone();
        for _ in 0..groups {
            let fresh = Job::new(Kind::Combine, job.run, job.model);
            let made = self.jobs.len();
            self.jobs.push(Job { parent: job.parent, step: job.step, group: made, version: job.version, ..fresh });
            self.jobs[id].prerequisites.push(made);
        }
        self.set_status(id, Status::WaitingForPrerequisite);
        self.settle();
        true
    }

    fn is_claimed_under(&self, id: JobId, claim_id: i64) -> bool {
        self.jobs[id].claim.is_some_and(|claim| claim.id == claim_id)
    }
}
