//! Decides which authorities a connection trusts: those of the platform's store, and those of one more file.
//!
//! Never a certificate that is not of an authority, and never the snakeoil one of Debian's package ssl-cert: whoever
//! has the image that it was made in has its private key.

use super::Route;
use crate::worker::pool::lock;
use dialectic_core::certificate::is_authority;
use std::sync::{Arc, Mutex};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

const SNAKEOIL: &str = "/etc/ssl/certs/ssl-cert-snakeoil.pem";

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
    authorities(found.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()))
}

/// Those of the certificates that may be trusted.
fn authorities(certificates: impl IntoIterator<Item = Certificate<'static>>) -> Vec<Certificate<'static>> {
    let snakeoil = std::fs::read(SNAKEOIL).map(|pem| in_pem(&pem).unwrap_or_default()).unwrap_or_default();
    let is_trusted = |certificate: &Certificate<'static>| {
        is_authority(certificate.der()) && !snakeoil.iter().any(|known| known.der() == certificate.der())
    };
    certificates.into_iter().filter(is_trusted).collect()
}

fn in_pem(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|problem| problem.to_string())? {
            certificates.push(certificate);
        }
    }
    Ok(certificates)
}

fn of_file(path: &str) -> Result<Vec<Certificate<'static>>, String> {
    let unreadable = |problem: String| format!("dialectic.ca_file cannot be read: {problem}");
    let pem = std::fs::read(path).map_err(|problem| unreadable(problem.to_string()))?;
    let found = authorities(in_pem(&pem).map_err(unreadable)?);
    if found.is_empty() {
        return Err(unreadable("it has no certificate of an authority (CA)".to_owned()));
    }
    Ok(found)
}
