//! What counting tokens takes: the very first count of a new connection, what it leaves in that backend, and how fast it goes.
//!
//! Nothing is warmed up: the first statement of the connection is the count. How much faster it is than the reference is a law of
//! the core (`tests/core/tokens.rs`), where both are built alike.

use crate::figure::{Bound, Figure, median};
use crate::floor::Floor;
use crate::ground::{sized, unlimited};
use dialectic_tests::*;
use postgres::Client;
use serde_json::json;
use std::time::Instant;

const SENTENCE: &str = "A well is dug where the water is near, and lined with stone. ";
/// About 6 kB, as a prompt is.
const SENTENCES: usize = 100;
/// The most times the floor.
const FIRST_RATIO: f64 = 12.0;
/// About a megabyte.
const MANY: usize = 17_000;

fn milliseconds(client: &mut Client, text: &str) -> f64 {
    let begun = Instant::now();
    let counted: i64 = one(client, "select dialectic.count_tokens($1, 'gpt-5-nano')", &[&text]);
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    assert!(counted > text.len() as i64 / 6, "{counted} tokens in {} bytes", text.len());
    took
}

pub(crate) fn measure() -> Vec<Figure> {
    let (database, mut client) = unlimited();
    let (short, long) = (SENTENCE.repeat(SENTENCES), SENTENCE.repeat(MANY));
    let connections = sized(31, 5);
    let (mut first, mut grown) = (Vec::new(), Vec::new());
    for _ in 0..connections {
        let mut new = database.connect();
        // The first count is the first statement, so another connection looks who this is.
        let pid: i32 = one(
            &mut client,
            "select pid from pg_stat_activity where datname = current_database() and backend_type = 'client backend' \
             and pid <> pg_backend_pid() order by backend_start desc limit 1",
            &[],
        );
        let before = private_memory(pid);
        first.push(milliseconds(&mut new, &short));
        grown.push(private_memory(pid).saturating_sub(before) as f64 / 1024.0);
        new.close().expect("the end of a connection");
    }
    let counts: Vec<f64> = (0..7).map(|_| long.len() as f64 / milliseconds(&mut client, &long) / 1000.0).collect();
    vec![
        Figure::new(
            "first count of tokens on a new connection",
            median(&first),
            "ms",
            Bound::Below(FIRST_RATIO),
            json!({"connections": connections, "ms": first}),
        )
        .against(Floor::Connection),
        Figure::new(
            "… private memory that it leaves in the backend",
            median(&grown),
            "MB",
            Bound::Below(2.0),
            json!({"megabytes": grown}),
        ),
        Figure::new("tokens of a megabyte of prose", median(&counts), "MB/s", Bound::Free, json!({"mb_per_s": counts})),
    ]
}
