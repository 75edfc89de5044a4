//! Where calls may go: no address that was not allowed is connected to, no redirect followed, no proxy of the environment asked.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Provider};
use dialectic_tests::*;
use std::net::TcpListener;

#[test]
fn a_provider_on_the_machine_itself_is_refused_before_any_connection_unless_it_is_listed() {
    let provider = Provider::start();
    provider.script("near", vec![Act::text("Come in.")]);
    let (_server, mut client) = own("", &[]);
    let port = provider.address().port();
    for (number, host) in
        ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "127.1"].into_iter().enumerate()
    {
        let name = format!("near-{number}");
        client
            .execute(&format!("select dialectic.add_provider('{name}', 'openai', 'http://{host}:{port}/v1')"), &[])
            .expect("add_provider");
        model(&mut client, &name, &name, ", 'near'");
        let session = calls(&mut client, &name, 1);
        worked(&mut client);
        let call = client
            .query_one(
                "select outcome, error_class, error_message from dialectic.model_calls where session_id = $1",
                &[&session],
            )
            .unwrap_or_else(|error| panic!("{host}: {error}"));
        let message: String = call.get(2);
        assert_eq!((call.get(0), call.get(1)), ("failed", "configuration"), "{host}: {message}");
        assert_eq!(jobs(&mut client, session), ["1 pending 0"], "{host}");
        let reason: String =
            one(&mut client, "select paused_reason from dialectic.provider_cooldowns where provider = $1", &[&name]);
        assert!(reason.contains("dialectic.allowed_hosts"), "{host}: {reason}");
    }
    assert_eq!(provider.accepted(), 0, "nobody came");
}

#[test]
fn a_redirect_is_not_followed() {
    let (provider, elsewhere, database) = (Provider::start(), Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    elsewhere.script("moved", vec![Act::text("Here.")]);
    for status in [301, 302, 303, 307, 308] {
        let name = format!("moved-{status}");
        let target = format!("{}/chat/completions", elsewhere.base_url("openai"));
        provider.script(&name, vec![Act::body(status, "text/plain", "").header("location", &target)]);
        chat(&mut client, &name, &provider, "");
        let session = calls(&mut client, &name, 1);
        work(&mut client);
        assert_eq!(jobs(&mut client, session), ["1 pending 0"], "{status}");
        let said: String = one(
            &mut client,
            "select error_class || ': ' || error_message from dialectic.model_calls where session_id = $1",
            &[&session],
        );
        assert!(said.starts_with("configuration: ") && said.contains("not followed"), "{status}: {said}");
    }
    assert_eq!(elsewhere.accepted(), 0, "nobody came");
    assert_eq!(provider.request_count(), 5);
}

#[test]
fn the_proxy_of_the_environment_is_not_asked() {
    let provider = Provider::start();
    provider.script("straight", vec![Act::text("Straight.")]);
    // Nobody who connects here is ever answered.
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    proxy.set_nonblocking(true).expect("a socket");
    let address = format!("http://{}", proxy.local_addr().expect("an address"));
    let names = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
    let variables: Vec<(&str, &str)> = names.iter().map(|name| (*name, address.as_str())).collect();
    let (server, mut client) = own(LOOPBACK, &variables);
    let environment = std::fs::read(format!("/proc/{}/environ", server.postmaster())).expect("the environment");
    assert!(String::from_utf8_lossy(&environment).contains(&format!("HTTP_PROXY={address}")), "the server has it");
    chat(&mut client, "straight", &provider, "");
    let session = calls(&mut client, "straight", 1);
    worked(&mut client);
    assert_eq!(jobs(&mut client, session), ["1 completed 1"]);
    assert_eq!(provider.request_count(), 1);
    assert!(proxy.accept().is_err(), "nobody came");
}
