//! What `wait` says at the end: the time that was worked, and a regeneration that failed.

use crate::by_hand::status;
use dialectic_tests::*;
use postgres::Client;

/// Has every call of the model `ill` fail from now on, or succeed.
fn ill(client: &mut Client, fails: bool) {
    let settings = if fails { r#"{"fail_always": true, "fail_class": "permanent"}"# } else { "{}" };
    client
        .execute("select dialectic.add_model('ill', 'simulator', settings => $1::text::jsonb)", &[&settings])
        .expect("add_model");
}

fn run_thesis(client: &mut Client) -> Uuid {
    let run = "select dialectic.run('Why?', models => '{ill}', process => 'essay', through => 'thesis')";
    let session: Uuid = one(client, run, &[]);
    work(client);
    session
}

#[test]
fn time_in_the_receipt_does_not_count_the_pause_before_a_retry() {
    for (what, again) in
        [("retry", "select dialectic.retry($1)"), ("generate", "select count(*)::int from dialectic.generate($1)")]
    {
        let database = Database::by_hand();
        let mut client = database.connect();
        ill(&mut client, true);
        let session = run_thesis(&mut client);
        ill(&mut client, false);
        client.batch_execute("set dialectic.clock_offset = 3600").expect("an hour later");
        one::<i32>(&mut client, again, &[&session]);
        work(&mut client);
        let taken: f64 = one(&mut client, "select extract(epoch from dialectic._time_taken($1))::float8", &[&session]);
        assert!(taken < 3000.0, "{what}: {taken} s");
        assert_sound(&mut client);
    }
}

#[test]
fn failed_regeneration_makes_wait_fail_until_it_is_retried() {
    let database = Database::by_hand();
    let mut client = database.connect();
    ill(&mut client, false);
    let session = run_thesis(&mut client);
    ill(&mut client, true);
    let job: Uuid = one(&mut client, "select dialectic.regenerate($1, 'thesis', 'ill')", &[&session]);
    work(&mut client);
    assert_eq!(status(&mut client, job), "failed");
    let error = refused_with(&mut client, "call dialectic.wait($1)", &[&session], "55000", "\"thesis\"");
    assert_eq!(error.message(), "document \"thesis\" of model \"ill\" could not be regenerated");
    assert!(error.detail().is_some_and(|detail| detail.contains("simulated permanent failure")), "{error:?}");
    ill(&mut client, false);
    client.batch_execute(error.hint().expect("a hint")).expect("the hint is a statement");
    work(&mut client);
    client.execute("call dialectic.wait($1)", &[&session]).expect("wait");
    assert_sound(&mut client);
}

#[test]
fn failed_regeneration_is_over_when_a_later_one_delivered() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for again in
        ["select dialectic.regenerate($1, 'thesis', 'ill')", "select dialectic.generate($1, stage => 'thesis')"]
    {
        ill(&mut client, false);
        let session = run_thesis(&mut client);
        ill(&mut client, true);
        one::<Uuid>(&mut client, "select dialectic.regenerate($1, 'thesis', 'ill')", &[&session]);
        work(&mut client);
        ill(&mut client, false);
        client.query(again, &[&session]).expect("again");
        work(&mut client);
        client.execute("call dialectic.wait($1)", &[&session]).unwrap_or_else(|error| panic!("{again}: {error:?}"));
    }
}

/// How often `wait` has checked the state of a session in this connection.
fn state_checks(client: &mut Client) -> i64 {
    client.batch_execute("select pg_stat_force_next_flush()").expect("a flush of the statistics");
    one(
        client,
        "select coalesce(sum(calls), 0)::bigint from pg_stat_user_functions where funcname = '_session_state'",
        &[],
    )
}

#[test]
fn wait_with_nothing_happening_checks_rarely() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    client.batch_execute("set track_functions = 'all'").expect("track_functions");
    let seconds = 2;
    let wait = format!("call dialectic.wait($1, '{seconds} s')");
    refused_with(&mut client, &wait, &[&session], "57014", &session.to_string());
    // Where the library is preloaded a commit would wake the waiter, so it polls only once a second.
    let most = if preloaded() { seconds + 2 } else { 10 * seconds + 2 };
    let checks = state_checks(&mut client);
    assert!((2..=most).contains(&checks), "{checks} checks in {seconds} s");
}

#[test]
fn wait_finds_its_own_uncommitted_change_behind_an_older_open_transaction() {
    let database = Database::by_hand();
    let (mut older, mut client) = (database.connect(), database.connect());
    let session = generated(&mut client, &["sim-a"]);
    // The xid of the change is higher than the highest xid of the snapshot, because an older one is still open.
    older.batch_execute("begin; select pg_current_xact_id()").expect("an older transaction");
    client.batch_execute("begin; select pg_current_xact_id(); savepoint inner_one").expect("begin");
    client.execute("select dialectic.cancel($1)", &[&session]).expect("cancel");
    let error = refused_with(&mut client, "call dialectic.wait($1)", &[&session], "55000", &session.to_string());
    assert!(error.hint().is_some_and(|hint| hint.contains("COMMIT")), "{error:?}");
    client.batch_execute("rollback").expect("rollback");
}

#[test]
fn only_xids_of_the_open_transaction_are_current() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.batch_execute("begin; select pg_current_xact_id()").expect("a transaction");
    let current = "select dialectic._is_current_xid($1::text::xid)";
    let own: String = one(&mut client, "select pg_current_xact_id()::xid::text", &[]);
    assert!(one::<bool>(&mut client, current, &[&own]));
    // Frozen, before and after the own one, and from before the counter wrapped.
    let xid: u32 = own.parse().expect("an xid");
    for other in [0, 1, 2, 3, xid - 1, xid + 1, xid + (1 << 31), u32::MAX] {
        assert!(!one::<bool>(&mut client, current, &[&other.to_string()]), "{other}");
    }
    client.batch_execute("rollback").expect("rollback");
    assert!(!one::<bool>(&mut client, current, &[&own]), "after its end");
}
