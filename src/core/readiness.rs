//! Which steps of a stage a model may begin now, and whether its plan is done.
//!
//! A step is ready when the steps it needs are complete: for its own model, or for every model of the stage that has
//! not failed. Decided from how far each model has come; which jobs a ready step becomes is decided in [`crate::plan`].

use crate::job::Status;
use crate::plan::PlanError;
use crate::recipe::{FromModels, Need, Recipe, Step};

/// How far one model of a stage run has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// The model.
    pub model: String,
    /// The status of its plan job.
    pub status: Status,
    /// The steps it has planned.
    pub planned: Vec<String>,
    /// Those of them that have jobs which have not ended.
    pub unfinished: Vec<String>,
}

impl Progress {
    fn is_live(&self) -> bool {
        !self.status.is_ended() || self.status == Status::Completed
    }

    fn has_completed(&self, step: &str) -> bool {
        self.planned.iter().any(|key| key == step) && !self.unfinished.iter().any(|key| key == step)
    }
}

/// What a plan job does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The steps to plan now, in the order of the recipe.
    pub ready: Vec<String>,
    /// Where the plan job goes when those are planned, or when there are none.
    pub status: Status,
    /// The first step that is not planned yet.
    pub next: Option<String>,
}

/// Decides for one model; an error when too few models are left for the stage to complete.
pub fn decide(recipe: &Recipe, model: &str, progress: &[Progress], least: usize) -> Result<Decision, PlanError> {
    let refuse = |message: String| PlanError { step: "plan".into(), input: "models".into(), message };
    let own = progress
        .iter()
        .find(|one| one.model == model)
        .ok_or_else(|| refuse(format!("model \"{model}\" has no plan in this stage")))?;
    let live: Vec<&Progress> = progress.iter().filter(|one| one.is_live()).collect();
    if live.len() < least {
        return Err(refuse(format!(
            "{} of {} models are left, and stage_min_models is {least}",
            live.len(),
            progress.len()
        )));
    }
    let is_met = |need: &Need| match need.models {
        FromModels::Own => own.has_completed(&need.step),
        FromModels::All => live.iter().all(|one| one.has_completed(&need.step)),
    };
    let unplanned: Vec<&Step> = recipe.steps.iter().filter(|step| !own.planned.contains(&step.key)).collect();
    let ready = unplanned.iter().filter(|step| step.needs.iter().all(is_met)).map(|step| step.key.clone()).collect();
    let done = unplanned.is_empty() && own.unfinished.is_empty();
    Ok(Decision {
        ready,
        status: if done { Status::Completed } else { Status::WaitingForChildren },
        next: unplanned.first().map(|step| step.key.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn recipe() -> Recipe {
        let step = |key: &str, input: &str, from: &str| {
            json!({"key": key, "job_type": "execute", "prompt_template_name": "t", "granularity_strategy": "all_to_one",
                   "output_type": key, "file_type": "markdown",
                   "inputs_required": [{"type": input, "from_models": from}]})
        };
        Recipe::parse(&json!({"steps": [step("first", "seed_prompt", "all"), step("own", "first", "own"), step("all", "first", "all")]}))
            .expect("the recipe is sound")
    }

    fn at(model: &str, status: Status, planned: &[&str], unfinished: &[&str]) -> Progress {
        let owned = |keys: &[&str]| keys.iter().map(ToString::to_string).collect();
        Progress { model: model.into(), status, planned: owned(planned), unfinished: owned(unfinished) }
    }

    #[test]
    fn a_step_that_needs_all_models_waits_for_those_that_live() {
        let both = |other: Progress| {
            decide(&recipe(), "a", &[at("a", Status::Processing, &["first"], &[]), other], 1).unwrap().ready
        };
        assert_eq!(both(at("b", Status::WaitingForChildren, &["first"], &["first"])), ["own"]);
        assert_eq!(both(at("b", Status::Pending, &[], &[])), ["own"]);
        assert_eq!(both(at("b", Status::Failed, &["first"], &[])), ["own", "all"]);
        assert_eq!(both(at("b", Status::Completed, &["first", "own", "all"], &[])), ["own", "all"]);
    }

    #[test]
    fn a_plan_is_done_when_every_step_is_planned_and_finished() {
        let status = |unfinished: &[&str]| {
            decide(&recipe(), "a", &[at("a", Status::Processing, &["first", "own", "all"], unfinished)], 1)
                .unwrap()
                .status
        };
        assert_eq!(status(&[]), Status::Completed);
        assert_eq!(status(&["all"]), Status::WaitingForChildren);
    }

    #[test]
    fn a_stage_with_too_few_models_left_is_refused() {
        let progress = [at("a", Status::Processing, &[], &[]), at("b", Status::Failed, &[], &[])];
        assert!(decide(&recipe(), "a", &progress, 1).is_ok());
        assert!(decide(&recipe(), "a", &progress, 2).unwrap_err().message.contains("stage_min_models is 2"));
    }
}
