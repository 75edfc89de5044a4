//! Errors while writing: they hold up the session or the database that they concern, are seen there, and fail nothing.

use crate::load::*;
use crate::tmpfs::Tmpfs;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::io::Write;
use std::time::Duration;

const BLOCKED: &str = "select distinct cause_code || ' ' || session_id from dialectic.blocked \
     where status <> 'waiting_for_children' order by 1";
/// What a hold-up may take to be over once its cause is: the longest backoff.
const LONGEST_BACKOFF: Duration = Duration::from_secs(40);

fn problems(client: &mut Client) -> Vec<String> {
    one(client, "select problems from dialectic.health()", &[])
}

/// A user's trigger that raises on updates of these rows.
fn raise_on(client: &mut Client, condition: &str) {
    client
        .batch_execute(&format!(
            "create or replace function public.boom() returns trigger language plpgsql as $$ begin \
                 raise exception 'boom on %', old.id; end $$; \
             create trigger boom before update on dialectic.jobs for each row when ({condition}) \
                 execute function public.boom()"
        ))
        .expect("a trigger");
}

fn status(client: &mut Client, session: Uuid) -> String {
    one(client, "select status from dialectic.sessions where id = $1", &[&session])
}

#[test]
fn raising_trigger_holds_up_its_session_alone() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "slow", "100");
    let held = essay(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    raise_on(&mut client, &format!("old.session_id = '{held}'"));
    let free = essay(&mut client, &["sim-a", "sim-b"]);
    soon("the other session completes", || status(&mut client, free) == "completed");
    soon("the session is held up", || column::<String>(&mut client, BLOCKED, &[]) == [format!("held_up {held}")]);
    let shown = problems(&mut client);
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert!(shown[0].contains(&held.to_string()) && shown[0].contains("P0001"), "{shown:?}");
    soon("it was tried more than once", || problems(&mut client).iter().any(|p| p.contains("3 failures")));
    // Its messages differ by the job they name, not more often than that.
    let logged = server.said("is held up by an error in session").len();
    assert!((1..=3).contains(&logged), "{logged} lines");
    assert!(server.log().contains("worker of database \"law\""), "the log names the database");

    client.batch_execute("drop trigger boom on dialectic.jobs").expect("drop");
    within(LONGEST_BACKOFF, "the session goes on", || status(&mut client, held) == "completed");
    soon("nothing is a problem", || problems(&mut client).is_empty());
    let outcomes: Vec<String> = column(&mut client, "select distinct outcome from dialectic.model_calls", &[]);
    assert_eq!(outcomes, ["answered"], "every answer was stored, and no call made twice");
    let attempts: i32 = one(&mut client, "select max(attempt_count) from dialectic.jobs", &[]);
    assert_eq!(attempts, 1);
    assert_sound(&mut client);
}

#[test]
fn raising_trigger_on_all_rows_fails_nothing() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "100");
    let sessions: Vec<Uuid> = (0..4).map(|_| essay(&mut client, &["slow"])).collect();
    soon("calls are in flight", || one::<i64>(&mut client, OPEN_CALLS, &[]) > 0);
    raise_on(&mut client, "true");
    soon("every session is held up", || {
        let blocked: Vec<String> = column(&mut client, "select distinct cause_code from dialectic.blocked", &[]);
        blocked.iter().any(|code| code == "held_up") && !problems(&mut client).is_empty()
    });
    client.batch_execute("drop trigger boom on dialectic.jobs").expect("drop");
    within(LONGEST_BACKOFF, "all go on", || sessions.iter().all(|id| status(&mut client, *id) == "completed"));
    soon("nothing is a problem", || problems(&mut client).is_empty());
    let outcomes: Vec<String> = column(&mut client, "select distinct outcome from dialectic.model_calls", &[]);
    assert_eq!(outcomes, ["answered"]);
    assert_sound(&mut client);
}

#[test]
fn held_up_session_does_not_stop_others_after_a_restart() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "slow", "100");
    let held = essay(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    raise_on(&mut client, &format!("old.session_id = '{held}'"));
    soon("the session is held up", || !problems(&mut client).is_empty());
    // Its claim is dead now, and cannot be released.
    server.stop("immediate");
    server.start();
    client = server.connect("law");
    let free: Vec<Uuid> = (0..4).map(|_| essay(&mut client, &["sim-a", "sim-b"])).collect();
    soon("the others complete", || free.iter().all(|id| status(&mut client, *id) == "completed"));
    soon("the session is held up again", || problems(&mut client).iter().any(|p| p.contains(&held.to_string())));
    client.batch_execute("drop trigger boom on dialectic.jobs").expect("drop");
    within(LONGEST_BACKOFF, "the session goes on", || status(&mut client, held) == "completed");
    assert_sound(&mut client);
}

#[test]
fn error_text_of_another_owner_is_not_shown() {
    let (server, mut client) = Server::serving("");
    client.batch_execute("create role other login; select dialectic.grant_user('other')").expect("a user");
    model(&mut client, "slow", "100");
    let held = essay(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    raise_on(&mut client, &format!("old.session_id = '{held}'"));
    soon("the session is held up", || problems(&mut client).iter().any(|problem| problem.contains("boom")));
    let mut other = server.connect("law");
    other.batch_execute("set session authorization other").expect("the user");
    let seen = problems(&mut other);
    assert!(seen.iter().any(|problem| problem.contains("P0001")), "{seen:?}");
    assert!(!seen.iter().any(|problem| problem.contains("boom")), "{seen:?}");
    let known = "select count(*) from dialectic._hold_ups() as h where coalesce(h.session_id::text, h.message, h.since::text) <> ''";
    assert_eq!(one::<i64>(&mut other, known, &[]), 0, "nothing tells whose session it is");
    assert_eq!(column::<String>(&mut other, BLOCKED, &[]), Vec::<String>::new());
}

#[test]
fn session_that_cannot_be_resumed_does_not_stop_others() {
    let (server, mut client) = Server::serving("");
    add_model(&mut client, "free", "{}");
    let priced = "select dialectic.add_model('priced', 'simulator', output_price => 0.01)";
    client.execute(priced, &[]).expect("a model");
    client.execute("select dialectic.open_wallet('role:postgres', 0)", &[]).expect("a wallet");
    let held = essay(&mut client, &["priced"]);
    let paused = "select count(*) from dialectic.jobs where status = 'paused_nsf'";
    soon("it waits for money", || one::<i64>(&mut client, paused, &[]) == 1);
    // Another transaction holds the session while the money comes, so that the next claim resumes its job.
    let mut other = server.connect("law");
    other.batch_execute("begin").expect("begin");
    other.execute("select from dialectic.sessions where id = $1 for update", &[&held]).expect("a lock");
    raise_on(&mut client, &format!("old.session_id = '{held}'"));
    client.execute("select dialectic.top_up('role:postgres', 1000000, 'more')", &[]).expect("money");
    other.batch_execute("rollback").expect("rollback");
    let free: Vec<Uuid> = (0..4).map(|_| essay(&mut client, &["free"])).collect();
    soon("the others complete", || free.iter().all(|id| status(&mut client, *id) == "completed"));
    soon("the session is held up", || problems(&mut client).iter().any(|p| p.contains(&held.to_string())));
    client.batch_execute("drop trigger boom on dialectic.jobs").expect("drop");
    within(LONGEST_BACKOFF, "the session goes on", || status(&mut client, held) == "completed");
    assert_sound(&mut client);
}

/// Essays that a cause holds up, and that complete once it is over; the problem shows the SQLSTATE.
fn held_up_until(client: &mut Client, sqlstate: &str, end: impl FnOnce(&mut Client)) {
    soon("the database is held up", || problems(client).iter().any(|problem| problem.contains(sqlstate)));
    let failed = "select count(*) from dialectic.jobs where status in ('failed', 'retry_loop_failed')";
    assert_eq!(one::<i64>(client, failed, &[]), 0);
    end(client);
    all_completed(client, LONGEST_BACKOFF);
    soon("nothing is a problem", || problems(client).is_empty());
    let outcomes: Vec<String> = column(client, "select distinct outcome from dialectic.model_calls", &[]);
    assert_eq!(outcomes, ["answered"], "no answer was lost");
    let attempts: i32 = one(client, "select max(attempt_count) from dialectic.jobs", &[]);
    assert_eq!(attempts, 1);
}

#[test]
fn lock_timeout_holds_up_and_fails_nothing() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "slow", "300");
    essay(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    let mut other = server.connect("law");
    other.batch_execute("begin; lock table dialectic.jobs in exclusive mode").expect("a lock");
    held_up_until(&mut client, "55P03", |_| other.batch_execute("rollback").expect("no lock"));
}

#[test]
fn read_only_server_holds_up_and_fails_nothing() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "300");
    essay(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    let set = |client: &mut Client, value: &str| {
        client.batch_execute(&format!("alter system set default_transaction_read_only = {value}")).expect("a setting");
        client.execute("select pg_reload_conf()", &[]).expect("a reload");
    };
    client.batch_execute("set default_transaction_read_only = off").expect("this connection writes");
    set(&mut client, "on");
    held_up_until(&mut client, "25006", |client| set(client, "off"));
}

#[test]
fn full_tablespace_holds_up_the_database_and_loses_nothing() {
    let server = Server::with("");
    let small = server.data().with_file_name("small");
    let _mounted = Tmpfs::mount(&small, "96m");
    let mut admin = server.connect("postgres");
    admin.batch_execute(&format!("create tablespace small location '{}'", small.display())).expect("a tablespace");
    admin.batch_execute("create database law tablespace small").expect("a database");
    let mut client = server.connect("law");
    create_extension(&mut client);
    soon("the database is served", || worker(&mut client).is_some());
    model(&mut client, "slow", "[20, 60]");
    switch(&mut client, false);
    let sessions: Vec<Uuid> = (0..3).map(|_| essay(&mut client, &["slow", "sim-a"])).collect();
    let filler = small.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    switch(&mut client, true);
    soon("the disk is full", || problems(&mut client).iter().any(|problem| problem.contains("53100")));
    let failed: i64 =
        one(&mut client, "select count(*) from dialectic.jobs where status in ('failed', 'retry_loop_failed')", &[]);
    assert_eq!(failed, 0);
    std::fs::remove_file(&filler).expect("room");
    drop(file);
    within(LONGEST_BACKOFF, "all go on", || sessions.iter().all(|id| status(&mut client, *id) == "completed"));
    soon("nothing is a problem", || problems(&mut client).is_empty());
    let outcomes: Vec<String> = column(&mut client, "select distinct outcome from dialectic.model_calls", &[]);
    assert_eq!(outcomes, ["answered"], "no answer was lost");
    assert_sound(&mut client);
    drop(client);
    admin.batch_execute("drop database law with (force)").expect("drop");
}
