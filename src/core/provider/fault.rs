//! Decides the class of a failure from the status of the response and from the type and code that the provider gave it.
//!
//! A dialect knows its own words; what it does not know is judged by the status alone. The text of a message is for
//! people and decides nothing. Never decides what becomes of the job: that is `retry`.

use super::{Class, Scope};

/// What went wrong, as the provider said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind of failure.
    pub class: Class,
    /// Whom it concerns, where it is a matter of configuration.
    pub scope: Scope,
    /// The provider's words, for people.
    pub message: String,
    /// How long the provider wants us to stay away, where the body says so.
    pub retry_after_ms: Option<u64>,
}

impl Fault {
    /// A failure of this class.
    pub fn new(class: Class, message: impl Into<String>) -> Self {
        Fault { class, scope: Scope::Provider, message: message.into(), retry_after_ms: None }
    }

    /// A failure of this model alone.
    pub fn of_model(message: impl Into<String>) -> Self {
        Fault { scope: Scope::Model, ..Fault::new(Class::Configuration, message) }
    }

    /// A failure judged by the status of its response; without one, of something that came in the middle of an answer.
    pub fn of_status(status: Option<u16>, message: impl Into<String>) -> Self {
        let class = match status {
            Some(429) => Class::Throttled,
            Some(401 | 402 | 403 | 407) => Class::Configuration,
            // An address or a model that is not there; only a dialect can tell which.
            Some(404 | 405) => Class::Configuration,
            Some(413) => Class::ContextWindow,
            Some(408 | 409 | 425) => Class::Transient,
            Some(300..=399) => Class::Configuration,
            Some(400..=499) => Class::Permanent,
            _ => Class::Transient,
        };
        Fault::new(class, message)
    }
}
