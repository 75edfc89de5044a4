-- Waiting for a session: `wait` returns when nothing of it is left to run, with a receipt.
--
-- Decides when a session is at rest and what `wait` reports. It never works the queue. A procedure that commits may
-- have neither SECURITY DEFINER nor SET, so `wait` qualifies every name and operator.

create procedure wait(session uuid, timeout interval default '10 min')
    language plpgsql
as $$
declare
    deadline pg_catalog.timestamptz;
    state    pg_catalog.record;
begin
    if timeout is null or timeout operator(pg_catalog.<) '0'::pg_catalog.interval
        or timeout operator(pg_catalog.>) '30 days'::pg_catalog.interval then
        raise exception 'timeout cannot be %', coalesce(timeout::pg_catalog.text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give a time from 0 to 30 days.';
    end if;
    deadline := pg_catalog.clock_timestamp() operator(pg_catalog.+) timeout;
    -- Before the first check, so that a commit after it wakes this backend.
    perform dialectic._register_waiter();
    loop
        state := dialectic._session_state(session);
        exit when state.finished;
        if pg_catalog.clock_timestamp() operator(pg_catalog.>=) deadline then
            raise exception 'session "%" is not finished after %', session, timeout
                using errcode = 'query_canceled', detail = state.detail,
                      hint = 'dialectic.blocked says what each job waits for; without a worker, '
                             'CALL dialectic.run_pending() works the queue.';
        end if;
        -- Outside a transaction block this commits before it sleeps, so that no snapshot is held meanwhile.
        call dialectic._sleep_until_change(deadline);
    end loop;
    perform dialectic._unregister_waiter();
    raise notice '%', dialectic._receipt(session);
    if state.is_too_large then
        raise exception '%', state.problem using errcode = '54C01', detail = state.detail, hint = state.hint;
    elsif state.problem is not null then
        raise exception '%', state.problem
            using errcode = 'object_not_in_prerequisite_state',
                  detail = coalesce(state.detail, 'Nothing of it is left to run.'),
                  hint = coalesce(state.hint, 'SELECT * FROM dialectic.blocked;');
    end if;
end
$$;
comment on procedure wait(uuid, interval) is
    'Returns when nothing of the session is left to run, with a line on what it took; an error when it or a '
    'regeneration failed, it is cancelled or paused, or it is not done in time.';

-- Jobs that move wake the waiters through the trigger of job_trigger.sql. A claim brings no session to rest and is the
-- most frequent move, so it wakes nobody.
create trigger _wake_waiters after delete or update of status on sessions
    for each statement execute function _wake_waiters();

-- A number with its noun, in the plural unless it is 1.
create function _count_with_noun(number bigint, noun text) returns text
    language sql stable
    return format('%s %s%s', number, noun, case number when 1 then '' else 's' end);

-- The documents, calls, tokens, cost and time of a session in one line.
create function _receipt(session uuid) returns text
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    seen sessions := _seen_session(_receipt.session);
begin
    return (
        select format('%s, %s%s, %s tokens read and %s written, %s, %s%s',
                      _count_with_noun((select count(*) from _newest_documents d where d.session_id = seen.id),
                                       'document'), _count_with_noun(count(*), 'call'),
                      ' (' || nullif(count(*) filter (where c.outcome <> 'answered'), 0) || ' not answered)',
                      coalesce(sum(c.input_tokens), 0), coalesce(sum(c.output_tokens), 0),
                      _dollars(coalesce(sum(c.cost), 0)), date_trunc('milliseconds', _time_taken(seen.id)),
                      '; did not deliver: ' || _undelivered(seen))
        from jobs j
        join model_calls c on c.job_id = j.id
        where j.session_id = seen.id);
end
$$;

-- The models that failed in the newest iteration of a stage that asked them, each with its stage; null when none did.
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

-- The time that stages and later regenerations took, without the time between them.
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
                -- A lost call is closed when a claimer finds it, which may be much later.
                select tstzmultirange(tstzrange(c.started_at, greatest(c.started_at, coalesce(c.finished_at, _now()))))
                from jobs j
                join model_calls c on c.job_id = j.id and c.outcome <> 'lost'
                where j.session_id = seen.id) as t) as spans);
end
$$;

-- Whether a session is at rest, and the error that wait raises if it did not end well.
-- STABLE, so that all its statements read one snapshot: a commit between them would mix old and new rows.
create function _session_state(
    session uuid, out finished boolean, out problem text, out detail text, out hint text,
    out is_too_large boolean
)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    seen    sessions;
    live    bigint;
    paused  bigint;
begin
    seen := _seen_session(_session_state.session);
    if exists (select from sessions s where s.id = seen.id and _is_current_xid(s.xmin)) then
        raise exception 'session "%" was changed by this transaction, which is still open', seen.id
            using errcode = 'object_not_in_prerequisite_state',
                  detail = 'Nobody else can see the change, so nobody works on it.',
                  hint = 'COMMIT first, then CALL dialectic.wait(…).';
    end if;
    select count(*) filter (where st.phase in ('ready', 'running', 'waiting')),
           count(*) filter (where st.phase = 'paused')
    into live, paused
    from jobs j join job_statuses st on st.status = j.status
    where j.session_id = seen.id;
    -- Parents of paused jobs keep waiting: without a ready or running job the session is at rest.
    finished := live = 0 or (paused > 0 and not exists (
        select from jobs j
        where j.session_id = seen.id and (j.status = any (_ready_statuses()) or j.status = 'processing')));
    detail := format('%s unfinished, %s paused.', _count_with_noun(live, 'job'), paused);
    if finished and exists (select from jobs j where j.session_id = seen.id and j.status = 'paused_nsf') then
        select format('session "%s" is %s', seen.id, case when u.is_paused then 'paused' else 'out of funds' end),
               format('%s paused; the dearest: %s.', _count_with_noun(paused, 'job'), w.problem), w.hint || '.'
        into problem, detail, hint
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
        select coalesce(string_agg(distinct format('%s: %s', j.model, j.error_details ->> 'message'), '; '),
                        'It had no unfinished jobs.'),
               bool_and(j.error_class is not distinct from 'context_window'), min(j.error_details ->> 'hint')
        into detail, is_too_large, hint
        from jobs j
        where j.session_id = seen.id and j.parent_job_id is null
          and j.status in ('failed', 'retry_loop_failed', 'cancelled');
        hint := case when is_too_large and hint is not null then hint
                     when seen.status = 'failed' then _retry_hint(seen)
                     else format('SELECT dialectic.retry(%L);', seen.id) end;
    elsif finished then
        select f.problem, f.detail, f.hint into problem, detail, hint from _failed_regeneration(seen) as f;
    end if;
end
$$;

-- The first document whose new version failed, unless it was retried or written in a later version or iteration.
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
