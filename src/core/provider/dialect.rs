//! Decides how each API is spoken: a request becomes a body, a message of a response becomes events. One file per API.
//!
//! A dialect is a handful of functions without state: what belongs together across messages is put together by the
//! transcript. Usage is normalised here: input counts what was read from and into a cache, output counts what was
//! thought. Never sends a byte, and never sees a secret: it says only which header would carry it.

pub mod anthropic;
pub mod chat;
pub mod google;
pub mod ollama;
pub mod responses;

use super::fault::Fault;
use super::traits::Traits;
use super::{FinishReason, Request, Usage};
use crate::prompt::{Message, Role};
use serde_json::{Value, json};

/// The wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// OpenAI Chat Completions, and every server that is compatible with it.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini.
    Google,
    /// Ollama, its native API.
    Ollama,
}

/// A request as it leaves, but for the address before it and the secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Wire {
    /// What is appended to the address of the provider.
    pub path: String,
    /// Headers of the dialect.
    pub headers: Vec<(&'static str, &'static str)>,
    /// Which header carries the secret.
    pub key: Key,
    /// The body.
    pub body: Value,
}

/// How a secret is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `authorization: Bearer …`.
    Bearer,
    /// A header of its own.
    Header(&'static str),
}

/// What a message of a response says.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The text goes on.
    Text(String),
    /// The model says that it will not.
    Refusal(String),
    /// The model wants a tool called.
    Tool,
    /// The model is done, and why; in our word and in the provider's.
    Finish {
        /// In our word.
        reason: FinishReason,
        /// In the provider's.
        raw: String,
    },
    /// The vectors of the texts that were sent.
    Vectors(Vec<Vec<f32>>),
    /// What was consumed so far.
    Usage(Counts),
    /// It went wrong.
    Fault(Fault),
}

/// What a provider says was consumed; none where it did not say. The last word counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that was read, from and into a cache included.
    pub input: Option<u64>,
    /// All that was written, thoughts included.
    pub output: Option<u64>,
    /// Of the input, what was read from a cache.
    pub cached: Option<u64>,
    /// Of the input, what was written into one.
    pub cache_write: Option<u64>,
    /// Of the output, what nobody sees.
    pub reasoning: Option<u64>,
}

impl Counts {
    /// Takes in what was said later.
    pub fn merge(&mut self, later: Counts) {
        let keep = |old: &mut Option<u64>, new: Option<u64>| *old = new.or(*old);
        keep(&mut self.input, later.input);
        keep(&mut self.output, later.output);
        keep(&mut self.cached, later.cached);
        keep(&mut self.cache_write, later.cache_write);
        keep(&mut self.reasoning, later.reasoning);
    }

    /// The same without zeros, which a provider reports that does not count: a call with an answer has read and written
    /// something.
    #[must_use]
    pub fn without_zeros(self) -> Counts {
        let counted = |tokens: Option<u64>| tokens.filter(|tokens| *tokens > 0);
        Counts { input: counted(self.input), output: counted(self.output), ..self }
    }

    /// The usage that this amounts to; input or output that nobody told of is estimated, and the whole marked as such.
    pub fn usage(&self, estimate: impl FnOnce() -> (u64, u64)) -> Usage {
        let is_told = self.input.is_some() && self.output.is_some();
        let (input, output) = if is_told { (0, 0) } else { estimate() };
        let (input, output) = (self.input.unwrap_or(input), self.output.unwrap_or(output));
        let cached = self.cached.unwrap_or(0).min(input);
        Usage {
            input_tokens: input,
            output_tokens: output,
            cached_tokens: cached,
            cache_write_tokens: self.cache_write.unwrap_or(0).min(input - cached),
            reasoning_tokens: self.reasoning.unwrap_or(0).min(output),
            estimated: !is_told,
        }
    }
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Chat, Self::Responses, Self::Anthropic, Self::Google, Self::Ollama];

    /// The dialect of a model of a provider with this api; none for an api that is not called.
    pub fn of(api: &str, traits: &Traits) -> Option<Self> {
        match (api, traits.dialect.as_deref()) {
            ("openai", Some("responses")) => Some(Self::Responses),
            ("openai", _) => Some(Self::Chat),
            ("anthropic", _) => Some(Self::Anthropic),
            ("google", _) => Some(Self::Google),
            ("ollama", _) => Some(Self::Ollama),
            _ => None,
        }
    }

    /// The request of a call, always for a stream.
    pub fn wire(self, request: &Request, traits: &Traits) -> Wire {
        match self {
            Self::Chat => chat::wire(request, traits),
            Self::Responses => responses::wire(request, traits),
            Self::Anthropic => anthropic::wire(request, traits),
            Self::Google => google::wire(request, traits),
            Self::Ollama => ollama::wire(request, traits),
        }
    }

    /// What a message of a stream says.
    pub fn events(self, name: Option<&str>, data: &Value) -> Vec<Event> {
        match self {
            Self::Chat => chat::events(name, data),
            Self::Responses => responses::events(name, data),
            Self::Anthropic => anthropic::events(name, data),
            Self::Google => google::events(name, data),
            Self::Ollama => ollama::events(name, data),
        }
    }

    /// What a response says that came in one piece.
    pub fn whole(self, body: &Value) -> Vec<Event> {
        match self {
            Self::Chat => chat::whole(body),
            Self::Responses => responses::whole(body),
            Self::Anthropic => anthropic::whole(body),
            Self::Google => google::whole(body),
            Self::Ollama => ollama::whole(body),
        }
    }

    /// What an error says: the body of a response with this status, or, without one, an error in the middle of a
    /// stream.
    pub fn fault(self, status: Option<u16>, body: &Value) -> Fault {
        match self {
            Self::Chat => chat::fault(status, body),
            Self::Responses => responses::fault(status, body),
            Self::Anthropic => anthropic::fault(status, body),
            Self::Google => google::fault(status, body),
            Self::Ollama => ollama::fault(status, body),
        }
    }
}

/// No call reads or writes more tokens.
const PLAUSIBLE: u64 = 1_000_000_000;

/// A count in a place, where there is one that can be believed; some servers say -1 for what they do not know.
fn count(value: &Value, pointer: &str) -> Option<u64> {
    value.pointer(pointer).and_then(Value::as_u64).filter(|count| *count <= PLAUSIBLE)
}

/// Whether a body or a message has an error in a field of its own.
pub(super) fn has_error(value: &Value) -> bool {
    value.get("error").is_some_and(|error| !error.is_null())
}

/// The messages of a request, each with its role and its content; the frame in the role that the model knows for it.
fn messages(request: &Request, traits: &Traits) -> Value {
    let message = |message: &Message| {
        let role = match message.role {
            Role::System => traits.system_role.as_deref().unwrap_or("system"),
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        json!({"role": role, "content": message.content})
    };
    request.messages.iter().map(message).collect()
}

/// A text in a place, where there is one that is not empty.
fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The body with everything that the model's row adds to it.
fn extended(mut body: Value, traits: &Traits) -> Value {
    if let Some(body) = body.as_object_mut() {
        body.extend(traits.extra_body.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    body
}

/// The frame of a prompt and what is said in it, for an API that sets the two apart. There the user speaks first: where
/// nobody does, the frame is said by the user, as it is for a model that takes none.
fn framed<'a>(request: &'a Request, traits: &Traits) -> (Vec<&'a Message>, Vec<&'a Message>) {
    let (frame, said): (Vec<_>, Vec<_>) = request.messages.iter().partition(|message| message.role == Role::System);
    let is_opened = said.first().is_some_and(|message| message.role == Role::User);
    if is_opened && traits.system_role.as_deref() != Some("user") {
        (frame, said)
    } else {
        (Vec::new(), frame.into_iter().chain(said).collect())
    }
}
