//! What each child of a fan-in costs when there are ten times as many of them.
//!
//! From the moment the plan is claimed to the call that its last child has woken, divided by the children: planning, calls,
//! completion and the waking itself. Sizes take turns in one database each, after a small one that nobody counts.

use crate::figure::{Bound, Figure, median};
use crate::ground::{all_completed, assert_done, begin, fan_project, fresh, model, sized};
use dialectic_tests::*;
use serde_json::json;

const WARM_UP: i32 = 20;

pub(crate) fn measure() -> Vec<Figure> {
    let (few, many) = (sized(1_000, 50), sized(10_000, 500));
    let mut pairs = Vec::new();
    for _ in 0..3 {
        pairs.push((per_child(few), per_child(many)));
    }
    let (small, large): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    vec![Figure::new(
        format!("cost per child of a fan-in of {many}, against one of {few}"),
        median(&large) / median(&small),
        "×",
        Bound::AtMost(1.3),
        json!({"children": [few, many], "milliseconds_per_child": {"few": small, "many": large}}),
    )]
}

/// Milliseconds.
fn per_child(children: i32) -> f64 {
    let (_database, mut client) = fresh();
    model(&mut client, "bench", 0, 1);
    let small = fan_project(&mut client, WARM_UP, true);
    begin(&mut client, small, "bench", 1);
    all_completed(&mut client);
    let project = fan_project(&mut client, children, true);
    let session = begin(&mut client, project, "bench", 1)[0];
    all_completed(&mut client);
    assert_done(&mut client, WARM_UP + 1 + children + 1);
    let seconds: f64 = one(
        &mut client,
        "select extract(epoch from gather.started_at - root.started_at)::double precision \
         from dialectic.jobs root \
         join dialectic.jobs last on last.parent_job_id = root.id and last.step_key = 'gather' \
         join dialectic.model_calls gather on gather.job_id = last.id \
         where root.session_id = $1 and root.parent_job_id is null",
        &[&session],
    );
    seconds * 1000.0 / f64::from(children)
}
