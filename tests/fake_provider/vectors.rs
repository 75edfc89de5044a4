//! Decides what a provider answers that is asked for vectors and has no script: those of the simulator, in the words of
//! the dialect. Never counts tokens: it reports as many as there are texts.

use super::act::Act;
use dialectic_core::provider::dialect::Dialect;
use dialectic_core::provider::simulator::embedding::embed;
use serde_json::{Value, json};

/// Whether this is where vectors are asked for.
pub(super) fn is_asked(target: &str) -> bool {
    ["/embeddings", ":batchEmbedContents", "/api/embed"].iter().any(|end| target.ends_with(end))
}

/// The vectors of the texts in a request; none where there are no texts.
pub(super) fn answer(dialect: Dialect, body: &[u8]) -> Option<Act> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let texts: Vec<String> = match dialect {
        Dialect::Google => {
            let text = |one: &'_ Value| one.pointer("/content/parts/0/text").and_then(Value::as_str).map(str::to_owned);
            body["requests"].as_array()?.iter().filter_map(text).collect()
        }
        _ => body["input"].as_array()?.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect(),
    };
    let vectors: Vec<Vec<f32>> = texts.iter().map(|text| embed(text)).collect();
    let tokens = vectors.len();
    let answer = match dialect {
        Dialect::Google => json!({"embeddings": vectors.iter().map(|one| json!({"values": one})).collect::<Vec<_>>()}),
        Dialect::Ollama => json!({"embeddings": vectors, "prompt_eval_count": tokens}),
        _ => {
            let data = vectors.iter().enumerate().map(|(index, one)| json!({"index": index, "embedding": one}));
            json!({"data": data.collect::<Vec<_>>(), "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})
        }
    };
    Some(Act::body(200, "application/json", answer.to_string()))
}
