//! Connections are kept and used again; one that the provider closed meanwhile costs nobody anything.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Provider};
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

/// How many calls there are at once.
const AT_ONCE: u64 = 4;

/// A provider with kept connections. The worker keeps them; `run_pending` has some while it runs and none afterwards.
fn kept(database: &Database) -> (Provider, Client) {
    let provider = Provider::start();
    let mut client = database.connect();
    process(&mut client);
    provider.script("kept", vec![Act::text("Still here.").late(Duration::from_millis(5))]);
    chat(&mut client, "kept", &provider, &format!(", max_concurrency => {AT_ONCE}"));
    (provider, client)
}

#[test]
fn two_hundred_calls_need_no_more_connections_than_there_are_calls_at_once() {
    let database = Database::new();
    let (provider, mut client) = kept(&database);
    let session = calls(&mut client, "kept", 200);
    work(&mut client);
    assert_eq!(jobs(&mut client, session), ["200 completed 1"]);
    println!("{} connections for 200 calls", provider.accepted());
    assert!(provider.accepted() <= AT_ONCE, "{} connections", provider.accepted());
}

#[test]
fn a_kept_connection_that_was_closed_meanwhile_costs_no_attempt() {
    let database = Database::new();
    let (provider, mut client) = kept(&database);
    for _ in 0..5 {
        let session = calls(&mut client, "kept", 12);
        work(&mut client);
        assert_eq!(jobs(&mut client, session), ["12 completed 1"]);
        provider.close_idle();
        assert!(provider.closed_within(Duration::from_secs(5)).is_some(), "the connections are closed");
    }
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["60 answered"]);
}

#[test]
fn a_request_that_crosses_the_end_of_its_connection_costs_no_attempt() {
    crossing(1);
}

/// Calls of which so many, one after another, go over a connection that ends before they arrive.
fn crossing(closed: usize) {
    let database = Database::new();
    let (provider, mut client) = kept(&database);
    for _ in 0..5 {
        provider.hang_up(closed);
        let session = calls(&mut client, "kept", 40);
        work(&mut client);
        assert_eq!(jobs(&mut client, session), ["40 completed 1"]);
    }
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["200 answered"]);
    assert_sound(&mut client);
}

/// A provider that is started anew ends all its connections at once.
#[test]
fn requests_that_cross_the_end_of_all_connections_cost_no_attempt() {
    crossing(AT_ONCE as usize);
}
