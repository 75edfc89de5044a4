//! An extension that comes and goes: its worker comes and goes with it, also in the middle of work.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn create_extension_gets_a_worker_and_drop_extension_loses_it() {
    let server = Server::with("");
    let mut client = server.connect("postgres");
    assert_eq!(worker(&mut client), None);
    for _ in 0..5 {
        create_extension(&mut client);
        soon("CREATE EXTENSION gets a worker", || worker(&mut client).is_some());
        client.batch_execute("drop extension pg_dialectic").expect("DROP EXTENSION");
        soon("DROP EXTENSION loses it", || worker(&mut client).is_none());
    }
}

#[test]
fn an_extension_that_is_rolled_back_never_gets_a_worker_and_one_that_stays_keeps_it() {
    let (server, mut client) = Server::serving("");
    let before = worker(&mut client);
    client.batch_execute("begin; drop extension pg_dialectic; rollback").expect("a drop that is rolled back");
    let mut bare = server.connect("postgres");
    bare.batch_execute("set client_min_messages = warning; begin; create extension pg_dialectic cascade; rollback")
        .expect("a creation that is rolled back");
    // Whoever asks after them is served after them.
    drop(server.served("later"));
    assert_eq!(worker(&mut bare), None);
    essay(&mut client, &["sim-a"]);
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(worker(&mut client), before);
}

#[test]
fn an_extension_dropped_and_created_again_under_load_is_served() {
    let (_server, mut client) = Server::serving("");
    for round in 0..5 {
        for name in ["slow", "slow-b"] {
            model(&mut client, name, "[50, 200]");
        }
        for _ in 0..4 {
            essay(&mut client, &["slow", "slow-b"]);
        }
        soon("calls are in flight", || one::<i64>(&mut client, OPEN_CALLS, &[]) > 0);
        client.batch_execute("drop extension pg_dialectic").unwrap_or_else(|e| panic!("round {round}: {e:?}"));
        create_extension(&mut client);
        let session = essay(&mut client, &["sim-a"]);
        let called = "select count(*) from dialectic.model_calls where session_id = $1";
        soon("the new one is served", || one::<i64>(&mut client, called, &[&session]) > 0);
        all_completed(&mut client, Duration::from_secs(20));
        let calls: Vec<String> = column(&mut client, OUTCOMES, &[]);
        assert_eq!(calls, ["5 answered"], "round {round}");
    }
}
