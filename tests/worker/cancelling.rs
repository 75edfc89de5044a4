//! Cancel and pause reach a call that is under way: it is closed then, not when its answer comes. How soon is a figure of
//! `make bench` (row `cancel`).

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

fn reaches_a_running_call(verb: &str, status: &str) {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "600000");
    for _ in 0..5 {
        let session = essay(&mut client, &["slow"]);
        in_flight(&mut client, 1);
        client.query_one(&format!("select dialectic.{verb}($1)"), &[&session]).expect(verb);
        // Its answer would come after ten minutes.
        in_flight(&mut client, 0);
        let outcome: String =
            one(&mut client, "select outcome from dialectic.model_calls where session_id = $1", &[&session]);
        assert_eq!(outcome, "late");
        let job: String = one(
            &mut client,
            "select status from dialectic.jobs where session_id = $1 and kind = 'execute'",
            &[&session],
        );
        assert_eq!(job, status);
    }
    assert_sound(&mut client);
}

#[test]
fn cancel_closes_a_running_call_before_its_answer() {
    reaches_a_running_call("cancel", "cancelled");
}

#[test]
fn pause_closes_a_running_call_before_its_answer() {
    reaches_a_running_call("pause", "paused_user");
}

#[test]
fn a_call_that_was_paused_is_made_again_when_it_is_resumed() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "600000");
    let session = essay(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    client.query_one("select dialectic.pause($1)", &[&session]).expect("pause");
    in_flight(&mut client, 0);
    model(&mut client, "slow", "0");
    client.query_one("select dialectic.resume($1)", &[&session]).expect("resume");
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["5 answered", "1 late"]);
}

#[test]
fn a_cancel_that_is_rolled_back_reaches_nobody() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "5000");
    let session: Uuid = one(
        &mut client,
        "select dialectic.run('Why laws?', models => '{slow}', process => 'essay', through => 'thesis')",
        &[],
    );
    in_flight(&mut client, 1);
    let mut change = client.transaction().expect("begin");
    change.query_one("select dialectic.cancel($1)", &[&session]).expect("cancel");
    change.rollback().expect("rollback");
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["1 answered"]);
}

#[test]
fn delete_session_ends_a_running_call_and_counts_its_late_end() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "600000");
    let session = essay(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    assert!(one::<bool>(&mut client, "select dialectic.delete_session($1)", &[&session]));
    // Its answer would come after ten minutes; the worker tells what the cancelled call used.
    soon("the worker has stored the end of the call", || {
        one(&mut client, "select count(*) = 0 from dialectic.deleted_calls", &[])
    });
    let used = "select concat_ws(' ', calls, failed_calls, session_id) from dialectic.usage";
    assert_eq!(one::<String>(&mut client, used, &[]), "1 0");
    assert_sound(&mut client);
}
