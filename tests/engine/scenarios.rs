//! Whole stories of the engine: a retry, a review stage, a re-run after failure, a pause, who reads what, iterations, stages
//! opened by hand.

use crate::by_hand::*;
use dialectic_tests::*;
use postgres::Client;
use serde_json::Value;
use std::collections::BTreeSet;

fn stage_runs(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select concat_ws(' ', stage, iteration, status) from dialectic.stage_runs where session_id = $1 order by created_at, id",
        &[&session],
    )
}

/// Works every job that comes up by hand: plans are planned, and each request is answered by `write`.
fn write_all(client: &mut Client, mut write: impl FnMut(&mut Client, &Claim, &str) -> String) {
    loop {
        let claimed = claim(client, "hand", 100);
        if claimed.is_empty() {
            return;
        }
        for job in claimed {
            if job.kind == "plan" {
                client.query("select dialectic.complete_job($1, $2)", &[&job.job, &job.claim]).expect("complete_job");
            } else {
                let request: Value = one(client, "select dialectic.job_request($1)", &[&job.job]);
                let text = write(client, &job, &request["messages"].to_string());
                assert_eq!(answer(client, &job, &text), "completed");
            }
        }
    }
}

#[test]
fn a_model_that_fails_once_is_tried_again_and_both_attempts_are_charged() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute(
            r#"select dialectic.add_model('flaky', 'simulator', settings => '{"fail_first": 1, "fail_class": "transient"}');
               select dialectic.set_config('retry_base_seconds', '0')"#,
        )
        .expect("a model that fails once");
    let project = fan_project(&mut client, 1);
    record_moves(&mut client);
    let session = begin(&mut client, project, &["flaky"]);
    work(&mut client);
    let leaf: Uuid = one(&mut client, "select id from dialectic.jobs where kind = 'execute'", &[]);
    assert_eq!(moves(&mut client, leaf), ["processing", "retrying", "processing", "completed"]);
    assert_eq!(one::<i32>(&mut client, "select attempt_count from dialectic.jobs where id = $1", &[&leaf]), 2);
    let calls: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', attempt, outcome, error_class) from dialectic.model_calls order by attempt",
        &[],
    );
    assert_eq!(calls, ["1 failed transient", "2 answered"]);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn a_model_that_fails_more_often_than_it_may_fails_for_good() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute(
            r#"select dialectic.add_model('broken', 'simulator', settings => '{"fail_always": true, "fail_class": "transient"}');
               select dialectic.set_config('retry_base_seconds', '0'); select dialectic.set_config('job_default_max_retries', '2')"#,
        )
        .expect("a model that always fails");
    let project = fan_project(&mut client, 1);
    let session = begin(&mut client, project, &["broken"]);
    work(&mut client);
    let leaf: String = one(
        &mut client,
        "select concat_ws(' ', status, attempt_count) from dialectic.jobs where kind = 'execute'",
        &[],
    );
    assert_eq!(leaf, "retry_loop_failed 3");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls where outcome = 'failed'", &[]), 3);
    assert_eq!(session_status(&mut client, session), "failed");
    assert_sound(&mut client);
}

#[test]
fn the_root_of_a_review_waits_for_its_critiques_is_woken_once_and_completes() {
    let database = Database::new();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a", "sim-b"]);
    work(&mut client);
    record_moves(&mut client);
    client.query("select dialectic.submit_stage($1)", &[&session]).expect("submit_stage");
    let roots: Vec<Uuid> = column(&mut client, "select job_id from dialectic.generate($1)", &[&session]);
    work(&mut client);
    for root in roots {
        let through = ["processing", "waiting_for_children", "pending_next_step", "processing", "completed"];
        assert_eq!(moves(&mut client, root), through);
        assert_eq!(
            one::<i64>(&mut client, "select count(*) from dialectic.jobs where parent_job_id = $1", &[&root]),
            2
        );
    }
    assert_eq!(stage_runs(&mut client, session), ["thesis 1 completed", "antithesis 1 completed"]);
    assert_sound(&mut client);
}

#[test]
fn after_a_failed_stage_a_successful_re_run_completes_it_in_the_same_iteration() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute(
            r#"select dialectic.add_model('ill', 'simulator', settings => '{"fail_always": true, "fail_class": "permanent"}');
               select dialectic.set_config('stage_min_models', '2')"#,
        )
        .expect("a model that fails");
    let session = generated(&mut client, &["sim-a", "ill"]);
    work(&mut client);
    assert_eq!(stage_runs(&mut client, session), ["thesis 1 failed"]);
    assert_eq!(session_status(&mut client, session), "failed");
    refused_with(&mut client, "select dialectic.submit_stage($1)", &[&session], "55000", "thesis");

    client.execute("select dialectic.add_model('ill', 'simulator')", &[]).expect("a model that is well again");
    let roots: Vec<Uuid> = column(&mut client, "select job_id from dialectic.generate($1)", &[&session]);
    assert_eq!(roots.len(), 2);
    assert_eq!(session_status(&mut client, session), "active");
    work(&mut client);
    assert_eq!(stage_runs(&mut client, session), ["thesis 1 completed"]);
    assert_eq!(session_status(&mut client, session), "active");
    let written: Vec<String> = column(
        &mut client,
        "select model || ' ' || count(*) from dialectic.contributions group by model order by model",
        &[],
    );
    assert_eq!(written, ["ill 1", "sim-a 1"], "what was there is not written again");
    assert_eq!(one::<String>(&mut client, "select dialectic.submit_stage($1)", &[&session]), "antithesis");
    assert_sound(&mut client);
}

#[test]
fn after_a_failed_plan_a_successful_re_run_completes_the_stage() {
    let database = Database::new();
    let mut client = database.connect();
    let project = fan_project(&mut client, 0);
    let session = begin(&mut client, project, &["sim-a"]);
    work(&mut client);
    let message: String = one(&mut client, "select error_details ->> 'message' from dialectic.jobs", &[]);
    assert!(message.contains("leaf") && message.contains("general_resource"), "{message}");
    assert_eq!(stage_runs(&mut client, session), ["fan 1 failed"]);
    client.query("select dialectic.add_resource($1, 'text', 'Text')", &[&project]).expect("add_resource");
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    work(&mut client);
    assert_eq!(stage_runs(&mut client, session), ["fan 1 completed"]);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn a_job_paused_while_it_ran_is_resumed_and_the_answer_of_its_old_claim_ignored() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, leaves) = fanned(&mut client, 2);
    let session: Uuid = one(&mut client, "select session_id from dialectic.jobs limit 1", &[]);
    client.query("select dialectic.job_request($1)", &[&leaves[0].job]).expect("job_request");
    record_moves(&mut client);
    assert_eq!(one::<i32>(&mut client, "select dialectic.pause($1)", &[&session]), 2, "the root waits on");
    assert_eq!(claim(&mut client, "hand", 10).len(), 0);
    assert_eq!(answer(&mut client, &leaves[0], "too late"), "stale");
    assert_eq!(status(&mut client, leaves[0].job), "paused_user");
    assert_eq!(one::<i32>(&mut client, "select dialectic.resume($1)", &[&session]), 2);
    assert_eq!(answer(&mut client, &leaves[0], "later still"), "stale");
    for leaf in claim(&mut client, "hand", 10) {
        assert_eq!(answer(&mut client, &leaf, "in time"), "completed");
    }
    for leaf in &leaves {
        assert_eq!(moves(&mut client, leaf.job), ["paused_user", "pending", "processing", "completed"]);
    }
    assert_eq!(column::<String>(&mut client, "select content from dialectic.contributions", &[]), ["in time"; 2]);
    assert_eq!(
        column::<i32>(&mut client, "select attempt_count from dialectic.jobs where kind = 'execute'", &[]),
        [1, 1]
    );
    let calls = "select outcome from dialectic.model_calls where job_id = $1";
    assert_eq!(column::<String>(&mut client, calls, &[&leaves[0].job]), ["late"]);
    assert_eq!(moves(&mut client, root), ["pending_next_step"]);
    plan_roots(&mut client, 1, "completed");
    assert_sound(&mut client);
}

/// The names in every mark of this form that a text holds.
fn marks(text: &str, form: &str) -> Vec<String> {
    text.split(form).skip(1).filter_map(|rest| rest.split(']').next()).map(str::to_owned).collect()
}

#[test]
fn what_is_planned_is_what_is_sent() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a", "sim-b", "sim-c"]);
    write_all(&mut client, |_, job, _| format!("[thesis by {}]", job.model));

    let next = |client: &mut Client| {
        client.query("select dialectic.submit_stage($1)", &[&session]).expect("submit_stage");
        client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    };
    let planned = "select concat_ws(' ', j.model, t.model, j.reviewer) from dialectic.jobs j \
                   join dialectic.jobs t on t.lineage_id = j.lineage_id and t.step_key = 'thesis' where j.id = $1";
    let mut critiques = BTreeSet::new();
    next(&mut client);
    write_all(&mut client, |client, job, prompt| {
        let theses = marks(prompt, "[thesis by ");
        assert_eq!(theses.len(), 1, "{prompt}");
        assert_eq!(one::<String>(client, planned, &[&job.job]), format!("{0} {1} {0}", job.model, theses[0]));
        assert!(critiques.insert((job.model.clone(), theses[0].clone())));
        format!("[review by {} of {}]", job.model, theses[0])
    });
    assert_eq!(critiques.len(), 9);

    let mut pairs = BTreeSet::new();
    next(&mut client);
    write_all(&mut client, |client, job, prompt| {
        let (theses, reviews) = (marks(prompt, "[thesis by "), marks(prompt, "[review by "));
        let step: String = one(client, "select step_key from dialectic.jobs where id = $1", &[&job.job]);
        if step == "pairwise" {
            assert_eq!((theses.len(), reviews.len()), (1, 1), "{prompt}");
            let (reviewer, author) = reviews[0].split_once(" of ").expect("reviewer and author");
            assert_eq!(author, theses[0]);
            assert_eq!(one::<String>(client, planned, &[&job.job]), format!("{} {author} {reviewer}", job.model));
            assert!(pairs.insert(format!("{} {author} {reviewer}", job.model)));
        }
        format!("A {step} by {}.", job.model)
    });
    assert_eq!(pairs.len(), 27);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn a_new_iteration_keeps_the_old_and_the_next_stage_reads_the_newest_that_completed() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    let generate = |client: &mut Client, stage: &str| {
        client.query("select * from dialectic.generate($1, stage => $2)", &[&session, &stage]).expect("generate");
    };
    let submit =
        |client: &mut Client| -> Option<String> { one(client, "select dialectic.submit_stage($1)", &[&session]) };
    write_all(&mut client, |_, _, _| "[thesis by first]".to_owned());
    assert_eq!(submit(&mut client).as_deref(), Some("antithesis"));
    generate(&mut client, "antithesis");
    write_all(&mut client, |_, _, prompt| marks(prompt, "[thesis by ").join(" and "));

    generate(&mut client, "thesis");
    assert_eq!(stage_runs(&mut client, session), ["thesis 1 completed", "antithesis 1 completed", "thesis 2 running"]);
    write_all(&mut client, |_, _, _| "[thesis by second]".to_owned());
    assert_eq!(submit(&mut client).as_deref(), Some("antithesis"));
    generate(&mut client, "antithesis");
    write_all(&mut client, |_, _, prompt| marks(prompt, "[thesis by ").join(" and "));
    // A third iteration of the review alone: its theses are those of the second.
    generate(&mut client, "antithesis");
    write_all(&mut client, |_, _, prompt| marks(prompt, "[thesis by ").join(" and "));

    let kept: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', stage, iteration, content) from dialectic.contributions order by created_at",
        &[],
    );
    assert_eq!(
        kept,
        [
            "thesis 1 [thesis by first]",
            "antithesis 1 first",
            "thesis 2 [thesis by second]",
            "antithesis 2 second",
            "antithesis 3 second"
        ]
    );
    assert_eq!(one::<i32>(&mut client, "select iteration from dialectic.sessions where id = $1", &[&session]), 3);
    assert_sound(&mut client);
}

#[test]
fn a_session_that_does_not_advance_by_itself_opens_each_stage_when_it_is_told() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    let submit = "select dialectic.submit_stage($1)";
    for (stage, next) in [("thesis", Some("antithesis")), ("antithesis", Some("synthesis")), ("synthesis", None)] {
        let error = refused_with(&mut client, submit, &[&session], "55000", stage);
        assert!(error.detail().is_some_and(|detail| detail.contains("running")), "{error:?}");
        work(&mut client);
        let jobs = "select count(*) from dialectic.jobs where session_id = $1";
        let before: i64 = one(&mut client, jobs, &[&session]);
        assert_eq!(one::<Option<String>>(&mut client, submit, &[&session]).as_deref(), next);
        assert_eq!(one::<i64>(&mut client, jobs, &[&session]), before, "opening a stage runs nothing");
        if let Some(next) = next {
            assert_eq!(stage_runs(&mut client, session).last(), Some(&format!("{next} 1 pending")));
            let seeds = "select count(*) from dialectic.resources where session_id = $1 and stage = $2 and resource_type = 'seed_prompt'";
            assert_eq!(one::<i64>(&mut client, seeds, &[&session, &next]), 1);
            let error = refused_with(&mut client, submit, &[&session], "55000", next);
            assert!(error.hint().is_some_and(|hint| hint.contains("generate")), "{error:?}");
            client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
        }
    }
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn an_unknown_strategy_is_refused_with_its_step_and_field_and_nothing_is_stored() {
    let database = Database::new();
    let mut client = database.connect();
    fan_project(&mut client, 0);
    let stages =
        "select jsonb_set(dialectic._stored_stages('fan'), '{0,recipe,steps,0,granularity_strategy}', '\"per_sauce\"')";
    for verb in [
        format!("select dialectic.define_process('sauce', ({stages}))"),
        format!("select dialectic.define_stage('fan', 'fan', ({stages}) -> 0 -> 'recipe')"),
        format!("select dialectic.validate_recipe(({stages}) -> 0 -> 'recipe')"),
    ] {
        let error = refused_with(&mut client, &verb, &[], "22023", "per_sauce");
        for name in ["leaf", "granularity_strategy", "per_source_document"] {
            assert!(error.message().contains(name), "{verb}\n{error:?}");
        }
    }
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.processes where name in ('sauce', 'fan')", &[]),
        1
    );
}
