//! What a claim, a key and a status keep out: answers of claims that are lost, work done twice for one key, jobs that are not
//! ready, moves that no table lists.

use crate::by_hand::*;
use dialectic_tests::*;
use postgres::Client;

#[test]
fn a_replayed_completion_saves_once_and_charges_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .execute("select dialectic.add_model('priced', 'simulator', input_price => 2, output_price => 3)", &[])
        .expect("add_model");
    let project = fan_project(&mut client, 1);
    begin(&mut client, project, &["priced"]);
    plan_roots(&mut client, 1, "waiting_for_children");
    let leaf = claim(&mut client, "hand", 1).remove(0);
    client.query("select dialectic.job_request($1)", &[&leaf.job]).expect("job_request");
    let complete = r#"select dialectic.complete_job($1, $2, $3, 'stop', '{"input_tokens": 10, "output_tokens": 5}')"#;
    let outcomes: Vec<String> = ["once", "twice", "thrice"]
        .iter()
        .map(|text| one(&mut client, complete, &[&leaf.job, &leaf.claim, text]))
        .collect();
    assert_eq!(outcomes, ["completed", "stale", "stale"]);
    assert_eq!(fail(&mut client, &leaf, "permanent", "too late to fail"), "stale");
    assert_eq!(column::<String>(&mut client, "select content from dialectic.contributions", &[]), ["once"]);
    let calls: Vec<String> =
        column(&mut client, "select concat_ws(' ', outcome, cost, unbilled) from dialectic.model_calls", &[]);
    assert_eq!(calls, ["answered 35 0"]);
    assert_eq!(one::<i32>(&mut client, "select attempt_count from dialectic.jobs where id = $1", &[&leaf.job]), 1);
    assert_sound(&mut client);
}

#[test]
fn a_lost_claim_cannot_complete_a_job() {
    let database = Database::by_hand();
    let (mut client, mut later) = (database.connect(), database.connect());
    let (_, leaves) = fanned(&mut client, 1);
    let lost = &leaves[0];
    client.query("select dialectic.job_request($1)", &[&lost.job]).expect("job_request");
    later.batch_execute("load 'pg_dialectic'; set dialectic.clock_offset = 400").expect("a clock that runs ahead");
    let found = claim(&mut later, "successor", 10).remove(0);
    assert_eq!(found.job, lost.job);
    assert!(found.claim > lost.claim);
    let calls = "select outcome from dialectic.model_calls order by claim_id";
    assert_eq!(column::<String>(&mut client, calls, &[]), ["lost"]);
    later.query("select dialectic.job_request($1)", &[&found.job]).expect("job_request");

    assert_eq!(answer(&mut client, lost, "of the lost claim"), "stale");
    assert_eq!(fail(&mut client, lost, "permanent", "of the lost claim"), "stale");
    assert_eq!(status(&mut client, found.job), "processing");
    assert_eq!(column::<String>(&mut client, calls, &[]), ["late", "open"]);
    assert_eq!(answer(&mut later, &found, "of the successor"), "completed");
    assert_eq!(column::<String>(&mut client, calls, &[]), ["late", "answered"]);
    assert_eq!(column::<String>(&mut client, "select content from dialectic.contributions", &[]), ["of the successor"]);
    assert_eq!(one::<i32>(&mut client, "select attempt_count from dialectic.jobs where id = $1", &[&found.job]), 1);
    assert_sound(&mut client);
}

#[test]
fn a_lease_that_passes_frees_the_job_and_charges_no_attempt() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, leaves) = fanned(&mut client, 2);
    record_moves(&mut client);
    client.batch_execute("set dialectic.clock_offset = 299").expect("set");
    assert_eq!(claim(&mut client, "successor", 10).len(), 0, "the lease of five minutes is not over");
    client.batch_execute("set dialectic.clock_offset = 400").expect("set");
    assert_eq!(claim(&mut client, "successor", 1).len(), 1);
    for leaf in &leaves {
        let facts: String = one(
            &mut client,
            "select concat_ws(' ', status, attempt_count, claimed_by) from dialectic.jobs where id = $1",
            &[&leaf.job],
        );
        let expected = if leaf.job == leaves[0].job { "processing 0 successor" } else { "pending 0" };
        assert_eq!(facts, expected);
    }
    assert_eq!(moves(&mut client, leaves[1].job), ["pending"]);
    assert_sound(&mut client);
}

/// A job below this root as no verb would make it: in any status, due or not.
fn insert_job(client: &mut Client, root: Uuid, name: &str, status: &str, due: bool) -> Uuid {
    one(
        client,
        "insert into dialectic.jobs (session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, status, status_before, \
                                     run_at, completed_at, claim_id, claimed_by, lease_until) \
         select root.session_id, root.stage_run_id, root.id, 'execute', 'leaf', 'sim-a', $2, s.status, \
                case when s.phase in ('running', 'paused') then 'pending' end, \
                dialectic._now() + case when $4 then interval '0' else interval '1 hour' end, \
                case when s.phase = 'ended' then dialectic._now() end, \
                case when s.phase = 'running' then nextval('dialectic.claim_ids') end, \
                case when s.phase = 'running' then 'somebody' end, \
                case when s.phase = 'running' then dialectic._now() + interval '1 hour' end \
         from dialectic.jobs root, dialectic.job_statuses s where root.id = $1 and s.status = $3 returning id",
        &[&root, &name, &status, &due],
    )
}

fn statuses(client: &mut Client) -> Vec<String> {
    let all: Vec<String> = column(client, "select status from dialectic.job_statuses order by status", &[]);
    assert_eq!(all.len(), 14);
    all
}

#[test]
fn claiming_takes_the_ready_jobs_that_are_due_and_nothing_else() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, _) = fanned(&mut client, 1);
    for status in statuses(&mut client) {
        for (due, when) in [(true, "now"), (false, "in an hour")] {
            insert_job(&mut client, root, &format!("{status} {when}"), &status, due);
        }
    }
    let taken: Vec<String> = column(
        &mut client,
        "select group_key || ' from ' || status_before from dialectic.claim_jobs('hand', 100) order by status_before",
        &[],
    );
    let expected = ["pending", "pending_continuation", "pending_next_step", "retrying"]
        .map(|status| format!("{status} now from {status}"));
    assert_eq!(taken, expected);
    assert_eq!(claim(&mut client, "hand", 100).len(), 0);
}

#[test]
fn every_move_in_the_table_is_accepted_and_every_other_refused_with_both_states_named() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (root, _) = fanned(&mut client, 1);
    let statuses = statuses(&mut client);
    let legal: Vec<String> =
        column(&mut client, "select from_status || '>' || to_status from dialectic.job_transitions", &[]);
    assert_eq!(legal.len(), 77);
    let (mut accepted, mut refusals) = (0, 0);
    client.batch_execute("begin").expect("begin");
    for from in &statuses {
        for to in statuses.iter().filter(|to| *to != from) {
            client.batch_execute("savepoint before").expect("savepoint");
            let job = insert_job(&mut client, root, "moved", from, true);
            let update = "update dialectic.jobs j set status = s.status, completed_at = case s.phase when 'ended' then dialectic._now() end \
                          from dialectic.job_statuses s where j.id = $1 and s.status = $2";
            if legal.contains(&format!("{from}>{to}")) {
                client.execute(update, &[&job, to]).unwrap_or_else(|error| panic!("{from} > {to}: {error:?}"));
                assert_eq!(status(&mut client, job), *to);
                accepted += 1;
            } else {
                let error =
                    refused_with(&mut client, update, &[&job, to], "55000", &format!("from \"{from}\" to \"{to}\""));
                assert!(error.message().contains(&job.to_string()), "{error:?}");
                refusals += 1;
            }
            client.batch_execute("rollback to before").expect("rollback");
        }
    }
    assert_eq!((accepted, refusals), (77, 14 * 13 - 77));
}

#[test]
fn one_illegal_move_refuses_the_whole_statement() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, leaves) = fanned(&mut client, 3);
    answer(&mut client, &leaves[0], "done");
    refused_with(
        &mut client,
        "update dialectic.jobs set status = 'failed', completed_at = now() where parent_job_id is not null",
        &[],
        "55000",
        "from \"completed\" to \"failed\"",
    );
    assert_eq!(status(&mut client, leaves[1].job), "processing");
}

#[test]
fn a_test_job_is_worked_by_run_pending_alone() {
    let database = Database::new();
    let mut client = database.connect();
    let project = fan_project(&mut client, 2);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
    client.query("select * from dialectic.generate($1, test => true)", &[&session]).expect("generate");
    assert_eq!(claim(&mut client, "hand", 10).len(), 0, "the root");
    client.batch_execute("call dialectic.run_pending(1)").expect("run_pending");
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.jobs where is_test_job and status = 'pending'", &[]),
        2
    );
    assert_eq!(claim(&mut client, "hand", 10).len(), 0, "its children");
    work(&mut client);
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.jobs where is_test_job and status = 'completed'", &[]),
        3
    );
}

#[test]
fn the_same_key_gives_the_same_project_and_another_key_another() {
    let database = Database::new();
    let mut client = database.connect();
    let create = "select dialectic.create_project('Law', $2, process => 'essay', idempotency_key => $1)";
    let first: Uuid = one(&mut client, create, &[&"k", &"One?"]);
    assert_eq!(one::<Uuid>(&mut client, create, &[&"k", &"Two?"]), first);
    assert_ne!(one::<Uuid>(&mut client, create, &[&"other", &"Two?"]), first);
    assert_ne!(
        one::<Uuid>(&mut client, create, &[&None::<&str>, &"Two?"]),
        one::<Uuid>(&mut client, create, &[&None::<&str>, &"Two?"])
    );
    let prompts: Vec<String> =
        column(&mut client, "select content from dialectic.resources where project_id = $1", &[&first]);
    assert_eq!(prompts, ["One?"]);
}

const GENERATE: &str = "select job_id from dialectic.generate($1, idempotency_key => $2)";

#[test]
fn the_same_key_generates_a_stage_once_even_after_it_is_done() {
    let database = Database::new();
    let mut client = database.connect();
    let project = fan_project(&mut client, 1);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a,sim-b}')", &[&project]);
    let roots: Vec<Uuid> = column(&mut client, GENERATE, &[&session, &"k"]);
    assert_eq!(roots.len(), 2);
    assert_eq!(column::<Uuid>(&mut client, GENERATE, &[&session, &"k"]), roots);
    work(&mut client);
    assert_eq!(column::<Uuid>(&mut client, GENERATE, &[&session, &"k"]), roots);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.stage_runs", &[]), 1);
    assert_ne!(column::<Uuid>(&mut client, GENERATE, &[&session, &"next"]), roots);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.stage_runs", &[]), 2);
}

#[test]
fn the_key_of_a_generate_that_took_up_a_failed_stage_is_remembered_too() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = fan_project(&mut client, 1);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
    let roots: Vec<Uuid> = column(&mut client, GENERATE, &[&session, &"first"]);
    plan_roots(&mut client, 1, "waiting_for_children");
    let leaf = claim(&mut client, "hand", 1).remove(0);
    fail(&mut client, &leaf, "permanent", "no");
    assert_eq!(column::<Uuid>(&mut client, GENERATE, &[&session, &"second"]), roots);
    assert_eq!(column::<Uuid>(&mut client, GENERATE, &[&session, &"second"]), roots);
    hand_over(&mut client);
    for key in ["first", "second"] {
        assert_eq!(column::<Uuid>(&mut client, GENERATE, &[&session, &key]), roots, "{key}");
    }
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.stage_runs", &[]), 1);
}

#[test]
fn any_verb_may_be_the_first_statement_of_a_connection() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    let job: Uuid = one(&mut client, "select id from dialectic.jobs", &[]);
    client.batch_execute("drop role if exists first_statement; create role first_statement login; select dialectic.grant_user('first_statement')").expect("a user");
    for verb in [
        format!("select dialectic.pause('{session}')"),
        format!("select dialectic.resume('{job}')"),
        format!("select dialectic.cancel('{session}')"),
        format!("select dialectic.retry('{session}')"),
        "select dialectic.create_project('Law', 'First?')".to_owned(),
        "select id from dialectic.sessions".to_owned(),
        "select dialectic.claim_jobs('hand', 1)".to_owned(),
    ] {
        database.connect().query(&verb, &[]).unwrap_or_else(|error| panic!("{verb}\n{error:?}"));
    }
    let seen: i64 = one(&mut database.connect_as("first_statement"), "select count(*) from dialectic.sessions", &[]);
    assert_eq!(seen, 0, "another owner's session");
}

/// Of two sessions with so many jobs each in one queue, that which comes first and the other.
fn two_in_a_queue(client: &mut Client, jobs: i32) -> (Uuid, Uuid) {
    let project = fan_project(client, jobs);
    let sessions = (begin(client, project, &["sim-a"]), begin(client, project, &["sim-a"]));
    plan_roots(client, 2, "waiting_for_children");
    sessions
}

/// The sessions of what is claimed of their queue, which has room for two, by somebody who has this one in hand.
fn claimed_of_two(client: &mut Client, in_hand: &[Uuid]) -> Vec<Uuid> {
    column(
        client,
        "select session_id from dialectic._claim( \
             ('hand', '5 min', false, 0, $1::uuid[], array(select distinct queue from dialectic.ready_jobs), '{2}', '{}', \
              '{}')::dialectic._claim_terms, 10, gen_random_uuid())",
        &[&in_hand],
    )
}

#[test]
fn a_session_that_somebody_holds_keeps_nobody_else_out_of_a_narrow_lane() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (first, other) = two_in_a_queue(&mut client, 3);
    assert_eq!(claimed_of_two(&mut client, &[first]), [other, other]);
    assert_sound(&mut client);
}

#[test]
fn jobs_that_somebody_has_locked_keep_nobody_else_out_of_a_narrow_lane() {
    let database = Database::by_hand();
    let (mut client, mut holder) = (database.connect(), database.connect());
    let (first, other) = two_in_a_queue(&mut client, 9);
    holder.batch_execute(&format!("begin; select dialectic.pause('{first}')")).expect("pause");
    assert_eq!(claimed_of_two(&mut client, &[]), [other, other]);
    holder.batch_execute("rollback").expect("rollback");
    assert_eq!(claimed_of_two(&mut client, &[]), [first, first]);
    assert_sound(&mut client);
}
