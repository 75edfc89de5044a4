-- A user's first five minutes: one call that does it all, then the same step by step with a person in the loop.
--
-- Only columns that are the same on every run are shown; ids stay in variables.
\pset null '(null)'

-- One prompt in; nothing has run yet.
select dialectic.run('Plan an offline-first notes app for field engineers.', process => 'essay') as session \gset
select stage, model, status, bar, steps_done, steps_total, jobs_total from dialectic.progress(:'session');
select kind, model, status, cause from dialectic.blocked where session_id = :'session' order by job_id;

-- The queue is worked in this connection: no worker is preloaded here.
call dialectic.run_pending();
-- What it took is told in a line, with a time that is another on every run.
set client_min_messages = warning;
call dialectic.wait(:'session');
reset client_min_messages;
select stage, iteration, model, status, bar, steps_done, steps_total, jobs_done, jobs_total, ready, running, waiting, paused, failed,
       elapsed is not null as has_elapsed, time_left, input_tokens > 0 as read, output_tokens > 0 as wrote, cost
from dialectic.progress(:'session');
select job, status, document_key, model, attempts, error from dialectic.job_tree(:'session');
select stage, model, document_key, version, stale, complete,
       regexp_replace(path, 'session_[0-9a-f]{8}/', 'session_X/') as path, tokens > 0 as used_tokens, cost
from dialectic.documents
where session_id = :'session'
order by stage, path;
select count(*) as documents, count(distinct path) as paths, bool_and(content <> '') as all_have_text
from dialectic.documents where session_id = :'session';
select process, models, current_stage, iteration, auto_advance, status, owner from dialectic.sessions where id = :'session';
select count(*) as blocked from dialectic.blocked;

-- Step by step, two models.
select dialectic.create_project('Notes', 'Plan an offline-first notes app …', process => 'essay', idempotency_key => 'notes') as project \gset
select dialectic.create_project('Notes', 'Asked again', idempotency_key => 'notes') = :'project' as same_project;
select dialectic.add_resource(:'project', 'Guide', 'Works without a network.', 'domain_standards') is not null as added;
select resource_type, name, content from dialectic.resources where project_id = :'project' order by id;
select dialectic.start_session(:'project', models => '{sim-a,sim-b}', description => 'By hand') as session \gset
select status, current_stage, auto_advance, description from dialectic.sessions where id = :'session';
select stage, iteration, status from dialectic.stage_runs where session_id = :'session';
select content like '%offline-first notes app%' as seed_has_the_request
from dialectic.resources where session_id = :'session' and resource_type = 'seed_prompt';
select model, job_id is not null as has_job from dialectic.generate(:'session');
call dialectic.run_pending(max_jobs => 2);
select model, status from dialectic.progress(:'session') where stage = 'thesis';
call dialectic.run_pending();
select stage, status from dialectic.stage_runs where session_id = :'session';
select dialectic.submit_stage(:'session', feedback => 'Too little about pricing.') as next_stage;
select stage, content from dialectic.resources where session_id = :'session' and resource_type = 'user_feedback';
select model from dialectic.generate(:'session');
select dialectic.pause(:'session') as paused;
select model, status from dialectic.progress(:'session') where stage = 'antithesis';
call dialectic.run_pending();
select dialectic.resume(:'session') as resumed;
call dialectic.run_pending();
select dialectic.submit_stage(:'session') as next_stage;
select model from dialectic.generate(:'session', models => '{sim-b}');
call dialectic.run_pending();
select status, completed_at is not null as has_end from dialectic.sessions where id = :'session';
select dialectic.submit_stage(:'session') as next_stage;

-- A stage that is complete is generated anew as the next iteration, and the old one stays.
select model from dialectic.generate(:'session', stage => 'thesis');
call dialectic.run_pending();
select iteration, stage, count(*) as documents from dialectic.documents where session_id = :'session' group by 1, 2 order by 1, 2;

-- Every call is on record, and no law is broken.
select outcome, count(*) = count(distinct (job_id, claim_id)) as one_row_each, sum(cost) as cost from dialectic.model_calls group by 1;
select * from dialectic.self_check();
select worker_alive, preloaded, claimers, queue_depth, calls_in_flight, provider_cooldowns, library_version = extension_version as same_version, problems
from dialectic.health();
