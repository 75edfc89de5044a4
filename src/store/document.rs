//! What documents are rendered from, and keeping them.

use super::{query, readable};
use crate::error::Error;
use crate::store::claim::{Claim, Read, Work};
use crate::store::definition::definition;
use dialectic_core::definition::{Definition, Manuscript};
use dialectic_core::render::FrontMatter;
use pgrx::Uuid;
use std::sync::Arc;

const JOBS: &str = "select job_id, claim_id, session_id, definition_id, project, stage, iteration, step_key, model, \
     document_key, version, \
     tokens, cost, sources, condensed, content from dialectic._document_jobs($1)";
const KEEP: &str = "select dialectic._keep_documents($1, $2, $3) as job";

/// A claimed render job and what its document is made from.
pub(crate) struct Source {
    pub(crate) definition: Arc<Definition>,
    pub(crate) manuscript: Manuscript,
}

/// Reads what the documents of these render jobs are made from; a job whose definition cannot be read comes with the
/// reason, one that is no longer claimed not at all.
pub(crate) fn sources(claims: &[Claim]) -> Result<Vec<Read<Source>>, Error> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let jobs: Vec<Uuid> = claims.iter().map(|claim| claim.job).collect();
    let rows = query(JOBS, &[jobs.into()], |row| {
        let session: Uuid = row.get("session_id")?;
        let claim = Claim { job: row.get("job_id")?, id: row.get("claim_id")?, session, work: Work::Render };
        let front = FrontMatter {
            project: row.get("project")?,
            session: session.to_string(),
            stage: row.get("stage")?,
            iteration: row.get("iteration")?,
            model: row.get("model")?,
            document: row.get("document_key")?,
            version: row.get("version")?,
            tokens: row.nullable("tokens")?,
            cost: row.nullable("cost")?,
            sources: row.get("sources")?,
            condensed: row.get("condensed")?,
        };
        Ok((
            claim,
            row.get::<String>("definition_id")?,
            Manuscript { step_key: row.get("step_key")?, front, content: row.get("content")? },
        ))
    })?;
    let mut sources = Vec::with_capacity(rows.len());
    for (claim, id, manuscript) in rows {
        let definition = readable(definition(&id))?;
        sources.push((claim, definition.map(|definition| Source { definition, manuscript })));
    }
    Ok(sources)
}

/// Stores rendered documents and completes their jobs; returns the jobs whose claim still held.
pub(crate) fn keep(documents: &[(&Claim, &str)]) -> Result<Vec<Uuid>, Error> {
    if documents.is_empty() {
        return Ok(Vec::new());
    }
    let (mut jobs, mut claims, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for (claim, text) in documents {
        jobs.push(claim.job);
        claims.push(claim.id);
        texts.push(*text);
    }
    query(KEEP, &[jobs.into(), claims.into(), texts.into()], |row| row.get("job"))
}
