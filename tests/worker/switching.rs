//! A worker that is switched off takes nothing; switched on again it goes on at once.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn a_worker_that_is_off_takes_nothing_and_goes_on_at_once_when_it_is_on() {
    let (server, mut client) = Server::serving("");
    let mut other = server.served("other");
    switch(&mut client, false);
    essay(&mut client, &["sim-a"]);
    remains(Duration::from_millis(500), "nothing is taken", || {
        one::<i64>(&mut client, "select count(*) from dialectic.jobs where status <> 'pending'", &[]) == 0
    });
    // The switch is the database's own.
    essay(&mut other, &["sim-a"]);
    all_completed(&mut other, Duration::from_secs(20));

    let pid = worker(&mut client).expect("it is there while it is off");
    switch(&mut client, true);
    let called = "select count(*) > 0 from dialectic.model_calls";
    soon("it goes on", || one::<bool>(&mut client, called, &[]));
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(worker(&mut client), Some(pid));
}

#[test]
fn a_worker_that_is_switched_off_keeps_the_answers_it_waits_for_and_asks_nothing_more() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "1000");
    essay(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    switch(&mut client, false);
    in_flight(&mut client, 0);
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["1 answered"]);
    remains(Duration::from_millis(500), "no call more", || one::<i64>(&mut client, OPEN_CALLS, &[]) == 0);
    switch(&mut client, true);
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["5 answered"]);
}

#[test]
fn a_worker_that_is_off_stays_off_over_a_restart() {
    let (server, mut client) = Server::serving("");
    switch(&mut client, false);
    essay(&mut client, &["sim-a"]);
    drop(client);
    server.stop("fast");
    server.start();
    let mut client = server.connect("law");
    soon("it is there", || worker(&mut client).is_some());
    remains(Duration::from_millis(500), "nothing is taken", || {
        one::<i64>(&mut client, "select count(*) from dialectic.jobs where status <> 'pending'", &[]) == 0
    });
    switch(&mut client, true);
    all_completed(&mut client, Duration::from_secs(20));
}
