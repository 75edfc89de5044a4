//! A database with every kind of row that users and the engine make: what dump.rs carries away and compares.
//!
//! Rows come from the verbs wherever a verb makes them. Only what no verb of this release makes (texts of later releases,
//! a job paused for want of funds while others go on, a continuation) is written to the tables.

use dialectic_tests::*;
use postgres::Client;

/// The statuses in which the unfinished session leaves jobs: all there are.
pub(crate) const STATUSES: [&str; 14] = [
    "cancelled",
    "completed",
    "failed",
    "paused_nsf",
    "paused_user",
    "pending",
    "pending_continuation",
    "pending_next_step",
    "processing",
    "retry_loop_failed",
    "retrying",
    "superseded",
    "waiting_for_children",
    "waiting_for_prerequisite",
];

/// What users define: a row of each kind of their own, and one that hides a shipped one.
pub(crate) fn define(client: &mut Client) {
    client
        .batch_execute(
            r#"
            select dialectic.add_provider('own-gateway', 'openai', 'https://models.example/v1', secret => 'env:DIALECTIC_OWN_KEY', max_concurrency => 3,
                                          settings => '{"headers": {"x-team": "ours"}}');
            select dialectic.set_secret('openai', 'file:/run/secrets/openai');
            select dialectic.add_provider('simulator', 'simulator', requests_per_minute => 6000);
            select dialectic.add_model('own-model', 'own-gateway', input_price => 1.250, output_price => 10, cached_price => 0.125,
                                       requests_per_minute => 60, fallback => 'sim-a', settings => '{"json": "schema"}');
            select dialectic.add_model('sim-b', 'simulator', settings => '{"answer_words": 30}');
            select dialectic.add_model('sim-d', 'simulator', input_price => 3);
            select dialectic.set_prompt('own_prompt', E'First version, with a tab\t, a back\\slash and ''quotes'': {{ original_user_request }}');
            select dialectic.set_prompt('own_prompt', E'Second version\nover two lines: {{ original_user_request }}');
            select dialectic.set_prompt('essay_thesis_seed', 'A seed of our own: {{ original_user_request }}');
            select dialectic.set_document_template('business_case', E'# A layout of our own\n{{ section("Summary", doc.executive_summary) }}');
            select dialectic.set_document_template('business_case', E'# Its second version\n\t\\.');
            select dialectic.set_domain('{"domain": "general", "description": "Changed", "default_process": "essay", "stages": {}}');
            select dialectic.define_process('own_process', stages, 'Ours') from
                (select '[{"slug": "only", "seed_prompt_template": "own_prompt", "recipe": {"steps": [
                    {"step": 1, "key": "write", "name": "Write", "job_type": "execute", "prompt_template_name": "essay_thesis",
                     "inputs_required": [{"type": "seed_prompt", "relevance": 1.0}], "granularity_strategy": "all_to_one",
                     "output_type": "text", "document_key": "text", "file_type": "markdown"}]}}]'::jsonb as stages) as s,
                generate_series(1, 2);
            select dialectic.set_domain('{"domain": "own_domain", "description": "Ours", "default_process": "own_process",
                                          "stages": {"*": {"role": "You are ours."}, "only": {"style_guide": "Short."}}}');
            select dialectic.set_config('max_continuations', '7');
            select dialectic.set_config('default_models', '["sim-d"]');
            "#,
        )
        .expect("definitions");
}

/// Everything: definitions, projects, finished sessions, and one in the middle of its second stage.
pub(crate) fn fill(client: &mut Client) {
    define(client);
    finish_sessions(client);
    write_documents(client);
    add_texts(client);
    let session = open_second_stage(client);
    spread(client, session);
    wake_a_root(client);
    client
        .batch_execute(
            "select dialectic.open_wallet('jwt:elsewhere', 2000000), dialectic.top_up('jwt:elsewhere', 500, 'a key')",
        )
        .expect("a wallet");
    // What a provider that has had enough leaves behind: known to the running server only.
    client
        .batch_execute(
            "insert into dialectic.provider_cooldowns (provider, paused_reason) values ('own-gateway', 'no key'); \
             insert into dialectic.token_ratios (model, factor, samples) values ('own-large', 1.25, 21); \
             insert into dialectic.partials (job_id, claim_id, content) \
             select job_id, claim_id, 'So far' from dialectic.model_calls where outcome = 'open' limit 1",
        )
        .expect("a clock, and what an open call has said");
    // A deletion whose rows are not all removed, and the roll-up of its calls.
    client
        .batch_execute(
            "insert into dialectic.deletions (id, kind) values (dialectic._uuid_v7(), 'session'); \
             insert into dialectic.usage_history (owner, day, stage, model, calls, failed_calls, input_tokens, cached_tokens, \
                 cache_write_tokens, output_tokens, reasoning_tokens, cost, unbilled, latencies) \
             values ('role:postgres', '2026-01-31', 'thesis', 'sim-a', 3, 1, 10, 0, 0, 20, 0, 30, 0, '{\"7\": 3}'); \
             insert into dialectic.deleted_calls (job_id, claim_id, owner, stage, model, started_at, prices, is_limited, is_failed, \
                 input_tokens, output_tokens, cost, unbilled) \
             values (dialectic._uuid_v7(), 1, 'role:postgres', 'thesis', 'sim-a', now(), '{1}', false, true, 1, 2, 3, 0)",
        )
        .expect("a deletion");
    client
        .batch_execute(
            "insert into dialectic.schedule_definitions (owner, name, role, kind, schedule, prompt) \
             values ('role:postgres', 'weekly', 'postgres', 'run', '0 7 * * 1', 'What happened?')",
        )
        .expect("a schedule");
    let project: Uuid = one(client, "select id from dialectic.projects order by id limit 1", &[]);
    crate::memory_schema::write_chunk(client, project, None);
    client
        .batch_execute(
            "insert into dialectic.retrievals (job, number, query, match_count, metadata_filter) \
             select id, 1, 'Why?', 3, '{\"kind\": \"thesis\"}' from dialectic.jobs order by id limit 1",
        )
        .expect("a retrieval");
}

fn finish_sessions(client: &mut Client) {
    let finished: Uuid = one(client, "select dialectic.run('Why?', models => '{sim-a,sim-b}')", &[]);
    one::<Uuid>(client, "select dialectic.run('What?', domain => 'own_domain')", &[]);
    work(client);
    // A second iteration of a stage that is complete.
    client.query("select * from dialectic.generate($1, 'thesis')", &[&finished]).expect("generate");
    work(client);
    let runs: Vec<i32> = column(
        client,
        "select max(iteration) from dialectic.stage_runs where status = 'completed' group by stage order by 1",
        &[],
    );
    assert_eq!(runs.last(), Some(&2), "no second iteration");
}

/// A stage of documents: headers, assembled answers and what was rendered from them, one of them mended and one written anew; a model
/// that failed, and so every kind of notification that is told.
fn write_documents(client: &mut Client) {
    client
        .batch_execute(
            r#"select dialectic.add_model('lax', 'simulator', settings => '{"omit_keys": ["architecture"]}');
               select dialectic.add_model('broken', 'simulator', settings => '{"fail_always": true, "fail_class": "permanent"}');"#,
        )
        .expect("models");
    let session: Uuid = one(
        client,
        "select dialectic.run('Document it.', models => '{lax,broken}', process => 'dialectic', through => 'thesis')",
        &[],
    );
    work(client);
    one::<Uuid>(client, "select dialectic.regenerate($1, 'business_case', 'lax')", &[&session]);
    work(client);
    let made: Vec<String> = column(
        client,
        "select format('%s %s', resource_type, count(*)) from dialectic.resources where session_id = $1 and model = 'lax' group by resource_type order by 1",
        &[&session],
    );
    let known = [
        "assembled_json 5",
        "continuation_prompt 1",
        "header_context 1",
        "planner_prompt 1",
        "rendered_document 5",
        "turn_prompt 5",
    ];
    assert_eq!(made, known);
    let told: Vec<String> =
        column(client, "select type from dialectic.notifications where session_id = $1 order by id", &[&session]);
    assert_eq!(
        told,
        ["contribution_generation_failed", "contribution_generation_continued", "stage_completed", "session_completed"]
    );
}

/// Texts of every type, and reference material of every kind by its own verb.
fn add_texts(client: &mut Client) {
    client
        .batch_execute(
            "do $$
             declare
                 project uuid := dialectic.create_project('Texts', E'A prompt\n\\. with a line that ends a COPY\n\\.\n', idempotency_key => 'texts');
                 kinds   text[] := (select array_agg(m[1]) from pg_constraint,
                     regexp_matches(pg_get_constraintdef(oid), '''([a-z_]+)''', 'g') as m where conname = 'resources_resource_type_check');
                 kind    text;
             begin
                 foreach kind in array array['deployment_context', 'domain_standards', 'success_criteria', 'constraint_boundaries',
                     'stakeholder_considerations', 'reference_documents', 'compliance_requirements', 'general_resource'] loop
                     perform dialectic.add_resource(project, 'a ' || kind, 'text of ' || kind, kind);
                 end loop;
                 insert into dialectic.resources (resource_type, project_id, name, content, mime_type)
                 select k, project, null, E'\\\\N, \\t and \u{fffd} of ' || k, 'text/plain' from unnest(kinds) as k;
             end $$",
        )
        .expect("texts");
}

/// A session of four models whose first stage is complete and reviewed, and whose second stage has planned all its jobs.
fn open_second_stage(client: &mut Client) -> Uuid {
    let session: Uuid = one(
        client,
        "select dialectic.start_session(dialectic.create_project('Middle', 'How?', process => 'essay'), '{sim-a,sim-b,sim-c,sim-d}')",
        &[],
    );
    one::<i32>(client, "select dialectic.set_budget($1, 1000000000)", &[&session]);
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    work(client);
    let stage: Option<String> = one(client, "select dialectic.submit_stage($1, 'Shorter, please.')", &[&session]);
    assert_eq!(stage.as_deref(), Some("antithesis"));
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    client
        .batch_execute(
            "select dialectic.complete_job(id, claim_id) from dialectic.claim_jobs('planner', 100) order by id",
        )
        .expect("plans");
    session
}

/// Moves the sixteen critiques of the session, four a model, into as many statuses as there are.
fn spread(client: &mut Client, session: Uuid) {
    client
        .execute("create temp table critique as select id, model || row_number() over (partition by model order by id) as nick \
                  from dialectic.jobs where session_id = $1 and step_key = 'critique'", &[&session])
        .expect("nicknames");
    client
        .batch_execute(
            "create function pg_temp.job(wanted text) returns uuid language sql as 'select id from critique where nick = wanted';
             create function pg_temp.claim(wanted text, lease interval) returns bigint language sql as $$
                 update dialectic.jobs set priority = 9 where id = pg_temp.job(wanted);
                 select claim_id from dialectic.claim_jobs('outside', 1, lease) $$;
             create function pg_temp.ask(wanted text, lease interval default '5 min') returns bigint language plpgsql as $$
                 declare claim bigint := pg_temp.claim(wanted, lease);
                 begin perform dialectic.job_request(pg_temp.job(wanted)); return claim; end $$;

             -- answered, answered and replaced, failed and tried again later, paused by a person
             select dialectic.complete_job(pg_temp.job('sim-a1'), pg_temp.ask('sim-a1'), 'An answer', usage => '{\"input_tokens\": 7, \"output_tokens\": 3}');
             select dialectic.complete_job(pg_temp.job('sim-a2'), pg_temp.ask('sim-a2'), 'A replaced answer');
             select dialectic._supersede(array[pg_temp.job('sim-a2')]);
             select dialectic.fail_job(pg_temp.job('sim-a3'), pg_temp.ask('sim-a3'), 'transient', 'cut off', '1 hour');
             select dialectic.pause(pg_temp.job('sim-a4'));

             -- waiting for another; without funds
             select dialectic._wait_for(pg_temp.job('sim-b1'), array[pg_temp.job('sim-b2')]);
             update dialectic.jobs set status = 'paused_nsf', status_before = status where id = pg_temp.job('sim-b3');
             insert into dialectic.unfunded_jobs (job_id, session_id, owner, short_of, needed)
             select j.id, s.id, s.owner, 'budget', 2000000000 from dialectic.jobs j join dialectic.sessions s on s.id = j.session_id
             where j.id = pg_temp.job('sim-b3');

             -- failed for good, and after the last attempt: both fail their parents and cancel what had not begun;
             -- a call that was out then is cancelled and comes back late
             create temp table late as select pg_temp.ask('sim-c4') as claim;
             select dialectic.fail_job(pg_temp.job('sim-c1'), pg_temp.ask('sim-c1'), 'permanent', 'refused');
             select dialectic.cancel(pg_temp.job('sim-c4'));
             select dialectic.complete_job(pg_temp.job('sim-c4'), (select claim from late), 'Too late');
             update dialectic.jobs set max_retries = 0 where id = pg_temp.job('sim-d1');
             select dialectic.fail_job(pg_temp.job('sim-d1'), pg_temp.ask('sim-d1'), 'transient', 'once too often');

             -- a continuation of the answer
             insert into dialectic.jobs (session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, output_type, document_key,
                                         lineage_id, reviewer, status, continuation_count, target_contribution_id, continue_reason, after_chunk, run_at)
             select j.session_id, j.stage_run_id, j.parent_job_id, j.kind, j.step_key, j.model, j.group_key, j.output_type, j.document_key,
                    j.lineage_id, j.reviewer, 'pending_continuation', 1, (j.results ->> 'contribution_id')::uuid, 'cut', 1, j.run_at + '1 hour'
             from dialectic.jobs j where j.id = pg_temp.job('sim-a1');",
        )
        .expect("statuses");
    // A worker outside lets its lease pass during a call: the next claim, an hour later, gives the job back and closes the
    // call as lost. It takes the job at once: an open call of a job that is running.
    client
        .batch_execute(
            "select pg_temp.ask('sim-b2', '1 s');
             set dialectic.clock_offset = 600;
             select pg_temp.ask('sim-b2');
             reset dialectic.clock_offset;",
        )
        .expect("a lost call and an open one");
}

/// A session whose root is ready to plan its next steps, and one that nobody has begun to work on.
fn wake_a_root(client: &mut Client) {
    client
        .batch_execute(
            "create temp table woken as
                 select dialectic.run('Then?', models => '{sim-a}', process => 'essay', through => 'thesis') as session;
             update dialectic.jobs set priority = 10 where session_id = (select session from woken);
             select dialectic.complete_job(id, claim_id) from dialectic.claim_jobs('outside', 1);
             update dialectic.jobs set priority = 11 where session_id = (select session from woken) and parent_job_id is not null;
             create temp table last as select id, claim_id from dialectic.claim_jobs('outside', 1);
             select dialectic.job_request(id), dialectic.complete_job(id, claim_id, 'Done') from last;
             update dialectic.jobs set is_test_job = true where session_id = (select session from woken);
             select dialectic.run('Later?', models => '{sim-a}', process => 'essay');",
        )
        .expect("a woken root");
}
