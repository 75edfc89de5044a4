//! Decides what the simulated model answers: the same request always gets the same reply.
//!
//! It behaves as a real API does: it refuses input over its window, stops at the output limit, and goes on where it
//! stopped when its own text is put before it, so that the joined pieces are the uncut answer; shown its JSON in
//! another form than it wrote it, or where that is its habit, it begins a new object with what is left. Asked for JSON
//! it answers in the whole shape that was asked for; asked to repair an answer, by a user message after it that has a
//! line `Missing keys: key_a, key_b`, with an object of exactly those keys, where
//! `context_for_documents[business_case]` means the list `context_for_documents` with the entry for that document.
//! Faults and habits are asked for in the settings of the model. Never waits, never draws a random number, never
//! repeats more than a glimpse of its input, except the facts that it is told to echo.

mod afresh;
mod conversation;
pub mod embedding;
mod facts;
mod reading;
mod settings;
mod shape;
mod tokenizer;
mod writing;

#[cfg(test)]
mod laws;

pub use settings::check as check_settings;
pub use tokenizer::tokens;

pub(super) use shape::{Room, Shape, is_plural};

use super::expected::{Asked, Expected, written};
use super::{Class, FinishReason, Outcome, Reply, Request, Scope, Usage};
use crate::hash::{FNV_BASIS_64, fnv_words};
use crate::knit;
use crate::prompt::Message;
use conversation::Conversation;
use reading::Brief;
use serde_json::Value;
use settings::{Marker, Settings, Wrap};
use writing::Pen;

/// Answers a request.
pub fn answer(request: &Request) -> Reply {
    let settings = Settings::read(&request.settings);
    // The one fault that is ours and not the model's: whoever runs this must outlive it.
    #[cfg(feature = "test-hooks")]
    assert!(!settings.panic.strikes(request.call_no), "simulated panic of call {}", request.call_no);
    let conversation = Conversation::read(&request.messages);
    let hash = digest(request, conversation.turn, settings.seed);
    let latency_ms = settings.latency_ms(mix(hash ^ u64::from(request.call_no)));
    let input_tokens = request.messages.iter().map(|m| tokens(&m.content)).sum();
    let outcome = fault(request, &settings, input_tokens).unwrap_or_else(|| {
        if request.embeds.is_some() {
            let vectors = request.messages.iter().map(|text| embedding::embed(&text.content)).collect();
            return Outcome::Vectors { vectors, usage: Usage { input_tokens, ..Usage::default() } };
        }
        let shape = shape(request, &settings, &conversation);
        let desk = Desk { request, settings: &settings, conversation: &conversation, hash };
        let rest = desk.rest(shape.as_ref());
        let (text, finish_reason) = finish(&rest, request, &settings, shape.is_some());
        let reasoning_tokens = settings.thinks_tokens.min(request.max_output_tokens);
        let output_tokens = reasoning_tokens + tokens(text);
        let usage = Usage { input_tokens, output_tokens, reasoning_tokens, ..Usage::default() };
        Outcome::Answer { text: text.to_owned(), finish_reason, finish_raw: None, usage }
    });
    Reply { latency_ms, outcome }
}

/// How long the answer to a request will be; no answer is written to find out. Faults are left aside.
pub fn expected(asked: &Asked<'_>) -> Expected {
    let settings = Settings::read(asked.settings);
    let brief = Brief::read(asked.messages);
    let marker = settings.marker.as_ref().map(|marker| match marker {
        Marker::Given(text) => text.clone(),
        Marker::Auto => call_mark(asked.model, 0),
    });
    let pen = Pen::new(asked.model, &brief, 0, settings.answer_words, marker);
    let text = match Shape::asked(asked.content) {
        Some(mut shape) => {
            shape.omit(&settings.omit_keys);
            wrapped(written(&pen.expected_object(&shape)), settings.wrap, &brief.task)
        }
        None => pen.expected_document(),
    };
    Expected { text, reasoning_tokens: settings.thinks_tokens, cut_after: settings.cut_after_tokens }
}

/// The faults that come before any answer, in the order a real call meets them: the line, the gate, the size.
fn fault(request: &Request, settings: &Settings, input_tokens: u64) -> Option<Outcome> {
    let fail = |class, message, retry_after_ms, http_status| {
        Some(Outcome::Failure {
            class,
            message,
            retry_after_ms,
            http_status,
            scope: Scope::Provider,
            usage: Usage::default(),
        })
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
            Class::Permanent | Class::ContextWindow | Class::Internal => Some(400),
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

/// The JSON that is wanted, less what this model leaves out; none for a plain text.
fn shape<'a>(request: &'a Request, settings: &Settings, conversation: &Conversation<'a>) -> Option<Shape<'a>> {
    let asked = Shape::asked(request.content.as_ref());
    let mut shape = match &conversation.missing {
        Some(names) => Shape::missing(asked.as_ref(), names),
        None => asked?,
    };
    if conversation.missing.is_none() || settings.omit_always {
        shape.omit(&settings.omit_keys);
    }
    Some(shape)
}

/// One call and what was made of it.
struct Desk<'a> {
    request: &'a Request,
    settings: &'a Settings,
    conversation: &'a Conversation<'a>,
    hash: u64,
}

impl Desk<'_> {
    /// The answer as it would be without limits and without a beginning already given.
    fn whole(&self, shape: Option<&Shape<'_>>, missing: &[&str], wrap: Option<Wrap>) -> String {
        let marker = self.settings.marker.as_ref().map(|marker| match marker {
            Marker::Given(text) => text.clone(),
            Marker::Auto => call_mark(&self.request.model, self.hash),
        });
        if self.settings.refuse {
            let mark = marker.map_or_else(String::new, |marker| format!(" {marker}"));
            return format!("I am {} and cannot help with this request.{mark}", self.request.model);
        }
        let brief = Brief::read(self.conversation.turn);
        let hash = missing.iter().fold(self.hash, |hash, name| fnv_words(fnv_words(hash, &[0xfd]), name.as_bytes()));
        let pen = Pen::new(&self.request.model, &brief, hash, self.settings.answer_words, marker);
        match shape {
            Some(shape) => wrapped(pen.object(shape), wrap, &brief.task),
            None if self.settings.echo_facts => facts::with_facts(pen.document(), self.conversation.turn),
            None => pen.document(),
        }
    }

    /// What is left to say. A beginning that is not its own gets the whole answer; line ends lost on the way are
    /// forgiven.
    fn rest(&self, shape: Option<&Shape<'_>>) -> String {
        let missing = self.conversation.missing.as_deref().unwrap_or_default();
        let mut whole = self.whole(shape, missing, self.settings.wrap);
        let so_far = &self.conversation.so_far;
        let begun = if whole.starts_with(so_far.as_str()) { so_far } else { so_far.trim_end() };
        let is_onward = whole.starts_with(begun);
        let is_json = shape.is_some() && !self.settings.refuse && !so_far.trim().is_empty();
        if is_json
            && (self.settings.continues_afresh || !is_onward)
            && let (Some(said), Some((all, _))) = (afresh::said(so_far), knit::repair(&whole))
        {
            return self.afresh(all, &said);
        }
        if is_onward { whole.split_off(begun.len()) } else { whole }
    }

    /// A new object with what is left of the answer, and of what was repaired of it.
    fn afresh(&self, mut all: Value, said: &Value) -> String {
        let begun = afresh::begun(&all, said);
        if self.conversation.missing.is_none() && !begun.is_empty() {
            let names: Vec<&str> = begun.iter().map(String::as_str).collect();
            let shape = Shape::missing(Shape::asked(self.request.content.as_ref()).as_ref(), &names);
            let besides = serde_json::from_str(&self.whole(Some(&shape), &names, None)).unwrap_or_default();
            afresh::with_begun(&mut all, said, besides);
        }
        let rest = afresh::rest(all, said);
        let around = self.settings.wrap.filter(|wrap| matches!(wrap, Wrap::Fence | Wrap::Prose));
        wrapped(format!("{rest:#}\n"), around, "")
    }
}

/// The marker of one call: the same for its continuations and repairs, another for every other prompt.
fn call_mark(model: &str, hash: u64) -> String {
    let is_plain = |c: char| !c.is_control() && c != '"' && c != '\\';
    let name: String = model.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!("[{name}/{:08x}]", mix(hash) >> 32)
}

fn wrapped(json: String, wrap: Option<Wrap>, task: &str) -> String {
    let inside = |key: &str| format!("{{\n{}: {json}}}\n", Value::from(key));
    match wrap {
        None => json,
        Some(Wrap::Content) => inside("content"),
        Some(Wrap::DocumentKey) => inside(&task.replace(' ', "_")),
        Some(Wrap::Fence) => format!("```json\n{json}```\n"),
        Some(Wrap::Prose) => format!("Here is the JSON you asked for:\n\n{json}\nI hope this helps.\n"),
    }
}

fn finish<'a>(text: &'a str, request: &Request, settings: &Settings, is_json: bool) -> (&'a str, FinishReason) {
    if settings.refuse {
        return (text, FinishReason::ContentFilter);
    }
    // What it thinks before its first word takes of the room for its words.
    let room = request.max_output_tokens.saturating_sub(settings.thinks_tokens);
    let cut = tokenizer::cut(text, settings.cut_after_tokens.map_or(room, |n| n.min(room)));
    if cut.len() < text.len() {
        return (cut, FinishReason::Length);
    }
    if is_json && settings.malformed_json.strikes(request.call_no) {
        return (tokenizer::cut(text, tokens(text) * 2 / 3), FinishReason::Stop);
    }
    (text, FinishReason::Stop)
}

/// A digest of what the answer depends on.
fn digest(request: &Request, turn: &[Message], seed: u64) -> u64 {
    let mut hash = fnv_words(FNV_BASIS_64 ^ seed, request.model.as_bytes());
    for message in turn {
        hash = fnv_words(fnv_words(hash, &[0xff, message.role as u8]), message.content.as_bytes());
    }
    if let Some(content) = &request.content {
        hash = fnv_words(fnv_words(hash, &[0xfe]), content.to_string().as_bytes());
    }
    hash
}

/// The finaliser of splitmix64: neighbouring numbers become unlike.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
