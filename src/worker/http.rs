//! One call over HTTP: bytes out, bytes in, an outcome. Runs on call threads and never touches Postgres.
//!
//! Connections are kept alive, one pool for each provider. No redirect is followed, no proxy is taken from the
//! environment, and every address is asked about (`address`). A secret is resolved for the call and taken out of all
//! that comes back. What the bytes mean is decided by the core.

mod address;
mod line;
mod meaning;
mod trust;

use crate::store::catalog::Provider;
use crate::worker::pool::lock;
use crate::worker::secret;
use crate::worker::stop::Stop;
use crate::worker::tail::Tail;
use address::Addresses;
use dialectic_core::breaker;
use dialectic_core::provider::dialect::{Dialect, Event, Key, Wire};
use dialectic_core::provider::fault::Fault;
use dialectic_core::provider::patience::patience;
use dialectic_core::provider::reader::Reader;
use dialectic_core::provider::redact::Redactor;
use dialectic_core::provider::traits::{Manner, Traits};
use dialectic_core::provider::transcript::Transcript;
use dialectic_core::provider::{Class, Outcome, Request};
use dialectic_core::tokens::Measure;
use line::{Lines, OnCall};
use meaning::{framing, is_broken, refused, trouble};
use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body};

/// The longest message that is kept of a failure, in characters.
const MESSAGE: usize = 1000;
/// How long the end of a response is waited for when all has been said.
const FAREWELL: Duration = Duration::from_secs(2);
/// Connections that are kept for a provider.
const KEPT: usize = 1024;
/// How long a connection is kept that nobody uses.
const KEPT_FOR: Duration = Duration::from_secs(50);
const BUFFER: usize = 16 << 10;

/// What the server allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) allowed_hosts: String,
    pub(crate) secret_prefixes: String,
    pub(crate) proxy: Option<String>,
    pub(crate) ca_file: Option<String>,
}

/// Where a call goes and what is allowed on the way.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    pub(crate) provider: Arc<Provider>,
    pub(crate) policy: Arc<Policy>,
    /// How the tokens of the model are counted where the provider does not say.
    pub(crate) measure: Measure,
}

/// What came of a call.
pub(crate) struct Heard {
    pub(crate) outcome: Outcome,
    pub(crate) first_byte: Option<Instant>,
    pub(crate) http_status: Option<u16>,
    /// How long the provider wants to be left alone, though the call went well.
    pub(crate) rest: Option<Duration>,
    /// Whether the provider is to blame for the failure.
    pub(crate) is_strike: bool,
}

impl From<Outcome> for Heard {
    fn from(outcome: Outcome) -> Self {
        Heard { outcome, first_byte: None, http_status: None, rest: None, is_strike: false }
    }
}

/// The connections to all providers.
#[derive(Default)]
pub(crate) struct Http {
    agents: Mutex<HashMap<String, Kept>>,
}

/// The connections to one provider, and for whom they are good.
struct Kept {
    provider: Arc<Provider>,
    policy: Arc<Policy>,
    agent: Agent,
}

/// Why there is no answer.
enum Trouble {
    /// Something went wrong, with the provider or on the way to it.
    Fault(Fault),
    /// Somebody has ended the call.
    Stopped,
}

impl Http {
    /// Makes a call; all that is said goes to the tail as it comes.
    pub(crate) fn call(&self, request: &Request, route: &Route, stop: &Arc<Stop>, tail: &Tail) -> Heard {
        let mut call = Call::default();
        let trouble = self.converse(request, route, stop, tail, &mut call).err();
        let measure = &route.measure;
        let estimate = |text: &str| (measure.messages(&request.messages), measure.text(text));
        let is_stopped = matches!(trouble, Some(Trouble::Stopped));
        if let Some(trouble) = trouble {
            call.transcript.take(Event::Fault(match trouble {
                Trouble::Fault(fault) => fault,
                Trouble::Stopped => Fault::new(Class::Transient, "the call was stopped"),
            }));
        }
        let outcome = clean(call.transcript.outcome(call.status, estimate), call.redactor.as_ref());
        // An answer that broke off is known as such only here.
        let is_strike = !is_stopped && matches!(&outcome, Outcome::Failure { class, .. } if breaker::counts(*class));
        Heard { outcome, first_byte: call.first_byte, http_status: call.status, rest: call.rest, is_strike }
    }

    fn converse(
        &self,
        request: &Request,
        route: &Route,
        stop: &Arc<Stop>,
        tail: &Tail,
        call: &mut Call,
    ) -> Result<(), Trouble> {
        let provider = &route.provider;
        let misconfigured = |problem: String| Trouble::Fault(Fault::new(Class::Configuration, problem));
        let traits = Traits::read(&request.settings).map_err(|problem| Trouble::Fault(Fault::of_model(problem)))?;
        let dialect = Dialect::of(&provider.api, &traits)
            .ok_or_else(|| misconfigured(format!("api \"{}\" is not known", provider.api)))?;
        let secret = match &provider.secret {
            Some(reference) => Some(secret::resolve(reference, &route.policy.secret_prefixes).map_err(misconfigured)?),
            None => None,
        };
        call.redactor = secret.as_deref().map(Redactor::new);
        let wire = dialect.wire(request, &traits);
        let body = serde_json::to_vec(&wire.body).map_err(|problem| misconfigured(problem.to_string()))?;
        address::check(route).map_err(misconfigured)?;
        let agent = self.agent(route)?;
        let manner = &provider.manner;
        let mut on_call = OnCall::begin(stop, seconds(manner.first_byte_seconds));
        let mut sent = send(&agent, provider, &wire, secret.as_deref(), &body);
        while sent.as_ref().is_err_and(is_broken) && on_call.is_unseen() && !stop.is_asked() {
            // The provider had closed a connection that was kept: it never saw the request. The next may be closed as
            // well, until none is left and a new one is made.
            drop(on_call);
            on_call = OnCall::begin(stop, seconds(manner.first_byte_seconds));
            sent = send(&agent, provider, &wire, secret.as_deref(), &body);
        }
        let response = match sent {
            Ok(response) => response,
            Err(problem) => {
                // Whoever ends a call does not get for nothing what the provider reads meanwhile.
                if stop.is_asked() && on_call.is_sent() {
                    call.transcript.cut();
                }
                return Err(trouble(&problem, stop, manner, false));
            }
        };
        let status = response.status().as_u16();
        call.status = Some(status);
        let headers = pairs(response.headers());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let asked = patience(status, &headers, now);
        if !response.status().is_success() {
            let mut fault = refused(dialect, status, response, &on_call, manner);
            fault.retry_after_ms = asked.map(milliseconds).or(fault.retry_after_ms);
            return Err(Trouble::Fault(fault));
        }
        call.rest = asked;
        let framing = framing(dialect, response.headers())?;
        let reader = Reader::new(dialect, framing, usize::try_from(manner.max_response_bytes).unwrap_or(usize::MAX));
        let mut listener = Listener { call, tail };
        listen(response, reader, manner, &on_call, stop, &mut listener)
    }

    /// The connections of a provider; others when it, or what is allowed, has changed.
    fn agent(&self, route: &Route) -> Result<Agent, Trouble> {
        let mut agents = lock(&self.agents);
        if let Some(kept) = agents.get(&route.provider.name)
            && kept.provider == route.provider
            && kept.policy == route.policy
        {
            return Ok(kept.agent.clone());
        }
        let agent = connect(route).map_err(|problem| Trouble::Fault(Fault::new(Class::Configuration, problem)))?;
        let (provider, policy) = (Arc::clone(&route.provider), Arc::clone(&route.policy));
        let kept = Kept { provider, policy, agent: agent.clone() };
        agents.insert(route.provider.name.clone(), kept);
        Ok(agent)
    }
}

/// What is known of a call so far.
#[derive(Default)]
struct Call {
    /// Takes the secret out of all that came back.
    redactor: Option<Redactor>,
    transcript: Transcript,
    first_byte: Option<Instant>,
    rest: Option<Duration>,
    status: Option<u16>,
}

/// Takes in what is heard, the text of it without the secret.
struct Listener<'a> {
    call: &'a mut Call,
    tail: &'a Tail,
}

impl Listener<'_> {
    fn take(&mut self, event: Event) {
        let event = match (event, &mut self.call.redactor) {
            (Event::Text(text), Some(redactor)) => Event::Text(redactor.push(&text)),
            (event, _) => event,
        };
        if let Event::Text(text) = &event {
            self.tail.push(text);
        }
        self.call.transcript.take(event);
    }

    /// What the redactor has held back.
    fn end(&mut self) {
        if let Some(rest) = self.call.redactor.as_mut().map(Redactor::end) {
            self.tail.push(&rest);
            self.call.transcript.take(Event::Text(rest));
        }
    }
}

/// The outcome without the secret in any of its words, which are cut to size only then. Its text has been cleaned as it
/// came.
fn clean(outcome: Outcome, redactor: Option<&Redactor>) -> Outcome {
    let clean = |text: String| {
        let text = redactor.map_or(text.clone(), |redactor| redactor.whole(&text));
        text.chars().take(MESSAGE).collect::<String>()
    };
    match outcome {
        Outcome::Answer { text, finish_reason, finish_raw, usage } => {
            Outcome::Answer { text, finish_reason, finish_raw: finish_raw.map(clean), usage }
        }
        Outcome::Failure { class, message, retry_after_ms, http_status, scope, usage } => {
            Outcome::Failure { class, message: clean(message), retry_after_ms, http_status, scope, usage }
        }
    }
}

fn connect(route: &Route) -> Result<Agent, String> {
    let manner = &route.provider.manner;
    let proxy = match &route.policy.proxy {
        Some(address) => {
            Some(ureq::Proxy::new(address).map_err(|_| "dialectic.proxy is no address of a proxy".to_owned())?)
        }
        None => None,
    };
    let addresses = Addresses {
        allowed_hosts: route.policy.allowed_hosts.clone(),
        proxy: proxy.as_ref().map(|proxy| proxy.host().to_owned()),
        has_secret: route.provider.secret.is_some(),
        resolver: Default::default(),
    };
    let config = Agent::config_builder()
        .proxy(proxy)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("pg_dialectic/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .input_buffer_size(BUFFER)
        .output_buffer_size(BUFFER)
        .max_idle_connections(KEPT)
        .max_idle_connections_per_host(KEPT)
        .max_idle_age(KEPT_FOR)
        .timeout_resolve(Some(seconds(manner.connect_seconds)))
        .timeout_connect(Some(seconds(manner.connect_seconds)))
        .timeout_global(Some(seconds(manner.call_seconds)))
        .tls_config(trust::tls(route)?)
        .build();
    Ok(Agent::with_parts(config, Lines::default(), addresses))
}

fn send(
    agent: &Agent,
    provider: &Provider,
    wire: &Wire,
    secret: Option<&str>,
    body: &[u8],
) -> Result<Response<Body>, ureq::Error> {
    let mut address = format!("{}{}", provider.base_url, wire.path);
    for (name, value) in &provider.manner.query {
        let mark = if address.contains('?') { '&' } else { '?' };
        address.push_str(&format!("{mark}{}={}", encoded(name), encoded(value)));
    }
    let mut request = agent.post(address).header("content-type", "application/json").header("accept", "*/*");
    for (name, value) in &wire.headers {
        request = request.header(*name, *value);
    }
    for (name, value) in &provider.manner.headers {
        request = request.header(name, value);
    }
    if let Some(secret) = secret {
        request = match (&provider.manner.auth_header, wire.key) {
            (Some(name), _) => request.header(name, secret),
            (None, Key::Header(name)) => request.header(name, secret),
            (None, Key::Bearer) => request.header("authorization", format!("Bearer {secret}")),
        };
    }
    request.send(body)
}

/// Hears a response to its end.
fn listen(
    mut response: Response<Body>,
    mut reader: Reader,
    manner: &Manner,
    on_call: &OnCall,
    stop: &Stop,
    listener: &mut Listener,
) -> Result<(), Trouble> {
    let mut source = response.body_mut().with_config().limit(u64::MAX).reader();
    let mut buffer = [0u8; BUFFER];
    let mut total = 0u64;
    let mut ended: Option<Instant> = None;
    on_call.be_patient(seconds(manner.first_byte_seconds));
    let broken = loop {
        match source.read(&mut buffer) {
            Ok(0) => break None,
            Ok(read) => {
                listener.call.first_byte.get_or_insert_with(Instant::now);
                total += read as u64;
                if total > manner.max_response_bytes {
                    let message = format!("the answer is larger than {} bytes", manner.max_response_bytes);
                    listener.end();
                    return Err(Trouble::Fault(Fault::new(Class::Transient, message)));
                }
                for event in reader.push(&buffer[..read]) {
                    listener.take(event);
                }
                if listener.call.transcript.is_ended() {
                    // Whoever goes on sending when all is said is not listened to for long.
                    if ended.get_or_insert_with(Instant::now).elapsed() > FAREWELL {
                        break None;
                    }
                    on_call.be_patient(FAREWELL);
                } else {
                    on_call.be_patient(seconds(manner.silence_seconds));
                }
            }
            Err(problem) if problem.kind() == std::io::ErrorKind::Interrupted => {}
            Err(problem) => break Some(ureq::Error::from(problem)),
        }
    };
    for event in reader.end() {
        listener.take(event);
    }
    listener.end();
    let trouble = match broken {
        // What comes after the end is nobody's loss.
        _ if listener.call.transcript.is_ended() => return Ok(()),
        None if stop.is_asked() => Trouble::Stopped,
        None => return Ok(()),
        Some(problem) => trouble(&problem, stop, manner, true),
    };
    listener.call.transcript.cut();
    Err(trouble)
}

/// A name or a value as an address can carry it.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
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
