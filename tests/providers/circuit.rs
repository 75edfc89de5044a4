//! A provider that keeps failing is left alone for a while, then tried with one call; its neighbours notice nothing.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Latch, Provider};
use dialectic_tests::server::remains;
use dialectic_tests::*;
use postgres::Client;
use std::time::{Duration, Instant};

const JOBS: i32 = 20;

/// Failures in a row, and how long the circuit is open yet.
fn clock(client: &mut Client) -> (i32, f64) {
    let row = client
        .query_opt(
            "select failures, extract(epoch from free_at - clock_timestamp())::float8 from dialectic.provider_cooldowns where provider = 'ill'",
            &[],
        )
        .expect("a clock");
    row.map_or((0, 0.0), |row| (row.get(0), row.get::<_, Option<f64>>(1).unwrap_or(0.0)))
}

/// The requests that did not fail.
fn answered(provider: &Provider) -> usize {
    provider.requests().iter().filter(|seen| seen.status == 200).count()
}

#[test]
fn a_failing_provider_is_left_alone_then_tried_with_one_call_and_closed_by_a_success() {
    let (provider, other, database) = (Provider::start(), Provider::start(), Database::by_hand());
    let mut client = database.connect();
    process(&mut client);
    configure(&mut client, "retry_base_seconds", "1");
    configure(&mut client, "retry_max_seconds", "2");
    configure(&mut client, "job_default_max_retries", "40");
    provider.script("ill", vec![Act::status(500)]);
    other.script("well", vec![Act::text("Well.")]);
    chat(&mut client, "ill", &provider, "");
    chat(&mut client, "well", &other, "");
    let session = calls(&mut client, "ill", JOBS);
    let working = set_to_work(&database);

    eventually("the circuit is open", || clock(&mut client).0 >= 5);
    eventually("all have failed once", || provider.under_way("ill") == 0 && clock(&mut client).0 >= JOBS);
    let asked = Instant::now();
    let (failures, rest) = clock(&mut client);
    let open_until = asked + Duration::from_secs_f64(rest.max(0.0));
    let calls_before = provider.request_count();
    assert_eq!((failures, calls_before), (JOBS, JOBS as usize), "each job has failed once, and nobody asked again");
    let causes: Vec<String> = column(
        &mut client,
        "select distinct cause from dialectic.blocked where session_id = $1 and kind = 'execute'",
        &[&session],
    );
    assert!(
        causes
            .iter()
            .any(|cause| cause
                .starts_with(&format!("provider ill failed {JOBS} times in a row and is left alone until"))),
        "{causes:?}"
    );

    // The neighbour works while the circuit is open.
    let neighbour = calls(&mut client, "well", 10);
    eventually("the other provider's jobs are done", || jobs(&mut client, neighbour) == ["10 completed 1"]);
    assert_eq!(
        column::<String>(&mut client, "select distinct outcome from dialectic.model_calls where model = 'well'", &[]),
        ["answered"]
    );

    // Until it is known whether it is well nobody else asks, though all the others are due.
    let latch = Latch::default();
    provider.script("ill", vec![Act::text("Well again.").held(0, &latch), Act::text("Well.")]);
    provider.reset_gauge();
    eventually("it is tried again", || answered(&provider) == 1 && provider.under_way("ill") == 1);
    let tried = provider.requests()[calls_before].at;
    assert!(tried + Duration::from_millis(20) >= open_until, "tried {:?} too early", open_until - tried);
    eventually("the others are due", || {
        one(
            &mut client,
            "select count(*) = $2 from dialectic.jobs where session_id = $1 and kind = 'execute' and run_at <= clock_timestamp()",
            &[&session, &i64::from(JOBS)],
        )
    });
    remains(Duration::from_millis(500), "one call probes", || provider.under_way("ill") == 1);
    assert_eq!(provider.most_at_once("ill"), 1);
    latch.lift();
    working.end();
    let done: i64 = one(
        &mut client,
        "select count(*) from dialectic.jobs where session_id = $1 and kind = 'execute' and status = 'completed'",
        &[&session],
    );
    assert_eq!(done, i64::from(JOBS));
    assert_eq!(clock(&mut client), (0, 0.0), "the circuit is closed");
    assert_eq!(answered(&provider), JOBS as usize);
    assert_sound(&mut client);
}

#[test]
fn one_call_at_a_time_finds_out_that_a_provider_is_still_ill() {
    const PROBES: usize = 5;
    let (provider, database) = (Provider::start(), Database::by_hand());
    let mut client = database.connect();
    process(&mut client);
    // Whoever fails is left alone for a second, neither less nor more.
    configure(&mut client, "retry_base_seconds", "1");
    configure(&mut client, "retry_max_seconds", "1");
    configure(&mut client, "job_default_max_retries", "40");
    provider.script("ill", vec![Act::status(500)]);
    chat(&mut client, "ill", &provider, "");
    calls(&mut client, "ill", JOBS);
    let working = set_to_work(&database);
    eventually("it is tried again and again", || provider.request_count() >= JOBS as usize + PROBES);
    let requests = provider.requests();
    provider.script("ill", vec![Act::text("Well.")]);
    working.end();
    let gaps: Vec<Duration> = requests[JOBS as usize - 1..].windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    println!("between one call and the next: {gaps:?}");
    assert!(gaps.iter().all(|gap| *gap >= Duration::from_millis(950)), "{gaps:?}");
}
