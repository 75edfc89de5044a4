//! Derived paths for SQL.

use dialectic_core::path::{Artifact, Key, Kind, Work};
use pgrx::prelude::*;

/// Where a document stands in the tree of files.
#[allow(clippy::too_many_arguments)] // the identity of a document, a column each
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _document_path(
    project_name: &str,
    session_id: pgrx::Uuid,
    iteration: i32,
    stage_position: i32,
    stage: &str,
    model: &str,
    source_model: Option<&str>,
    reviewer: Option<&str>,
    document_key: &str,
    version: i32,
) -> String {
    Artifact {
        project_name,
        session_id: &session_id.to_string(),
        iteration: iteration.unsigned_abs(),
        stage_position: stage_position.unsigned_abs(),
        stage,
        kind: Kind::Document,
        model,
        work: Work::of(model, source_model, reviewer, None, false),
        key: Key::Named(document_key),
        version: version.unsigned_abs(),
        continuation: 0,
    }
    .path()
}
