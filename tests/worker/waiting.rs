//! Waiting for a session: which commits wake the waiter, and what ends a wait early.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;

#[test]
fn cancelled_wait_gives_the_plain_error() {
    // The library must leave out what Rust would add here.
    let server = Server::in_environment("", &[("RUST_BACKTRACE", "1")]);
    let mut client = server.served("law");
    model(&mut client, "slow", "600000");
    single_calls(&mut client, "slow", 1);
    let session: Uuid = one(&mut client, "select id from dialectic.sessions", &[]);
    client.batch_execute("set statement_timeout = '300 ms'").expect("a timeout");
    for call in [format!("call dialectic.wait('{session}')"), format!("begin; call dialectic.wait('{session}')")] {
        let error = client.batch_execute(&call).expect_err("a timeout");
        let error = error.as_db_error().expect("an error of the server");
        assert_eq!(error.code().code(), "57014");
        assert_eq!((error.message(), error.detail()), ("canceling statement due to statement timeout", None));
        let _ = client.batch_execute("rollback");
    }
}

/// A connection that sleeps in `wait` and does not poll: it returns when a commit wakes it. Gives its SQLSTATE.
fn woken_by(server: &Server, session: Uuid, act: impl FnOnce(&mut Client)) -> Option<String> {
    let (mut waiter, mut client) = (server.connect("law"), server.connect("law"));
    waiter.batch_execute("set dialectic.wait_poll_ms = 3600000; set statement_timeout = '60 s'").expect("set");
    let waiting = pid(&mut waiter);
    std::thread::scope(|scope| {
        let result = scope.spawn(move || waiter.execute("call dialectic.wait($1)", &[&session]));
        eventually("the backend sleeps in wait", || {
            let asleep =
                "select coalesce((select wait_event = 'Extension' from pg_stat_activity where pid = $1), false)";
            one(&mut client, asleep, &[&waiting])
        });
        act(&mut client);
        let error = result.join().expect("the waiter").err()?;
        Some(error.code().map_or("connection closed", |code| code.code()).to_owned())
    })
}

/// A session whose job cannot be claimed, because the worker is switched off.
fn unworked(client: &mut Client) -> Uuid {
    switch(client, false);
    essay(client, &["sim-a"])
}

#[test]
fn commit_of_the_worker_wakes_a_waiter() {
    let (server, mut client) = Server::serving("");
    let session = unworked(&mut client);
    assert_eq!(woken_by(&server, session, |client| switch(client, true)), None);
    assert_sound(&mut client);
}

#[test]
fn cancel_pause_and_delete_wake_a_waiter() {
    let (server, mut client) = Server::serving("");
    for (statement, sqlstate) in [
        ("select dialectic.cancel($1)", "55000"),
        ("select dialectic.pause($1)", "55000"),
        ("delete from dialectic.sessions where id = $1", "P0002"),
    ] {
        let session = unworked(&mut client);
        let act = |client: &mut Client| assert_eq!(client.execute(statement, &[&session]).expect(statement), 1);
        assert_eq!(woken_by(&server, session, act).as_deref(), Some(sqlstate), "{statement}");
    }
}

#[test]
fn commit_prepared_ends_a_wait_by_polling() {
    let (server, mut client) = Server::serving("max_prepared_transactions = 4");
    let session = unworked(&mut client);
    let mut waiter = server.connect("law");
    waiter.batch_execute("set statement_timeout = '60 s'").expect("set");
    client.batch_execute("begin").expect("begin");
    client.execute("select dialectic.cancel($1)", &[&session]).expect("cancel");
    client.batch_execute("prepare transaction 'cancel'").expect("PREPARE TRANSACTION");
    std::thread::scope(|scope| {
        let result = scope.spawn(move || waiter.execute("call dialectic.wait($1)", &[&session]));
        client.batch_execute("commit prepared 'cancel'").expect("COMMIT PREPARED");
        let error = result.join().expect("the waiter").expect_err("a cancelled session");
        assert_eq!(error.code().expect("an SQLSTATE").code(), "55000");
    });
}

#[test]
fn waiter_without_a_place_in_shared_memory_polls() {
    let (server, mut client) = Server::serving("");
    let session = unworked(&mut client);
    let register = "select dialectic._register_waiter()";
    let mut waiters: Vec<Client> = (0..64).map(|_| server.connect("law")).collect();
    for waiter in &mut waiters {
        waiter.batch_execute("begin").expect("begin");
        assert!(one::<bool>(waiter, register, &[]));
        // Once per backend.
        assert!(one::<bool>(waiter, register, &[]));
    }
    assert!(!one::<bool>(&mut client, register, &[]));
    let act = |client: &mut Client| assert_eq!(one::<i32>(client, "select dialectic.cancel($1)", &[&session]), 1);
    assert_eq!(woken_by(&server, session, act).as_deref(), Some("55000"));
    // The end of a transaction, and of a connection, frees a place.
    waiters[0].batch_execute("rollback").expect("rollback");
    client.batch_execute("begin").expect("begin");
    assert!(one::<bool>(&mut client, register, &[]));
    drop(waiters.pop());
    eventually("the place of an ended connection is free", || one(&mut waiters[0], register, &[]));
}

#[test]
fn drop_database_with_force_ends_a_wait() {
    let (server, mut client) = Server::serving("");
    let session = unworked(&mut client);
    let drop_it = |_: &mut Client| {
        let mut other = server.connect("postgres");
        other.batch_execute("drop database law with (force)").expect("DROP DATABASE");
    };
    let ended = woken_by(&server, session, drop_it);
    assert!(matches!(ended.as_deref(), Some("57P01" | "connection closed")), "{ended:?}");
}
