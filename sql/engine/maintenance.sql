-- Maintenance: deletes what has outlived its retention, in batches of at most 1,000 rows, each in a transaction.
--
-- maintain() and the worker call _maintain_batch() until nothing is left. Decides what is expired and in which order it
-- goes. Never waits for a lock: what another transaction holds is left for the next run.

create table maintenance (
    is_single   boolean     primary key default true check (is_single),
    last_run_at timestamptz not null default _now()
);
insert into maintenance default values;
comment on table maintenance is 'One row: when maintenance last ran to its end, or when the extension was created.';

-- Marks expired sessions, sessions of deleted projects, and empty projects as old; returns how many.
create function _mark_expired() returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    most        constant integer := 20;
    before      timestamptz := _now() - make_interval(days => (get_config('session_retention_days') #>> '{}')::integer);
    orphans     uuid[] := array(
        select s.id from sessions s
        join deletions p on p.id = s.project_id
        where s.id not in (select d.id from deletions d)
        limit most);
    session_ids uuid[] := orphans;
    project_ids uuid[] := '{}';
    busy        text[];
begin
    if before is not null then
        session_ids := session_ids || array(select s.id from _ended_sessions(before, most) as s);
    end if;
    busy := _busy_wallets(session_ids);
    session_ids := array(
        select s.id from sessions s where s.id = any (session_ids) and s.owner <> all (busy)
        order by s.id for no key update skip locked);
    -- A session that was used before it was locked has not ended.
    session_ids := array(
        select id from unnest(session_ids) as id
        where id = any (orphans) or id in (select s.id from _ended_sessions(before, null) as s));
    perform _mark_sessions_deleted(session_ids);
    if before is not null then
        project_ids := _mark_empty_projects(array(select p.id from _empty_projects(before, most) as p), before);
    end if;
    return cardinality(session_ids) + cardinality(project_ids);
end
$$;

-- Merges rows of the roll-up that have the same key; returns how many fewer there are.
create function _merge_usage_history() returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    doomed bigint[] := array(
        select h.id from usage_history h
        where exists (select from usage_history o
                      where (o.owner, o.day, o.stage, o.model) = (h.owner, h.day, h.stage, h.model) and o.id <> h.id)
        order by h.owner, h.day, h.stage, h.model
        limit _deletion_batch()
        for update skip locked);
    merged integer;
begin
    with gone as (
        delete from usage_history h where h.id = any (doomed) returning h.*
    )
    insert into usage_history (owner, day, stage, model, calls, failed_calls, input_tokens, cached_tokens,
                               cache_write_tokens, output_tokens, reasoning_tokens, cost, unbilled, latencies,
                               first_bytes)
    select g.owner, g.day, g.stage, g.model, sum(g.calls), sum(g.failed_calls), sum(g.input_tokens),
           sum(g.cached_tokens), sum(g.cache_write_tokens), sum(g.output_tokens), sum(g.reasoning_tokens), sum(g.cost),
           sum(g.unbilled), _sum_histograms(jsonb_agg(g.latencies)), _sum_histograms(jsonb_agg(g.first_bytes))
    from gone g
    group by g.owner, g.day, g.stage, g.model;
    get diagnostics merged = row_count;
    return cardinality(doomed) - merged;
end
$$;

-- Deletes chunks of texts of which no chunk was used since the retention; returns how many. Projects with a session
-- that can still go on keep theirs. The first chunk of a text goes first: a text without it is cut again when needed.
create function _delete_unused_chunks() returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    before  constant timestamptz :=
        _now() - make_interval(days => (get_config('rag_data_retention_days') #>> '{}')::integer);
    deleted integer;
begin
    delete from memory m
    where m.id = any (array(
        select t.id from memory t
        where t.last_used_at < before
          and not exists (select from memory o where o.source_id = t.source_id and o.last_used_at >= before)
          and not exists (
              select from sessions s
              where s.project_id = t.project_id
                and (s.status = 'active' or exists (
                    select from jobs j where j.session_id = s.id and j.status <> all (_ended_statuses()))))
        order by t.source_id, t.chunk_no
        limit _deletion_batch()
        for update skip locked));
    get diagnostics deleted = row_count;
    return deleted;
end
$$;

-- One batch of maintenance; returns how many rows it has dealt with, 0 when nothing is left to do.
create function _maintain_batch() returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    number integer;
begin
    -- Numbers grow with time: where none of the oldest has expired, no other has.
    delete from notifications n
    using (select o.id, o.created_at from notifications o order by o.id limit _deletion_batch()) as oldest
    where n.id = oldest.id
      and oldest.created_at
          < _now() - make_interval(days => (get_config('notifications_retention_days') #>> '{}')::integer);
    get diagnostics number = row_count;
    if number > 0 then
        return number;
    end if;
    delete from partials p where p.ctid = any (array(
        select t.ctid from partials t join jobs j on j.id = t.job_id
        where j.status = any (_ended_statuses()) limit _deletion_batch()));
    get diagnostics number = row_count;
    if number > 0 then
        return number;
    end if;
    number := _delete_unused_chunks();
    if number > 0 then
        return number;
    end if;
    number := _mark_expired();
    if number > 0 then
        return number;
    end if;
    number := _remove_marked_rows(array(select d.id from deletions d order by d.deleted_at limit _deletion_batch()));
    if number > 0 then
        return number;
    end if;
    delete from deleted_calls c where c.ctid = any (array(
        select t.ctid from deleted_calls t where t.deleted_at < _now() - interval '1 day' limit _deletion_batch()));
    get diagnostics number = row_count;
    if number > 0 then
        return number;
    end if;
    return _merge_usage_history();
end
$$;

-- Notes that maintenance has run to its end.
create function _end_maintenance() returns void
    language sql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    update maintenance set last_run_at = _now()
$$;

-- Seconds until the worker maintains, a day after the last run; null while the worker is switched off. While
-- maintenance is scheduled, the worker asks again in an hour, and maintains when the last run is 32 days old: pg_cron may
-- have lost the job, and no schedule is longer than a month.
create function _maintenance_due_in() returns double precision
    language sql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case when exists (select from schedule_definitions s where s.kind = 'maintenance')
                     and m.last_run_at > _now() - interval '32 days' then 3600
                else greatest(0, extract(epoch from m.last_run_at + interval '1 day' - _now())) end::double precision
    from maintenance m
    where get_config('worker_enabled') = 'true'
$$;

create procedure maintain()
    language plpgsql
as $$
begin
    call dialectic._require_commits('maintain');
    loop
        commit;
        set transaction isolation level read committed;
        exit when dialectic._maintain_batch() operator(pg_catalog.=) 0;
    end loop;
    perform dialectic._end_maintenance();
end
$$;
comment on procedure maintain() is
    'Deletes expired notifications, chunks of memory that no search used, expired sessions, partial texts of ended '
    'jobs and the rows of deleted sessions, in batches of at most 1,000 rows with a commit after each. '
    'The worker does the same once a day, unless schedule_maintenance() has scheduled it.';
