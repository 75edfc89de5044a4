//! Decides how each dialect puts an answer and an error, and which requests are in which dialect.
//!
//! The shapes are those of the documentation, with the text the test has chosen; examples byte for byte are the fixtures.
//! Never decides when anything is sent.

use super::act::{Answer, Tells};
use dialectic_core::provider::dialect::Dialect;
use serde_json::{Value, json};

/// The dialect of a path, and the model where the path names it.
pub(super) fn dialect_of(target: &str) -> Option<(Dialect, Option<&str>)> {
    let path = target.split('?').next().unwrap_or_default();
    if let Some((model, "streamGenerateContent" | "generateContent" | "batchEmbedContents")) =
        path.rsplit_once("/models/").and_then(|(_, call)| call.rsplit_once(':'))
    {
        return Some((Dialect::Google, Some(model)));
    }
    let ends = [
        ("/chat/completions", Dialect::Chat),
        ("/responses", Dialect::Responses),
        ("/messages", Dialect::Anthropic),
        ("/api/chat", Dialect::Ollama),
        ("/embeddings", Dialect::Chat),
        ("/api/embed", Dialect::Ollama),
    ];
    ends.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, dialect)| (dialect, None))
}

/// The folder of the dialect's fixtures.
pub fn folder(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat => "chat",
        Dialect::Responses => "responses",
        Dialect::Anthropic => "anthropic",
        Dialect::Google => "google",
        Dialect::Ollama => "ollama",
    }
}

/// The ending of the dialect's streams in files, and their content type.
pub(super) fn stream_kind(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::Ollama => ("ndjson", "application/x-ndjson"),
        _ => ("sse", "text/event-stream; charset=utf-8"),
    }
}

/// A message of a stream, as it stands in the body.
fn message(dialect: Dialect, data: &Value) -> Vec<u8> {
    match (dialect, data["type"].as_str()) {
        (Dialect::Ollama, _) => format!("{data}\n"),
        (Dialect::Responses | Dialect::Anthropic, Some(name)) => format!("event: {name}\ndata: {data}\n\n"),
        _ => format!("data: {data}\n\n"),
    }
    .into_bytes()
}

/// A message that is cut off in the middle of its JSON.
pub(super) fn malformed(dialect: Dialect) -> Vec<u8> {
    match dialect {
        Dialect::Ollama => b"{\"model\":\"\n".to_vec(),
        _ => b"data: {\"choices\":[{\"delta\":{\"con\n\n".to_vec(),
    }
}

/// The messages of an answer.
pub(super) fn stream(dialect: Dialect, model: &str, answer: &Answer) -> Vec<Vec<u8>> {
    let messages = match dialect {
        Dialect::Chat => chat(model, answer),
        Dialect::Responses => responses(model, answer),
        Dialect::Anthropic => anthropic(model, answer),
        Dialect::Google => google(model, answer),
        Dialect::Ollama => ollama(model, answer),
    };
    let mut pieces: Vec<Vec<u8>> = messages.iter().map(|data| message(dialect, data)).collect();
    if dialect == Dialect::Chat && answer.done {
        pieces.push(b"data: [DONE]\n\n".to_vec());
    }
    pieces
}

/// How many characters of an answer each of its messages has, up to the last that has any.
pub(super) fn letters(dialect: Dialect, answer: &Answer) -> Vec<usize> {
    let opening = match dialect {
        Dialect::Chat => 1,
        Dialect::Responses => 4,
        Dialect::Anthropic => 3,
        Dialect::Google | Dialect::Ollama => 0,
    };
    let spoken = answer.deltas.iter().map(|delta| delta.chars().count());
    std::iter::repeat_n(0, opening).chain(spoken).collect()
}

/// The dialect's word for an answer that was cut off for want of tokens.
pub fn length_word(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Chat | Dialect::Ollama => "length",
        Dialect::Responses => "max_output_tokens",
        Dialect::Anthropic => "max_tokens",
        Dialect::Google => "MAX_TOKENS",
    }
}

/// What begins an answer, and a message that may come any number of times.
pub(super) fn endless(dialect: Dialect, model: &str) -> (Vec<Vec<u8>>, Vec<u8>) {
    let text = "More of the same. ".repeat(50);
    let mut pieces = stream(dialect, model, &Answer { deltas: vec![text], ..Answer::of("") });
    let at = pieces.iter().position(|piece| super::http::find(piece, b"More of the same.").is_some()).unwrap_or(0);
    pieces.truncate(at + 1);
    (pieces.clone(), pieces.pop().unwrap_or_default())
}

fn chat(model: &str, answer: &Answer) -> Vec<Value> {
    let usage = json!({
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    });
    let chunk = |choices: Value, usage: Option<&Value>| {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": model,
            "choices": choices, "usage": usage,
        })
    };
    let choice = |delta: Value, finish: Option<&str>| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let mut messages = vec![chunk(choice(json!({"role": "assistant", "content": ""}), None), None)];
    messages.extend(answer.deltas.iter().map(|text| chunk(choice(json!({"content": text}), None), None)));
    let odd = (answer.usage == Tells::Oddly).then_some(&usage);
    messages.push(chunk(choice(json!({}), Some(answer.finish.as_deref().unwrap_or("stop"))), odd));
    if answer.usage == Tells::Usually {
        messages.push(chunk(json!([]), Some(&usage)));
    }
    messages
}

fn responses(model: &str, answer: &Answer) -> Vec<Value> {
    let finish = answer.finish.as_deref().unwrap_or("completed");
    let (status, reason) = match finish {
        "completed" | "failed" => (finish, None),
        reason => ("incomplete", Some(json!({"reason": reason}))),
    };
    let response = |status: &str, item: Option<&Value>, reason: Option<Value>, usage: Value| {
        json!({
            "id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": status, "error": null,
            "incomplete_details": reason, "model": model, "output": item.into_iter().collect::<Vec<_>>(), "usage": usage,
        })
    };
    let item = |status: &str, content: Value| json!({"type": "message", "id": "msg_1", "status": status, "role": "assistant", "content": content});
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let text = answer.text();
    let whole = item("completed", json!([part(&text)]));
    let usage = match answer.usage {
        Tells::Nowhere => Value::Null,
        _ => json!({
            "input_tokens": answer.input_tokens, "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": answer.output_tokens, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        }),
    };
    let started = response("in_progress", None, None, Value::Null);
    let mut messages = vec![
        json!({"type": "response.created", "response": started}),
        json!({"type": "response.in_progress", "response": started}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item("in_progress", json!([]))}),
        json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0, "content_index": 0, "part": part("")}),
    ];
    messages.extend(answer.deltas.iter().map(|delta| {
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": delta})
    }));
    messages.extend([
        json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0, "content_index": 0, "text": text}),
        json!({"type": "response.content_part.done", "item_id": "msg_1", "output_index": 0, "content_index": 0, "part": part(&text)}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": whole}),
        json!({"type": format!("response.{status}"), "response": response(status, Some(&whole), reason, usage)}),
    ]);
    for (number, message) in messages.iter_mut().enumerate() {
        message["sequence_number"] = number.into();
    }
    messages
}

fn anthropic(model: &str, answer: &Answer) -> Vec<Value> {
    let mut start = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null,
    });
    let mut end = json!({
        "type": "message_delta",
        "delta": {"stop_reason": answer.finish.as_deref().unwrap_or("end_turn"), "stop_sequence": null},
    });
    match answer.usage {
        Tells::Usually => {
            start["usage"] = json!({
                "input_tokens": answer.input_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                "output_tokens": 1,
            });
            end["usage"] = json!({"output_tokens": answer.output_tokens});
        }
        Tells::Oddly => {
            end["usage"] = json!({
                "input_tokens": answer.input_tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                "output_tokens": answer.output_tokens,
            });
        }
        Tells::Nowhere => {}
    }
    let mut messages = vec![
        json!({"type": "message_start", "message": start}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
    ];
    messages.extend(
        answer.deltas.iter().map(
            |text| json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        ),
    );
    messages.extend([json!({"type": "content_block_stop", "index": 0}), end, json!({"type": "message_stop"})]);
    messages
}

fn google(model: &str, answer: &Answer) -> Vec<Value> {
    let usage = json!({
        "promptTokenCount": answer.input_tokens,
        "candidatesTokenCount": answer.output_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens,
    });
    let chunk = |text: &str, finish: Option<&str>| {
        let mut candidate = json!({"content": {"parts": [{"text": text}], "role": "model"}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = finish.into();
        }
        json!({"candidates": [candidate], "modelVersion": model, "responseId": "resp-1"})
    };
    let mut messages: Vec<Value> = answer.deltas.iter().map(|text| chunk(text, None)).collect();
    messages.push(chunk("", Some(answer.finish.as_deref().unwrap_or("STOP"))));
    let told = match answer.usage {
        Tells::Usually => messages.last_mut(),
        Tells::Oddly => messages.first_mut(),
        Tells::Nowhere => None,
    };
    if let Some(told) = told {
        told["usageMetadata"] = usage;
    }
    messages
}

fn ollama(model: &str, answer: &Answer) -> Vec<Value> {
    let line = |text: &str, done: bool| {
        json!({
            "model": model, "created_at": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "content": text},
            "done": done,
        })
    };
    let mut messages: Vec<Value> = answer.deltas.iter().map(|text| line(text, false)).collect();
    let mut end = line("", true);
    end["done_reason"] = answer.finish.as_deref().unwrap_or("stop").into();
    if answer.usage != Tells::Nowhere {
        end["prompt_eval_count"] = answer.input_tokens.into();
        end["eval_count"] = answer.output_tokens.into();
    }
    messages.push(end);
    messages
}

/// The body of an error.
pub(super) fn error(dialect: Dialect, status: u16, message: &str, details: Vec<Value>) -> Value {
    // Status, the type of OpenAI and Anthropic each, OpenAI's code, Google's status.
    let words = match status {
        401 => ("invalid_request_error", "authentication_error", Some("invalid_api_key"), "UNAUTHENTICATED"),
        402 => ("insufficient_quota", "billing_error", Some("billing_hard_limit_reached"), "FAILED_PRECONDITION"),
        403 => ("invalid_request_error", "permission_error", None, "PERMISSION_DENIED"),
        404 => ("invalid_request_error", "not_found_error", Some("model_not_found"), "NOT_FOUND"),
        413 => ("invalid_request_error", "request_too_large", None, "INVALID_ARGUMENT"),
        429 => ("requests", "rate_limit_error", Some("rate_limit_exceeded"), "RESOURCE_EXHAUSTED"),
        503 => ("server_error", "api_error", Some("server_is_overloaded"), "UNAVAILABLE"),
        529 => ("server_error", "overloaded_error", None, "UNAVAILABLE"),
        500.. => ("server_error", "api_error", None, "INTERNAL"),
        _ => ("invalid_request_error", "invalid_request_error", None, "INVALID_ARGUMENT"),
    };
    match dialect {
        Dialect::Chat | Dialect::Responses => {
            json!({"error": {"message": message, "type": words.0, "param": null, "code": words.2}})
        }
        Dialect::Anthropic => {
            json!({"type": "error", "error": {"type": words.1, "message": message}, "request_id": "req_1"})
        }
        Dialect::Google => {
            json!({"error": {"code": status, "message": message, "status": words.3, "details": details}})
        }
        Dialect::Ollama => json!({"error": message}),
    }
}
