//! A stage that is generated again: the new iteration reads what its model planned in the one before and what was said of it,
//! and the old documents stay as they were.

use super::calls::{first_iteration, second_planning};
use super::reading::{assert_read, made};
use super::*;
use crate::by_hand::session_status;

/// Every document of the first iteration, whole.
fn first_documents(client: &mut Client) -> Vec<String> {
    column(
        client,
        "select md5(d::text) from (select id, stage, model, lineage, document_key, path, content, version, complete, stale, tokens, cost, created_at \
         from dialectic.documents where iteration = 1) as d order by 1",
        &[],
    )
}

#[test]
fn planning_anew_reads_what_was_planned_before_and_keeps_it() {
    let database = Database::new();
    let mut client = database.connect();
    let models = ["m-a", "m-b"];
    marked_models(&mut client, &models);
    let session = run(&mut client, &models);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    let before = first_documents(&mut client);
    assert_eq!(before.len(), 46);

    client.query("select * from dialectic.generate($1, stage => 'parenthesis')", &[&session]).expect("generate");
    let iteration = "select iteration from dialectic.sessions where id = $1";
    assert_eq!(one::<i32>(&mut client, iteration, &[&session]), 2);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    let runs: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', iteration, stage, status) from dialectic.stage_runs where session_id = $1 order by iteration, position",
        &[&session],
    );
    let expected = STAGES.map(|stage| format!("1 {stage} completed")).into_iter();
    let again = STAGES[3..].iter().map(|stage| format!("2 {stage} completed"));
    assert_eq!(runs, expected.chain(again).collect::<Vec<_>>());

    let made = made(&mut client, session);
    let (first, second) = (first_iteration(&models), second_planning(&models));
    assert_eq!((first.len(), second.len()), (104, 16));
    assert_eq!(made.len(), first.len() + second.len());
    assert_read(&made, &first);
    assert_read(&made, &second);

    assert_eq!(first_documents(&mut client), before, "what there was is as it was");
    let anew = "select count(*) from dialectic.documents where iteration = 2";
    assert_eq!(one::<i64>(&mut client, anew, &[]), 12);
    assert_sound(&mut client);
}

/// The steps of an iteration of the planning whose prompt holds this text.
fn holding(client: &mut Client, iteration: i32, text: &str) -> Vec<String> {
    column(
        client,
        "select step_key from dialectic.resources where resource_type in ('planner_prompt', 'turn_prompt') \
         and stage = 'parenthesis' and iteration = $1 and position($2 in content) > 0 order by step_key",
        &[&iteration, &text],
    )
}

#[test]
fn planning_anew_reads_what_was_said_of_the_plan_before_and_of_what_it_rests_on() {
    let database = Database::new();
    let mut client = database.connect();
    let session = start(&mut client, &["sim-a"]);
    generate(&mut client, session);
    work(&mut client);
    for stage in &STAGES[..4] {
        let said = format!("Said of the {stage}.");
        client.query("select dialectic.submit_stage($1, $2)", &[&session, &said]).expect("submit_stage");
        generate(&mut client, session);
        work(&mut client);
    }
    assert_eq!(holding(&mut client, 1, "Said of the synthesis."), ["planning_header"]);
    assert_eq!(holding(&mut client, 1, "Said of the parenthesis."), [""; 0], "it was not said yet");

    client.query("select * from dialectic.generate($1, stage => 'parenthesis')", &[&session]).expect("generate");
    work(&mut client);
    assert_eq!(holding(&mut client, 2, "Said of the synthesis."), ["planning_header"]);
    let all = ["master_plan", "milestone_schema", "planning_header", "technical_requirements"];
    assert_eq!(holding(&mut client, 2, "Said of the parenthesis."), all);
    for stage in ["thesis", "antithesis"] {
        assert_eq!(holding(&mut client, 2, &format!("Said of the {stage}.")), [""; 0]);
    }
    assert_sound(&mut client);
}
