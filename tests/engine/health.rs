//! health(): nothing to complain of where all is well, and every problem it knows in words.

use crate::by_hand::{claimer, take};
use dialectic_tests::*;
use postgres::Client;

const NO_WORKER: &str = "no worker: add pg_dialectic to shared_preload_libraries and restart the server; until then CALL dialectic.run_pending()";

fn problems(client: &mut Client) -> Vec<String> {
    one(client, "select problems from dialectic.health()", &[])
}

/// The problems are these; where the library is not preloaded, that comes first.
#[track_caller]
fn has_problems(client: &mut Client, expected: &[&str]) {
    let of_the_server: &[&str] = if preloaded() { &[] } else { &[NO_WORKER] };
    assert_eq!(problems(client), [of_the_server, expected].concat());
}

#[test]
fn a_fresh_database_and_a_finished_essay_have_no_problem() {
    let database = Database::new();
    let mut client = database.connect();
    has_problems(&mut client, &[]);
    client.execute("select dialectic.run('Why laws?', models => '{sim-a}', process => 'essay')", &[]).expect("run");
    work(&mut client);
    has_problems(&mut client, &[]);
    let well = client.query_one("select * from dialectic.health()", &[]).expect("health");
    let counts = ["claimers", "queue_depth", "calls_in_flight"].map(|name| well.get::<_, i64>(name));
    assert_eq!(counts, [i64::from(preloaded()), 0, 0]);
    assert_eq!(["worker_alive", "preloaded"].map(|name| well.get::<_, bool>(name)), [preloaded(); 2]);
    assert_eq!(well.get::<_, String>("library_version"), well.get::<_, String>("extension_version"));
}

#[test]
fn due_jobs_that_nobody_works_are_counted() {
    let database = Database::unserved();
    let mut client = database.connect();
    generated(&mut client, &["sim-a", "sim-b"]);
    let idle = "2 jobs are due and nobody works the queue; the log of the server says why the worker does not start";
    // Without a worker the one problem says what to do about both.
    has_problems(&mut client, &[idle][usize::from(!preloaded())..]);
    let _claimer = claimer(&database);
    has_problems(&mut client, &[]);
    let row =
        client.query_one("select worker_alive, claimers, queue_depth from dialectic.health()", &[]).expect("health");
    assert_eq!((row.get(0), row.get(1), row.get(2)), (false, 1i64, 2i64));
}

#[test]
fn a_library_of_another_version_is_named() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute("set allow_system_table_mods = on; update pg_extension set extversion = '9.9' where extname = 'pg_dialectic'")
        .expect("another version");
    let library: String = one(&mut client, "select library_version from dialectic.health()", &[]);
    let mismatch = format!(
        "the library is version {library}, the extension 9.9: ALTER EXTENSION pg_dialectic UPDATE, or restart the server"
    );
    has_problems(&mut client, &[&mismatch]);
}

#[test]
fn a_paused_provider_and_claims_of_the_dead_are_named() {
    let database = Database::by_hand();
    let mut client = database.connect();
    generated(&mut client, &["sim-a", "sim-b"]);
    client
        .execute("select dialectic.complete_job(c.id, c.claim_id) from dialectic.claim_jobs('planner', 10) c", &[])
        .expect("planning");
    client
        .execute("select dialectic.fail_job(c.id, c.claim_id, 'configuration', 'no such key') from dialectic.claim_jobs('worker', 1) c", &[])
        .expect("fail_job");
    // Both jobs are due, but their provider is paused: working the queue would not help.
    has_problems(
        &mut client,
        &[
            "provider simulator is paused: no such key; correct it with dialectic.set_secret(…) or dialectic.add_provider(…)",
        ],
    );

    client.batch_execute("delete from dialectic.provider_cooldowns").expect("mended");
    let (mut claimer, name) = claimer(&database);
    assert_eq!(take(&mut claimer, &name), 2);
    has_problems(&mut client, &[]);
    let process = pid(&mut claimer);
    assert!(one::<bool>(&mut client, "select pg_terminate_backend($1, 10000)", &[&process]));
    let off = "the worker is switched off: SELECT dialectic.set_config('worker_enabled', 'true')";
    has_problems(&mut client, &[&format!("2 jobs belong to claimers that are gone; {off}")]);
}
