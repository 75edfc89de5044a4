//! A document that a person cancels: its model does not deliver, the other models go on, and retry brings it back.

use crate::by_hand::*;
use dialectic_tests::*;
use postgres::Client;

fn cancel(client: &mut Client, job: Uuid) {
    assert_eq!(one::<i32>(client, "select dialectic.cancel($1)", &[&job]), 1);
}

/// A run of the default process up to the review, by hand, until a document of `sim-b` is ready to be written.
fn document_of_sim_b(client: &mut Client, session: Uuid) -> Uuid {
    let ready = "select id from dialectic.jobs where session_id = $1 and status = 'pending' and model = 'sim-b' \
                 and step_key = 'feature_spec'";
    let mut found: Vec<Uuid> = Vec::new();
    while found.is_empty() {
        client.batch_execute("call dialectic.run_pending(1)").expect("run_pending");
        found = column(client, ready, &[&session]);
    }
    found[0]
}

#[test]
fn other_models_go_on_without_a_cancelled_document() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why?', models => '{sim-a,sim-b}', through => 'antithesis')", &[]);
    let document = document_of_sim_b(&mut client, session);
    cancel(&mut client, document);
    hand_over(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    client.execute("call dialectic.wait($1)", &[&session]).expect("wait");
    let reviews = "select distinct format('%s of %s', d.model, origin.model) from dialectic.documents d \
                   join dialectic.jobs origin on origin.id = d.lineage where d.stage = 'antithesis'";
    assert_eq!(column::<String>(&mut client, reviews, &[]), ["sim-a of sim-a"]);
    assert_sound(&mut client);
}

#[test]
fn other_models_go_on_when_a_running_call_is_cancelled() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .execute(r#"select dialectic.add_model('slow', 'simulator', settings => '{"latency_ms": 1500}')"#, &[])
        .expect("add_model");
    let run = "select dialectic.run('Why?', models => '{slow,sim-a}', through => 'antithesis')";
    let session: Uuid = one(&mut client, run, &[]);
    let working = set_to_work(&database);
    let asked = "select j.id from dialectic.jobs j join dialectic.model_calls c on c.job_id = j.id \
                 where j.model = 'slow' and j.step_key = 'feature_spec' and c.outcome = 'open'";
    let mut running: Vec<Uuid> = Vec::new();
    eventually("the document is being written", || {
        running = column(&mut client, asked, &[]);
        !running.is_empty()
    });
    cancel(&mut client, running[0]);
    working.end();
    client.execute("call dialectic.wait($1)", &[&session]).expect("wait");
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(
        column::<String>(&mut client, "select distinct model from dialectic.documents where stage = 'antithesis'", &[]),
        ["sim-a"]
    );
    assert_sound(&mut client);
}

#[test]
fn progress_and_notification_name_the_model_that_did_not_deliver() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why?', models => '{sim-a,sim-b}', through => 'antithesis')", &[]);
    let document = document_of_sim_b(&mut client, session);
    cancel(&mut client, document);
    hand_over(&mut client);
    let rows: Vec<String> = column(
        &mut client,
        "select format('%s %s %s %s', stage, model, status, steps_done = steps_total) from dialectic.progress($1) \
         where stage in ('thesis', 'antithesis')",
        &[&session],
    );
    let expected = [
        "thesis sim-a completed t",
        "thesis sim-b cancelled f",
        "antithesis sim-a completed t",
        "antithesis sim-b dropped f",
    ];
    assert_eq!(rows, expected);
    let told: String = one(
        &mut client,
        "select message from dialectic.notifications where type = 'stage_completed' and data ->> 'stage' = 'thesis'",
        &[],
    );
    assert_eq!(told, "1 model delivered; sim-b did not.");
    let receipt: String = one(&mut client, "select dialectic._receipt($1)", &[&session]);
    assert!(receipt.ends_with("; did not deliver: sim-b (thesis)"), "{receipt}");
}

/// Two models with four texts each; one of sim-a has been cancelled, another one is claimed, two have not begun.
fn one_child_cancelled(client: &mut Client) -> (Uuid, Uuid, Claim, Claim) {
    let project = fan_project(client, 4);
    let session = begin(client, project, &["sim-a", "sim-b"]);
    let root = plan_roots(client, 2, "waiting_for_children").remove(0);
    let mut leaves = claim(client, "hand", 2);
    assert!(leaves.iter().all(|leaf| leaf.model == "sim-a") && root.model == "sim-a");
    let (running, cancelled) = (leaves.remove(1), leaves.remove(0));
    cancel(client, cancelled.job);
    (session, root.job, cancelled, running)
}

#[test]
fn cancelled_document_ends_its_plan_and_what_has_not_begun() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, root, cancelled, running) = one_child_cancelled(&mut client);
    assert_eq!(
        (status(&mut client, root).as_str(), status(&mut client, running.job).as_str()),
        ("cancelled", "processing")
    );
    let causes: Vec<String> = column(
        &mut client,
        "select error_details ->> 'cause_job' from dialectic.jobs where status = 'cancelled' and id <> $1",
        &[&cancelled.job],
    );
    assert_eq!(causes, [(); 3].map(|()| cancelled.job.to_string()), "two siblings and the plan");
    let message: String =
        one(&mut client, "select error_details ->> 'message' from dialectic.jobs where id = $1", &[&root]);
    assert_eq!(message, "step \"leaf\" was cancelled by role:postgres");
    let others =
        "select count(*) from dialectic.jobs where model = 'sim-b' and status in ('pending', 'waiting_for_children')";
    assert_eq!(one::<i64>(&mut client, others, &[]), 5);
    assert_sound(&mut client);
}

#[test]
fn retry_brings_back_a_cancelled_document_with_its_plan() {
    for target in ["job", "root", "session"] {
        let database = Database::by_hand();
        let mut client = database.connect();
        let (session, root, cancelled, running) = one_child_cancelled(&mut client);
        // A second one is cancelled by itself, when the plan has ended.
        cancel(&mut client, running.job);
        hand_over(&mut client);
        assert_eq!(session_status(&mut client, session), "completed");
        let id = [("job", cancelled.job), ("root", root), ("session", session)]
            .into_iter()
            .find_map(|(name, id)| (name == target).then_some(id))
            .expect("a target");
        assert_eq!(
            one::<i32>(&mut client, "select dialectic.retry($1)", &[&id]),
            5,
            "{target}: four texts and the plan"
        );
        work(&mut client);
        assert_eq!(session_status(&mut client, session), "completed", "{target}");
        assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.contributions", &[]), 8, "{target}");
        assert_sound(&mut client);
    }
}

#[test]
fn cancelled_document_ends_a_paused_plan() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, leaves) = fanned(&mut client, 2);
    one::<i32>(&mut client, "select dialectic.pause($1)", &[&root]);
    assert_eq!(status(&mut client, root), "paused_user");
    cancel(&mut client, leaves[0].job);
    assert_eq!(
        (status(&mut client, root), status(&mut client, leaves[1].job)),
        ("cancelled".into(), "cancelled".into())
    );
    assert_eq!(one::<String>(&mut client, "select status from dialectic.sessions", &[]), "failed");
    assert_sound(&mut client);
}
