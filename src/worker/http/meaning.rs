//! What a response means that is no answer, and what a failure of the connection does: which class, in which words.

use super::line::OnCall;
use super::{Trouble, seconds};
use crate::worker::stop::Stop;
use dialectic_core::provider::Class;
use dialectic_core::provider::dialect::Dialect;
use dialectic_core::provider::fault::Fault;
use dialectic_core::provider::reader::parse;
use dialectic_core::provider::stream::Framing;
use dialectic_core::provider::traits::Manner;
use std::io::Read;
use std::time::Duration;
use ureq::http::{HeaderMap, Response};
use ureq::{Body, Timeout};

/// How much of an error is read.
const ERROR_BYTES: u64 = 64 << 10;

/// How the messages of a good response are set apart; a page for people is no answer.
pub(super) fn framing(dialect: Dialect, headers: &HeaderMap) -> Result<Framing, Trouble> {
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match (kind.to_ascii_lowercase().as_str(), dialect) {
        ("application/x-ndjson" | "application/jsonl" | "application/json", Dialect::Ollama) => Ok(Framing::Lines),
        ("text/event-stream" | "", Dialect::Ollama) => Ok(Framing::Lines),
        ("text/event-stream" | "", _) => Ok(Framing::Events),
        ("application/json", _) => Ok(Framing::Whole),
        _ => {
            let message = format!("the provider answered with {kind}, which is not how an answer is sent");
            Err(Trouble::Fault(Fault::new(Class::Transient, message)))
        }
    }
}

/// What a response that is no answer says.
pub(super) fn refused(
    dialect: Dialect,
    status: u16,
    mut response: Response<Body>,
    on_call: &OnCall,
    manner: &Manner,
) -> Fault {
    on_call.be_patient(seconds(manner.silence_seconds).min(Duration::from_secs(10)));
    let target = response.headers().get("location").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    // What cannot be read of an error is not missed.
    let _ = response.body_mut().with_config().limit(u64::MAX).reader().take(ERROR_BYTES).read_to_end(&mut body);
    let text = String::from_utf8_lossy(&body);
    match (parse(&text), target) {
        (_, Some(target)) if (300..400).contains(&status) => {
            Fault::of_status(Some(status), format!("the provider redirects to {target}, which is not followed"))
        }
        (Some(body), _) => dialect.fault(Some(status), &body),
        (None, _) => Fault::of_status(Some(status), format!("status {status}: {}", printable(&text))),
    }
}

/// What a failure of the connection means.
pub(super) fn trouble(problem: &ureq::Error, stop: &Stop, manner: &Manner, is_answering: bool) -> Trouble {
    if stop.is_asked() {
        return Trouble::Stopped;
    }
    let misconfigured = |message: String| Trouble::Fault(Fault::new(Class::Configuration, message));
    let broken = |message: String| Trouble::Fault(Fault::new(Class::Transient, message));
    match problem {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            broken(format!("no connection within {} s", manner.connect_seconds))
        }
        ureq::Error::Timeout(Timeout::PerRead) if is_answering => {
            broken(format!("the provider fell silent for {} s", manner.silence_seconds))
        }
        ureq::Error::Timeout(Timeout::PerRead) => broken(format!("no answer within {} s", manner.first_byte_seconds)),
        ureq::Error::Timeout(_) => broken(format!("the call took longer than {} s", manner.call_seconds)),
        ureq::Error::Other(refusal) => misconfigured(refusal.to_string()),
        ureq::Error::BadUri(uri) => misconfigured(format!("the address of the provider cannot be read: {uri}")),
        ureq::Error::Http(_) => {
            misconfigured("the request cannot be sent: its address or a header is not valid".to_owned())
        }
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => misconfigured(format!("no trust in the provider: {problem}")),
        ureq::Error::Io(cause) if is_of_tls(cause) => misconfigured(format!("no trust in the provider: {cause}")),
        problem => broken(format!("the connection broke: {problem}")),
    }
}

pub(super) fn is_broken(problem: &ureq::Error) -> bool {
    !matches!(problem, ureq::Error::Timeout(_) | ureq::Error::Other(_) | ureq::Error::BadUri(_) | ureq::Error::Http(_))
}

/// A certificate that is not believed comes as an error of the stream it was read from.
fn is_of_tls(problem: &std::io::Error) -> bool {
    problem.kind() == std::io::ErrorKind::InvalidData
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
