//! Decides the messages of a job's call, and whether they fit the context window of the model.
//!
//! A prompt that does not fit is answered with the groups of documents to condense first, or with what is too large.
//! Never reads a definition and never stores a prompt: both come in and go out as values.

use crate::context::{Decision, Group, InputFacts, Overflow, Window, fit};
use crate::definition::{Continuing, Definition, Query, Turn};
use crate::prompt::{Message, PromptError};
use crate::provider::Class;
use crate::tokens::Measure;
use std::sync::Arc;

/// Where the messages of a job come from.
#[derive(Debug)]
pub enum PromptSource {
    /// An earlier attempt saved them, as JSON.
    Saved(String),
    /// They are rendered from the definition.
    New(Arc<Definition>, Box<Turn>),
    /// They are rendered once passages are there: what these inputs of the step search for is rendered first.
    Retrieve(Arc<Definition>, Box<Turn>, Vec<u32>),
    /// They ask for the rest of an answer.
    Continue(Arc<Definition>, Box<Continuing>),
}

/// What limits a prompt.
#[derive(Debug, Clone)]
pub struct PromptLimits {
    /// The context window of the model.
    pub window: Window,
    /// What is known of its documents, in their order.
    pub inputs: Vec<InputFacts>,
    /// Whether the text of a combine job has used up its limit: nothing more of it is asked for.
    pub is_spent: bool,
    /// How tokens are counted.
    pub measure: Measure,
    /// Whether tokens are counted even where the length in bytes shows that the prompt fits.
    pub is_counted: bool,
}

/// What the rendering of a prompt came to.
#[derive(Debug, Clone, PartialEq)]
pub enum RenderedPrompt {
    /// It fits.
    Ready {
        /// All messages of the call.
        messages: Vec<Message>,
        /// The messages to save, as JSON: of a continuation the last one, because the others are saved already.
        json: String,
        /// The tokens of all messages; 0 where they were not counted.
        tokens: u64,
    },
    /// The window, or the limit of a condensed text, has no room for a continuation.
    WindowFull,
    /// It does not fit: these groups of its documents, by position, are to be condensed first.
    TooLong(Vec<Group>),
    /// It does not fit, and cannot be made to.
    Overflow(Overflow),
    /// Passages are retrieved first, by these queries.
    Unindexed(Vec<Query>),
    /// There is no prompt.
    Failed(Class, String),
}

/// Renders the messages of a job and measures them.
pub fn render_job_prompt(source: PromptSource, limits: &PromptLimits) -> RenderedPrompt {
    let is_continuation = matches!(source, PromptSource::Continue(..));
    let (rendered, turn) = match source {
        PromptSource::Saved(json) => (saved(json), None),
        PromptSource::New(definition, turn) => {
            (with_json(definition.messages(&turn), usize::MAX), Some((definition, turn)))
        }
        PromptSource::Retrieve(definition, turn, numbers) => {
            return match definition.queries(&turn, &numbers) {
                Ok(queries) => RenderedPrompt::Unindexed(queries),
                Err(problem) => RenderedPrompt::Failed(Class::Permanent, problem.to_string()),
            };
        }
        PromptSource::Continue(definition, continuing) => (with_json(definition.go_on(&continuing), 1), None),
    };
    let (messages, json) = match rendered {
        Ok(rendered) => rendered,
        Err(problem) => return RenderedPrompt::Failed(Class::Permanent, problem),
    };
    // A token has at least one byte, so a prompt with fewer bytes than the limit fits without counting.
    let bytes: usize = messages.iter().map(|message| message.content.len()).sum();
    if bytes as u64 <= limits.window.limit() && !limits.is_counted && !limits.is_spent {
        return RenderedPrompt::Ready { messages, json, tokens: 0 };
    }
    let tokens = limits.measure.counted(&messages);
    let total = limits.measure.at_most(tokens);
    let fits = match is_continuation {
        true => limits.window.has_room_after(total),
        false => total <= limits.window.limit(),
    };
    match turn {
        _ if is_continuation && (!fits || limits.is_spent) => RenderedPrompt::WindowFull,
        _ if fits => RenderedPrompt::Ready { messages, json, tokens },
        Some((definition, turn)) => {
            match fit(&definition, &turn, &limits.inputs, total, (&limits.measure, &limits.window)) {
                Ok(Decision::Fits) => RenderedPrompt::Ready { messages, json, tokens },
                Ok(Decision::Combine(groups)) => RenderedPrompt::TooLong(groups),
                // Retrieval begins here, once there is any.
                Ok(Decision::Retrieve(overflow) | Decision::TooLarge(overflow)) => RenderedPrompt::Overflow(overflow),
                Err(problem) => RenderedPrompt::Failed(Class::Permanent, problem.to_string()),
            }
        }
        None => RenderedPrompt::Overflow(Overflow::stored(total, &limits.window)),
    }
}

fn saved(json: String) -> Result<(Vec<Message>, String), String> {
    match serde_json::from_str(&json) {
        Ok(messages) => Ok((messages, json)),
        Err(problem) => Err(format!("the saved prompt cannot be read: {problem}")),
    }
}

/// Messages, and the last `count` of them as JSON.
fn with_json(messages: Result<Vec<Message>, PromptError>, count: usize) -> Result<(Vec<Message>, String), String> {
    let messages = messages.map_err(|problem| problem.to_string())?;
    let to_save = &messages[messages.len().saturating_sub(count)..];
    let json = serde_json::to_string(to_save).map_err(|problem| problem.to_string())?;
    Ok((messages, json))
}
