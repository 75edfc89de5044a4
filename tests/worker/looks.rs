//! What a person and the rest of the server see of the worker.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn launcher_and_worker_are_in_pg_stat_activity() {
    let (_server, mut client) = Server::serving("");
    let shown: Vec<String> = column(
        &mut client,
        "select format('%s %s', backend_type, coalesce(datname, 'none')) from pg_stat_activity \
         where backend_type like 'pg_dialectic %' order by 1",
        &[],
    );
    assert_eq!(shown, ["pg_dialectic launcher none", "pg_dialectic worker law"]);
    soon("an idle worker is idle", || {
        one(
            &mut client,
            "select coalesce(state = 'idle', false) from pg_stat_activity where backend_type = 'pg_dialectic worker'",
            &[],
        )
    });
    let well = client.query_one("select worker_alive, preloaded, problems from dialectic.health()", &[]);
    let well = well.expect("health");
    assert!(well.get::<_, bool>(0) && well.get::<_, bool>(1));
    assert_eq!(well.get::<_, Vec<String>>(2), [""; 0]);
}

#[test]
fn autovacuum_is_told_of_what_the_worker_writes() {
    let (_server, mut client) = Server::serving("");
    essay(&mut client, &["sim-a", "sim-b"]);
    all_completed(&mut client, Duration::from_secs(20));
    // Two plans for each of three stages and 20 calls: this connection inserted the first two plans alone, and moved none.
    soon("the counters have the worker's writes", || {
        let row = client
            .query_one(
                "select n_tup_ins, n_tup_upd from pg_stat_user_tables where schemaname = 'dialectic' and relname = 'jobs'",
                &[],
            )
            .expect("pg_stat_user_tables");
        row.get::<_, i64>(0) >= 26 && row.get::<_, i64>(1) >= 46
    });
}

#[test]
fn nothing_is_held_while_models_are_called() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "endless", "600000");
    single_calls(&mut client, "endless", 10);
    in_flight(&mut client, 10);
    let pid = worker(&mut client).expect("a worker");
    // One look reads several moments.
    soon("it waits and holds nothing, three looks in a row", || {
        (0..3).all(|_| {
            one(
                &mut client,
                "select coalesce(wait_event_type = 'Extension' and state = 'idle', false) and backend_xmin is null and backend_xid is null \
                     and not exists (select from pg_locks where pid = $1 and locktype <> 'advisory') \
                 from pg_stat_activity where pid = $1",
                &[&pid],
            )
        })
    });
    // So whoever wants a table to himself gets it.
    client
        .batch_execute("set lock_timeout = '2s'; begin; lock dialectic.jobs, dialectic.model_calls; rollback")
        .expect("LOCK");
}
