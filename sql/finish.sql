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
    kind  text := _job_kind(complete_job.job);
    heard jsonb;
begin
    if kind = 'plan' then
        return _finish_plan(complete_job.job, complete_job.claim_id);
    end if;
    if kind = 'render' then
        return _render_one(complete_job.job, complete_job.claim_id);
    end if;
    perform _refuse_null('answer', complete_job.answer is null);
    if complete_job.finish_reason is null
        or complete_job.finish_reason not in ('stop', 'length', 'content_filter', 'tool_use', 'error', 'unknown') then
        raise exception 'finish reason "%" is not known', coalesce(complete_job.finish_reason, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Known: stop, length, content_filter, tool_use, error, unknown.';
    end if;
    if jsonb_typeof(complete_job.usage) <> 'object' or exists (
        select from jsonb_each(complete_job.usage) as u
        where u.key in ('input_tokens', 'output_tokens', 'cached_tokens', 'cache_write_tokens', 'reasoning_tokens')
          and not coalesce(case jsonb_typeof(u.value) when 'number' then (u.value #>> '{}')::numeric between 0 and 1000000000000
                                                                     and (u.value #>> '{}')::numeric % 1 = 0
                                                       when 'null' then true end, false)) then
        raise exception 'usage cannot be %', complete_job.usage
            using errcode = 'invalid_parameter_value',
                  hint = 'Give {"input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens"}, whole numbers from 0 on.';
    end if;
    heard := _read_answer(
        (select j.id from jobs j where j.id = complete_job.job and j.makes <> 'text'), complete_job.finish_reason, complete_job.answer);
    return _keep_one(
        complete_job.job, complete_job.claim_id, complete_job.answer, complete_job.finish_reason, complete_job.usage,
        case when heard ? 'reason' then 'content' end, heard ->> 'reason', null, heard);
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
    return _keep_one(
        fail_job.job, fail_job.claim_id, null, null, '{}', fail_job.class, coalesce(fail_job.message, 'no message given'),
        (extract(epoch from fail_job.retry_after) * 1000)::bigint, '{}');
end
$$;
comment on function fail_job(uuid, bigint, text, text, interval) is
    'Gives back a claimed job with the class and the cause of its failure; returns its new status, or stale when the claim is no longer the job''s.';

-- Keeps one reply; returns the new status of its job, or stale. What the reading of its answer came to is in "heard".
create function _keep_one(
    job uuid, claim_id bigint, answer text, finish_reason text, usage jsonb, class text, message text, retry_after_ms bigint, heard jsonb
) returns text
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if not exists (
        select from _keep_replies(
            array[job], array[claim_id], array[answer], array[finish_reason], array[null::text], array[(usage ->> 'input_tokens')::bigint],
            array[(usage ->> 'output_tokens')::bigint], array[(usage ->> 'cached_tokens')::bigint],
            array[(usage ->> 'cache_write_tokens')::bigint], array[(usage ->> 'reasoning_tokens')::bigint], array[false], array[class],
            array[message], array[retry_after_ms], array[null::integer], array[null::bigint], array['provider'], array[false],
            array[heard ->> 'content'], array[heard -> 'missing'],
            array[coalesce((heard ->> 'is_complete')::boolean, true)], array[coalesce((heard ->> 'is_final')::boolean, false)])) then
        return 'stale';
    end if;
    return (select j.status from jobs j where j.id = job);
end
$$;

-- A render job outside the engine: its document is made here and now.
create function _render_one(job uuid, claim_id bigint) returns text
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if not exists (select from _keep_documents(array[job], array[_render_one.claim_id], array[_render_job(job)])) then
        return 'stale';
    end if;
    return (select j.status from jobs j where j.id = job);
end
$$;

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
begin
    perform from sessions s where s.id = (select j.session_id from jobs j where j.id = job) for no key update;
    return _plan_job(job, _finish_plan.claim_id);
end
$$;

-- The jobs among these whose claim is still theirs, with their sessions locked so that it stays so. Only a running job has a claim,
-- and a claim is drawn once: to have it is to be running for it.
create function _hold_claims(job_ids uuid[], claim_ids bigint[]) returns uuid[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform from sessions s
    where s.id in (select j.session_id from jobs j where j.id = any (job_ids))
    order by s.id
    for no key update;
    return array(
        select j.id
        from unnest(job_ids, claim_ids) as r(job_id, claim_id)
        join jobs j on j.id = r.job_id and j.claim_id = r.claim_id);
end
$$;

-- Gives jobs back that were claimed and not called: where they were, and no attempt charged.
create function _give_back(job_ids uuid[], claim_ids bigint[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update jobs j
    set status = j.status_before, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        turn = greatest(j.turn, _claim_turn())
    where j.id = any (_hold_claims(job_ids, claim_ids));
end
$$;

-- Keeps a batch of answers and failures, one element of each array a reply; one with a class is a failure. An answer in JSON comes
-- with its content in normal form, or with the keys it lacks. Returns the jobs whose claim was still theirs: only those are finished.
create function _keep_replies(
    job_ids uuid[], claim_ids bigint[], answers text[], finish_reasons text[], raw_reasons text[], tokens_read bigint[],
    tokens_written bigint[], tokens_cached bigint[], tokens_cache_write bigint[], tokens_reasoning bigint[], estimated boolean[],
    classes text[], messages text[], retry_after_ms bigint[], http_statuses integer[], first_byte_ms_ago bigint[], scopes text[],
    strikes boolean[], contents text[], missing jsonb[], complete boolean[], final boolean[]
) returns setof uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment  timestamptz := _now();
    current uuid[];
    ids     uuid[] := array(select _uuid_v7() from unnest(job_ids));
begin
    current := _hold_claims(job_ids, claim_ids);

    -- Every call that came back is closed and costed, in time or not; one closed already is left as it is.
    update model_calls c
    set outcome = case when r.job_id <> all (current) then 'late' when r.class is not null then 'failed' else 'answered' end,
        first_byte_at = moment - make_interval(secs => r.first_byte_ms_ago::double precision / 1000),
        finished_at = moment,
        http_status = r.http_status,
        error_class = r.class,
        error_message = left(r.message, 4000),
        finish_reason = r.finish_reason,
        finish_reason_raw = left(r.raw_reason, 200),
        input_tokens = r.input_tokens,
        output_tokens = r.output_tokens,
        cached_tokens = r.cached_tokens,
        cache_write_tokens = r.cache_write_tokens,
        reasoning_tokens = r.reasoning_tokens,
        is_estimated = r.is_estimated,
        -- In micro-dollars, rounded up once: a price per million tokens in dollars is a price per token in micro-dollars. What was read
        -- from a cache, or into one, and what was thought may have prices of their own.
        cost = coalesce((
            select ceil((r.input_tokens - r.cached_tokens - r.cache_write_tokens) * m.input_price
                        + r.cached_tokens * coalesce(m.cached_price, m.input_price)
                        + r.cache_write_tokens * coalesce(m.cache_write_price, m.input_price)
                        + (r.output_tokens - r.reasoning_tokens) * m.output_price
                        + r.reasoning_tokens * coalesce(m.reasoning_price, m.output_price))
            from models m where m.name = c.model order by m.is_shipped limit 1), 0)
    from (select t.job_id, t.claim_id, t.finish_reason, t.raw_reason, coalesce(t.read, 0), coalesce(t.written, 0), coalesce(t.cached, 0),
                 coalesce(t.cache_write, 0), coalesce(t.reasoning, 0), t.is_estimated, t.class, t.message, t.http_status, t.first_byte_ms_ago
          from unnest(job_ids, claim_ids, finish_reasons, raw_reasons, tokens_read, tokens_written, tokens_cached, tokens_cache_write,
                      tokens_reasoning, estimated, classes, messages, http_statuses, first_byte_ms_ago)
              as t(job_id, claim_id, finish_reason, raw_reason, read, written, cached, cache_write, reasoning, is_estimated, class, message,
                   http_status, first_byte_ms_ago))
        as r(job_id, claim_id, finish_reason, raw_reason, input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens,
             is_estimated, class, message, http_status, first_byte_ms_ago)
    where c.job_id = r.job_id and c.claim_id = r.claim_id and c.outcome in ('open', 'lost');
    if exists (select from unnest(retry_after_ms, classes) as r(ms, class) where r.ms is not null or r.class is not null)
        or exists (select from provider_clocks) then
        perform _move_clocks(job_ids, claim_ids, answers, classes, messages, retry_after_ms, http_statuses, scopes, strikes, moment);
    end if;
    delete from partials p where p.job_id = any (job_ids);

    insert into contributions (id, session_id, job_id, root_id, chunk_no, stage, iteration, step_key, output_type, model, document_key,
                               lineage_id, reviewer, source_prompt_resource_id, is_header, finish_reason, input_tokens, output_tokens,
                               cached_tokens, content, mime_type)
    -- A condensed text has the id under which it is waited for.
    select coalesce((j.payload ->> 'contribution_id')::uuid, r.id), j.session_id, j.id,
           coalesce(j.target_contribution_id, (j.payload ->> 'contribution_id')::uuid, r.id), j.continuation_count + 1, run.stage, run.iteration,
           j.step_key, j.output_type, j.model, j.document_key, j.lineage_id, j.reviewer,
           (select p.id from resources p where p.job_id = j.id and p.resource_type like '%\_prompt'), j.makes = 'header',
           r.finish_reason, coalesce(r.input_tokens, 0), coalesce(r.output_tokens, 0), coalesce(r.cached_tokens, 0), r.text,
           case j.makes when 'text' then 'text/markdown' else 'application/json' end
    from unnest(job_ids, ids, answers, finish_reasons, tokens_read, tokens_written, tokens_cached, classes)
        as r(job_id, id, text, finish_reason, input_tokens, output_tokens, cached_tokens, class)
    join jobs j on j.id = r.job_id
    join stage_runs run on run.id = j.stage_run_id
    where r.class is null and r.job_id = any (current);
    -- What follows from answers is there before they count as done, so that whoever counts always sees it.
    if exists (select from unnest(job_ids, contents, missing) as r(job_id, content, missing)
               where (r.content is not null or r.missing is not null) and r.job_id = any (current)) then
        perform _follow_answers(current, job_ids, ids, contents, missing, complete);
    end if;
    update jobs j
    set status = 'completed', completed_at = moment, attempt_count = j.attempt_count + 1, error_details = null,
        results = jsonb_build_object('contribution_id', coalesce((j.payload ->> 'contribution_id')::uuid, r.id)),
        status_before = null, claim_id = null, claimed_by = null, lease_until = null
    from unnest(job_ids, ids, classes) as r(job_id, id, class)
    where j.id = r.job_id and r.class is null and r.job_id = any (current);
    if exists (select from jobs j where j.id = any (current) and j.version > 1) then
        perform _replace_older(current);
    end if;

    if exists (select from unnest(classes) as class where class is not null) then
        perform _settle_failures(job_ids, classes, messages, retry_after_ms, final, current, moment);
    end if;
    return query select * from unnest(current);
end
$$;

-- What becomes of jobs that failed: back where they were, tried again later, or failed for good. What the provider is to blame for by
-- its clock, being throttled or configured wrongly, costs the job no attempt.
create function _settle_failures(
    job_ids uuid[], classes text[], messages text[], retry_after_ms bigint[], final boolean[], current uuid[], moment timestamptz
) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    base double precision := (get_config('retry_base_seconds') #>> '{}')::double precision;
    most double precision := (get_config('retry_max_seconds') #>> '{}')::double precision;
begin
    with failure as materialized (
        select r.*, _retry_verdict(
                   case when r.is_final then 'permanent' else r.class end,
                   j.attempt_count, j.max_retries, r.retry_after_ms::double precision / 1000, base, most, random()) as verdict
        from unnest(job_ids, classes, messages, retry_after_ms, final) as r(job_id, class, message, retry_after_ms, is_final)
        join jobs j on j.id = r.job_id
        where r.job_id = any (current) and r.class is not null
    )
    update jobs j
    set status = coalesce(verdict ->> 'status', j.status_before),
        status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        attempt_count = j.attempt_count + (verdict ->> 'charged')::integer,
        turn = greatest(j.turn, _claim_turn()),
        -- What the provider is to blame for is held back by its clock alone.
        run_at = moment + case when failure.class in ('throttled', 'configuration') then interval '0'
                               else make_interval(secs => (verdict ->> 'after')::double precision) end,
        completed_at = case when verdict ->> 'status' in ('failed', 'retry_loop_failed') then moment end,
        error_details = jsonb_build_object('class', failure.class, 'message', failure.message, 'at', moment)
    from failure
    where j.id = failure.job_id;
end
$$;
