//! self_check names the law that is broken, and no other. Each law is broken by force, past triggers and foreign keys, in a
//! transaction that is rolled back.

use dialectic_tests::*;
use std::collections::BTreeSet;

/// A law, a statement that breaks it and returns the object at fault, and a word of the problem.
///
/// The ground is an essay that completed (one model) and a stage that was just generated (its root is pending).
const LAWS: [(&str, &str, &str); 41] = [
    (
        "a definition has the content that it is named after",
        "with changed as (update dialectic.definitions set domain = 'changed' where process = 'essay' returning id) \
         select s.id from dialectic.sessions s join changed on changed.id = s.definition_id order by s.id limit 1",
        "was changed",
    ),
    (
        "every trigger of the extension is enabled",
        "update pg_trigger set tgenabled = 'D' where tgname = '_enqueue_jobs' returning null::uuid",
        "ALTER TABLE dialectic.jobs ENABLE TRIGGER _enqueue_jobs",
    ),
    (
        "a parent exists in the session of its child",
        "update dialectic.jobs set parent_job_id = '00000000-0000-0000-0000-000000000001' where step_key = 'final' returning id",
        "parent 00000000-0000-0000-0000-000000000001 does not",
    ),
    (
        "a job is of the session of its stage run",
        "with line as (update dialectic.ready_jobs set session_id = '00000000-0000-0000-0000-000000000005') \
         update dialectic.jobs set session_id = '00000000-0000-0000-0000-000000000005' where status = 'pending' returning id",
        "session 00000000-0000-0000-0000-000000000005",
    ),
    (
        "an answer is of the session of its job",
        "update dialectic.contributions set session_id = '00000000-0000-0000-0000-000000000006' where step_key = 'final' returning id",
        "session 00000000-0000-0000-0000-000000000006",
    ),
    (
        "a call is of the session of its job",
        "with gone as (delete from dialectic.budgets) \
         update dialectic.model_calls c set session_id = '00000000-0000-0000-0000-000000000007' \
         from dialectic.jobs j where j.id = c.job_id and j.step_key = 'final' returning c.id",
        "session 00000000-0000-0000-0000-000000000007",
    ),
    (
        "a text is of a session of its project",
        "update dialectic.resources set session_id = '00000000-0000-0000-0000-000000000008' \
         where id = (select id from dialectic.resources where resource_type = 'seed_prompt' limit 1) returning id",
        "session 00000000-0000-0000-0000-000000000008",
    ),
    (
        "a chunk is of a session of its project",
        "insert into dialectic.memory (project_id, session_id, source_id, chunk_no, content, tokens, content_hash, \
             text_config, lexemes) \
         select '00000000-0000-0000-0000-00000000000b', id, id, 1, 'Stray', 1, '', 'simple', '' \
         from dialectic.sessions limit 1 returning id",
        "project 00000000-0000-0000-0000-00000000000b",
    ),
    (
        "a text is of a project",
        "insert into dialectic.resources (resource_type, project_id, content) \
         values ('general_resource', '00000000-0000-0000-0000-00000000000a', 'Stray') returning id",
        "project 00000000-0000-0000-0000-00000000000a does not exist",
    ),
    (
        "an input is of a job",
        "insert into dialectic.job_inputs (job, position, artifact, role, relevance) \
         select '00000000-0000-0000-0000-000000000009', 1, artifact, role, relevance from dialectic.job_inputs limit 1 returning job",
        "the job does not exist",
    ),
    (
        "a continued answer exists in the session of its job",
        "update dialectic.jobs set target_contribution_id = '00000000-0000-0000-0000-000000000002' where step_key = 'final' returning id",
        "contribution 00000000-0000-0000-0000-000000000002 does not",
    ),
    (
        "the source of a text exists in its session",
        "update dialectic.resources set source_contribution_id = '00000000-0000-0000-0000-000000000003' \
         where id = (select id from dialectic.resources where resource_type = 'seed_prompt' limit 1) returning id",
        "contribution 00000000-0000-0000-0000-000000000003 does not",
    ),
    (
        "an input exists",
        "update dialectic.job_inputs i set artifact = '00000000-0000-0000-0000-000000000004' \
         from dialectic.jobs j where j.id = i.job and j.step_key = 'thesis' returning i.job",
        "artifact 00000000-0000-0000-0000-000000000004 does not",
    ),
    (
        "a running job is claimed, and no other is",
        "update dialectic.jobs set claim_id = 7, claimed_by = 'somebody' where step_key = 'final' returning id",
        "completed with claim 7 by somebody",
    ),
    (
        "a running job is claimed, and no other is",
        "with gone as (delete from dialectic.ready_jobs) \
         update dialectic.jobs set status = 'processing' where status = 'pending' returning id",
        "processing with claim none by nobody",
    ),
    (
        "a running job is in a claim of its claimer",
        "with gone as (delete from dialectic.ready_jobs) \
         update dialectic.jobs set status = 'processing', claim_id = 7, claimed_by = 'somebody' where status = 'pending' returning id",
        "somebody holds it",
    ),
    (
        "every ready job is in line, once, at its place, and no other is",
        "delete from dialectic.ready_jobs returning job_id",
        "pending, in line nowhere",
    ),
    (
        "every ready job is in line, once, at its place, and no other is",
        "insert into dialectic.ready_jobs select id, queue, is_test_job, priority, 4711, run_at, false, session_id \
         from dialectic.jobs where step_key = 'final' returning job_id",
        "gone, in line at queue_position 4711",
    ),
    (
        "who is in line has a queue",
        "with gone as (delete from dialectic.queues) select job_id from dialectic.ready_jobs",
        "does not exist",
    ),
    (
        "the unfinished and failed jobs of a step are counted",
        "insert into dialectic.steps_under_way select stage_run_id, parent_job_id, step_key, 1, 0 \
         from dialectic.jobs where step_key = 'final' returning parent_job_id",
        "step final: 0 unfinished and 0 failed, counted 1 and 0",
    ),
    (
        "nobody waits for what has ended",
        "with gone as (delete from dialectic.ready_jobs) \
         update dialectic.jobs set status = 'waiting_for_prerequisite' where status = 'pending' returning id",
        "all its prerequisites are complete",
    ),
    (
        "a parent waits only while somebody works",
        "with gone as (delete from dialectic.ready_jobs) \
         update dialectic.jobs set status = 'waiting_for_children' where status = 'pending' returning id",
        "no job of its stage run can move",
    ),
    (
        "a child that failed or was cancelled ends its parent",
        "with gone as (delete from dialectic.contributions where step_key = 'final'), \
              counted as (insert into dialectic.steps_under_way select stage_run_id, parent_job_id, step_key, 0, 1 \
                          from dialectic.jobs where step_key = 'final') \
         update dialectic.jobs set status = 'retry_loop_failed' where step_key = 'final' returning parent_job_id",
        "is retry_loop_failed, the parent is completed",
    ),
    (
        "a completed job has its answer, exactly once",
        "delete from dialectic.contributions where step_key = 'final' returning job_id",
        "it has 0",
    ),
    (
        "a completed job has its answer, exactly once",
        "insert into dialectic.contributions (session_id, job_id, root_id, chunk_no, stage, iteration, step_key, output_type, model, finish_reason, content) \
         select session_id, job_id, root_id, 2, stage, iteration, step_key, output_type, model, 'stop', 'again' \
         from dialectic.contributions where step_key = 'final' returning job_id",
        "it has 2",
    ),
    (
        "the chunks of an answer are there, each once",
        "update dialectic.contributions set chunk_no = 3 where step_key = 'final' returning root_id",
        "1 chunks, the last is chunk 3",
    ),
    (
        "an answer in chunks is followed or whole",
        "update dialectic.contributions set is_part = true where step_key = 'final' returning id",
        "nobody goes on with it after chunk 1",
    ),
    (
        "an answer belongs to a job that completed",
        "with plan as (update dialectic.jobs p set status = 'cancelled' from dialectic.jobs c \
                       where c.parent_job_id = p.id and c.step_key = 'final') \
         update dialectic.jobs j set status = 'cancelled' from dialectic.contributions c \
         where c.job_id = j.id and j.step_key = 'final' returning c.id",
        "is cancelled",
    ),
    (
        "an open call belongs to a running job",
        "with budget as (delete from dialectic.budgets), ledger as (delete from dialectic.ledger), wallet as (delete from dialectic.wallets), \
              call as (update dialectic.model_calls c set payer = null, outcome = case j.step_key when 'final' then 'open' else c.outcome end, \
                              finished_at = case when j.step_key <> 'final' then c.finished_at end, started_at = now() - interval '2 hours' \
                       from dialectic.jobs j where j.id = c.job_id returning c.id, j.step_key) \
         select id from call where step_key = 'final'",
        "is completed",
    ),
    (
        "a stage run ends when its roots have ended",
        "update dialectic.stage_runs set status = 'running' where stage = 'synthesis' returning id",
        "it is running",
    ),
    (
        "the balance of a wallet is the sum of its ledger",
        "update dialectic.wallets set balance = balance + 1 returning null::uuid",
        "role:postgres has",
    ),
    (
        "a ledger without a wallet comes to nothing",
        "insert into dialectic.ledger (owner, kind, amount) values ('role:nobody', 'opening', 7) returning null::uuid",
        "that of role:nobody comes to $0.000007",
    ),
    (
        "a wallet holds what its open calls hold",
        "update dialectic.wallets set held = 7 returning null::uuid",
        "role:postgres holds $0.000007, its calls $0.000000",
    ),
    (
        "a call is settled when it is closed, and not before",
        "with held as (update dialectic.budgets b set held = c.held from dialectic.model_calls c join dialectic.jobs j on j.id = c.job_id \
                       where j.step_key = 'final' and b.session_id = c.session_id) \
         update dialectic.model_calls c set outcome = 'open', finished_at = null \
         from dialectic.jobs j where j.id = c.job_id and j.step_key = 'final' returning c.id",
        "it is open and settled",
    ),
    (
        "a call is paid for by whoever holds money for it",
        "update dialectic.model_calls c set payer = null from dialectic.jobs j where j.id = c.job_id and j.step_key = 'final' returning c.id",
        "it is nobody, and role:postgres does",
    ),
    (
        "what was charged and what is unbilled is what a call cost",
        "with spent as (update dialectic.budgets set spent = spent + 1) \
         update dialectic.model_calls c set cost = cost + 1 from dialectic.jobs j where j.id = c.job_id and j.step_key = 'final' returning c.id",
        "and $0.000000 of",
    ),
    (
        "a budget counts what its calls hold and have cost",
        "update dialectic.budgets set held = 3 returning session_id",
        "$0.000003 and",
    ),
    (
        "a job whose call can be paid does not wait for funds",
        "with gone as (delete from dialectic.ready_jobs), \
              paused as (update dialectic.jobs set status = 'paused_nsf' where status = 'pending' returning id, session_id) \
         insert into dialectic.unfunded_jobs (job_id, session_id, owner, short_of, needed) \
         select id, session_id, 'role:postgres', 'wallet', 5 from paused returning job_id",
        "$0.000005 are needed, and there",
    ),
    (
        "a job without funds is listed with what it needs",
        "with gone as (delete from dialectic.ready_jobs) \
         update dialectic.jobs set status = 'paused_nsf' where status = 'pending' returning id",
        "it is not",
    ),
    (
        "a call costs no more than was held for it",
        "with spent as (update dialectic.budgets set spent = spent + 5) \
         update dialectic.model_calls c set cost = cost + 5, unbilled = 5 \
         from dialectic.jobs j where j.id = c.job_id and j.step_key = 'final' returning c.id",
        "$0.000005 of",
    ),
    (
        "the provider of a model exists",
        "insert into dialectic.models (name, provider, api_model, context_window, max_output_tokens, tokenizer, input_price, output_price) \
         values ('stray', 'nowhere', 'stray', 1000, 100, 'simulator', 0, 0) returning null::uuid",
        "model stray names provider nowhere",
    ),
];

fn broken(client: &mut postgres::Client) -> Vec<(String, Option<Uuid>, String)> {
    let rows = client.query("select law, object, problem from dialectic.self_check()", &[]).expect("self_check");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[test]
fn a_broken_law_is_named_with_its_object_and_no_other_is() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            "select dialectic.add_model('sim-a', 'simulator', input_price => 1, output_price => 4),
                    dialectic.open_wallet('role:postgres', 1000000000);
             select dialectic.run('Why laws?', models => '{sim-a}', process => 'essay', budget => 1000000000)",
        )
        .expect("run");
    work(&mut client);
    generated(&mut client, &["sim-a"]);
    assert_sound(&mut client);

    for (law, breach, word) in LAWS {
        client.batch_execute("begin; set local session_replication_role = replica").expect("by force");
        let object: Option<Uuid> = one(&mut client, breach, &[]);
        let found = broken(&mut client);
        client.batch_execute("rollback").expect("rollback");
        assert_eq!(found.len(), 1, "{law}: {found:#?}");
        assert_eq!((found[0].0.as_str(), found[0].1), (law, object));
        assert!(found[0].2.contains(word), "{law}: {}", found[0].2);
    }
    assert_sound(&mut client);
}

#[test]
fn every_law_that_self_check_knows_is_broken_here() {
    let database = Database::new();
    let known: Vec<String> = column(
        &mut database.connect(),
        "select (regexp_matches(pg_get_function_sqlbody(oid), 'SELECT ''([^'']+)''::text', 'g'))[1] from pg_proc \
         where pronamespace = 'dialectic'::regnamespace and proname like '\\_broken\\_%'",
        &[],
    );
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    assert_eq!(known, LAWS.iter().map(|(law, ..)| *law).collect());
}

#[test]
fn a_sound_engine_breaks_no_law_at_any_step() {
    let database = Database::new();
    let mut client = database.connect();
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why laws?', models => '{sim-a,sim-b}', process => 'essay')", &[]);
    let unfinished = "select count(*) from dialectic.jobs where session_id = $1 and completed_at is null";
    // Where the library is preloaded the worker takes the steps, and is looked at while it does.
    eventually("the essay has ended", || {
        if !preloaded() {
            client.batch_execute("call dialectic.run_pending(1)").expect("run_pending");
        }
        assert_sound(&mut client);
        one::<i64>(&mut client, unfinished, &[&session]) == 0
    });
    assert_eq!(
        one::<String>(&mut client, "select status from dialectic.sessions where id = $1", &[&session]),
        "completed"
    );
}

#[test]
fn a_session_that_is_paused_cancelled_or_failed_breaks_no_law() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for end in ["pause", "cancel"] {
        let session = generated(&mut client, &["sim-a", "sim-b"]);
        assert_eq!(one::<i32>(&mut client, &format!("select dialectic.{end}($1)"), &[&session]), 2);
        assert_sound(&mut client);
    }
    client
        .execute("select dialectic.add_model('bad', 'simulator', settings => '{\"fail_always\": true, \"fail_class\": \"permanent\"}')", &[])
        .expect("add_model");
    let session = generated(&mut client, &["bad", "sim-a"]);
    hand_over(&mut client);
    let roots: Vec<String> = column(
        &mut client,
        "select status from dialectic.jobs where session_id = $1 and parent_job_id is null order by model",
        &[&session],
    );
    assert_eq!(roots, ["failed", "completed"]);
    assert_sound(&mut client);
}
