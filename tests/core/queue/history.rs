//! Random histories of the queue. An operation names a verb and a number; the state it meets decides which job, claim or
//! session that number picks, so every part of a history is a history.

use dialectic_core::job::Status;
use dialectic_core::provider::Class;
use dialectic_core::queue::{Answer, Claim, JobId, Queue, Step, Target};
use dialectic_core::recipe::FromModels;
use proptest::prelude::*;

/// The shared process: two jobs per model, a document from all models, a text from the own document; then a second stage.
pub(crate) fn process() -> Vec<Vec<Step>> {
    let step = |needs: &[(usize, FromModels)], jobs, is_rendered| Step { needs: needs.to_vec(), jobs, is_rendered };
    let first =
        vec![step(&[], 2, false), step(&[(0, FromModels::All)], 1, true), step(&[(1, FromModels::Own)], 1, false)];
    vec![first, vec![step(&[], 1, false)]]
}

/// How many attempts may follow the first.
pub(crate) const MAX_RETRIES: u32 = 1;

/// The models of each session, by number.
pub(crate) const SESSIONS: [&[usize]; 2] = [&[0, 1, 2], &[0, 1]];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Claim,
    ClaimInside,
    KillInside,
    PassHour,
    RepairProvider,
    Complete,
    Fail(Class),
    CompleteLate,
    FailLate,
    Cancel,
    CancelSession,
    Pause,
    PauseSession,
    Resume,
    ResumeSession,
    Retry,
    RetrySession,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    verb: Verb,
    pick: usize,
}

/// What an operation comes to in one state. The model by itself does not read all of it.
#[allow(dead_code)]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Action {
    /// A worker outside the server claims, with a lease of this many half hours.
    Claim {
        most: usize,
        half_hours: i64,
    },
    /// A claimer inside the server claims; it holds its claims while its connection lives.
    ClaimInside,
    KillInside {
        claimer: usize,
    },
    PassHour,
    RepairProvider {
        model: usize,
    },
    Complete {
        job: JobId,
        claim_id: i64,
        answer: Answer,
    },
    Fail {
        job: JobId,
        claim_id: i64,
        class: Class,
        is_delayed: bool,
    },
    Cancel(Target),
    Pause(Target),
    Resume(Target),
    Retry(Target),
}

/// What an action returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Nothing,
    /// How many jobs a person's verb moved.
    Moved(usize),
    /// The new status of a job.
    Status(Status),
    /// The claim no longer holds the job.
    Stale,
    Refused,
}

/// What the model does not decide.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The jobs that a claim took.
    pub(crate) claimed: Vec<(JobId, Claim)>,
    /// When a failed attempt is due again.
    pub(crate) run_at: i64,
    /// When jobs are due that a claimer lost which worked on each alone.
    pub(crate) delays: Vec<(JobId, i64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimer {
    /// Its lease ends at this half hour.
    Outside {
        until: i64,
    },
    Inside {
        is_alive: bool,
    },
}

/// A queue and its claimers.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) queue: Queue,
    pub(crate) claimers: Vec<Claimer>,
    pub(crate) half_hour: i64,
    /// Every claim that was ever made.
    claims: Vec<(JobId, i64)>,
}

impl World {
    pub(crate) fn new() -> World {
        let mut queue = Queue::default();
        for models in SESSIONS {
            queue.start_session(process(), models.to_vec(), MAX_RETRIES);
        }
        World { queue, claimers: Vec::new(), half_hour: 0, claims: Vec::new() }
    }

    pub(crate) fn is_gone(&self, claimer: usize) -> bool {
        match self.claimers[claimer] {
            Claimer::Outside { until } => until <= self.half_hour,
            Claimer::Inside { is_alive } => !is_alive,
        }
    }

    /// What an operation comes to; nothing if there is nothing to pick.
    pub(crate) fn resolve(&self, operation: Operation) -> Option<Action> {
        let Operation { verb, pick } = operation;
        let session = Target::Session(pick % SESSIONS.len());
        let job = |condition: &dyn Fn(Status) -> bool| self.pick_job(pick, condition).map(Target::Job);
        Some(match verb {
            Verb::Claim => Action::Claim { most: 1 + pick % 7, half_hours: if pick.is_multiple_of(2) { 1 } else { 3 } },
            Verb::ClaimInside => Action::ClaimInside,
            Verb::KillInside => Action::KillInside { claimer: self.pick_alive(pick)? },
            Verb::PassHour => Action::PassHour,
            Verb::RepairProvider => Action::RepairProvider { model: pick % SESSIONS[0].len() },
            Verb::Complete | Verb::CompleteLate => {
                let (job, claim_id) = self.pick_claim(pick, verb == Verb::Complete)?;
                Action::Complete { job, claim_id, answer: Answer::Whole }
            }
            Verb::Fail(class) => {
                let (job, claim_id) = self.pick_claim(pick, true)?;
                Action::Fail { job, claim_id, class, is_delayed: pick.is_multiple_of(3) }
            }
            Verb::FailLate => {
                let (job, claim_id) = self.pick_claim(pick, false)?;
                Action::Fail { job, claim_id, class: Class::Permanent, is_delayed: false }
            }
            Verb::Cancel => Action::Cancel(job(&|status| !status.is_ended())?),
            Verb::Pause => Action::Pause(job(&|status| status.is_live())?),
            Verb::Resume => Action::Resume(job(&|status| status == Status::PausedUser)?),
            Verb::Retry => Action::Retry(job(&Status::is_retryable)?),
            Verb::CancelSession => Action::Cancel(session),
            Verb::PauseSession => Action::Pause(session),
            Verb::ResumeSession => Action::Resume(session),
            Verb::RetrySession => Action::Retry(session),
        })
    }

    /// Now and then any job is picked, so that verbs meet jobs which they do not move.
    fn pick_job(&self, pick: usize, condition: &dyn Fn(Status) -> bool) -> Option<JobId> {
        let jobs = self.queue.jobs();
        if pick.is_multiple_of(5) {
            return Some(pick % jobs.len());
        }
        let fit: Vec<JobId> = (0..jobs.len()).filter(|id| condition(jobs[*id].status)).collect();
        fit.get(pick % fit.len().max(1)).copied()
    }

    fn pick_claim(&self, pick: usize, is_held: bool) -> Option<(JobId, i64)> {
        let holds = |(job, id): &(JobId, i64)| self.queue.jobs()[*job].claim.is_some_and(|claim| claim.id == *id);
        let claims: Vec<(JobId, i64)> = self.claims.iter().copied().filter(|claim| holds(claim) == is_held).collect();
        claims.get(pick % claims.len().max(1)).copied()
    }

    fn pick_alive(&self, pick: usize) -> Option<usize> {
        let alive = |id: &usize| self.claimers[*id] == Claimer::Inside { is_alive: true };
        let alive: Vec<usize> = (0..self.claimers.len()).filter(alive).collect();
        alive.get(pick % alive.len().max(1)).copied()
    }

    /// Does the action to the model.
    pub(crate) fn apply(&mut self, action: Action, facts: &Facts) -> Outcome {
        let told = |status: Option<Status>| status.map_or(Outcome::Stale, Outcome::Status);
        match action {
            Action::Claim { .. } | Action::ClaimInside => self.claim(action, facts),
            Action::KillInside { claimer } => self.claimers[claimer] = Claimer::Inside { is_alive: false },
            Action::PassHour => self.half_hour += 2,
            Action::RepairProvider { .. } => {}
            Action::Complete { job, claim_id, answer } => return told(self.queue.complete(job, claim_id, answer)),
            Action::Fail { job, claim_id, class, .. } => {
                return told(self.queue.fail(job, claim_id, class, facts.run_at));
            }
            Action::Cancel(target) => return Outcome::Moved(self.queue.cancel(target)),
            Action::Pause(target) => return Outcome::Moved(self.queue.pause(target)),
            Action::Resume(target) => return Outcome::Moved(self.queue.resume(target)),
            Action::Retry(target) => return self.queue.retry(target).map_or(Outcome::Refused, Outcome::Moved),
        }
        Outcome::Nothing
    }

    /// A claim first releases what claimers hold that are gone.
    fn claim(&mut self, action: Action, facts: &Facts) {
        self.release();
        for (job, run_at) in &facts.delays {
            self.queue.delay(*job, *run_at);
        }
        self.claimers.push(match action {
            Action::Claim { half_hours, .. } => Claimer::Outside { until: self.half_hour + half_hours },
            _ => Claimer::Inside { is_alive: true },
        });
        for (job, claim) in &facts.claimed {
            self.queue.claim(*job, *claim);
            self.claims.push((*job, claim.id));
        }
    }

    pub(crate) fn release(&mut self) {
        let claimers: Vec<bool> = (0..self.claimers.len()).map(|claimer| self.is_gone(claimer)).collect();
        self.queue.release(|claimer| claimers[claimer]);
    }
}

/// Histories of up to this many operations; most of them claim and complete.
pub(crate) fn histories(most: usize) -> impl Strategy<Value = Vec<Operation>> {
    let class = prop::sample::select(Class::ALL.to_vec());
    let verb = prop_oneof![
        14 => Just(Verb::Claim),
        2 => Just(Verb::ClaimInside),
        1 => Just(Verb::KillInside),
        3 => Just(Verb::PassHour),
        2 => Just(Verb::RepairProvider),
        40 => Just(Verb::Complete),
        5 => class.prop_map(Verb::Fail),
        1 => Just(Verb::CompleteLate),
        1 => Just(Verb::FailLate),
        2 => Just(Verb::Cancel),
        1 => Just(Verb::CancelSession),
        3 => Just(Verb::Pause),
        1 => Just(Verb::PauseSession),
        3 => Just(Verb::Resume),
        2 => Just(Verb::ResumeSession),
        3 => Just(Verb::Retry),
        2 => Just(Verb::RetrySession),
    ];
    let operation = (verb, 0..10_000_usize).prop_map(|(verb, pick)| Operation { verb, pick });
    prop::collection::vec(operation, 1..=most)
}
