//! How soon work begins on an idle server: from generate() committed to the first call opened.
//!
//! The clock starts just before COMMIT is sent, so the commit itself counts. One session after the other, each only when the
//! worker rests again.

use crate::figure::{Bound, Figure, median, percentile};
use crate::floor::Floor;
use crate::ground::{all_completed, assert_done, begin, fan_project, fresh, model, sized, worker};
use crate::process;
use dialectic_tests::*;
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

const WARM_UP: i32 = 5;
/// The most times the floor.
const HALF_RATIO: f64 = 3.5;
const MOST_RATIO: f64 = 6.0;

pub(crate) fn measure() -> Vec<Figure> {
    let sessions = sized(100, 10);
    let runs: Vec<Vec<f64>> = (0..3).map(|_| run(sessions)).collect();
    let of_runs = |hundredths| runs.iter().map(|run| percentile(run, hundredths)).collect::<Vec<f64>>();
    let (half, most) = (of_runs(50), of_runs(99));
    let with = json!({"sessions": sessions, "p50_ms": half, "p99_ms": most, "worst_ms": of_runs(100)});
    vec![
        Figure::new(
            "commit to first call, idle server, p50",
            median(&half),
            "ms",
            Bound::Below(HALF_RATIO),
            with.clone(),
        )
        .against(Floor::Wake),
        Figure::new("commit to first call, idle server, p99", median(&most), "ms", Bound::Below(MOST_RATIO), with)
            .against(Floor::SlowWake),
    ]
}

/// Milliseconds, one for each session.
fn run(sessions: i32) -> Vec<f64> {
    let (_database, mut client) = fresh();
    model(&mut client, "bench", 0, 1);
    let project = fan_project(&mut client, 1, false);
    for _ in 0..WARM_UP {
        begin(&mut client, project, "bench", 1);
        all_completed(&mut client);
    }
    let pid = worker(&mut client);
    let waits = (0..sessions)
        .map(|_| {
            let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{bench}')", &[&project]);
            process::at_rest(pid);
            let mut transaction = client.transaction().expect("a transaction");
            transaction.execute("select dialectic.generate($1)", &[&session]).expect("generate");
            // Client and server share one machine and so one clock.
            let sent = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_micros() as i64;
            transaction.commit().expect("commit");
            // First without a query, which would be in the worker's way.
            process::at_rest(pid);
            all_completed(&mut client);
            let opened: i64 = one(
                &mut client,
                "select (extract(epoch from min(started_at)) * 1000000)::bigint from dialectic.model_calls where session_id = $1",
                &[&session],
            );
            (opened - sent) as f64 / 1000.0
        })
        .collect();
    assert_done(&mut client, WARM_UP + sessions);
    waits
}
