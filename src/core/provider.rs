//! Decides what a model is asked and what an answer is, in one shape for every provider.
//!
//! | module | decides |
//! |---|---|
//! | [`dialect`] | the wire formats: a request out, events in; one file per API |
//! | [`traits`] | what differs between models and between providers, as data |
//! | [`stream`] | where one message of a stream ends and the next begins |
//! | [`reader`] | bytes of a response, however they are cut, as events |
//! | [`transcript`] | what the events of a call come to |
//! | [`fault`] | the class of a failure, from status, type and code |
//! | [`redact`] | that no secret is in what a provider sends back |
//! | [`retry_after`] | how long a provider asks us to wait, in every form it is said |
//! | [`schema`] | the JSON schema of what a step asks for |
//! | [`expected`] | how long an answer will be, before it is asked for |
//! | [`embedding`] | the wire formats of embeddings: a request out, vectors in |
//! | [`simulator`] | a model without a provider |
//!
//! A failure carries its class from the place that saw it; nobody guesses it later from the text of a message.
//! Never opens a connection and never waits: a reply says how long it took, and the shell around it does the waiting.

pub mod dialect;
pub mod embedding;
pub mod expected;
pub mod fault;
pub mod reader;
pub mod redact;
pub mod retry_after;
pub mod schema;
pub mod simulator;
pub mod stream;
pub mod traits;
pub mod transcript;

use crate::limits::Allowance;
use crate::prompt::Message;
use crate::tokens::Measure;
use embedding::Purpose;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use traits::Manner;

/// One call of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The kind of provider, such as `simulator`.
    pub api: String,
    /// Our name of the model.
    pub model: String,
    /// The provider's name of the model.
    pub api_model: String,
    /// What is said, in order.
    pub messages: Vec<Message>,
    /// The answer is cut here.
    pub max_output_tokens: u64,
    /// The most the model can read.
    pub context_window: u64,
    /// What a JSON answer must have, as the `content_to_include` of the step says it; none for a plain text.
    pub content: Option<serde_json::Value>,
    /// The settings of the model.
    pub settings: serde_json::Value,
    /// Which call of its job this is, counted from 1.
    pub call_no: u32,
    /// What the vectors of its messages are for, where vectors are asked for instead of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeds: Option<Purpose>,
}

impl Request {
    /// The tokens that it sends, as near as is known.
    pub fn input_tokens(&self, measure: &Measure) -> u64 {
        match self.embeds {
            // Texts to embed are sent without the signs that set messages off.
            Some(_) => self.messages.iter().map(|text| measure.text(&text.content)).sum(),
            None => measure.messages(&self.messages),
        }
    }
}

/// Where models are called, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Provider {
    /// Its name in the catalog.
    pub name: String,
    /// Which API it has, such as `openai`.
    pub api: String,
    /// The address of the API.
    pub base_url: String,
    /// How it is called.
    pub manner: Manner,
    /// The reference of its secret; never the secret.
    pub secret: Option<String>,
    /// How many calls it may get.
    pub allowance: Allowance,
}

/// A text without the one character that Postgres cannot store.
pub fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Why an answer does not count, in words; none when it does. A refusal is a failure whatever the text says, and so is
/// silence.
pub fn judge(finish_reason: FinishReason, text: &str) -> Option<&'static str> {
    match finish_reason {
        FinishReason::ContentFilter => Some("the model refused to answer"),
        FinishReason::Error => Some("the model broke off with an error"),
        FinishReason::ToolUse => Some("the model asked for a tool, and there is none"),
        _ if text.chars().all(char::is_whitespace) => Some("the model answered nothing"),
        _ => None,
    }
}

/// What a call consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, those from and into a cache included.
    pub input_tokens: u64,
    /// Tokens written, those nobody sees included.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cached_tokens: u64,
    /// Tokens read and written into the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Tokens written that nobody sees: what the model thought.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// Whether the numbers are ours rather than the provider's.
    pub estimated: bool,
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All of them, in order of declaration.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word for it in the database and on the wire.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                Self::ALL.into_iter().find(|one| one.as_str() == word).ok_or_else(|| {
                    format!("unknown word \"{word}\": one of {} is expected", [$($word),+].join(", "))
                })
            }
        }
    };
}

words! {
    /// Why a model stopped.
    FinishReason {
        /// It was done.
        Stop = "stop",
        /// It was cut at a limit; there is more.
        Length = "length",
        /// It, or a filter behind it, refused.
        ContentFilter = "content_filter",
        /// It wants a tool called.
        ToolUse = "tool_use",
        /// It broke off by a fault of its own.
        Error = "error",
        /// It did not say, or in a word we do not know.
        Unknown = "unknown",
    }
}

words! {
    /// What kind of failure it was, which alone decides what follows.
    Class {
        /// Too many calls: the provider wants us to wait.
        Throttled = "throttled",
        /// May well succeed next time.
        Transient = "transient",
        /// Will never succeed.
        Permanent = "permanent",
        /// A wrong key, address or model name: nothing a job could do about it.
        Configuration = "configuration",
        /// An answer came and is of no use: refused, empty, not the JSON that was asked for.
        Content = "content",
        /// The input is larger than the model can read.
        ContextWindow = "context_window",
        /// What is stored of the job cannot be read or computed; no call was made.
        Internal = "internal",
    }
}

/// Whom a wrong configuration concerns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every model of the provider: the key, the address, the bill.
    #[default]
    Provider,
    /// This model alone: its name.
    Model,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The model answered.
    Answer {
        /// What it said.
        text: String,
        /// Why it stopped.
        finish_reason: FinishReason,
        /// The same in the provider's own word, where it has one.
        #[serde(default)]
        finish_raw: Option<String>,
        /// What it consumed.
        usage: Usage,
    },
    /// The model embedded the messages.
    Vectors {
        /// One for each message, in their order.
        vectors: Vec<Vec<f32>>,
        /// What it consumed.
        usage: Usage,
    },
    /// It did not.
    Failure {
        /// What kind of failure.
        class: Class,
        /// The provider's words, for people.
        message: String,
        /// How long the provider wants us to stay away.
        retry_after_ms: Option<u64>,
        /// The status of the response, where there was one.
        http_status: Option<u16>,
        /// Whom it concerns, where it is a matter of configuration.
        #[serde(default)]
        scope: Scope,
        /// What it consumed all the same.
        usage: Usage,
    },
}

/// The end of a call and the time it took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// From the request to the end of the answer.
    pub latency_ms: u64,
    /// How it ended.
    pub outcome: Outcome,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_as_what_they_name() {
        for class in Class::ALL {
            assert_eq!(class.as_str().parse(), Ok(class));
            assert_eq!(serde_json::to_value(class).unwrap(), class.as_str());
        }
        for reason in FinishReason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(reason));
        }
        assert!("timeout".parse::<Class>().unwrap_err().contains("\"timeout\""));
    }

    #[test]
    fn a_reply_survives_the_wire() {
        let reply = Reply {
            latency_ms: 7,
            outcome: Outcome::Failure {
                class: Class::Throttled,
                message: "slow down".into(),
                retry_after_ms: Some(10),
                http_status: Some(429),
                scope: Scope::Provider,
                usage: Usage::default(),
            },
        };
        let wire = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&wire).unwrap(), reply);
    }
}
