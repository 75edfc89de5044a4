//! What a person or the wallet does to a job: cancel, pause, resume, retry, supersede.
//!
//! Each takes effect at once, whoever holds the job: the claim is given up, and an answer that still comes is late. Nothing
//! here waits for a claimer, and nothing here is refused because of what another model does.

use super::{Job, Outcome, Queue, Refusal};
use crate::job::Status;
use std::collections::BTreeSet;

/// Who stops a job for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// A person.
    User,
    /// An empty wallet: only jobs that run or could run, since waiting costs nothing.
    Wallet,
}

impl Queue {
    /// Cancels a job and everything under it.
    pub fn cancel(&mut self, id: u64) -> Outcome {
        self.stop(id, Status::Cancelled)
    }

    /// Replaces a job by one that is not in this table's concern; what is still live under it is cancelled.
    pub fn supersede(&mut self, id: u64) -> Outcome {
        self.stop(id, Status::Superseded)
    }

    fn stop(&mut self, id: u64, to: Status) -> Outcome {
        if let Some(refusal) = self.refusal(id, to) {
            return Outcome::Refused(refusal);
        }
        self.move_to(id, to);
        let mut next = vec![id];
        while let Some(above) = next.pop() {
            let children = self.job(above).map(|job| job.children.clone());
            for child in children.unwrap_or_default() {
                if let Some(job) = self.job_mut(child).filter(|job| !job.status.is_ended()) {
                    job.cause = Some(id);
                    self.move_to(child, Status::Cancelled);
                }
                next.push(child);
            }
        }
        self.settle();
        Outcome::Done
    }

    /// Stops a job until it is resumed.
    pub fn pause(&mut self, id: u64, pause: Pause) -> Outcome {
        let to = match pause {
            Pause::User => Status::PausedUser,
            Pause::Wallet => Status::PausedNsf,
        };
        if let Some(refusal) = self.refusal(id, to) {
            return Outcome::Refused(refusal);
        }
        if let Some(job) = self.job_mut(id) {
            // From processing and waiting_for_prerequisite the ready status underneath is kept: resume() finds out again
            // whether the job must wait.
            if job.status.is_ready() || job.status == Status::WaitingForChildren {
                job.status_before = job.status;
            }
        }
        self.move_to(id, to);
        self.settle();
        Outcome::Done
    }

    /// Returns a paused job to where it was; one whose prerequisites have not all delivered waits for them.
    pub fn resume(&mut self, id: u64) -> Outcome {
        let Some(job) = self.job(id) else {
            return Outcome::Refused(Refusal::UnknownJob(id));
        };
        let from = job.status;
        let waits = job.status_before.is_ready() && self.unmet(job).next().is_some();
        let to = if waits { Status::WaitingForPrerequisite } else { job.status_before };
        if !matches!(from, Status::PausedUser | Status::PausedNsf) {
            return Outcome::Refused(Refusal::Illegal { job: id, from, to });
        }
        if let Some(job) = self.job_mut(id) {
            // Others may have counted on it while it was paused, so it looks again even if nothing ended.
            job.news = true;
        }
        self.move_to(id, to);
        self.settle();
        Outcome::Done
    }

    /// Starts an ended job again, with everything that must not stay ended for it to get anywhere.
    pub fn retry(&mut self, id: u64) -> Outcome {
        let Some(job) = self.job(id) else {
            return Outcome::Refused(Refusal::UnknownJob(id));
        };
        if !job.status.is_retryable() {
            let (from, to) = (job.status, job.spec.status);
            return Outcome::Refused(Refusal::Illegal { job: id, from, to });
        }
        if let Some(closed) = self.closed_above(job) {
            return Outcome::Refused(Refusal::ParentEnded(closed));
        }
        for id in self.restarted_with(id) {
            self.restart(id);
        }
        self.settle();
        Outcome::Done
    }

    /// The failed plans above a job; what failed or was cancelled with them; who failed waiting for any of these, and whom
    /// any of these waits for. A failed or cancelled sibling is among them: the plan cannot deliver without it.
    fn restarted_with(&self, id: u64) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        let mut next = vec![id];
        while let Some(id) = next.pop() {
            let Some(job) = self.job(id) else { continue };
            let stays = !job.status.is_retryable() || self.closed_above(job).is_some();
            if stays || !found.insert(id) {
                continue;
            }
            next.extend(job.spec.parent);
            next.extend(&job.spec.prerequisites);
            let children = job.children.iter().filter_map(|id| self.job(*id));
            next.extend(children.filter(|child| child.status.is_retryable()).map(|child| child.id));
            let for_it = |other: &&Job| other.cause == Some(id) && other.spec.prerequisites.contains(&id);
            next.extend(self.jobs.iter().filter(for_it).map(|job| job.id));
        }
        found
    }

    /// A plan above that is over and will not be planned again.
    fn closed_above(&self, job: &Job) -> Option<u64> {
        let mut above = job.spec.parent;
        while let Some(parent) = above.and_then(|id| self.job(id)) {
            if matches!(parent.status, Status::Completed | Status::Superseded) {
                return Some(parent.id);
            }
            above = parent.spec.parent;
        }
        None
    }

    fn restart(&mut self, id: u64) {
        let Some(job) = self.job(id) else { return };
        let start = job.spec.status;
        let (to, status_before) = match (self.unmet(job).next(), job.children.is_empty()) {
            (Some(_), true) => (Status::WaitingForPrerequisite, start),
            (Some(_), false) => (Status::WaitingForPrerequisite, Status::PendingNextStep),
            (None, true) => (start, start),
            (None, false) => (Status::WaitingForChildren, Status::PendingNextStep),
        };
        if let Some(job) = self.job_mut(id) {
            job.status_before = status_before;
            (job.attempt_count, job.run_at, job.cause, job.news) = (0, 0, None, true);
        }
        self.move_to(id, to);
    }

    fn refusal(&self, id: u64, to: Status) -> Option<Refusal> {
        match self.job(id) {
            None => Some(Refusal::UnknownJob(id)),
            Some(job) if job.status.may_become(to) => None,
            Some(job) => Some(Refusal::Illegal { job: id, from: job.status, to }),
        }
    }
}
