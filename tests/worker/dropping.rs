//! Databases dropped and made beside a busy worker, and under one: nobody waits for a worker, and none is lost for good.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

/// A connection to another database that waits for no statement longer than 20 seconds.
fn bystander(server: &Server) -> Client {
    let mut client = server.connect("postgres");
    client.batch_execute("set statement_timeout = '20s'").expect("set");
    client
}

#[test]
fn drop_database_does_not_wait_for_64_calls_in_flight() {
    let (server, mut client) = Server::serving("");
    let mut other = bystander(&server);
    model(&mut client, "endless", "600000");
    single_calls(&mut client, "endless", 64);
    in_flight(&mut client, 64);
    for _ in 0..7 {
        other.batch_execute("create database passing").expect("CREATE DATABASE");
        other.batch_execute("drop database passing").expect("DROP DATABASE");
    }
    in_flight(&mut client, 64);
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["64 open"]);
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
    soon("the worker is gone", || !lives(pid));
    assert_eq!(server.beginnings().len(), 1, "the server did not go down");
}

#[test]
fn a_served_database_is_dropped_without_force_when_nobody_else_is_in_it() {
    let server = Server::with("");
    let mut other = server.connect("postgres");
    for round in 0..3 {
        drop(server.served("idle"));
        other.batch_execute("drop database idle").unwrap_or_else(|e| panic!("round {round}: {e:?}"));
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
    soon("it is served again", || one::<i64>(&mut client, first, &[&session]) > 0);
    all_completed(&mut client, Duration::from_secs(20));
    assert!(worker(&mut client).is_some());
}

#[test]
fn databases_are_made_and_dropped_in_a_row_while_the_worker_works() {
    let (server, mut client) = Server::serving("");
    let pid = worker(&mut client);
    let mut other = bystander(&server);
    for name in ["slow", "slow-b"] {
        model(&mut client, name, "[50, 200]");
    }
    for round in 0..15 {
        let running: i64 = one(&mut client, "select count(*) from dialectic.sessions where status = 'active'", &[]);
        for _ in running..4 {
            essay(&mut client, &["slow", "slow-b"]);
        }
        other.batch_execute("create database passing").unwrap_or_else(|e| panic!("round {round}: {e:?}"));
        other.batch_execute("drop database passing").unwrap_or_else(|e| panic!("round {round}: {e:?}"));
    }
    all_completed(&mut client, Duration::from_secs(30));
    assert_eq!(worker(&mut client), pid);
    let calls: Vec<String> = column(&mut client, "select distinct outcome from dialectic.model_calls", &[]);
    assert_eq!(calls, ["answered"]);
}
