//! Going forward and back between stages: what a new iteration keeps, how a run goes on past its last stage, and what
//! becomes of a stage that was opened and left.

use crate::by_hand::session_status;
use dialectic_tests::*;
use postgres::Client;

const MODELS: [&str; 2] = ["sim-a", "sim-b"];

fn generate(client: &mut Client, session: Uuid, arguments: &str) {
    client.query(&format!("select * from dialectic.generate($1{arguments})"), &[&session]).expect("generate");
    work(client);
}

fn submit(client: &mut Client, session: Uuid) -> Option<String> {
    one(client, "select dialectic.submit_stage($1)", &[&session])
}

/// A session whose first stage is complete.
fn first_stage(client: &mut Client) -> Uuid {
    let session = generated(client, &MODELS);
    work(client);
    session
}

/// For each critique of an iteration: its writer, and model and iteration of the thesis that it read.
fn critiques(client: &mut Client, iteration: i32) -> Vec<String> {
    column(
        client,
        "select format('%s of %s %s', c.model, t.model, t.iteration) from dialectic.contributions c \
         join dialectic.job_inputs i on i.job = c.job_id \
         join dialectic.contributions t on t.id = i.artifact and t.stage = 'thesis' \
         where c.stage = 'antithesis' and c.iteration = $1 order by 1",
        &[&iteration],
    )
}

#[test]
fn iteration_of_one_model_keeps_the_contributions_of_the_others() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = first_stage(&mut client);
    generate(&mut client, session, ", models => '{sim-a}'");
    assert_eq!(submit(&mut client, session).as_deref(), Some("antithesis"));
    let calls = "select sum(calls)::bigint from dialectic.explain($1, 'antithesis')";
    assert_eq!(one::<i64>(&mut client, calls, &[&session]), 4, "the forecast counts the contributions that are kept");
    generate(&mut client, session, "");
    let expected = ["sim-a of sim-a 2", "sim-a of sim-b 1", "sim-b of sim-a 2", "sim-b of sim-b 1"];
    assert_eq!(critiques(&mut client, 2), expected);
    assert_sound(&mut client);
}

#[test]
fn iteration_of_one_model_is_kept_by_all_later_stages() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why?', models => '{sim-a,sim-b}', process => 'essay')", &[]);
    work(&mut client);
    generate(&mut client, session, ", stage => 'thesis', models => '{sim-a}'");
    assert_eq!(session_status(&mut client, session), "completed");
    assert_eq!(critiques(&mut client, 2).len(), 4);
    let pairs = "select count(*) from dialectic.contributions where step_key = 'pairwise' and iteration = $1";
    assert_eq!(one::<i64>(&mut client, pairs, &[&2]), one::<i64>(&mut client, pairs, &[&1]));
    assert_sound(&mut client);
}

#[test]
fn iteration_of_one_model_keeps_the_documents_of_the_others() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let run = "select dialectic.run('Why?', models => '{sim-a,sim-b}', through => 'antithesis')";
    let session: Uuid = one(&mut client, run, &[]);
    work(&mut client);
    generate(&mut client, session, ", stage => 'thesis', models => '{sim-a}'");
    assert_eq!(session_status(&mut client, session), "completed");
    let reviewed: Vec<String> = column(
        &mut client,
        "select distinct format('%s of %s %s', d.model, t.model, t.iteration) from dialectic.documents d \
         join dialectic.documents t on t.lineage = d.lineage and t.stage = 'thesis' \
         where d.stage = 'antithesis' and d.iteration = 2 order by 1",
        &[],
    );
    assert_eq!(reviewed, ["sim-a of sim-a 2", "sim-a of sim-b 1", "sim-b of sim-a 2", "sim-b of sim-b 1"]);
    assert_sound(&mut client);
}

#[test]
fn review_of_a_replaced_thesis_is_not_read() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = first_stage(&mut client);
    submit(&mut client, session);
    generate(&mut client, session, "");
    generate(&mut client, session, ", stage => 'thesis', models => '{sim-a}'");
    submit(&mut client, session);
    generate(&mut client, session, ", models => '{sim-a}'");
    assert_eq!(submit(&mut client, session).as_deref(), Some("synthesis"));
    generate(&mut client, session, "");
    assert_eq!(session_status(&mut client, session), "completed");
    let read: Vec<String> = column(
        &mut client,
        "select distinct format('%s %s of %s %s', r.model, r.iteration, t.model, t.iteration) \
         from dialectic.contributions c join dialectic.job_inputs i on i.job = c.job_id \
         join dialectic.contributions r on r.id = i.artifact and r.stage = 'antithesis' \
         join dialectic.contributions t on t.lineage_id = r.lineage_id and t.stage = 'thesis' \
         where c.stage = 'synthesis' and c.iteration = 2 order by 1",
        &[],
    );
    assert_eq!(read, ["sim-a 2 of sim-a 2", "sim-a 2 of sim-b 1", "sim-b 1 of sim-b 1"]);
    assert_sound(&mut client);
}

#[test]
fn submit_stage_goes_on_past_the_last_stage_of_a_run() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let run = "select dialectic.run('Why?', models => '{sim-a}', process => 'essay', through => 'thesis')";
    let session: Uuid = one(&mut client, run, &[]);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    for (stage, next) in [("antithesis", Some("synthesis")), ("synthesis", None)] {
        assert_eq!(submit(&mut client, session).as_deref(), Some(stage));
        assert_eq!(session_status(&mut client, session), "active");
        generate(&mut client, session, "");
        // It is not asked to go on by itself.
        let opened = "select count(*) from dialectic.stage_runs where session_id = $1 and stage = $2";
        assert_eq!(one::<i64>(&mut client, opened, &[&session, &next]), 0);
        assert_eq!(session_status(&mut client, session), "completed");
    }
    assert_eq!(submit(&mut client, session), None);
    let told = "select count(*) from dialectic.notifications where type = 'session_completed'";
    assert_eq!(one::<i64>(&mut client, told, &[]), 3);
    assert_sound(&mut client);
}

#[test]
fn stage_that_was_opened_and_left_is_abandoned() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = first_stage(&mut client);
    assert_eq!(submit(&mut client, session).as_deref(), Some("antithesis"));
    generate(&mut client, session, ", stage => 'thesis'");
    let shown = "select distinct concat_ws(' ', iteration, stage, status) from dialectic.progress($1) \
                 where iteration is not null order by 1";
    assert_eq!(
        column::<String>(&mut client, shown, &[&session]),
        ["1 antithesis abandoned", "1 thesis completed", "2 thesis completed"]
    );
    assert_eq!(submit(&mut client, session).as_deref(), Some("antithesis"));
    generate(&mut client, session, "");
    let ended = "select status from dialectic.stage_runs where stage = 'antithesis' order by iteration";
    assert_eq!(column::<String>(&mut client, ended, &[]), ["abandoned", "completed"]);
    assert_sound(&mut client);
}
