//! Plans many plan jobs at once: reads the facts of all of them, lets the core decide for each, and writes all results.
//!
//! Decides only how many children one transaction inserts. The caller has locked the sessions.

mod children;

use super::composite::{self, Composite};
use super::{Row, query, readable};
use crate::error::{Error, Problem};
use crate::store::claim::Claim;
use crate::store::definition::definition;
use children::Children;
use dialectic_core::definition::{Definition, SeedSource};
use dialectic_core::id::Id;
use dialectic_core::job::Status;
use dialectic_core::plan::{Advance, Source, StageProgress};
use dialectic_core::readiness::Progress;
use dialectic_core::recipe::Origin;
use pgrx::Uuid;
use pgrx::datum::DatumWithOid;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

const ROOTS: &str = "select job_id, session_id, project_id, stage_run_id, stage, iteration, definition_id, model, \
     failed_child, last_position, min_models, has_seed from dialectic._plan_roots($1, $2)";
const REQUESTS: &str = "select project_id, content from dialectic._request_prompts($1)";
const STORE_SEEDS: &str = "select dialectic._store_seeds($1, $2, $3)";
const PROGRESS: &str = "select stage_run_id, model, status, planned, unfinished from dialectic._plan_progress($1)";
const SOURCES: &str = "select stage_run_id, id, json_id, type, stage, document_key, model, lineage_id, reviewer, \
     is_previous from dialectic._plan_sources($1, $2, $3, $4)";
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
    children: Children,
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

/// A transaction plans no further job once it has this many children to insert.
const ENOUGH: usize = 250;

/// Reads what these claimed plan jobs need and computes what they become; those that are no longer claimed are left
/// out. Nothing is written.
pub(crate) fn plan_jobs(plans: &[Claim]) -> Result<Planned, Error> {
    let mut positions = HashMap::new();
    let mut min_models = 1;
    let (jobs, claims): (Vec<Uuid>, Vec<i64>) = plans.iter().map(|claim| (claim.job, claim.id)).unzip();
    let roots = query(ROOTS, &[jobs.into(), claims.into()], |row| {
        let root = read_root(row)?;
        positions.insert(root.session, row.get::<i64>("last_position")?);
        min_models = row.get::<i32>("min_models")?;
        Ok(root)
    })?;
    let mut planned = Planned::default();
    let mut with_seed = Vec::with_capacity(roots.len());
    let mut without_seed = Vec::new();
    for root in roots {
        match readable(definition(&root.definition_id))? {
            Ok(definition) if root.has_seed => with_seed.push((root, definition)),
            Ok(definition) => without_seed.push((root, definition)),
            Err(problem) => planned.unplannable.push((root.job, problem)),
        }
    }
    planned.seedless = read_seedless(without_seed)?;
    if with_seed.is_empty() {
        return Ok(planned);
    }
    let mut stages = read_stages(&with_seed, usize::try_from(min_models).unwrap_or(1))?;
    for (root, definition) in with_seed {
        if planned.children.len() >= ENOUGH {
            planned.left.insert(root.job);
            continue;
        }
        let advance = advance(stages.entry(root.run).or_default(), &root, &definition);
        planned.children.add(&root, advance.children, positions.entry(root.session).or_default())?;
        let Advance { status, planned: steps, reason, .. } = advance;
        planned.outcomes.push(Outcome { job: root.job, status, planned: steps, reason });
    }
    Ok(planned)
}

fn read_root(row: &Row) -> Result<Root, Error> {
    Ok(Root {
        job: row.get("job_id")?,
        session: row.get("session_id")?,
        project: row.get("project_id")?,
        run: row.get("stage_run_id")?,
        stage: row.get("stage")?,
        iteration: row.get("iteration")?,
        definition_id: row.get("definition_id")?,
        model: row.get("model")?,
        failed_child: row.nullable("failed_child")?,
        has_seed: row.get("has_seed")?,
    })
}

/// Reads what the seed prompts of these plans are rendered from.
fn read_seedless(roots: Vec<(Root, Arc<Definition>)>) -> Result<Vec<Seedless>, Error> {
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

/// The roots whose seed prompt is there, with their definitions.
type Roots = [(Root, Arc<Definition>)];

/// Reads how far the stage runs of these roots have come, and the artifacts that their ready steps may read.
fn read_stages(roots: &Roots, min_models: usize) -> Result<HashMap<Uuid, StageProgress>, Error> {
    let runs: HashSet<Uuid> = roots.iter().map(|(root, _)| root.run).collect();
    let mut stages = read_progress(runs.into_iter().collect(), min_models)?;
    let mut runs = HashSet::new();
    let mut types = BTreeSet::new();
    let mut has_json = false;
    for (root, definition) in roots.iter().filter(|(root, _)| root.failed_child.is_none()) {
        let (Some(stage), Some(progress)) = (definition.stage(&root.stage), stages.get(&root.run)) else { continue };
        let needed = progress.input_types(&stage.recipe, &root.model);
        if !needed.is_empty() {
            runs.insert(root.run);
            types.extend(needed.into_iter().map(str::to_owned));
            has_json |= definition.makes_json();
        }
    }
    if runs.is_empty() {
        return Ok(stages);
    }
    let has_answers = types.iter().any(|r#type| Origin::of(r#type) == Origin::Step);
    let args = [
        runs.into_iter().collect::<Vec<_>>().into(),
        types.into_iter().collect::<Vec<_>>().into(),
        has_answers.into(),
        (has_answers && has_json).into(),
    ];
    for (run, source) in query(SOURCES, &args, |row| Ok((row.get::<Uuid>("stage_run_id")?, read_source(row)?)))? {
        if let Some(stage) = stages.get_mut(&run) {
            stage.sources.push(source);
        }
    }
    Ok(stages)
}

fn read_progress(runs: Vec<Uuid>, min_models: usize) -> Result<HashMap<Uuid, StageProgress>, Error> {
    let mut stages: HashMap<Uuid, StageProgress> = HashMap::new();
    let rows = query(PROGRESS, &[runs.into()], |row| {
        let one = Progress {
            model: row.get("model")?,
            status: row.parse("status")?,
            planned: row.get("planned")?,
            unfinished: row.get("unfinished")?,
        };
        Ok((row.get::<Uuid>("stage_run_id")?, one))
    })?;
    for (run, one) in rows {
        let new = || StageProgress { min_models, ..StageProgress::default() };
        stages.entry(run).or_insert_with(new).models.push(one);
    }
    Ok(stages)
}

fn read_source(row: &Row) -> Result<Source, Error> {
    Ok(Source {
        id: core_id(row.get("id")?),
        json_id: row.nullable("json_id")?.map(core_id),
        r#type: row.get("type")?,
        stage: row.nullable("stage")?,
        document_key: row.nullable("document_key")?,
        model: row.nullable("model")?,
        lineage_id: row.nullable("lineage_id")?.map(core_id),
        reviewer: row.nullable("reviewer")?,
        previous_iteration: row.get("is_previous")?,
    })
}

/// The id of a row as the core takes it. The text is formatted on the stack, so that only the id itself is allocated.
fn core_id(row: Uuid) -> Id {
    let row = uuid::Uuid::from_bytes(*row.as_bytes());
    Id::from(&*row.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()))
}

/// What a plan becomes.
fn advance<'a>(progress: &mut StageProgress, root: &Root, definition: &'a Definition) -> Advance<'a> {
    match (&root.failed_child, definition.stage(&root.stage)) {
        (Some(reason), _) => progress.fail(&root.model, reason.clone()),
        (None, Some(stage)) => progress.advance(&stage.recipe, &stage.slug, &root.model),
        (None, None) => progress.fail(&root.model, format!("stage \"{}\" does not exist", root.stage)),
    }
}

impl Composite for Outcome {
    const TYPE: &'static str = "dialectic._plan_outcome";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![self.job.into(), self.status.as_str().into(), self.planned.clone().into(), self.reason.as_deref().into()]
    }
}
