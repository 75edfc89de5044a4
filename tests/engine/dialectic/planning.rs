//! What the planner makes of a recipe: ten thousand jobs in one transaction, and an input without a relevance counts in
//! full.

use super::*;
use crate::by_hand::{begin, claim, fan_project};

const FEW: i32 = 1_000;
const MANY: i32 = 10_000;
/// How much longer ten times as many jobs may take; in proportion it is ten times, with the square a hundred.
const AT_MOST: f64 = 40.0;

#[test]
fn ten_thousand_jobs_of_one_step_are_planned_in_one_transaction() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let mut planned = |texts: i32| {
        // Nothing else is due when the plan is claimed.
        client.execute("select dialectic.pause(id) from dialectic.sessions", &[]).expect("pause");
        let project = fan_project(&mut client, 0);
        client
            .execute(
                "insert into dialectic.resources (resource_type, project_id, name, content) \
                 select 'general_resource', $1, 'text ' || n, 'Text ' || n from generate_series(1, $2) as n",
                &[&project, &texts],
            )
            .expect("reference texts");
        let session = begin(&mut client, project, &["sim-a"]);
        let root = claim(&mut client, "hand", 1).remove(0);
        let took: f64 = one(
            &mut client,
            "select extract(epoch from clock_timestamp() - statement_timestamp())::float8 \
             from dialectic.complete_job($1, $2) as planned where planned = 'waiting_for_children'",
            &[&root.job, &root.claim],
        );
        (session, root, took)
    };
    let (_, _, brief) = planned(FEW);
    let (session, root, took) = planned(MANY);
    println!("planning took {brief:.3} s for {FEW} jobs, {took:.3} s for {MANY}");
    assert!(took < AT_MOST * brief, "{took} s after {brief} s");

    let children = "select concat_ws(' ', count(*), count(distinct xmin::text), min(xmin::text)) from dialectic.jobs \
                    where session_id = $1 and parent_job_id is not null and status = 'pending'";
    let inputs = "select concat_ws(' ', count(distinct artifact), count(distinct xmin::text), min(xmin::text)) \
                  from dialectic.job_inputs where job in (select id from dialectic.jobs where session_id = $1)";
    let transaction: String = one(&mut client, "select xmin::text from dialectic.jobs where id = $1", &[&root.job]);
    for query in [children, inputs] {
        let all: String = one(&mut client, query, &[&session]);
        assert_eq!(all, format!("{MANY} 1 {transaction}"), "the transaction that has the plan wait");
    }
}

#[test]
fn an_input_that_names_no_relevance_counts_in_full_and_one_without_a_type_is_refused() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = fan_project(&mut client, 2);
    begin(&mut client, project, &["sim-a"]);
    client.batch_execute("call dialectic.run_pending(1)").expect("run_pending");
    let weights: Vec<f64> = column(&mut client, "select relevance from dialectic.job_inputs", &[]);
    assert_eq!(weights, [1.0, 1.0]);

    let untyped = "select dialectic.define_process('fan', jsonb_set(dialectic._stored_stages('fan'), \
                   '{0,recipe,steps,0,inputs_required,0}', '{\"relevance\": 0.5}'))";
    let error = refused_with(&mut client, untyped, &[], "22023", "leaf");
    assert!(error.message().contains("type"), "{error:?}");
}

#[test]
fn every_input_of_the_shipped_process_is_weighed_as_the_standard_process_says() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = run(&mut client, &["sim-a", "sim-b"]);
    hand_over(&mut client);
    let weighed = |client: &mut Client, step: &str| -> Vec<String> {
        column(
            client,
            "select distinct concat_ws(' ', coalesce(r.output_type, r.resource_type), i.relevance) from dialectic.job_inputs i \
             join dialectic.jobs j on j.id = i.job join dialectic.resources r on r.id = i.artifact \
             where j.session_id = $1 and j.step_key = $2 order by 1",
            &[&session, &step],
        )
    };
    for (step, expected) in [
        ("business_case", ["header_context 1", "seed_prompt 0.7"].as_slice()),
        (
            "risk_register",
            &[
                "business_case 0.65",
                "feature_spec 0.75",
                "header_context 1",
                "success_metrics 0.9",
                "technical_approach 0.8",
            ],
        ),
        (
            "pairwise_feature_spec",
            &[
                "comparison_vector 0.85",
                "feature_spec 1",
                "header_context 1",
                "non_functional_requirements 0.9",
                "technical_feasibility_assessment 0.95",
            ],
        ),
        ("document_feature_spec", &["pairwise_feature_spec 1"]),
        (
            "advisor_recommendations",
            &["header_context 0.7", "initial_user_prompt 1", "product_requirements 0.95", "updated_master_plan 0.95"],
        ),
    ] {
        assert_eq!(weighed(&mut client, step), expected, "{step}");
    }
    let unweighed =
        "select count(*) from dialectic.job_inputs where relevance is null or relevance not between 0.01 and 1";
    assert_eq!(one::<i64>(&mut client, unweighed, &[]), 0);
}
