//! The seed prompt of a stage that a session opens by itself: the plan jobs of that stage have it rendered and stored.

use crate::by_hand::{Claim, answer, claim, session_status};
use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// A process of two stages; this is the seed template of the second one.
fn define(client: &mut Client, second_seed: &str) {
    set_prompt(client, "two_seed", "Brief.");
    set_prompt(client, "two_second_seed", second_seed);
    set_prompt(client, "two_step", "{% include \"shared_documents\" %}Go on.");
    let stage = |slug: &str, seed: &str| {
        json!({"slug": slug, "seed_prompt_template": seed, "recipe": {"steps": [
            {"key": slug, "job_type": "execute", "prompt_template_name": "two_step",
             "granularity_strategy": "all_to_one", "inputs_required": [{"type": "seed_prompt"}],
             "output_type": slug, "document_key": slug}]}})
    };
    let stages = json!([stage("first", "two_seed"), stage("second", "two_second_seed")]);
    client.execute("select dialectic.define_process('two', $1)", &[&stages]).expect("define_process");
}

fn set_prompt(client: &mut Client, name: &str, body: &str) {
    client.execute("select dialectic.set_prompt($1, $2)", &[&name, &body]).expect("set_prompt");
}

/// Finishes a claimed job as a worker outside the server does.
fn complete(client: &mut Client, claim: &Claim) -> String {
    match claim.kind.as_str() {
        "plan" => one(client, "select dialectic.complete_job($1, $2)", &[&claim.job, &claim.claim]),
        _ => answer(client, claim, "Enough."),
    }
}

/// A session whose first stage is complete, so that the trigger has opened the second one.
fn opened(client: &mut Client, models: &[&str]) -> Uuid {
    let session: Uuid = one(client, "select dialectic.run('Say it.', models => $1, process => 'two')", &[&models]);
    while second_run(client, session).is_none() {
        let claims = claim(client, "hand", 10);
        assert!(!claims.is_empty(), "the first stage moves");
        for claim in claims {
            complete(client, &claim);
        }
    }
    session
}

/// The status of the second stage.
fn second_run(client: &mut Client, session: Uuid) -> Option<String> {
    let runs = "select status from dialectic.stage_runs where session_id = $1 and stage = 'second'";
    column(client, runs, &[&session]).pop()
}

/// The seed prompts of the second stage.
fn seeds(client: &mut Client, session: Uuid) -> Vec<String> {
    let seeds = "select content from dialectic.resources \
         where session_id = $1 and stage = 'second' and resource_type = 'seed_prompt'";
    column(client, seeds, &[&session])
}

/// The statuses of the plans of the second stage.
fn plans(client: &mut Client, session: Uuid) -> Vec<String> {
    let plans = "select j.status from dialectic.jobs j join dialectic.stage_runs r on r.id = j.stage_run_id \
         where r.session_id = $1 and r.stage = 'second' and j.parent_job_id is null order by j.id";
    column(client, plans, &[&session])
}

const SECOND: &str = "Stage {{ stage.slug }}: {{ original_user_request }}";

#[test]
fn completed_stage_opens_the_next_one_without_a_seed_prompt() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session = opened(&mut client, &["sim-a", "sim-b"]);
    assert_eq!(second_run(&mut client, session).as_deref(), Some("running"));
    assert_eq!(plans(&mut client, session), ["pending", "pending"]);
    assert_eq!(seeds(&mut client, session), Vec::<String>::new());
    assert_sound(&mut client);
}

#[test]
fn engine_renders_seed_prompts_without_the_sql_function() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session: Uuid = one(&mut client, "select dialectic.run('Say it.', models => '{sim-a}', process => 'two')", &[]);
    client
        .batch_execute(
            "create or replace function dialectic._render_seed( \
                 definition_id text, stage text, iteration integer, request text) returns text \
             language plpgsql stable as $$ begin raise exception 'rendered in a statement'; end $$",
        )
        .expect("a function that raises");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(seeds(&mut client, session), ["Stage second: Say it."]);
}

#[test]
fn plans_of_all_models_get_one_seed_prompt() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session = opened(&mut client, &["sim-a", "sim-b", "sim-c"]);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(seeds(&mut client, session), ["Stage second: Say it."]);
    assert_sound(&mut client);
}

#[test]
fn completing_a_plan_outside_the_server_stores_the_seed_prompt() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session = opened(&mut client, &["sim-a", "sim-b"]);
    for claim in claim(&mut client, "hand", 10) {
        assert_eq!(complete(&mut client, &claim), "waiting_for_children");
    }
    assert_eq!(seeds(&mut client, session), ["Stage second: Say it."]);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn stale_claim_stores_no_seed_prompt() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session = opened(&mut client, &["sim-a"]);
    let plan = claim(&mut client, "hand", 10).remove(0);
    client.execute("select dialectic.cancel($1)", &[&session]).expect("cancel");
    assert_eq!(complete(&mut client, &plan), "stale");
    assert_eq!(seeds(&mut client, session), Vec::<String>::new());
}

const BROKEN: &str = "Brief. {{ overlay.nothing_like_it }}";

/// The class and the message of each failed plan of the second stage.
fn failures(client: &mut Client, session: Uuid) -> Vec<Value> {
    let failures = "select jsonb_build_array(j.error_class, j.error_details ->> 'message') \
         from dialectic.jobs j join dialectic.stage_runs r on r.id = j.stage_run_id \
         where r.session_id = $1 and r.stage = 'second' and j.status = 'failed' order by j.id";
    column(client, failures, &[&session])
}

#[test]
fn failing_seed_template_fails_the_session_with_its_message() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, BROKEN);
    let session = opened(&mut client, &["sim-a", "sim-b"]);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "failed");
    assert_eq!(second_run(&mut client, session).as_deref(), Some("failed"));
    let failed = failures(&mut client, session);
    assert_eq!(failed.len(), 2, "{failed:?}");
    for failure in &failed {
        assert_eq!(failure[0], "permanent");
        assert!(failure[1].as_str().is_some_and(|text| text.starts_with("template \"two_second_seed\"")), "{failure}");
    }
    let told = "select count(*) from dialectic.notifications \
         where session_id = $1 and type = 'contribution_generation_failed' and message like '%two_second_seed%'";
    assert_eq!(one::<i64>(&mut client, told, &[&session]), 2);
    assert_sound(&mut client);
}

#[test]
fn hint_of_a_failed_seed_template_completes_the_session() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, BROKEN);
    let session = opened(&mut client, &["sim-a"]);
    work(&mut client);
    let error = refused(&mut client, "call dialectic.wait($1)", &[&session]);
    assert!(error.detail().is_some_and(|detail| detail.contains("two_second_seed")), "{error:?}");
    let hint = error.hint().unwrap_or_default().to_owned();
    let statement = hint.split_once("then ").expect("a statement").1;
    set_prompt(&mut client, "two_second_seed", SECOND);
    client.batch_execute(statement).expect("the hint");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(seeds(&mut client, session), ["Stage second: Say it."]);
}

#[test]
fn failing_seed_template_fails_a_plan_completed_outside_the_server() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, BROKEN);
    let session = opened(&mut client, &["sim-a"]);
    let plan = claim(&mut client, "hand", 10).remove(0);
    assert_eq!(complete(&mut client, &plan), "failed");
    assert_eq!(session_status(&mut client, session), "failed");
    assert!(failures(&mut client, session)[0][1].as_str().is_some_and(|text| text.contains("two_second_seed")));
}

#[test]
fn failing_seed_template_raises_in_submit_stage() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, BROKEN);
    let project: Uuid = one(&mut client, "select dialectic.create_project('Two', 'Say it.', process => 'two')", &[]);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    work(&mut client);
    let error = refused(&mut client, "select dialectic.submit_stage($1)", &[&session]);
    assert!(error.message().contains("two_second_seed"), "{error:?}");
    assert_eq!(second_run(&mut client, session), None);
}

#[test]
fn definition_that_breaks_between_stages_fails_its_session() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session = opened(&mut client, &["sim-a"]);
    client
        .batch_execute(
            "create table public.kept as select id, stages from dialectic.definitions; \
             update dialectic.definitions set stages = jsonb_set(stages, '{1,recipe}', '\"broken\"')",
        )
        .expect("a broken definition");
    // Another connection: this one has read the definition already.
    hand_over(&mut database.connect());
    assert_eq!(session_status(&mut client, session), "failed");
    let failed = failures(&mut client, session);
    assert_eq!(failed[0][0], "internal");
    assert!(failed[0][1].as_str().is_some_and(|text| text.contains("recipe")), "{failed:?}");
    let restore = "update dialectic.definitions d set stages = k.stages from public.kept k where k.id = d.id";
    client.batch_execute(restore).expect("restored");
    client.execute("select dialectic.retry($1)", &[&session]).expect("retry");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
}

#[test]
fn wait_does_not_return_before_the_seed_prompt_is_there() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session = opened(&mut client, &["sim-a"]);
    refused_with(&mut client, "call dialectic.wait($1, '0')", &[&session], "57014", &session.to_string());
}

#[test]
fn plan_without_a_seed_prompt_is_blocked_when_nobody_works() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session = opened(&mut client, &["sim-a"]);
    let causes: Vec<String> = column(
        &mut client,
        "select kind || ' ' || cause_code from dialectic.blocked where session_id = $1",
        &[&session],
    );
    assert_eq!(causes, ["plan worker_disabled"]);
    let shown: Vec<String> = column(
        &mut client,
        "select stage || ' ' || status from dialectic.progress($1) order by iteration, stage",
        &[&session],
    );
    assert_eq!(shown, ["first completed", "second pending"]);
}

#[test]
fn cancelled_session_gets_its_seed_prompt_after_retry() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session = opened(&mut client, &["sim-a", "sim-b"]);
    assert_eq!(one::<i32>(&mut client, "select dialectic.cancel($1)", &[&session]), 2);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "cancelled");
    assert_eq!(seeds(&mut client, session), Vec::<String>::new());
    client.execute("select dialectic.retry($1)", &[&session]).expect("retry");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(seeds(&mut client, session).len(), 1);
    assert_sound(&mut client);
}

#[test]
fn paused_session_gets_its_seed_prompt_after_resume() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, SECOND);
    let session = opened(&mut client, &["sim-a"]);
    assert_eq!(one::<i32>(&mut client, "select dialectic.pause($1)", &[&session]), 1);
    work(&mut client);
    assert_eq!(plans(&mut client, session), ["paused_user"]);
    assert_eq!(seeds(&mut client, session), Vec::<String>::new());
    client.execute("select dialectic.resume($1)", &[&session]).expect("resume");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(seeds(&mut client, session).len(), 1);
}
