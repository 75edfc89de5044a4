-- Why something does not move: the view blocked. Only reads; self_check.sql checks invariants.

create view blocked with (security_invoker) as
    -- Read once: the clock and the claimers move while the view is read, and asking for each job is slow.
    with at as materialized (
        select _now() as moment, claimers.worked, _live_claimers() as live_claimers,
               not claimers.worked and get_config('worker_enabled') <> 'true' as is_switched_off
        from (select _any_claimer_works()) as claimers(worked)
    ),
    held_up as materialized (select * from _hold_ups())
    select j.session_id, j.id as job_id, j.kind, j.step_key, j.model, j.status,
           case
               when h.sqlstate is not null then 'held_up'
               when j.status in ('paused_user', 'paused_nsf', 'waiting_for_prerequisite', 'waiting_for_children')
                   then j.status
               when j.status = 'processing' and waits.for_money then 'waiting_for_money'
               when j.status = 'processing' then 'claimer_died'
               when m.name is null and j.kind = 'execute' then 'no_model'
               when j.kind = 'execute' and c.paused_reason is not null then 'provider_paused'
               when j.kind = 'execute' and c.free_at > at.moment then 'provider_cooldown'
               when j.run_at > at.moment then 'not_due'
               when j.is_test_job then 'test_job'
               when at.is_switched_off then 'worker_disabled'
               when not at.worked then 'no_worker'
               else 'due'
           end as cause_code,
           case
               when h.sqlstate is not null then format(
                   'an error holds up %s, which is tried again%s (SQLSTATE %s, %s%s)',
                   case when h.is_of_all then 'the whole queue' else 'its session' end,
                   ': ' || h.message, h.sqlstate, _count_with_noun(h.failures, 'failure'), ' since ' || h.since)
               when j.status = 'paused_user' then 'paused by a person; resume() lets it go on'
               when j.status = 'paused_nsf' then coalesce((
                   select w.problem || '; ' || w.hint
                   from unfunded_jobs u, _want_of_funds(u) as w
                   where u.job_id = j.id), 'no funds; resume() tries again')
               when j.status = 'waiting_for_prerequisite' then 'waiting for ' || coalesce((
                   select string_agg(format('job %s (%s, %s)', p.id, p.step_key, p.status), ', ' order by p.id)
                   from job_dependencies d join jobs p on p.id = d.prerequisite_id
                   where d.job_id = j.id and p.status not in ('completed', 'superseded')),
                   'nothing: it should have been woken; see self_check()')
               when j.status = 'waiting_for_children' and children.unfinished > 0
                   then format('waiting for %s of its jobs', children.unfinished)
               when j.status = 'waiting_for_children' then 'waiting for the other models of the stage: ' || coalesce((
                   select string_agg(other.model, ', ' order by other.model) from jobs other
                   where other.stage_run_id = j.stage_run_id and other.parent_job_id is null and other.id <> j.id
                     and other.status <> all (_ended_statuses())), 'none is left; see self_check()')
               when j.status = 'processing' and waits.for_money
                   then 'waits for money that other calls hold, and may give back'
               when j.status = 'processing' and j.lease_until is not null
                   then 'its worker let the lease pass; the next claim frees it'
               when j.status = 'processing' and at.is_switched_off
                   then 'its claimer died, and the worker is switched off: '
                        'SELECT dialectic.set_config(''worker_enabled'', ''true'')'
               when j.status = 'processing' then 'its claimer died; the next claim frees it'
               when m.name is null and j.kind = 'execute' then format('model "%s" does not exist any more', j.model)
               when j.kind = 'execute' and c.paused_reason is not null then format(
                   '%s is paused: %s; correct it with %s(…)',
                   case c.paused_model when '' then 'provider ' || c.provider else 'model ' || c.paused_model end,
                   c.paused_reason,
                   case c.paused_model when '' then 'set_secret(…) or add_provider' else 'add_model' end)
               when j.kind = 'execute' and c.free_at > at.moment and c.failures >= _breaker_threshold() then format(
                   'provider %s failed %s times in a row and is left alone until %s', c.provider, c.failures, c.free_at)
               when j.kind = 'execute' and c.free_at > at.moment then format(
                   'provider %s is throttled until %s, %s in a row', c.provider, c.free_at, c.throttles)
               when j.status = 'retrying' and j.run_at > at.moment then format(
                   'tried again at %s; the last attempt failed: %s', j.run_at, j.error_details ->> 'message')
               when j.run_at > at.moment then format('not due until %s', j.run_at)
               when j.is_test_job then 'a test job: only run_pending works it'
               when at.is_switched_off
                   then 'the worker is switched off: SELECT dialectic.set_config(''worker_enabled'', ''true'')'
               when not at.worked then 'no worker: nobody works the queue; CALL dialectic.run_pending()'
               -- A claimer may have come or gone while the view was read.
               else 'due now: the next claim takes it'
           end as cause
    from at
    cross join (
        select root.* from stage_runs r join jobs root on root.stage_run_id = r.id and root.parent_job_id is null
        where r.status = 'running' and root.status <> all (_ended_statuses())
        union all
        select child.*
        from steps_under_way u
        join jobs child on child.parent_job_id = u.parent_job_id and child.step_key = u.step_key
        where u.unfinished > 0 and child.status <> all (_ended_statuses())
    ) as j
    left join _current_models m on m.name = j.model
    left join _closed_models c on c.model = m.name
    left join lateral (
        select sum(u.unfinished) as unfinished from steps_under_way u
        where u.stage_run_id = j.stage_run_id and u.parent_job_id = j.id) as children on true
    cross join lateral (
        select case when j.lease_until is not null then j.lease_until >= at.moment
                    else coalesce(_claimer_lock_id(j.claimed_by) = any (at.live_claimers), false) end as is_live) as claim
    -- A claimer that lives holds the job, and has opened no call for it.
    cross join lateral (
        select j.status = 'processing' and j.kind not in ('plan', 'render') and j.lease_until is null and claim.is_live
               and (exists (select from sessions s join wallets w on w.owner = s.owner
                            where s.id = j.session_id and w.held > 0)
                    or exists (select from budgets b where b.session_id = j.session_id and b.held > 0))
               and not exists (select from model_calls o where o.job_id = j.id and o.claim_id = j.claim_id)
               as for_money) as waits
    -- An error holds up only jobs that would run; a job that waits for other jobs waits for those.
    left join lateral (
        select * from held_up e
        where (e.is_of_all or e.session_id = j.session_id)
          and ((j.status = 'processing' and j.lease_until is null)
               or (j.status = any (_ready_statuses()) and j.run_at <= at.moment and not j.is_test_job))
        order by e.is_of_all
        limit 1) as h on true
    where (waits.for_money or h.sqlstate is not null or not (j.status = 'processing' and claim.is_live))
      and not (h.sqlstate is null and j.status = any (_ready_statuses()) and j.run_at <= at.moment
               and not j.is_test_job and at.worked
               and (j.kind <> 'execute'
                    or (m.name is not null and c.paused_reason is null
                        and (c.free_at is null or c.free_at <= at.moment))));
comment on view blocked is 'Every job that is not moving now, with its one cause as a code and in words.';
