//! What follows when jobs have moved: which jobs are cancelled, fail, become ready, and which stage runs end.
//!
//! The database does this in one trigger after every statement. The rules read the tables as they are; only the waking
//! of plans depends on what has just ended. A job that is processing is left to finish.

use super::{JobId, Queue};
use crate::job::Status;
use std::collections::BTreeSet;

impl Queue {
    /// Applies the first rule that moves anything, until none does.
    pub(super) fn settle(&mut self) {
        while self.cancel_orphans()
            || self.fail_plans()
            || self.cancel_plans()
            || self.end_waits()
            || self.wake_plans()
            || self.close_stage_runs()
        {}
    }

    /// Jobs that have not started, or have stopped, end with their plan.
    fn cancel_orphans(&mut self) -> bool {
        let is_over = |plan: JobId| self.jobs[plan].status.is_retryable();
        let orphans = self.find(|job| {
            let is_idle = !job.status.is_ended() && job.status != Status::Processing;
            is_idle && job.parent.is_some_and(is_over)
        });
        self.move_all(orphans, Status::Cancelled)
    }

    /// A child that failed for good fails its plan, if that runs or waits.
    fn fail_plans(&mut self) -> bool {
        let plans = self.parents_where(|status, _| status.is_failure());
        let moved = plans.into_iter().filter(|plan| self.jobs[*plan].status.may_become(Status::Failed)).collect();
        self.move_all(moved, Status::Failed)
    }

    /// A plan cannot deliver without a cancelled child. One that was to replace a document is not needed.
    fn cancel_plans(&mut self) -> bool {
        let plans = self.parents_where(|status, version| status == Status::Cancelled && version == 1);
        let moved = plans.into_iter().filter(|plan| !self.jobs[*plan].status.is_ended()).collect();
        self.move_all(moved, Status::Cancelled)
    }

    fn parents_where(&self, condition: impl Fn(Status, u32) -> bool) -> BTreeSet<JobId> {
        self.jobs.iter().filter(|job| condition(job.status, job.version)).filter_map(|job| job.parent).collect()
    }

    /// A job whose prerequisites are complete is ready; one whose prerequisite did not deliver fails.
    fn end_waits(&mut self) -> bool {
        for id in self.find(|job| job.status == Status::WaitingForPrerequisite) {
            let lost = |needed: &&JobId| self.jobs[**needed].status.is_retryable();
            let prerequisites = &self.jobs[id].prerequisites;
            if let Some(cause) = prerequisites.iter().find(lost).copied() {
                self.jobs[id].cause = Some(cause);
                self.set_status(id, Status::Failed);
                return true;
            }
            if !prerequisites.iter().any(|needed| self.is_unmet(*needed)) {
                let to = self.jobs[id].ready_status();
                self.set_ready(id, to);
                return true;
            }
        }
        false
    }

    /// Wakes a plan when the last of its jobs of a step has ended, and every plan of the stage run when the last such
    /// job of all models or a plan has ended. Plans with unfinished jobs go on waiting.
    fn wake_plans(&mut self) -> bool {
        let mut told = BTreeSet::new();
        for id in std::mem::take(&mut self.ended) {
            let (run, parent, step) = (self.jobs[id].run, self.jobs[id].parent, self.jobs[id].step);
            let plans: Vec<JobId> = self.plans_of(run).map(|(plan, _)| plan).collect();
            match parent {
                Some(plan) if self.has_unfinished(plan, step) => {}
                Some(plan) if plans.iter().any(|plan| self.has_unfinished(*plan, step)) => drop(told.insert(plan)),
                Some(_) | None => told.extend(plans),
            }
        }
        told.retain(|plan| self.jobs[*plan].status == Status::WaitingForChildren && !self.has_unfinished(*plan, None));
        for plan in &told {
            self.set_ready(*plan, Status::PendingNextStep);
        }
        !told.is_empty()
    }

    fn move_all(&mut self, ids: Vec<JobId>, to: Status) -> bool {
        for id in &ids {
            self.set_status(*id, to);
        }
        !ids.is_empty()
    }
}
