//! A server that has no process left for a worker: health() says so, and the worker comes when there is one.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

fn problems(client: &mut Client) -> Vec<String> {
    one(client, "select problems from dialectic.health()", &[])
}

fn says_so(client: &mut Client) -> bool {
    problems(client).iter().any(|problem| problem.contains("max_worker_processes"))
}

#[test]
fn health_says_that_no_process_is_left_for_the_worker() {
    // One for the launcher of logical replication, one for ours, one for a worker.
    let server = Server::with("max_worker_processes = 3");
    let mut first = server.served("first");
    assert_eq!(problems(&mut first), [""; 0]);
    let mut second = server.extended("second");
    soon("health says so", || says_so(&mut second));
    assert_eq!(worker(&mut second), None);
    essay(&mut second, &["sim-a"]);
    assert!(says_so(&mut second));
    assert_eq!(one::<i64>(&mut second, "select count(*) from dialectic.model_calls", &[]), 0);

    first.batch_execute("drop extension pg_dialectic").expect("DROP EXTENSION");
    all_completed(&mut second, Duration::from_secs(20));
    assert_eq!(problems(&mut second), [""; 0]);
}

#[test]
fn run_pending_works_where_no_worker_could_be_had() {
    let server = Server::with("max_worker_processes = 2");
    let mut client = server.extended("law");
    soon("health says so", || says_so(&mut client));
    essay(&mut client, &["sim-a"]);
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["5 answered"]);
}
