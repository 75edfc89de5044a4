//! The indexes of the queue: the planner takes them for the questions they are made for, finished work costs nothing, however much
//! of it there is, and moving a job writes none of them.

use dialectic_tests::*;
use postgres::Client;

/// An old session with five thousand finished jobs, and a new one with three thousand that are ready, below a hundred parents.
fn crowded(client: &mut Client) {
    for ready in [false, true] {
        let session = generated(client, &["sim-a"]);
        client
            .execute(
                "insert into dialectic.jobs (session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, status, completed_at) \
                 select session_id, stage_run_id, md5(session_id || (n % 100)::text)::uuid, 'execute', 'write' || n % 50, model, n::text, \
                        case when $2 then 'pending' else 'completed' end, case when not $2 then now() end \
                 from dialectic.jobs, generate_series(1, case when $2 then 3000 else 5000 end) as n where session_id = $1",
                &[&session, &ready],
            )
            .expect("jobs");
        if !ready {
            let ended: i32 = one(client, "select dialectic.cancel($1)", &[&session]);
            assert_eq!(ended, 1, "the root");
        }
    }
    client.batch_execute("analyze dialectic.jobs, dialectic.ready_jobs").expect("analyze");
}

#[test]
fn the_queue_is_read_through_its_indexes() {
    let database = Database::by_hand();
    let mut client = database.connect();
    crowded(&mut client);
    let queries = [
        // The candidates of a claim.
        (
            "ready_jobs_line",
            "select job_id from dialectic.ready_jobs r where r.queue = 'sim-a' and not r.is_test and r.priority = 0 \
             and not r.is_delayed and r.queue_position >= 0 and r.run_at <= now() order by r.queue_position limit 10",
        ),
        (
            "ready_jobs_delayed",
            "select job_id from dialectic.ready_jobs r where r.is_delayed and r.run_at <= now() order by r.run_at limit 10",
        ),
        (
            "jobs_planned_once",
            "select from dialectic.jobs j where j.parent_job_id = md5('7')::uuid and j.step_key = 'write7'",
        ),
    ];
    for (index, query) in queries {
        let plan: Vec<String> = column(&mut client, &format!("explain (costs off) {query}"), &[]);
        assert!(plan.iter().any(|line| line.split(' ').any(|word| word == index)), "{query}\n{plan:#?}");
    }
}

#[test]
fn a_claim_reads_no_job_that_has_ended() {
    let database = Database::by_hand();
    let mut client = database.connect();
    crowded(&mut client);
    // What a connection has read is counted until it is flushed, so one that has read nothing yet.
    let mut client = database.connect();
    let mut transaction = client.transaction().expect("begin");
    let claimed: i64 =
        transaction.query_one("select count(*) from dialectic.claim_jobs('w', 5)", &[]).expect("claim").get(0);
    assert_eq!(claimed, 5);
    let read: i64 = transaction
        .query_one(
            "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relid = 'dialectic.jobs'::regclass",
            &[],
        )
        .expect("statistics")
        .get(0);
    assert!(read < 500, "{read} rows were read to claim five of three thousand");
}

#[test]
fn no_index_of_jobs_and_calls_mentions_what_changes_while_a_job_runs() {
    let database = Database::by_hand();
    let moving = [
        "status",
        "status_before",
        "attempt_count",
        "run_at",
        "queue_position",
        "claim_id",
        "claimed_by",
        "lease_until",
        "started_at",
        "completed_at",
        "planned_steps",
        "output_budget",
        "combine_depth",
        "results",
        "error_details",
        "error_class",
        "cause_job_id",
        "outcome",
        "finished_at",
        "cost",
    ];
    let definitions: Vec<String> = column(
        &mut database.connect(),
        "select pg_get_indexdef(indexrelid) from pg_index \
         where indrelid in ('dialectic.jobs'::regclass, 'dialectic.model_calls'::regclass) and not indisprimary",
        &[],
    );
    assert!(definitions.len() >= 4, "{definitions:#?}");
    for definition in definitions {
        let columns = &definition[definition.find('(').expect("columns")..];
        let words: Vec<&str> = columns.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        // A claim is drawn once and stays with its call for ever.
        let found = moving
            .iter()
            .find(|column| words.contains(column) && !(**column == "claim_id" && definition.contains("model_calls")));
        assert!(found.is_none(), "{found:?}: {definition}");
    }
}
