-- What people are told when something is refused: message, DETAIL, HINT and SQLSTATE, one of every kind.
\set VERBOSITY default
\set SHOW_CONTEXT never

-- Arguments
select dialectic.run('   ');
\echo :LAST_ERROR_SQLSTATE
select dialectic.run('Why?', models => '{sim-a,gpt-99}');
\echo :LAST_ERROR_SQLSTATE
select dialectic.run('Why?', models => '{sim-a,sim-a}');
\echo :LAST_ERROR_SQLSTATE
select dialectic.run('Why?', process => 'epic');
\echo :LAST_ERROR_SQLSTATE
select dialectic.run('Why?', domain => 'alchemy');
\echo :LAST_ERROR_SQLSTATE
select dialectic.run('Why?', process => 'essay', through => 'coda');
\echo :LAST_ERROR_SQLSTATE
select dialectic.create_project(null, 'Why?');
\echo :LAST_ERROR_SQLSTATE
select dialectic.set_config('max_continuations', '"many"');
\echo :LAST_ERROR_SQLSTATE
select dialectic.set_config('context_safety', '1.5');
\echo :LAST_ERROR_SQLSTATE
select dialectic.get_config('colour');
\echo :LAST_ERROR_SQLSTATE
select dialectic.claim_jobs('worker', 0);
\echo :LAST_ERROR_SQLSTATE
select dialectic.grant_user('nobody_of_that_name');
\echo :LAST_ERROR_SQLSTATE

-- Definitions
select dialectic.add_provider('far', 'telepathy');
\echo :LAST_ERROR_SQLSTATE
select dialectic.add_provider('far', 'openai', 'ftp://far');
\echo :LAST_ERROR_SQLSTATE
select dialectic.add_provider('far', 'openai', settings => '{"mood": "bad"}');
\echo :LAST_ERROR_SQLSTATE
select dialectic.add_model('m', 'openai', settings => '{"mood": "bad"}');
\echo :LAST_ERROR_SQLSTATE
select dialectic.set_secret('openai', 'a-key-that-is-no-reference');
\echo :LAST_ERROR_SQLSTATE
select dialectic.set_secret('openai', 'file:/etc/shadow');
\echo :LAST_ERROR_SQLSTATE
select dialectic.add_model('m', 'nowhere');
\echo :LAST_ERROR_SQLSTATE
select dialectic.add_model('m', 'simulator', context_window => 100, max_output_tokens => 100);
\echo :LAST_ERROR_SQLSTATE
select dialectic.add_model('m', 'simulator', settings => '{"mood": "bad"}');
\echo :LAST_ERROR_SQLSTATE
select dialectic.set_prompt('broken', 'Dear {{ name');
\echo :LAST_ERROR_SQLSTATE
select dialectic.render_prompt('shared_request', '{}');
\echo :LAST_ERROR_SQLSTATE
select dialectic.render_prompt('no_such_prompt', '{}');
\echo :LAST_ERROR_SQLSTATE
select dialectic.validate_recipe('{"steps": [{"step": 1, "key": "write", "name": "Write", "job_type": "execute",
    "prompt_template_name": "no_such_prompt", "inputs_required": [{"type": "seed_prompt", "relevance": 1.0}],
    "granularity_strategy": "by_the_dozen", "output_type": "text", "document_key": "text", "file_type": "markdown"}]}');
\echo :LAST_ERROR_SQLSTATE
select dialectic.define_process('Not a name', '[]');
\echo :LAST_ERROR_SQLSTATE
select dialectic.define_process('empty', '[]');
\echo :LAST_ERROR_SQLSTATE

-- Ids that are nobody's
select dialectic.cancel('01890000-0000-7000-8000-000000000001');
\echo :LAST_ERROR_SQLSTATE
select * from dialectic.progress('01890000-0000-7000-8000-000000000001');
\echo :LAST_ERROR_SQLSTATE
select dialectic.complete_job('01890000-0000-7000-8000-000000000001', 1);
\echo :LAST_ERROR_SQLSTATE

-- The wrong moment
select dialectic.start_session(dialectic.create_project('Errors', 'Why?', process => 'essay'), '{sim-a}', 'errors') as session \gset
select dialectic.submit_stage(:'session');
\echo :LAST_ERROR_SQLSTATE
select * from dialectic.generate(:'session', stage => 'synthesis');
\echo :LAST_ERROR_SQLSTATE
select * from dialectic.generate(:'session', models => '{sim-b}');
\echo :LAST_ERROR_SQLSTATE
select * from dialectic.generate(:'session', max_retries => 1000);
\echo :LAST_ERROR_SQLSTATE
begin isolation level repeatable read;
select dialectic.cancel(:'session');
\echo :LAST_ERROR_SQLSTATE
rollback;
begin;
call dialectic.run_pending();
\echo :LAST_ERROR_SQLSTATE
rollback;
call dialectic.run_pending(max_jobs => 0);
\echo :LAST_ERROR_SQLSTATE
select job_id as job from dialectic.generate(dialectic.start_session(dialectic.create_project('Moods', 'Why?', process => 'essay'), '{sim-a}')) \gset
select dialectic.fail_job(:'job', 1, 'sulking', 'no mood');
\echo :LAST_ERROR_SQLSTATE
select dialectic.cancel(:'job') as ended;

-- A job cannot be moved by hand to where it may not go. Its id differs on every run, so it is taken out of the message.
select job_id as root from dialectic.generate(:'session') \gset
create function told(statement text, id text) returns table (state text, message text, hint text) language plpgsql as $$
begin
    execute statement;
exception when others then
    get stacked diagnostics state = returned_sqlstate, message = message_text, hint = pg_exception_hint;
    message := replace(message, id, 'ID');
    hint := replace(hint, id, 'ID');
    return next;
end
$$;
select * from told(format('update dialectic.jobs set status = %L, completed_at = now() where id = %L', 'completed', :'root'), :'root');
select * from told(format('select dialectic.retry(%L)', :'root'), :'root');
select * from told(format('select dialectic.job_request(%L)', :'root'), :'root');
select * from told(format('select * from dialectic.generate(%L)', :'session'), :'session');
select dialectic.complete_job(:'root', 0) as late;
select dialectic.cancel(:'session') as ended;
drop function told;
