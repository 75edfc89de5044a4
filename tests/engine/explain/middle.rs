//! Explaining what has begun: in the middle of a run, after it, and when a model is gone.

use super::*;

fn of_stage(client: &mut Client, session: Uuid, stage: &str, which: &str) -> (i64, i64) {
    let query = format!("select {which}input_tokens, {which}output_tokens from dialectic.explain_total($1, $2)");
    let row = client.query_one(&query, &[&session, &stage]).expect("explain_total");
    (row.get(0), row.get(1))
}

#[test]
fn a_stage_reads_what_the_stages_before_it_have_made_and_what_was_said_of_them() {
    let database = Database::new();
    let mut client = database.connect();
    models(&mut client);
    let project: Uuid = one(&mut client, "select dialectic.create_project('Tools', $1, process => 'essay')", &[&SHORT]);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{wordy,plain}')", &[&project]);
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    work(&mut client);
    let foreseen = of_stage(&mut client, session, "thesis", "");
    let before = of_stage(&mut client, session, "antithesis", "");
    // Theses of a length that nobody could foresee.
    client
        .execute(
            "update dialectic.contributions set content = content || repeat(' And so on.', 700) where session_id = $1",
            &[&session],
        )
        .expect("longer theses");
    assert_eq!(of_stage(&mut client, session, "thesis", ""), foreseen, "what was foreseen of it stays");
    let known = of_stage(&mut client, session, "antithesis", "");
    assert!(known.0 > before.0 + 4 * 2_000, "{known:?} after {before:?}");
    client.query("select dialectic.submit_stage($1, feedback => $2)", &[&session, &long(3)]).expect("submit_stage");
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    let expected = of_stage(&mut client, session, "antithesis", "");
    work(&mut client);
    let actual = of_stage(&mut client, session, "antithesis", "actual_");
    assert!((expected.0 - actual.0).abs() * 100 <= actual.0 * 2, "{expected:?} of {actual:?}");
    let calls: i64 = one(&mut client, "select sum(calls)::bigint from dialectic.explain($1)", &[&session]);
    assert_eq!(calls, 2 + 4 + 8 + 4 + 2);
}

#[test]
fn a_model_that_is_gone_is_still_explained_and_costs_nothing_that_is_known() {
    let database = Database::by_hand();
    let mut client = database.connect();
    models(&mut client);
    let session = start(&mut client, "essay", &["plain", "wordy"], SHORT, &[]);
    let costs = "select array[cost, worst_cost, input_tokens, output_tokens, calls] from dialectic.explain_total($1)";
    let numbers = |client: &mut Client| -> Vec<f64> {
        one::<Vec<f64>>(client, &format!("select (t.a)::double precision[] from ({costs}) as t(a)"), &[&session])
    };
    let with = numbers(&mut client);
    client.execute("delete from dialectic.models where name = 'wordy'", &[]).expect("a model less");
    let without = numbers(&mut client);
    assert!(without[0] < with[0] && without[1] < with[1] && without[0] > 0.0, "{without:?} of {with:?}");
    assert!(without[2] > 0.0 && without[3] > 0.0);
    assert_eq!(without[4], with[4], "its calls are still planned");
    client.execute("delete from dialectic.models where name = 'plain'", &[]).expect("no model");
    assert_eq!(numbers(&mut client)[..2], [0.0, 0.0]);
}

#[test]
fn a_further_iteration_reads_what_the_one_before_it_made() {
    let database = Database::new();
    let mut client = database.connect();
    models(&mut client);
    let session = start(&mut client, "dialectic", &["wordy"], SHORT, &[]);
    run(&mut client, session);
    let once = of_stage(&mut client, session, "parenthesis", "");
    client.query("select * from dialectic.generate($1, stage => 'parenthesis')", &[&session]).expect("generate");
    let expected = of_stage(&mut client, session, "parenthesis", "");
    assert!(expected.0 > once.0 * 11 / 10, "{expected:?} after {once:?}");
    work(&mut client);
    let actual = of_stage(&mut client, session, "parenthesis", "actual_");
    assert_near("planning once more", expected, actual, 5.0);
    let inputs = "select sum(inputs)::bigint = (select count(*) from dialectic.job_inputs i join dialectic.jobs j on j.id = i.job \
                         join dialectic.stage_runs r on r.id = j.stage_run_id and r.iteration = 2 where r.stage = 'parenthesis') \
                  from dialectic.explain($1, 'parenthesis')";
    assert!(one::<bool>(&mut client, inputs, &[&session]));
}
