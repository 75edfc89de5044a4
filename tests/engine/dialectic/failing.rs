//! What a failure does to a dialectic: a model that drops out leaves the others to finish, a document that fails takes its own
//! model's stage with it and nothing else, and retry brings all of it back.

use super::*;
use crate::by_hand::{answer, claim, fail, plan_roots, session_status};
use serde_json::json;

fn strings(client: &mut Client, query: &str, session: Uuid) -> Vec<String> {
    column(client, query, &[&session])
}

#[test]
fn model_that_fails_in_the_review_is_dropped_and_its_owner_is_told_once() {
    let database = Database::new();
    let mut client = database.connect();
    model(&mut client, "ill", &json!({}));
    let session = start(&mut client, &["sim-a", "ill", "sim-c"]);
    generate(&mut client, session);
    work(&mut client);
    model(&mut client, "ill", &json!({"fail_always": true, "fail_class": "permanent"}));
    for _ in 1..STAGES.len() {
        next_stage(&mut client, session);
    }
    assert_eq!(session_status(&mut client, session), "completed");
    let runs = "select status from dialectic.stage_runs where session_id = $1";
    assert_eq!(strings(&mut client, runs, session), ["completed"; 5]);

    // Two reviewers of three proposals, two who refine three proposals by two reviews each.
    let answered = "select concat_ws(' ', run.stage, j.model, count(*)) from dialectic.model_calls c \
                    join dialectic.jobs j on j.id = c.job_id join dialectic.stage_runs run on run.id = j.stage_run_id \
                    where c.session_id = $1 and c.outcome = 'answered' group by run.position, run.stage, j.model \
                    order by run.position, j.model";
    let mut expected = vec!["thesis ill 5".to_owned()];
    for (stage, calls) in
        [("thesis", 5), ("antithesis", 3 * 7), ("synthesis", 4 * 3 * 2 + 9), ("parenthesis", 4), ("paralysis", 4)]
    {
        expected.extend(["sim-a", "sim-c"].map(|name| format!("{stage} {name} {calls}")));
    }
    assert_eq!(strings(&mut client, answered, session), expected);

    let told = client
        .query(
            "select data ->> 'stage', data ->> 'model', data ->> 'class', n.message, j.model, j.kind, j.status \
             from dialectic.notifications n join dialectic.jobs j on j.id = n.job_id \
             where n.session_id = $1 and n.type = 'contribution_generation_failed' order by n.id",
            &[&session],
        )
        .expect("notifications");
    assert_eq!(told.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), ["antithesis"]);
    for row in &told {
        assert_eq!([1, 2, 4, 5, 6].map(|n| row.get::<_, String>(n)), ["ill", "permanent", "ill", "plan", "failed"]);
        let message: String = row.get(3);
        assert!(message.contains("simulated permanent failure") && message.contains("ill"), "{message}");
    }
    let ends = "select type || coalesce(' ' || (data ->> 'stage') || ' ' || (data ->> 'models'), '') from dialectic.notifications \
                where session_id = $1 and type in ('stage_completed', 'session_completed') order by id";
    let expected = ["thesis 3", "antithesis 2", "synthesis 2", "parenthesis 2", "paralysis 2"];
    let expected = expected.map(|stage| format!("stage_completed {stage}")).into_iter();
    let told = strings(&mut client, ends, session);
    assert_eq!(told, expected.chain(["session_completed".to_owned()]).collect::<Vec<_>>());
    assert_sound(&mut client);
}

/// How many jobs of a model are in each status.
fn census(client: &mut Client, model: &str) -> Vec<String> {
    column(
        client,
        "select format('%s %s %s', count(*), kind, status) from dialectic.jobs where model = $1 group by kind, status order by kind, status",
        &[&model],
    )
}

#[test]
fn a_document_that_fails_takes_its_own_model_with_it_and_retry_brings_back_all_of_it() {
    for after_the_end in [false, true] {
        let database = Database::by_hand();
        let mut client = database.connect();
        let session = start(&mut client, &["sim-a", "sim-b"]);
        generate(&mut client, session);
        plan_roots(&mut client, 2, "waiting_for_children");
        // A form with its hints in it is an answer of that form.
        let header = content_keys(&mut client, "thesis", "thesis_header").to_string();
        for claimed in claim(&mut client, "hand", 2) {
            assert_eq!(answer(&mut client, &claimed, &header), "completed");
        }
        plan_roots(&mut client, 2, "waiting_for_children");
        assert_eq!(
            census(&mut client, "sim-a"),
            ["1 execute completed", "4 execute pending", "1 plan waiting_for_children"]
        );
        let document = claim(&mut client, "hand", 1).remove(0);
        assert_eq!(fail(&mut client, &document, "permanent", "no ink"), "failed");
        let (failed, other) = if document.model == "sim-a" { ("sim-a", "sim-b") } else { ("sim-b", "sim-a") };
        assert_eq!(
            census(&mut client, failed),
            ["3 execute cancelled", "1 execute completed", "1 execute failed", "1 plan failed"]
        );
        assert_eq!(
            census(&mut client, other),
            ["1 execute completed", "4 execute pending", "1 plan waiting_for_children"]
        );
        let causes = "select distinct error_details ->> 'cause_job' from dialectic.jobs \
                      where session_id = $1 and status in ('failed', 'cancelled') and error_details ? 'cause_job'";
        assert_eq!(strings(&mut client, causes, session), [document.job.to_string()]);

        if after_the_end {
            hand_over(&mut client);
            assert_eq!(census(&mut client, other), ["5 execute completed", "1 plan completed", "4 render completed"]);
            let run = "select status from dialectic.stage_runs where session_id = $1";
            assert_eq!(strings(&mut client, run, session), ["completed"], "with the other model alone");
        }
        assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&session]), 5, "4 documents and the plan");
        hand_over(&mut client);
        for model in [failed, other] {
            let all = ["5 execute completed", "1 plan completed", "4 render completed"];
            assert_eq!(census(&mut client, model), all);
        }
        let written = "select count(*) from dialectic.contributions where session_id = $1";
        assert_eq!(one::<i64>(&mut client, written, &[&session]), 10, "nothing that was there is written again");
        assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.documents", &[]), 8);

        // What came back late is read like the rest: each of two reviews both proposals.
        next_stage(&mut client, session);
        let reviewed = "select count(distinct (model, lineage_id)) from dialectic.contributions \
                        where session_id = $1 and stage = 'antithesis'";
        assert_eq!(one::<i64>(&mut client, reviewed, &[&session]), 4);
        assert_sound(&mut client);
    }
}
