//! Index jobs: the texts that they have embedded, and the vectors that come back.
//!
//! Never decides how a text is cut into chunks, nor which texts are ranked first.

use super::composite::{self, Composite};
use super::query;
use crate::error::Error;
use crate::store::claim::{Claim, Work};
use dialectic_core::definition::Query;
use dialectic_core::memory::passages::{Passage, assemble};
use dialectic_core::provider::embedding::BatchLimit;
use pgrx::datum::DatumWithOid;
use pgrx::{JsonB, Uuid};
use std::collections::HashMap;
use std::sync::Arc;

const JOBS: &str = "select job_id, claim_id, session_id, model, call_no, is_of_queries, is_leased, note \
     from dialectic._index_jobs($1)";
const TEXTS: &str = "select job_id, target, content from dialectic._unembedded_texts($1, $2)";
const STORE: &str = "select dialectic._store_embeddings($1)";
const COMPLETE: &str = "select dialectic._complete_index_jobs($1, $2)";
const WAIT: &str = "select dialectic._index_inputs($1, $2, $3)";
const SAVE_PASSAGES: &str = "select dialectic._save_passages($1)";
const PASSAGES: &str = "select job_id, number, source_id, chunk_id, chunk_no, content, headings \
     from dialectic._request_passages($1)";

/// A claimed index job, and the texts that it has embedded next.
#[derive(Debug)]
pub(crate) struct IndexDraft {
    pub(crate) claim: Claim,
    /// None where texts are only cut into chunks.
    pub(crate) model: Option<String>,
    pub(crate) call_no: u32,
    /// Whether the texts are queries.
    pub(crate) is_of_queries: bool,
    /// Whether no other claim has the same texts embedded.
    pub(crate) is_leased: bool,
    /// Why it has no model although an embedding model was set.
    pub(crate) note: Option<String>,
    /// Chunks and queries without an embedding, by id.
    pub(crate) texts: Vec<(Uuid, String)>,
}

/// Texts that are embedded in one call, and their vectors once they are there.
#[derive(Debug, Clone, Default)]
pub(crate) struct EmbeddedTexts {
    pub(crate) model: String,
    pub(crate) targets: Vec<Uuid>,
    pub(crate) vectors: Vec<Vec<f32>>,
    /// Whether the job has no other text to embed.
    pub(crate) is_last: bool,
}

impl EmbeddedTexts {
    pub(crate) fn bytes(&self) -> usize {
        self.vectors.iter().map(|vector| vector.len() * size_of::<f32>()).sum()
    }
}

/// Reads what claimed index jobs have embedded next, one text more than the largest batch; texts that are not in memory
/// are put there.
pub(crate) fn drafts(claims: &[Claim]) -> Result<Vec<IndexDraft>, Error> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let jobs: Vec<Uuid> = claims.iter().map(|claim| claim.job).collect();
    let mut drafts = query(JOBS, &[jobs.clone().into()], |row| {
        let (job, id, session) = (row.get("job_id")?, row.get("claim_id")?, row.get("session_id")?);
        Ok(IndexDraft {
            claim: Claim { job, id, session, work: Work::Index },
            model: row.nullable("model")?,
            call_no: u32::try_from(row.get::<i64>("call_no")?).unwrap_or(u32::MAX),
            is_of_queries: row.get("is_of_queries")?,
            is_leased: row.get("is_leased")?,
            note: row.nullable("note")?,
            texts: Vec::new(),
        })
    })?;
    let most = i32::try_from(BatchLimit::LARGEST.texts + 1).unwrap_or(i32::MAX);
    let mut texts: HashMap<Uuid, Vec<(Uuid, String)>> = HashMap::new();
    query(TEXTS, &[jobs.into(), most.into()], |row| {
        texts.entry(row.get("job_id")?).or_default().push((row.get("target")?, row.get("content")?));
        Ok(())
    })?;
    for draft in &mut drafts {
        draft.texts = texts.remove(&draft.claim.job).unwrap_or_default();
    }
    Ok(drafts)
}

/// Stores vectors.
pub(super) fn store_vectors(texts: &EmbeddedTexts) -> Result<(), Error> {
    let rows: Vec<EmbeddingRow> = texts
        .targets
        .iter()
        .zip(&texts.vectors)
        .map(|(target, vector)| EmbeddingRow { target: *target, model: &texts.model, vector })
        .collect();
    query(STORE, &[composite::array(&rows)?], |_| Ok(())).map(drop)
}

/// Completes index jobs, each with a note where texts have no embedding.
pub(super) fn complete(jobs: Vec<(Uuid, Option<&str>)>) -> Result<(), Error> {
    if jobs.is_empty() {
        return Ok(());
    }
    let (jobs, notes): (Vec<Uuid>, Vec<Option<&str>>) = jobs.into_iter().unzip();
    query(COMPLETE, &[jobs.into(), notes.into()], |_| Ok(())).map(drop)
}

/// Has what a claimed job retrieves from indexed before it is asked.
pub(crate) fn wait_for_index(claim: &Claim, queries: &[Query]) -> Result<(), Error> {
    let rows: Vec<QueryRow> = queries.iter().map(QueryRow).collect();
    query(WAIT, &[claim.job.into(), claim.id.into(), composite::array(&rows)?], |_| Ok(())).map(drop)
}

/// Chunks with their passages, by job, input of its step, and artifact.
type Passages = HashMap<(Uuid, u32, Uuid), Vec<(Uuid, Passage)>>;

/// The passages of an artifact that a job is sent.
#[derive(Debug, Clone)]
pub(crate) struct SentPassages {
    /// The input of the step, counted from 1.
    number: u32,
    artifact: Uuid,
    chunks: Vec<Uuid>,
    pub(crate) content: Arc<str>,
}

impl SentPassages {
    pub(super) fn new(number: u32, artifact: Uuid, found: &[(Uuid, Passage)]) -> Self {
        let (chunks, passages): (Vec<Uuid>, Vec<Passage>) = found.iter().cloned().unzip();
        SentPassages { number, artifact, chunks, content: assemble(&passages).into() }
    }
}

/// Records which passages are in the prompts of jobs.
pub(super) fn save_passages(sent: &[(Uuid, &SentPassages)]) -> Result<(), Error> {
    if sent.is_empty() {
        return Ok(());
    }
    let rows: Vec<SentRow> = sent.iter().map(|(job, passages)| SentRow { job: *job, passages }).collect();
    query(SAVE_PASSAGES, &[composite::array(&rows)?], |_| Ok(())).map(drop)
}

struct SentRow<'a> {
    job: Uuid,
    passages: &'a SentPassages,
}

impl Composite for SentRow<'_> {
    const TYPE: &'static str = "dialectic._sent_passages";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        let SentPassages { number, artifact, chunks, content } = self.passages;
        vec![
            self.job.into(),
            i32::try_from(*number).unwrap_or(i32::MAX).into(),
            (*artifact).into(),
            chunks.clone().into(),
            (&**content).into(),
        ]
    }
}

/// Retrieves the passages that these jobs read; nothing of jobs whose queries are not stored.
pub(super) fn passages(jobs: &[Uuid]) -> Result<Passages, Error> {
    let mut found = Passages::new();
    if jobs.is_empty() {
        return Ok(found);
    }
    query(PASSAGES, &[jobs.to_vec().into()], |row| {
        let passage = Passage {
            chunk_no: row.get::<i32>("chunk_no")?.unsigned_abs(),
            headings: row.get("headings")?,
            content: row.get("content")?,
        };
        let number = row.get::<i32>("number")?.unsigned_abs();
        let key = (row.get("job_id")?, number, row.get("source_id")?);
        found.entry(key).or_default().push((row.get("chunk_id")?, passage));
        Ok(())
    })?;
    Ok(found)
}

struct QueryRow<'a>(&'a Query);

impl Composite for QueryRow<'_> {
    const TYPE: &'static str = "dialectic._query";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        vec![
            number(self.0.number).into(),
            self.0.text.as_str().into(),
            self.0.match_count.map(number).into(),
            JsonB(serde_json::Value::Object(self.0.filter.clone())).into(),
        ]
    }
}

struct EmbeddingRow<'a> {
    target: Uuid,
    model: &'a str,
    vector: &'a [f32],
}

impl Composite for EmbeddingRow<'_> {
    const TYPE: &'static str = "dialectic._embedding";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![self.target.into(), self.model.into(), self.vector.to_vec().into()]
    }
}
