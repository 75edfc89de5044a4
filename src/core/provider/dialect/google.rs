//! Google Gemini: `POST {base}/v1beta/models/{model}:streamGenerateContent?alt=sse`.
//!
//! Every message of a stream is a response of its own. What was thought is counted apart from the output there, and
//! joined to it here. The class of a failure comes from `error.status` and the types and reasons in `error.details`.
//! Never reads a thought as text.

#[cfg(test)]
mod laws;

use super::{Counts, Event, Key, Wire, count, extended, framed, has_error, text};
use crate::percent::percent_encoded;
use crate::prompt::{Message, Role};
use crate::provider::fault::Fault;
use crate::provider::schema::schema;
use crate::provider::traits::Traits;
use crate::provider::{Class, FinishReason, Request};
use serde_json::{Map, Value, json};

/// The request of a call.
pub fn wire(request: &Request, traits: &Traits) -> Wire {
    let (frame, said) = framed(request, traits);
    let part = |message: &&Message| json!({"text": message.content});
    let contents = said.iter().map(|message| {
        let role = if message.role == Role::Assistant { "model" } else { "user" };
        json!({"role": role, "parts": [part(message)]})
    });
    let mut body = Map::new();
    if !frame.is_empty() {
        body.insert("systemInstruction".to_owned(), json!({"parts": frame.iter().map(part).collect::<Vec<_>>()}));
    }
    body.insert("contents".to_owned(), contents.collect());
    body.insert("generationConfig".to_owned(), config(request, traits).into());
    Wire {
        path: format!("/v1beta/{}:streamGenerateContent?alt=sse", resource(&request.api_model)),
        headers: Vec::new(),
        key: Key::Header("x-goog-api-key"),
        body: extended(body.into(), traits),
    }
}

fn config(request: &Request, traits: &Traits) -> Map<String, Value> {
    let mut config = Map::new();
    config.insert("maxOutputTokens".to_owned(), json!(request.max_output_tokens));
    config.extend(traits.sampled().map(|(name, value)| match name.as_str() {
        "stop" => ("stopSequences".to_owned(), if value.is_array() { value.clone() } else { json!([value]) }),
        _ => (camel(name), value.clone()),
    }));
    if let Some(content) = &request.content {
        if let "schema" | "object" = traits.json() {
            config.insert("responseMimeType".to_owned(), json!("application/json"));
        }
        if traits.json() == "schema" {
            config.insert("responseJsonSchema".to_owned(), schema(content));
        }
    }
    let mut thinking = traits.thinking.clone();
    if let Some(effort) = &traits.effort {
        let thinking = thinking.get_or_insert_with(|| json!({}));
        if let Some(thinking) = thinking.as_object_mut() {
            thinking.entry("thinkingLevel").or_insert_with(|| json!(effort));
        }
    }
    config.extend(thinking.map(|thinking| ("thinkingConfig".to_owned(), thinking)));
    config
}

/// A name in the writing of this API: `top_p` is `topP`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut out, word| {
        let mut letters = word.chars();
        out.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        out.push_str(letters.as_str());
        out
    })
}

/// The model as a part of an address; a name without a collection is one of `models`.
fn resource(model: &str) -> String {
    let (collection, name) = match model.split_once('/') {
        Some((collection @ ("models" | "tunedModels"), name)) => (collection, name),
        _ => ("models", model),
    };
    format!("{collection}/{}", percent_encoded(name))
}

/// What a message of a stream says.
pub fn events(_name: Option<&str>, data: &Value) -> Vec<Event> {
    said(data)
}

/// What a response says that came in one piece: one message, or, where `alt=sse` got lost on the way, the list of all.
pub fn whole(body: &Value) -> Vec<Event> {
    match body {
        Value::Array(messages) => messages.iter().flat_map(said).collect(),
        _ => said(body),
    }
}

fn said(data: &Value) -> Vec<Event> {
    if has_error(data) {
        return vec![Event::Fault(fault(None, data))];
    }
    let mut events = Vec::new();
    let candidates = data.get("candidates").and_then(Value::as_array);
    // Only one answer is ever asked for.
    let first = |candidate: &&Value| count(candidate, "/index").unwrap_or(0) == 0;
    if let Some(candidate) = candidates.and_then(|candidates| candidates.iter().find(first)) {
        let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
        events.extend(parts.into_iter().flatten().filter_map(part));
        events.extend(
            text(candidate, "/finishReason").map(|raw| Event::Finish { reason: reason(raw), raw: raw.to_owned() }),
        );
    } else if let Some(raw) = text(data, "/promptFeedback/blockReason") {
        // The prompt itself was refused: there is no candidate, and there will be none.
        let words = text(data, "/promptFeedback/blockReasonMessage").unwrap_or(raw);
        events.push(Event::Refusal(words.to_owned()));
        events.push(Event::Finish { reason: FinishReason::ContentFilter, raw: raw.to_owned() });
    }
    let usage = data.get("usageMetadata").filter(|usage| usage.is_object());
    events.extend(usage.map(|usage| Event::Usage(counts(usage))));
    events
}

fn part(part: &Value) -> Option<Event> {
    if part.get("functionCall").is_some() {
        return Some(Event::Tool);
    }
    let is_thought = part.get("thought").and_then(Value::as_bool).unwrap_or(false);
    text(part, "/text").filter(|_| !is_thought).map(|text| Event::Text(text.to_owned()))
}

fn reason(raw: &str) -> FinishReason {
    match raw {
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => FinishReason::ContentFilter,
        "IMAGE_SAFETY" | "IMAGE_PROHIBITED_CONTENT" | "IMAGE_RECITATION" => FinishReason::ContentFilter,
        "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => FinishReason::ToolUse,
        "OTHER" | "LANGUAGE" | "NO_IMAGE" | "IMAGE_OTHER" => FinishReason::Error,
        _ if raw.starts_with("MALFORMED_") => FinishReason::Error,
        _ => FinishReason::Unknown,
    }
}

/// A count that is zero is left out of a message, so that of the parts of a sum some may be missing, but not all.
fn counts(usage: &Value) -> Counts {
    let (answered, thought) = (count(usage, "/candidatesTokenCount"), count(usage, "/thoughtsTokenCount"));
    let tools = count(usage, "/toolUsePromptTokenCount").unwrap_or(0);
    Counts {
        input: count(usage, "/promptTokenCount").map(|input| input.saturating_add(tools)),
        output: answered.or(thought).map(|_| answered.unwrap_or(0).saturating_add(thought.unwrap_or(0))),
        cached: count(usage, "/cachedContentTokenCount"),
        cache_write: None,
        reasoning: thought,
    }
}

/// What an error says; it comes as a list of one where the answer would have been a list.
pub fn fault(status: Option<u16>, body: &Value) -> Fault {
    let body = body.get(0).unwrap_or(body);
    let message = text(body, "/error/message").or_else(|| text(body, "/error")).unwrap_or("an error without a message");
    let status = status.or_else(|| count(body, "/error/code").and_then(|code| u16::try_from(code).ok()));
    let details = body.pointer("/error/details").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of_type = |name: &'static str| {
        details.iter().filter(move |detail| text(detail, "/@type").is_some_and(|path| path.ends_with(name)))
    };
    let has_bad_key = of_type("/google.rpc.ErrorInfo")
        .filter_map(|detail| text(detail, "/reason"))
        .any(|reason| reason.starts_with("API_KEY_"));
    let mut fault = match text(body, "/error/status") {
        Some("RESOURCE_EXHAUSTED") => {
            let spent = of_type("/google.rpc.QuotaFailure")
                .filter_map(|detail| detail.get("violations").and_then(Value::as_array))
                .flatten()
                .filter_map(|violation| text(violation, "/quotaId"))
                .find(|quota| quota.contains("PerDay"));
            match spent {
                // The day is over for this model; a delay that is told with it is that of some other quota.
                Some(quota) if quota.contains("PerModel") => return Fault::of_model(message),
                Some(_) => return Fault::new(Class::Configuration, message),
                None => Fault::new(Class::Throttled, message),
            }
        }
        _ if has_bad_key => Fault::new(Class::Configuration, message),
        Some("FAILED_PRECONDITION" | "PERMISSION_DENIED" | "UNAUTHENTICATED") => {
            Fault::new(Class::Configuration, message)
        }
        Some("NOT_FOUND") => Fault::of_model(message),
        Some("INVALID_ARGUMENT" | "OUT_OF_RANGE") => Fault::new(Class::Permanent, message),
        Some("INTERNAL" | "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "ABORTED" | "CANCELLED" | "UNKNOWN") => {
            Fault::new(Class::Transient, message)
        }
        _ => Fault::of_status(status, message),
    };
    fault.retry_after_ms =
        of_type("/google.rpc.RetryInfo").find_map(|detail| milliseconds(text(detail, "/retryDelay")?));
    fault
}

/// A duration as protobuf writes it, `34s` or `45.837906927s`, in milliseconds; what is begun counts.
fn milliseconds(duration: &str) -> Option<u64> {
    let number = duration.strip_suffix('s')?;
    let (seconds, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanoseconds: u64 = format!("{fraction:0<9}").parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(nanoseconds.div_ceil(1_000_000))
}
