-- Finishing: the one way an answer or a failure comes back to a job.
--
-- An answer whose claim is no longer the job's changes nothing but its own row in model_calls. What an answer wakes or fails is
-- the trigger's business (job_trigger.sql), when a failure is tried again is the core's (_retry_verdict).

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
    perform _check_usage(complete_job.job, complete_job.claim_id, complete_job.usage);
    heard := _read_answer(complete_job.job, complete_job.finish_reason, complete_job.answer);
    if heard ? 'gap' then
        raise exception '% is missing, which the answer is to go on from', heard ->> 'gap'
            using errcode = 'data_corrupted', hint = 'dialectic.self_check() lists what else is not as it should be.';
    end if;
    -- What was said before the call broke off is there to go on from.
    if complete_job.finish_reason = 'error' then
        perform _hold_claims(array[complete_job.job], array[complete_job.claim_id]);
        perform _append_partials(array[complete_job.job], array[complete_job.claim_id], array[complete_job.answer]);
    end if;
    return _keep_one(
        complete_job.job, complete_job.claim_id, complete_job.answer, complete_job.finish_reason, complete_job.usage,
        case when heard ? 'reason' then case complete_job.finish_reason when 'error' then 'transient' else 'content' end end,
        heard ->> 'reason', null, heard);
end
$$;
comment on function complete_job(uuid, bigint, text, text, jsonb) is
    'Finishes a claimed job with the answer of its model (a plan job plans, and needs none); returns its new status, or stale when the claim is no longer the job''s.';

-- What was consumed is said in whole numbers and under these names, parts no more than the whole, or not at all; and of a call that was opened.
create function _check_usage(job uuid, claim bigint, usage jsonb) returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if jsonb_typeof(usage) is distinct from 'object' or exists (
        select from jsonb_each(usage) as u
        where u.key <> all (array['input_tokens', 'output_tokens', 'cached_tokens', 'cache_write_tokens', 'reasoning_tokens'])
           or not coalesce(case jsonb_typeof(u.value) when 'number' then (u.value #>> '{}')::numeric between 0 and 1000000000000
                                                                     and (u.value #>> '{}')::numeric % 1 = 0
                                                       when 'null' then true end, false)) then
        raise exception 'usage cannot be %', coalesce(usage::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Give {"input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens"}, whole numbers from 0 on.';
    end if;
    if coalesce((usage ->> 'cached_tokens')::numeric, 0) + coalesce((usage ->> 'cache_write_tokens')::numeric, 0) > (usage ->> 'input_tokens')::numeric
        or (usage ->> 'reasoning_tokens')::numeric > (usage ->> 'output_tokens')::numeric then
        raise exception 'usage cannot be %', usage
            using errcode = 'invalid_parameter_value',
                  hint = 'input_tokens are all that was read, those from a cache and into one among them; output_tokens all that was written, with those only thought.';
    end if;
    if ((usage ->> 'input_tokens')::numeric > 0 or (usage ->> 'output_tokens')::numeric > 0)
        and exists (select from jobs j where j.id = job and j.claim_id = claim)
        and not exists (select from model_calls c where c.job_id = job and c.claim_id = claim) then
        raise exception 'job "%" has used nothing: it was not asked for', job
            using errcode = 'object_not_in_prerequisite_state',
                  detail = 'What a call may cost is held before it leaves, and what it cost is recorded with it.',
                  hint = 'dialectic.job_request(job, claim_id) opens the call. A text that no model was called for is handed in without usage.';
    end if;
end
$$;

create function fail_job(
    job uuid, claim_id bigint, class text, message text, retry_after interval default null, usage jsonb default '{}'
) returns text
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
    perform _check_usage(fail_job.job, fail_job.claim_id, fail_job.usage);
    return _keep_one(
        fail_job.job, fail_job.claim_id, null, null, fail_job.usage, fail_job.class, coalesce(fail_job.message, 'no message given'),
        (extract(epoch from fail_job.retry_after) * 1000)::bigint, '{}');
end
$$;
comment on function fail_job(uuid, bigint, text, text, interval, jsonb) is
    'Gives back a claimed job with the class and the cause of its failure; returns its new status, or stale when the claim is no longer the job''s. Where usage is not given, a call that failed as transient or for its content is taken to have read its prompt; {"input_tokens": 0, "output_tokens": 0} says that it was not.';

-- Keeps one reply; returns the new status of its job, or stale. What the reading of its answer came to is in "heard".
create function _keep_one(
    job uuid, claim_id bigint, answer text, finish_reason text, usage jsonb, class text, message text, retry_after_ms bigint, heard jsonb
) returns text
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    -- What is not said to be consumed is counted; a request that was turned away has consumed nothing.
    counted jsonb := case when answer is not null or class in ('transient', 'content') then _count_usage(job, _keep_one.claim_id, answer, usage) end;
    used    jsonb := coalesce(counted, usage);
begin
    if not exists (
        select from _keep_replies(
            array[job], array[claim_id], array[answer], array[finish_reason], array[null::text], array[(used ->> 'input_tokens')::numeric::bigint],
            array[(used ->> 'output_tokens')::numeric::bigint], array[(used ->> 'cached_tokens')::numeric::bigint],
            array[(used ->> 'cache_write_tokens')::numeric::bigint], array[(used ->> 'reasoning_tokens')::numeric::bigint], array[counted is not null], array[class],
            array[message], array[retry_after_ms], array[null::integer], array[null::bigint], array['provider'], array[false],
            array[heard ->> 'content'], array[heard -> 'follow'], array[coalesce((heard ->> 'is_complete')::boolean, true)],
            array[coalesce((heard ->> 'is_final')::boolean, false)], array[(heard ->> 'budget')::bigint], array[heard -> 'notes'])) then
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
    if exists (select from wallets) then
        perform _lock_wallets(array(select j.session_id from jobs j where j.id = any (job_ids)));
    end if;
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
declare
    -- Asked once: in the statement below it would be asked again for every job there is.
    current uuid[] := _hold_claims(job_ids, claim_ids);
begin
    update jobs j
    set status = j.status_before, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        queue_position = greatest(j.queue_position, _claim_position())
    where j.id = any (current);
end
$$;

-- Keeps a batch of answers and failures, one element of each array a reply; one with a class is a failure. An answer that is the last
-- of several chunks, or in JSON, comes with the whole in normal form; one that is gone on with says what is to follow; one that said
-- nothing, with how much the model may write when it is asked again. Returns the jobs whose claim was still theirs: only those are finished.
create function _keep_replies(
    job_ids uuid[], claim_ids bigint[], answers text[], finish_reasons text[], raw_reasons text[], tokens_read bigint[],
    tokens_written bigint[], tokens_cached bigint[], tokens_cache_write bigint[], tokens_reasoning bigint[], estimated boolean[],
    classes text[], messages text[], retry_after_ms bigint[], http_statuses integer[], first_byte_ms_ago bigint[], scopes text[],
    strikes boolean[], contents text[], follows jsonb[], complete boolean[], final boolean[], budgets bigint[], notes jsonb[]
) returns setof uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment  timestamptz := _now();
    current uuid[];
    ids     uuid[] := array(select _uuid_v7() from unnest(job_ids));
    -- Those that go on from what an earlier call of theirs had said.
    torn    uuid[] := '{}';
    is_limited boolean;
    closed     uuid[];
    -- Those that were settled before, and by which estimates.
    known      uuid[] := '{}';
    estimates  bigint[] := '{}';
begin
    current := _hold_claims(job_ids, claim_ids);

    -- Asked under the locks, for a budget may just have been set.
    is_limited := exists (select from wallets) or exists (select from budgets);
    if is_limited then
        select coalesce(array_agg(c.id), '{}'), coalesce(array_agg(c.cost), '{}') into known, estimates
        from unnest(job_ids, claim_ids) as r(job_id, claim_id)
        join model_calls c on c.job_id = r.job_id and c.claim_id = r.claim_id
        where c.outcome = 'lost';
    end if;
    -- Every call that came back is closed and costed, in time or not; one closed already is left as it is.
    with call as (
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
            cost = _cost(c.prices, r.input_tokens, r.cached_tokens, r.cache_write_tokens, r.output_tokens, r.reasoning_tokens)
        from (select t.job_id, t.claim_id, t.finish_reason, t.raw_reason, coalesce(t.read, 0), coalesce(t.written, 0), coalesce(t.cached, 0),
                     coalesce(t.cache_write, 0), coalesce(t.reasoning, 0), t.is_estimated, t.class, t.message, t.http_status, t.first_byte_ms_ago
              from unnest(job_ids, claim_ids, finish_reasons, raw_reasons, tokens_read, tokens_written, tokens_cached, tokens_cache_write,
                          tokens_reasoning, estimated, classes, messages, http_statuses, first_byte_ms_ago)
                  as t(job_id, claim_id, finish_reason, raw_reason, read, written, cached, cache_write, reasoning, is_estimated, class, message,
                       http_status, first_byte_ms_ago))
            as r(job_id, claim_id, finish_reason, raw_reason, input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens,
                 is_estimated, class, message, http_status, first_byte_ms_ago)
        where c.job_id = r.job_id and c.claim_id = r.claim_id and c.outcome in ('open', 'lost')
        returning c.id
    )
    select array_agg(call.id) into closed from call;
    if is_limited and closed is not null then
        perform _settle(closed, known, estimates);
    end if;
    if exists (select from deleted_calls d where d.job_id = any (job_ids)) then
        perform _add_late_usage(job_ids, claim_ids, tokens_read, tokens_written, tokens_cached, tokens_cache_write,
                                tokens_reasoning, moment);
    end if;
    if exists (select from unnest(retry_after_ms, classes) as r(ms, class) where r.ms is not null or r.class is not null)
        or exists (select from provider_cooldowns) then
        perform _update_cooldowns(job_ids, claim_ids, answers, classes, messages, retry_after_ms, http_statuses, scopes, strikes, moment);
    end if;
    if exists (select from partials p where p.job_id = any (job_ids)) then
        torn := _keep_fragments(current, job_ids, claim_ids, answers, classes);
        -- A model that refused or talked nonsense is not gone on from.
        delete from partials p
        using unnest(job_ids, classes, budgets) as r(job_id, class, budget)
        where p.job_id = r.job_id and r.job_id = any (current)
          and ((r.class is null and r.budget is null) or r.class = 'content');
    end if;

    insert into contributions (id, session_id, job_id, root_id, chunk_no, stage, iteration, step_key, output_type, model, document_key,
                               lineage_id, reviewer, source_prompt_resource_id, is_header, is_part, finish_reason, input_tokens, output_tokens,
                               cached_tokens, content, mime_type)
    select made.id, j.session_id, j.id,
           case when j.id = any (torn) then (select c.root_id from contributions c where c.job_id = j.id limit 1)
                else coalesce(j.target_contribution_id, made.id) end,
           case when j.id = any (torn) then (select max(c.chunk_no) + 1 from contributions c where c.job_id = j.id)
                else coalesce(j.after_chunk, 0) + 1 end,
           run.stage, run.iteration, j.step_key, j.output_type, j.model, j.document_key, j.lineage_id, j.reviewer,
           (select p.id from resources p
            where p.job_id = j.id and p.resource_type in ('turn_prompt', 'planner_prompt', 'continuation_prompt')
              and (p.resource_type = 'continuation_prompt') = made.goes_on),
           j.makes = 'header', made.goes_on or r.follow is not null,
           r.finish_reason, coalesce(r.input_tokens, 0), coalesce(r.output_tokens, 0), coalesce(r.cached_tokens, 0), r.text,
           case j.makes when 'text' then 'text/markdown' else 'application/json' end
    from unnest(job_ids, ids, answers, finish_reasons, tokens_read, tokens_written, tokens_cached, classes, follows, budgets)
        as r(job_id, id, text, finish_reason, input_tokens, output_tokens, cached_tokens, class, follow, budget)
    join jobs j on j.id = r.job_id
    join stage_runs run on run.id = j.stage_run_id
    cross join lateral (
        -- A condensed text has the id under which it is waited for, as soon as it is whole.
        select j.target_contribution_id is not null or j.id = any (torn) as goes_on,
               case when j.target_contribution_id is null and j.id <> all (torn) and r.follow is null
                    then coalesce(j.output_text_id, r.id) else r.id end as id) as made
    where r.class is null and r.text is not null and r.budget is null and r.job_id = any (current);
    -- What follows from answers is there before they count as done, so that whoever counts always sees it.
    if exists (select from unnest(job_ids, contents, follows) as r(job_id, content, follow)
               where (r.content is not null or r.follow is not null) and r.job_id = any (current)) then
        perform _follow_answers(current, job_ids, ids, contents, follows, complete, notes);
    end if;
    update jobs j
    set status = 'completed', completed_at = moment, attempt_count = j.attempt_count + 1, error_details = null,
        results = jsonb_strip_nulls(jsonb_build_object(
            'contribution_id', coalesce(j.output_text_id, case when r.text is not null then r.id end),
            'notes', nullif(r.notes, '[]'))),
        status_before = null, claim_id = null, claimed_by = null, lease_until = null
    from unnest(job_ids, ids, answers, classes, budgets, notes) as r(job_id, id, text, class, budget, notes)
    where j.id = r.job_id and r.class is null and r.budget is null and r.job_id = any (current);
    if exists (select from unnest(budgets) as budget where budget is not null) then
        delete from suspect_jobs s where s.job_id = any (current);
        -- Nothing was said: the same is asked again at once, with more room, and no attempt is charged.
        update jobs j
        set status = j.status_before, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
            queue_position = greatest(j.queue_position, _claim_position()), output_budget = r.budget
        from unnest(job_ids, budgets) as r(job_id, budget)
        where j.id = r.job_id and r.budget is not null and r.job_id = any (current);
    end if;
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
    delete from suspect_jobs s where s.job_id = any (current);
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
        queue_position = greatest(j.queue_position, _claim_position()),
        -- What the provider is to blame for is held back by its clock alone.
        run_at = moment + case when failure.class in ('throttled', 'configuration') then interval '0'
                               else make_interval(secs => (verdict ->> 'after')::double precision) end,
        completed_at = case when verdict ->> 'status' in ('failed', 'retry_loop_failed') then moment end,
        error_details = jsonb_build_object('class', failure.class, 'message', failure.message, 'at', moment)
    from failure
    where j.id = failure.job_id;
end
$$;
