//! What follows when jobs have moved: who is woken, who fails with another, who is cancelled with a plan.
//!
//! The database does this in one trigger after every statement. It looks at the table as it now is, not at the order in
//! which it came to be so: that is why no interleaving strands a job. The one thing remembered is `news`, which says
//! that something ended after a plan last looked. It never claims, and never moves a job that a person paused
//! except to cancel it with its plan or with its child.

use super::{Job, Queue};
use crate::job::{Phase, Status};

impl Queue {
    /// Moves every job that must move until none must.
    pub(super) fn settle(&mut self) {
        loop {
            for id in std::mem::take(&mut self.ended) {
                self.tell(id);
            }
            let due: Vec<(u64, Status, Option<u64>)> =
                self.jobs.iter().filter_map(|job| self.must_move(job).map(|(to, why)| (job.id, to, why))).collect();
            if due.is_empty() {
                return;
            }
            for (id, to, cause) in due {
                if let Some(job) = self.job_mut(id) {
                    job.cause = cause;
                    job.woken += u32::from(to.is_ready());
                }
                self.move_to(id, to);
            }
        }
    }

    /// A job has ended: its plan has news once all its children have, and every root of the stage run has when a step or a
    /// root ends. Roots that do not wait at this instant are told as well: they may be about to.
    fn tell(&mut self, id: u64) {
        let Some(job) = self.job(id) else { return };
        let (run, step, parent) = (job.spec.stage_run, job.spec.step, job.spec.parent);
        let in_step = |other: &Job| step.is_some() && other.spec.step == step;
        let unfinished = |other: &Job| other.spec.stage_run == run && in_step(other) && !other.status.is_ended();
        let step_ended = step.is_some() && !self.jobs.iter().any(unfinished);
        let all_roots = step_ended || job.is_root();
        let parent = parent.and_then(|parent| self.job(parent));
        let parent = parent.filter(|parent| self.children_ended(parent));
        let parent = parent.map(|parent| parent.id);
        for other in &mut self.jobs {
            let root = other.is_root() && other.spec.stage_run == run;
            other.news |= Some(other.id) == parent || (all_roots && root);
        }
    }

    /// Where a job must go now, and because of which other job.
    fn must_move(&self, job: &Job) -> Option<(Status, Option<u64>)> {
        if job.status.is_ended() {
            return None;
        }
        self.orphaned(job)
            .or_else(|| self.failed_with_child(job))
            .or_else(|| self.cancelled_with_child(job))
            .or_else(|| self.woken(job))
    }

    /// What has not started goes with its plan; what runs may still deliver.
    fn orphaned(&self, job: &Job) -> Option<(Status, Option<u64>)> {
        let parent = self.job(job.spec.parent?)?;
        let gone = parent.status.is_ended() && parent.status != Status::Completed;
        let started = job.status == Status::Processing;
        (gone && !started).then_some((Status::Cancelled, Some(parent.id)))
    }

    /// A child that failed for good fails its plan, from every status that may become `failed`.
    fn failed_with_child(&self, job: &Job) -> Option<(Status, Option<u64>)> {
        if !job.status.may_become(Status::Failed) {
            return None;
        }
        let mut children = job.children.iter().filter_map(|id| self.job(*id));
        let failed = children.find(|child| child.status.is_failure())?;
        Some((Status::Failed, Some(failed.id)))
    }

    /// A plan cannot deliver without a child that was cancelled, whatever it does at this instant.
    fn cancelled_with_child(&self, job: &Job) -> Option<(Status, Option<u64>)> {
        let mut children = job.children.iter().filter_map(|id| self.job(*id));
        let cancelled = children.find(|child| child.status == Status::Cancelled)?;
        Some((Status::Cancelled, Some(cancelled.id)))
    }

    /// A job that waits moves when what it waited for has ended.
    fn woken(&self, job: &Job) -> Option<(Status, Option<u64>)> {
        if job.status.phase() != Phase::Waiting {
            return None;
        }
        if job.status == Status::WaitingForChildren {
            let wake = job.news && self.children_ended(job);
            return wake.then_some((Status::PendingNextStep, None));
        }
        let mut unmet = self.unmet(job).peekable();
        if unmet.peek().is_none() {
            return Some((job.status_before, None));
        }
        let lost = unmet.find(|prerequisite| prerequisite.status.is_ended())?;
        Some((Status::Failed, Some(lost.id)))
    }
}
