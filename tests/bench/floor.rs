//! The floor of a figure: what hand-written, batched statements reach on the same cluster in the same run.
//!
//! Every bound on speed is a ratio to a floor measured before and after its row, so that a slower machine moves both.
//! The work of a floor is fixed: it does not change with the engine. Measures nothing of the engine.

use crate::figure::{median, percentile};
use crate::ground::sized;
use dialectic_tests::*;
use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// What a call of an essay writes: one prompt and one answer of these bytes, small rows, updates and deletes of them.
const PROMPT: usize = 5_000;
const ANSWER: usize = 2_500;
const SMALL_ROWS: i32 = 6;
const UPDATES: i32 = 6;
const DELETES: i32 = 1;
/// The calls that are written in one transaction.
const BATCH: usize = 64;
/// A listener that hears nothing for this long is broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is measured for the rows that are judged by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Floor {
    /// Calls per second whose rows are written in batches.
    Calls,
    /// Milliseconds that one batch of these takes.
    Batch,
    /// Milliseconds from COMMIT to the third commit of a listener that was notified: the middle one.
    Wake,
    /// The same: 99 of 100 take no longer.
    SlowWake,
    /// Milliseconds to claim 64 rows of many in a plain table.
    Claim,
    /// Milliseconds of the first statement of a new connection that needs the library.
    Connection,
}

impl Floor {
    pub(crate) fn what(self) -> &'static str {
        match self {
            Floor::Calls => "calls/s by hand",
            Floor::Batch => "ms a batch by hand",
            Floor::Wake => "ms to wake a listener",
            Floor::SlowWake => "ms to wake a listener, p99",
            Floor::Claim => "ms a claim by hand",
            Floor::Connection => "ms to load the library",
        }
    }
}

/// The floors that a row asks for.
pub(crate) fn measure(wanted: &[Floor]) -> BTreeMap<Floor, f64> {
    let mut found = BTreeMap::new();
    for floor in wanted {
        if found.contains_key(floor) {
            continue;
        }
        match floor {
            Floor::Calls | Floor::Batch => {
                let rate = calls_per_second();
                found.insert(Floor::Calls, rate);
                found.insert(Floor::Batch, BATCH as f64 * 1000.0 / rate);
            }
            Floor::Wake | Floor::SlowWake => {
                let waits = wakes();
                found.insert(Floor::Wake, median(&waits));
                found.insert(Floor::SlowWake, percentile(&waits, 99));
            }
            Floor::Claim => {
                found.insert(Floor::Claim, claim());
            }
            Floor::Connection => {
                found.insert(Floor::Connection, connection());
            }
        }
    }
    found
}

/// A text of so many bytes that is unlike the others, and compresses as prose does.
fn text(number: usize, bytes: usize) -> String {
    let word = |place: usize| format!("word{:04} ", (number * 7919 + place * 104_729) % 9973);
    let mut text: String = (0..bytes / 9 + 1).map(word).collect();
    text.truncate(bytes);
    text
}

const TABLES: &str = "
    create table texts (id bigint generated always as identity primary key, owner integer, content text not null);
    create index on texts (owner);
    create table moves (id bigint primary key, owner integer, status integer not null default 0, filler text not null);
    create index on moves (owner, status);";

fn calls_per_second() -> f64 {
    let database = Database::empty();
    let mut client = database.connect();
    client.batch_execute(TABLES).expect("tables");
    let count = sized(64, 8) as usize;
    // What is written is made before: the floor is what the server takes.
    let of_call = |call: usize| [text(call, PROMPT), text(call + 5_000, ANSWER)];
    let batches: Vec<Vec<String>> =
        (0..=count).map(|batch| (batch * BATCH..(batch + 1) * BATCH).flat_map(of_call).collect()).collect();
    // The first batch is not counted: plans are made and files grow.
    write_batch(&mut client, 0, &batches[0]);
    let begun = Instant::now();
    batches.iter().enumerate().skip(1).for_each(|(batch, texts)| write_batch(&mut client, batch, texts));
    (count * BATCH) as f64 / begun.elapsed().as_secs_f64()
}

fn write_batch(client: &mut Client, batch: usize, texts: &[String]) {
    let first = (batch * BATCH) as i64;
    let rows = BATCH as i64 * i64::from(SMALL_ROWS);
    let (from, to) = (first * i64::from(SMALL_ROWS), first * i64::from(SMALL_ROWS) + rows - 1);
    let mut transaction = client.transaction().expect("begin");
    transaction.execute("insert into texts (owner, content) select 1, unnest($1::text[])", &[&texts]).expect("texts");
    transaction
        .execute(
            "insert into moves (id, owner, filler) select n, n % 50, repeat('x', 150) \
             from generate_series($1::bigint, $2) as n",
            &[&from, &to],
        )
        .expect("rows");
    for _ in 0..UPDATES {
        transaction
            .execute(
                "update moves set status = status + 1 \
                 where id = any(array(select generate_series($1::bigint, $2, $3)))",
                &[&from, &to, &i64::from(SMALL_ROWS)],
            )
            .expect("moves");
    }
    transaction
        .execute(
            "delete from moves where id = any(array(select generate_series($1::bigint + 1, $2, $3)))",
            &[&from, &to, &i64::from(SMALL_ROWS / DELETES)],
        )
        .expect("rows that go");
    transaction.commit().expect("commit");
}

/// Milliseconds from before COMMIT to after the third commit that follows it: the work, its plan, its prompt.
fn wakes() -> Vec<f64> {
    let database = Database::empty();
    let mut client = database.connect();
    client.batch_execute(TABLES).expect("tables");
    let (done, woken): (Sender<Instant>, Receiver<Instant>) = channel();
    let mut listener = database.connect();
    listener.batch_execute("listen work").expect("listen");
    let rounds = sized(100, 20) as usize;
    let prompt = text(0, PROMPT);
    let listening = std::thread::spawn(move || {
        for round in 0..rounds {
            let heard = listener.notifications().timeout_iter(PATIENCE).next().expect("a connection");
            heard.expect("a notification");
            let plan = round as i64 + 1_000_000;
            listener.execute("insert into moves (id, owner, filler) values ($1, 2, 'plan')", &[&plan]).expect("a plan");
            listener.execute("insert into texts (owner, content) values (2, $1)", &[&prompt]).expect("a prompt");
            done.send(Instant::now()).expect("somebody waits");
        }
    });
    let waits = (0..rounds)
        .map(|round| {
            let mut transaction = client.transaction().expect("begin");
            transaction
                .execute("insert into moves (id, owner, filler) values ($1, 1, 'work')", &[&(round as i64)])
                .expect("work");
            transaction.batch_execute("notify work").expect("notify");
            let begun = Instant::now();
            transaction.commit().expect("commit");
            let woken = woken.recv_timeout(PATIENCE).expect("the listener");
            woken.duration_since(begun).as_secs_f64() * 1000.0
        })
        .collect();
    listening.join().expect("the listener");
    waits
}

fn claim() -> f64 {
    let database = Database::empty();
    let mut client = database.connect();
    let rows = i64::from(sized(100_000, 2_000));
    client
        .batch_execute(&format!(
            "{TABLES} insert into moves (id, owner, filler) select n, n % 1000, repeat('x', 150) \
             from generate_series(1, {rows}) as n; \
             create index on moves (id) where status = 0; analyze moves"
        ))
        .expect("rows");
    let claims: Vec<f64> = (0..15)
        .map(|_| {
            let begun = Instant::now();
            let claimed = client
                .query(
                    "update moves set status = 1 where id in (select id from moves where status = 0 \
                     order by id limit 64 for update skip locked) returning id",
                    &[],
                )
                .expect("a claim");
            assert_eq!(claimed.len(), 64);
            begun.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    median(&claims)
}

fn connection() -> f64 {
    let database = Database::new();
    let firsts: Vec<f64> = (0..sized(31, 5))
        .map(|_| {
            let mut client = database.connect();
            let begun = Instant::now();
            client.query_one("select dialectic._now()", &[]).expect("a first statement");
            begun.elapsed().as_secs_f64() * 1000.0
        })
        .collect();
    median(&firsts)
}
