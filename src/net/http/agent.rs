//! Builds the connection pool of one provider from its settings and the policy of the server.

use super::resolver::CheckedResolver;
use super::response::BUFFER_BYTES;
use super::transport::CancellableConnector;
use super::{Route, seconds, tls};
use std::time::Duration;
use ureq::{Agent, Proxy};

/// Idle connections that are kept per provider.
const MAX_IDLE_CONNECTIONS: usize = 1024;
/// How long an idle connection is kept.
const MAX_IDLE_AGE: Duration = Duration::from_secs(50);

pub(super) fn build(route: &Route) -> Result<Agent, String> {
    let settings = &route.provider.manner;
    let proxy = route.policy.proxy.as_deref().map(Proxy::new).transpose();
    let proxy = proxy.map_err(|_| "dialectic.proxy is no address of a proxy".to_owned())?;
    let resolver = CheckedResolver {
        allowed_hosts: route.policy.allowed_hosts.clone(),
        proxy_host: proxy.as_ref().map(|proxy| proxy.host().to_owned()),
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
        .input_buffer_size(BUFFER_BYTES)
        .output_buffer_size(BUFFER_BYTES)
        .max_idle_connections(MAX_IDLE_CONNECTIONS)
        .max_idle_connections_per_host(MAX_IDLE_CONNECTIONS)
        .max_idle_age(MAX_IDLE_AGE)
        .timeout_resolve(Some(seconds(settings.connect_seconds)))
        .timeout_connect(Some(seconds(settings.connect_seconds)))
        .timeout_global(Some(seconds(settings.call_seconds)))
        .tls_config(tls::config(route)?)
        .build();
    Ok(Agent::with_parts(config, CancellableConnector::default(), resolver))
}
