//! Decides what the simulated model answers: the same request always gets the same reply.
//!
//! It behaves as a real API does: it refuses input over its window, stops at the output limit, and goes on where it
//! stopped when its own text is put before it, so that the joined pieces are the uncut answer. Faults are asked for in
//! the settings of the model. Never waits, never draws a random number, never repeats more than a glimpse of its input.

mod reading;
mod settings;
mod tokenizer;
mod writing;

#[cfg(test)]
mod laws;

pub use settings::check as check_settings;
pub use tokenizer::tokens;

use super::{Class, FinishReason, Outcome, Reply, Request, Usage};
use crate::prompt::{Message, Role};
use reading::Brief;
use settings::Settings;
use writing::Pen;

/// Answers a request.
pub fn answer(request: &Request) -> Reply {
    let settings = Settings::read(&request.settings);
    // The one fault that is ours and not the model's: whoever runs this must outlive it.
    assert!(!settings.panic.strikes(request.call_no), "simulated panic of call {}", request.call_no);
    let (turn, so_far) = turn(&request.messages);
    let hash = digest(request, turn, settings.seed);
    let latency_ms = settings.latency_ms(mix(hash ^ u64::from(request.call_no)));
    let input_tokens = request.messages.iter().map(|m| tokens(&m.content)).sum();
    let outcome = fault(request, &settings, input_tokens).unwrap_or_else(|| {
        let whole = whole(request, &settings, turn, hash);
        let rest = rest(&whole, &so_far);
        let (text, finish_reason) = finish(rest, request, &settings);
        let usage = Usage { input_tokens, output_tokens: tokens(text), ..Usage::default() };
        Outcome::Answer { text: text.to_owned(), finish_reason, usage }
    });
    Reply { latency_ms, outcome }
}

/// The messages that pose the task, and what the model has already said to it.
fn turn(messages: &[Message]) -> (&[Message], String) {
    let end = messages.iter().position(|m| m.role == Role::Assistant).unwrap_or(messages.len());
    let (turn, after) = messages.split_at(end);
    (turn, after.iter().filter(|m| m.role == Role::Assistant).map(|m| m.content.as_str()).collect())
}

/// The faults that come before any answer, in the order a real call meets them: the line, the gate, the size.
fn fault(request: &Request, settings: &Settings, input_tokens: u64) -> Option<Outcome> {
    let fail = |class, message, retry_after_ms, http_status| {
        Some(Outcome::Failure { class, message, retry_after_ms, http_status, usage: Usage::default() })
    };
    let call = request.call_no;
    if settings.drop_connection.strikes(call) {
        return fail(Class::Transient, "connection closed by peer".to_owned(), None, None);
    }
    if settings.fail_always || u64::from(call) <= settings.fail_first {
        let class = settings.fail_class;
        let status = match class {
            Class::Throttled => Some(429),
            Class::Transient => Some(503),
            Class::Permanent | Class::ContextWindow => Some(400),
            Class::Configuration => Some(401),
            Class::Content => None,
        };
        return fail(
            class,
            format!("simulated {} failure of call {call}", class.as_str()),
            settings.retry_after_ms,
            status,
        );
    }
    if input_tokens > request.context_window {
        let message = format!(
            "the context window of {} is {} tokens, the input has {input_tokens}",
            request.model, request.context_window
        );
        return fail(Class::ContextWindow, message, None, Some(400));
    }
    None
}

/// The answer as it would be without limits and without a beginning already given.
fn whole(request: &Request, settings: &Settings, turn: &[Message], hash: u64) -> String {
    if settings.refuse {
        return format!("I am {} and cannot help with this request.", request.model);
    }
    let brief = Brief::read(turn);
    let pen = Pen::new(&request.model, &brief, hash, settings.answer_words);
    if request.json_keys.is_empty() { pen.document() } else { pen.object(&request.json_keys) }
}

/// What is left to say. A beginning that is not its own gets the whole answer; line ends lost on the way are forgiven.
fn rest<'a>(whole: &'a str, so_far: &str) -> &'a str {
    whole.strip_prefix(so_far).or_else(|| whole.strip_prefix(so_far.trim_end())).unwrap_or(whole)
}

fn finish<'a>(text: &'a str, request: &Request, settings: &Settings) -> (&'a str, FinishReason) {
    if settings.refuse {
        return (text, FinishReason::ContentFilter);
    }
    let limit = settings.cut_after_tokens.map_or(request.max_output_tokens, |n| n.min(request.max_output_tokens));
    let cut = tokenizer::cut(text, limit);
    if cut.len() < text.len() {
        return (cut, FinishReason::Length);
    }
    if !request.json_keys.is_empty() && settings.malformed_json.strikes(request.call_no) {
        return (tokenizer::cut(text, tokens(text) * 2 / 3), FinishReason::Stop);
    }
    (text, FinishReason::Stop)
}

/// A digest of what the answer depends on. FNV, because it must not change with the compiler or the platform.
fn digest(request: &Request, turn: &[Message], seed: u64) -> u64 {
    let mut hash = fnv(0xcbf2_9ce4_8422_2325 ^ seed, request.model.as_bytes());
    for message in turn {
        hash = fnv(fnv(hash, &[0xff, message.role as u8]), message.content.as_bytes());
    }
    for key in &request.json_keys {
        hash = fnv(fnv(hash, &[0xfe]), key.as_bytes());
    }
    hash
}

fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The finaliser of splitmix64: neighbouring numbers become unlike.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
