//! Decides how embeddings are asked for and what vectors an answer holds: OpenAI, Gemini, Ollama.
//!
//! As many vectors come back as texts went out, in their order, all of one length and of numbers that are numbers;
//! anything else is a fault. Gemini's are made one long, which only its largest are of themselves. Never cuts a text: a
//! server that would is told not to. Never sends a byte.

#[cfg(test)]
mod laws;

use super::Class;
use super::dialect::{Dialect, Key, Wire, has_error};
use super::fault::Fault;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What the vectors are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To be found.
    Document,
    /// To find with.
    Query,
}

/// Texts that want vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Texts<'a> {
    /// The provider's name of the model.
    pub api_model: &'a str,
    /// The texts.
    pub texts: &'a [String],
    /// What their vectors are for.
    pub purpose: Purpose,
    /// The length of the vectors, where it is not the model's own.
    pub dimensions: Option<u32>,
}

/// What came of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// One for each text, in the order of the texts.
    pub vectors: Vec<Vec<f32>>,
    /// Tokens read, where the provider says so.
    pub input_tokens: Option<u64>,
}

/// The most that one request may embed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimit {
    /// How many texts.
    pub texts: usize,
    /// How many tokens in all texts together.
    pub tokens: u64,
}

impl BatchLimit {
    /// The largest of all providers.
    pub const LARGEST: BatchLimit = BatchLimit { texts: 512, tokens: 250_000 };

    /// The limit of a provider; none where its API has no embeddings. OpenAI takes 2,048 texts, but the vectors of so
    /// many would exceed the largest response; Gemini is said to mix up the order of more than a hundred.
    pub fn of(api: &str) -> Option<Self> {
        match api {
            "openai" | "simulator" => Some(BatchLimit::LARGEST),
            "google" => Some(BatchLimit { texts: 100, tokens: 20_000 }),
            "ollama" => Some(BatchLimit { texts: 128, tokens: 100_000 }),
            _ => None,
        }
    }

    /// How many of these texts, given by their tokens, go into the next request: at least one.
    pub fn count(self, tokens: impl IntoIterator<Item = u64>) -> usize {
        let mut total = 0;
        let fits = |tokens: &u64| {
            total += tokens;
            total <= self.tokens
        };
        tokens.into_iter().take(self.texts).take_while(fits).count().max(1)
    }
}

/// The request for the vectors of these texts; none for an API that has no embeddings.
pub fn wire(dialect: Dialect, texts: &Texts) -> Option<Wire> {
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| drop(body.insert(key.to_owned(), value));
    let (path, key) = match dialect {
        Dialect::Chat | Dialect::Responses => {
            put("model", json!(texts.api_model));
            put("input", json!(texts.texts));
            // A fourth of the size of numbers in words, and exact.
            put("encoding_format", json!("base64"));
            texts.dimensions.into_iter().for_each(|length| put("dimensions", json!(length)));
            ("/embeddings".to_owned(), Key::Bearer)
        }
        Dialect::Google => {
            let name = texts.api_model.trim_start_matches("models/");
            put("requests", texts.texts.iter().map(|text| gemini(name, texts, text)).collect());
            (format!("/v1beta/models/{name}:batchEmbedContents"), Key::Header("x-goog-api-key"))
        }
        Dialect::Ollama => {
            put("model", json!(texts.api_model));
            put("input", json!(texts.texts));
            put("truncate", json!(false));
            texts.dimensions.into_iter().for_each(|length| put("dimensions", json!(length)));
            ("/api/embed".to_owned(), Key::Bearer)
        }
        Dialect::Anthropic => return None,
    };
    Some(Wire { path, headers: Vec::new(), key, body: body.into() })
}

fn gemini(name: &str, texts: &Texts, text: &str) -> Value {
    let task = match texts.purpose {
        Purpose::Document => "RETRIEVAL_DOCUMENT",
        Purpose::Query => "RETRIEVAL_QUERY",
    };
    let mut request = json!({
        "model": format!("models/{name}"),
        "content": {"parts": [{"text": text}]},
        "taskType": task,
    });
    if let Some(length) = texts.dimensions {
        request["outputDimensionality"] = json!(length);
    }
    request
}

/// The vectors in the body of a response to [`wire`], which asked for this many of this length.
pub fn read(dialect: Dialect, count: usize, dimensions: Option<u32>, body: &Value) -> Result<Vectors, Fault> {
    if has_error(body) {
        return Err(dialect.fault(None, body));
    }
    let (list, field, tokens) = match dialect {
        Dialect::Chat | Dialect::Responses => ("data", "embedding", "/usage/prompt_tokens"),
        Dialect::Google => ("embeddings", "values", "/usageMetadata/promptTokenCount"),
        Dialect::Ollama => ("embeddings", "", "/prompt_eval_count"),
        Dialect::Anthropic => return Err(useless("this API has no embeddings")),
    };
    let items = body.get(list).and_then(Value::as_array).ok_or_else(|| useless("the answer has no embeddings"))?;
    if items.len() != count {
        return Err(useless(format!("{} vectors came for {count} texts", items.len())));
    }
    let mut places: Vec<Option<Vec<f32>>> = vec![None; items.len()];
    for (position, item) in items.iter().enumerate() {
        let index = match item.get("index") {
            Some(index) => index.as_u64().and_then(|index| usize::try_from(index).ok()),
            None => Some(position),
        };
        let place = index.and_then(|index| places.get_mut(index)).filter(|place| place.is_none());
        let place = place.ok_or_else(|| useless("the vectors are not numbered as the texts are"))?;
        *place = Some(vector(if field.is_empty() { Some(item) } else { item.get(field) })?);
    }
    let mut vectors: Vec<Vec<f32>> = places.into_iter().flatten().collect();
    let length = dimensions.map(|length| length as usize).or_else(|| vectors.first().map(Vec::len));
    if let Some(odd) = vectors.iter().find(|vector| Some(vector.len()) != length) {
        return Err(useless(format!("a vector has {} numbers instead of {}", odd.len(), length.unwrap_or(0))));
    }
    if dialect == Dialect::Google {
        vectors.iter_mut().try_for_each(|vector| normalise(vector))?;
    }
    Ok(Vectors { vectors, input_tokens: body.pointer(tokens).and_then(Value::as_u64) })
}

/// A vector as numbers, or as the bytes of numbers in base64.
fn vector(value: Option<&Value>) -> Result<Vec<f32>, Fault> {
    let numbers: Option<Vec<f32>> = match value {
        Some(Value::Array(numbers)) => numbers.iter().map(|number| number.as_f64().map(|n| n as f32)).collect(),
        Some(Value::String(text)) => decoded(text).and_then(|bytes| {
            let (numbers, rest) = bytes.as_chunks::<4>();
            rest.is_empty().then(|| numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        }),
        _ => None,
    };
    match numbers {
        Some(numbers) if !numbers.is_empty() && numbers.iter().all(|number| number.is_finite()) => Ok(numbers),
        _ => Err(useless("a vector is not one of numbers")),
    }
}

/// The bytes that a text in base64 stands for, padded as the standard has it; none when it is no such text.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut many) = (0u32, 0);
    for byte in &text[..text.len() - padding] {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        many += 6;
        if many >= 8 {
            many -= 8;
            bytes.push((bits >> many) as u8);
            bits &= (1 << many) - 1;
        }
    }
    // What is left over belongs to no byte and must be nothing.
    (bits == 0).then_some(bytes)
}

/// Makes a vector one long; one without a direction cannot be.
fn normalise(vector: &mut [f32]) -> Result<(), Fault> {
    let length = vector.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    if length == 0.0 {
        return Err(useless("a vector is zero"));
    }
    vector.iter_mut().for_each(|number| *number = (f64::from(*number) / length) as f32);
    Ok(())
}

fn useless(message: impl Into<String>) -> Fault {
    Fault::new(Class::Content, message)
}
