//! The clock that a superuser can move, and the ids that stay in order when it moves.

use dialectic_tests::*;
use postgres::Client;

/// How many seconds the engine's clock is ahead of the server's.
fn seconds_ahead(client: &mut Client) -> f64 {
    one(client, "select extract(epoch from dialectic._now() - clock_timestamp())::float8", &[])
}

#[test]
fn the_clock_moves_by_its_offset_and_back() {
    let database = Database::unserved();
    let mut client = database.connect();
    client.batch_execute("set dialectic.clock_offset = 86400").expect("superuser");
    let ahead = seconds_ahead(&mut client);
    assert!((86399.0..=86400.0).contains(&ahead), "{ahead}");
    client.batch_execute("set dialectic.clock_offset = -3600.5").expect("superuser");
    let behind = seconds_ahead(&mut client);
    assert!((-3601.5..=-3600.5).contains(&behind), "{behind}");
    client.batch_execute("reset dialectic.clock_offset").expect("superuser");
    let back = seconds_ahead(&mut client);
    assert!(back.abs() < 1.0, "{back}");
}

#[test]
fn ids_follow_the_true_clock_and_stay_in_order() {
    let database = Database::unserved();
    let mut client = database.connect();
    client
        .batch_execute(
            "create temp table made as select n, dialectic._uuid_v7() as id from generate_series(1, 2000) as n; \
             set dialectic.clock_offset = -1000000; \
             insert into made select n, dialectic._uuid_v7() from generate_series(2001, 4000) as n",
        )
        .expect("ids");
    let out_of_order: i64 = one(
        &mut client,
        "select count(*) from (select id, lag(id) over (order by n) as before from made) as m where id <= before",
        &[],
    );
    assert_eq!(out_of_order, 0);
    let malformed: i64 = one(
        &mut client,
        "select count(*) from made \
         where id::text !~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$'",
        &[],
    );
    assert_eq!(malformed, 0);
}
