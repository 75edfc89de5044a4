//! Whom a connection trusts: the certificates that the platform does, and those of one more file.

use super::Route;
use crate::worker::pool::lock;
use std::sync::{Arc, Mutex};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// What the platform trusts, read when it is first needed.
static PLATFORM: Mutex<Option<Arc<Vec<Certificate<'static>>>>> = Mutex::new(None);

/// How a provider is trusted; one that is spoken to in the open needs no trust.
pub(super) fn tls(route: &Route) -> Result<TlsConfig, String> {
    if !route.provider.base_url.starts_with("https:") {
        return Ok(TlsConfig::default());
    }
    let mut trusted = Arc::clone(lock(&PLATFORM).get_or_insert_with(|| Arc::new(of_platform())));
    if let Some(path) = &route.policy.ca_file {
        Arc::make_mut(&mut trusted).extend(of_file(path)?);
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::Specific(trusted)).build())
}

fn of_platform() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs();
    found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}

fn of_file(path: &str) -> Result<Vec<Certificate<'static>>, String> {
    let unreadable = |problem: String| format!("dialectic.ca_file cannot be read: {problem}");
    let pem = std::fs::read(path).map_err(|problem| unreadable(problem.to_string()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|problem| unreadable(problem.to_string()))? {
            certificates.push(certificate);
        }
    }
    if certificates.is_empty() {
        return Err(unreadable("it has no certificate".to_owned()));
    }
    Ok(certificates)
}
