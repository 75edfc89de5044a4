//! Decodes the columns that decide the path of an artifact, asks the core for the paths and returns them. Reads no
//! table and no content.

use crate::error::Error;
use dialectic_core::path::{Artifact, Key, Kind, Work, paths};
use pgrx::Uuid;
use pgrx::datum::UnboxDatum;
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// A value of the type `dialectic._path_facts`, with ids as text. A column that does not matter for the type of the
/// artifact is null in SQL, and empty or zero here.
struct PathFacts {
    project_name: String,
    session_id: String,
    iteration: u32,
    stage: String,
    stage_position: u32,
    resource_type: String,
    model: String,
    source_model: Option<String>,
    reviewer: Option<String>,
    lineage_id: Option<String>,
    is_pair: bool,
    key: String,
    combine_job: Option<String>,
    version: u32,
    continuation: u32,
    is_about_document: bool,
}

impl PathFacts {
    fn read(row: &PgHeapTuple<'_, AllocatedByRust>) -> Result<Self, Error> {
        let text = |column| attribute::<String>(row, column);
        let id = |column| attribute::<Uuid>(row, column).map(|id| id.map(|id| id.to_string()));
        let number = |column| {
            let number: i32 = attribute(row, column)?.unwrap_or_default();
            u32::try_from(number).map_err(|error| Error::Column { column, problem: error.to_string() })
        };
        let flag = |column| attribute::<bool>(row, column).map(Option::unwrap_or_default);
        Ok(PathFacts {
            project_name: text("project_name")?.unwrap_or_default(),
            session_id: id("session_id")?.unwrap_or_default(),
            iteration: number("iteration")?,
            stage: text("stage")?.unwrap_or_default(),
            stage_position: number("stage_position")?,
            resource_type: text("type")?.unwrap_or_default(),
            model: text("model")?.unwrap_or_default(),
            source_model: text("source_model")?,
            reviewer: text("reviewer")?,
            lineage_id: id("lineage_id")?,
            is_pair: flag("is_pair")?,
            key: text("key")?.unwrap_or_default(),
            combine_job: id("combine_job")?,
            version: number("version")?,
            continuation: number("continuation")?,
            is_about_document: flag("is_about_document")?,
        })
    }

    fn artifact(&self) -> Artifact<'_> {
        let (source, reviewer) = (self.source_model.as_deref(), self.reviewer.as_deref());
        Artifact {
            project_name: &self.project_name,
            session_id: &self.session_id,
            iteration: self.iteration,
            stage_position: self.stage_position,
            stage: &self.stage,
            kind: Kind::of_resource(&self.resource_type, self.is_about_document).unwrap_or(Kind::RawResponse),
            model: &self.model,
            work: Work::of(&self.model, source, reviewer, self.lineage_id.as_deref(), self.is_pair),
            key: match &self.combine_job {
                Some(job) => Key::Combined { job },
                None => Key::Named(&self.key),
            },
            version: self.version,
            continuation: self.continuation,
        }
    }
}

fn attribute<'row, T>(row: &'row PgHeapTuple<'_, AllocatedByRust>, column: &'static str) -> Result<Option<T>, Error>
where
    T: FromDatum + IntoDatum + UnboxDatum<As<'row> = T> + 'row,
{
    row.get_by_name(column).map_err(|error| Error::Column { column, problem: error.to_string() })
}

/// The paths of these artifacts, in their order; equal paths are numbered. `sql/files.sql` declares it, because its
/// argument is a type of that file.
#[pg_extern(sql = false)]
fn _artifact_paths(
    facts: Array<'_, pgrx::composite_type!("dialectic._path_facts")>,
) -> Result<Vec<String>, ErrorReport> {
    let facts = facts.iter().flatten().map(|row| PathFacts::read(&row)).collect::<Result<Vec<_>, Error>>()?;
    Ok(paths(&facts.iter().map(PathFacts::artifact).collect::<Vec<_>>()))
}

/// The path of a file that a project has once and that no model wrote, such as `project_readme`.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _project_file_path(project_name: &str, resource_type: &str) -> Result<String, ErrorReport> {
    let Some(kind) = Kind::of_resource(resource_type, false) else {
        return Err(Error::Unknown { argument: "resource type", value: resource_type.to_owned() }.into());
    };
    Ok(Artifact::of_project(project_name, kind, "").path())
}
