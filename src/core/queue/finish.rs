//! What a claimer does: takes due jobs, and says how each one came out.
//!
//! A claim is a fence. Every outcome names the claim it was made under; one that no longer holds its job is stale, is
//! counted, and changes nothing. Nothing here decides what follows for other jobs: that is `settle`, at the end of
//! every operation.

use super::{Job, NewJob, Outcome, Queue, Refusal};
use crate::job::Status;

/// One job taken by one claimer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The job.
    pub job: u64,
    /// The fence its outcome must name.
    pub claim_id: u64,
}

/// What a plan found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planned {
    /// These jobs come next; their parent and stage run are those of the plan.
    Children(Vec<NewJob>),
    /// Nothing now: it waits for its children or for other models.
    NothingYet,
    /// Every step is planned and done.
    NothingLeft,
}

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The provider asked to come back later: no attempt is charged.
    Throttled {
        /// When to come back.
        until: u64,
    },
    /// It may pass: an attempt is charged.
    Transient {
        /// When the next attempt is due.
        until: u64,
    },
    /// Another attempt would fail as well.
    Permanent,
}

impl Queue {
    /// A claimer begins to live.
    pub fn claimer_starts(&mut self, claimer: u64) {
        self.alive.insert(claimer);
    }

    /// A claimer dies; its claims stay until somebody frees them.
    pub fn claimer_dies(&mut self, claimer: u64) {
        self.alive.remove(&claimer);
    }

    /// Returns the jobs of dead claimers to where they were claimed from, without charging an attempt.
    pub fn free_dead_claims(&mut self) {
        let dead: Vec<(u64, Status)> = self
            .jobs
            .iter()
            .filter(|job| job.claimer.is_some_and(|id| !self.alive.contains(&id)))
            .map(|job| (job.id, job.status_before))
            .collect();
        for (id, status_before) in dead {
            self.move_to(id, status_before);
        }
        self.settle();
    }

    /// Gives up to `n` due jobs to a living claimer, oldest first, each under a new claim.
    pub fn claim(&mut self, claimer: u64, now: u64, n: usize) -> Vec<Claim> {
        if !self.alive.contains(&claimer) {
            return Vec::new();
        }
        let due: Vec<u64> = self
            .jobs
            .iter()
            .filter(|job| job.status.is_ready() && job.run_at <= now)
            .map(|job| job.id)
            .take(n)
            .collect();
        let mut taken = Vec::with_capacity(due.len());
        for id in due {
            let claim_id = self.claims.last().map_or(1, |(last, _)| last + 1);
            self.claims.push((claim_id, id));
            self.move_to_processing(id, claimer, claim_id);
            taken.push(Claim { job: id, claim_id });
        }
        self.settle();
        taken
    }

    fn move_to_processing(&mut self, id: u64, claimer: u64, claim_id: u64) {
        if let Some(job) = self.job_mut(id) {
            job.status_before = job.status;
            (job.claim_id, job.claimer) = (Some(claim_id), Some(claimer));
            // From here on it reads the table as it is; only what ends later is news to it.
            job.news = false;
        }
        self.move_to(id, Status::Processing);
    }

    /// Saves the answer of a job and completes it; `followers` (a continuation, a render) are inserted first, under the same
    /// parent, so that no count misses them.
    pub fn complete(&mut self, id: u64, claim_id: u64, followers: Vec<NewJob>) -> Outcome {
        let job = match self.fence(id, claim_id) {
            Ok(job) => job.clone(),
            Err(outcome) => return outcome,
        };
        if !self.children_ended(&job) {
            return Outcome::Refused(Refusal::UnfinishedChildren(id));
        }
        let followers = under(followers, job.spec.parent, job.spec.stage_run);
        // A late sibling of a failed job still delivers; what would follow from it belongs to nobody and is dropped.
        let parent = job.spec.parent.and_then(|parent| self.job(parent));
        let orphan = parent.is_some_and(|parent| parent.status.is_ended());
        if !orphan {
            if let Err(refusal) = followers.iter().try_for_each(|new| self.admit(new)) {
                return Outcome::Refused(refusal);
            }
            for new in followers {
                self.push(new);
            }
        }
        if let Some(job) = self.job_mut(id) {
            job.answers += 1;
        }
        self.move_to(id, Status::Completed);
        self.settle();
        Outcome::Done
    }

    /// Records what a plan found. Inserting children and beginning to wait for them is one step. A plan that waits for nobody,
    /// because no other model of the stage run can still change anything, fails: it would wait for ever.
    pub fn plan(&mut self, id: u64, claim_id: u64, planned: Planned) -> Outcome {
        let job = match self.fence(id, claim_id) {
            Ok(job) => job.clone(),
            Err(outcome) => return outcome,
        };
        let unfinished = !self.children_ended(&job);
        let to = match planned {
            Planned::Children(children) => {
                let children = under(children, Some(id), job.spec.stage_run);
                if let Err(refusal) = children.iter().try_for_each(|new| self.admit(new)) {
                    return Outcome::Refused(refusal);
                }
                let waits = unfinished || !children.is_empty();
                for new in children {
                    self.push(new);
                }
                self.wait_or_fail(id, waits)
            }
            Planned::NothingYet => self.wait_or_fail(id, unfinished),
            Planned::NothingLeft if unfinished => Status::WaitingForChildren,
            Planned::NothingLeft => Status::Completed,
        };
        if to == Status::Completed
            && let Some(job) = self.job_mut(id)
        {
            job.answers += 1;
        }
        self.move_to(id, to);
        self.settle();
        Outcome::Done
    }

    fn wait_or_fail(&self, id: u64, unfinished_children: bool) -> Status {
        match self.job(id) {
            Some(job) if unfinished_children || job.news || self.others_move(job) => Status::WaitingForChildren,
            Some(_) | None => Status::Failed,
        }
    }

    /// Whether another root of the stage run has yet to end and does more than wait for roots itself.
    pub(super) fn others_move(&self, job: &Job) -> bool {
        job.is_root()
            && self.jobs.iter().any(|other| {
                other.id != job.id
                    && other.is_root()
                    && other.spec.stage_run == job.spec.stage_run
                    && !other.status.is_ended()
                    && !self.is_idle(other)
            })
    }

    /// Whether a plan waits and none of its own children will wake it.
    pub(super) fn is_idle(&self, job: &Job) -> bool {
        job.status == Status::WaitingForChildren && !job.news && self.children_ended(job)
    }

    /// Records a failed attempt.
    pub fn fail(&mut self, id: u64, claim_id: u64, failure: Failure) -> Outcome {
        let (status_before, attempts, max_retries) = match self.fence(id, claim_id) {
            Ok(job) => (job.status_before, job.attempt_count, job.spec.max_retries),
            Err(outcome) => return outcome,
        };
        let (to, attempts, run_at) = match failure {
            Failure::Throttled { until } => (status_before, attempts, until),
            Failure::Transient { until } if attempts < max_retries => (Status::Retrying, attempts + 1, until),
            Failure::Transient { until } => (Status::RetryLoopFailed, attempts + 1, until),
            Failure::Permanent => (Status::Failed, attempts, 0),
        };
        if let Some(job) = self.job_mut(id) {
            (job.attempt_count, job.run_at) = (attempts, run_at);
        }
        self.move_to(id, to);
        self.settle();
        Outcome::Done
    }

    /// A running job finds that it needs other jobs first. Those that have ended already count at once.
    pub fn wait_for(&mut self, id: u64, claim_id: u64, prerequisites: &[u64]) -> Outcome {
        let stage_run = match self.fence(id, claim_id) {
            Ok(job) => job.spec.stage_run,
            Err(outcome) => return outcome,
        };
        if let Err(refusal) = self.admit_prerequisites(Some(id), stage_run, prerequisites) {
            return Outcome::Refused(refusal);
        }
        if let Some(job) = self.job_mut(id) {
            job.spec.prerequisites.extend(prerequisites);
        }
        self.move_to(id, Status::WaitingForPrerequisite);
        self.settle();
        Outcome::Done
    }

    /// The job, if this claim holds it.
    fn fence(&mut self, id: u64, claim_id: u64) -> Result<&Job, Outcome> {
        let held = self.job(id).map(|job| job.claim_id == Some(claim_id));
        if held == Some(false) {
            self.late += 1;
            return Err(Outcome::Stale);
        }
        let unknown = Outcome::Refused(Refusal::UnknownJob(id));
        self.job(id).ok_or(unknown)
    }
}

fn under(jobs: Vec<NewJob>, parent: Option<u64>, stage_run: u64) -> Vec<NewJob> {
    let place = |job| NewJob { parent, stage_run, ..job };
    jobs.into_iter().map(place).collect()
}
