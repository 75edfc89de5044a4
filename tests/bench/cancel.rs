//! A hundred streams are cancelled while they run: how long until every socket is closed, as the provider sees it.
//!
//! From before the commit of the cancel, so the commit is part of the figure.

use crate::figure::{Bound, Figure, median};
use crate::floor::Floor;
use crate::ground::{Setting, begin, fan_project, fresh, sized, until, worker};
use crate::loopback;
use crate::streams::streaming;
use dialectic_tests::*;
use serde_json::json;
use std::time::{Duration, Instant};

/// The most times the floor.
const CANCEL_RATIO: f64 = 60.0;
const RUNS: i32 = 5;
/// After this long they are not closed by the cancel.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn measure() -> Vec<Figure> {
    let streams = sized(100, 5);
    let _setting = Setting::new("dialectic.max_concurrent_calls", streams);
    let (provider, _) = streaming();
    let (_database, mut client) = fresh();
    loopback::add(&mut client, &provider, &["streamed"]);
    let project = fan_project(&mut client, streams, false);
    worker(&mut client);
    let mut took = Vec::new();
    for _ in 0..RUNS {
        assert_eq!(provider.open_sockets(), 0, "what was cancelled is closed");
        let session = begin(&mut client, project, "streamed", 1)[0];
        // Something of each has been put down, so each of them speaks.
        let speaking = "select count(distinct p.job_id) from dialectic.partials p join dialectic.jobs j on j.id = p.job_id \
                        where j.session_id = $1";
        until("all streams run", || one::<i64>(&mut client, speaking, &[&session]) == i64::from(streams));
        assert_eq!(provider.open_sockets(), streams as usize, "streams that run");
        let mut transaction = client.transaction().expect("a transaction");
        transaction.execute("select dialectic.cancel($1)", &[&session]).expect("cancel");
        let begun = Instant::now();
        transaction.commit().expect("commit");
        provider.closed_within(PATIENCE).expect("all sockets are closed");
        took.push(begun.elapsed().as_secs_f64() * 1000.0);
        let open = "select count(*) from dialectic.model_calls where outcome = 'open'";
        until("no call is open", || one::<i64>(&mut client, open, &[]) == 0);
    }
    let late: i64 = one(&mut client, "select count(*) from dialectic.model_calls where outcome = 'late'", &[]);
    assert_eq!(late, i64::from(RUNS * streams), "calls that were ended");
    assert_sound(&mut client);
    vec![
        Figure::new(
            format!("cancel of {streams} streams to the last socket closed"),
            median(&took),
            "ms",
            Bound::AtMost(CANCEL_RATIO),
            json!({"runs": took}),
        )
        .against(Floor::Wake),
    ]
}
