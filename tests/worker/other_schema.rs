//! The worker of a schema that another build has made: it waits, logs once, and begins when the schema is its own.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

const WAITS: &str = "select exists (select from pg_stat_activity where backend_type = 'pg_dialectic worker' \
                     and datname = current_database() and query = 'waiting for a schema of this build')";

#[test]
fn worker_waits_for_a_schema_of_its_own_build_and_logs_once() {
    let (server, mut client) = Server::serving("");
    let own: String = one(&mut client, "select dialectic._schema_fingerprint()", &[]);
    let replaced = |fingerprint: &str| {
        format!(
            "create or replace function dialectic._schema_fingerprint() returns text language sql immutable \
             as $$ select '{fingerprint}'::text $$"
        )
    };
    client.execute("select dialectic.set_config('worker_enabled', 'false')", &[]).expect("switched off");
    essay(&mut client, &["sim-a"]);
    client.batch_execute(&replaced("0123456789abcdef")).expect("a schema of another build");
    client.execute("select dialectic.set_config('worker_enabled', 'true')", &[]).expect("switched on");
    server.stop("immediate");
    server.start();
    let mut client = server.connect("law");
    soon("the worker waits", || one(&mut client, WAITS, &[]));
    let waiting = worker(&mut client);
    // It looks whenever it is woken, and says nothing more.
    for _ in 0..3 {
        client.execute("select dialectic._notify_worker(null, false)", &[]).expect("woken");
        soon("it waits again", || one(&mut client, WAITS, &[]));
    }
    let line = "the schema of pg_dialectic in database \"law\" was made by another build than the library";
    assert_eq!(server.log().matches(line).count(), 1, "{}", server.log());
    assert!(server.log().contains("HINT:  Restart the server if pg_dialectic was installed since it started"));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 0);

    client
        .batch_execute(&format!("begin; {}; select dialectic._notify_worker(null, false); commit", replaced(&own)))
        .expect("its own schema");
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(worker(&mut client), waiting, "the same worker goes on");
}
