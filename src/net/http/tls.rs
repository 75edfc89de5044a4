//! Decides which certificate authorities a connection trusts: those of the platform, and those of `dialectic.ca_file`.
//!
//! Certificates that are not of an authority are never trusted, nor is the snakeoil certificate of Debian's ssl-cert:
//! its private key is in every image that was built with it.

use super::Route;
use crate::lock;
use dialectic_core::certificate::is_authority;
use std::sync::{Arc, Mutex};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

const SNAKEOIL: &str = "/etc/ssl/certs/ssl-cert-snakeoil.pem";

/// The authorities of the platform, read when first needed.
static PLATFORM: Mutex<Option<Arc<Vec<Certificate<'static>>>>> = Mutex::new(None);

/// The TLS settings for a provider; plain HTTP needs none.
pub(super) fn config(route: &Route) -> Result<TlsConfig, String> {
    if !route.provider.base_url.starts_with("https:") {
        return Ok(TlsConfig::default());
    }
    let mut trusted = Arc::clone(lock(&PLATFORM).get_or_insert_with(|| Arc::new(platform_authorities())));
    if let Some(path) = &route.policy.ca_file {
        Arc::make_mut(&mut trusted).extend(file_authorities(path)?);
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::Specific(trusted)).build())
}

fn platform_authorities() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs();
    authorities(found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()))
}

fn file_authorities(path: &str) -> Result<Vec<Certificate<'static>>, String> {
    let unreadable = |problem: String| format!("dialectic.ca_file cannot be read: {problem}");
    let pem = std::fs::read(path).map_err(|problem| unreadable(problem.to_string()))?;
    let found = authorities(certificates(&pem).map_err(unreadable)?);
    if found.is_empty() {
        return Err(unreadable("it has no certificate of an authority (CA)".to_owned()));
    }
    Ok(found)
}

/// The certificates that may be trusted.
fn authorities(certificates_found: impl IntoIterator<Item = Certificate<'static>>) -> Vec<Certificate<'static>> {
    let snakeoil = std::fs::read(SNAKEOIL).map(|pem| certificates(&pem).unwrap_or_default()).unwrap_or_default();
    let is_trusted = |certificate: &Certificate<'static>| {
        is_authority(certificate.der()) && !snakeoil.iter().any(|known| known.der() == certificate.der())
    };
    certificates_found.into_iter().filter(is_trusted).collect()
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|problem| problem.to_string())? {
            found.push(certificate);
        }
    }
    Ok(found)
}
