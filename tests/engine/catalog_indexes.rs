//! The partial indexes of the queue: the planner takes them for the questions they are made for, and finished work costs
//! nothing, however much of it there is.

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
    client.batch_execute("analyze dialectic.jobs").expect("analyze");
}

#[test]
fn the_queue_is_read_through_its_partial_indexes() {
    let database = Database::by_hand();
    let mut client = database.connect();
    crowded(&mut client);
    let queries = [
        // The candidates of a claim.
        (
            "jobs_queued",
            "select id from dialectic.jobs c where c.lane = 'sim-a' and c.is_test_job = false and c.priority = 0 and c.turn >= 0 \
             and c.status = any (dialectic._queued_statuses()) and c.run_at <= now() order by c.turn limit 10",
        ),
        (
            "jobs_unfinished",
            "select from dialectic.jobs j where j.stage_run_id = (select max(id::text)::uuid from dialectic.stage_runs) \
             and j.parent_job_id = md5('7')::uuid and j.status <> all (dialectic._ended_statuses())",
        ),
        (
            "jobs_unfinished",
            "select from dialectic.jobs j where j.stage_run_id = (select max(id::text)::uuid from dialectic.stage_runs) \
             and j.step_key = 'write7' and j.status <> all (dialectic._ended_statuses())",
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
