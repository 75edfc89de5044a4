//! Whether the worker grows: its memory after 20,000 calls and after 200,000, the first half of them under an old snapshot.
//!
//! Read while the worker rests between sessions.

use crate::figure::{Bound, Figure};
use crate::ground::{all_completed, assert_done, begin, fan_project, fresh, model, sized, worker};
use crate::process;
use serde_json::json;

pub(crate) fn measure() -> Vec<Figure> {
    let children = sized(1_000, 100);
    let (database, mut client) = fresh();
    model(&mut client, "bench", 0, 1);
    let project = fan_project(&mut client, children, false);
    let mut reader = database.connect();
    reader
        .batch_execute("begin isolation level repeatable read; select count(*) from dialectic.jobs")
        .expect("an old snapshot");
    let mut anonymous = Vec::new();
    // Twenty at a time, for what is begun at once is what memory is needed for.
    for round in 1..=10 {
        begin(&mut client, project, "bench", 20);
        all_completed(&mut client);
        let pid = worker(&mut client);
        process::at_rest(pid);
        if [1, 5, 10].contains(&round) {
            anonymous.push(process::memory(pid).anonymous as f64 / 1024.0);
        }
        if round == 5 {
            reader.batch_execute("rollback").expect("the end of the snapshot");
        }
    }
    assert_done(&mut client, 200 * children);
    let at = [20, 100, 200].map(|sessions| sessions * children);
    vec![
        Figure::new(format!("the worker's memory after {} calls", at[0]), anonymous[0], "MB", Bound::Free, json!({})),
        Figure::new(
            format!("what it has grown by after {}", at[2]),
            anonymous[2] - anonymous[0],
            "MB",
            Bound::AtMost(10.0),
            json!({"calls": at, "anonymous_mb": anonymous}),
        ),
    ]
}
