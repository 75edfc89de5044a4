//! A claimed job on its way to a request: what is kept of it while its prompt is rendered, and what it becomes then.

use crate::store::catalog::Model;
use crate::store::claim::Claim;
use crate::store::request::Draft;
use crate::worker::calls::{Prompt, Room};
use dialectic_core::answer::Wanted;
use dialectic_core::context::Window;
use dialectic_core::limits::Ticket;
use dialectic_core::prompt::Message;
use dialectic_core::provider::Request;
use dialectic_core::recipe::Makes;
use pgrx::Uuid;
use serde_json::Value;
use std::sync::Arc;

/// A job whose prompt is being rendered.
pub(crate) struct Rendering {
    pub(crate) claim: Claim,
    /// The model that is called, which may stand in for that of the job.
    pub(crate) model: Arc<Model>,
    window: Window,
    call_no: u32,
    wanted: Wanted,
    /// What the answer is held to, which is less than all where it mends another.
    content: Option<Value>,
    is_saved: bool,
    artifacts: Vec<Uuid>,
}

/// A job whose request is complete.
pub(crate) struct Ready {
    pub(crate) claim: Claim,
    pub(crate) model: Arc<Model>,
    pub(crate) request: Request,
    /// How many tokens it asks, where that is limited.
    pub(crate) tokens: u64,
    /// What lets it leave; none while it waits at the gate.
    pub(crate) ticket: Option<Ticket>,
    /// Whether it waits there.
    pub(crate) is_waiting: bool,
    /// What its answer is read against.
    pub(crate) wanted: Wanted,
    /// The prompt, unless it is saved already.
    pub(crate) prompt: Option<String>,
}

/// What the answer of a job is read against.
pub(crate) fn wanted(draft: &Draft) -> Wanted {
    let step = draft.definition.step(&draft.turn.stage, &draft.turn.step_key);
    let step = step.filter(|step| step.makes() != Makes::Text && !draft.turn.is_combine);
    Wanted {
        shape: step.and_then(|step| step.content_to_include.clone()),
        document_key: step.and_then(|step| step.document_key.clone()),
        before: draft.mending.as_ref().map(|mending| mending.so_far.clone()),
        may_continue: draft.may_continue,
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

impl Rendering {
    /// Begins with what was read; the reason when there is nobody to ask.
    pub(crate) fn begin(draft: Draft, model: Option<Arc<Model>>) -> Result<(Rendering, Prompt, Room), (Claim, String)> {
        let claim = draft.claim;
        let Some(model) = model else {
            return Err((claim, format!("model \"{}\" does not exist any more", draft.turn.model)));
        };
        let window = draft.limits.window(&model);
        let wanted = wanted(&draft);
        let shape = wanted.shape.clone().unwrap_or_default();
        let content = match &draft.mending {
            // A model without a provider is told in the prompt alone.
            Some(mending) if model.provider.api != "simulator" => Some(part(&shape, &mending.missing)),
            _ => wanted.shape.clone(),
        };
        let (artifacts, depths) = draft.artifacts.into_iter().unzip();
        let is_counted = model.is_counted();
        let room = Room { window, depths, is_counted };
        let is_saved = draft.saved.is_some();
        let rendering =
            Rendering { claim, model, window, call_no: draft.call_no, wanted, content, is_saved, artifacts };
        let prompt = match (draft.saved, draft.mending) {
            (Some(json), _) => Prompt::Saved(json),
            (None, Some(mending)) => Prompt::Mend(draft.definition, Box::new(mending), shape),
            (None, None) => Prompt::New(draft.definition, Box::new(draft.turn)),
        };
        Ok((rendering, prompt, room))
    }

    /// The artifacts of groups that are given by position.
    pub(crate) fn groups(&self, groups: &[Vec<usize>]) -> Vec<Vec<Uuid>> {
        let artifact = |at: &usize| self.artifacts.get(*at).copied();
        groups.iter().map(|group| group.iter().filter_map(artifact).collect()).collect()
    }

    /// Ends with the messages, their JSON and how many tokens they have, where that was counted.
    pub(crate) fn end(self, messages: Vec<Message>, json: String, tokens: u64) -> Ready {
        let request = Request {
            api: self.model.provider.api.clone(),
            model: self.model.name.clone(),
            api_model: self.model.api_model.clone(),
            messages,
            // Where the prompt was counted it is known how much of the window is left.
            max_output_tokens: match tokens {
                0 => self.window.output,
                tokens => self.window.output.min(self.window.tokens.saturating_sub(tokens)).max(1),
            },
            context_window: self.window.tokens,
            content: self.content,
            settings: self.model.settings.clone(),
            call_no: self.call_no,
        };
        let prompt = (!self.is_saved).then_some(json);
        let (claim, model, wanted) = (self.claim, self.model, self.wanted);
        Ready { claim, model, request, tokens, ticket: None, is_waiting: false, wanted, prompt }
    }
}
