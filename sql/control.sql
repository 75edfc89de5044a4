-- Control by people: cancel, pause, resume, retry. An id is a session or a job; each returns how many jobs it moved.
--
-- Each takes the lock of the session first (engine/job_trigger.sql says why), moves what may be moved and leaves the rest; what
-- follows from it is the trigger's business.

-- The session of an id that names a session or a job, locked, and the job if it names one.
create function _own_target(id uuid, out session sessions, out job jobs)
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    session_of uuid;
begin
    select j.session_id into session_of from jobs j where j.id = _own_target.id;
    begin
        session := _own_session(coalesce(session_of, _own_target.id));
    exception when no_data_found then
        raise exception 'no session and no job has the id "%"', coalesce(_own_target.id::text, 'null')
            using errcode = 'no_data_found', hint = 'SELECT id, status, created_at FROM dialectic.sessions lists your sessions.';
    end;
    if session_of is not null then
        select j.* into job from jobs j where j.id = _own_target.id;
    end if;
end
$$;

-- The job and all below it, or all jobs of the session.
create function _subtree(session_id uuid, job_id uuid) returns setof uuid
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    with recursive below(id) as (
        select j.id from jobs j where j.session_id = _subtree.session_id and (_subtree.job_id is null or j.id = _subtree.job_id)
        union
        select j.id from below join jobs j on j.parent_job_id = below.id and j.session_id = _subtree.session_id
    )
    select id from below
$$;

create function cancel(id uuid) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    target record;
    moved  integer;
begin
    target := _own_target(cancel.id);
    if (target.job).id is null then
        update sessions s set status = 'cancelled' where s.id = (target.session).id and s.status in ('active', 'failed');
    end if;
    update jobs j
    set status = 'cancelled', completed_at = _now(), status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        error_details = jsonb_build_object('class', 'cancelled', 'message', 'cancelled by ' || _calling_owner())
    where j.id in (select _subtree((target.session).id, (target.job).id)) and j.status <> all (_ended_statuses());
    get diagnostics moved = row_count;
    return moved;
end
$$;
comment on function cancel(uuid) is
    'Ends a session, or a job with all below it and its plan, unless retry() brings it back; returns how many jobs.';

create function pause(id uuid) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    target   record;
    moved    integer;
    unfunded integer;
begin
    target := _own_target(pause.id);
    -- Of a session, what waits stays: it moves when what it waits for does.
    update jobs j
    set status = 'paused_user', status_before = case when j.status in ('processing', 'waiting_for_prerequisite') then j.status_before else j.status end,
        claim_id = null, claimed_by = null, lease_until = null
    where j.id in (select _subtree((target.session).id, (target.job).id))
      and (j.status = any (_ready_statuses()) or j.status = 'processing' or (j.id = (target.job).id and j.status like 'waiting%'));
    get diagnostics moved = row_count;
    -- What waits for money stays where it is, and more money does not set it going.
    update unfunded_jobs u set is_paused = true
    from jobs j
    where j.id = u.job_id and j.id in (select _subtree((target.session).id, (target.job).id)) and j.status = 'paused_nsf' and not u.is_paused;
    get diagnostics unfunded = row_count;
    return moved + unfunded;
end
$$;
comment on function pause(uuid) is 'Stops a session, or a job and all below it, until resume(); a job that was running goes on from what its model had said.';

create function resume(id uuid) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    target record;
begin
    target := _own_target(resume.id);
    return _resume_jobs(array(
        select j.id from jobs j
        where j.id in (select _subtree((target.session).id, (target.job).id)) and j.status in ('paused_user', 'paused_nsf')));
end
$$;
comment on function resume(uuid) is 'Lets a paused session, or a paused job and all below it, go on; returns the number of jobs set going.';

-- Sets paused jobs going, under the locks of their sessions.
create function _resume_jobs(ids uuid[]) returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moved integer;
begin
    delete from unfunded_jobs u where u.job_id = any (ids);
    -- What a paused job waited for may have ended meanwhile, so where it goes is judged anew.
    update jobs j
    set status = case
            when exists (select from job_dependencies d join jobs p on p.id = d.prerequisite_id
                         where d.job_id = j.id and p.status not in ('completed', 'superseded')) then 'waiting_for_prerequisite'
            when j.status_before = 'waiting_for_children' and exists (
                select from jobs c where c.parent_job_id = j.id
                  and (c.status <> all (_ended_statuses()) or c.status in ('failed', 'retry_loop_failed'))) then 'waiting_for_children'
            when j.status_before = 'waiting_for_children' then 'pending_next_step'
            else _ready_status(j) end,
        status_before = null,
        run_at = least(j.run_at, _now()),
        queue_position = greatest(j.queue_position, _claim_position())
    where j.id = any (ids);
    get diagnostics moved = row_count;
    return moved;
end
$$;

create function retry(id uuid) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    target    record;
    run       uuid;
    stage     text;
    iteration integer;
    moved     integer;
begin
    target := _own_target(retry.id);
    if (target.job).id is null then
        select r.id into run
        from stage_runs r
        where (r.session_id, r.stage, r.iteration)
            = ((target.session).id, (target.session).current_stage, (target.session).iteration);
        moved := _retry_stage_run(run) + _ask_dropped_models(run);
    else
        if (target.job).status not in ('failed', 'retry_loop_failed', 'cancelled') then
            raise exception 'job "%" has not failed', (target.job).id
                using errcode = 'object_not_in_prerequisite_state', detail = format('Its status is %s.', (target.job).status),
                      hint = 'Only failed and cancelled jobs can be tried again.';
        end if;
        run := (target.job).stage_run_id;
        select r.stage, r.iteration into stage, iteration from stage_runs r where r.id = run;
        -- A text that is written anew belongs to a stage that was complete without it.
        if (target.job).version = 1 and (stage, iteration) <> ((target.session).current_stage, (target.session).iteration) then
            raise exception 'stage "%" of iteration % is over', stage, iteration
                using errcode = 'object_not_in_prerequisite_state',
                      detail = format('The session is at stage "%s" of iteration %s, and later stages build on what there was.',
                                      (target.session).current_stage, (target.session).iteration),
                      hint = format('dialectic.generate(session, stage => %L) starts a new iteration from there.', stage);
        end if;
        if _is_planned_past(target.job) then
            raise exception 'the plan of job "%" has completed without it', (target.job).id
                using errcode = 'object_not_in_prerequisite_state',
                      hint = format('dialectic.generate(session, stage => %L) starts a new iteration.', stage);
        end if;
        moved := _retry_jobs(array(select _ended_with(target.job)));
    end if;
    if moved > 0 and exists (
        select from jobs j where j.stage_run_id = run and j.parent_job_id is null and j.status <> all (_ended_statuses())) then
        perform _reopen_stage_run(run);
        update sessions s set status = 'active', completed_at = null where s.id = (target.session).id;
    elsif (target.session).status = 'cancelled' then
        -- Its stage was not generated yet, or is complete and waits to be submitted.
        update sessions s set status = 'active' where s.id = (target.session).id;
        perform _advance_session((target.session).id);
    end if;
    return moved;
end
$$;
comment on function retry(uuid) is
    'Brings back what failed or was cancelled: a job with its plan, or a session with its dropped models.';

-- Everything in a stage run that failed or was cancelled.
create function _retry_stage_run(run uuid) returns integer
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _retry_jobs(array(
        select j.id from jobs j
        where j.session_id = (select r.session_id from stage_runs r where r.id = run) and j.stage_run_id = run
          and j.status in ('failed', 'retry_loop_failed', 'cancelled') and not _is_planned_past(j)))
$$;

-- Plans the models that were dropped before a stage run and have no plan in it; returns how many.
create function _ask_dropped_models(run uuid) returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    target   stage_runs;
    session  sessions;
    returned text[];
begin
    select r.* into strict target from stage_runs r where r.id = run;
    select s.* into strict session from sessions s where s.id = target.session_id;
    if target.status not in ('running', 'completed', 'failed') then
        return 0;
    end if;
    returned := array(
        select m from unnest(_dropped_models(session, target.position, target.iteration)) as m
        where not exists (
            select from jobs root where root.stage_run_id = run and root.parent_job_id is null and root.model = m));
    if returned <> '{}' then
        perform _start_stage_run(
            run, returned,
            (select max(j.max_retries) from jobs j where j.stage_run_id = run and j.parent_job_id is null),
            session.is_test, null);
    end if;
    return cardinality(returned);
end
$$;

-- What must come back with a job: all below it, its failed and cancelled siblings (the plan cannot deliver without
-- them), what ended because of any of these, and the failed jobs any of these waits for.
create function _ended_with(job jobs) returns setof uuid
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
    -- How deep it goes is overestimated, and to compile it takes seconds under the lock of the session.
    set jit = off
as $$
    with recursive back(id) as (
        select j.id from jobs j
        where j.id in (select _subtree(job.session_id, job.id))
           or (j.parent_job_id = job.parent_job_id and j.version = 1
               and j.status in ('failed', 'retry_loop_failed', 'cancelled'))
        union
        select j.id
        from back
        join jobs j on j.session_id = job.session_id and j.status in ('failed', 'retry_loop_failed', 'cancelled')
        where j.cause_job_id = back.id
           or j.id in (select d.prerequisite_id from job_dependencies d where d.job_id = back.id)
    )
    select j.id from back join jobs j using (id) where j.status in ('failed', 'retry_loop_failed', 'cancelled') and not _is_planned_past(j)
$$;

-- Whether the plan above a job has completed without it: what it would deliver now would reach nobody. A text that is written anew
-- comes after its plan, and is past when a newer version is there or on its way.
create function _is_planned_past(job jobs) returns boolean
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select exists (select from jobs parent where parent.id = job.parent_job_id and parent.status in ('completed', 'superseded'))
       and (job.version = 1 or exists (
           select from jobs newer
           where newer.parent_job_id = job.parent_job_id and newer.step_key = job.step_key and newer.group_key = job.group_key
             and newer.version > job.version and newer.status not in ('failed', 'retry_loop_failed', 'cancelled')))
$$;

-- Sets these ended jobs and the ended parents above them going again, with all their attempts, in one statement: the trigger
-- must not see a child that runs below a parent that is still failed, nor the reverse.
create function _retry_jobs(ids uuid[]) returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moved integer;
begin
    update jobs j
    set status = case
            when exists (select from jobs c where c.parent_job_id = j.id and (c.id = any (ids) or c.status <> all (_ended_statuses())))
                then 'waiting_for_children'
            when exists (select from job_dependencies d join jobs p on p.id = d.prerequisite_id
                         where d.job_id = j.id and p.status not in ('completed', 'superseded')) then 'waiting_for_prerequisite'
            else _ready_status(j) end,
        attempt_count = 0, run_at = _now(), queue_position = greatest(j.queue_position, _claim_position()), completed_at = null, error_details = null
    where j.status in ('failed', 'retry_loop_failed', 'cancelled')
      and (j.id = any (ids) or j.id in (select c.parent_job_id from jobs c where c.id = any (ids)));
    get diagnostics moved = row_count;
    return moved;
end
$$;

-- Makes one job wait for others of its session; what has ended already is not waited for. The job is ready, or claimed by
-- the one who asks.
create function _wait_for(job uuid, prerequisites uuid[]) returns text
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    session uuid;
    outcome text;
begin
    perform _require_read_committed();
    select j.session_id into session from jobs j where j.id = job;
    perform from sessions s where s.id = session for no key update;
    if exists (select from unnest(prerequisites) as p
               where not exists (select from jobs j where j.id = p and j.session_id = session)) then
        raise exception 'job "%" can wait only for jobs of its own session', job
            using errcode = 'invalid_parameter_value', hint = 'Prerequisites are jobs of the same session.';
    end if;
    if exists (
        with recursive needed(id) as (
            select unnest(prerequisites)
            union
            select d.prerequisite_id from needed join job_dependencies d on d.job_id = needed.id)
        select from needed where needed.id = job) then
        raise exception 'job "%" would wait for itself', job
            using errcode = 'invalid_parameter_value', hint = 'A prerequisite must not wait for the job that needs it.';
    end if;
    insert into job_dependencies (job_id, prerequisite_id) select job, p from unnest(prerequisites) as p on conflict do nothing;
    -- Through processing, for only a claimed job may begin to wait.
    update jobs j set status = 'processing', status_before = j.status
    where j.id = job and j.status = any (_ready_statuses());
    update jobs j set status = 'waiting_for_prerequisite', claim_id = null, claimed_by = null, lease_until = null
    where j.id = job and j.status = 'processing';
    perform _wake_dependents(prerequisites);
    select j.status into outcome from jobs j where j.id = job;
    return outcome;
end
$$;

-- Replaces finished or unfinished jobs for good; what takes their place is inserted by the caller.
create function _supersede(ids uuid[]) returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moved integer;
begin
    update jobs j
    set status = 'superseded', completed_at = coalesce(j.completed_at, _now()), status_before = null,
        claim_id = null, claimed_by = null, lease_until = null
    where j.id = any (ids);
    get diagnostics moved = row_count;
    return moved;
end
$$;
