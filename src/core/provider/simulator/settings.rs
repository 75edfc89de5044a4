//! Decides which faults and habits a simulated model has, read from the settings of the model.
//!
//! [`check`] is strict and names the key at fault, for the moment a model is registered. Reading for a call is lenient:
//! a model that was registered must answer. Never fails a call because of a setting it does not know.

use crate::provider::Class;
use serde_json::Value;

const DEFAULT_WORDS: u64 = 120;
/// More words than any window holds, and few enough to be written in a moment.
const MOST_WORDS: u64 = 200_000;

/// The longest marker, in characters.
const MARKER: usize = 64;

/// What a model puts around its JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrap {
    /// An object with the one key `content`.
    Content,
    /// A code fence.
    Fence,
    /// A sentence before and one after.
    Prose,
    /// An object with the one key it was asked to deliver.
    DocumentKey,
}

impl Wrap {
    const WORDS: [(&str, Self); 4] = [
        ("content", Self::Content),
        ("fence", Self::Fence),
        ("prose", Self::Prose),
        ("document_key", Self::DocumentKey),
    ];

    fn read(value: &Value) -> Option<Self> {
        let word = value.as_str()?;
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, wrap)| *wrap)
    }
}

/// What an answer is marked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Marker {
    /// This text.
    Given(String),
    /// The model and a digest of the prompt.
    Auto,
}

impl Marker {
    /// A text that JSON writes as it is, so that it occurs verbatim in any answer.
    fn read(value: &Value) -> Option<Self> {
        let text = value.as_str()?;
        let is_plain = !text.contains(|c: char| c.is_control() || c == '"' || c == '\\');
        match text {
            "auto" => Some(Self::Auto),
            _ if is_plain && !text.trim().is_empty() && text.chars().count() <= MARKER => {
                Some(Self::Given(text.to_owned()))
            }
            _ => None,
        }
    }
}

/// A fault that strikes never, the first n calls of a job, or always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    calls: u64,
}

impl Fault {
    pub(super) fn strikes(self, call_no: u32) -> bool {
        u64::from(call_no) <= self.calls
    }

    fn read(value: &Value) -> Self {
        let calls = match value {
            Value::Bool(true) => u64::MAX,
            other => other.as_u64().unwrap_or(0),
        };
        Self { calls }
    }
}

/// The settings of a simulated model.
pub(super) struct Settings {
    pub(super) fail_first: u64,
    pub(super) fail_class: Class,
    pub(super) fail_always: bool,
    pub(super) retry_after_ms: Option<u64>,
    latency: (u64, u64),
    pub(super) cut_after_tokens: Option<u64>,
    /// The output tokens it spends before its first word.
    pub(super) thinks_tokens: u64,
    /// Whether it goes on with a new object instead of where it stopped.
    pub(super) continues_afresh: bool,
    pub(super) malformed_json: Fault,
    pub(super) drop_connection: Fault,
    #[cfg(feature = "test-hooks")]
    pub(super) panic: Fault,
    pub(super) refuse: bool,
    pub(super) answer_words: usize,
    pub(super) seed: u64,
    pub(super) marker: Option<Marker>,
    /// Whether a text repeats the marked facts that it was given.
    pub(super) echo_facts: bool,
    pub(super) wrap: Option<Wrap>,
    /// What it leaves out of a JSON answer.
    pub(super) omit_keys: Vec<String>,
    /// Whether it leaves it out of a repair as well.
    pub(super) omit_always: bool,
}

impl Settings {
    pub(super) fn read(settings: &Value) -> Self {
        let number = |key: &str| settings[key].as_u64();
        let is_true = |key: &str| settings[key].as_bool().unwrap_or(false);
        Self {
            fail_first: number("fail_first").unwrap_or(0),
            fail_class: class(&settings["fail_class"]).unwrap_or(Class::Transient),
            fail_always: is_true("fail_always"),
            retry_after_ms: number("retry_after_ms"),
            latency: latency(&settings["latency_ms"]).unwrap_or((0, 0)),
            cut_after_tokens: number("cut_after_tokens"),
            thinks_tokens: number("thinks_tokens").unwrap_or(0),
            continues_afresh: settings["continue"] == "afresh",
            malformed_json: Fault::read(&settings["malformed_json"]),
            drop_connection: Fault::read(&settings["drop_connection"]),
            #[cfg(feature = "test-hooks")]
            panic: Fault::read(&settings["panic"]),
            refuse: is_true("refuse"),
            answer_words: number("answer_words").unwrap_or(DEFAULT_WORDS).min(MOST_WORDS) as usize,
            seed: number("seed").unwrap_or(0),
            marker: Marker::read(&settings["marker"]),
            echo_facts: is_true("echo_facts"),
            wrap: Wrap::read(&settings["wrap"]),
            omit_keys: names(&settings["omit_keys"]).unwrap_or_default(),
            omit_always: is_true("omit_always"),
        }
    }

    pub(super) fn latency_ms(&self, hash: u64) -> u64 {
        let (least, most) = self.latency;
        match (most - least).checked_add(1) {
            Some(span) => least + hash % span,
            None => hash,
        }
    }
}

fn class(value: &Value) -> Option<Class> {
    value.as_str()?.parse().ok()
}

fn names(value: &Value) -> Option<Vec<String>> {
    let name = |value: &Value| value.as_str().filter(|name| !name.is_empty()).map(str::to_owned);
    value.as_array()?.iter().map(name).collect()
}

fn latency(value: &Value) -> Option<(u64, u64)> {
    let (least, most) = match value {
        Value::Array(range) => match range.as_slice() {
            [least, most] => (least.as_u64()?, most.as_u64()?),
            _ => return None,
        },
        number => (number.as_u64()?, number.as_u64()?),
    };
    (least <= most).then_some((least, most))
}

/// What a fault may be set to.
const FAULT: &str = "true, false or a number of calls";

fn is_fault(value: &Value) -> bool {
    value.is_boolean() || value.is_u64()
}

/// Checks the settings of a simulated model; the message names the key at fault.
pub fn check(settings: &Value) -> Result<(), String> {
    let fields = match settings {
        Value::Null => return Ok(()),
        Value::Object(fields) => fields,
        _ => return Err("the settings of a simulated model must be an object".to_owned()),
    };
    for (key, value) in fields {
        let (sound, expected) = match key.as_str() {
            "fail_first" | "retry_after_ms" | "cut_after_tokens" | "thinks_tokens" | "answer_words" | "seed" => {
                (value.is_u64(), "a whole number")
            }
            "continue" => (matches!(value.as_str(), Some("onward" | "afresh")), "onward or afresh"),
            "fail_always" | "refuse" | "omit_always" | "echo_facts" => (value.is_boolean(), "true or false"),
            "malformed_json" | "drop_connection" => (is_fault(value), FAULT),
            #[cfg(feature = "test-hooks")]
            "panic" => (is_fault(value), FAULT),
            "latency_ms" => (latency(value).is_some(), "a whole number, or [least, most]"),
            "marker" => (
                Marker::read(value).is_some(),
                "a text of 1 to 64 characters without quotes, backslashes and control characters, or \"auto\"",
            ),
            "wrap" => (Wrap::read(value).is_some(), "one of content, fence, prose, document_key"),
            "omit_keys" => (names(value).is_some(), "a list of keys"),
            "fail_class" => match value.as_str().map(str::parse::<Class>) {
                Some(Err(message)) => return Err(format!("setting \"fail_class\": {message}")),
                parsed => (parsed.is_some(), "the name of a class"),
            },
            _ => return Err(format!("unknown setting \"{key}\" of a simulated model")),
        };
        if !sound {
            return Err(format!("setting \"{key}\" must be {expected}, not {value}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sound_settings_pass() {
        for settings in [
            json!(null),
            json!({}),
            json!({"fail_first": 2, "fail_class": "throttled", "retry_after_ms": 50, "latency_ms": [5, 9], "seed": 1}),
            json!({"latency_ms": 3, "cut_after_tokens": 9, "malformed_json": 1, "drop_connection": true, "refuse": false,
                   "answer_words": 40, "fail_always": true}),
            json!({"marker": "é".repeat(64), "wrap": "document_key", "omit_keys": ["a", "b[c]"], "omit_always": true}),
            json!({"marker": "auto", "wrap": "prose", "omit_keys": []}),
            json!({"continue": "afresh", "thinks_tokens": 2000}),
            json!({"continue": "onward", "echo_facts": true}),
        ] {
            assert_eq!(check(&settings), Ok(()), "{settings}");
        }
    }

    #[test]
    fn a_wrong_setting_is_named() {
        for (settings, word) in [
            (json!({"fail_frist": 1}), "fail_frist"),
            (json!({"fail_first": -1}), "fail_first"),
            (json!({"fail_class": "sometimes"}), "sometimes"),
            (json!({"fail_class": 3}), "fail_class"),
            (json!({"latency_ms": [9, 5]}), "latency_ms"),
            (json!({"latency_ms": "5"}), "latency_ms"),
            (json!({"refuse": 1}), "refuse"),
            (json!({"marker": "x".repeat(65)}), "marker"),
            (json!({"marker": "say \"x\""}), "marker"),
            (json!({"marker": " "}), "marker"),
            (json!({"wrap": "paper"}), "wrap"),
            (json!({"continue": "sideways"}), "continue"),
            (json!({"thinks_tokens": "many"}), "thinks_tokens"),
            (json!({"omit_keys": "a"}), "omit_keys"),
            (json!({"omit_keys": ["a", 1]}), "omit_keys"),
            (json!({"omit_always": 1}), "omit_always"),
            (json!({"echo_facts": "all"}), "echo_facts"),
            (json!([]), "object"),
        ] {
            assert!(check(&settings).unwrap_err().contains(word), "{settings}");
        }
    }

    #[test]
    fn only_test_builds_know_a_model_that_panics() {
        let checked = check(&json!({"panic": 2}));
        match cfg!(feature = "test-hooks") {
            true => assert_eq!(checked, Ok(())),
            false => assert_eq!(checked, Err("unknown setting \"panic\" of a simulated model".to_owned())),
        }
    }

    #[test]
    fn latency_stays_within_its_bounds() {
        let settings = Settings::read(&json!({"latency_ms": [5, 9]}));
        assert!((0..100).all(|hash| (5..=9).contains(&settings.latency_ms(hash))));
        assert_eq!(Settings::read(&json!({"latency_ms": [0, u64::MAX]})).latency_ms(7), 7);
    }
}
