//! Looking up hosts: every address is asked about before it is connected to, and no other is connected to.

use super::Route;
use dialectic_core::egress::{admit, admit_name, is_public};
use std::net::IpAddr;
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Looks up the hosts of one provider.
#[derive(Debug)]
pub(super) struct Addresses {
    pub(super) allowed_hosts: String,
    /// A host that was chosen by a superuser and is asked about no further.
    pub(super) proxy: Option<String>,
    /// Whether a secret is sent, which must not travel in the open.
    pub(super) has_secret: bool,
    pub(super) resolver: DefaultResolver,
}

impl Resolver for Addresses {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().unwrap_or_default();
        let found = match literal(uri, host) {
            Some(address) => {
                let mut found = self.empty();
                found.push(address);
                found
            }
            None => self.resolver.resolve(uri, config, timeout)?,
        };
        if self.proxy.as_deref() == Some(host) {
            return Ok(found);
        }
        for address in &found {
            admit(&self.allowed_hosts, host, address.ip()).map_err(|refusal| Error::Other(Box::new(refusal)))?;
            if self.has_secret && uri.scheme_str() == Some("http") && is_public(address.ip()) {
                return Err(Error::Other(in_the_open(host).into()));
            }
        }
        Ok(found)
    }
}

/// What is checked before a connection is looked for: a proxy looks hosts up where nobody here can see it, and a secret
/// must not travel in the open.
pub(super) fn check(route: &Route) -> Result<(), String> {
    if route.policy.proxy.is_none() {
        return Ok(());
    }
    let uri: Uri =
        route.provider.base_url.parse().map_err(|_| "the address of the provider cannot be read".to_owned())?;
    let host = uri.host().unwrap_or_default();
    admit_name(&route.policy.allowed_hosts, host).map_err(|refusal| refusal.to_string())?;
    match (uri.scheme_str(), &route.provider.secret) {
        (Some("http"), Some(_)) => Err(in_the_open(host)),
        _ => Ok(()),
    }
}

fn in_the_open(host: &str) -> String {
    format!("the secret would travel unencrypted to {host}: use https")
}

/// The address of a host that is one already.
fn literal(uri: &Uri, host: &str) -> Option<std::net::SocketAddr> {
    let address: IpAddr = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    Some((address, uri.port_u16().unwrap_or(default)).into())
}
