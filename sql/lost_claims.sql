-- Jobs that harm whoever works on them: those that cannot be read, and those whose claimer died.
--
-- Decides which job is worked alone and when it has failed. Never decides why a claimer died: a job is only suspected, until
-- its claimer has died three times while it worked on nothing else.

-- Jobs were released whose claimer inside the server died: each is worked alone from now on, and one whose claimer died three
-- times while it worked that job alone has failed. A claimer that ended in order, or whose backend lives on, lost nothing.
create function _note_lost_claims(freed uuid[], void uuid[], moment timestamptz) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    killers uuid[];
begin
    insert into suspect_jobs as s (job_id, session_id, losses)
    select j.id, j.session_id, lost.is_alone::integer
    from claims lost
    join jobs j on j.id = any (lost.job_ids) and j.id = any (freed)
    where lost.id = any (void) and lost.lease_until is null
      and not exists (select from claimers c where c.name = lost.claimed_by and c.has_left)
      and not (lost.claimed_by like 'run_pending:%' and exists (
          select from pg_stat_get_activity(null) as a where a.pid::text = split_part(lost.claimed_by, ':', 2)))
    on conflict (job_id) do update set losses = s.losses + excluded.losses;

    killers := array(select s.job_id from suspect_jobs s where s.job_id = any (freed) and s.losses >= 3);
    if killers = '{}' then
        return;
    end if;
    -- Through processing, because only a claimed job may fail.
    update jobs j set status = 'processing', status_before = j.status where j.id = any (killers);
    update jobs j
    set status = 'failed', status_before = null, completed_at = moment,
        error_details = jsonb_build_object(
            'class', 'internal', 'sqlstate', 'XX000', 'at', moment,
            'message', 'the process that worked on this job died three times while it worked on nothing else')
    where j.id = any (killers);
end
$$;

-- The due job that is to be worked alone next; null when there is none, or none that may be claimed now.
create function _next_suspect(with_test_jobs boolean, excluded uuid[], full_lanes text[]) returns uuid
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
begin
    if not exists (select from suspect_jobs) then
        return null;
    end if;
    return (
        select r.job_id
        from suspect_jobs s
        join ready_jobs r on r.job_id = s.job_id
        where r.run_at <= moment and (with_test_jobs or not r.is_test) and r.session_id <> all (excluded)
          and r.lane <> all (full_lanes || _resting_models(moment))
        order by r.priority desc, r.turn, r.job_id
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

-- The sessions that have due jobs, for a claimer that tries them one by one after an error.
create function _due_sessions() returns setof uuid
    language sql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select r.session_id from ready_jobs r where r.run_at <= _now() group by r.session_id order by min(r.turn) limit 1000
$$;

-- A claimer ends in order: what it holds is released by the next claim, and counts as no loss.
create function _leave(claimer text) returns void
    language sql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    update claimers c set has_left = true where c.name = claimer
$$;

-- Fails claimed jobs that cannot be read or computed, each with the SQLSTATE and the message of its error.
create function _fail_unreadable(job_ids uuid[], claim_ids bigint[], sqlstates text[], messages text[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment  timestamptz := _now();
    current uuid[] := _hold_claims(job_ids, claim_ids);
begin
    update jobs j
    set status = 'failed', status_before = null, claim_id = null, claimed_by = null, lease_until = null, completed_at = moment,
        attempt_count = j.attempt_count + 1,
        error_details = jsonb_build_object('class', 'internal', 'sqlstate', r.sqlstate, 'message', r.message, 'at', moment)
    from unnest(job_ids, sqlstates, messages) as r(job_id, sqlstate, message)
    where j.id = r.job_id and j.id = any (current);
end
$$;
