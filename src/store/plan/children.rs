//! The children of plan jobs and what they read, on their way into the tables.

use super::{Root, query};
use crate::error::Error;
use crate::store::composite::{self, Composite};
use crate::uuid_v7;
use dialectic_core::id::Id;
use dialectic_core::plan;
use dialectic_core::recipe::Step;
use pgrx::Uuid;
use pgrx::datum::DatumWithOid;

const CHILDREN: &str = "select dialectic._plan_children($1, $2)";

/// A job that was planned.
struct Child {
    id: Uuid,
    root: Uuid,
    step_key: String,
    output_type: String,
    group_key: String,
    document_key: Option<String>,
    lineage: Option<Uuid>,
    reviewer: Option<String>,
    makes: &'static str,
    strategy: &'static str,
    queue_position: i64,
}

/// An artifact that a child reads.
struct Input {
    job: Uuid,
    position: i32,
    artifact: Uuid,
    role: String,
    part: Option<String>,
    relevance: f64,
    retrieval: Option<i32>,
}

/// Children of many plans.
#[derive(Default)]
pub(super) struct Children {
    children: Vec<Child>,
    inputs: Vec<Input>,
}

impl Children {
    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    /// Adds the children of a plan.
    pub(super) fn add(
        &mut self,
        root: &Root,
        children: Vec<(&Step, plan::Child)>,
        last_position: &mut i64,
    ) -> Result<(), Error> {
        for (step, child) in children {
            let id = uuid_v7::generate();
            *last_position += 1;
            let own = child.starts_lineage.then_some(id);
            let lineage = match own {
                Some(own) => Some(own),
                None => child.lineage_id.as_ref().map(row_id).transpose()?,
            };
            self.children.push(Child {
                id,
                root: root.job,
                step_key: step.key.clone(),
                output_type: step.output_type.clone(),
                group_key: child.group_key,
                document_key: step.document_key.clone(),
                lineage,
                reviewer: child.reviewer,
                makes: step.makes().as_str(),
                strategy: step.granularity_strategy.as_str(),
                queue_position: *last_position,
            });
            for (input, position) in child.inputs.into_iter().zip(1..) {
                let (artifact, role) = (row_id(&input.artifact)?, input.role);
                let (part, relevance) = (input.part, input.relevance);
                let retrieval = input.retrieval.and_then(|number| i32::try_from(number).ok());
                self.inputs.push(Input { job: id, position, artifact, role, part, relevance, retrieval });
            }
        }
        Ok(())
    }

    pub(super) fn insert(self) -> Result<(), Error> {
        if self.children.is_empty() {
            return Ok(());
        }
        let args = [composite::array(&self.children)?, composite::array(&self.inputs)?];
        query(CHILDREN, &args, |_| Ok(())).map(drop)
    }
}

/// The row that an id of the core names.
fn row_id(id: &Id) -> Result<Uuid, Error> {
    let row = uuid::Uuid::try_parse(id.as_str());
    let row = row.map_err(|problem| Error::Unreadable(format!("\"{id}\" is not the id of an artifact: {problem}")))?;
    Ok(Uuid::from_bytes(row.into_bytes()))
}

impl Composite for Child {
    const TYPE: &'static str = "dialectic._planned_child";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![
            self.id.into(),
            self.root.into(),
            self.step_key.as_str().into(),
            self.output_type.as_str().into(),
            self.group_key.as_str().into(),
            self.document_key.as_deref().into(),
            self.lineage.into(),
            self.reviewer.as_deref().into(),
            self.makes.into(),
            self.strategy.into(),
            self.queue_position.into(),
        ]
    }
}

impl Composite for Input {
    const TYPE: &'static str = "dialectic._planned_input";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![
            self.job.into(),
            self.position.into(),
            self.artifact.into(),
            self.role.as_str().into(),
            self.part.as_deref().into(),
            self.relevance.into(),
            self.retrieval.into(),
        ]
    }
}
