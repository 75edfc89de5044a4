//! A request as it is sent: the address, headers and body of a dialect, with what the provider's settings add.

use super::CallError;
use dialectic_core::percent::percent_encoded;
use dialectic_core::provider::Provider;
use dialectic_core::provider::dialect::{Key, Wire};
use ureq::http::Response;
use ureq::{Agent, Body, Error};

pub(super) struct HttpRequest {
    address: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl HttpRequest {
    pub(super) fn new(provider: &Provider, wire: Wire, secret: Option<String>) -> Result<Self, CallError> {
        let settings = &provider.manner;
        let mut address = format!("{}{}", provider.base_url, wire.path);
        for (name, value) in &settings.query {
            let separator = if address.contains('?') { '&' } else { '?' };
            address.push_str(&format!("{separator}{}={}", percent_encoded(name), percent_encoded(value)));
        }
        let fixed = [("content-type", "application/json"), ("accept", "*/*")];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut headers: Vec<(String, String)> = fixed.into_iter().chain(wire.headers).map(owned).collect();
        headers.extend(settings.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        if let Some(secret) = secret {
            headers.push(match (&settings.auth_header, wire.key) {
                (Some(name), _) => (name.clone(), secret),
                (None, Key::Header(name)) => (name.to_owned(), secret),
                (None, Key::Bearer) => ("authorization".to_owned(), format!("Bearer {secret}")),
            });
        }
        let body = serde_json::to_vec(&wire.body).map_err(|problem| CallError::configuration(problem.to_string()))?;
        Ok(HttpRequest { address, headers, body })
    }

    pub(super) fn send(&self, agent: &Agent) -> Result<Response<Body>, Error> {
        let request = agent.post(&self.address);
        self.headers.iter().fold(request, |request, (name, value)| request.header(name, value)).send(&self.body[..])
    }
}
