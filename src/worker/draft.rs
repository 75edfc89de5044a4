//! A claimed job on its way to a request: what is kept of it while its prompt is rendered, and what it becomes then.

use crate::store::claim::Claim;
use crate::store::request::{Draft, Model};
use crate::worker::calls::{Prompt, Room};
use dialectic_core::answer::Wanted;
use dialectic_core::prompt::Message;
use dialectic_core::provider::Request;
use dialectic_core::recipe::Makes;
use pgrx::Uuid;

/// A job whose prompt is being rendered.
pub(crate) struct Rendering {
    pub(crate) claim: Claim,
    model: Model,
    name: String,
    call_no: u32,
    wanted: Wanted,
    is_saved: bool,
    artifacts: Vec<Uuid>,
}

/// A job whose request is complete.
pub(crate) struct Ready {
    pub(crate) claim: Claim,
    pub(crate) provider: String,
    pub(crate) request: Request,
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

impl Rendering {
    /// Begins with what was read; the reason when there is nobody to ask.
    pub(crate) fn begin(mut draft: Draft) -> Result<(Rendering, Prompt, Room), (Claim, String)> {
        let claim = draft.claim;
        let name = draft.turn.model.clone();
        let Some(model) = draft.model.take() else {
            return Err((claim, format!("model \"{name}\" does not exist any more")));
        };
        let wanted = wanted(&draft);
        let shape = wanted.shape.clone().unwrap_or_default();
        let (artifacts, depths) = draft.artifacts.into_iter().unzip();
        let room = Room { window: model.window, depths };
        let is_saved = draft.saved.is_some();
        let rendering = Rendering { claim, model, name, call_no: draft.call_no, wanted, is_saved, artifacts };
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

    /// Ends with the messages and their JSON.
    pub(crate) fn end(self, messages: Vec<Message>, json: String) -> Ready {
        let request = Request {
            api: self.model.api,
            model: self.name,
            api_model: self.model.api_model,
            messages,
            max_output_tokens: self.model.window.output,
            context_window: self.model.window.tokens,
            content: self.wanted.shape.clone(),
            settings: self.model.settings,
            call_no: self.call_no,
        };
        let prompt = (!self.is_saved).then_some(json);
        Ready { claim: self.claim, provider: self.model.provider, request, wanted: self.wanted, prompt }
    }
}
