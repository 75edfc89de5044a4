-- Finishing: the one way an answer or a failure comes back to a job.
--
-- An answer whose claim is no longer the job's changes nothing but its own row in model_calls. What an answer wakes or fails is
-- the trigger's business (completion.sql), when a failure is tried again is the core's (_retry_verdict).

create function complete_job(
    job uuid, claim_id bigint, answer text default null, finish_reason text default 'stop', usage jsonb default '{}'
) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    kind text := _job_kind(complete_job.job);
begin
    if kind = 'plan' then
        return _finish_plan(complete_job.job, complete_job.claim_id);
    end if;
    perform _refuse_null('answer', complete_job.answer is null);
    if complete_job.finish_reason is null
        or complete_job.finish_reason not in ('stop', 'length', 'content_filter', 'tool_use', 'error', 'unknown') then
        raise exception 'finish reason "%" is not known', coalesce(complete_job.finish_reason, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Known: stop, length, content_filter, tool_use, error, unknown.';
    end if;
    if jsonb_typeof(complete_job.usage) <> 'object' or exists (
        select from jsonb_each(complete_job.usage) as u
        where u.key in ('input_tokens', 'output_tokens', 'cached_tokens')
          and not coalesce(case jsonb_typeof(u.value) when 'number' then (u.value #>> '{}')::numeric between 0 and 1000000000000
                                                                     and (u.value #>> '{}')::numeric % 1 = 0
                                                       when 'null' then true end, false)) then
        raise exception 'usage cannot be %', complete_job.usage
            using errcode = 'invalid_parameter_value',
                  hint = 'Give {"input_tokens", "output_tokens", "cached_tokens"}, whole numbers from 0 on.';
    end if;
    return (select k.outcome from _keep(jsonb_build_array(jsonb_build_object(
        'job_id', complete_job.job, 'claim_id', complete_job.claim_id, 'answer', complete_job.answer,
        'finish_reason', complete_job.finish_reason, 'usage', coalesce(complete_job.usage, '{}')))) as k);
end
$$;
comment on function complete_job(uuid, bigint, text, text, jsonb) is
    'Finishes a claimed job with the answer of its model (a plan job plans, and needs none); returns its new status, or stale when the claim is no longer the job''s.';

create function fail_job(job uuid, claim_id bigint, class text, message text, retry_after interval default null) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _job_kind(fail_job.job);
    if fail_job.class is null or fail_job.class <> all (_error_classes()) then
        raise exception 'error class "%" is not known', coalesce(fail_job.class, 'null')
            using errcode = 'invalid_parameter_value', hint = format('Known: %s.', array_to_string(_error_classes(), ', '));
    end if;
    if fail_job.retry_after < interval '0' or fail_job.retry_after > interval '30 days' then
        raise exception 'retry_after cannot be %', fail_job.retry_after
            using errcode = 'invalid_parameter_value', hint = 'Give a time from 0 to 30 days.';
    end if;
    return (select k.outcome from _keep(jsonb_build_array(jsonb_build_object(
        'job_id', fail_job.job, 'claim_id', fail_job.claim_id, 'class', fail_job.class, 'message', fail_job.message,
        'retry_after_ms', (extract(epoch from fail_job.retry_after) * 1000)::bigint))) as k);
end
$$;
comment on function fail_job(uuid, bigint, text, text, interval) is
    'Gives back a claimed job with the class and the cause of its failure; returns its new status, or stale when the claim is no longer the job''s.';

create function _job_kind(job uuid) returns text
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    kind text;
begin
    perform _require_read_committed();
    select j.kind into kind from jobs j where j.id = job;
    if not found then
        raise exception 'job "%" does not exist', coalesce(job::text, 'null')
            using errcode = 'no_data_found', hint = 'dialectic.job_tree(session) lists the jobs of a session.';
    end if;
    return kind;
end
$$;

-- A plan job is finished by planning. A recipe that cannot be planned over what there is fails the job, with the reason.
create function _finish_plan(job uuid, claim_id bigint) returns text
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    root    jobs;
    outcome text;
    reason  text;
begin
    perform from sessions s where s.id = (select j.session_id from jobs j where j.id = job) for no key update;
    select j.* into root from jobs j
    where j.id = job and j.status = 'processing' and j.claim_id = _finish_plan.claim_id
    for no key update;
    if not found then
        return 'stale';
    end if;
    begin
        select format('step "%s" failed: %s', c.step_key, c.error_details ->> 'message') into reason
        from jobs c
        where c.parent_job_id = job and c.status in ('failed', 'retry_loop_failed')
        order by c.completed_at, c.id
        limit 1;
        outcome := case when found then 'failed' else _plan_root(root) end;
    exception when invalid_parameter_value then
        get stacked diagnostics reason = message_text;
        outcome := 'failed';
    end;
    update jobs j
    set status = outcome, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        attempt_count = j.attempt_count + case when outcome = 'waiting_for_children' then 0 else 1 end,
        completed_at = case when outcome <> 'waiting_for_children' then _now() end,
        error_details = case when outcome = 'failed' then jsonb_build_object('class', 'permanent', 'message', reason) end
    where j.id = job;
    return outcome;
end
$$;

-- Keeps a batch of answers and failures, one element a job:
-- {job_id, claim_id, answer, finish_reason, usage} or {job_id, claim_id, class, message, retry_after_ms, http_status, usage}.
create function _keep(batch jsonb) returns table (job_id uuid, outcome text)
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
    base   double precision := (get_config('retry_base_seconds') #>> '{}')::double precision;
    most   double precision := (get_config('retry_max_seconds') #>> '{}')::double precision;
    kept   jsonb;
begin
    perform from sessions s
    where s.id in (select j.session_id from jobs j join jsonb_array_elements(batch) as e on j.id = (e ->> 'job_id')::uuid)
    order by s.id
    for no key update;

    -- A refusal is a failure whatever the text says, and so is silence.
    select jsonb_agg(e || jsonb_build_object(
        'current', coalesce(j.status = 'processing' and j.claim_id = (e ->> 'claim_id')::bigint, false),
        'class', case when e ? 'class' then e ->> 'class'
                      when e ->> 'finish_reason' in ('content_filter', 'error') or btrim(e ->> 'answer', E' \t\r\n') = '' then 'content' end,
        'message', case when e ? 'class' then coalesce(e ->> 'message', 'no message given')
                        when e ->> 'finish_reason' = 'content_filter' then 'the model refused to answer'
                        when e ->> 'finish_reason' = 'error' then 'the model broke off with an error'
                        when btrim(e ->> 'answer', E' \t\r\n') = '' then 'the model answered nothing' end))
    into kept
    from jsonb_array_elements(batch) as e
    left join jobs j on j.id = (e ->> 'job_id')::uuid;

    perform _close_calls(kept, moment);
    update provider_clocks c set throttles = 0
    where c.throttles > 0
      and c.provider in (select m.provider from jsonb_array_elements(kept) as e
                         join jobs j on j.id = (e ->> 'job_id')::uuid join _current_models m on m.name = j.model
                         where e ? 'answer');
    perform _save_answers(kept, moment);
    perform _settle_failures(kept, moment, base, most);
    -- Read again: what follows from one end may have moved another job of the batch.
    return query
        select (e ->> 'job_id')::uuid, case when (e ->> 'current')::boolean then j.status else 'stale' end
        from jsonb_array_elements(kept) as e
        left join jobs j on j.id = (e ->> 'job_id')::uuid;
end
$$;

-- Every call that came back is closed and costed, in time or not; one closed already is left as it is.
create function _close_calls(kept jsonb, moment timestamptz) returns void
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    update model_calls c
    set outcome = case when not (e ->> 'current')::boolean then 'late' when e ->> 'class' is not null then 'failed' else 'answered' end,
        finished_at = moment,
        http_status = (e ->> 'http_status')::integer,
        error_class = e ->> 'class',
        error_message = left(e ->> 'message', 4000),
        finish_reason = e ->> 'finish_reason',
        input_tokens = coalesce((e #>> '{usage,input_tokens}')::bigint, 0),
        output_tokens = coalesce((e #>> '{usage,output_tokens}')::bigint, 0),
        cached_tokens = coalesce((e #>> '{usage,cached_tokens}')::bigint, 0),
        -- A price per million tokens in dollars is a price per token in micro-dollars.
        cost = coalesce(ceil(coalesce((e #>> '{usage,input_tokens}')::bigint, 0) * m.input_price
                           + coalesce((e #>> '{usage,output_tokens}')::bigint, 0) * m.output_price)::bigint, 0)
    from jsonb_array_elements(kept) as e
    left join jobs j on j.id = (e ->> 'job_id')::uuid
    left join _current_models m on m.name = j.model
    where c.job_id = (e ->> 'job_id')::uuid and c.claim_id = (e ->> 'claim_id')::bigint and c.outcome in ('open', 'lost')
$$;

create function _save_answers(kept jsonb, moment timestamptz) returns void
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    with answer as materialized (
        select _uuid_v7() as id, e from jsonb_array_elements(kept) as e where (e ->> 'current')::boolean and e ->> 'class' is null
    ),
    saved as (
        insert into contributions (id, session_id, job_id, root_id, stage, iteration, step_key, output_type, model, document_key,
                                   lineage_id, reviewer, source_prompt_resource_id, finish_reason, input_tokens, output_tokens,
                                   cached_tokens, content)
        select answer.id, j.session_id, j.id, answer.id, run.stage, run.iteration, j.step_key,
               _step(s.definition_id, run.stage, j.step_key) ->> 'output_type', j.model,
               j.document_key, j.lineage_id, j.reviewer, (select r.id from resources r where r.job_id = j.id),
               e ->> 'finish_reason', coalesce((e #>> '{usage,input_tokens}')::bigint, 0),
               coalesce((e #>> '{usage,output_tokens}')::bigint, 0), coalesce((e #>> '{usage,cached_tokens}')::bigint, 0), e ->> 'answer'
        from answer
        join jobs j on j.id = (e ->> 'job_id')::uuid
        join sessions s on s.id = j.session_id
        join stage_runs run on run.id = j.stage_run_id
        returning id, job_id
    )
    update jobs j
    set status = 'completed', completed_at = moment, attempt_count = j.attempt_count + 1, error_details = null,
        results = jsonb_build_object('contribution_id', saved.id),
        status_before = null, claim_id = null, claimed_by = null, lease_until = null
    from saved
    where j.id = saved.job_id
$$;

-- What becomes of jobs that failed: back where they were, tried again later, or failed for good. A throttled provider is left
-- alone until it says, one with a wrong configuration until that is mended; neither costs the job an attempt.
create function _settle_failures(kept jsonb, moment timestamptz, base double precision, most double precision) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into provider_clocks as c (provider, free_at, throttles, paused_reason, changed_at)
    select m.provider,
           max(moment + make_interval(secs => coalesce((e ->> 'retry_after_ms')::double precision / 1000,
                                                       least(most, base * 2 ^ least(coalesce(clock.throttles, 0), 20)))))
               filter (where e ->> 'class' = 'throttled'),
           1,
           max(e ->> 'message') filter (where e ->> 'class' = 'configuration'),
           moment
    from jsonb_array_elements(kept) as e
    join jobs j on j.id = (e ->> 'job_id')::uuid
    join _current_models m on m.name = j.model
    left join provider_clocks clock on clock.provider = m.provider
    where (e ->> 'current')::boolean and e ->> 'class' in ('throttled', 'configuration')
    group by m.provider
    order by m.provider
    on conflict on constraint provider_clocks_pkey do update
        set free_at = greatest(c.free_at, excluded.free_at), throttles = c.throttles + 1,
            paused_reason = coalesce(excluded.paused_reason, c.paused_reason), changed_at = excluded.changed_at;

    with failure as materialized (
        select j.id as job, e, _retry_verdict(
                   case when e ->> 'finish_reason' = 'content_filter' then 'permanent' else e ->> 'class' end,
                   j.attempt_count, j.max_retries, (e ->> 'retry_after_ms')::double precision / 1000, base, most, random()) as verdict
        from jsonb_array_elements(kept) as e
        join jobs j on j.id = (e ->> 'job_id')::uuid
        where (e ->> 'current')::boolean and e ->> 'class' is not null
    )
    update jobs j
    set status = coalesce(verdict ->> 'status', j.status_before),
        status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        attempt_count = j.attempt_count + (verdict ->> 'charged')::integer,
        -- What the provider is to blame for is held back by its clock alone.
        run_at = moment + case when e ->> 'class' in ('throttled', 'configuration') then interval '0'
                               else make_interval(secs => (verdict ->> 'after')::double precision) end,
        completed_at = case when verdict ->> 'status' in ('failed', 'retry_loop_failed') then moment end,
        error_details = jsonb_build_object('class', e ->> 'class', 'message', e ->> 'message', 'at', moment)
    from failure
    where j.id = failure.job;
end
$$;
