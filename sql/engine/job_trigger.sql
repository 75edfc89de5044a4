-- The triggers on jobs: they refuse illegal moves, keep the ready queue and the counts of steps, and pass endings on.
--
-- Each trigger works on all rows of a statement at once. What an ending means for other jobs is decided in
-- job_endings.sql, what it means for the stage in stage_run.sql. The triggers never call a model and render no prompt.
--
-- Lock order: wallets by owner where money moves (payment.sql), then sessions by id, then their jobs. Every function
-- that moves jobs locks their sessions first (a claim locks jobs only, with SKIP LOCKED), so one transaction at a time
-- counts the children of a session. The next one reads what it committed: that holds in READ COMMITTED only.

-- What a statement has changed. Only the trigger function sees the transition tables, so it sums them up in this.
create type _job_moves as (
    -- The first move that job_transitions does not list.
    illegal_job     uuid,
    illegal_from    text,
    illegal_to      text,
    -- The jobs that have a new status other than processing, and their sessions.
    moved           uuid[],
    sessions        uuid[],
    ended           uuid[],
    -- Jobs that begin to wait for children.
    waiting         uuid[],
    failed_plans    uuid[],
    -- The stage runs of plans that ended.
    runs_of_plans   uuid[],
    has_failed      boolean,
    -- Whether a child was cancelled that its plan needs.
    has_cancelled   boolean,
    -- Whether a child waits for another attempt.
    has_fallen_back boolean,
    -- Whether a claim has ended: its claimer may have to cancel a call.
    has_revoked     boolean,
    -- By how much the counts of unfinished and failed jobs change.
    step_changes    steps_under_way[],
    new_queues      queues[],
    left_queue      ready_jobs[],
    joined_queue    ready_jobs[],
    first_position  bigint
);

create function handle_job_completion() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moves _job_moves;
begin
    -- Nothing follows from a claim, which is the most frequent move and keeps the ready queue itself.
    if not exists (select from new_jobs n where n.status <> 'processing' or n.claim_id is null)
        and not exists (select from old_jobs o where o.status <> all (_ready_statuses())) then
        return null;
    end if;
    -- A full join is always hashed: a plan made for one row must not compare ten thousand rows with each other.
    select (array_agg(n.id) filter (where c.moved and t.from_status is null))[1],
           (array_agg(o.status) filter (where c.moved and t.from_status is null))[1],
           (array_agg(n.status) filter (where c.moved and t.from_status is null))[1],
           array_agg(n.id) filter (where c.moved and n.status <> 'processing'),
           array_agg(distinct n.session_id) filter (where c.moved and n.status <> 'processing'),
           array_agg(n.id) filter (where c.moved and c.ended),
           array_agg(n.id) filter (where c.moved and n.status = 'waiting_for_children'),
           array_agg(n.id) filter (where c.moved and c.failed and n.parent_job_id is null),
           array_agg(distinct n.stage_run_id) filter (where c.moved and c.ended and n.parent_job_id is null),
           bool_or(c.moved and c.failed),
           bool_or(c.moved and n.status = 'cancelled' and n.parent_job_id is not null and n.version = 1),
           bool_or(c.moved and not c.ended and n.status <> 'processing' and n.parent_job_id is not null),
           bool_or(c.moved and o.status = 'processing'),
           array_agg((n.stage_run_id, n.parent_job_id, n.step_key, c.had_ended::integer - c.ended::integer,
                      c.failed::integer - c.had_failed::integer)::steps_under_way)
               filter (where c.moved and n.parent_job_id is not null and (c.ended or c.had_ended)),
           array_agg((n.queue, n.is_test_job, n.priority)::queues) filter (where c.has_new_queue),
           array_agg((o.id, o.queue, o.is_test_job, o.priority, o.queue_position, o.run_at, o.status = 'retrying',
                      o.session_id)::ready_jobs)
               filter (where c.was_ready and c.has_new_place and (n.status <> 'processing' or n.claim_id is null)),
           array_agg((n.id, n.queue, n.is_test_job, n.priority, n.queue_position, n.run_at, n.status = 'retrying',
                      n.session_id)::ready_jobs) filter (where c.is_ready and c.has_new_place),
           min(n.queue_position) filter (where c.is_ready)
    into moves
    from new_jobs n
    full join old_jobs o on o.id = n.id
    left join job_transitions t on t.from_status = o.status and t.to_status = n.status
    cross join lateral (select n.status <> o.status, n.status = any (_ended_statuses()),
               o.status = any (_ended_statuses()), n.status in ('failed', 'retry_loop_failed'),
               o.status in ('failed', 'retry_loop_failed'), n.status = any (_ready_statuses()),
               o.status = any (_ready_statuses()),
               (n.queue, n.priority, n.is_test_job) <> (o.queue, o.priority, o.is_test_job),
               (n.status, n.queue, n.is_test_job, n.priority, n.queue_position, n.run_at)
                   <> (o.status, o.queue, o.is_test_job, o.priority, o.queue_position, o.run_at)
        ) as c(moved, ended, had_ended, failed, had_failed, is_ready, was_ready, has_new_queue, has_new_place);
    perform _follow_moves(moves);
    return null;
end
$$;
comment on function handle_job_completion() is
    'Refuses illegal moves; when jobs end, wakes or fails all that waited for them.';

create trigger handle_job_completion
    after update on jobs
    referencing old table as old_jobs new table as new_jobs
    for each statement execute function handle_job_completion();

-- Decides the order: a move is legal before anything follows from it, the queue is right before a worker is woken, and
-- sessions are locked before anything is counted.
create function _follow_moves(moves _job_moves) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    -- The steps that a plan has no unfinished jobs of any more.
    done_steps steps_under_way[];
begin
    if moves.illegal_job is not null then
        raise exception 'job "%" cannot go from "%" to "%"', moves.illegal_job, moves.illegal_from, moves.illegal_to
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'dialectic.job_transitions lists every legal move.';
    end if;
    if moves.left_queue is not null or moves.joined_queue is not null or moves.new_queues is not null then
        perform _sync_ready_queue(moves);
    end if;
    if moves.first_position is not null or moves.has_revoked or moves.moved is not null then
        perform _notify_worker(moves.first_position, coalesce(moves.has_revoked, false), moves.moved is not null);
    end if;
    if moves.moved is null then
        return;
    end if;
    perform _require_read_committed();
    perform from sessions s where s.id = any (moves.sessions) order by s.id for no key update;
    if moves.step_changes is not null then
        done_steps := _count_steps(moves.step_changes);
    end if;
    if moves.has_failed or moves.has_cancelled or moves.has_fallen_back or moves.waiting is not null then
        perform _end_relatives(moves);
    end if;
    if moves.ended is not null then
        perform _wake_waiting(moves, done_steps);
    end if;
end
$$;

-- Takes jobs out of the ready queue that are no longer ready, and puts those in that are, each at its place.
create function _sync_ready_queue(moves _job_moves) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if moves.new_queues is not null then
        insert into queues select distinct q.* from unnest(moves.new_queues) as q on conflict do nothing;
    end if;
    if moves.left_queue is not null then
        delete from ready_jobs r
        using unnest(moves.left_queue) as l
        where (r.queue, r.is_test, r.priority, r.is_delayed, r.queue_position, r.job_id)
            = (l.queue, l.is_test, l.priority, l.is_delayed, l.queue_position, l.job_id);
    end if;
    if moves.joined_queue is not null then
        insert into ready_jobs select * from unnest(moves.joined_queue);
    end if;
end
$$;

-- Counts the unfinished and failed jobs of each step; returns the steps that have no unfinished job any more.
create function _count_steps(changes steps_under_way[]) returns steps_under_way[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    done            steps_under_way[];
    -- A step without unfinished and failed jobs has no row.
    has_counted_out boolean;
begin
    with counted as (
        insert into steps_under_way as u (stage_run_id, parent_job_id, step_key, unfinished, failed)
        select c.stage_run_id, c.parent_job_id, c.step_key, sum(c.unfinished), sum(c.failed)
        from unnest(changes) as c
        group by 1, 2, 3
        on conflict (stage_run_id, parent_job_id, step_key) do update
            set unfinished = u.unfinished + excluded.unfinished, failed = u.failed + excluded.failed
        returning u.stage_run_id, u.parent_job_id, u.step_key, u.unfinished, u.failed
    )
    select array_agg((c.stage_run_id, c.parent_job_id, c.step_key, c.unfinished, c.failed)::steps_under_way),
           bool_or(c.failed = 0)
    into done, has_counted_out
    from counted c
    where c.unfinished = 0;
    if has_counted_out then
        delete from steps_under_way u
        using unnest(done) as d
        where (u.stage_run_id, u.parent_job_id, u.step_key) = (d.stage_run_id, d.parent_job_id, d.step_key)
          and u.unfinished = 0 and u.failed = 0;
    end if;
    return done;
end
$$;

-- Puts new jobs into the ready queue, counts them, and wakes the worker at commit.
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
    -- Only a restore inserts jobs before their session: the worker must not run them until an admin enables it.
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
    where n.parent_job_id is not null
      and (n.status <> all (_ended_statuses()) or n.status in ('failed', 'retry_loop_failed'))
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
