//! Whether a claim stays cheap when nothing can be cleaned up: pages touched by one claim before and after many jobs went
//! through, while somebody holds an old snapshot.
//!
//! Both claims meet the same number of ready jobs, in the same database and connection, the worker being off. The snapshot is
//! still held when the second is measured.

use crate::figure::{Bound, Figure, median};
use crate::ground::{all_completed, assert_done, begin, enable_worker, fan_project, fresh, model, plan_by_hand, sized};
use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

const CLAIMS: usize = 5;

pub(crate) fn measure() -> Vec<Figure> {
    let children = sized(1_000, 100);
    let sessions = sized(100, 5);
    let (database, mut client) = fresh();
    model(&mut client, "bench", 0, 1);
    let project = fan_project(&mut client, children, false);
    // Before its worker is first looked for, the database has no jobs at all.
    let mut claimer = database.connect();
    let clean = with_ready(&mut client, &mut claimer, project);

    let mut reader = database.connect();
    reader
        .batch_execute("begin isolation level repeatable read; select count(*) from dialectic.jobs")
        .expect("an old snapshot");
    enable_worker(&mut client, true);
    begin(&mut client, project, "bench", sessions - 1);
    all_completed(&mut client);
    assert_done(&mut client, sessions * children);
    let used = with_ready(&mut client, &mut claimer, project);
    reader.batch_execute("rollback").expect("the end of the snapshot");

    vec![Figure::new(
        format!("pages of a claim after {} jobs under an old snapshot, against none", sessions * children),
        median(&used) / median(&clean),
        "×",
        Bound::AtMost(3.0),
        json!({"ready": children, "pages": {"clean": clean, "used": used}}),
    )]
}

/// The pages of claims that meet one session of ready jobs; each claim is rolled back.
fn with_ready(client: &mut Client, claimer: &mut Client, project: Uuid) -> Vec<f64> {
    enable_worker(client, false);
    begin(client, project, "bench", 1);
    plan_by_hand(client);
    // Once unmeasured: a connection reads the catalogs the first time.
    pages(claimer);
    (0..CLAIMS).map(|_| pages(claimer)).collect()
}

fn pages(claimer: &mut Client) -> f64 {
    let mut transaction = claimer.transaction().expect("a transaction");
    let explained: Value = transaction
        .query_one("explain (analyze, buffers, format json) select * from dialectic.claim_jobs('bench', 64)", &[])
        .expect("a claim")
        .get(0);
    transaction.rollback().expect("rollback");
    let plan = &explained[0]["Plan"];
    assert_eq!(plan["Actual Rows"].as_f64(), Some(64.0), "{explained}");
    let count = |name: &str| plan[name].as_f64().expect("a number of pages");
    count("Shared Hit Blocks") + count("Shared Read Blocks")
}
