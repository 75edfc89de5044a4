//! health(): nothing to complain of where all is well, and every problem it knows in words.

use dialectic_tests::*;
use postgres::Client;

fn problems(client: &mut Client) -> Vec<String> {
    one(client, "select problems from dialectic.health()", &[])
}

#[test]
fn a_fresh_database_and_a_finished_essay_have_no_problem() {
    let database = Database::new();
    let mut client = database.connect();
    assert!(problems(&mut client).is_empty());
    client.execute("select dialectic.run('Why laws?', models => '{sim-a}', process => 'essay')", &[]).expect("run");
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    let well = client.query_one("select * from dialectic.health()", &[]).expect("health");
    assert!(well.get::<_, Vec<String>>("problems").is_empty());
    let counts = ["claimers", "queue_depth", "calls_in_flight"].map(|name| well.get::<_, i64>(name));
    assert_eq!(counts, [0, 0, 0]);
    assert_eq!(well.get::<_, String>("library_version"), well.get::<_, String>("extension_version"));
}

#[test]
fn due_jobs_that_nobody_works_are_counted() {
    let database = Database::new();
    let mut client = database.connect();
    generated(&mut client, &["sim-a", "sim-b"]);
    assert_eq!(problems(&mut client), ["2 jobs are due and nobody works the queue: CALL dialectic.run_pending()"]);
    let mut claimer = database.connect();
    claimer.execute("select dialectic._open_claimer('law')", &[]).expect("a claimer");
    assert!(problems(&mut client).is_empty());
    let (claimers, depth): (i64, i64) = client
        .query_one("select claimers, queue_depth from dialectic.health()", &[])
        .map(|row| (row.get(0), row.get(1)))
        .expect("health");
    assert_eq!((claimers, depth), (1, 2));
}

#[test]
fn a_library_of_another_version_is_named() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute("set allow_system_table_mods = on; update pg_extension set extversion = '9.9' where extname = 'pg_dialectic'")
        .expect("another version");
    let found = problems(&mut client);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("the extension 9.9: ALTER EXTENSION pg_dialectic UPDATE"), "{found:?}");
}

#[test]
fn a_paused_provider_and_claims_of_the_dead_are_named() {
    let database = Database::new();
    let mut client = database.connect();
    generated(&mut client, &["sim-a", "sim-b"]);
    client
        .execute("select dialectic.complete_job(c.id, c.claim_id) from dialectic.claim_jobs('planner', 10) c", &[])
        .expect("planning");
    client
        .execute("select dialectic.fail_job(c.id, c.claim_id, 'configuration', 'no such key') from dialectic.claim_jobs('worker', 1) c", &[])
        .expect("fail_job");
    // Both jobs are due, but their provider is paused: working the queue would not help.
    assert_eq!(
        problems(&mut client),
        ["provider simulator is paused: no such key; mend it with dialectic.add_provider(…)"]
    );

    client.batch_execute("delete from dialectic.provider_clocks").expect("mended");
    let mut claimer = database.connect();
    let name: String = one(&mut claimer, "select dialectic._open_claimer('law')", &[]);
    claimer.execute("select dialectic._take($1, 10)", &[&name]).expect("_take");
    assert!(problems(&mut client).is_empty());
    let process = pid(&mut claimer);
    assert!(one::<bool>(&mut client, "select pg_terminate_backend($1, 10000)", &[&process]));
    assert_eq!(problems(&mut client), ["2 jobs belong to claimers that are gone; the next claim frees them"]);
}
