//! What must hold after every operation, said in words when it does not.
//!
//! The checks read the table alone and repeat nothing of how it is moved: a job that nobody will ever move again is found
//! here by what it waits for, not by the rule that should have woken it. They never change anything.

use super::{Job, Queue};
use crate::job::Status;

impl Queue {
    /// Every broken rule; none when all is well.
    pub fn invariants(&self) -> Vec<String> {
        let mut broken: Vec<String> =
            self.illegal.iter().map(|(id, from, to)| format!("job {id} went from {from} to {to}")).collect();
        if !self.claims.is_sorted_by(|(a, _), (b, _)| a < b) {
            broken.push("a claim id was given twice".to_owned());
        }
        for job in &self.jobs {
            let checks = [
                (self.claim_is_wrong(job), "its claim contradicts its status"),
                (job.answers > 1, "its answer was saved twice"),
                (answer_is_wrong(job), "its answer contradicts its status"),
                (job.attempt_count > job.spec.max_retries.saturating_add(1), "it was tried too often"),
                (self.waits_in_vain(job), "nothing will ever wake it"),
                (self.lost_its_plan(job), "its plan has ended without it"),
                (self.ignores_a_child(job), "it goes on without a child that failed or was cancelled"),
            ];
            for (_, what) in checks.into_iter().filter(|(wrong, _)| *wrong) {
                broken.push(format!("job {} ({}): {what}", job.id, job.status));
            }
        }
        broken
    }

    fn claim_is_wrong(&self, job: &Job) -> bool {
        let running = job.status == Status::Processing;
        let returns_to_ready = !running || job.status_before.is_ready();
        running != job.claim_id.is_some() || running != job.claimer.is_some() || !returns_to_ready
    }

    fn waits_in_vain(&self, job: &Job) -> bool {
        let ended = |id: &u64| self.job(*id).is_none_or(|other| other.status.is_ended());
        match job.status {
            Status::WaitingForPrerequisite => job.spec.prerequisites.iter().all(ended),
            Status::WaitingForChildren => job.children.iter().all(ended) && !self.others_move(job),
            Status::Pending
            | Status::PendingContinuation
            | Status::PendingNextStep
            | Status::Retrying
            | Status::Processing
            | Status::PausedUser
            | Status::PausedNsf
            | Status::Completed
            | Status::Failed
            | Status::RetryLoopFailed
            | Status::Cancelled
            | Status::Superseded => false,
        }
    }

    fn lost_its_plan(&self, job: &Job) -> bool {
        let parent = job.spec.parent.and_then(|id| self.job(id));
        let unstarted = !job.status.is_ended() && job.status != Status::Processing;
        // A completed plan leaves nothing unfinished at all, started or not.
        parent.is_some_and(|parent| {
            let over = parent.status.is_ended();
            let done = parent.status == Status::Completed;
            (over && unstarted) || (done && !job.status.is_ended())
        })
    }

    fn ignores_a_child(&self, job: &Job) -> bool {
        let mut children = job.children.iter().filter_map(|id| self.job(*id));
        let over = job.status.is_waiting() || job.status == Status::Completed;
        over && children.any(|child| child.status.is_retryable())
    }
}

fn answer_is_wrong(job: &Job) -> bool {
    let saved = job.answers > 0;
    match job.status {
        Status::Completed => !saved,
        // It may have been superseded before or after it answered.
        Status::Superseded => false,
        Status::Pending
        | Status::PendingContinuation
        | Status::PendingNextStep
        | Status::Retrying
        | Status::Processing
        | Status::WaitingForChildren
        | Status::WaitingForPrerequisite
        | Status::PausedUser
        | Status::PausedNsf
        | Status::Failed
        | Status::RetryLoopFailed
        | Status::Cancelled => saved,
    }
}
