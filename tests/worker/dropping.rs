//! Databases dropped and made beside a busy worker, and under one: nobody waits for a worker, and none is lost for good.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::{Duration, Instant};

fn time_to_drop(client: &mut Client) -> Duration {
    let once = |_| {
        client.batch_execute("create database passing").expect("CREATE DATABASE");
        let begun = Instant::now();
        client.batch_execute("drop database passing").expect("DROP DATABASE");
        begun.elapsed()
    };
    median((0..7).map(once).collect())
}

#[test]
fn drop_database_beside_64_calls_takes_at_most_half_a_second_longer() {
    let (server, mut client) = Server::serving("");
    let mut other = server.connect("postgres");
    model(&mut client, "endless", "600000");
    switch(&mut client, false);
    let quiet = time_to_drop(&mut other);
    switch(&mut client, true);
    single_calls(&mut client, "endless", 64);
    in_flight(&mut client, 64);
    let busy = time_to_drop(&mut other);
    println!("DROP DATABASE: {quiet:?} with the worker off, {busy:?} with 64 calls in flight");
    assert!(busy <= quiet + Duration::from_millis(500), "{busy:?} instead of {quiet:?}");
    in_flight(&mut client, 64);
}

#[test]
fn a_served_database_is_dropped_by_force_in_the_middle_of_its_calls() {
    let server = Server::with("");
    let mut other = server.connect("postgres");
    let mut client = server.served("doomed");
    model(&mut client, "endless", "600000");
    single_calls(&mut client, "endless", 64);
    in_flight(&mut client, 64);
    let pid = worker(&mut client).expect("a worker");
    other.batch_execute("drop database doomed with (force)").expect("DROP DATABASE");
    within(Duration::from_secs(1), "the worker is gone", || !lives(pid));
    assert_eq!(server.beginnings().len(), 1, "the server did not go down");
}

#[test]
fn a_served_database_is_dropped_without_force_when_nobody_else_is_in_it() {
    let server = Server::with("");
    let mut other = server.connect("postgres");
    for round in 0..3 {
        drop(server.served("idle"));
        let begun = Instant::now();
        other.batch_execute("drop database idle").unwrap_or_else(|e| panic!("round {round}: {e:?}"));
        assert!(begun.elapsed() < Duration::from_secs(3), "round {round}: it took {:?}", begun.elapsed());
    }
    // Also in the middle of its calls.
    let mut client = server.served("busy");
    model(&mut client, "endless", "600000");
    single_calls(&mut client, "endless", 64);
    in_flight(&mut client, 64);
    drop(client);
    other.batch_execute("drop database busy").expect("DROP DATABASE");
}

#[test]
fn a_drop_that_fails_leaves_the_database_served() {
    let (server, mut client) = Server::serving("");
    let mut other = server.connect("postgres");
    // This connection is the other user that the drop fails for.
    assert_eq!(refused(&mut other, "drop database law", &[]).code().code(), "55006");
    let session = essay(&mut client, &["sim-a"]);
    let first = "select count(*) from dialectic.model_calls where session_id = $1";
    within(Duration::from_secs(2), "it is served again", || one::<i64>(&mut client, first, &[&session]) > 0);
    all_completed(&mut client, Duration::from_secs(20));
    assert!(worker(&mut client).is_some());
}

#[test]
fn databases_are_made_and_dropped_in_a_row_while_the_worker_works() {
    let (server, mut client) = Server::serving("");
    let pid = worker(&mut client);
    let mut other = server.connect("postgres");
    for name in ["slow", "slow-b"] {
        model(&mut client, name, "[50, 200]");
    }
    let mut slowest = Duration::ZERO;
    for round in 0..15 {
        let running: i64 = one(&mut client, "select count(*) from dialectic.sessions where status = 'active'", &[]);
        for _ in running..4 {
            essay(&mut client, &["slow", "slow-b"]);
        }
        let begun = Instant::now();
        other.batch_execute("create database passing").unwrap_or_else(|e| panic!("round {round}: {e:?}"));
        other.batch_execute("drop database passing").unwrap_or_else(|e| panic!("round {round}: {e:?}"));
        slowest = slowest.max(begun.elapsed());
    }
    println!("CREATE and DROP DATABASE under load took at most {slowest:?}");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    all_completed(&mut client, Duration::from_secs(30));
    assert_eq!(worker(&mut client), pid);
    let calls: Vec<String> = column(&mut client, "select distinct outcome from dialectic.model_calls", &[]);
    assert_eq!(calls, ["answered"]);
}
