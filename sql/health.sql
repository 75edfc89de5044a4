-- The state of the engine in one row, and what errors hold up. Read only.

-- What errors hold up, as the worker sees it. The message of an error may quote rows of its session: only the owner of
-- that session and admins see message, session and time. Others see the SQLSTATE and how often it was met.
create function _hold_ups()
    returns table (
        is_of_all boolean, session_id uuid, sqlstate text, message text, failures bigint, since timestamptz,
        hidden bigint)
    language sql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select h.session_id is null, case when may.see then h.session_id end, h.sqlstate,
           case when may.see then h.message end, h.failures, case when may.see then h.since end, h.hidden
    from _worker_hold_ups() as h
    cross join lateral (select _caller_is_admin() or exists (
        select from sessions s where s.id = h.session_id and s.owner = _calling_owner()) as see) as may
$$;

-- Triggers of the extension, and those of its foreign keys, that do not fire; one line each, with the statement that
-- helps.
create function _disabled_triggers() returns setof text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('trigger %I on %s is disabled: ALTER TABLE %2$s ENABLE %sTRIGGER %1$I', t.tgname,
                  format('%I.%I', 'dialectic', c.relname),
                  case t.tgname when '_forget_copies' then 'ALWAYS ' else '' end)
    from pg_trigger t
    join pg_class c on c.oid = t.tgrelid and c.relnamespace = 'dialectic'::regnamespace
    join pg_proc p on p.oid = t.tgfoid and (t.tgisinternal or p.pronamespace = c.relnamespace)
    where t.tgenabled in ('D', 'R')
    order by 1
$$;

-- How many ready jobs of stages that are running are not in the queue, so that nobody will ever claim them.
create function _unqueued_jobs() returns bigint
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select count(*)
    from (
        select root.id, root.status
        from stage_runs r join jobs root on root.stage_run_id = r.id and root.parent_job_id is null
        where r.status = 'running'
        union all
        select child.id, child.status
        from steps_under_way u join jobs child on child.parent_job_id = u.parent_job_id and child.step_key = u.step_key
        where u.unfinished > 0
    ) as j
    where j.status = any (_ready_statuses()) and not exists (select from ready_jobs q where q.job_id = j.id)
$$;

-- What keeps the queue from being worked at all.
create function _worker_problems(queue_depth bigint, claimers bigint) returns setof text
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    is_off constant boolean := not _any_claimer_works() and get_config('worker_enabled') <> 'true';
    is_alive constant boolean := coalesce(_worker_state() = 'served', false) and _schema_problem() is null;
    extension_version constant text := (select e.extversion from pg_extension e where e.extname = 'pg_dialectic');
begin
    if not _is_preloaded() then
        return next 'no worker: add pg_dialectic to shared_preload_libraries and restart the server; '
                    'until then CALL dialectic.run_pending()';
    elsif queue_depth > 0 and is_off then
        return next format('%s jobs are due and the worker is switched off: '
                           'SELECT dialectic.set_config(''worker_enabled'', ''true'')', queue_depth);
    elsif _worker_state() = 'refused' then
        return next 'no worker: the server has no process left for it; raise max_worker_processes and restart the server';
    elsif not is_alive and queue_depth > 0 and claimers = 0 then
        return next format('%s jobs are due and nobody works the queue; '
                           'the log of the server says why the worker does not start', queue_depth);
    end if;
    return query select p.problem from _schema_problem() as p(problem) where p.problem is not null;
    if _library_version() <> extension_version then
        return next format('the library is version %s, the extension %s: ALTER EXTENSION pg_dialectic UPDATE, '
                           'or restart the server', _library_version(), extension_version);
    end if;
end
$$;

-- What is wrong with jobs: their claimer died, their money is missing, or they are missing from the queue.
create function _job_problems() returns setof text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('%s %s to claimers that are gone; %s', _count_with_noun(count(*), 'job'),
                  case count(*) when 1 then 'belongs' else 'belong' end,
                  case when not _any_claimer_works() and get_config('worker_enabled') <> 'true'
                       then 'the worker is switched off: SELECT dialectic.set_config(''worker_enabled'', ''true'')'
                       else 'the next claim frees them' end)
    from claims c, unnest(c.job_ids) as taken(job_id)
    join jobs j on j.id = taken.job_id
    -- The claimers of a standby's jobs are on the primary, where their locks are.
    where not pg_is_in_recovery() and j.status = 'processing' and j.claimed_by = c.claimed_by
      and case when j.lease_until is null then _claimer_lock_id(j.claimed_by) <> all ((select _live_claimers())::text[])
               else j.lease_until < _now() end
    having count(*) > 0
    union all
    select format('%s %s worked one at a time, because a claimer died; other jobs wait meanwhile',
                  _count_with_noun(count(*), 'job'), case count(*) when 1 then 'is' else 'are' end)
    from suspect_jobs s join jobs j on j.id = s.job_id and j.status <> all (_ended_statuses())
    having count(*) > 0
    union all
    select format('%s%s %s for funds; dialectic.blocked says how much each needs', _count_with_noun(count(*), 'job'),
                  -- Only admins see who is short of money.
                  case when _caller_is_admin() then ' of ' || string_agg(distinct u.owner, ', ') else '' end,
                  case count(*) when 1 then 'waits' else 'wait' end)
    from unfunded_jobs u join jobs j on j.id = u.job_id and j.status = 'paused_nsf'
    having count(*) > 0
    union all
    select format('%s %s missing from the queue: dialectic.self_check() names each; '
                  'SELECT dialectic.cancel(id), then SELECT dialectic.retry(id)',
                  _count_with_noun(missing, 'ready job'), case missing when 1 then 'is' else 'are' end)
    from _unqueued_jobs() as missing where missing > 0
$$;

-- Providers that are paused, and what errors hold up.
create function _pause_problems() returns setof text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    (select format('%s is paused: %s; correct it with dialectic.%s(…)',
                   case c.model when '' then 'provider ' || c.provider else 'model ' || c.model end, c.paused_reason,
                   case c.model when '' then 'set_secret(…) or dialectic.add_provider' else 'add_model' end)
     from provider_cooldowns c where c.paused_reason is not null order by c.provider, c.model)
    union all
    select format('an error holds up %s%s (SQLSTATE %s, %s%s)',
                  case when h.is_of_all then 'the whole queue'
                       else coalesce('session ' || h.session_id, 'a session of another owner') end,
                  ': ' || h.message, h.sqlstate, _count_with_noun(h.failures, 'failure'), ' since ' || h.since)
    from _hold_ups() as h
    union all
    (select format('errors hold up %s more', _count_with_noun(h.hidden, 'session'))
     from _hold_ups() as h where h.hidden > 0 limit 1)
$$;

-- Who has locked a table of the extension against readers.
create function _lock_problems() returns setof text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('process %s has locked table dialectic.%I, so nothing moves: '
                  'SELECT pg_terminate_backend(%1$s) ends that process', l.pid, c.relname)
    from pg_locks l
    join pg_class c on c.oid = l.relation and c.relnamespace = 'dialectic'::regnamespace
    where l.granted and l.mode = 'AccessExclusiveLock'
      and l.database = (select d.oid from pg_database d where d.datname = current_database())
    order by c.relname
$$;

create function health(
    out worker_alive boolean, out preloaded boolean, out claimers bigint, out queue_depth bigint,
    out oldest_due_job interval, out calls_in_flight bigint, out jobs_in_flight jsonb, out turn_p99_ms double precision,
    out provider_cooldowns jsonb, out library_version text, out extension_version text, out problems text[])
    language plpgsql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
    set lock_timeout = '2s'
as $$
begin
    preloaded := _is_preloaded();
    jobs_in_flight := coalesce(_jobs_in_flight(), '{}');
    turn_p99_ms := _turn_p99_ms();
    library_version := _library_version();
    select e.extversion into extension_version from pg_extension e where e.extname = 'pg_dialectic';
    select count(*) into claimers from _claimer_locks;
    -- A worker whose library does not fit the schema waits for another schema and works nothing.
    worker_alive := coalesce(_worker_state() = 'served', false) and _schema_problem() is null;
    select count(*), _now() - min(r.run_at) into queue_depth, oldest_due_job
    from ready_jobs r
    where r.run_at <= _now() and not r.is_test and r.queue not in (select c.model from _closed_models c);
    select count(*) into calls_in_flight
    from claims c, unnest(c.job_ids) as taken(job_id)
    join model_calls o on o.job_id = taken.job_id
    where o.outcome = 'open' and o.claimed_by = c.claimed_by;
    select coalesce(jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
               'provider', c.provider, 'model', nullif(c.model, ''), 'free_at', c.free_at,
               'failures', nullif(c.failures, 0), 'paused_reason', c.paused_reason)) order by c.provider, c.model), '[]')
    into provider_cooldowns
    from dialectic.provider_cooldowns c
    where c.paused_reason is not null or c.free_at > _now();
    problems := array(select _worker_problems(queue_depth, claimers)) || array(select _job_problems())
                || array(select _disabled_triggers()) || array(select _pause_problems())
                || array(select _memory_problems());
exception when lock_not_available then
    problems := array(select _lock_problems());
end
$$;
comment on function health() is
    'The state of the engine in one row; problems has an element for each thing that is wrong, and is empty when all '
    'is well.';
