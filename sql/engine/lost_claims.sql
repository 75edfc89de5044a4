-- Jobs that harm whoever works on them: those that cannot be read, and those whose claimer died.
--
-- Decides which job is worked alone and when it has failed: after three losses while it was alone, or thirty where it
-- had streamed new text each time. Never decides why a claimer died.

-- The server and timeline of this database: claims of a standby's primary, or of a dump, were not lost here.
create function _server() returns text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select system_identifier || ' ' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) from pg_control_system()
$$;

-- How long a job rests that was lost this often while it was worked alone.
create function _pause_after_loss(losses integer) returns interval
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case when losses > 0 then make_interval(secs => 2 * 5 ^ (losses - 1)) else interval '0' end
$$;

-- Jobs were released whose claimer died on this server: each is worked alone from now on, after a pause that grows with
-- its losses. A claimer that ended in order, or whose backend lives on, lost nothing.
create function _note_lost_claims(freed uuid[], claim_ids bigint[], void uuid[], moment timestamptz) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    suspects uuid[];
begin
    with suspect as (
        insert into suspect_jobs as s (job_id, session_id, losses, breaks, lost_at)
        -- A claim that is over may list the job too, until it is deleted: the newest one was lost.
        select distinct on (j.id)
               j.id, j.session_id, (t.is_alone and not text.is_new)::integer, (t.is_alone and text.is_new)::integer,
               moment
        from unnest(freed, claim_ids) as lost(job_id, claim_id)
        join jobs j on j.id = lost.job_id
        join claims t on t.id = any (void) and t.lease_until is null and j.id = any (t.job_ids)
        join claimers c on c.name = t.claimed_by and c.server = _server() and not c.has_left
        cross join lateral (select exists (
            select from partials p where p.job_id = j.id and p.claim_id = lost.claim_id) as is_new) as text
        where not (t.claimed_by like 'run_pending:%' and exists (
            select from pg_stat_get_activity(null) as a where a.pid::text = split_part(t.claimed_by, ':', 2)))
          and j.status = any (_ready_statuses())
        order by j.id, t.id desc
        on conflict (job_id) do update
        set losses = s.losses + excluded.losses, breaks = s.breaks + excluded.breaks, lost_at = excluded.lost_at
        returning s.job_id
    )
    select array_agg(suspect.job_id) into suspects from suspect;
    update jobs j set run_at = greatest(j.run_at, moment + _pause_after_loss(s.losses))
    from suspect_jobs s
    where s.job_id = any (suspects) and s.losses in (1, 2) and j.id = s.job_id;
    perform _fail_suspects(suspects, moment);
end
$$;

-- Fails jobs whose claimer died too often while it worked on nothing else.
create function _fail_suspects(suspects uuid[], moment timestamptz) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    killers uuid[] := array(
        select s.job_id from suspect_jobs s where s.job_id = any (suspects) and (s.losses >= 3 or s.breaks >= 30));
begin
    if killers = '{}' then
        return;
    end if;
    -- Through processing, because only a claimed job may fail.
    update jobs j set status = 'processing', status_before = j.status where j.id = any (killers);
    update jobs j
    set status = 'failed', status_before = null, completed_at = moment,
        error_details = jsonb_build_object(
            'class', 'internal', 'sqlstate', 'XX000', 'at', moment,
            'message', format('the process that worked on this job alone died %s times', s.losses + s.breaks))
    from suspect_jobs s
    where j.id = any (killers) and s.job_id = j.id;
end
$$;

-- The due job that is to be worked alone next; null when there is none, or none that may be claimed now. A job that was
-- lost alone waits until no claimer has died for as long as its pause: while something else kills claimers, a loss says
-- nothing of the job.
create function _next_suspect(terms _claim_terms) returns uuid
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment    timestamptz := _now();
    last_loss timestamptz := (select max(s.lost_at) from suspect_jobs s);
begin
    return (
        select r.job_id
        from suspect_jobs s
        join ready_jobs r on r.job_id = s.job_id
        where r.run_at <= moment and last_loss + _pause_after_loss(s.losses) <= moment
          and (terms.takes_test_jobs or not r.is_test) and r.session_id <> all (terms.excluded)
          and r.queue <> all (_full_queues(terms))
        order by s.losses + s.breaks, r.priority desc, r.queue_position, r.job_id
        limit 1);
end
$$;

-- Claims one job that is worked alone, under a claim of this id; nothing when another transaction holds it.
create function _claim_alone(claimer text, job uuid, claim uuid) returns setof jobs
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
begin
    perform from jobs j where j.id = job and j.status = any (_ready_statuses()) for no key update skip locked;
    if not found then
        return;
    end if;
    insert into claims (id, claimed_by, is_alone, job_ids) values (claim, claimer, true, array[job]);
    delete from ready_jobs r where r.job_id = job;
    return query
        update jobs j
        set status = 'processing', status_before = j.status, claim_id = nextval('claim_ids'), claimed_by = claimer,
            lease_until = null, started_at = coalesce(j.started_at, moment)
        where j.id = job
        returning j.*;
end
$$;

-- The sessions that have due jobs, jobs of claimers that died, or jobs that money has come back for, for a claimer that
-- tries them one by one after an error.
create function _due_sessions() returns setof uuid
    language sql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    with void as materialized (
        select c.claimed_by, c.job_ids
        from claims c
        where c.lease_until < _now()
           or (c.lease_until is null and _claimer_lock_id(c.claimed_by) <> all ((select _live_claimers())::text[]))
    )
    select r.session_id from ready_jobs r where r.run_at <= _now() group by r.session_id
    union
    select u.session_id from unfunded_jobs u where u.is_due
    union
    select j.session_id
    from void c
    join jobs j on j.id = any (c.job_ids) and j.status = 'processing' and j.claimed_by = c.claimed_by
    union
    select o.session_id
    from void c
    join model_calls o on o.job_id = any (c.job_ids) and o.outcome = 'open' and o.claimed_by = c.claimed_by
    limit 10000
$$;

-- A claimer ends in order: what it holds is released by the next claim, and counts as no loss.
create function _release_claimer(claimer text) returns void
    language sql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    update claimers c set has_left = true
    where c.name in (select k.name from claimers k where k.name = claimer for no key update skip locked)
$$;

-- Fails claimed jobs that cannot be read or computed, each with the SQLSTATE, the message and the hint of its error.
create function _fail_unreadable(job_ids uuid[], claim_ids bigint[], sqlstates text[], messages text[], hints text[])
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment  timestamptz := _now();
    current uuid[] := _lock_claims(job_ids, claim_ids);
begin
    update jobs j
    set status = 'failed', status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        completed_at = moment, attempt_count = j.attempt_count + 1,
        error_details = jsonb_strip_nulls(jsonb_build_object(
            'class', 'internal', 'sqlstate', r.sqlstate, 'message', r.message, 'hint', r.hint, 'at', moment))
    from unnest(job_ids, sqlstates, messages, hints) as r(job_id, sqlstate, message, hint)
    where j.id = r.job_id and j.id = any (current);
end
$$;
