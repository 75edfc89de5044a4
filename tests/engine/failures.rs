//! What one failure does to the rest: to its parent and siblings, to other models, to the provider, and how each is mended.

use crate::by_hand::*;
use dialectic_tests::*;
use postgres::Client;
use serde_json::Value;

fn details(client: &mut Client, job: Uuid) -> Value {
    one(client, "select coalesce(error_details, 'null') from dialectic.jobs where id = $1", &[&job])
}

/// How many jobs of a model are in each status.
fn census(client: &mut Client, model: &str) -> Vec<String> {
    column(
        client,
        "select format('%s %s %s', count(*), kind, status) from dialectic.jobs where model = $1 group by kind, status order by kind, status",
        &[&model],
    )
}

/// Two models with four texts each; of sim-a the first text has failed for good, the second is claimed, two have not begun.
fn one_child_failed(client: &mut Client) -> (Uuid, Uuid, Claim, Claim) {
    let project = fan_project(client, 4);
    let session = begin(client, project, &["sim-a", "sim-b"]);
    let root = plan_roots(client, 2, "waiting_for_children").remove(0);
    let mut leaves = claim(client, "hand", 2);
    assert!(leaves.iter().all(|leaf| leaf.model == "sim-a") && root.model == "sim-a");
    let (running, failed) = (leaves.remove(1), leaves.remove(0));
    assert_eq!(fail(client, &failed, "permanent", "the model is gone"), "failed");
    (session, root.job, failed, running)
}

#[test]
fn a_child_that_fails_for_good_fails_its_parent_and_retry_brings_everything_back() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, root, failed, running) = one_child_failed(&mut client);
    let cause = details(&mut client, root);
    assert_eq!(cause["cause_job"], failed.job.to_string());
    assert!(cause["message"].as_str().expect("a message").contains("the model is gone"), "{cause}");
    assert_eq!(cause["class"], "permanent");
    assert_eq!(
        census(&mut client, "sim-a"),
        ["2 execute cancelled", "1 execute failed", "1 execute processing", "1 plan failed"]
    );
    let cancelled: Vec<String> =
        column(&mut client, "select error_details ->> 'cause_job' from dialectic.jobs where status = 'cancelled'", &[]);
    assert_eq!(cancelled, [failed.job.to_string(), failed.job.to_string()]);
    assert_eq!(census(&mut client, "sim-b"), ["4 execute pending", "1 plan waiting_for_children"]);

    // What runs may finish; the other model goes on, and the stage completes with it alone.
    assert_eq!(answer(&mut client, &running, "done"), "completed");
    for leaf in claim(&mut client, "hand", 10) {
        answer(&mut client, &leaf, "done");
    }
    plan_roots(&mut client, 1, "completed");
    let run = "select status from dialectic.stage_runs";
    assert_eq!(column::<String>(&mut client, run, &[]), ["completed"]);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);

    assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&failed.job]), 4, "leaf, two siblings, root");
    assert_eq!(
        census(&mut client, "sim-a"),
        ["1 execute completed", "3 execute pending", "1 plan waiting_for_children"]
    );
    assert_eq!(column::<i64>(&mut client, "select count(error_details) from dialectic.jobs", &[]), [0]);
    assert_eq!(session_status(&mut client, session), "active");
    assert_eq!(column::<String>(&mut client, run, &[]), ["running"]);
    let leaves = claim(&mut client, "hand", 10);
    assert_eq!(leaves.len(), 3);
    for leaf in &leaves {
        answer(&mut client, leaf, "done");
    }
    plan_roots(&mut client, 1, "completed");
    assert_eq!(column::<String>(&mut client, run, &[]), ["completed"]);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.contributions", &[]), 8);
    assert_sound(&mut client);
}

#[test]
fn retry_of_a_session_or_of_its_failed_root_brings_back_the_same_jobs() {
    for by_root in [false, true] {
        let database = Database::by_hand();
        let mut client = database.connect();
        let (session, root, _, running) = one_child_failed(&mut client);
        answer(&mut client, &running, "done");
        let target = if by_root { root } else { session };
        assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&target]), 4, "by root: {by_root}");
        assert_eq!(
            census(&mut client, "sim-a"),
            ["1 execute completed", "3 execute pending", "1 plan waiting_for_children"]
        );
        hand_over(&mut client);
        assert_eq!(session_status(&mut client, session), "completed");
        assert_sound(&mut client);
    }
}

#[test]
fn a_sibling_that_falls_back_after_its_parent_failed_is_cancelled_and_fail_job_says_so() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, _, failed, running) = one_child_failed(&mut client);
    let said = fail(&mut client, &running, "transient", "a hiccup");
    assert_eq!(status(&mut client, running.job), "cancelled");
    assert_eq!(details(&mut client, running.job)["cause_job"], failed.job.to_string());
    assert_eq!(said, "cancelled");
    assert_sound(&mut client);
}

#[test]
fn a_stage_that_others_have_built_on_is_generated_anew_and_not_retried() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .execute(r#"select dialectic.add_model('ill', 'simulator', settings => '{"fail_always": true, "fail_class": "permanent"}')"#, &[])
        .expect("a model that fails");
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why laws?', models => '{sim-a,ill}', process => 'essay')", &[]);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    let thesis: Uuid =
        one(&mut client, "select id from dialectic.jobs where step_key = 'thesis' and model = 'ill'", &[]);
    refused_with(&mut client, "select dialectic.retry($1)", &[&thesis], "55000", "thesis");
    assert_eq!(status(&mut client, thesis), "failed");

    client.execute("select dialectic.add_model('ill', 'simulator')", &[]).expect("a model that is well again");
    client.query("select * from dialectic.generate($1, stage => 'thesis')", &[&session]).expect("a new iteration");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    let theses = "select count(*) from dialectic.documents where iteration = 2 and stage = 'thesis'";
    assert_eq!(one::<i64>(&mut client, theses, &[]), 2);
    let syntheses = "select count(*) from dialectic.documents where iteration = 2 and stage = 'synthesis'";
    assert_eq!(one::<i64>(&mut client, syntheses, &[]), 2);
    assert_sound(&mut client);
}

/// Two texts for sim-a and two for a model of another provider; the first of sim-a is claimed.
fn two_providers(client: &mut Client) -> Claim {
    client
        .batch_execute("select dialectic.add_provider('elsewhere', 'simulator'); select dialectic.add_model('else-1', 'elsewhere')")
        .expect("another provider");
    let project = fan_project(client, 2);
    begin(client, project, &["sim-a", "else-1"]);
    plan_roots(client, 2, "waiting_for_children");
    let first = claim(client, "hand", 1).remove(0);
    assert_eq!(first.model, "sim-a");
    first
}

fn claimable(client: &mut Client) -> Vec<String> {
    client.batch_execute("begin").expect("begin");
    let mut models: Vec<String> = claim(client, "looking", 100).into_iter().map(|job| job.model).collect();
    client.batch_execute("rollback").expect("rollback");
    models.sort();
    models
}

#[test]
fn a_429_moves_the_clock_of_its_provider_alone_and_costs_no_attempt() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let leaf = two_providers(&mut client);
    client.query("select dialectic.job_request($1)", &[&leaf.job]).expect("job_request");
    let said: String = one(
        &mut client,
        "select dialectic.fail_job($1, $2, 'throttled', 'slow down', interval '60 s')",
        &[&leaf.job, &leaf.claim],
    );
    assert_eq!(said, "pending");
    let job: String = one(
        &mut client,
        "select concat_ws(' ', status, attempt_count, claim_id) from dialectic.jobs where id = $1",
        &[&leaf.job],
    );
    assert_eq!(job, "pending 0");
    let clock: bool = one(
        &mut client,
        "select free_at - dialectic._now() between interval '50 s' and interval '60 s' and paused_reason is null \
         from dialectic.provider_cooldowns where provider = 'simulator'",
        &[],
    );
    assert!(clock);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.provider_cooldowns", &[]), 1);
    assert_eq!(claimable(&mut client), ["else-1", "else-1"], "the untried job of the throttled provider rests too");
    client.batch_execute("set dialectic.clock_offset = 61").expect("set");
    assert_eq!(claimable(&mut client), ["else-1", "else-1", "sim-a", "sim-a"]);
    assert_eq!(
        column::<String>(&mut client, "select concat_ws(' ', outcome, error_class) from dialectic.model_calls", &[]),
        ["failed throttled"]
    );
    assert_sound(&mut client);
}

#[test]
fn a_throttled_job_goes_back_to_the_status_it_was_claimed_from() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    let leaf = two_providers(&mut client);
    assert_eq!(fail(&mut client, &leaf, "transient", "a hiccup"), "retrying");
    let again = claim(&mut client, "hand", 100).into_iter().find(|job| job.job == leaf.job).expect("due at once");
    assert_eq!(fail(&mut client, &again, "throttled", "slow down"), "retrying");
    assert_eq!(one::<i32>(&mut client, "select attempt_count from dialectic.jobs where id = $1", &[&leaf.job]), 1);
}

#[test]
fn a_wrong_configuration_pauses_its_provider_until_it_is_mended_and_then_holds_nothing_back() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let leaf = two_providers(&mut client);
    assert_eq!(fail(&mut client, &leaf, "configuration", "no such key"), "pending");
    assert_eq!(one::<i32>(&mut client, "select attempt_count from dialectic.jobs where id = $1", &[&leaf.job]), 0);
    let reason: String =
        one(&mut client, "select paused_reason from dialectic.provider_cooldowns where provider = 'simulator'", &[]);
    assert_eq!(reason, "no such key");
    client.batch_execute("set dialectic.clock_offset = 1000000").expect("set");
    assert_eq!(claimable(&mut client), ["else-1", "else-1"], "time does not mend it");
    client.batch_execute("set dialectic.clock_offset = 0").expect("set");
    let problems: Vec<String> = one(&mut client, "select problems from dialectic.health()", &[]);
    assert!(problems.iter().any(|problem| problem.contains("no such key")), "{problems:?}");
    client.query("select dialectic.add_provider('simulator', 'simulator')", &[]).expect("add_provider");
    assert_eq!(
        claimable(&mut client),
        ["else-1", "else-1", "sim-a", "sim-a"],
        "at once, the job that found the fault too"
    );
    assert_sound(&mut client);
}
