//! Five hundred streams of 2,000 tokens, all open at once: what the worker weighs, and whether its main thread stays free.
//!
//! A token is an event of its own and comes every 10 ms, so a stream takes 20 seconds; all that it says is put down in between.
//! The memory is the worker's own, as in `in_flight`.

use crate::figure::{Bound, Figure};
use crate::floor::Floor;
use crate::ground::{Setting, all_completed, assert_done, begin, fan_project, fresh, sized, until, worker};
use crate::loopback;
use crate::process;
use dialectic_tests::fake_provider::{Act, Provider};
use dialectic_tests::*;
use serde_json::json;
use std::time::{Duration, Instant};

/// The most times the floor.
const TURN_RATIO: f64 = 6.0;

pub(crate) const TOKENS: usize = 2_000;
pub(crate) const EVERY: Duration = Duration::from_millis(10);

/// A provider of the model `streamed`, and what that says.
pub(crate) fn streaming() -> (Provider, String) {
    let words: Vec<String> = (0..TOKENS).map(|number| format!("token{number}")).collect();
    let text = words.join(" ");
    (loopback::aside(&["streamed"], &Act::text(&text).every(EVERY)), text)
}

pub(crate) fn measure() -> Vec<Figure> {
    let streams = sized(500, 20);
    let _setting = Setting::new("dialectic.max_concurrent_calls", streams);
    let (provider, text) = streaming();
    let (_database, mut client) = fresh();
    loopback::add(&mut client, &provider, &["streamed"]);
    let project = fan_project(&mut client, streams, false);
    let pid = worker(&mut client);
    process::at_rest(pid);
    let before = process::memory(pid);
    let begun = Instant::now();
    let (cpu, peak, own) = process::peak(pid, || {
        begin(&mut client, project, "streamed", 1);
        until("all streams are open", || provider.open_sockets() == streams as usize);
        assert!(begun.elapsed() < EVERY * TOKENS as u32, "the first stream ended before the last began");
        all_completed(&mut client);
        process::cpu_seconds(pid)
    });
    let seconds = begun.elapsed().as_secs_f64();
    assert_done(&mut client, streams);
    let whole: i64 = one(&mut client, "select count(*) from dialectic.contributions where content = $1", &[&text]);
    assert_eq!(whole, i64::from(streams), "answers that are whole");
    let turn: f64 = one(&mut client, "select turn_p99_ms from dialectic.health()", &[]);
    let megabytes = |kilobytes: u64| kilobytes as f64 / 1024.0;
    let with = json!({
        "threads_at_peak": peak.threads, "rss_mb": megabytes(peak.rss), "shared_mb": megabytes(peak.shared),
        "anonymous_mb": megabytes(peak.anonymous), "own_mb_before": megabytes(before.own()), "worker_cpu_seconds": cpu
    });
    vec![
        Figure::new(
            format!("the worker's own memory, {streams} streams of {TOKENS} tokens at once"),
            megabytes(own),
            "MB",
            Bound::AtMost(400.0),
            with,
        ),
        Figure::new("99 of 100 turns of its main thread then", turn, "ms", Bound::AtMost(TURN_RATIO), json!({}))
            .against(Floor::Batch),
        Figure::new("first begun to last kept", seconds, "s", Bound::Free, json!({})),
    ]
}
