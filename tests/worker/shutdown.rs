//! Ends that were asked for: the worker goes at once, and whoever comes after it goes on where it was.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn a_fast_stop_under_load_does_not_wait_for_calls_in_flight() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "endless", "600000");
    single_calls(&mut client, "endless", 64);
    in_flight(&mut client, 64);
    let pid = worker(&mut client).expect("a worker");
    // pg_ctl gives up after a minute; the calls would take ten.
    server.stop("fast");
    assert!(!lives(pid), "the worker outlived its server");

    server.start();
    let mut client = server.connect("law");
    soon("every call is made again", || column::<String>(&mut client, OUTCOMES, &[]) == ["64 lost", "64 open"]);
    let ended: i64 = one(&mut client, "select count(*) from dialectic.jobs where attempt_count > 0", &[]);
    assert_eq!(ended, 0, "nobody is charged for a stop");
}

#[test]
fn a_worker_that_is_terminated_has_a_successor_that_loses_nothing() {
    let (server, mut client) = Server::serving("");
    for name in ["slow", "slow-b"] {
        model(&mut client, name, "[50, 200]");
    }
    for round in 0..3 {
        let session = essay(&mut client, &["slow", "slow-b"]);
        soon("calls are in flight", || one::<i64>(&mut client, OPEN_CALLS, &[]) > 0);
        let pid = worker(&mut client).expect("a worker");
        assert!(one::<bool>(&mut client, "select pg_terminate_backend($1, 5000)", &[&pid]));
        soon(&format!("round {round}: another one serves"), || worker(&mut client).is_some_and(|next| next != pid));
        all_completed(&mut client, Duration::from_secs(30));
        let answered: i64 = one(
            &mut client,
            "select count(*) from dialectic.model_calls where session_id = $1 and outcome = 'answered'",
            &[&session],
        );
        assert_eq!(answered, 20, "round {round}");
    }
    let outcomes: Vec<String> =
        column(&mut client, "select distinct outcome from dialectic.model_calls order by 1", &[]);
    assert_eq!(outcomes, ["answered", "lost"]);
    assert_eq!(server.beginnings().len(), 1, "the server did not go down");
}

#[test]
fn a_launcher_that_is_terminated_comes_back_and_leaves_the_workers_alone() {
    let (server, mut client) = Server::serving("");
    let launcher = "select (select pid from pg_stat_activity where backend_type = 'pg_dialectic launcher')";
    let serving = worker(&mut client);
    let pid: Option<i32> = one(&mut client, launcher, &[]);
    client.execute("select pg_terminate_backend($1, 5000)", &[&pid]).expect("pg_terminate_backend");
    soon("it is back", || one::<Option<i32>>(&mut client, launcher, &[]).is_some_and(|next| Some(next) != pid));
    drop(server.served("later"));
    assert_eq!(worker(&mut client), serving);
    essay(&mut client, &["sim-a"]);
    all_completed(&mut client, Duration::from_secs(20));
}
