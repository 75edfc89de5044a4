-- handle_job_completion: what follows when jobs move, decided once, for whole sets, in the transaction that moved them.
--
-- It refuses every move that job_transitions does not list. When jobs end it fails the parents of those that failed,
-- cancels the parents of those that were cancelled, wakes all jobs that waited for them and the parents whose children
-- are all done, and closes the stage runs whose roots ended.
-- It never calls a model, and never reads a clock but _now().
--
-- Lock order: wallets by owner where money moves (payment.sql), the sessions by id, then their jobs. Every verb takes the lock of the session before it touches a job (a claim
-- takes only job rows, and skips locked ones), so whoever counts children counts alone: the one who came second waits here,
-- and his next statement sees what the first one committed. That holds in READ COMMITTED only, and no other level is let in.

create function handle_job_completion() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    seen         record;
    -- The steps that a parent has no unfinished jobs of any more.
    done_runs    uuid[];
    done_parents uuid[];
    done_steps   text[];
    forgotten    boolean;
begin
    -- A claim only takes jobs that are there to be taken, and takes them out of the line itself: nothing follows from it. It is the
    -- most frequent move, and so looked for first.
    if not exists (select from new_jobs n where n.status <> 'processing' or n.claim_id is null)
        and not exists (select from old_jobs o where o.status <> all (_ready_statuses())) then
        return null;
    end if;
    -- A full join, for it can only be hashed: a plan that was made for one row must not compare ten thousand with each other.
    select array_agg(n.id) filter (where n.status <> o.status and n.status <> 'processing') as moved,
           (array_agg(n.id) filter (where n.status <> o.status and t.from_status is null))[1] as illegal,
           array_agg(n.id) filter (where n.status <> o.status and n.status = any (_ended_statuses())) as ended,
           array_agg(distinct n.stage_run_id)
               filter (where n.status <> o.status and n.status = any (_ended_statuses()) and n.parent_job_id is null) as runs,
           array_agg((n.stage_run_id, n.parent_job_id, n.step_key,
                      (n.status <> all (_ended_statuses()))::integer - (o.status <> all (_ended_statuses()))::integer,
                      (n.status in ('failed', 'retry_loop_failed'))::integer - (o.status in ('failed', 'retry_loop_failed'))::integer
                     )::steps_under_way)
               filter (where n.status <> o.status and n.parent_job_id is not null
                         and (n.status = any (_ended_statuses()) or o.status = any (_ended_statuses()))) as counted,
           bool_or(n.status <> o.status and n.parent_job_id is not null and n.status <> 'processing'
                   and n.status <> all (_ended_statuses())) as fell_back,
           bool_or(n.status <> o.status and n.status in ('failed', 'retry_loop_failed')) as failed,
           bool_or(n.status <> o.status and n.status = 'cancelled' and n.parent_job_id is not null and n.version = 1)
               as cancelled,
           array_agg(n.id) filter (where n.status <> o.status and n.status = 'waiting_for_children') as waiting,
           array_agg(n.id) filter (where n.status <> o.status and n.status in ('failed', 'retry_loop_failed') and n.parent_job_id is null) as failed_roots,
           bool_or(n.status <> o.status and o.status = 'processing') as revoked,
           bool_or(n.queue <> o.queue or n.priority <> o.priority or n.is_test_job <> o.is_test_job) as changed_queue,
           array_agg((o.id, o.queue, o.is_test_job, o.priority, o.queue_position, o.run_at, o.status = 'retrying', o.session_id)::ready_jobs) filter (
               where o.status = any (_ready_statuses()) and not (n.status = 'processing' and n.claim_id is not null)
                 and (o.status, o.queue, o.is_test_job, o.priority, o.queue_position, o.run_at)
                     <> (n.status, n.queue, n.is_test_job, n.priority, n.queue_position, n.run_at)) as left_line,
           array_agg((n.id, n.queue, n.is_test_job, n.priority, n.queue_position, n.run_at, n.status = 'retrying', n.session_id)::ready_jobs) filter (
               where n.status = any (_ready_statuses())
                 and (o.status, o.queue, o.is_test_job, o.priority, o.queue_position, o.run_at)
                     <> (n.status, n.queue, n.is_test_job, n.priority, n.queue_position, n.run_at)) as joined_line,
           min(n.queue_position) filter (where n.status = any (_ready_statuses())) as first_position
    into seen
    from new_jobs n
    full join old_jobs o on o.id = n.id
    left join job_transitions t on t.from_status = o.status and t.to_status = n.status;
    if seen.illegal is not null then
        raise exception 'job "%" cannot go from "%" to "%"', seen.illegal,
                (select o.status from old_jobs o where o.id = seen.illegal), (select n.status from new_jobs n where n.id = seen.illegal)
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'dialectic.job_transitions lists every legal move.';
    end if;
    if seen.changed_queue then
        insert into queues (name, is_test, priority) select distinct n.queue, n.is_test_job, n.priority from new_jobs n on conflict do nothing;
    end if;
    if seen.left_line is not null then
        delete from ready_jobs r
        using unnest(seen.left_line) as l
        where (r.queue, r.is_test, r.priority, r.is_delayed, r.queue_position, r.job_id)
            = (l.queue, l.is_test, l.priority, l.is_delayed, l.queue_position, l.job_id);
    end if;
    if seen.joined_line is not null then
        insert into ready_jobs select * from unnest(seen.joined_line);
    end if;
    if seen.first_position is not null or seen.revoked then
        perform _notify_worker(seen.first_position, coalesce(seen.revoked, false));
    end if;
    if seen.moved is null then
        return null;
    end if;

    perform _require_read_committed();
    perform from sessions s
    where s.id in (select n.session_id from new_jobs n where n.id = any (seen.moved))
    order by s.id
    for no key update;

    if seen.counted is not null then
        with counted as (
            insert into steps_under_way as u (stage_run_id, parent_job_id, step_key, unfinished, failed)
            select c.stage_run_id, c.parent_job_id, c.step_key, sum(c.unfinished), sum(c.failed)
            from unnest(seen.counted) as c
            group by 1, 2, 3
            on conflict (stage_run_id, parent_job_id, step_key) do update
                set unfinished = u.unfinished + excluded.unfinished, failed = u.failed + excluded.failed
            returning u.stage_run_id, u.parent_job_id, u.step_key, u.unfinished, u.failed
        )
        select array_agg(c.stage_run_id), array_agg(c.parent_job_id), array_agg(c.step_key), bool_or(c.failed = 0)
        into done_runs, done_parents, done_steps, forgotten
        from counted c
        where c.unfinished = 0;
        if forgotten then
            delete from steps_under_way u
            using unnest(done_runs, done_parents, done_steps) as d(stage_run_id, parent_job_id, step_key)
            where (u.stage_run_id, u.parent_job_id, u.step_key) = (d.stage_run_id, d.parent_job_id, d.step_key)
              and u.unfinished = 0 and u.failed = 0;
        end if;
    end if;
    if seen.fell_back then
        perform _cancel_orphans(seen.moved);
    end if;
    if seen.failed or exists (
        select from jobs j
        join steps_under_way u on u.stage_run_id = j.stage_run_id and u.parent_job_id = j.id and u.failed > 0
        where j.id = any (seen.waiting)) then
        perform _fail_parents(seen.moved);
    end if;
    if seen.cancelled then
        perform _cancel_parents(seen.moved);
    end if;
    if seen.failed then
        perform _tell_of_lost_versions(seen.moved);
    end if;
    if seen.failed_roots is not null then
        perform _tell_of_failures(seen.failed_roots);
    end if;
    if seen.ended is not null then
        if exists (select from suspect_jobs) then
            delete from suspect_jobs s where s.job_id = any (seen.ended);
        end if;
        if exists (select from job_dependencies d where d.prerequisite_id = any (seen.ended)) then
            perform _wake_dependents(seen.ended);
        end if;
        if done_runs is not null or seen.runs is not null then
            perform _wake_parents(done_runs, done_parents, done_steps, seen.runs);
        end if;
        if seen.runs is not null then
            perform _close_stage_runs(seen.runs);
        end if;
    end if;
    return null;
end
$$;
comment on function handle_job_completion() is 'Refuses illegal moves; when jobs end, wakes or fails all that waited for them.';

create trigger handle_job_completion
    after update on jobs
    referencing old table as old_jobs new table as new_jobs
    for each statement execute function handle_job_completion();

-- New jobs stand in line and are counted; the worker hears of them when they are committed.
create function _enqueue_jobs() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into queues (name, is_test, priority)
    select n.queue, n.is_test_job, n.priority
    from new_jobs n
    group by 1, 2, 3
    having not exists (
        select from queues l where (l.name, l.is_test, l.priority) = (n.queue, n.is_test_job, n.priority))
    on conflict do nothing;
    -- Only a restore brings jobs before their session: its work waits until somebody says that it is meant to go on here.
    if exists (
        select from (select distinct n.session_id from new_jobs n) as new_job
        where not exists (select from sessions s where s.id = new_job.session_id)) then
        perform set_config('worker_enabled', 'false');
    end if;
    insert into ready_jobs (job_id, queue, is_test, priority, queue_position, run_at, is_delayed, session_id)
    select n.id, n.queue, n.is_test_job, n.priority, n.queue_position, n.run_at, n.status = 'retrying', n.session_id
    from new_jobs n
    where n.status = any (_ready_statuses());
    insert into steps_under_way as u (stage_run_id, parent_job_id, step_key, unfinished, failed)
    select n.stage_run_id, n.parent_job_id, n.step_key, count(*) filter (where n.status <> all (_ended_statuses())),
           count(*) filter (where n.status in ('failed', 'retry_loop_failed'))
    from new_jobs n
    where n.parent_job_id is not null and (n.status <> all (_ended_statuses()) or n.status in ('failed', 'retry_loop_failed'))
    group by 1, 2, 3
    on conflict (stage_run_id, parent_job_id, step_key) do update
        set unfinished = u.unfinished + excluded.unfinished, failed = u.failed + excluded.failed;
    perform _notify_worker(min(n.queue_position), false) from new_jobs n having count(*) > 0;
    return null;
end
$$;
create trigger _enqueue_jobs
    after insert on jobs
    referencing new table as new_jobs
    for each statement execute function _enqueue_jobs();

-- A job that was running when its parent failed may finish; if it falls back to wait for another attempt instead, it is
-- cancelled like the siblings that had not started.
create function _cancel_orphans(moved uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update jobs j
    set status = 'cancelled', completed_at = _now(), status_before = null,
        error_details = jsonb_build_object('class', 'cancelled', 'message', 'its parent has failed', 'cause_job', parent.error_details -> 'cause_job')
    from jobs parent
    where j.id = any (moved) and parent.id = j.parent_job_id
      and j.status <> 'processing' and j.status <> all (_ended_statuses())
      and parent.status in ('failed', 'retry_loop_failed', 'cancelled');
end
$$;

-- A child that failed for good fails its parent at once, with the cause; siblings not yet started are cancelled. A parent
-- that begins to wait when a child has already failed is treated alike.
create function _fail_parents(moved uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    parents uuid[];
begin
    with failed as (
        select distinct on (parent.id) parent.id as parent_id, child.id, child.step_key, child.document_key, child.model,
               child.error_details
        from jobs moved_job
        join jobs parent on parent.id = case when moved_job.status = 'waiting_for_children' then moved_job.id else moved_job.parent_job_id end
        join steps_under_way u on u.stage_run_id = parent.stage_run_id and u.parent_job_id = parent.id and u.failed > 0
        join jobs child on child.parent_job_id = parent.id and child.step_key = u.step_key and child.status in ('failed', 'retry_loop_failed')
        where moved_job.id = any (moved) and moved_job.status in ('failed', 'retry_loop_failed', 'waiting_for_children')
        order by parent.id, child.completed_at, child.id
    ),
    parent_failed as (
        update jobs p
        set status = 'failed', completed_at = _now(), status_before = null, claim_id = null, claimed_by = null, lease_until = null,
            error_details = jsonb_build_object(
                'class', failed.error_details -> 'class',
                'message', format('step "%s" of model %s failed: %s', failed.step_key, failed.model, failed.error_details ->> 'message'),
                'cause_job', failed.id)
        from failed
        where p.id = failed.parent_id and p.status in ('waiting_for_children', 'waiting_for_prerequisite', 'processing')
        returning p.id
    )
    select array_agg(id) into parents from parent_failed;
    if parents is null then
        return;
    end if;

    update jobs sibling
    set status = 'cancelled', completed_at = _now(), status_before = null,
        error_details = jsonb_build_object(
            'class', 'cancelled', 'message', 'a sibling failed', 'cause_job', parent.error_details -> 'cause_job')
    from jobs parent
    where parent.id = any (parents) and sibling.parent_job_id = parent.id
      and sibling.status <> 'processing' and sibling.status <> all (_ended_statuses());
end
$$;

-- A plan cannot deliver without a job that was cancelled, so it is cancelled with it, and so are the jobs that have not
-- begun. A new version of a document (version > 1) belongs to a plan that has completed.
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
    if parents is null then
        return;
    end if;

    update jobs sibling
    set status = 'cancelled', completed_at = _now(), status_before = null,
        error_details = jsonb_build_object(
            'class', 'cancelled', 'message', 'a sibling was cancelled',
            'cause_job', parent.error_details -> 'cause_job')
    from jobs parent
    where parent.id = any (parents) and sibling.parent_job_id = parent.id
      and sibling.status <> 'processing' and sibling.status <> all (_ended_statuses());
end
$$;

-- Wakes every job whose prerequisites are now all complete; one that ended otherwise fails those that waited for it.
create function _wake_dependents(ended uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update jobs waiter
    set status = 'failed', completed_at = _now(), status_before = null,
        error_details = jsonb_build_object(
            'class', 'permanent',
            'message', format('prerequisite %s is %s: %s', cause.id, cause.status, coalesce(cause.error_details ->> 'message', 'no cause given')),
            'cause_job', cause.id)
    from job_dependencies d
    join jobs cause on cause.id = d.prerequisite_id and cause.status in ('failed', 'retry_loop_failed', 'cancelled')
    where d.prerequisite_id = any (ended) and waiter.id = d.job_id and waiter.status = 'waiting_for_prerequisite';

    update jobs waiter
    set status = _ready_status(waiter), status_before = null, run_at = least(waiter.run_at, _now()), queue_position = greatest(waiter.queue_position, _claim_position())
    where waiter.id in (select d.job_id from job_dependencies d where d.prerequisite_id = any (ended))
      and waiter.status = 'waiting_for_prerequisite'
      and not exists (
          select from job_dependencies d
          join jobs needed on needed.id = d.prerequisite_id and needed.status not in ('completed', 'superseded')
          where d.job_id = waiter.id);
end
$$;

-- The ready state a job goes back to after a wait or a pause: the one it came from, else the one its kind begins with.
create function _ready_status(job jobs) returns text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case when job.status_before = any (_ready_statuses()) then job.status_before
                when job.kind = 'execute' and job.target_contribution_id is not null then 'pending_continuation'
                when job.kind = 'plan' and job.planned_steps is not null then 'pending_next_step'
                else 'pending' end
$$;

-- Wakes the parents whose children are all done, and, when the last job of a step or a root of the stage run has ended, every
-- root of that stage run that waits for other models. A root woken for nothing plans nothing and waits again. Given are the steps
-- that a parent has no unfinished jobs of any more, and the stage runs of which a root has ended.
create function _wake_parents(runs uuid[], parents uuid[], steps text[], runs_of_roots uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    -- Step by step, for each is found by its index; one large query would be planned for other numbers than it meets.
    whole uuid[] := runs_of_roots || array(
        select step.stage_run_id
        from unnest(runs, steps) as step(stage_run_id, step_key)
        where not exists (
            select from steps_under_way u
            where u.stage_run_id = step.stage_run_id and u.step_key = step.step_key and u.unfinished > 0));
    roots uuid[] := array(select root.id from jobs root where root.stage_run_id = any (whole) and root.parent_job_id is null);
    woken uuid[] := array(
        select parent.id
        from jobs parent
        where parent.id = any (parents || roots) and parent.status = 'waiting_for_children'
          and not exists (
              select from steps_under_way u
              where u.stage_run_id = parent.stage_run_id and u.parent_job_id = parent.id and u.unfinished > 0));
    standing bigint;
begin
    if woken <> '{}' then
        standing := _claim_position();
        update jobs parent
        set status = 'pending_next_step', run_at = least(parent.run_at, _now()), queue_position = greatest(parent.queue_position, standing)
        where parent.id = any (woken);
    end if;
end
$$;
