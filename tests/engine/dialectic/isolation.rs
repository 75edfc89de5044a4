//! `antithesis_task_isolation_enabled = false`: each model reviews all proposals in one call per document.

use super::*;

#[test]
fn without_isolation_each_model_reviews_all_proposals_at_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute("select dialectic.set_config('antithesis_task_isolation_enabled', 'false')")
        .expect("a setting");
    let session = run(&mut client, &["sim-a", "sim-b", "sim-c"]);
    let planned: Vec<String> = column(
        &mut client,
        "select distinct format('%s %s', granularity_strategy, calls) from dialectic.explain($1, 'antithesis')",
        &[&session],
    );
    assert_eq!(planned, ["all_to_one 3"]);
    work(&mut client);
    let status = "select status from dialectic.sessions where id = $1";
    assert_eq!(one::<String>(&mut client, status, &[&session]), "completed");
    // One outline and six documents of each model, over the four documents of each of three proposals.
    let calls: Vec<String> = column(
        &mut client,
        "select format('%s %s %s', j.model, count(*), bool_and((
                    select count(distinct c.model) = 3 and count(*) = 12 from dialectic.job_inputs i
                    join dialectic.resources r on r.id = i.artifact and r.resource_type = 'rendered_document'
                    join dialectic.contributions c on c.id = r.source_contribution_id where i.job = j.id)))
         from dialectic.jobs j join dialectic.stage_runs run on run.id = j.stage_run_id
         where run.session_id = $1 and run.stage = 'antithesis' and j.kind = 'execute' group by j.model order by 1",
        &[&session],
    );
    assert_eq!(calls, ["sim-a 7 t", "sim-b 7 t", "sim-c 7 t"]);
    assert_sound(&mut client);
}

#[test]
fn prompt_of_a_review_names_the_authors_when_there_are_several() {
    for (is_isolated, expected) in [("true", 0), ("false", 14)] {
        let database = Database::by_hand();
        let mut client = database.connect();
        client
            .batch_execute(&format!(
                "select dialectic.set_config('antithesis_task_isolation_enabled', '{is_isolated}')"
            ))
            .expect("a setting");
        run_through(&mut client, &["sim-a", "sim-b"], "antithesis");
        work(&mut client);
        let prompts = "select count(*) from dialectic.resources where content like '%2 proposals, by sim-a, sim-b%'";
        assert_eq!(one::<i64>(&mut client, prompts, &[]), expected, "isolated: {is_isolated}");
    }
}
