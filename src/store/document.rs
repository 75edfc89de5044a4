//! What documents are rendered from, and keeping them.

use super::{must, query};
use crate::error::Error;
use crate::store::claim::{Claim, Work};
use crate::store::definition::definition;
use dialectic_core::definition::{Definition, Manuscript};
use dialectic_core::render::FrontMatter;
use pgrx::Uuid;
use std::sync::Arc;

const JOBS: &str = "select job_id, claim_id, session_id, definition_id, project, stage, iteration, step_key, model, document_key, version, \
     tokens, cost, sources, content from dialectic._document_jobs($1)";
const KEEP: &str = "select dialectic._keep_documents($1, $2, $3)";

/// A claimed render job and what its document is made from.
pub(crate) struct Source {
    pub(crate) claim: Claim,
    pub(crate) definition: Arc<Definition>,
    pub(crate) manuscript: Manuscript,
}

/// Reads what the documents of these claimed render jobs are made from.
pub(crate) fn sources(jobs: Vec<Uuid>) -> Result<Vec<Source>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let rows = query(JOBS, &[jobs.into()], |row| {
        let session: Uuid = must(row, 3)?;
        let claim = Claim { job: must(row, 1)?, id: must(row, 2)?, session, work: Work::Render };
        let front = FrontMatter {
            project: must(row, 5)?,
            session: session.to_string(),
            stage: must(row, 6)?,
            iteration: must(row, 7)?,
            model: must(row, 9)?,
            document: must(row, 10)?,
            version: must(row, 11)?,
            tokens: row.get(12)?,
            cost: row.get(13)?,
            sources: must(row, 14)?,
        };
        Ok((claim, must::<String>(row, 4)?, Manuscript { step_key: must(row, 8)?, front, content: must(row, 15)? }))
    })?;
    rows.into_iter()
        .map(|(claim, id, manuscript)| Ok(Source { claim, definition: definition(&id)?, manuscript }))
        .collect()
}

/// Keeps rendered documents, finishing their jobs.
pub(crate) fn keep(documents: &[&(Claim, String)]) -> Result<(), Error> {
    if documents.is_empty() {
        return Ok(());
    }
    let (mut jobs, mut claims, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for (claim, text) in documents {
        jobs.push(claim.job);
        claims.push(claim.id);
        texts.push(text.as_str());
    }
    query(KEEP, &[jobs.into(), claims.into(), texts.into()], |_| Ok(())).map(drop)
}
