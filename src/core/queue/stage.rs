//! Sessions and stage runs: how a plan plans, when a stage run ends and what the session does then.
//!
//! A session advances by itself from stage to stage. A model that did not deliver in a stage is not asked in later
//! ones.

use super::{Job, JobId, Queue, Step};
use crate::job::{Kind, Status};
use crate::recipe::FromModels;

/// The status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// Its current stage runs.
    Active,
    /// Its last stage is complete.
    Completed,
    /// Its current stage failed.
    Failed,
    /// A person cancelled it.
    Cancelled,
}

/// The status of a stage run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// At least one plan has not ended.
    Running,
    /// Every plan has ended, and at least one has completed.
    Completed,
    /// Every plan has ended, and none has completed.
    Failed,
}

/// One row of the table of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The steps of its stages.
    pub process: Vec<Vec<Step>>,
    /// The models it asks.
    pub models: Vec<usize>,
    /// How many attempts may follow the first.
    pub max_retries: u32,
    /// Its status.
    pub status: SessionStatus,
    /// Its current stage.
    pub stage: usize,
}

/// One row of the table of stage runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageRun {
    /// The session it belongs to.
    pub session: usize,
    /// The stage it runs.
    pub stage: usize,
    /// Its status.
    pub status: RunStatus,
}

impl Queue {
    /// Starts a session: its first stage, with a plan for each model.
    pub fn start_session(&mut self, process: Vec<Vec<Step>>, models: Vec<usize>, max_retries: u32) -> usize {
        let session = self.sessions.len();
        self.sessions.push(Session { process, models, max_retries, status: SessionStatus::Active, stage: 0 });
        self.open_stage(session);
        session
    }

    fn open_stage(&mut self, session: usize) {
        let stage = self.sessions[session].stage;
        let dropped = self.dropped_models(session, stage);
        let models = self.sessions[session].models.clone();
        self.runs.push(StageRun { session, stage, status: RunStatus::Running });
        self.insert_plans(self.runs.len() - 1, models.into_iter().filter(|model| !dropped.contains(model)).collect());
    }

    fn insert_plans(&mut self, run: usize, models: Vec<usize>) {
        self.jobs.extend(models.into_iter().map(|model| Job::new(Kind::Plan, run, model)));
    }

    /// The models that did not deliver in the last stage before this one that asked them.
    fn dropped_models(&self, session: usize, stage: usize) -> Vec<usize> {
        let last = |model: usize| {
            let plans = self.jobs.iter().filter(|job| job.parent.is_none() && job.model == model);
            let earlier = plans.filter(|job| self.runs[job.run].session == session && self.runs[job.run].stage < stage);
            earlier.max_by_key(|job| self.runs[job.run].stage)
        };
        let models = self.sessions[session].models.iter().copied();
        models.filter(|model| last(*model).is_some_and(|plan| plan.status.is_retryable())).collect()
    }

    /// Plans the dropped models in a stage run that has no plan of theirs; returns how many.
    pub(super) fn ask_dropped_models(&mut self, run: usize) -> usize {
        let mut models = self.dropped_models(self.runs[run].session, self.runs[run].stage);
        models.retain(|model| self.plans_of(run).all(|(_, plan)| plan.model != *model));
        let asked = models.len();
        self.insert_plans(run, models);
        asked
    }

    pub(super) fn session_of(&self, id: JobId) -> usize {
        self.runs[self.jobs[id].run].session
    }

    /// The run of the current stage of a session.
    pub(super) fn current_run(&self, session: usize) -> usize {
        let stage = self.sessions[session].stage;
        let is_current = |run: &StageRun| run.session == session && run.stage == stage;
        self.runs.iter().rposition(is_current).unwrap_or_default()
    }

    /// The step that a job belongs to.
    pub(super) fn step_of(&self, job: &Job) -> Option<&Step> {
        self.steps(job.run).get(job.step?)
    }

    fn steps(&self, run: usize) -> &[Step] {
        let StageRun { session, stage, .. } = self.runs[run];
        &self.sessions[session].process[stage]
    }

    /// Inserts the jobs of every step that is ready. The plan then waits for them or for other models, or is complete;
    /// it fails if nothing is left to wait for.
    pub(super) fn plan(&mut self, id: JobId) {
        self.jobs[id].losses = 0;
        let ready: Vec<usize> =
            (0..self.steps(self.jobs[id].run).len()).filter(|step| self.is_ready(id, *step)).collect();
        let Job { run, model, .. } = self.jobs[id];
        for step in ready {
            self.jobs[id].planned.push(step);
            for group in 0..self.steps(run)[step].jobs {
                self.jobs.push(Job {
                    parent: Some(id),
                    step: Some(step),
                    group,
                    ..Job::new(Kind::Execute, run, model)
                });
            }
        }
        let is_planned = self.jobs[id].planned.len() == self.steps(run).len();
        if is_planned && !self.has_unfinished(id, None) {
            self.jobs[id].attempts += 1;
            self.set_status(id, Status::Completed);
        } else if self.is_anything_under_way(id) {
            self.jobs[id].status_before = None;
            self.set_status(id, Status::WaitingForChildren);
        } else {
            self.jobs[id].attempts += 1;
            self.set_status(id, Status::Failed);
        }
    }

    fn is_ready(&self, plan: JobId, step: usize) -> bool {
        let Job { run, planned, .. } = &self.jobs[plan];
        let is_met = |(needed, models): &(usize, FromModels)| match models {
            FromModels::Own => self.has_completed(plan, *needed),
            FromModels::All => {
                let mut live = self.plans_of(*run).filter(|(_, other)| !other.status.is_retryable());
                live.all(|(other, _)| self.has_completed(other, *needed))
            }
        };
        !planned.contains(&step) && self.steps(*run)[step].needs.iter().all(is_met)
    }

    fn has_completed(&self, plan: JobId, step: usize) -> bool {
        self.jobs[plan].planned.contains(&step) && !self.has_unfinished(plan, Some(step))
    }

    /// Whether any job of the stage run, or a plan other than this one that does not wait, can still move.
    fn is_anything_under_way(&self, id: JobId) -> bool {
        self.plans_of(self.jobs[id].run).any(|(plan, job)| {
            let is_moving = !job.status.is_ended() && job.status != Status::WaitingForChildren;
            (plan != id && is_moving) || self.has_unfinished(plan, None)
        })
    }

    /// Ends the stage runs whose plans have all ended.
    pub(super) fn close_stage_runs(&mut self) -> bool {
        let is_over = |run: usize| {
            self.runs[run].status == RunStatus::Running && self.plans_of(run).all(|(_, plan)| plan.status.is_ended())
        };
        let Some(run) = (0..self.runs.len()).find(|run| is_over(*run)) else { return false };
        let session = self.runs[run].session;
        let is_active = self.sessions[session].status == SessionStatus::Active;
        if self.plans_of(run).any(|(_, plan)| plan.status == Status::Completed) {
            self.runs[run].status = RunStatus::Completed;
            if is_active {
                self.advance(session);
            }
        } else {
            self.runs[run].status = RunStatus::Failed;
            if is_active {
                self.sessions[session].status = SessionStatus::Failed;
            }
        }
        true
    }

    /// Opens the stage after the current one if that is complete; after the last one the session is complete.
    pub(super) fn advance(&mut self, session: usize) {
        if self.runs[self.current_run(session)].status != RunStatus::Completed {
            return;
        }
        if self.sessions[session].stage + 1 < self.sessions[session].process.len() {
            self.sessions[session].stage += 1;
            self.open_stage(session);
        } else {
            self.sessions[session].status = SessionStatus::Completed;
        }
    }
}
