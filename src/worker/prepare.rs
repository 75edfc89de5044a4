//! A job on its way to a request: what is kept of it while a thread renders its prompt, and the request it becomes.
//!
//! Decides what the answer is read against and how much room it has. Never touches the database and never starts a
//! thread.

use crate::store::catalog::Model;
use crate::store::claim::Claim;
use crate::store::combine::Combine;
use crate::store::index::{EmbeddedTexts, IndexDraft, SentPassages};
use crate::store::opening::Opening;
use crate::store::request::{Draft, Saving};
use crate::worker::admission::Admissions;
use dialectic_core::answer::{Budget, Verdict, Wanted, Why, assembled};
use dialectic_core::context::{Candidate, Group, Overflow, StageLimits, Window};
use dialectic_core::definition::Continuing;
use dialectic_core::job_prompt::{PromptLimits, PromptSource};
use dialectic_core::limits::Ticket;
use dialectic_core::prompt::{Message, Role};
use dialectic_core::provider::Request;
use dialectic_core::provider::embedding::{BatchLimit, Purpose};
use dialectic_core::recipe::Makes;
use dialectic_core::tokens::Measure;
use pgrx::Uuid;
use serde_json::Value;
use std::sync::Arc;

/// A job whose prompt is being rendered.
pub(crate) struct Preparing {
    /// The model that is called: the job's own, or its fallback.
    pub(crate) model: Arc<Model>,
    measure: Measure,
    window: Window,
    call_no: u32,
    wanted: Wanted,
    /// What the answer is held to; nothing where it goes on in the middle.
    content: Option<Value>,
    is_saved: bool,
    goes_on: bool,
    limits: StageLimits,
    /// The positions of its inputs, in the order of its documents.
    positions: Vec<i32>,
    passages: Vec<SentPassages>,
}

/// A job whose request is complete.
pub(crate) struct Prepared {
    pub(crate) model: Arc<Model>,
    pub(crate) request: Request,
    /// How many tokens its messages were counted as, where they were.
    pub(crate) counted: u64,
    /// How many tokens it sends at most, where its provider limits them, and how many are paid for beforehand.
    pub(crate) tokens: u64,
    pub(crate) reads: Option<u64>,
    pub(crate) admission: Admission,
    /// The owner or the session that was short of money, once it has waited for any.
    pub(crate) payer: Option<String>,
    /// What its answer is read against.
    pub(crate) wanted: Wanted,
    /// The prompt, unless it is saved already.
    pub(crate) prompt: Option<Saving>,
    /// The texts that are embedded, where it is the call of an index job.
    pub(crate) embedded: Option<EmbeddedTexts>,
}

/// What a complete request waits for.
pub(crate) enum Admission {
    /// To be admitted.
    Queued,
    /// Until its provider has room.
    WaitingForProvider,
    /// Until other calls release money that its payer needs.
    WaitingForMoney,
    /// Nothing but a thread and its session: its call is counted at its provider.
    Admitted(Ticket),
}

/// What the answer of a job is read against, with so much room for it.
pub(crate) fn wanted(draft: &Draft, budget: Budget) -> Wanted {
    let step = draft.definition.step(&draft.turn.stage, &draft.turn.step_key);
    let step = step.filter(|step| step.makes() != Makes::Text && !draft.turn.is_combine);
    Wanted {
        shape: step.and_then(|step| step.content_to_include.clone()),
        document_key: step.and_then(|step| step.document_key.clone()),
        is_header: draft.is_header,
        before: draft.chain.chunks.clone(),
        may_continue: draft.may_continue,
        budget,
    }
}

/// The part of a shape that holds these keys, which may be said as `key[entry]`.
fn part(shape: &Value, missing: &[String]) -> Value {
    let is_missing = |key: &str| missing.iter().any(|one| one.split('[').next() == Some(key));
    match shape {
        Value::Object(fields) => Value::Object(
            fields.iter().filter(|(key, _)| is_missing(key)).map(|(k, v)| (k.clone(), v.clone())).collect(),
        ),
        Value::Array(names) => names.iter().filter(|name| name.as_str().is_none_or(is_missing)).cloned().collect(),
        other => other.clone(),
    }
}

impl Preparing {
    /// Begins with what was read and the model to call; the reason when what an answer continues is missing.
    pub(crate) fn begin(
        mut draft: Draft,
        asked: (Arc<Model>, Measure),
    ) -> Result<(Preparing, PromptSource, PromptLimits), String> {
        let claim = draft.claim;
        let (model, measure) = asked;
        if let Some(gap) = draft.chain.gap {
            return Err(format!("cannot continue the answer: {gap} is missing"));
        }
        let is_spent = draft.limit_text(&measure);
        let stage = draft.limits;
        let window = stage.window(model.context_window, model.max_output_tokens);
        let wanted = wanted(&draft, Budget { asked: window.output, most: model.max_output_tokens });
        let content = match &draft.chain.why {
            // A model without a provider is told in the prompt alone.
            _ if model.provider.api == "simulator" => wanted.shape.clone(),
            None => wanted.shape.clone(),
            Some(Why::Missing(keys)) => wanted.shape.as_ref().map(|shape| part(shape, keys)),
            // What goes on in the middle of an object is none itself.
            Some(_) => None,
        };
        let passages = draft.passages;
        let (positions, inputs) = draft.inputs.into_iter().unzip();
        let is_counted = model.is_counted() || draft.is_funded || measure.learns_from(claim.id.unsigned_abs());
        let limits = PromptLimits { window, inputs, is_spent, measure, is_counted };
        let goes_on = draft.chain.why.is_some();
        let is_saved = draft.saved.is_some() && !goes_on;
        let (shape, document_key) = (wanted.shape.clone(), wanted.document_key.clone());
        let source = match (draft.saved, draft.chain.why) {
            (Some(turn), Some(why)) => {
                let chunks = draft.chain.chunks;
                PromptSource::Continue(
                    draft.definition,
                    Box::new(Continuing { turn, chunks, why, shape, document_key }),
                )
            }
            (Some(json), None) => PromptSource::Saved(json),
            (None, Some(_)) => return Err("cannot continue the answer: its prompt is missing".to_owned()),
            (None, None) if draft.unindexed.is_empty() => PromptSource::New(draft.definition, Box::new(draft.turn)),
            (None, None) => PromptSource::Retrieve(draft.definition, Box::new(draft.turn), draft.unindexed),
        };
        let preparing = Preparing {
            model,
            measure,
            window,
            call_no: draft.call_no,
            wanted,
            content,
            is_saved,
            goes_on,
            limits: stage,
            positions,
            passages,
        };
        Ok((preparing, source, limits))
    }

    /// The combine jobs of groups of its documents.
    pub(crate) fn combine_jobs(&self, groups: &[Group]) -> Vec<Combine> {
        groups.iter().map(|group| Combine::new(group, &self.positions)).collect()
    }

    /// What would help against a prompt that is too large.
    pub(crate) fn hint<'a>(&self, overflow: &Overflow, admissions: &'a Admissions) -> String {
        let candidate = |model: &'a Model| Candidate {
            name: &model.name,
            window: self.limits.window(model.context_window, model.max_output_tokens),
            measure: admissions.measure(model),
        };
        overflow.hint(&self.measure, admissions.models().map(candidate))
    }

    /// Ends without a call, because the window has no room for a continuation: the document is assembled from what
    /// there is.
    pub(crate) fn end_without_call(&self) -> Verdict {
        assembled(&self.wanted, "there is no room to go on in")
    }

    /// Ends with the messages, the JSON that is saved of them and how many tokens they have, where that was counted.
    pub(crate) fn end(self, messages: Vec<Message>, json: String, counted: u64) -> Prepared {
        let tokens = self.measure.at_most(counted);
        // Where the prompt was counted it is known how much of the window is left.
        let left = if tokens == 0 { u64::MAX } else { self.window.tokens.saturating_sub(tokens).max(1) };
        let mut wanted = self.wanted;
        wanted.budget = Budget { asked: self.window.output.min(left), most: wanted.budget.most.min(left) };
        let request = Request {
            api: self.model.provider.api.clone(),
            model: self.model.name.clone(),
            api_model: self.model.api_model.clone(),
            messages,
            max_output_tokens: wanted.budget.asked,
            context_window: self.window.tokens,
            content: self.content,
            settings: self.model.settings.clone(),
            call_no: self.call_no,
            embeds: None,
        };
        let prompt =
            (!self.is_saved).then_some(Saving { messages: json, goes_on: self.goes_on, passages: self.passages });
        Prepared {
            model: self.model,
            request,
            counted,
            tokens,
            reads: (counted > 0).then(|| self.measure.worst(counted)),
            admission: Admission::Queued,
            payer: None,
            wanted,
            prompt,
            embedded: None,
        }
    }
}

/// The next call of an index job: as many of its texts as its provider takes at once. None where the API has no
/// embeddings.
pub(crate) fn embedding_call(draft: IndexDraft, model: Arc<Model>, measure: &Measure) -> Option<Prepared> {
    let limit = BatchLimit::of(&model.provider.api)?;
    let counts: Vec<u64> = draft.texts.iter().map(|(_, text)| measure.counted_text(text)).collect();
    let count = limit.count(counts.iter().map(|count| measure.at_most(*count))).min(draft.texts.len());
    let counted: u64 = counts[..count].iter().sum();
    let is_last = count == draft.texts.len();
    let (targets, texts): (Vec<Uuid>, Vec<String>) = draft.texts.into_iter().take(count).unzip();
    let purpose = if draft.is_of_queries { Purpose::Query } else { Purpose::Document };
    let request = Request {
        api: model.provider.api.clone(),
        model: model.name.clone(),
        api_model: model.api_model.clone(),
        messages: texts.into_iter().map(|content| Message { role: Role::User, content }).collect(),
        max_output_tokens: 0,
        // The window of an embedding model is that of one text.
        context_window: u64::MAX,
        content: None,
        settings: model.settings.clone(),
        call_no: draft.call_no,
        embeds: Some(purpose),
    };
    let embedded = EmbeddedTexts { model: model.name.clone(), targets, vectors: Vec::new(), is_last };
    Some(Prepared {
        model,
        request,
        counted: 0,
        tokens: measure.at_most(counted),
        reads: Some(measure.worst(counted)),
        admission: Admission::Queued,
        payer: None,
        wanted: Wanted::default(),
        prompt: None,
        embedded: Some(embedded),
    })
}

impl Prepared {
    /// Whether it waits for nothing but a thread or its session.
    pub(crate) fn is_next(&self) -> bool {
        matches!(self.admission, Admission::Queued | Admission::Admitted(_))
    }

    pub(crate) fn is_admitted(&self) -> bool {
        matches!(self.admission, Admission::Admitted(_))
    }

    /// Whether its provider has yet to admit it.
    pub(crate) fn waits_for_admission(&self) -> bool {
        matches!(self.admission, Admission::Queued | Admission::WaitingForProvider)
    }

    /// Gives up its admission for another state; returns the ticket that is to be given back.
    pub(crate) fn withdraw(&mut self, to: Admission) -> Option<Ticket> {
        match std::mem::replace(&mut self.admission, to) {
            Admission::Admitted(ticket) => Some(ticket),
            _ => None,
        }
    }

    /// The call it becomes; a wallet or a budget may limit it.
    pub(crate) fn opening<'a>(&'a self, claim: &'a Claim, is_limited: bool) -> Opening<'a> {
        Opening {
            claim,
            prompt: self.prompt.as_ref(),
            model: &self.model,
            input_tokens: self.reads,
            output_tokens: self.request.max_output_tokens,
            is_limited,
        }
    }
}
