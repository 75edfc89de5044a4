//! The worker stopped while it renders the seed prompt of a stage that a session has opened by itself.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

const SEEDS: &str = "select count(*) from dialectic.resources \
    where session_id = $1 and stage = 'antithesis' and resource_type = 'seed_prompt'";

/// An essay whose second stage is open, with the worker stopped before its seed prompt is stored.
fn stopped_before_the_seed(client: &mut Client) -> Uuid {
    set(client, "dialectic.stop_at", Some("rendering_seed"));
    let session = essay(client, &["sim-a", "sim-b"]);
    soon("the worker renders the seed prompt", || stopped_at(client).as_deref() == Some("rendering_seed"));
    let opened = "select status from dialectic.stage_runs where session_id = $1 and stage = 'antithesis'";
    assert_eq!(one::<String>(client, opened, &[&session]), "running");
    assert_eq!(one::<i64>(client, SEEDS, &[&session]), 0);
    session
}

fn release(client: &mut Client) {
    set(client, "dialectic.stop_at", None);
    soon("the worker goes on", || stopped_at(client).is_none());
}

fn status(client: &mut Client, session: Uuid) -> String {
    one(client, "select status from dialectic.sessions where id = $1", &[&session])
}

/// Waits until the worker has no claim left.
fn claims_are_released(client: &mut Client) {
    let claimed = "select count(*) from dialectic.claims";
    soon("no claim is left", || one::<i64>(client, claimed, &[]) == 0);
}

#[test]
fn worker_killed_before_the_seed_prompt_is_stored_loses_nothing() {
    let (server, mut client) = Server::serving("");
    let session = stopped_before_the_seed(&mut client);
    let pid = worker(&mut client).expect("a worker that is stopped");
    client.batch_execute("alter system reset dialectic.stop_at").expect("ALTER SYSTEM");
    let before = server.beginnings().len();
    signal(pid, libc::SIGKILL);
    signal(server.postmaster(), libc::SIGHUP);
    within(Duration::from_secs(30), "the server is back", || server.beginnings().len() > before);
    client = server.connect("law");
    all_completed(&mut client, Duration::from_secs(60));
    assert_eq!(one::<i64>(&mut client, SEEDS, &[&session]), 1);
}

#[test]
fn session_cancelled_before_its_seed_prompt_is_stored_gets_none() {
    let (_server, mut client) = Server::serving("");
    let session = stopped_before_the_seed(&mut client);
    client.execute("select dialectic.cancel($1)", &[&session]).expect("cancel");
    release(&mut client);
    claims_are_released(&mut client);
    assert_eq!(status(&mut client, session), "cancelled");
    assert_eq!(one::<i64>(&mut client, SEEDS, &[&session]), 0);
    client.execute("select dialectic.retry($1)", &[&session]).expect("retry");
    all_completed(&mut client, Duration::from_secs(60));
    assert_eq!(one::<i64>(&mut client, SEEDS, &[&session]), 1);
}

#[test]
fn session_paused_before_its_seed_prompt_is_stored_goes_on_after_resume() {
    let (_server, mut client) = Server::serving("");
    let session = stopped_before_the_seed(&mut client);
    client.execute("select dialectic.pause($1)", &[&session]).expect("pause");
    release(&mut client);
    claims_are_released(&mut client);
    assert_eq!(one::<i64>(&mut client, SEEDS, &[&session]), 0);
    client.execute("select dialectic.resume($1)", &[&session]).expect("resume");
    all_completed(&mut client, Duration::from_secs(60));
    assert_eq!(one::<i64>(&mut client, SEEDS, &[&session]), 1);
}

#[test]
fn seed_prompt_that_cannot_be_stored_holds_up_its_session() {
    let (_server, mut client) = Server::serving("");
    client
        .batch_execute(
            "create function public.boom() returns trigger language plpgsql as $$ begin \
                 raise exception 'boom'; end $$; \
             create trigger boom before insert on dialectic.resources for each row \
                 when (new.resource_type = 'seed_prompt' and new.stage = 'antithesis') execute function public.boom()",
        )
        .expect("a trigger");
    let session = essay(&mut client, &["sim-a"]);
    let held_up = "select count(*) from dialectic.blocked where session_id = $1 and cause_code = 'held_up'";
    soon("the session is held up", || one::<i64>(&mut client, held_up, &[&session]) > 0);
    assert_eq!(status(&mut client, session), "active");
    client.batch_execute("drop trigger boom on dialectic.resources").expect("drop");
    all_completed(&mut client, Duration::from_secs(60));
}
