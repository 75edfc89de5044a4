//! The cases of the conformance suite: what a provider does, and what has to come of it, in each dialect.
//!
//! Every case says something of every dialect; where the dialects differ, the difference is here. A provider that has failed
//! answers well the second time, so that what is tried again is seen to succeed. Never touches a database or a socket.

use dialectic_core::provider::Outcome;
use dialectic_core::provider::dialect::Dialect;
use dialectic_core::provider::reader::Reader;
use dialectic_core::provider::stream::Framing;
use dialectic_core::provider::transcript::Transcript;
use dialectic_tests::fake_provider::{Act, Answer, End, Tells, Wait, fixture};
use std::fmt;
use std::time::Duration;

/// What the provider says once it is well.
pub(crate) const WELL: &str = "All is well that ends well.";
/// How long a 429 asks for: longer than the queue is waited for, so that the clock is seen where it stands.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// The settings of a provider that nothing is the matter with.
const PATIENT: &str = "{}";

/// What came, or has to come, of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The status of the job.
    pub(crate) job: String,
    /// The attempts it was charged.
    pub(crate) attempts: i32,
    /// Its calls in order: outcome, class, status of the response, finish reason, whether its usage is an estimate.
    pub(crate) calls: Vec<String>,
    /// What became of the provider's clock.
    pub(crate) clock: String,
    /// The last chunk of the answer that was kept.
    pub(crate) text: Option<String>,
}

impl fmt::Display for Row {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { job, attempts, calls, clock, text } = self;
        write!(out, "{job}, {attempts} charged: {}; clock {clock}", calls.join(" → "))?;
        match text.as_deref() {
            None => Ok(()),
            Some(WELL) => write!(out, "; well"),
            Some(text) => write!(out, "; {} characters", text.chars().count()),
        }
    }
}

/// A case.
pub(crate) struct Case {
    pub(crate) name: String,
    /// Settings of the provider.
    pub(crate) settings: &'static str,
    pub(crate) acts: Vec<Act>,
    pub(crate) expected: Box<dyn Fn(Dialect) -> Row>,
}

fn case(name: &str, settings: &'static str, act: Act, expected: impl Fn(Dialect) -> Row + 'static) -> Case {
    Case { name: name.to_owned(), settings, acts: vec![act, Act::text(WELL)], expected: Box::new(expected) }
}

/// One call that was answered.
fn answered(call: &str, text: String) -> Row {
    Row { job: "completed".into(), attempts: 1, calls: vec![call.into()], clock: "still".into(), text: Some(text) }
}

/// A call that failed and was charged, then one that went well.
fn mended(first: &str) -> Row {
    let calls = vec![first.to_owned(), "answered 200 stop".to_owned()];
    Row { job: "completed".into(), attempts: 2, calls, clock: "still".into(), text: Some(WELL.into()) }
}

/// A call that failed and was not charged, then one that went well.
fn forgiven(first: &str) -> Row {
    Row { attempts: 1, ..mended(first) }
}

/// A call that failed and was not charged; the job is where it was.
fn held_back(call: &str, clock: &str) -> Row {
    Row { job: "pending".into(), attempts: 0, calls: vec![call.into()], clock: clock.into(), text: None }
}

/// A call that failed, and no other can help.
fn failed(call: &str) -> Row {
    Row { job: "failed".into(), attempts: 1, calls: vec![call.into()], clock: "still".into(), text: None }
}

/// What a documented stream says.
fn text_of(dialect: Dialect, name: &str) -> String {
    let file = fixture(dialect, name);
    let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let framing = if dialect == Dialect::Ollama { Framing::Lines } else { Framing::Events };
    let (mut reader, mut transcript) = (Reader::new(dialect, framing, 1 << 20), Transcript::default());
    reader.push(&bytes).into_iter().for_each(|event| transcript.take(event));
    reader.end().into_iter().for_each(|event| transcript.take(event));
    match transcript.outcome(Some(200), |_| (0, 0)) {
        Outcome::Answer { text, .. } => text,
        other => panic!("{}: {other:?}", file.display()),
    }
}

/// All of them, in the order of the table.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = vec![
        case("success", PATIENT, Act::fixture("success"), |dialect| {
            answered("answered 200 stop", text_of(dialect, "success"))
        }),
        case("length stop", PATIENT, Act::fixture("length"), |dialect| {
            answered("answered 200 length", text_of(dialect, "length"))
        }),
        // Ollama has no word for it: a word that nobody knows is no success, and is worth another try.
        case("refusal", PATIENT, Act::fixture("refusal"), |dialect| match dialect {
            Dialect::Ollama => mended("failed content 200 unknown"),
            _ => failed("failed content 200 content_filter"),
        }),
        case("tool call", PATIENT, Act::fixture("tool_call"), |_| mended("failed content 200 tool_use")),
    ];
    cases.extend(refused());
    cases.extend(throttled());
    cases.extend(broken());
    cases.extend(well());
    cases
}

/// A documented error with its status.
fn error(name: &str, file: &str, status: u16, expected: impl Fn(Dialect) -> Row + 'static) -> Case {
    case(name, PATIENT, Act::fixture(file).with_status(status), expected)
}

/// Responses that say what is wrong.
fn refused() -> Vec<Case> {
    vec![
        error("401", "error_401.json", 401, |_| held_back("failed configuration 401", "paused")),
        error("402", "error_402.json", 402, |_| held_back("failed configuration 402", "paused")),
        error("404", "error_404.json", 404, |_| held_back("failed configuration 404", "paused for the model")),
        // Ollama's says so only in words for people, and those decide nothing. Gemini's is of one model.
        error("429 quota", "error_429_quota.json", 429, |dialect| match dialect {
            Dialect::Ollama => forgiven("failed throttled 429"),
            Dialect::Google => held_back("failed configuration 429", "paused for the model"),
            _ => held_back("failed configuration 429", "paused"),
        }),
        error("500", "error_500.json", 500, |_| mended("failed transient 500")),
        error("503", "error_503.json", 503, |_| mended("failed transient 503")),
        error("529", "error_529.json", 529, |_| mended("failed transient 529")),
    ]
}

/// 429 with each form of saying when to come back. Gateways put headers before any dialect, so all of them count in all;
/// what stands in the body is Gemini's alone, and elsewhere nothing is said.
fn throttled() -> Vec<Case> {
    let one = |says: Wait| {
        let name = format!("429 {says:?}");
        case(&name, PATIENT, Act::throttled(says, PATIENCE), move |dialect| match (says, dialect) {
            (Wait::RetryInfo, Dialect::Google) => held_back("failed throttled 429", "moved by 90 s"),
            (Wait::Unsaid | Wait::RetryInfo, _) => forgiven("failed throttled 429"),
            _ => held_back("failed throttled 429", "moved by 90 s"),
        })
    };
    Wait::ALL.into_iter().map(one).collect()
}

/// Responses that do not come, or do not come whole.
fn broken() -> Vec<Case> {
    // Enough of a stream to have begun in every dialect, and before its end.
    const SOME: usize = 700;
    let long = || Act::answer(Answer::of_tokens(100));
    vec![
        case("slow first byte", r#"{"first_byte_seconds": 0.5}"#, long().late(Duration::from_secs(3600)), |_| {
            mended("failed transient")
        }),
        case("silence in mid-stream", r#"{"silence_seconds": 0.5}"#, long().end(End::Silence(SOME)), |_| {
            mended("failed transient 200")
        }),
        case("cut in order", PATIENT, long().end(End::Closed(SOME)), |_| mended("failed transient 200")),
        case("cut by a reset", PATIENT, long().end(End::Reset(SOME)), |_| mended("failed transient 200")),
        case("malformed JSON", PATIENT, long().malformed(), |_| mended("failed transient 200")),
        case("oversized body", r#"{"max_response_bytes": 100000}"#, Act::endless(), |_| mended("failed transient 200")),
        case("oversized by its length", r#"{"max_response_bytes": 100000}"#, Act::claiming(1 << 40), |_| {
            mended("failed transient 200")
        }),
        case("wrong content type", PATIENT, Act::html(), |_| mended("failed transient 200")),
        case("redirect", PATIENT, Act::redirect(), |_| held_back("failed configuration 302", "paused")),
        case("error event after 200", PATIENT, Act::fixture("error_after_200"), |_| mended("failed transient 200")),
    ]
}

/// Answers in forms that are less usual, and good all the same.
fn well() -> Vec<Case> {
    let told = |usage| Act::answer(Answer::of(WELL).usage(usage));
    vec![
        case("gzip", PATIENT, Act::text(WELL).zipped(), |_| answered("answered 200 stop", WELL.into())),
        case("usage missing", PATIENT, told(Tells::Nowhere), |_| answered("answered 200 stop estimated", WELL.into())),
        case("usage in an odd place", PATIENT, told(Tells::Oddly), |_| answered("answered 200 stop", WELL.into())),
        case("no mark at the end", PATIENT, Act::answer(Answer::of(WELL).without_done()), |_| {
            answered("answered 200 stop", WELL.into())
        }),
        case("cut anywhere", PATIENT, Act::text(WELL).in_pieces(1), |_| answered("answered 200 stop", WELL.into())),
    ]
}
