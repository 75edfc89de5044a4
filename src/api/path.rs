//! Derived paths for SQL: facts of artifacts in, places in the tree out.

use super::decode;
use dialectic_core::path::{Artifact, Key, Kind, Work, paths};
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use serde::Deserialize;

/// What the database knows of an artifact; what is not given is of no account for its kind.
#[derive(Deserialize)]
#[serde(default)]
struct Facts {
    project_name: String,
    session_id: Option<String>,
    iteration: Option<u32>,
    stage: Option<String>,
    stage_position: Option<u32>,
    r#type: String,
    model: Option<String>,
    source_model: Option<String>,
    reviewer: Option<String>,
    lineage_id: Option<String>,
    is_pair: Option<bool>,
    key: String,
    combine_job: Option<String>,
    version: u32,
    continuation: u32,
    is_about_document: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Facts {
            project_name: String::new(),
            session_id: None,
            iteration: None,
            stage: None,
            stage_position: None,
            r#type: String::new(),
            model: None,
            source_model: None,
            reviewer: None,
            lineage_id: None,
            is_pair: None,
            key: String::new(),
            combine_job: None,
            version: 1,
            continuation: 0,
            is_about_document: false,
        }
    }
}

impl Facts {
    fn artifact(&self) -> Artifact<'_> {
        let model = self.model.as_deref().unwrap_or_default();
        let (source, reviewer) = (self.source_model.as_deref(), self.reviewer.as_deref());
        Artifact {
            project_name: &self.project_name,
            session_id: self.session_id.as_deref().unwrap_or_default(),
            iteration: self.iteration.unwrap_or_default(),
            stage_position: self.stage_position.unwrap_or_default(),
            stage: self.stage.as_deref().unwrap_or_default(),
            kind: Kind::of_resource(&self.r#type, self.is_about_document).unwrap_or(Kind::RawResponse),
            model,
            work: Work::of(model, source, reviewer, self.lineage_id.as_deref(), self.is_pair.unwrap_or_default()),
            key: match &self.combine_job {
                Some(job) => Key::Combined { job },
                None => Key::Named(&self.key),
            },
            version: self.version,
            continuation: self.continuation,
        }
    }
}

/// Where these artifacts stand, in their order; two that would stand in one place are numbered.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _artifact_paths(facts: JsonB) -> Result<Vec<String>, ErrorReport> {
    let facts: Vec<Facts> = decode("facts", facts)?;
    Ok(paths(&facts.iter().map(Facts::artifact).collect::<Vec<_>>()))
}

/// Where an artifact stands that is alone in its place.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _artifact_path(facts: JsonB) -> Result<String, ErrorReport> {
    let facts: Facts = decode("facts", facts)?;
    Ok(facts.artifact().path())
}
