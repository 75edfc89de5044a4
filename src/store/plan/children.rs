//! The children of plan jobs as columns, on their way into the table.

use super::{Root, query};
use crate::error::Error;
use crate::uuid_v7;
use dialectic_core::plan::Child;
use dialectic_core::recipe::Step;
use pgrx::Uuid;

const CHILDREN: &str =
    "select dialectic._plan_children($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";

/// An artifact that a child reads.
struct Link {
    job: Uuid,
    position: i32,
    artifact: Uuid,
    role: String,
    part: Option<String>,
    relevance: f64,
}

/// Children as columns.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) ids: Vec<Uuid>,
    roots: Vec<Uuid>,
    step_keys: Vec<String>,
    output_types: Vec<String>,
    group_keys: Vec<String>,
    document_keys: Vec<Option<String>>,
    lineages: Vec<Option<Uuid>>,
    reviewers: Vec<Option<String>>,
    made: Vec<&'static str>,
    strategies: Vec<&'static str>,
    queue_positions: Vec<i64>,
    inputs: Vec<Link>,
}

impl Rows {
    pub(super) fn add(
        &mut self,
        root: &Root,
        children: Vec<(&Step, Child)>,
        last_position: &mut i64,
    ) -> Result<(), Error> {
        for (step, child) in children {
            let id = uuid_v7::generate();
            *last_position += 1;
            self.ids.push(id);
            self.roots.push(root.job);
            self.step_keys.push(step.key.clone());
            self.output_types.push(step.output_type.clone());
            self.group_keys.push(child.group_key);
            self.document_keys.push(step.document_key.clone());
            self.lineages.push(if child.starts_lineage {
                Some(id)
            } else {
                child.lineage_id.as_deref().map(row_id).transpose()?
            });
            self.reviewers.push(child.reviewer);
            self.made.push(step.makes().as_str());
            self.strategies.push(step.granularity_strategy.as_str());
            self.queue_positions.push(*last_position);
            for (position, input) in child.inputs.into_iter().enumerate() {
                let position = i32::try_from(position + 1).unwrap_or(i32::MAX);
                self.inputs.push(Link {
                    job: id,
                    position,
                    artifact: row_id(&input.artifact)?,
                    role: input.role,
                    part: input.part,
                    relevance: input.relevance,
                });
            }
        }
        Ok(())
    }

    pub(super) fn insert(self) -> Result<(), Error> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let (mut jobs, mut positions, mut artifacts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut roles, mut parts, mut relevances) = (Vec::new(), Vec::new(), Vec::new());
        for input in self.inputs {
            jobs.push(input.job);
            positions.push(input.position);
            artifacts.push(input.artifact);
            roles.push(input.role);
            parts.push(input.part);
            relevances.push(input.relevance);
        }
        let args = [
            self.ids.into(),
            self.roots.into(),
            self.step_keys.into(),
            self.output_types.into(),
            self.group_keys.into(),
            self.document_keys.into(),
            self.lineages.into(),
            self.reviewers.into(),
            self.made.into(),
            self.strategies.into(),
            self.queue_positions.into(),
            jobs.into(),
            positions.into(),
            artifacts.into(),
            roles.into(),
            parts.into(),
            relevances.into(),
        ];
        query(CHILDREN, &args, |_| Ok(())).map(drop)
    }
}

/// The id of a row by its text. The planner takes ids as text, because dialectic.plan lets users choose their own.
fn row_id(text: &str) -> Result<Uuid, Error> {
    let id = uuid::Uuid::try_parse(text);
    let id = id.map_err(|problem| Error::Unreadable(format!("\"{text}\" is not the id of an artifact: {problem}")))?;
    Ok(Uuid::from_bytes(id.into_bytes()))
}
