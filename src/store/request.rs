//! What the requests of claimed jobs are made from.

use super::{query, readable};
use crate::error::{Error, Problem};
use crate::store::claim::{Claim, Read, Work};
use crate::store::definition::definition;
use crate::store::index::{self, SentPassages};
use dialectic_core::answer::Why;
use dialectic_core::context::{InputFacts, StageLimits};
use dialectic_core::definition::{Definition, Document, Turn};
use dialectic_core::json;
use dialectic_core::render::body;
use dialectic_core::structure;
use dialectic_core::tokens::Measure;
use pgrx::Uuid;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

const JOBS: &str = "select job_id, claim_id, session_id, project_id, definition_id, stage, iteration, step_key, model, \
     max_output_tokens, call_no, is_last_attempt, kind, context_safety, max_ratio, may_continue, makes, prompt, \
     chunks, fragments, gap, continue_reason, \
     missing_keys, is_funded, target_tokens, text_limit from dialectic._request_jobs($1)";
const INPUTS: &str = "select job_id, position, artifact, role, part, relevance, first_byte, end_byte, retrieval, \
     is_indexed from dialectic._request_inputs($1)";
const TEXTS: &str = "select id, type, name, stage, author, reviewer, about, document_key, content, has_front_matter, \
     depth, text_limit \
     from dialectic._request_texts($1)";
const PROMPTS: &str = "select project_id, content from dialectic._request_prompts($1)";

/// A claimed job on its way to becoming a request.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) claim: Claim,
    pub(crate) definition: Arc<Definition>,
    pub(crate) turn: Turn,
    /// What the prompt has to fit into, of any model.
    pub(crate) limits: StageLimits,
    /// Whether it has no attempt left after this one.
    pub(crate) is_last_attempt: bool,
    pub(crate) call_no: u32,
    /// The prompt of the turn, where it is saved.
    pub(crate) saved: Option<String>,
    /// Whether what an answer lacks is asked for.
    pub(crate) may_continue: bool,
    /// Whether it makes a header.
    pub(crate) is_header: bool,
    /// Whether a wallet or a budget limits what it may cost.
    pub(crate) is_funded: bool,
    /// What was written before of its answer.
    pub(crate) chain: Chain,
    /// Of a combine job: the tokens that its text may have, over all its calls.
    pub(crate) text_limit: Option<u64>,
    /// The positions of its inputs, with what is known of each besides its text.
    pub(crate) inputs: Vec<(i32, InputFacts)>,
    /// The inputs of its step, counted from 1, that are read as passages and whose queries are not stored.
    pub(crate) unindexed: Vec<u32>,
    /// The passages among its documents.
    pub(crate) passages: Vec<SentPassages>,
}

impl Draft {
    /// Limits the next call of a combine job to what its text may still have; whether that is next to nothing. A budget
    /// that was raised, because an earlier call had no tokens left to say anything, stays.
    pub(crate) fn limit_text(&mut self, measure: &Measure) -> bool {
        let Some(limit) = self.text_limit else { return false };
        let written: u64 = self.chain.chunks.iter().map(|chunk| measure.text(chunk)).sum();
        let left = limit.saturating_sub(written);
        self.limits.output = self.limits.output.max(Some(left.max(1)));
        left < limit.div_ceil(16)
    }
}

/// What was written before of an answer.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Chunk by chunk, oldest first.
    pub(crate) chunks: Vec<String>,
    /// Why it is gone on with; none when it is only begun.
    pub(crate) why: Option<Why>,
    /// The first of its chunks that is not there.
    pub(crate) gap: Option<String>,
}

impl Chain {
    /// What was written before, of which so many chunks are fragments of calls that broke off; and what the job was
    /// made for.
    fn new(chunks: Vec<String>, fragments: i32, gap: Option<String>, why: Option<&str>, missing: Vec<String>) -> Self {
        let why = match why {
            _ if fragments > 0 => Some(Why::Interrupted),
            why => why.and_then(|word| Why::of(word, missing)),
        };
        Chain { chunks, why, gap }
    }
}

struct Text {
    r#type: String,
    name: Option<String>,
    stage: Option<String>,
    author: Option<String>,
    reviewer: Option<String>,
    about: Option<String>,
    document_key: Option<String>,
    content: Arc<str>,
    depth: u32,
    text_limit: Option<u64>,
}

/// What a job reads.
struct Input {
    job: Uuid,
    position: i32,
    artifact: Uuid,
    role: String,
    part: Option<String>,
    relevance: f64,
    range: Option<Range<usize>>,
    /// The input of the step that reads passages of it.
    retrieval: Option<u32>,
    /// Whether that input's query is stored.
    is_indexed: bool,
}

struct Row {
    claim: Claim,
    draft: Result<Draft, Problem>,
    project: Uuid,
    has_prompt: bool,
}

/// Reads all that the requests of these claimed jobs are made from; every text once, however many jobs read it. A job
/// whose definition cannot be read comes with the reason, one that is no longer claimed not at all.
pub(crate) fn drafts(claims: &[Claim]) -> Result<Vec<Read<Draft>>, Error> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = read_jobs(claims.iter().map(|claim| claim.job).collect())?;
    let unsaved: Vec<Uuid> = rows.iter().filter(|row| !row.has_prompt).map(|row| row.claim.job).collect();
    let projects: HashSet<Uuid> = rows.iter().filter(|row| !row.has_prompt).map(|row| row.project).collect();
    let inputs = query(INPUTS, &[unsaved.into()], |row| {
        let byte = |column| Ok::<_, Error>(row.nullable::<i32>(column)?.and_then(|byte| usize::try_from(byte).ok()));
        Ok(Input {
            job: row.get("job_id")?,
            position: row.get("position")?,
            artifact: row.get("artifact")?,
            role: row.get("role")?,
            part: row.nullable("part")?,
            relevance: row.get("relevance")?,
            range: byte("first_byte")?.zip(byte("end_byte")?).map(|(first, end)| first..end),
            retrieval: row.nullable::<i32>("retrieval")?.map(i32::unsigned_abs),
            is_indexed: row.get("is_indexed")?,
        })
    })?;
    let texts = read_texts(inputs.iter().map(|input| input.artifact).collect())?;
    let retrieving: HashSet<Uuid> =
        inputs.iter().filter(|input| input.retrieval.is_some()).map(|input| input.job).collect();
    let passages = index::passages(&retrieving.into_iter().collect::<Vec<_>>())?;
    let prompts: HashMap<Uuid, Arc<str>> = query(PROMPTS, &[projects.into_iter().collect::<Vec<_>>().into()], |row| {
        Ok((row.get::<Uuid>("project_id")?, row.get::<&str>("content")?.into()))
    })?
    .into_iter()
    .collect();
    let mut documents: HashMap<Uuid, Vec<Document>> = HashMap::new();
    let mut facts: HashMap<Uuid, Vec<(i32, InputFacts)>> = HashMap::new();
    let mut unindexed: HashMap<Uuid, BTreeSet<u32>> = HashMap::new();
    let mut sent: HashMap<Uuid, Vec<SentPassages>> = HashMap::new();
    for input in inputs {
        let Input { job, artifact, retrieval, is_indexed, .. } = input;
        if let Some(text) = texts.get(&artifact) {
            let known = InputFacts {
                relevance: input.relevance,
                depth: text.depth,
                most: text.text_limit,
                is_retrieved: retrieval.is_some(),
            };
            facts.entry(job).or_default().push((input.position, known));
            let mut document = text.as_document(input);
            if let Some(number) = retrieval.filter(|_| is_indexed) {
                let found = passages.get(&(job, number, artifact)).map_or(&[][..], Vec::as_slice);
                let read = SentPassages::new(number, artifact, found);
                document.content = Arc::clone(&read.content);
                sent.entry(job).or_default().push(read);
            }
            documents.entry(job).or_default().push(document);
        }
        unindexed.entry(job).or_default().extend(retrieval.filter(|_| !is_indexed));
    }
    for row in &mut rows {
        let Ok(draft) = &mut row.draft else { continue };
        draft.turn.documents = documents.remove(&row.claim.job).unwrap_or_default();
        draft.inputs = facts.remove(&row.claim.job).unwrap_or_default();
        draft.passages = sent.remove(&row.claim.job).unwrap_or_default();
        draft.unindexed = unindexed.remove(&row.claim.job).unwrap_or_default().into_iter().collect();
        if let Some(prompt) = prompts.get(&row.project) {
            draft.turn.original_user_request = Arc::clone(prompt);
        }
    }
    Ok(rows.into_iter().map(|row| (row.claim, row.draft)).collect())
}

fn read_jobs(jobs: Vec<Uuid>) -> Result<Vec<Row>, Error> {
    let nothing: Arc<str> = "".into();
    let rows = query(JOBS, &[jobs.into()], |row| {
        let limits = StageLimits {
            output: row.nullable::<i64>("max_output_tokens")?.and_then(|most| u64::try_from(most).ok()),
            safety: row.get("context_safety")?,
            ratio: row.get("max_ratio")?,
        };
        let turn = Turn {
            stage: row.get("stage")?,
            iteration: row.get("iteration")?,
            step_key: row.get("step_key")?,
            model: row.get("model")?,
            is_combine: row.get::<&str>("kind")? == "combine",
            target_tokens: row.nullable::<i64>("target_tokens")?.map(i64::unsigned_abs),
            original_user_request: Arc::clone(&nothing),
            documents: Vec::new(),
        };
        let call_no = u32::try_from(row.get::<i64>("call_no")?).unwrap_or(u32::MAX);
        let chain = Chain::new(
            row.nullable("chunks")?.unwrap_or_default(),
            row.get("fragments")?,
            row.nullable("gap")?,
            row.nullable::<&str>("continue_reason")?,
            row.nullable("missing_keys")?.unwrap_or_default(),
        );
        Ok((
            (
                row.get::<Uuid>("job_id")?,
                row.get::<i64>("claim_id")?,
                row.get::<Uuid>("session_id")?,
                row.get::<Uuid>("project_id")?,
            ),
            (row.get::<String>("definition_id")?, turn, limits, row.get::<bool>("is_last_attempt")?, call_no),
            (
                row.get::<bool>("may_continue")?,
                row.get::<&str>("makes")? == "header",
                row.nullable::<String>("prompt")?,
                chain,
                row.get::<bool>("is_funded")?,
                row.nullable::<i64>("text_limit")?.map(i64::unsigned_abs),
            ),
        ))
    })?;
    rows.into_iter()
        .map(|((job, id, session, project), (definition_id, turn, limits, is_last_attempt, call_no), rest)| {
            let (may_continue, is_header, saved, chain, is_funded, text_limit) = rest;
            let claim = Claim { job, id, session, work: Work::Call };
            let has_prompt = saved.is_some();
            let draft = readable(definition(&definition_id))?.map(|definition| Draft {
                claim,
                definition,
                turn,
                limits,
                is_last_attempt,
                call_no,
                saved,
                may_continue,
                is_header,
                is_funded,
                chain,
                text_limit,
                inputs: Vec::new(),
                unindexed: Vec::new(),
                passages: Vec::new(),
            });
            Ok(Row { claim, draft, project, has_prompt })
        })
        .collect()
}

fn read_texts(ids: HashSet<Uuid>) -> Result<HashMap<Uuid, Text>, Error> {
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let texts = query(TEXTS, &[ids.into()], |row| {
        let text = Text {
            r#type: row.get("type")?,
            name: row.nullable("name")?,
            stage: row.nullable("stage")?,
            author: row.nullable("author")?,
            reviewer: row.nullable("reviewer")?,
            about: row.nullable("about")?,
            document_key: row.nullable("document_key")?,
            content: match row.get::<bool>("has_front_matter")? {
                true => body(row.get::<&str>("content")?).into(),
                false => row.get::<&str>("content")?.into(),
            },
            depth: row.nullable::<i32>("depth")?.unwrap_or(0).unsigned_abs(),
            text_limit: row.nullable::<i64>("text_limit")?.map(i64::unsigned_abs),
        };
        Ok((row.get::<Uuid>("id")?, text))
    })?;
    Ok(texts.into_iter().collect())
}

impl Text {
    fn as_document(&self, input: Input) -> Document {
        let whole = match &input.part {
            Some(part) => json::part(&self.content, part).into(),
            None => Arc::clone(&self.content),
        };
        Document {
            r#type: self.r#type.clone(),
            role: input.role,
            name: self.name.clone(),
            stage: self.stage.clone(),
            author: self.author.clone(),
            reviewer: self.reviewer.clone(),
            about: self.about.clone(),
            document_key: self.document_key.clone(),
            content: match input.range {
                Some(range) => structure::excerpt(&whole, range).into(),
                None => whole,
            },
        }
    }
}

/// A prompt that is to be saved.
#[derive(Debug, Clone)]
pub(crate) struct Saving {
    /// Its messages as JSON.
    pub(crate) messages: String,
    /// Whether they only ask for the rest of an answer: those before them are saved.
    pub(crate) goes_on: bool,
    /// The passages in them.
    pub(crate) passages: Vec<SentPassages>,
}
