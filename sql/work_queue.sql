-- Working the queue in this connection, and waiting for others to work it. Both commit between steps, so neither may have
-- SECURITY DEFINER or SET; every name and operator is therefore qualified.

-- Makes this backend a claimer: its name, held as a lock for as long as it is one.
create function _open_claimer(kind text) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    claimer text := format('%s:%s:%s', kind, pg_backend_pid(), _uuid_v7());
begin
    perform pg_advisory_lock(k.space, k.key) from _claimer_key(claimer) as k;
    perform _hold_claimer(k.space, k.key) from _claimer_key(claimer) as k;
    return claimer;
end
$$;

-- One turn of a claimer: claims up to "room" jobs and returns how many.
create function _take(claimer text, room integer) returns integer
    language sql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select count(*)::integer
    from _claim(claimer, room, null, claimer not like 'worker:%')
    where claimer not like 'worker:%' or get_config('worker_enabled') = 'true'
$$;

-- What this claimer has claimed and not yet planned or asked: a session that somebody else holds makes its jobs wait, and
-- no others.
create function _unmade(claimer text) returns setof jobs
    language sql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select j.* from jobs j
    where j.status = 'processing' and j.claimed_by = claimer
      and not exists (select from model_calls c where c.job_id = j.id and c.claim_id = j.claim_id)
$$;

-- What was claimed is planned, or made into requests; what cannot be asked is failed. The requests are returned, not sent: they
-- may leave only when this transaction, which says that they do, has committed.
create function _make(claimer text) returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    free     uuid[] := array(
        select s.id from sessions s
        where s.id in (select j.session_id from _unmade(claimer) as j)
        order by s.id
        for no key update skip locked);
    requests jsonb;
    refused  jsonb;
begin
    perform _finish_plan(j.id, j.claim_id) from _unmade(claimer) as j where j.kind = 'plan' and j.session_id = any (free) order by j.id;
    select jsonb_agg(m.request) filter (where m.request is not null),
           jsonb_agg(jsonb_build_object('job_id', m.job_id, 'claim_id', m.claim_id, 'class', 'permanent', 'message', m.problem))
               filter (where m.request is null)
    into requests, refused
    from _make_requests(array(select j.id from _unmade(claimer) as j where j.kind <> 'plan' and j.session_id = any (free))) as m;
    if refused is not null then
        perform _keep(refused);
    end if;
    return coalesce(requests, '[]');
end
$$;

-- Keeps what came back; a reply to a session that somebody else holds is put back and kept the next time.
create function _keep_replies() returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    replies jsonb := _take_replies();
    held    uuid[];
begin
    if replies = '[]' then
        return;
    end if;
    held := array(
        select j.id
        from jsonb_array_elements(replies) as e
        join jobs j on j.id = (e ->> 'job_id')::uuid
        where j.session_id not in (
            select s.id from sessions s
            where s.id in (select o.session_id from jsonb_array_elements(replies) as r join jobs o on o.id = (r ->> 'job_id')::uuid)
            order by s.id
            for no key update skip locked));
    perform _put_back((select coalesce(jsonb_agg(e), '[]') from jsonb_array_elements(replies) as e where (e ->> 'job_id')::uuid = any (held)));
    perform _keep((select coalesce(jsonb_agg(e), '[]') from jsonb_array_elements(replies) as e where (e ->> 'job_id')::uuid <> all (held)));
end
$$;

-- Seconds until the next job can be claimed: 0 when one is due, null when none is coming.
create function _next_due(with_test_jobs boolean) returns double precision
    language sql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case when min(j.run_at) is not null then greatest(0, extract(epoch from min(greatest(j.run_at, c.free_at)) - _now())) end
    from jobs j
    left join _current_models m on m.name = j.model and j.kind not in ('plan', 'render')
    left join provider_clocks c on c.provider = m.provider
    where j.status = any (_ready_statuses()) and (with_test_jobs or (not j.is_test_job and get_config('worker_enabled') = 'true'))
      and c.paused_reason is null
$$;

create procedure run_pending(max_jobs integer default null)
    language plpgsql
as $$
declare
    patience  constant pg_catalog.float8 := 30;
    claimer   pg_catalog.text;
    left_over pg_catalog.int4 := max_jobs;
    room      pg_catalog.int4;
    taken     pg_catalog.int4;
    held_for  pg_catalog.float8 := 0;
    requests  pg_catalog.jsonb;
    due       pg_catalog.float8;
    rest      pg_catalog.int4;
begin
    if max_jobs operator(pg_catalog.<) 1 then
        raise exception 'max_jobs cannot be %', max_jobs
            using errcode = 'invalid_parameter_value', hint = 'Give a number from 1 on, or null for all there is.';
    end if;
    if dialectic._in_transaction_block() then
        raise exception 'run_pending cannot run in a transaction block'
            using errcode = 'active_sql_transaction',
                  detail = 'It commits between claiming, calling and keeping, so that no lock is held while a model is called.',
                  hint = 'CALL it by itself, outside BEGIN … COMMIT.';
    end if;
    claimer := dialectic._open_claimer('run_pending');
    loop
        taken := 0;
        room := least(dialectic._free_threads(), left_over);
        if room operator(pg_catalog.>) 0 then
            taken := dialectic._take(claimer, room);
            commit;
        end if;
        left_over := left_over operator(pg_catalog.-) taken;
        requests := dialectic._make(claimer);
        commit;
        perform dialectic._send_requests(requests);
        if taken operator(pg_catalog.>) 0 then
            rest := 0;
            held_for := 0;
        elsif dialectic._calls_in_flight() operator(pg_catalog.>) 0 then
            -- With all threads busy or nothing more to claim there is only an answer to wait for.
            rest := 100;
        elsif exists (select from dialectic._unmade(claimer)) and held_for operator(pg_catalog.<) patience then
            -- Somebody else holds the session of what we have claimed.
            rest := 100;
            held_for := held_for operator(pg_catalog.+) 0.1;
        else
            due := dialectic._next_due(true);
            exit when left_over operator(pg_catalog.=) 0 or due is null or due operator(pg_catalog.>) patience;
            rest := pg_catalog.int4(due operator(pg_catalog.*) 1000) operator(pg_catalog.+) 1;
        end if;
        -- Commits before it waits, so that no snapshot is held meanwhile.
        call dialectic._await_replies(rest);
        perform dialectic._keep_replies();
        commit;
    end loop;
    perform dialectic._close_claimer();
end
$$;
comment on procedure run_pending(integer) is
    'Works the queue in this connection until nothing is due within 30 seconds, or max_jobs are done; commits as it goes.';

create procedure wait(session uuid, timeout interval default '10 min')
    language plpgsql
as $$
declare
    until    pg_catalog.timestamptz;
    state    pg_catalog.record;
begin
    if timeout is null or timeout operator(pg_catalog.<) '0'::pg_catalog.interval
        or timeout operator(pg_catalog.>) '30 days'::pg_catalog.interval then
        raise exception 'timeout cannot be %', coalesce(timeout::pg_catalog.text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give a time from 0 to 30 days.';
    end if;
    until := pg_catalog.clock_timestamp() operator(pg_catalog.+) timeout;
    loop
        state := dialectic._session_state(session);
        exit when state.finished;
        if pg_catalog.clock_timestamp() operator(pg_catalog.>=) until then
            raise exception 'session "%" is not finished after %', session, timeout
                using errcode = 'query_canceled', detail = state.detail,
                      hint = 'dialectic.blocked says what each job waits for; without a worker, CALL dialectic.run_pending() works the queue.';
        end if;
        -- Outside a transaction block this commits before it waits, so that no snapshot is held meanwhile.
        call dialectic._nap(20);
    end loop;
    if state.problem is not null then
        raise exception '%', state.problem
            using errcode = 'object_not_in_prerequisite_state', detail = state.detail, hint = state.hint;
    end if;
end
$$;
comment on procedure wait(uuid, interval) is
    'Returns when nothing of the session is left to run; an error when it failed, is paused, or is not done in time.';

-- Whether a session has come to rest, and if not well, why.
create function _session_state(session uuid, out finished boolean, out problem text, out detail text, out hint text)
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    seen    sessions;
    own_row boolean;
    live    bigint;
    paused  bigint;
begin
    seen := _seen_session(_session_state.session);
    -- A row we see whose writer is still in progress was written by ourselves.
    select pg_xact_status(((pg_snapshot_xmax(pg_current_snapshot())::text::bigint >> 32 << 32) | s.xmin::text::bigint)::text::xid8) = 'in progress'
    into own_row
    from sessions s where s.id = seen.id;
    if own_row then
        raise exception 'session "%" was changed by this transaction, which is still open', seen.id
            using errcode = 'object_not_in_prerequisite_state', detail = 'Nobody else can see the change, so nobody works on it.',
                  hint = 'COMMIT first, then CALL dialectic.wait(…).';
    end if;
    select count(*) filter (where st.phase in ('ready', 'running', 'waiting')), count(*) filter (where st.phase = 'paused')
    into live, paused
    from jobs j join job_statuses st on st.status = j.status
    where j.session_id = seen.id;
    -- Parents of paused jobs wait on: when nothing is ready or running besides them, all is at rest.
    finished := live = 0 or (paused > 0 and not exists (
        select from jobs j where j.session_id = seen.id and (j.status = any (_ready_statuses()) or j.status = 'processing')));
    detail := format('%s jobs are unfinished, %s paused.', live, paused);
    if finished and paused > 0 then
        problem := format('session "%s" is paused', seen.id);
        hint := format('SELECT dialectic.resume(%L) lets it go on.', seen.id);
    elsif finished and seen.status in ('failed', 'cancelled') then
        problem := format('session "%s" %s', seen.id, case seen.status when 'failed' then 'failed' else 'was cancelled' end);
        hint := format('SELECT dialectic.retry(%L) tries again what failed.', seen.id);
        select string_agg(distinct format('%s: %s', j.model, j.error_details ->> 'message'), '; ') into detail
        from jobs j
        where j.session_id = seen.id and j.parent_job_id is null and j.status in ('failed', 'retry_loop_failed', 'cancelled');
    end if;
end
$$;
