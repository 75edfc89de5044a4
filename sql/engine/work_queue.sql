-- What a claimer inside the server asks for between its queue_positions, and waiting for others to work the queue. A procedure
-- that commits may have neither SECURITY DEFINER nor SET; every name and operator in it is therefore qualified.

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
    if kind = 'worker' then
        -- Its server may have been started with what was missing.
        delete from provider_cooldowns c where c.paused_reason is not null;
    end if;
    return claimer;
end
$$;

-- Locks those of these sessions that nobody holds, nor the wallets of their owners, and returns them; so too those that
-- are deleted, of whose jobs nothing is left to wait for: whoever has them in hand shall find their claims gone.
create function _lock_sessions(ids uuid[]) returns setof uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    busy   text[] := _busy_wallets(ids);
    locked bigint;
begin
    return query select s.id from sessions s where s.id = any (ids) and s.owner <> all (busy) order by s.id for no key update skip locked;
    get diagnostics locked = row_count;
    if locked < cardinality(ids) then
        return query select gone.id from unnest(ids) as gone(id) where not exists (select from sessions s where s.id = gone.id);
    end if;
end
$$;

-- The claims among these that are no longer the jobs'.
create function _revoked(job_ids uuid[], claim_ids bigint[]) returns setof bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select held.claim_id
        from unnest(job_ids, claim_ids) as held(job_id, claim_id)
        where not exists (
            select from jobs j where j.id = held.job_id and j.claim_id = held.claim_id);
end
$$;

-- Seconds until the next job can be claimed, but for those in queues that are full: 0 when one is due, null when none is
-- coming.
create function _next_due(
    claimer text, with_test_jobs boolean, floor bigint, full_queues text[], excluded uuid[]
) returns double precision
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    next timestamptz;
begin
    if not with_test_jobs and get_config('worker_enabled') <> 'true' then
        return null;
    end if;
    select min(greatest(first.run_at, case when not c.is_stood_in_for then c.free_at end)) into next
    from (
        select l.name as queue, q.run_at
        from queues l
        cross join lateral (
            select r.run_at from ready_jobs r
            where not r.is_delayed and r.queue = l.name and r.is_test = l.is_test and r.priority = l.priority and r.queue_position >= floor
              and r.session_id <> all (excluded)
            order by r.queue_position
            limit 1) as q
        where (with_test_jobs or not l.is_test) and l.name <> all (full_queues)
        union all
        (select r.queue, r.run_at from ready_jobs r
         where r.is_delayed and (with_test_jobs or not r.is_test) and r.queue <> all (full_queues)
           and r.session_id <> all (excluded)
         order by r.run_at
         limit 100)
        union all
        -- A worker outside that lets its lease pass gives its jobs back.
        (select '', c.lease_until from claims c where c.lease_until is not null order by c.lease_until limit 1)
        union all
        -- What there is money for again, but whose session somebody held, is looked at again.
        (select '', _now() + interval '1 second' from unfunded_jobs u where u.is_due limit 1)
        union all
        -- And so is what a claimer has left behind that is gone.
        (select '', _now() + interval '1 second'
         from claimers c
         where c.name <> _next_due.claimer and _claimer_lock_id(c.name) <> all ((select _live_claimers())::text[]) limit 1)
    ) as first
    left join _model_clocks c on c.model = first.queue
    where c.paused_reason is null or c.is_stood_in_for;
    return case when next is not null then greatest(0, extract(epoch from next - _now())) end;
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
        call dialectic._sleep(20);
    end loop;
    if state.problem is not null then
        raise notice '%', dialectic._receipt(session);
        raise exception '%', state.problem
            using errcode = 'object_not_in_prerequisite_state',
                  detail = coalesce(state.detail, 'Nothing of it is left to run.'),
                  hint = coalesce(state.hint, 'SELECT * FROM dialectic.blocked;');
    end if;
    raise notice '%', dialectic._receipt(session);
end
$$;
comment on procedure wait(uuid, interval) is
    'Returns when nothing of the session is left to run, with a line on what it took; an error when it or a regeneration failed, it is cancelled or paused, or it is not done in time.';

-- So many of something, in words.
create function _some(number bigint, noun text) returns text
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('%s %s%s', number, noun, case number when 1 then '' else 's' end)
$$;

-- What a session has made, and what it took, in a line.
create function _receipt(session uuid) returns text
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    seen sessions := _seen_session(_receipt.session);
begin
    return (
        select format('%s, %s%s, %s tokens read and %s written, %s, %s%s',
                      _some((select count(*) from _newest_documents d where d.session_id = seen.id), 'document'), _some(count(*), 'call'),
                      ' (' || nullif(count(*) filter (where c.outcome <> 'answered'), 0) || ' not answered)',
                      coalesce(sum(c.input_tokens), 0), coalesce(sum(c.output_tokens), 0), _dollars(coalesce(sum(c.cost), 0)),
                      date_trunc('milliseconds', _time_taken(seen.id)), '; did not deliver: ' || _undelivered(seen))
        from jobs j
        join model_calls c on c.job_id = j.id
        where j.session_id = seen.id);
end
$$;

-- The models that did not deliver when a stage last asked them, each with its stage; null when all delivered.
create function _undelivered(session sessions) returns text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select string_agg(format('%s (%s)', last.model, last.stage), ', ' order by last.position, last.model)
    from (
        select distinct on (r.position, root.model) r.position, r.stage, root.model, root.status
        from stage_runs r
        join jobs root on root.stage_run_id = r.id and root.parent_job_id is null
        where r.session_id = session.id
        order by r.position, root.model, r.iteration desc) as last
    where last.status in ('failed', 'retry_loop_failed', 'cancelled')
$$;

-- The time that stages took, and what was done again in them later; not the time that people took in between.
create function _time_taken(session uuid) returns interval
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    seen sessions := _seen_session(_time_taken.session);
begin
    return (
        select coalesce(sum(upper(span) - lower(span)), '0')
        from (
            select unnest(range_agg(t.worked)) as span
            from (
                select tstzmultirange(tstzrange(r.started_at, greatest(r.started_at, coalesce(
                           r.completed_at, (select max(l.completed_at) from jobs l where l.stage_run_id = r.id),
                           _now())))) - r.idle as worked
                from stage_runs r
                where r.session_id = seen.id and r.started_at is not null
                union all
                -- A call that was lost is closed when somebody finds it, which may be much later.
                select tstzmultirange(tstzrange(c.started_at, greatest(c.started_at, coalesce(c.finished_at, _now()))))
                from jobs j
                join model_calls c on c.job_id = j.id and c.outcome <> 'lost'
                where j.session_id = seen.id) as t) as spans);
end
$$;

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
    detail := format('%s unfinished, %s paused.', _some(live, 'job'), paused);
    if finished and exists (select from jobs j where j.session_id = seen.id and j.status = 'paused_nsf') then
        select format('session "%s" is %s', seen.id, case when u.is_paused then 'paused' else 'out of funds' end),
               format('%s paused; the dearest: %s.', _some(paused, 'job'), w.problem), w.hint || '.' into problem, detail, hint
        from unfunded_jobs u
        join jobs j on j.id = u.job_id and j.status = 'paused_nsf'
        cross join _want_of_funds(u) as w
        where u.session_id = seen.id order by u.needed desc limit 1;
    elsif finished and paused > 0 then
        problem := format('session "%s" is paused', seen.id);
        hint := format('SELECT dialectic.resume(%L) lets it go on.', seen.id);
    elsif finished and seen.status in ('failed', 'cancelled') then
        problem := format('session "%s" %s', seen.id,
                          case seen.status when 'failed' then 'failed' else 'is cancelled' end);
        hint := case seen.status when 'failed' then _retry_hint(seen)
                                 else format('SELECT dialectic.retry(%L);', seen.id) end;
        select coalesce(string_agg(distinct format('%s: %s', j.model, j.error_details ->> 'message'), '; '),
                        'It had no unfinished jobs.')
        into detail
        from jobs j
        where j.session_id = seen.id and j.parent_job_id is null and j.status in ('failed', 'retry_loop_failed', 'cancelled');
    elsif finished then
        select f.problem, f.detail, f.hint into problem, detail, hint from _failed_regeneration(seen) as f;
    end if;
end
$$;

-- The first document whose new version failed and was not tried again, nor overtaken by a later version or iteration.
create function _failed_regeneration(session sessions, out problem text, out detail text, out hint text)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('document "%s" of model "%s" could not be regenerated',
                  coalesce(j.document_key, j.output_type), j.model),
           format('Version %s failed: %s', j.version, j.error_details ->> 'message'),
           format('SELECT dialectic.retry(%L);', j.id)
    from jobs j
    join stage_runs run on run.id = j.stage_run_id
    where j.session_id = session.id and j.version > 1 and j.status in ('failed', 'retry_loop_failed')
      and not _is_planned_past(j)
      and not exists (
          select from stage_runs later
          join jobs root on root.stage_run_id = later.id and root.parent_job_id is null and root.model = j.model
          where later.session_id = run.session_id and later.stage = run.stage and later.iteration > run.iteration)
    order by j.completed_at, j.id
    limit 1
$$;
