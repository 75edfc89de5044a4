//! Decides whether an address may be called: what the list of allowed hosts admits, and what is no place for a
//! provider.
//!
//! A private, loopback or link-local address is admitted only where its host is listed by name: a star is no name.
//! Never resolves a name; whoever does asks here about every address, and connects to the address that was asked about.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address may not be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The list does not admit the host.
    Host(String),
    /// The address is not of the public net, and the host is not listed by name.
    Private(String, IpAddr),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Host(host) => write!(f, "host \"{host}\" is not in dialectic.allowed_hosts"),
            Refusal::Private(host, address) => write!(
                f,
                "host \"{host}\" has the address {address}, which is not public: list the host by name in dialectic.allowed_hosts"
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// Whether a list of hosts, separated by commas, admits this address of this host. `*` admits all that is public,
/// `*.example.org` every host below.
pub fn admit(allowed: &str, host: &str, address: IpAddr) -> Result<(), Refusal> {
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase();
    let mut by_star = false;
    for entry in allowed.split(',').map(|entry| entry.trim().to_ascii_lowercase()).filter(|entry| !entry.is_empty()) {
        let is_named = match entry.strip_prefix("*.") {
            Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            None => entry == host,
        };
        if is_named {
            return Ok(());
        }
        by_star |= entry == "*";
    }
    match (by_star, is_public(address)) {
        (false, _) => Err(Refusal::Host(host)),
        (true, false) => Err(Refusal::Private(host, address)),
        (true, true) => Ok(()),
    }
}

/// Whether the list admits a host of which only the name is known, because a proxy looks it up. A name that cannot be
/// of the public net has to be listed.
pub fn admit_name(allowed: &str, host: &str) -> Result<(), Refusal> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return admit(allowed, host, address);
    }
    let is_local = !bare.trim_end_matches('.').contains('.') || bare.to_ascii_lowercase().ends_with(".localhost");
    let anywhere = if is_local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(1, 1, 1, 1) };
    admit(allowed, host, anywhere.into())
}

/// Whether an address is of the public net.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        // Shared by carriers, kept for protocols, for benchmarks, and for later.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240;
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // An old address in a new coat is judged as what it is.
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let segments = address.segments();
    if segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] || segments[0] == 0x2002 {
        let at = if segments[0] == 0x2002 { 1 } else { 6 };
        let (high, low) = (segments[at].to_be_bytes(), segments[at + 1].to_be_bytes());
        return is_public_v4(Ipv4Addr::new(high[0], high[1], low[0], low[1]));
    }
    // All else that is public is below 2000::/3; of that, documentation and the tunnels of 2001::/23 are not.
    let is_global = segments[0] & 0xe000 == 0x2000;
    let is_special = (segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xdb8)) || segments[0] == 0x3fff;
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(allowed: &str, host: &str, address: &str) -> bool {
        admit(allowed, host, address.parse().unwrap()).is_ok()
    }

    #[test]
    fn a_star_admits_the_public_net_and_nothing_else() {
        assert!(asked("*", "api.example.org", "93.184.216.34"));
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "::127.0.0.1",
        ] {
            assert!(!asked("*", "api.example.org", private), "{private}");
        }
        assert!(asked("*", "api.example.org", "2606:4700::1111"));
    }

    #[test]
    fn a_host_that_is_listed_by_name_may_be_anywhere() {
        assert!(asked("*, localhost", "localhost", "127.0.0.1"));
        assert!(asked("127.0.0.1", "127.0.0.1", "127.0.0.1"));
        assert!(asked("::1", "[::1]", "::1"));
        assert!(asked("*.internal", "models.internal", "10.0.0.7"));
        assert!(!asked("*.internal", "internal", "10.0.0.7"));
        assert!(!asked("*.internal", "evil-internal", "10.0.0.7"));
        assert!(asked("API.Example.org", "api.example.org.", "93.184.216.34"));
    }

    #[test]
    fn behind_a_proxy_a_name_is_judged_by_itself() {
        assert_eq!(admit_name("*", "api.example.org"), Ok(()));
        assert_eq!(admit_name("models.internal", "models.internal"), Ok(()));
        for host in ["localhost", "a.localhost", "gateway", "10.0.0.1", "[::1]", "169.254.169.254"] {
            assert!(admit_name("*", host).is_err(), "{host}");
            assert_eq!(admit_name(&format!("*, {}", host.trim_matches(['[', ']'])), host), Ok(()));
        }
        assert!(admit_name("api.openai.com", "api.example.org").is_err());
    }

    #[test]
    fn a_list_without_a_star_admits_only_what_it_names() {
        assert!(!asked("api.openai.com", "api.example.org", "93.184.216.34"));
        assert!(!asked("", "api.example.org", "93.184.216.34"));
        let refusal = admit("*", "here", IpAddr::from([127, 0, 0, 1])).unwrap_err();
        assert!(refusal.to_string().contains("dialectic.allowed_hosts"));
    }
}
