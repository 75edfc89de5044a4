//! Numbers that make no sense, at every place that takes one: refused by name, with the range in the hint, and nothing stored.

use dialectic_tests::*;
use postgres::Client;

fn all_refused(client: &mut Client, queries: &[String], named: &str) {
    let before = mark(client);
    for query in queries {
        refused_with(client, query, &[], "22023", named);
    }
    assert_eq!(mark(client), before);
}

fn with(template: &str, values: &[&str]) -> Vec<String> {
    values.iter().map(|value| template.replace('?', value)).collect()
}

#[test]
fn generate_takes_sane_retries_and_tokens_only() {
    let database = Database::new();
    let mut client = database.connect();
    let project: Uuid =
        one(&mut client, "select dialectic.create_project('Law', 'Is this a law?', process => 'essay')", &[]);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
    for (name, values) in [
        ("max_retries", ["-1", "101", "-2147483648", "2147483647"]),
        ("max_output_tokens", ["0", "-1", "-2147483648", "2147483647"]),
    ] {
        let call = format!("select dialectic.generate('{session}', {name} => ?)");
        all_refused(&mut client, &with(&call, &values), name);
    }
    let jobs = client
        .query("select * from dialectic.generate($1, max_retries => 0, max_output_tokens => 1)", &[&session])
        .expect("generate");
    assert_eq!(jobs.len(), 1);
}

#[test]
fn workers_take_sane_batches_leases_and_delays_only() {
    let database = Database::by_hand();
    let mut client = database.connect();
    generated(&mut client, &["sim-a"]);
    all_refused(
        &mut client,
        &with("select dialectic.claim_jobs('worker', ?)", &["0", "-1", "100001", "2147483647"]),
        "max_jobs",
    );
    all_refused(&mut client, &with("call dialectic.run_pending(?)", &["0", "-1", "-2147483648"]), "max_jobs");
    let leases = ["'0'", "'-1 second'", "'25 hours'", "'178000000 years'"];
    all_refused(&mut client, &with("select dialectic.claim_jobs('worker', 1, ?)", &leases), "lease");

    let (job, claim): (Uuid, i64) = client
        .query_one("select id, claim_id from dialectic.claim_jobs('worker', 1)", &[])
        .map(|row| (row.get(0), row.get(1)))
        .expect("claim_jobs");
    let fail = format!("select dialectic.fail_job('{job}', {claim}, 'transient', 'no luck', ?)");
    all_refused(&mut client, &with(&fail, &["'-1 second'", "'31 days'", "'178000000 years'"]), "retry_after");
    let class = format!("select dialectic.fail_job('{job}', {claim}, ?, 'no luck')");
    all_refused(&mut client, &with(&class, &["'unlucky'", "null"]), "error class");
}

#[test]
fn waiting_takes_a_sane_time_only() {
    let database = Database::new();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    work(&mut client);
    let wait = format!("call dialectic.wait('{session}', ?)");
    all_refused(&mut client, &with(&wait, &["'-1 second'", "'31 days'", "'178000000 years'", "null"]), "timeout");
}

#[test]
fn a_model_has_a_window_and_prices_that_make_sense() {
    let database = Database::new();
    let mut client = database.connect();
    let model = |name: &str| format!("select dialectic.add_model('new', 'simulator', {name} => ?)");
    for name in ["context_window", "max_output_tokens"] {
        all_refused(&mut client, &with(&model(name), &["0", "-1", "-2147483648", "2147483647"]), name);
    }
    for name in ["input_price", "output_price"] {
        all_refused(
            &mut client,
            &with(&model(name), &["-0.01", "1000001", "'NaN'", "'infinity'", "'-infinity'"]),
            name,
        );
    }
    for name in ["cached_price", "cache_write_price", "reasoning_price"] {
        all_refused(&mut client, &with(&model(name), &["-0.01", "1000001", "'NaN'", "'infinity'"]), name);
    }
    for name in ["max_concurrency", "requests_per_minute", "tokens_per_minute"] {
        all_refused(&mut client, &with(&model(name), &["0", "-1", "-2147483648"]), name);
    }
    all_refused(
        &mut client,
        &["select dialectic.add_model('new', 'simulator', context_window => 4096, max_output_tokens => 4096)"
            .to_owned()],
        "new",
    );
    for (setting, value) in [
        ("latency_ms", "-1"),
        ("latency_ms", "[9, 5]"),
        ("fail_first", "1.5"),
        ("refuse", "1"),
        ("fail_class", "\"bad\""),
    ] {
        let call = format!("select dialectic.add_model('new', 'simulator', settings => '{{\"{setting}\": {value}}}')");
        all_refused(&mut client, &[call], setting);
    }
}

#[test]
fn a_provider_has_limits_that_make_sense() {
    let database = Database::new();
    let mut client = database.connect();
    for name in ["max_concurrency", "requests_per_minute", "tokens_per_minute"] {
        let call = format!("select dialectic.add_provider('new', 'simulator', {name} => ?)");
        all_refused(&mut client, &with(&call, &["0", "-1", "-2147483648"]), name);
    }
}

/// An execute job that is claimed.
fn claimed(client: &mut Client) -> (Uuid, i64) {
    generated(client, &["sim-a"]);
    client
        .execute("select dialectic.complete_job(c.id, c.claim_id) from dialectic.claim_jobs('worker', 1) c", &[])
        .expect("planning");
    client
        .query_one("select id, claim_id from dialectic.claim_jobs('worker', 1)", &[])
        .map(|row| (row.get(0), row.get(1)))
        .expect("claim_jobs")
}

#[test]
fn an_answer_comes_with_a_usage_that_makes_sense() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (job, claim) = claimed(&mut client);
    let complete = format!("select dialectic.complete_job('{job}', {claim}, 'answer', 'stop', '?')");
    let usages = [
        "3",
        "[]",
        "\"many\"",
        r#"{"input_tokens": "a"}"#,
        r#"{"input_tokens": -5}"#,
        r#"{"output_tokens": 1.5}"#,
        r#"{"cached_tokens": 1e30}"#,
    ];
    all_refused(&mut client, &with(&complete, &usages), "usage");
    let reason = format!("select dialectic.complete_job('{job}', {claim}, 'answer', ?)");
    all_refused(&mut client, &with(&reason, &["'tired'", "null"]), "finish reason");
    let before = mark(&mut client);
    refused_with(&mut client, "select dialectic.complete_job($1, $2, null)", &[&job, &claim], "22004", "answer");
    assert_eq!(mark(&mut client), before);
    let usage = r#"{"input_tokens": 5, "output_tokens": 7, "cached_tokens": null}"#;
    // Nothing was used by a job that nobody has asked for.
    for said in [
        complete.replace('?', usage),
        format!("select dialectic.fail_job('{job}', {claim}, 'transient', 'no', null, '{usage}')"),
    ] {
        refused_with(&mut client, &said, &[], "55000", "no call was opened");
    }
    assert_eq!(mark(&mut client), before);
    client.query("select dialectic.job_request($1, $2)", &[&job, &claim]).expect("a request");
    assert_eq!(one::<String>(&mut client, &complete.replace('?', usage), &[]), "completed");
}

#[test]
fn a_claim_that_is_not_the_jobs_changes_nothing_and_says_so() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (job, claim) = claimed(&mut client);
    let before = mark(&mut client);
    for stale in [Some(claim - 1), Some(claim + 1), Some(i64::MAX), Some(i64::MIN), None] {
        assert_eq!(
            one::<String>(&mut client, "select dialectic.complete_job($1, $2, 'answer')", &[&job, &stale]),
            "stale"
        );
        assert_eq!(
            one::<String>(&mut client, "select dialectic.fail_job($1, $2, 'permanent', 'no luck')", &[&job, &stale]),
            "stale"
        );
    }
    assert_eq!(mark(&mut client), before);
}
