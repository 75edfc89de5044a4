//! The verbs of people: cancel, pause, resume and retry, each of a session or of one job with all below it.
//!
//! Each takes effect at once, whoever holds a job: the claim is lost. Each returns how many jobs it moved itself; what
//! follows from that is not counted.

use super::{Job, JobId, Queue, RunStatus, SessionStatus};
use crate::job::Status;
use std::collections::BTreeSet;

/// What a verb is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// All jobs of a session.
    Session(usize),
    /// A job and all below it.
    Job(JobId),
}

/// Why a job is not retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It has neither failed nor been cancelled.
    NotFailed,
    /// The session has advanced past its stage.
    StageOver,
    /// Its plan has completed without it.
    PlanCompleted,
}

impl Queue {
    /// Cancels what has not ended.
    pub fn cancel(&mut self, target: Target) -> usize {
        if let Target::Session(session) = target {
            let status = &mut self.sessions[session].status;
            if matches!(status, SessionStatus::Active | SessionStatus::Failed) {
                *status = SessionStatus::Cancelled;
            }
        }
        let mut moved = self.below(target);
        moved.retain(|id| !self.jobs[*id].status.is_ended());
        for id in &moved {
            self.set_status(*id, Status::Cancelled);
        }
        self.settle();
        moved.len()
    }

    /// Pauses what is ready or running, and a job that is named even if it waits.
    pub fn pause(&mut self, target: Target) -> usize {
        let mut moved = self.below(target);
        moved.retain(|id| {
            let status = self.jobs[*id].status;
            status.is_ready() || status == Status::Processing || (status.is_waiting() && target == Target::Job(*id))
        });
        for id in &moved {
            let job = &mut self.jobs[*id];
            // Of a running or waiting job the ready status underneath is kept.
            if !matches!(job.status, Status::Processing | Status::WaitingForPrerequisite) {
                job.status_before = Some(job.status);
            }
            self.set_status(*id, Status::PausedUser);
        }
        self.settle();
        moved.len()
    }

    /// Returns paused jobs to where they were; what they waited for may have ended meanwhile.
    pub fn resume(&mut self, target: Target) -> usize {
        let mut moved = self.below(target);
        moved.retain(|id| self.jobs[*id].status == Status::PausedUser);
        let resumed: Vec<(JobId, Status)> = moved.iter().map(|id| (*id, self.status_after_pause(*id))).collect();
        for (id, to) in resumed {
            self.set_ready(id, to);
        }
        self.settle();
        moved.len()
    }

    fn status_after_pause(&self, id: JobId) -> Status {
        let job = &self.jobs[id];
        let waited = job.status_before == Some(Status::WaitingForChildren);
        let must_wait = || self.children(id).any(|child| !child.status.is_ended() || child.status.is_failure());
        if job.prerequisites.iter().any(|needed| self.is_unmet(*needed)) {
            Status::WaitingForPrerequisite
        } else if waited && must_wait() {
            Status::WaitingForChildren
        } else if waited {
            Status::PendingNextStep
        } else {
            job.ready_status()
        }
    }

    /// Brings back what failed or was cancelled: a job with all that it needs, or the current stage of a session with
    /// the models that were dropped before it.
    pub fn retry(&mut self, target: Target) -> Result<usize, Refusal> {
        let (session, run, moved) = match target {
            Target::Session(session) => {
                let run = self.current_run(session);
                let ended = self.find(|job| job.run == run && job.status.is_retryable() && !self.is_planned_past(job));
                (session, run, self.restart(&ended.into_iter().collect()) + self.ask_dropped_models(run))
            }
            Target::Job(id) => {
                let (run, session) = (self.jobs[id].run, self.session_of(id));
                self.refuse_retry(id)?;
                (session, run, self.restart(&self.retried_with(id)))
            }
        };
        let has_live_plan = self.plans_of(run).any(|(_, plan)| !plan.status.is_ended());
        if moved > 0 && has_live_plan {
            self.runs[run].status = RunStatus::Running;
            self.sessions[session].status = SessionStatus::Active;
        } else if self.sessions[session].status == SessionStatus::Cancelled {
            self.sessions[session].status = SessionStatus::Active;
            self.advance(session);
        }
        self.settle();
        Ok(moved)
    }

    fn refuse_retry(&self, id: JobId) -> Result<(), Refusal> {
        let job = &self.jobs[id];
        if !job.status.is_retryable() {
            return Err(Refusal::NotFailed);
        }
        if job.version == 1 && job.run != self.current_run(self.session_of(id)) {
            return Err(Refusal::StageOver);
        }
        if self.is_planned_past(job) { Err(Refusal::PlanCompleted) } else { Ok(()) }
    }

    /// Whether the plan of a job has completed without it, and no later version can still use the job.
    fn is_planned_past(&self, job: &Job) -> bool {
        let is_closed = |plan: JobId| matches!(self.jobs[plan].status, Status::Completed | Status::Superseded);
        let place = |job: &Job| (job.parent, job.step, job.group);
        let is_newer =
            |other: &Job| place(other) == place(job) && other.version > job.version && !other.status.is_retryable();
        job.parent.is_some_and(is_closed) && (job.version == 1 || self.jobs.iter().any(is_newer))
    }

    /// All below a job and its failed and cancelled siblings; then what failed because of any of these, and what any of
    /// these waits for.
    fn retried_with(&self, id: JobId) -> BTreeSet<JobId> {
        let job = &self.jobs[id];
        let is_sibling = |other: &Job| job.parent.is_some() && other.parent == job.parent && other.version == 1;
        let mut found: BTreeSet<JobId> = self.below(Target::Job(id)).into_iter().collect();
        found.extend(self.find(|other| is_sibling(other) && other.status.is_retryable()));
        let mut next: Vec<JobId> = found.iter().copied().collect();
        while let Some(id) = next.pop() {
            let mut linked = self.find(|other| other.cause == Some(id));
            linked.extend(&self.jobs[id].prerequisites);
            let fresh = linked.into_iter().filter(|id| self.jobs[*id].status.is_retryable() && found.insert(*id));
            next.extend(fresh);
        }
        found.retain(|id| self.jobs[*id].status.is_retryable() && !self.is_planned_past(&self.jobs[*id]));
        found
    }

    /// Restarts these jobs and the ended plans above them, with all their attempts.
    fn restart(&mut self, ids: &BTreeSet<JobId>) -> usize {
        let plans = ids.iter().filter_map(|id| self.jobs[*id].parent);
        let plans = plans.filter(|plan| self.jobs[*plan].status.is_retryable());
        let all: BTreeSet<JobId> = ids.iter().copied().chain(plans).collect();
        let restarted: Vec<(JobId, Status)> = all.iter().map(|id| (*id, self.status_after_retry(*id, ids))).collect();
        for (id, to) in restarted {
            self.set_ready(id, to);
            (self.jobs[id].attempts, self.jobs[id].cause) = (0, None);
        }
        all.len()
    }

    fn status_after_retry(&self, id: JobId, restarted: &BTreeSet<JobId>) -> Status {
        let job = &self.jobs[id];
        let is_child = |other: &JobId| self.jobs[*other].parent == Some(id);
        if self.has_unfinished(id, None) || restarted.iter().any(is_child) {
            Status::WaitingForChildren
        } else if job.prerequisites.iter().any(|needed| self.is_unmet(*needed)) {
            Status::WaitingForPrerequisite
        } else {
            job.ready_status()
        }
    }

    fn below(&self, target: Target) -> Vec<JobId> {
        (0..self.jobs.len())
            .filter(|id| match target {
                Target::Session(session) => self.session_of(*id) == session,
                Target::Job(job) => *id == job || self.jobs[*id].parent == Some(job),
            })
            .collect()
    }
}
