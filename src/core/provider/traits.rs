//! Decides what may be said about a model and about a provider, and what holds where nothing is said.
//!
//! What differs between models is data in the model's row: no code asks for the name of a model. [`Traits::read`] and
//! [`Manner::read`] are strict and name the key at fault, for the moment a model or a provider is added. Never opens a
//! connection, never knows a secret.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What a model takes and how, from the settings in its row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traits {
    /// Which of the wire formats of its provider it speaks, where there are several: `chat` or `responses`.
    pub dialect: Option<String>,
    /// The parameter that limits the answer: `max_tokens`, `max_completion_tokens`; for OpenAI-compatible servers.
    pub token_parameter: Option<String>,
    /// Who says what the frame of a prompt says: `system`, `developer`, or `user` for a model that knows neither.
    pub system_role: Option<String>,
    /// The sampling parameters it takes, such as `temperature`; others are not sent.
    pub sampling: Option<Vec<String>>,
    /// The values of sampling parameters that are sent.
    pub parameters: Map<String, Value>,
    /// How it is held to JSON: `schema`, `object`, or `none`.
    pub json: Option<String>,
    /// Whether it goes on from words that are put into its mouth.
    pub prefill: bool,
    /// How it is told to think, in the provider's own words.
    pub thinking: Option<Value>,
    /// How hard it is told to think: `low`, `medium`, `high` or what else it knows.
    pub effort: Option<String>,
    /// Whether the usage in a stream must be asked for and may be.
    pub stream_usage: bool,
    /// The length of the vectors of an embedding model, where it is not the model's own.
    pub dimensions: Option<u32>,
    /// What else is put into every request.
    pub extra_body: Map<String, Value>,
}

impl Default for Traits {
    fn default() -> Self {
        Traits {
            dialect: None,
            token_parameter: None,
            system_role: None,
            sampling: None,
            parameters: Map::new(),
            json: None,
            prefill: false,
            thinking: None,
            effort: None,
            stream_usage: true,
            dimensions: None,
            extra_body: Map::new(),
        }
    }
}

impl Traits {
    /// What the settings of a model say; the reason when they are not settings.
    pub fn read(settings: &Value) -> Result<Self, String> {
        let traits: Traits = object(settings)?;
        let one_of = |key: &str, value: &Option<String>, known: &[&str]| match value {
            Some(word) if !known.contains(&word.as_str()) => {
                Err(format!("settings: \"{key}\" cannot be \"{word}\"; one of {} is expected", known.join(", ")))
            }
            _ => Ok(()),
        };
        one_of("dialect", &traits.dialect, &["chat", "responses"])?;
        one_of("token_parameter", &traits.token_parameter, &["max_tokens", "max_completion_tokens"])?;
        one_of("system_role", &traits.system_role, &["system", "developer", "user"])?;
        one_of("json", &traits.json, &["schema", "object", "none"])?;
        let ours = ["model", "messages", "input", "contents", "stream"];
        if let Some(key) =
            traits.extra_body.keys().chain(traits.parameters.keys()).find(|key| ours.contains(&key.as_str()))
        {
            return Err(format!("settings: \"{key}\" of a request is not to be set"));
        }
        Ok(traits)
    }

    /// The sampling parameters that are sent: those that have a value and that the model takes.
    pub fn sampled(&self) -> impl Iterator<Item = (&String, &Value)> {
        let takes = |name: &String| self.sampling.as_ref().is_none_or(|known| known.contains(name));
        self.parameters.iter().filter(move |(name, _)| takes(name))
    }

    /// How the model is held to JSON.
    pub fn json(&self) -> &str {
        self.json.as_deref().unwrap_or("object")
    }
}

/// Settings by name: a list, which would be read by position, is none.
fn object<'a, T: Deserialize<'a>>(settings: &'a Value) -> Result<T, String> {
    if !settings.is_object() {
        return Err("settings: an object is expected".to_owned());
    }
    T::deserialize(settings).map_err(|problem| format!("settings: {problem}"))
}

/// How a provider is spoken to, from the settings in its row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Manner {
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// What is appended to every address, as `name=value`.
    pub query: BTreeMap<String, String>,
    /// The header that carries the secret, where it is not the one of the dialect.
    pub auth_header: Option<String>,
    /// The longest time until the connection stands, in seconds.
    pub connect_seconds: f64,
    /// The longest time from the request to the first byte of the answer.
    pub first_byte_seconds: f64,
    /// The longest silence in the middle of an answer.
    pub silence_seconds: f64,
    /// The longest call.
    pub call_seconds: f64,
    /// The largest response, in bytes.
    pub max_response_bytes: u64,
    /// Settings of its models that hold where a model's own say nothing.
    pub model_defaults: Map<String, Value>,
}

impl Default for Manner {
    fn default() -> Self {
        Manner {
            headers: BTreeMap::new(),
            query: BTreeMap::new(),
            auth_header: None,
            connect_seconds: 10.0,
            first_byte_seconds: 300.0,
            silence_seconds: 300.0,
            call_seconds: 3600.0,
            max_response_bytes: 16 << 20,
            model_defaults: Map::new(),
        }
    }
}

/// Headers that are the connection's business, not the user's.
const OWN_HEADERS: [&str; 9] = [
    "host",
    "content-length",
    "content-type",
    "transfer-encoding",
    "connection",
    "accept",
    "accept-encoding",
    "authorization",
    "user-agent",
];

impl Manner {
    /// What the settings of a provider say; the reason when they are not settings.
    pub fn read(settings: &Value) -> Result<Self, String> {
        let manner: Manner = object(settings)?;
        for (key, seconds) in [
            ("connect_seconds", manner.connect_seconds),
            ("first_byte_seconds", manner.first_byte_seconds),
            ("silence_seconds", manner.silence_seconds),
            ("call_seconds", manner.call_seconds),
        ] {
            if !(0.001..=86_400.0).contains(&seconds) {
                return Err(format!(
                    "settings: \"{key}\" cannot be {seconds}; a number from 0.001 to 86400 is expected"
                ));
            }
        }
        if !(1024..=1 << 30).contains(&manner.max_response_bytes) {
            return Err(format!("settings: \"max_response_bytes\" cannot be {}", manner.max_response_bytes));
        }
        let named = manner.headers.keys().chain(&manner.auth_header);
        for name in named {
            let is_token =
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
            let lower = name.to_ascii_lowercase();
            if !is_token || OWN_HEADERS.contains(&lower.as_str()) || lower.starts_with("proxy-") {
                return Err(format!("settings: a header cannot be named \"{name}\""));
            }
        }
        let values = manner.headers.values().chain(manner.query.keys()).chain(manner.query.values());
        if let Some(value) = values.into_iter().find(|value| !value.bytes().all(|b| (0x20..0x7f).contains(&b))) {
            return Err(format!("settings: \"{}\" has characters that cannot be sent", value.escape_debug()));
        }
        Ok(manner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_read_by_name_and_nothing_else_is() {
        for odd in [json!(null), json!([]), json!(["chat"]), json!("chat"), json!(1)] {
            assert!(Traits::read(&odd).unwrap_err().contains("an object"), "{odd}");
            assert!(Manner::read(&odd).unwrap_err().contains("an object"), "{odd}");
        }
        assert_eq!(Traits::read(&json!({})), Ok(Traits::default()));
        assert_eq!(Manner::read(&json!({})), Ok(Manner::default()));
    }
}
