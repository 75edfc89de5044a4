//! Planning many plan jobs at once: what they need to know is read for all of them, the core decides for each, and what
//! was decided is written for all of them. The sessions are locked by the caller.

mod children;

use super::composite::{self, Composite};
use super::{query, readable};
use crate::error::{Error, Problem};
use crate::store::claim::Claim;
use crate::store::definition::definition;
use children::Rows;
use dialectic_core::definition::{Definition, SeedSource, Stage};
use dialectic_core::job::Status;
use dialectic_core::plan::{self, PlanError, Source};
use dialectic_core::readiness::{self, Progress};
use dialectic_core::recipe::Origin;
use pgrx::Uuid;
use pgrx::datum::DatumWithOid;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

const ROOTS: &str = "select job_id, session_id, project_id, stage_run_id, stage, iteration, definition_id, model, \
     planned, failed_child, last_position, min_models, has_seed from dialectic._plan_roots($1, $2)";
const REQUESTS: &str = "select project_id, content from dialectic._request_prompts($1)";
const STORE_SEEDS: &str = "select dialectic._store_seeds($1, $2, $3)";
const PROGRESS: &str = "select stage_run_id, model, status, planned, unfinished from dialectic._plan_progress($1)";
const SOURCES: &str = "select stage_run_id, id, json_id, type, stage, document_key, model, lineage_id, reviewer, is_previous \
     from dialectic._plan_sources($1, $2, $3, $4)";
const MOVE: &str = "select dialectic._move_plans($1)";

struct Root {
    job: Uuid,
    session: Uuid,
    project: Uuid,
    run: Uuid,
    stage: String,
    iteration: i32,
    definition_id: String,
    model: String,
    planned: Vec<String>,
    failed_child: Option<String>,
    has_seed: bool,
}

/// A plan that cannot be planned yet, because its stage run has no seed prompt.
pub(crate) struct Seedless {
    pub(crate) job: Uuid,
    pub(crate) run: Uuid,
    pub(crate) source: SeedSource,
}

/// Where a plan goes, and why if it fails.
pub(crate) struct Outcome {
    pub(crate) job: Uuid,
    pub(crate) status: Status,
    planned: Option<Vec<String>>,
    reason: Option<String>,
}

/// What plan jobs are to become.
#[derive(Default)]
pub(crate) struct Planned {
    pub(crate) outcomes: Vec<Outcome>,
    children: Rows,
    /// Jobs that are planned in another transaction, because this one has enough to write.
    left: HashSet<Uuid>,
    /// Jobs whose definition cannot be read.
    unplannable: Vec<(Uuid, Problem)>,
    pub(crate) seedless: Vec<Seedless>,
}

/// What became of plan jobs.
pub(crate) struct Stored {
    pub(crate) planned: usize,
    pub(crate) left: HashSet<Uuid>,
    pub(crate) unplannable: Vec<(Uuid, Problem)>,
    pub(crate) seedless: Vec<Seedless>,
}

impl Planned {
    /// A plan that fails for this reason.
    pub(crate) fn failed(job: Uuid, reason: String) -> Self {
        let outcome = Outcome { job, status: Status::Failed, planned: None, reason: Some(reason) };
        Planned { outcomes: vec![outcome], ..Planned::default() }
    }

    /// The jobs of which anything was found.
    pub(crate) fn jobs(&self) -> HashSet<Uuid> {
        let settled = self.outcomes.iter().map(|outcome| outcome.job);
        let unplannable = self.unplannable.iter().map(|(job, _)| *job);
        let seedless = self.seedless.iter().map(|seedless| seedless.job);
        settled.chain(self.left.iter().copied()).chain(unplannable).chain(seedless).collect()
    }

    /// Inserts the children and moves the plans to where they go.
    pub(crate) fn store(self) -> Result<Stored, Error> {
        self.children.insert()?;
        if !self.outcomes.is_empty() {
            query(MOVE, &[composite::array(&self.outcomes)?], |_| Ok(()))?;
        }
        let planned = self.outcomes.len();
        Ok(Stored { planned, left: self.left, unplannable: self.unplannable, seedless: self.seedless })
    }
}

/// So many children are enough for one transaction; a plan that has more of its own gets them all.
const ENOUGH: usize = 250;

/// Reads what these claimed plan jobs need and computes what they become; those that are no longer claimed are left
/// out. Nothing is written.
pub(crate) fn plan_jobs(plans: &[Claim]) -> Result<Planned, Error> {
    let (jobs, claims): (Vec<Uuid>, Vec<i64>) = plans.iter().map(|claim| (claim.job, claim.id)).unzip();
    let mut turns = HashMap::new();
    let mut least = 1;
    let roots = query(ROOTS, &[jobs.into(), claims.into()], |row| {
        let session: Uuid = row.get("session_id")?;
        turns.insert(session, row.get::<i64>("last_position")?);
        least = row.get::<i32>("min_models")?;
        Ok(Root {
            job: row.get("job_id")?,
            session,
            project: row.get("project_id")?,
            run: row.get("stage_run_id")?,
            stage: row.get("stage")?,
            iteration: row.get("iteration")?,
            definition_id: row.get("definition_id")?,
            model: row.get("model")?,
            planned: row.get("planned")?,
            failed_child: row.nullable("failed_child")?,
            has_seed: row.get("has_seed")?,
        })
    })?;
    if roots.is_empty() {
        return Ok(Planned::default());
    }
    let runs: Vec<Uuid> = roots.iter().map(|root| root.run).collect::<HashSet<_>>().into_iter().collect();
    let mut planner = Planner {
        progress: read_progress(&runs)?,
        sources: HashMap::new(),
        least: usize::try_from(least).unwrap_or(1),
        children: Rows::default(),
        turns,
    };
    let mut planned = Planned::default();
    let mut readable_roots = Vec::with_capacity(roots.len());
    let mut seedless_roots = Vec::new();
    for root in roots {
        match readable(definition(&root.definition_id))? {
            Ok(definition) if root.has_seed => readable_roots.push((root, definition)),
            Ok(definition) => seedless_roots.push((root, definition)),
            Err(problem) => planned.unplannable.push((root.job, problem)),
        }
    }
    planned.seedless = seedless(seedless_roots)?;
    planner.read_sources(&readable_roots)?;
    for (root, definition) in readable_roots {
        if planner.children.ids.len() < ENOUGH {
            planned.outcomes.push(planner.plan(root, &definition));
        } else {
            planned.left.insert(root.job);
        }
    }
    planned.children = planner.children;
    Ok(planned)
}

/// Reads what the seed prompts of these plans are rendered from.
fn seedless(roots: Vec<(Root, Arc<Definition>)>) -> Result<Vec<Seedless>, Error> {
    if roots.is_empty() {
        return Ok(Vec::new());
    }
    let projects: Vec<Uuid> = roots.iter().map(|(root, _)| root.project).collect::<HashSet<_>>().into_iter().collect();
    let requests: HashMap<Uuid, Arc<str>> = query(REQUESTS, &[projects.into()], |row| {
        Ok((row.get::<Uuid>("project_id")?, Arc::from(row.get::<String>("content")?)))
    })?
    .into_iter()
    .collect();
    let source = |root: &Root, definition| SeedSource {
        definition,
        stage: root.stage.clone(),
        iteration: root.iteration,
        original_user_request: requests.get(&root.project).cloned().unwrap_or_default(),
    };
    let all = roots.into_iter();
    Ok(all
        .map(|(root, definition)| Seedless { job: root.job, run: root.run, source: source(&root, definition) })
        .collect())
}

/// Stores seed prompts for these claimed plans, whose sessions are locked. A stage run that has one keeps it.
pub(crate) fn store_seeds(seeds: &[(&Claim, &str)]) -> Result<(), Error> {
    if seeds.is_empty() {
        return Ok(());
    }
    let (jobs, claims): (Vec<Uuid>, Vec<i64>) = seeds.iter().map(|(claim, _)| (claim.job, claim.id)).unzip();
    let texts: Vec<&str> = seeds.iter().map(|(_, text)| *text).collect();
    query(STORE_SEEDS, &[jobs.into(), claims.into(), texts.into()], |_| Ok(())).map(drop)
}

fn read_progress(runs: &[Uuid]) -> Result<HashMap<Uuid, Vec<Progress>>, Error> {
    let mut progress: HashMap<Uuid, Vec<Progress>> = HashMap::new();
    let rows = query(PROGRESS, &[runs.to_vec().into()], |row| {
        let one = Progress {
            model: row.get("model")?,
            status: row.parse("status")?,
            planned: row.get("planned")?,
            unfinished: row.get("unfinished")?,
        };
        Ok((row.get::<Uuid>("stage_run_id")?, one))
    })?;
    for (run, one) in rows {
        progress.entry(run).or_default().push(one);
    }
    Ok(progress)
}

struct Planner {
    progress: HashMap<Uuid, Vec<Progress>>,
    sources: HashMap<Uuid, Vec<Source>>,
    least: usize,
    children: Rows,
    /// The last position of each session.
    turns: HashMap<Uuid, i64>,
}

impl Planner {
    /// Reads what the steps that are ready may take. A step that becomes ready because another turned out to have no
    /// children reads types of the same recipe, so all of those are read where any step is ready.
    fn read_sources(&mut self, roots: &[(Root, Arc<Definition>)]) -> Result<(), Error> {
        let mut runs = HashSet::new();
        let mut types = BTreeSet::new();
        let mut has_json = false;
        for (root, definition) in roots.iter().filter(|(root, _)| root.failed_child.is_none()) {
            let Some(stage) = definition.stage(&root.stage) else { continue };
            let progress = self.progress.get(&root.run).map_or(&[][..], Vec::as_slice);
            let is_ready = readiness::decide(&stage.recipe, &root.model, progress, self.least)
                .is_ok_and(|decision| !decision.ready.is_empty());
            if is_ready {
                runs.insert(root.run);
                types.extend(stage.recipe.steps.iter().flat_map(|s| &s.inputs_required).map(|i| i.r#type.clone()));
                has_json |= definition.makes_json();
            }
        }
        if runs.is_empty() {
            return Ok(());
        }
        let has_answers = types.iter().any(|r#type| Origin::of(r#type) == Origin::Step);
        let args = [
            runs.into_iter().collect::<Vec<_>>().into(),
            types.into_iter().collect::<Vec<_>>().into(),
            has_answers.into(),
            (has_answers && has_json).into(),
        ];
        let rows = query(SOURCES, &args, |row| {
            let source = Source {
                id: row.get::<Uuid>("id")?.to_string(),
                json_id: row.nullable::<Uuid>("json_id")?.map(|id| id.to_string()),
                r#type: row.get("type")?,
                stage: row.nullable("stage")?,
                document_key: row.nullable("document_key")?,
                model: row.nullable("model")?,
                lineage_id: row.nullable::<Uuid>("lineage_id")?.map(|id| id.to_string()),
                reviewer: row.nullable("reviewer")?,
                previous_iteration: row.get("is_previous")?,
            };
            Ok((row.get::<Uuid>("stage_run_id")?, source))
        })?;
        for (run, source) in rows {
            self.sources.entry(run).or_default().push(source);
        }
        Ok(())
    }

    fn plan(&mut self, root: Root, definition: &Definition) -> Outcome {
        if let Some(reason) = root.failed_child {
            return self.end(root.job, root.run, &root.model, Status::Failed, None, Some(reason));
        }
        let planned = match definition.stage(&root.stage) {
            Some(stage) => self.plan_steps(&root, stage),
            None => Err(PlanError {
                step: "plan".into(),
                input: "stage".into(),
                message: format!("stage \"{}\" does not exist", root.stage),
            }),
        };
        match planned {
            Ok((status, steps)) => self.end(root.job, root.run, &root.model, status, Some(steps), None),
            Err(problem) => {
                self.children.forget(root.job);
                let reason = Some(problem.to_string());
                self.end(root.job, root.run, &root.model, Status::Failed, None, reason)
            }
        }
    }

    /// Plans every step that is ready, and every step that thereby becomes ready.
    fn plan_steps(&mut self, root: &Root, stage: &Stage) -> Result<(Status, Vec<String>), PlanError> {
        let mut steps = root.planned.clone();
        loop {
            let progress = self.progress.entry(root.run).or_default();
            let decision = readiness::decide(&stage.recipe, &root.model, progress, self.least)?;
            if decision.ready.is_empty() {
                if decision.status == Status::WaitingForChildren && !someone_works(progress, &root.model) {
                    return Err(PlanError {
                        step: decision.next.unwrap_or_default(),
                        input: "needs".into(),
                        message: "it can never begin: nobody works on what it needs".into(),
                    });
                }
                return Ok((decision.status, steps));
            }
            let sources = self.sources.get(&root.run).map_or(&[][..], Vec::as_slice);
            for step in stage.recipe.steps.iter().filter(|step| decision.ready.contains(&step.key)) {
                let children = plan::plan_step(step, Some(&stage.slug), sources, &root.model)?;
                if let Some(own) = progress.iter_mut().find(|one| one.model == root.model) {
                    own.planned.push(step.key.clone());
                    if !children.is_empty() {
                        own.unfinished.push(step.key.clone());
                    }
                }
                steps.push(step.key.clone());
                self.children.add(root, step, children, self.turns.entry(root.session).or_default());
            }
        }
    }

    /// Notes where a plan goes, so that those planned after it know.
    fn end(
        &mut self,
        job: Uuid,
        run: Uuid,
        model: &str,
        status: Status,
        planned: Option<Vec<String>>,
        reason: Option<String>,
    ) -> Outcome {
        if let Some(one) = self.progress.entry(run).or_default().iter_mut().find(|one| one.model == model) {
            one.status = status;
        }
        Outcome { job, status, planned, reason }
    }
}

/// Whether anything in the stage can still move besides this model's plan.
fn someone_works(progress: &[Progress], model: &str) -> bool {
    progress.iter().any(|one| {
        let plan_moves = one.model != model && !one.status.is_ended() && one.status != Status::WaitingForChildren;
        plan_moves || !one.unfinished.is_empty()
    })
}

impl Composite for Outcome {
    const TYPE: &'static str = "dialectic._plan_outcome";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![self.job.into(), self.status.as_str().into(), self.planned.clone().into(), self.reason.as_deref().into()]
    }
}
