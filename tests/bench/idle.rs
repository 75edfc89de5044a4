//! What the engine does when there is nothing to do: how often the kernel had to run the launcher and the worker.
//!
//! The figure is that of the main thread, as in /proc/PID/status. Call threads that wind down after the last call are counted
//! beside it.

use crate::figure::{Bound, Figure};
use crate::ground::{all_completed, assert_done, begin, fan_project, fresh, launcher, model, worker};
use crate::process;
use serde_json::json;
use std::time::Duration;

const WATCHED: Duration = Duration::from_secs(10);

pub(crate) fn measure() -> Vec<Figure> {
    let (_database, mut client) = fresh();
    model(&mut client, "bench", 0, 1);
    let project = fan_project(&mut client, 3, false);
    begin(&mut client, project, "bench", 1);
    all_completed(&mut client);
    assert_done(&mut client, 3);
    let pids = [launcher(&mut client), worker(&mut client)];
    pids.iter().for_each(|pid| process::at_rest(*pid));
    let before = pids.map(process::switches);
    // The time is what is measured here: nothing is waited for.
    std::thread::sleep(WATCHED);
    let after = pids.map(process::switches);
    let figure = |name: &str, at: usize| {
        let (main, all) = process::between(pids[at], &before[at], &after[at]);
        let seconds = WATCHED.as_secs();
        Figure::new(
            format!("context switches of the idle {name} in {seconds} s"),
            main as f64,
            "",
            Bound::AtMost(2.0),
            json!({"all_threads": all, "threads": [before[at].len(), after[at].len()]}),
        )
    };
    vec![figure("launcher", 0), figure("worker", 1)]
}
