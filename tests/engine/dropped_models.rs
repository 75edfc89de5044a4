//! A model that did not deliver in a stage: later stages do not ask it until retry, and everybody sees that.

use crate::by_hand::session_status;
use dialectic_tests::*;
use postgres::Client;

/// Has every call of the model `ill` fail from now on, or succeed.
fn ill(client: &mut Client, fails: bool) {
    let settings = if fails { r#"{"fail_always": true, "fail_class": "permanent"}"# } else { "{}" };
    client
        .execute("select dialectic.add_model('ill', 'simulator', settings => $1::text::jsonb)", &[&settings])
        .expect("add_model");
}

fn run_essay(client: &mut Client) -> Uuid {
    one(client, "select dialectic.run('Why?', models => '{sim-a,ill}', process => 'essay')", &[])
}

fn plans_of_ill(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select concat_ws(' ', r.stage, j.status) from dialectic.jobs j join dialectic.stage_runs r on r.id = j.stage_run_id \
         where j.session_id = $1 and j.model = 'ill' and j.parent_job_id is null order by r.iteration, r.position",
        &[&session],
    )
}

#[test]
fn failed_model_is_not_asked_again_in_later_stages() {
    let database = Database::by_hand();
    let mut client = database.connect();
    ill(&mut client, true);
    let session = run_essay(&mut client);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(plans_of_ill(&mut client, session), ["thesis failed"]);
    let calls = "select count(*) from dialectic.model_calls where model = 'ill'";
    assert_eq!(one::<i64>(&mut client, calls, &[]), 1);
    assert_sound(&mut client);
}

#[test]
fn dropped_model_is_named_by_progress_and_the_receipt() {
    let database = Database::by_hand();
    let mut client = database.connect();
    ill(&mut client, true);
    let session = run_essay(&mut client);
    work(&mut client);
    let statuses: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', stage, status) from dialectic.progress($1) where model = 'ill'",
        &[&session],
    );
    assert_eq!(statuses, ["thesis failed", "antithesis dropped", "synthesis dropped"]);
    let (told, error) = crate::usage::waited(&database, session);
    assert!(error.is_none(), "{error:?}");
    assert!(told[0].ends_with("; did not deliver: ill (thesis)"), "{told:?}");
}

#[test]
fn retry_of_the_failed_job_brings_the_model_back() {
    let database = Database::by_hand();
    let mut client = database.connect();
    ill(&mut client, true);
    let session = generated(&mut client, &["sim-a", "ill"]);
    work(&mut client);
    ill(&mut client, false);
    let thesis: Uuid =
        one(&mut client, "select id from dialectic.jobs where step_key = 'thesis' and model = 'ill'", &[]);
    client.query("select dialectic.retry($1)", &[&thesis]).expect("retry");
    work(&mut client);
    client.query("select dialectic.submit_stage($1)", &[&session]).expect("submit_stage");
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    work(&mut client);
    assert_eq!(plans_of_ill(&mut client, session), ["thesis completed", "antithesis completed"]);
    assert_sound(&mut client);
}

#[test]
fn retry_of_the_session_asks_dropped_models_again() {
    let database = Database::by_hand();
    let mut client = database.connect();
    ill(&mut client, true);
    let session = run_essay(&mut client);
    while one::<String>(&mut client, "select current_stage from dialectic.sessions", &[]) != "antithesis" {
        client.batch_execute("call dialectic.run_pending(1)").expect("run_pending");
    }
    assert_eq!(plans_of_ill(&mut client, session), ["thesis failed"]);
    ill(&mut client, false);
    assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&session]), 1, "its plan");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(plans_of_ill(&mut client, session), ["thesis failed", "antithesis completed", "synthesis completed"]);
    assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&session]), 0, "nobody is left out now");
    assert_sound(&mut client);
}

#[test]
fn generate_asks_a_dropped_model_that_it_names() {
    let database = Database::by_hand();
    let mut client = database.connect();
    ill(&mut client, true);
    let session = generated(&mut client, &["sim-a", "ill"]);
    work(&mut client);
    client.query("select dialectic.submit_stage($1)", &[&session]).expect("submit_stage");
    ill(&mut client, false);
    let asked = "select model from dialectic.generate($1, models => '{sim-a,ill}') order by 1";
    assert_eq!(column::<String>(&mut client, asked, &[&session]), ["ill", "sim-a"]);
    work(&mut client);
    assert_eq!(plans_of_ill(&mut client, session), ["thesis failed", "antithesis completed"]);
    assert_sound(&mut client);
}

#[test]
fn generate_without_models_leaves_dropped_models_out() {
    let database = Database::by_hand();
    let mut client = database.connect();
    ill(&mut client, true);
    let session = generated(&mut client, &["sim-a", "ill"]);
    work(&mut client);
    client.query("select dialectic.submit_stage($1)", &[&session]).expect("submit_stage");
    assert_eq!(column::<String>(&mut client, "select model from dialectic.generate($1)", &[&session]), ["sim-a"]);
    work(&mut client);
    // A new iteration of the stage in which it failed is a new beginning.
    let again = "select model from dialectic.generate($1, stage => 'thesis') order by 1";
    assert_eq!(column::<String>(&mut client, again, &[&session]), ["ill", "sim-a"]);
}
