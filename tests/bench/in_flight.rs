//! A thousand calls of 100 ms under way at once, a thread each: how long they take together, and what the worker weighs then.
//!
//! The memory is the worker's own; the buffers of the server that it has mapped are reported beside it.

use crate::figure::{Bound, Figure};
use crate::floor::Floor;
use crate::ground::{Setting, all_completed, assert_done, begin, fan_project, fresh, model, sized, worker};
use crate::process;
use dialectic_tests::*;
use serde_json::json;

const WARM_UP: i32 = 20;
/// What a call takes by itself, in seconds.
const LATENCY: f64 = 0.1;
/// The least share of the floor.
const IN_FLIGHT_RATIO: f64 = 0.12;

pub(crate) fn measure() -> Vec<Figure> {
    let calls = sized(1_000, 50);
    let _setting = Setting::new("dialectic.max_concurrent_calls", calls);
    let (_database, mut client) = fresh();
    model(&mut client, "bench", 100, 1);
    let small = fan_project(&mut client, WARM_UP, false);
    begin(&mut client, small, "bench", 1);
    all_completed(&mut client);
    let project = fan_project(&mut client, calls, false);
    let pid = worker(&mut client);
    process::at_rest(pid);
    let before = process::memory(pid);
    let (session, peak, own) = process::peak(pid, || {
        let session = begin(&mut client, project, "bench", 1)[0];
        all_completed(&mut client);
        session
    });
    assert_done(&mut client, WARM_UP + calls);
    let of_session = "from dialectic.model_calls where session_id = $1";
    let seconds: f64 = one(
        &mut client,
        &format!("select extract(epoch from max(finished_at) - min(started_at))::double precision {of_session}"),
        &[&session],
    );
    let at_once: i64 = one(
        &mut client,
        &format!(
            "select max(under_way) from ( \
                 select sum(change) over (order by moment, change desc)::bigint as under_way from ( \
                     select started_at as moment, 1 as change {of_session} \
                     union all select finished_at, -1 {of_session}) as changes) as counted"
        ),
        &[&session],
    );
    let megabytes = |kilobytes: u64| kilobytes as f64 / 1024.0;
    let with = json!({
        "threads_at_peak": peak.threads, "rss_mb": megabytes(peak.rss), "shared_mb": megabytes(peak.shared),
        "anonymous_mb": megabytes(peak.anonymous), "own_mb_before": megabytes(before.own())
    });
    vec![
        Figure::new(
            format!("calls per second beside their latency, {calls} calls of 100 ms at once"),
            f64::from(calls) / (seconds - LATENCY).max(0.001),
            "/s",
            Bound::AtLeast(IN_FLIGHT_RATIO),
            with.clone(),
        )
        .against(Floor::Calls),
        Figure::new("these from first begun to last kept", seconds, "s", Bound::Free, json!({})),
        Figure::new("of these open at once", at_once as f64, "", Bound::AtLeast(f64::from(calls)), json!({})),
        Figure::new("the worker's own memory then", megabytes(own), "MB", Bound::AtMost(300.0), with),
        Figure::new("with the server's buffers it has mapped", megabytes(peak.rss), "MB", Bound::Free, json!({})),
    ]
}
