//! Decides the class and the message of a failure: a response that is not an answer, or a connection that failed.

use super::transport::CurrentCall;
use super::{CallError, seconds};
use crate::cancel::CancelToken;
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

/// How much of an error response is read.
const MAX_ERROR_BYTES: u64 = 64 << 10;
/// The longest pause between bytes of an error response.
const ERROR_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// How messages are framed in a successful response. Another content type, such as an HTML page, is a failure.
pub(super) fn framing(dialect: Dialect, headers: &HeaderMap) -> Result<Framing, CallError> {
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match (kind.to_ascii_lowercase().as_str(), dialect) {
        ("application/x-ndjson" | "application/jsonl" | "application/json", Dialect::Ollama) => Ok(Framing::Lines),
        ("text/event-stream" | "", Dialect::Ollama) => Ok(Framing::Lines),
        ("text/event-stream" | "", _) => Ok(Framing::Events),
        ("application/json", _) => Ok(Framing::Whole),
        _ => {
            let message = format!("the provider answered with {kind}, which is not how an answer is sent");
            Err(CallError::new(Class::Transient, message))
        }
    }
}

/// The fault that a response with an error status reports.
pub(super) fn rejection(
    dialect: Dialect,
    mut response: Response<Body>,
    current: &CurrentCall,
    settings: &Manner,
) -> Fault {
    current.set_read_timeout(seconds(settings.silence_seconds).min(ERROR_READ_TIMEOUT));
    let status = response.status().as_u16();
    let target = response.headers().get("location").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    // The status is enough where the body cannot be read.
    let _ = response.body_mut().with_config().limit(u64::MAX).reader().take(MAX_ERROR_BYTES).read_to_end(&mut body);
    let text = String::from_utf8_lossy(&body);
    match (parse(&text), target) {
        (_, Some(target)) if (300..400).contains(&status) => {
            Fault::of_status(Some(status), format!("the provider redirects to {target}, which is not followed"))
        }
        (Some(body), _) => dialect.fault(Some(status), &body),
        (None, _) => Fault::of_status(Some(status), format!("status {status}: {}", printable(&text))),
    }
}

/// What a failure of the connection means, before or during the answer.
pub(super) fn classify(error: &ureq::Error, cancel: &CancelToken, settings: &Manner, is_answering: bool) -> CallError {
    if cancel.is_cancelled() {
        return CallError::Cancelled;
    }
    let transient = |message: String| CallError::new(Class::Transient, message);
    match error {
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            transient(format!("no connection within {} s", settings.connect_seconds))
        }
        ureq::Error::Timeout(Timeout::PerRead) if is_answering => {
            transient(format!("the provider fell silent for {} s", settings.silence_seconds))
        }
        ureq::Error::Timeout(Timeout::PerRead) => {
            transient(format!("no answer within {} s", settings.first_byte_seconds))
        }
        ureq::Error::Timeout(_) => transient(format!("the call took longer than {} s", settings.call_seconds)),
        ureq::Error::Other(refusal) => CallError::configuration(refusal.to_string()),
        ureq::Error::BadUri(uri) => {
            CallError::configuration(format!("the address of the provider cannot be read: {uri}"))
        }
        ureq::Error::Http(_) => {
            CallError::configuration("the request cannot be sent: its address or a header is not valid")
        }
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
            CallError::configuration(format!("no trust in the provider: {error}"))
        }
        ureq::Error::Io(cause) if is_tls_error(cause) => {
            CallError::configuration(format!("no trust in the provider: {cause}"))
        }
        error => transient(format!("the connection broke: {error}")),
    }
}

/// Whether the connection failed, rather than a timeout, an address or the request.
pub(super) fn is_connection_error(error: &ureq::Error) -> bool {
    !matches!(error, ureq::Error::Timeout(_) | ureq::Error::Other(_) | ureq::Error::BadUri(_) | ureq::Error::Http(_))
}

/// An untrusted certificate is reported as an I/O error of the stream.
fn is_tls_error(problem: &std::io::Error) -> bool {
    problem.kind() == std::io::ErrorKind::InvalidData
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
