//! One call over HTTP: a request out, a result in. What the bytes mean is decided by the core.
//!
//! Connections are kept alive, one pool per provider. No redirect is followed and no proxy is taken from the
//! environment. The secret is resolved for the call and redacted from everything that comes back.

mod agent;
mod error_class;
mod request;
mod resolver;
mod response;
mod tls;
mod transport;

use crate::cancel::CancelToken;
use crate::partial_text::PartialText;
use crate::{lock, secret};
use dialectic_core::breaker;
use dialectic_core::provider::dialect::{Dialect, Event, Wire};
use dialectic_core::provider::embedding::{self, Texts};
use dialectic_core::provider::fault::Fault;
use dialectic_core::provider::reader::Reader;
use dialectic_core::provider::redact::Redactor;
use dialectic_core::provider::retry_after::retry_after;
use dialectic_core::provider::traits::Traits;
use dialectic_core::provider::transcript::Transcript;
use dialectic_core::provider::{Class, Outcome, Provider, Request};
use dialectic_core::tokens::Measure;
use error_class::{classify, framing, is_connection_error, rejection};
use request::HttpRequest;
use response::ResponseReader;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use transport::CurrentCall;
use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body};

/// The longest message of a failure, in characters.
const MAX_MESSAGE_CHARS: usize = 1000;

/// What the settings of the server allow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The hosts that may be called, comma-separated.
    pub allowed_hosts: String,
    /// How a reference to a secret must begin, comma-separated.
    pub secret_prefixes: String,
    /// The proxy for all calls.
    pub proxy: Option<String>,
    /// A file of certificate authorities to trust in addition.
    pub ca_file: Option<String>,
}

/// Where a call goes, and what is allowed on the way.
#[derive(Debug, Clone)]
pub struct Route {
    /// The provider to call.
    pub provider: Arc<Provider>,
    /// What the server allows.
    pub policy: Arc<Policy>,
    /// How tokens are counted where the provider reports none.
    pub measure: Measure,
}

/// What came of a call.
#[derive(Debug)]
pub struct CallResult {
    /// The answer or the failure.
    pub outcome: Outcome,
    /// When the first byte of the body arrived.
    pub first_byte: Option<Instant>,
    /// The status of the response, where there was one.
    pub http_status: Option<u16>,
    /// How long the provider asks to send no further call, after a call that succeeded.
    pub retry_after: Option<Duration>,
    /// Whether the failure counts against the provider.
    pub is_strike: bool,
}

impl From<Outcome> for CallResult {
    fn from(outcome: Outcome) -> Self {
        CallResult { outcome, first_byte: None, http_status: None, retry_after: None, is_strike: false }
    }
}

/// The connections to all providers.
#[derive(Default)]
pub(crate) struct Http {
    agents: Mutex<HashMap<String, CachedAgent>>,
}

/// The connections to one provider, and the settings they were made with.
struct CachedAgent {
    provider: Arc<Provider>,
    policy: Arc<Policy>,
    agent: Agent,
}

/// Why a call has no answer.
enum CallError {
    Fault(Fault),
    Cancelled,
}

impl CallError {
    fn new(class: Class, message: impl Into<String>) -> Self {
        CallError::Fault(Fault::new(class, message))
    }

    fn configuration(message: impl Into<String>) -> Self {
        CallError::new(Class::Configuration, message)
    }
}

/// What is known of a call so far.
#[derive(Default)]
struct CallState {
    redactor: Option<Redactor>,
    transcript: Transcript,
    first_byte: Option<Instant>,
    retry_after: Option<Duration>,
    status: Option<u16>,
}

impl Http {
    /// Makes a call; the text of its answer goes to `partial_text` as it arrives.
    pub(crate) fn call(
        &self,
        request: &Request,
        route: &Route,
        cancel: &Arc<CancelToken>,
        partial_text: &PartialText,
    ) -> CallResult {
        let mut state = CallState::default();
        let error = self.exchange(request, route, cancel, partial_text, &mut state).err();
        let is_cancelled = matches!(error, Some(CallError::Cancelled));
        if let Some(error) = error {
            state.transcript.take(Event::Fault(match error {
                CallError::Fault(fault) => fault,
                CallError::Cancelled => Fault::new(Class::Transient, "the call was stopped"),
            }));
        }
        let measure = &route.measure;
        let estimate = |text: &str| (request.input_tokens(measure), measure.text(text));
        let outcome = redact(state.transcript.outcome(state.status, estimate), state.redactor.as_ref());
        // The transcript alone knows that an answer broke off, so the class is read from the outcome.
        let is_strike = !is_cancelled && matches!(&outcome, Outcome::Failure { class, .. } if breaker::counts(*class));
        CallResult {
            outcome,
            first_byte: state.first_byte,
            http_status: state.status,
            retry_after: state.retry_after,
            is_strike,
        }
    }

    /// Sends the request and reads the response into `state`.
    fn exchange(
        &self,
        request: &Request,
        route: &Route,
        cancel: &Arc<CancelToken>,
        partial_text: &PartialText,
        state: &mut CallState,
    ) -> Result<(), CallError> {
        let provider = &route.provider;
        let traits = Traits::read(&request.settings).map_err(|problem| CallError::Fault(Fault::of_model(problem)))?;
        let dialect = Dialect::of(&provider.api, &traits)
            .ok_or_else(|| CallError::configuration(format!("api \"{}\" is not known", provider.api)))?;
        let prefixes = &route.policy.secret_prefixes;
        let secret = provider.secret.as_ref().map(|reference| secret::resolve(reference, prefixes)).transpose();
        let secret = secret.map_err(CallError::configuration)?;
        let redactor = secret.as_deref().map(Redactor::new).transpose();
        state.redactor = redactor.map_err(|problem| CallError::configuration(problem.to_string()))?;
        let embedded = request.embeds.map(|_| (request.messages.len(), traits.dimensions));
        let request = HttpRequest::new(provider, wire(dialect, request, &traits)?, secret)?;
        resolver::check_proxied(route).map_err(CallError::configuration)?;
        let agent = self.agent(route)?;
        let (current, response) = send(&agent, &request, provider, cancel, state)?;
        let status = response.status().as_u16();
        state.status = Some(status);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let retry_after = retry_after(status, &text_headers(response.headers()), now);
        let settings = &provider.manner;
        if !response.status().is_success() {
            let mut fault = rejection(dialect, response, &current, settings);
            fault.retry_after_ms = retry_after.map(milliseconds).or(fault.retry_after_ms);
            return Err(CallError::Fault(fault));
        }
        state.retry_after = retry_after;
        let framing = framing(dialect, response.headers())?;
        let max_bytes = usize::try_from(settings.max_response_bytes).unwrap_or(usize::MAX);
        let reader = match embedded {
            Some((count, dimensions)) => Reader::of_vectors(dialect, count, dimensions, max_bytes),
            None => Reader::new(dialect, framing, max_bytes),
        };
        ResponseReader { state, partial_text, settings, current: &current, cancel }.read(response, reader)
    }

    /// The connections of a provider; new ones when the provider or the policy has changed.
    fn agent(&self, route: &Route) -> Result<Agent, CallError> {
        let mut agents = lock(&self.agents);
        if let Some(cached) = agents.get(&route.provider.name)
            && cached.provider == route.provider
            && cached.policy == route.policy
        {
            return Ok(cached.agent.clone());
        }
        let agent = agent::build(route).map_err(CallError::configuration)?;
        let (provider, policy) = (Arc::clone(&route.provider), Arc::clone(&route.policy));
        agents.insert(route.provider.name.clone(), CachedAgent { provider, policy, agent: agent.clone() });
        Ok(agent)
    }
}

/// The request in the words of a dialect.
fn wire(dialect: Dialect, request: &Request, traits: &Traits) -> Result<Wire, CallError> {
    let Some(purpose) = request.embeds else { return Ok(dialect.wire(request, traits)) };
    let texts: Vec<String> = request.messages.iter().map(|message| message.content.clone()).collect();
    let texts = Texts { api_model: &request.api_model, texts: &texts, purpose, dimensions: traits.dimensions };
    embedding::wire(dialect, &texts).ok_or_else(|| {
        CallError::Fault(Fault::of_model(format!("the API of provider \"{}\" has no embeddings", request.api)))
    })
}

/// Sends a request, again while the provider had closed the kept connection before it saw the request.
fn send(
    agent: &Agent,
    request: &HttpRequest,
    provider: &Provider,
    cancel: &Arc<CancelToken>,
    state: &mut CallState,
) -> Result<(CurrentCall, Response<Body>), CallError> {
    let timeout = seconds(provider.manner.first_byte_seconds);
    loop {
        let current = CurrentCall::begin(cancel, timeout);
        match request.send(agent) {
            Ok(response) => return Ok((current, response)),
            // The next kept connection may be closed as well, until none is left and a new one is made.
            Err(error) if is_connection_error(&error) && current.is_unseen() && !cancel.is_cancelled() => {}
            Err(error) => {
                // A request that was sent may have been read, so cancelling it is not free.
                if cancel.is_cancelled() && current.is_sent() {
                    state.transcript.cut();
                }
                return Err(classify(&error, cancel, &provider.manner, false));
            }
        }
    }
}

/// The outcome with the secret redacted from its messages, which are cut after that. Its text was redacted on arrival.
fn redact(outcome: Outcome, redactor: Option<&Redactor>) -> Outcome {
    let redact = |text: String| {
        let text = redactor.map_or(text.clone(), |redactor| redactor.whole(&text));
        text.chars().take(MAX_MESSAGE_CHARS).collect::<String>()
    };
    match outcome {
        Outcome::Answer { text, finish_reason, finish_raw, usage } => {
            Outcome::Answer { text, finish_reason, finish_raw: finish_raw.map(redact), usage }
        }
        Outcome::Vectors { .. } => outcome,
        Outcome::Failure { class, message, retry_after_ms, http_status, scope, usage } => {
            Outcome::Failure { class, message: redact(message), retry_after_ms, http_status, scope, usage }
        }
    }
}

/// The headers whose values are text.
fn text_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let pair = |(name, value): (&ureq::http::HeaderName, &ureq::http::HeaderValue)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    };
    headers.iter().filter_map(pair).collect()
}

fn seconds(number: f64) -> Duration {
    Duration::from_secs_f64(number)
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
