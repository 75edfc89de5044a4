-- What follows for other jobs when jobs end: who fails, is cancelled or becomes ready with them.
--
-- The job trigger calls this under the locks of the sessions (job_trigger.sql). It moves jobs, which fires the trigger
-- again for what it moved. When all plans of a stage have ended, stage_run.sql closes it. Never decides when a failed job
-- is tried again.

-- Ends what cannot go on without a job that failed or was cancelled, and notifies the owner of failures.
create function _end_relatives(moves _job_moves) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if moves.has_fallen_back then
        perform _cancel_orphans(moves.moved);
    end if;
    if moves.has_failed or exists (
        select from jobs j
        join steps_under_way u on u.stage_run_id = j.stage_run_id and u.parent_job_id = j.id and u.failed > 0
        where j.id = any (moves.waiting)) then
        perform _fail_parents(moves.moved);
    end if;
    if moves.has_cancelled then
        perform _cancel_parents(moves.moved);
    end if;
    if moves.has_failed then
        perform _tell_of_lost_versions(moves.moved);
    end if;
    if moves.failed_plans is not null then
        perform _tell_of_failures(moves.failed_plans);
    end if;
end
$$;

-- Wakes what waited for jobs that ended, and closes the stage runs whose plans have all ended.
create function _wake_waiting(moves _job_moves, done_steps steps_under_way[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if exists (select from suspect_jobs) then
        delete from suspect_jobs s where s.job_id = any (moves.ended);
    end if;
    if exists (select from job_dependencies d where d.prerequisite_id = any (moves.ended)) then
        perform _wake_dependents(moves.ended);
    end if;
    if done_steps is not null or moves.runs_of_plans is not null then
        perform _wake_parents(done_steps, moves.runs_of_plans);
    end if;
    if moves.runs_of_plans is not null then
        perform _close_stage_runs(moves.runs_of_plans);
    end if;
end
$$;

-- Cancels jobs that wait for another attempt below a plan that has failed, like their siblings that had not started.
create function _cancel_orphans(moved uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update jobs j
    set status = 'cancelled', completed_at = _now(), status_before = null,
        error_details = jsonb_build_object(
            'class', 'cancelled', 'message', 'its parent has failed',
            'cause_job', parent.error_details -> 'cause_job')
    from jobs parent
    where j.id = any (moved) and parent.id = j.parent_job_id
      and j.status <> 'processing' and j.status <> all (_ended_statuses())
      and parent.status in ('failed', 'retry_loop_failed', 'cancelled');
end
$$;

-- Fails the plans of children that failed for good, with the cause, and plans that begin to wait for such a child.
create function _fail_parents(moved uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    parents uuid[];
begin
    with failed as (
        select distinct on (parent.id) parent.id as parent_id, child.id, child.step_key, child.model,
               child.error_details
        from jobs moved_job
        join jobs parent on parent.id = case when moved_job.status = 'waiting_for_children' then moved_job.id
                                             else moved_job.parent_job_id end
        join steps_under_way u on u.stage_run_id = parent.stage_run_id and u.parent_job_id = parent.id and u.failed > 0
        join jobs child on child.parent_job_id = parent.id and child.step_key = u.step_key
            and child.status in ('failed', 'retry_loop_failed')
        where moved_job.id = any (moved)
          and moved_job.status in ('failed', 'retry_loop_failed', 'waiting_for_children')
        order by parent.id, child.completed_at, child.id
    ),
    parent_failed as (
        update jobs p
        set status = 'failed', completed_at = _now(), status_before = null, claim_id = null, claimed_by = null,
            lease_until = null,
            error_details = jsonb_strip_nulls(jsonb_build_object(
                'class', failed.error_details -> 'class', 'sqlstate', failed.error_details -> 'sqlstate',
                'message', format('step "%s" of model %s failed: %s', failed.step_key, failed.model,
                                  failed.error_details ->> 'message'),
                'hint', failed.error_details -> 'hint', 'cause_job', failed.id))
        from failed
        where p.id = failed.parent_id
          and p.status in ('waiting_for_children', 'waiting_for_prerequisite', 'processing')
        returning p.id
    )
    select array_agg(id) into parents from parent_failed;
    if parents is not null then
        perform _cancel_siblings(parents, 'a sibling failed');
    end if;
end
$$;

-- Cancels the plans of children that were cancelled: they cannot deliver without them. A new version of a document
-- (version > 1) belongs to a plan that has completed.
create function _cancel_parents(moved uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    parents uuid[];
begin
    with cancelled as (
        select distinct on (c.parent_job_id) c.parent_job_id, c.id, c.step_key, c.error_details
        from jobs c
        where c.id = any (moved) and c.status = 'cancelled' and c.parent_job_id is not null and c.version = 1
        order by c.parent_job_id, c.id
    ),
    parent_cancelled as (
        update jobs p
        set status = 'cancelled', completed_at = _now(), status_before = null, claim_id = null, claimed_by = null,
            lease_until = null,
            error_details = jsonb_build_object(
                'class', 'cancelled', 'cause_job', cancelled.id,
                'message', format('step "%s" was %s', cancelled.step_key, cancelled.error_details ->> 'message'))
        from cancelled
        where p.id = cancelled.parent_job_id and p.status <> all (_ended_statuses())
        returning p.id
    )
    select array_agg(id) into parents from parent_cancelled;
    if parents is not null then
        perform _cancel_siblings(parents, 'a sibling was cancelled');
    end if;
end
$$;

-- Cancels the children of these plans that neither run nor have ended, with the cause of the plan.
create function _cancel_siblings(parents uuid[], message text) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update jobs sibling
    set status = 'cancelled', completed_at = _now(), status_before = null,
        error_details = jsonb_build_object(
            'class', 'cancelled', 'message', _cancel_siblings.message,
            'cause_job', parent.error_details -> 'cause_job')
    from jobs parent
    where parent.id = any (parents) and sibling.parent_job_id = parent.id
      and sibling.status <> 'processing' and sibling.status <> all (_ended_statuses());
end
$$;

-- Wakes every job whose prerequisites are all complete; fails those whose prerequisite failed or was cancelled.
create function _wake_dependents(ended uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update jobs waiter
    set status = 'failed', completed_at = _now(), status_before = null,
        error_details = jsonb_build_object(
            'class', 'permanent',
            'message', format('prerequisite %s is %s: %s', cause.id, cause.status,
                              coalesce(cause.error_details ->> 'message', 'no cause given')),
            'cause_job', cause.id)
    from job_dependencies d
    join jobs cause on cause.id = d.prerequisite_id and cause.status in ('failed', 'retry_loop_failed', 'cancelled')
    where d.prerequisite_id = any (ended) and waiter.id = d.job_id and waiter.status = 'waiting_for_prerequisite';

    update jobs waiter
    set status = _ready_status(waiter), status_before = null, run_at = least(waiter.run_at, _now()),
        queue_position = greatest(waiter.queue_position, _claim_position())
    where waiter.id in (select d.job_id from job_dependencies d where d.prerequisite_id = any (ended))
      and waiter.status = 'waiting_for_prerequisite'
      and not exists (
          select from job_dependencies d
          join jobs needed on needed.id = d.prerequisite_id and needed.status not in ('completed', 'superseded')
          where d.job_id = waiter.id);
end
$$;

-- The ready status of a job after a wait or a pause: the one it had before, otherwise the first one of its kind.
create function _ready_status(job jobs) returns text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case when job.status_before = any (_ready_statuses()) then job.status_before
                when job.kind = 'execute' and job.target_contribution_id is not null then 'pending_continuation'
                when job.kind = 'plan' and job.planned_steps is not null then 'pending_next_step'
                else 'pending' end
$$;

-- Wakes the plans whose children have all ended. When the last job of a step or a plan of the stage run has ended, all
-- its plans are candidates, because steps may wait for other models. A plan that finds nothing to do waits again.
create function _wake_parents(done_steps steps_under_way[], runs_of_plans uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    -- Three statements, each by its index: one large query would be planned for other numbers of rows.
    whole uuid[] := runs_of_plans || array(
        select step.stage_run_id
        from unnest(done_steps) as step
        where not exists (
            select from steps_under_way u
            where u.stage_run_id = step.stage_run_id and u.step_key = step.step_key and u.unfinished > 0));
    candidates uuid[] := array(select step.parent_job_id from unnest(done_steps) as step) || array(
        select root.id from jobs root where root.stage_run_id = any (whole) and root.parent_job_id is null);
    woken uuid[] := array(
        select parent.id
        from jobs parent
        where parent.id = any (candidates) and parent.status = 'waiting_for_children'
          and not exists (
              select from steps_under_way u
              where u.stage_run_id = parent.stage_run_id and u.parent_job_id = parent.id and u.unfinished > 0));
    first_position bigint;
begin
    if woken <> '{}' then
        first_position := _claim_position();
        update jobs parent
        set status = 'pending_next_step', run_at = least(parent.run_at, _now()),
            queue_position = greatest(parent.queue_position, first_position)
        where parent.id = any (woken);
    end if;
end
$$;
