//! What must hold after every verb, in words when it does not.
//!
//! The checks read the tables and repeat nothing of how they are moved: a job that no verb of a claimer can ever bring
//! to an end is found by what it waits for, not by the rule that should have woken it.

use super::{Job, JobId, Queue, RunStatus, SessionStatus};
use crate::job::Status;

impl Queue {
    /// Every violation; none if all is well.
    pub fn violations(&self) -> Vec<String> {
        let illegal = self.illegal.iter().map(|(id, from, to)| format!("job {id} moved from {from} to {to}"));
        let of_jobs = self.jobs.iter().enumerate().flat_map(|(id, job)| {
            let broken = self.checks(id, job).into_iter().filter(|(is_broken, _)| *is_broken);
            broken.map(move |(_, what)| format!("job {id} ({}, {}): {what}", job.kind, job.status))
        });
        let stuck = (0..self.sessions.len()).filter(|session| self.is_stuck(*session));
        illegal
            .chain(of_jobs)
            .chain(stuck.map(|session| format!("session {session} is active, nothing runs")))
            .collect()
    }

    fn checks(&self, id: JobId, job: &Job) -> [(bool, &'static str); 5] {
        let is_running = job.status == Status::Processing;
        let max_retries = self.sessions[self.session_of(id)].max_retries;
        [
            (is_running != job.claim.is_some(), "its claim contradicts its status"),
            (job.attempts > max_retries + 1, "it was tried too often"),
            (self.waits_in_vain(id), "nothing will ever wake it"),
            (self.has_lost_plan(job), "its plan has ended without it"),
            (self.ignores_a_child(id), "it goes on without a child that failed or was cancelled"),
        ]
    }

    fn waits_in_vain(&self, id: JobId) -> bool {
        let job = &self.jobs[id];
        let is_moving = |plan: &Job| !plan.status.is_ended() && plan.status != Status::WaitingForChildren;
        match job.status {
            Status::WaitingForPrerequisite => {
                job.prerequisites.iter().all(|needed| self.jobs[*needed].status.is_ended())
            }
            Status::WaitingForChildren => {
                let mut plans = self.plans_of(job.run);
                !plans.any(|(plan, other)| is_moving(other) || self.has_unfinished(plan, None))
            }
            _ => false,
        }
    }

    fn has_lost_plan(&self, job: &Job) -> bool {
        let is_waiting = !job.status.is_ended() && job.status != Status::Processing;
        let Some(plan) = job.parent.map(|plan| &self.jobs[plan]) else { return false };
        let is_unplanned = plan.status == Status::Completed && job.version == 1 && !job.status.is_ended();
        (is_waiting && plan.status.is_retryable()) || is_unplanned
    }

    fn ignores_a_child(&self, id: JobId) -> bool {
        let status = self.jobs[id].status;
        let goes_on = status.is_waiting() || status == Status::Completed;
        goes_on && self.children(id).any(|child| child.version == 1 && child.status.is_retryable())
    }

    fn is_stuck(&self, session: usize) -> bool {
        let mut runs = self.runs.iter().filter(|run| run.session == session);
        self.sessions[session].status == SessionStatus::Active && !runs.any(|run| run.status == RunStatus::Running)
    }
}
