//! What a plan job does next: the jobs of every step that is ready, and the status that the plan goes to.
//!
//! Decided from how far each model of the stage run has come and from the artifacts there are. Which steps are ready is
//! decided in [`crate::readiness`], which jobs a step becomes in [`super::plan_step`]. Never reads or stores anything.

use super::{Child, PlanError, Source, plan_step};
use crate::job::Status;
use crate::readiness::{Progress, decide};
use crate::recipe::{Recipe, Step};
use std::collections::BTreeSet;

/// A stage run as its plans see it.
#[derive(Debug, Clone, Default)]
pub struct StageProgress {
    /// How far each model has come.
    pub models: Vec<Progress>,
    /// The artifacts that its steps may read.
    pub sources: Vec<Source>,
    /// How many models must be left for the stage to complete.
    pub min_models: usize,
}

/// What a plan becomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Advance<'a> {
    /// Where it goes.
    pub status: Status,
    /// All steps that it has planned; none where it failed, and they stay as they were.
    pub planned: Option<Vec<String>>,
    /// Why it failed.
    pub reason: Option<String>,
    /// The jobs to create, each with its step.
    pub children: Vec<(&'a Step, Child)>,
}

impl StageProgress {
    /// The types of artifacts that the plan of a model may read now; none where no step is ready. A step without jobs
    /// makes others ready at once, so the types of all steps are given.
    pub fn input_types<'a>(&self, recipe: &'a Recipe, model: &str) -> BTreeSet<&'a str> {
        let is_ready =
            decide(recipe, model, &self.models, self.min_models).is_ok_and(|decision| !decision.ready.is_empty());
        let inputs = recipe.steps.iter().filter(|_| is_ready).flat_map(|step| &step.inputs_required);
        inputs.map(|input| input.r#type.as_str()).collect()
    }

    /// Plans every step of a model that is ready, and every step that thereby becomes ready. The progress then shows
    /// it, so that the plans of other models see it.
    pub fn advance<'a>(&mut self, recipe: &'a Recipe, stage: &str, model: &str) -> Advance<'a> {
        match self.plan_ready_steps(recipe, stage, model) {
            Ok((models, status, children)) => {
                self.models = models;
                let own = self.set_status(model, status);
                Advance { status, planned: own.map(|own| own.planned.clone()), reason: None, children }
            }
            Err(problem) => self.fail(model, problem.to_string()),
        }
    }

    /// Fails the plan of a model.
    pub fn fail(&mut self, model: &str, reason: String) -> Advance<'static> {
        self.set_status(model, Status::Failed);
        Advance { status: Status::Failed, planned: None, reason: Some(reason), children: Vec::new() }
    }

    fn set_status(&mut self, model: &str, status: Status) -> Option<&Progress> {
        let own = self.models.iter_mut().find(|one| one.model == model)?;
        own.status = status;
        Some(own)
    }

    /// The progress afterwards, where the plan goes, and the jobs to create. After an error nothing has changed.
    #[allow(clippy::type_complexity)]
    fn plan_ready_steps<'a>(
        &self,
        recipe: &'a Recipe,
        stage: &str,
        model: &str,
    ) -> Result<(Vec<Progress>, Status, Vec<(&'a Step, Child)>), PlanError> {
        let mut models = self.models.clone();
        let mut children = Vec::new();
        loop {
            let decision = decide(recipe, model, &models, self.min_models)?;
            if decision.ready.is_empty() {
                if decision.status == Status::WaitingForChildren && !is_anything_under_way(&models, model) {
                    return Err(PlanError {
                        step: decision.next.unwrap_or_default(),
                        input: "needs".into(),
                        message: "it can never begin: nobody works on what it needs".into(),
                    });
                }
                return Ok((models, decision.status, children));
            }
            for step in recipe.steps.iter().filter(|step| decision.ready.contains(&step.key)) {
                let planned = plan_step(step, Some(stage), &self.sources, model)?;
                if let Some(own) = models.iter_mut().find(|one| one.model == model) {
                    own.planned.push(step.key.clone());
                    if !planned.is_empty() {
                        own.unfinished.push(step.key.clone());
                    }
                }
                children.extend(planned.into_iter().map(|child| (step, child)));
            }
        }
    }
}

/// Whether anything in the stage can still move besides the plan of this model.
fn is_anything_under_way(models: &[Progress], model: &str) -> bool {
    models.iter().any(|one| {
        let plan_moves = one.model != model && !one.status.is_ended() && one.status != Status::WaitingForChildren;
        plan_moves || !one.unfinished.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn step(key: &str, strategy: &str, inputs: Value) -> Value {
        json!({"key": key, "job_type": "execute", "prompt_template_name": "t", "granularity_strategy": strategy,
               "output_type": key, "file_type": "markdown", "inputs_required": inputs})
    }

    /// `notes` has a job for each reference document, `draft` reads the notes, `sum` the drafts of all models.
    fn recipe() -> Recipe {
        let notes = json!([{"type": "reference_documents", "multiple": true, "required": false}]);
        let draft = json!([{"type": "seed_prompt"}, {"type": "notes", "multiple": true, "required": false}]);
        let sum = json!([{"type": "draft", "from_models": "all", "multiple": true}]);
        let steps = [
            step("notes", "per_source_document", notes),
            step("draft", "all_to_one", draft),
            step("sum", "all_to_one", sum),
        ];
        Recipe::parse(&json!({"steps": steps})).expect("the recipe is sound")
    }

    fn model(name: &str, status: Status, planned: &[&str], unfinished: &[&str]) -> Progress {
        let owned = |keys: &[&str]| keys.iter().map(ToString::to_string).collect();
        Progress { model: name.into(), status, planned: owned(planned), unfinished: owned(unfinished) }
    }

    fn stage(models: Vec<Progress>, sources: &[(&str, &str)]) -> StageProgress {
        let source = |(id, kind): &(&str, &str)| serde_json::from_value(json!({"id": id, "type": kind})).unwrap();
        StageProgress { models, sources: sources.iter().map(source).collect(), min_models: 1 }
    }

    fn keys(advance: &Advance) -> Vec<String> {
        advance.children.iter().map(|(step, _)| step.key.clone()).collect()
    }

    #[test]
    fn plan_waits_for_the_jobs_of_ready_steps() {
        let mut stage = stage(
            vec![model("a", Status::Processing, &[], &[])],
            &[("r1", "reference_documents"), ("r2", "reference_documents"), ("s", "seed_prompt")],
        );
        let recipe = recipe();
        let advance = stage.advance(&recipe, "only", "a");
        assert_eq!(advance.status, Status::WaitingForChildren);
        assert_eq!(advance.planned.as_deref(), Some(&["notes".to_owned()][..]));
        assert_eq!(keys(&advance), ["notes", "notes"]);
        assert_eq!(stage.models, [model("a", Status::WaitingForChildren, &["notes"], &["notes"])]);
    }

    #[test]
    fn step_without_jobs_makes_the_next_step_ready_at_once() {
        let mut stage = stage(vec![model("a", Status::Processing, &[], &[])], &[("s", "seed_prompt")]);
        let recipe = recipe();
        let advance = stage.advance(&recipe, "only", "a");
        assert_eq!(advance.planned.as_deref(), Some(&["notes".to_owned(), "draft".to_owned()][..]));
        assert_eq!(keys(&advance), ["draft"]);
    }

    #[test]
    fn plan_completes_when_every_step_is_finished() {
        let all = ["notes", "draft", "sum"];
        let mut stage = stage(vec![model("a", Status::Processing, &all, &[])], &[]);
        let recipe = recipe();
        assert_eq!(stage.advance(&recipe, "only", "a").status, Status::Completed);
        assert_eq!(stage.models[0].status, Status::Completed);
    }

    #[test]
    fn failed_plan_has_no_children_and_changes_no_progress_but_its_status() {
        // The notes are planned, then the draft finds no seed prompt.
        let mut stage = stage(vec![model("a", Status::Processing, &[], &[])], &[]);
        let recipe = recipe();
        let advance = stage.advance(&recipe, "only", "a");
        assert_eq!((advance.status, &advance.planned), (Status::Failed, &None));
        assert!(advance.reason.as_ref().is_some_and(|reason| reason.contains("seed_prompt")), "{advance:?}");
        assert!(advance.children.is_empty());
        assert_eq!(stage.models, [model("a", Status::Failed, &[], &[])]);
    }

    #[test]
    fn plan_fails_when_nobody_works_on_what_its_step_needs() {
        let waiting = model("b", Status::WaitingForChildren, &["notes"], &[]);
        let own = model("a", Status::Processing, &["notes", "draft"], &[]);
        let recipe = recipe();
        let advance = stage(vec![own.clone(), waiting], &[]).advance(&recipe, "only", "a");
        assert!(advance.reason.is_some_and(|reason| reason.contains("can never begin")));
        let working = model("b", Status::WaitingForChildren, &["notes"], &["notes"]);
        let advance = stage(vec![own, working], &[]).advance(&recipe, "only", "a");
        assert_eq!(advance.status, Status::WaitingForChildren);
    }

    #[test]
    fn artifacts_are_read_only_where_a_step_is_ready() {
        let recipe = recipe();
        let types = |unfinished: &[&str]| {
            let own = model("a", Status::Processing, &["notes"], unfinished);
            stage(vec![own], &[]).input_types(&recipe, "a").into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(types(&["notes"]), Vec::<String>::new());
        assert_eq!(types(&[]), ["draft", "notes", "reference_documents", "seed_prompt"]);
    }
}
