//! Claims of the living: neither a starting worker nor a starting run_pending takes what the other works on.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn a_starting_worker_leaves_the_claims_of_a_living_run_pending_alone() {
    let (server, mut client) = Server::serving("");
    switch(&mut client, false);
    model(&mut client, "slow", "15000");
    single_calls(&mut client, "slow", 2);
    let mut caller = server.connect("law");
    let running = std::thread::spawn(move || caller.batch_execute("call dialectic.run_pending()"));
    in_flight(&mut client, 2);

    let pid = worker(&mut client);
    client.execute("select pg_terminate_backend($1, 5000)", &[&pid]).expect("pg_terminate_backend");
    switch(&mut client, true);
    // Work that only the new worker does: it has claimed, and so it has looked for dead claims.
    let own: Uuid = one(
        &mut client,
        "select dialectic.run('Why laws?', models => '{sim-a}', process => 'essay', through => 'thesis')",
        &[],
    );
    soon("the new worker works", || {
        one(&mut client, "select status = 'completed' from dialectic.sessions where id = $1", &[&own])
    });
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["1 answered", "2 open"]);
    running.join().expect("the thread").expect("run_pending");
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["3 answered"]);
    let claimers: Vec<String> = column(
        &mut client,
        "select distinct format('%s %s', model, split_part(claimed_by, ':', 1)) from dialectic.model_calls where model = 'slow'",
        &[],
    );
    assert_eq!(claimers, ["slow run_pending"]);
}

#[test]
fn a_run_pending_leaves_the_claims_of_a_living_worker_alone() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "12000");
    single_calls(&mut client, "slow", 2);
    in_flight(&mut client, 2);
    switch(&mut client, false);
    single_calls(&mut client, "sim-a", 2);
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["2 answered", "2 open"]);
    // A worker that is switched off keeps what it has under way.
    in_flight(&mut client, 0);
    switch(&mut client, true);
    all_completed(&mut client, Duration::from_secs(20));
    let claimers: Vec<String> = column(
        &mut client,
        "select format('%s %s %s', count(*), model, split_part(claimed_by, ':', 1)) from dialectic.model_calls group by model, split_part(claimed_by, ':', 1) order by 1",
        &[],
    );
    assert_eq!(claimers, ["2 sim-a run_pending", "2 slow worker"]);
}

#[test]
fn claims_of_a_dead_worker_are_free_soon_after_nobody_holds_their_sessions() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "endless", "600000");
    single_calls(&mut client, "endless", 3);
    in_flight(&mut client, 3);
    let mut holder = server.connect("law");
    holder.batch_execute("begin; select from dialectic.sessions for update").expect("locks");
    let pid = worker(&mut client);
    client.execute("select pg_terminate_backend($1, 5000)", &[&pid]).expect("pg_terminate_backend");
    soon("another worker has come", || worker(&mut client).is_some_and(|now| Some(now) != pid));
    remains(Duration::from_millis(1_500), "they are not free", || one::<i64>(&mut client, OPEN_CALLS, &[]) == 3);
    holder.batch_execute("commit").expect("commit");
    within(Duration::from_secs(8), "they are free, and called again", || {
        column::<String>(&mut client, OUTCOMES, &[]) == ["3 lost", "3 open"]
    });
    assert_sound(&mut client);
}
