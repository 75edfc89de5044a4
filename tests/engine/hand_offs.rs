//! Each hand-off of a job by itself: what one side leaves for the other, and in which transaction.

use crate::by_hand::*;
use dialectic_tests::*;
use serde_json::Value;

#[test]
fn generating_a_stage_inserts_one_pending_plan_for_each_model_and_sets_the_stage_running() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = fan_project(&mut client, 2);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a,sim-b}')", &[&project]);
    let run = "select status from dialectic.stage_runs where session_id = $1";
    assert_eq!(column::<String>(&mut client, run, &[&session]), ["pending"]);
    let given = client
        .query("select job_id, model from dialectic.generate($1, max_retries => 7)", &[&session])
        .expect("generate");
    let given: Vec<(Uuid, String)> = given.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(given.iter().map(|(_, model)| model.as_str()).collect::<Vec<_>>(), ["sim-a", "sim-b"]);
    assert_eq!(column::<String>(&mut client, run, &[&session]), ["running"]);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.jobs", &[]), 2);
    for (job, model) in given {
        let facts: String = one(
            &mut client,
            "select concat_ws(' ', j.kind, j.status, j.model, j.attempt_count, j.max_retries, j.session_id = $2, r.stage, r.iteration, \
                              j.parent_job_id is null, j.step_key is null, j.claim_id is null, j.run_at <= dialectic._now()) \
             from dialectic.jobs j join dialectic.stage_runs r on r.id = j.stage_run_id where j.id = $1",
            &[&job, &session],
        );
        assert_eq!(facts, format!("plan pending {model} 0 7 t fan 1 t t t t"));
    }
    assert_sound(&mut client);
}

#[test]
fn a_plan_has_no_request_and_is_finished_by_planning() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = fan_project(&mut client, 3);
    begin(&mut client, project, &["sim-a"]);
    let root = claim(&mut client, "hand", 10).remove(0);
    let error =
        refused_with(&mut client, "select dialectic.job_request($1)", &[&root.job], "55000", &root.job.to_string());
    assert!(error.hint().is_some_and(|hint| hint.contains("complete_job")), "{error:?}");
    assert_eq!(
        one::<String>(&mut client, "select dialectic.complete_job($1, $2)", &[&root.job, &root.claim]),
        "waiting_for_children"
    );
    let children: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', j.kind, j.status, j.step_key, j.model, j.document_key, count(i.*)) from dialectic.jobs j \
         join dialectic.job_inputs i on i.job = j.id where j.parent_job_id = $1 group by j.id",
        &[&root.job],
    );
    assert_eq!(children, ["execute pending leaf sim-a leaf 1"; 3]);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 0);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.contributions", &[]), 0);
    let unclaimed = "select dialectic.job_request(id) from dialectic.jobs where kind = 'execute' limit 1";
    refused_with(&mut client, unclaimed, &[], "55000", "is not claimed");
    let leaf = claim(&mut client, "hand", 1).remove(0);
    let under = "select dialectic.job_request($1, $2)";
    refused_with(&mut client, under, &[&leaf.job, &(leaf.claim + 1)], "55000", "is not claimed by you");
    one::<Value>(&mut client, under, &[&leaf.job, &leaf.claim]);
}

#[test]
fn a_request_leaves_its_prompt_saved_and_its_call_open_before_any_answer() {
    let database = Database::by_hand();
    let (mut client, mut other) = (database.connect(), database.connect());
    let (_, leaves) = fanned(&mut client, 1);
    let leaf = &leaves[0];
    let request: Value = one(&mut client, "select dialectic.job_request($1)", &[&leaf.job]);
    assert_eq!(request["model"], "sim-a");
    assert_eq!(request["provider"], "simulator");
    assert_eq!(request["claim_id"], leaf.claim);
    let roles: Vec<&str> =
        request["messages"].as_array().expect("messages").iter().filter_map(|m| m["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user"]);
    assert!(request["messages"][1]["content"].as_str().expect("text").contains("Text 1"));

    // Seen by another connection: it is committed, not held until the answer.
    let saved: Vec<String> = column(
        &mut other,
        "select content from dialectic.resources where job_id = $1 and resource_type = 'turn_prompt'",
        &[&leaf.job],
    );
    assert_eq!(saved.len(), 1);
    assert_eq!(serde_json::from_str::<Value>(&saved[0]).expect("a list of messages"), request["messages"]);
    let calls = "select concat_ws(' ', outcome, claim_id = $2, attempt, provider, model, finished_at) from dialectic.model_calls where job_id = $1";
    assert_eq!(column::<String>(&mut other, calls, &[&leaf.job, &leaf.claim]), ["open t 1 simulator sim-a"]);

    // Asked again under the same claim it is the same request and the same call.
    let again: Value = one(&mut client, "select dialectic.job_request($1)", &[&leaf.job]);
    assert_eq!(again["messages"], request["messages"]);
    assert_eq!(column::<String>(&mut other, calls, &[&leaf.job, &leaf.claim]).len(), 1);
}

#[test]
fn an_answer_that_stops_is_kept_whole_and_points_to_its_prompt() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .execute("select dialectic.add_model('priced', 'simulator', input_price => 1.5, output_price => 10)", &[])
        .expect("add_model");
    let project = fan_project(&mut client, 1);
    let session = begin(&mut client, project, &["priced"]);
    plan_roots(&mut client, 1, "waiting_for_children");
    let leaf = claim(&mut client, "hand", 10).remove(0);
    client.query("select dialectic.job_request($1)", &[&leaf.job]).expect("job_request");
    let outcome: String = one(
        &mut client,
        r#"select dialectic.complete_job($1, $2, '# A leaf', 'stop', '{"input_tokens": 11, "output_tokens": 7, "cached_tokens": 3}')"#,
        &[&leaf.job, &leaf.claim],
    );
    assert_eq!(outcome, "completed");
    let kept: Vec<String> = column(
        &mut client,
        "select concat_ws('|', c.content, c.chunk_no, c.root_id = c.id, c.session_id = $2, c.stage, c.iteration, c.step_key, c.output_type, c.model, \
                          c.document_key, c.lineage_id = j.lineage_id, c.is_header, c.finish_reason, c.input_tokens, c.output_tokens, c.cached_tokens, \
                          p.resource_type, p.job_id = j.id) \
         from dialectic.contributions c join dialectic.jobs j on j.id = c.job_id join dialectic.resources p on p.id = c.source_prompt_resource_id \
         where c.job_id = $1",
        &[&leaf.job, &session],
    );
    assert_eq!(kept, ["# A leaf|1|t|t|fan|1|leaf|leaf|priced|leaf|t|f|stop|11|7|3|turn_prompt|t"]);
    let job: String = one(
        &mut client,
        "select concat_ws('|', j.status, j.attempt_count, j.completed_at is not null, j.claim_id is null, j.claimed_by is null, j.lease_until is null, \
                          j.results ->> 'contribution_id' = c.id::text) \
         from dialectic.jobs j join dialectic.contributions c on c.job_id = j.id where j.id = $1",
        &[&leaf.job],
    );
    assert_eq!(job, "completed|1|t|t|t|t|t");
    let call: String = one(
        &mut client,
        "select concat_ws('|', outcome, finish_reason, input_tokens, output_tokens, cached_tokens, cost, finished_at >= started_at) \
         from dialectic.model_calls where job_id = $1",
        &[&leaf.job],
    );
    // 11 tokens at 1.5 and 7 at 10 micro-dollars are 86.5, rounded up once.
    assert_eq!(call, "answered|stop|11|7|3|87|t");
    assert_sound(&mut client);
}

#[test]
fn children_and_the_waiting_of_their_parent_appear_in_one_transaction() {
    let database = Database::by_hand();
    let (mut client, mut other) = (database.connect(), database.connect());
    let project = fan_project(&mut client, 3);
    begin(&mut client, project, &["sim-a"]);
    let root = claim(&mut client, "hand", 10).remove(0);
    let seen = "select concat_ws(' ', r.status, (select count(*) from dialectic.jobs c where c.parent_job_id = r.id), \
                                      (select count(*) from dialectic.job_inputs)) from dialectic.jobs r where r.id = $1";
    client.batch_execute("begin").expect("begin");
    client.query("select dialectic.complete_job($1, $2)", &[&root.job, &root.claim]).expect("complete_job");
    assert_eq!(one::<String>(&mut other, seen, &[&root.job]), "processing 0 0");
    assert_eq!(claim(&mut other, "eager", 10).len(), 0, "nobody claims a child of a parent that does not wait yet");
    client.batch_execute("commit").expect("commit");
    assert_eq!(one::<String>(&mut other, seen, &[&root.job]), "waiting_for_children 3 3");
    assert_eq!(claim(&mut other, "eager", 10).len(), 3);
}

#[test]
fn the_first_child_leaves_its_parent_waiting_and_the_last_wakes_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, leaves) = fanned(&mut client, 3);
    for leaf in &leaves[..2] {
        answer(&mut client, leaf, "done");
        assert_eq!(status(&mut client, root), "waiting_for_children");
    }
    answer(&mut client, &leaves[2], "done");
    assert_eq!(status(&mut client, root), "pending_next_step");
    assert_sound(&mut client);
}

#[test]
fn a_child_that_is_tried_again_leaves_its_parent_waiting() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, leaves) = fanned(&mut client, 2);
    answer(&mut client, &leaves[0], "done");
    assert_eq!(fail(&mut client, &leaves[1], "transient", "a hiccup"), "retrying");
    assert_eq!(status(&mut client, root), "waiting_for_children");
}

#[test]
fn a_job_that_waited_for_another_goes_back_where_it_was() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, leaves) = fanned(&mut client, 3);
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    fail(&mut client, &leaves[1], "transient", "a hiccup");
    for waiter in &leaves[1..] {
        let state: String =
            one(&mut client, "select dialectic._wait_for($1, $2)", &[&waiter.job, &vec![leaves[0].job]]);
        assert_eq!(state, "waiting_for_prerequisite");
    }
    assert_eq!(claim(&mut client, "eager", 10).len(), 0, "what waits is not claimed");
    let cause: String = one(&mut client, "select cause from dialectic.blocked where job_id = $1", &[&leaves[2].job]);
    assert!(cause.contains(&leaves[0].job.to_string()), "{cause}");
    answer(&mut client, &leaves[0], "done");
    assert_eq!(status(&mut client, leaves[1].job), "retrying");
    assert_eq!(status(&mut client, leaves[2].job), "pending");
    assert_eq!(answer(&mut client, &leaves[2], "of the claim that was given up"), "stale");
    assert_eq!(claim(&mut client, "eager", 10).len(), 2);
    assert_sound(&mut client);
}

#[test]
fn a_prerequisite_that_fails_for_good_fails_what_waits_for_it_and_retry_lets_both_go_on() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = fan_project(&mut client, 1);
    let session = begin(&mut client, project, &["sim-a", "sim-b"]);
    let roots = plan_roots(&mut client, 2, "waiting_for_children");
    let leaves = claim(&mut client, "hand", 10);
    let (needed, waiter) = (leaves[0].job, leaves[1].job);
    client.query("select dialectic._wait_for($1, $2)", &[&waiter, &vec![needed]]).expect("_wait_for");
    fail(&mut client, &leaves[0], "permanent", "no such thing");
    for (job, cause) in [(waiter, needed), (roots[0].job, needed), (roots[1].job, waiter)] {
        assert_eq!(status(&mut client, job), "failed");
        let error: Value = one(&mut client, "select error_details from dialectic.jobs where id = $1", &[&job]);
        assert_eq!(error["cause_job"], cause.to_string());
        assert!(error["message"].as_str().expect("a message").contains("no such thing"), "{error}");
    }
    assert_eq!(session_status(&mut client, session), "failed");
    assert_sound(&mut client);
    assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&needed]), 4);
    assert_eq!(status(&mut client, waiter), "waiting_for_prerequisite");
    hand_over(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn a_job_never_waits_for_itself_or_for_another_session() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, leaves) = fanned(&mut client, 2);
    let stranger = generated(&mut client, &["sim-a"]);
    let foreign: Uuid = one(&mut client, "select id from dialectic.jobs where session_id = $1", &[&stranger]);
    let wait = "select dialectic._wait_for($1, $2)";
    client.query(wait, &[&leaves[1].job, &vec![leaves[0].job]]).expect("_wait_for");
    refused_with(&mut client, wait, &[&leaves[0].job, &vec![leaves[1].job]], "22023", &leaves[0].job.to_string());
    refused_with(&mut client, wait, &[&leaves[0].job, &vec![foreign]], "22023", &leaves[0].job.to_string());
    assert_eq!(status(&mut client, leaves[0].job), "processing");
}
