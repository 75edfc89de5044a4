//! A standby is quiet; promoted, it serves and goes on with what was under way.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn a_standby_is_quiet_and_serves_once_it_is_promoted() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "slow", "600000");
    let standby = server.standby();
    single_calls(&mut client, "slow", 3);
    in_flight(&mut client, 3);

    let mut follower = standby.connect("law");
    assert!(one::<bool>(&mut follower, "select pg_is_in_recovery()", &[]));
    in_flight(&mut follower, 3);
    let ours = "select count(*) from pg_stat_activity where backend_type like 'pg_dialectic %'";
    remains(Duration::from_millis(500), "nobody works there", || one::<i64>(&mut follower, ours, &[]) == 0);
    assert_eq!(column::<String>(&mut follower, OUTCOMES, &[]), ["3 open"]);
    let refusal = refused(&mut follower, "select dialectic.run('Why laws?', models => '{sim-a}')", &[]);
    assert_eq!(refusal.code().code(), "25006");

    server.stop("immediate");
    standby.promote();
    soon("it has its worker", || worker(&mut follower).is_some());
    soon("what was under way is under way again", || {
        column::<String>(&mut follower, OUTCOMES, &[]) == ["3 lost", "3 open"]
    });
    model(&mut follower, "slow", "0");
    let pid = worker(&mut follower);
    follower.execute("select pg_terminate_backend($1, 5000)", &[&pid]).expect("pg_terminate_backend");
    all_completed(&mut follower, Duration::from_secs(20));
    assert_eq!(column::<String>(&mut follower, OUTCOMES, &[]), ["3 answered", "6 lost"]);
}

#[test]
fn explain_and_health_work_on_a_standby() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "slow", "600000");
    let standby = server.standby();
    single_calls(&mut client, "slow", 3);
    in_flight(&mut client, 3);
    let session: Uuid = one(&mut client, "select id from dialectic.sessions limit 1", &[]);

    let mut follower = standby.connect("law");
    in_flight(&mut follower, 3);
    let calls = "select sum(calls)::bigint from dialectic.explain($1)";
    assert_eq!(one::<i64>(&mut follower, calls, &[&session]), one::<i64>(&mut client, calls, &[&session]));
    let problems: Vec<String> = one(&mut follower, "select problems from dialectic.health()", &[]);
    assert_eq!(problems, Vec::<String>::new());
}
