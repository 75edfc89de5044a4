//! What one claim takes when very much is due: 64 jobs out of 100,000 of 1,000 sessions, committed.
//!
//! The worker is off, so that the jobs stay due. They are planned by hand, with the public functions.

use crate::figure::{Bound, Figure, median};
use crate::floor::Floor;
use crate::ground::{begin, enable_worker, fan_project, fresh, model, plan_by_hand, sized};
use dialectic_tests::*;
use serde_json::json;
use std::time::Instant;

/// The most times the floor.
const CLAIM_RATIO: f64 = 10.0;
const CLAIMS: usize = 15;

pub(crate) fn measure() -> Vec<Figure> {
    let (sessions, children) = (sized(1_000, 20), 100);
    let (_database, mut client) = fresh();
    enable_worker(&mut client, false);
    model(&mut client, "bench", 0, 1);
    let project = fan_project(&mut client, children, false);
    let begun = Instant::now();
    begin(&mut client, project, "bench", sessions);
    let sessions_took = begun.elapsed().as_secs_f64();
    plan_by_hand(&mut client);
    let planning_took = begun.elapsed().as_secs_f64() - sessions_took;
    let due: i64 = one(&mut client, "select count(*) from dialectic.jobs where status = 'pending'", &[]);
    assert_eq!(due, i64::from(sessions * children), "jobs that are due");
    let claims: Vec<f64> = (0..CLAIMS)
        .map(|_| {
            let begun = Instant::now();
            let claimed = client.query("select id from dialectic.claim_jobs('bench', 64)", &[]).expect("a claim");
            let took = begun.elapsed();
            assert_eq!(claimed.len(), 64, "jobs in a claim");
            took.as_secs_f64() * 1000.0
        })
        .collect();
    let claimed: i64 = one(&mut client, "select count(*) from dialectic.jobs where status = 'processing'", &[]);
    assert_eq!(claimed, 64 * CLAIMS as i64, "claimed jobs");
    assert_sound(&mut client);
    vec![
        Figure::new(
            format!("one claim of 64 among {due} due jobs of {sessions} sessions"),
            median(&claims),
            "ms",
            Bound::AtMost(CLAIM_RATIO),
            json!({"claims_ms": claims, "seconds_before": {"sessions": sessions_took, "planning": planning_took}}),
        )
        .against(Floor::Claim),
    ]
}
