//! Daily maintenance by the worker: once a day, whatever restarts lie between.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

const DAY: i64 = 86400;

/// The days between now and the last run, rounded.
fn last_run(client: &mut Client) -> i64 {
    one(client, "select round(extract(epoch from last_run_at - now()) / 86400)::bigint from dialectic.maintenance", &[])
}

fn notifications(client: &mut Client) -> i64 {
    one(client, "select count(*) from dialectic.notifications", &[])
}

fn clock(client: &mut Client, days: i64) {
    set(client, "dialectic.clock_offset", Some(&(days * DAY).to_string()));
}

#[test]
fn worker_maintains_once_a_day_and_a_restart_neither_skips_nor_repeats_it() {
    let (server, mut client) = Server::serving("");
    essay(&mut client, &["sim-a"]);
    all_completed(&mut client, Duration::from_secs(20));
    assert!(notifications(&mut client) > 0);
    assert_eq!(last_run(&mut client), 0);
    clock(&mut client, 31);
    soon("the worker maintains when a day is over", || last_run(&mut client) == 31);
    assert_eq!(notifications(&mut client), 0);

    // Not repeated: half a day later another run is not due.
    let first: String = one(&mut client, "select last_run_at::text from dialectic.maintenance", &[]);
    server.stop("fast");
    server.start();
    let mut client = server.connect("law");
    essay(&mut client, &["sim-a"]);
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(one::<String>(&mut client, "select last_run_at::text from dialectic.maintenance", &[]), first);

    // Not skipped: it became due while the server was down.
    client.batch_execute(&format!("alter system set dialectic.clock_offset = {}", 40 * DAY)).expect("a later day");
    server.stop("fast");
    server.start();
    let mut client = server.connect("law");
    soon("the worker maintains when it starts late", || last_run(&mut client) == 40);
}

#[test]
fn worker_maintains_when_it_is_switched_on_again() {
    let (_server, mut client) = Server::serving("");
    switch(&mut client, false);
    clock(&mut client, 2);
    assert!(one::<bool>(&mut client, "select dialectic._maintenance_due_in() is null", &[]));
    switch(&mut client, true);
    soon("it maintains when it is switched on", || last_run(&mut client) == 2);
}
