//! Resolves hosts and checks every address against `dialectic.allowed_hosts` before it is connected to.

use super::Route;
use dialectic_core::egress::{admit, admit_name, is_public};
use std::net::{IpAddr, SocketAddr};
use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Resolves the hosts of one provider.
#[derive(Debug)]
pub(super) struct CheckedResolver {
    pub(super) allowed_hosts: String,
    /// The proxy of the server's settings, which is not checked.
    pub(super) proxy_host: Option<String>,
    /// Whether a secret is sent, which must not go over the internet unencrypted.
    pub(super) has_secret: bool,
    pub(super) resolver: DefaultResolver,
}

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let host = uri.host().unwrap_or_default();
        let found = match literal_address(uri, host) {
            Some(address) => {
                let mut found = self.empty();
                found.push(address);
                found
            }
            None => self.resolver.resolve(uri, config, timeout)?,
        };
        if self.proxy_host.as_deref() == Some(host) {
            return Ok(found);
        }
        for address in &found {
            admit(&self.allowed_hosts, host, address.ip()).map_err(|refusal| Error::Other(Box::new(refusal)))?;
            if self.has_secret && uri.scheme_str() == Some("http") && is_public(address.ip()) {
                return Err(Error::Other(unencrypted_secret(host).into()));
            }
        }
        Ok(found)
    }
}

/// Checks a call that goes through a proxy: the proxy resolves the host, so only its name can be checked, and a secret
/// needs https.
pub(super) fn check_proxied(route: &Route) -> Result<(), String> {
    if route.policy.proxy.is_none() {
        return Ok(());
    }
    let uri: Uri =
        route.provider.base_url.parse().map_err(|_| "the address of the provider cannot be read".to_owned())?;
    let host = uri.host().unwrap_or_default();
    admit_name(&route.policy.allowed_hosts, host).map_err(|refusal| refusal.to_string())?;
    match (uri.scheme_str(), &route.provider.secret) {
        (Some("http"), Some(_)) => Err(unencrypted_secret(host)),
        _ => Ok(()),
    }
}

fn unencrypted_secret(host: &str) -> String {
    format!("the secret would travel unencrypted to {host}: use https")
}

/// The address of a host that is written as one.
fn literal_address(uri: &Uri, host: &str) -> Option<SocketAddr> {
    let address: IpAddr = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    let default = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    Some((address, uri.port_u16().unwrap_or(default)).into())
}
