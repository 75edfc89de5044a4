-- The verbs of a worker outside the server: the request of a claimed job, and its answer or failure. claim_jobs is in
-- claim.sql.
--
-- Here arguments are checked; what is sent and what becomes of an answer is decided by the same functions as in the
-- worker. An answer whose claim is no longer the job's closes its call and changes no job.

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

create function job_request(job uuid, claim_id bigint default null) returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    claimed jobs;
begin
    select j.* into claimed from jobs j where j.id = job_request.job;
    if not found then
        raise exception 'job "%" does not exist', coalesce(job_request.job::text, 'null')
            using errcode = 'no_data_found', hint = 'dialectic.job_tree(session) lists the jobs of a session.';
    end if;
    if claimed.kind in ('plan', 'render') then
        raise exception 'job "%" is a %: it makes no model call', claimed.id, claimed.kind
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Finish it with dialectic.complete_job(job, claim_id).';
    end if;
    perform _require_read_committed();
    perform _lock_wallets(array[claimed.session_id]);
    perform from sessions s where s.id = claimed.session_id for no key update;
    -- While this waited for the locks the job may have been claimed by another worker.
    select j.* into claimed from jobs j where j.id = job_request.job;
    if claimed.status is distinct from 'processing' or claimed.lease_until is null
        or claimed.claim_id <> job_request.claim_id then
        raise exception 'job "%" is not claimed%', job_request.job,
            case claimed.status when 'processing' then ' by you' else '' end
            using errcode = 'object_not_in_prerequisite_state',
                  detail = format('Its status is %s%s.', claimed.status,
                                  ', claimed by ' || claimed.claimed_by || ' with claim ' || claimed.claim_id),
                  hint = 'Claim it first with dialectic.claim_jobs(worker, max_jobs).';
    end if;
    return _open_request(claimed.id, claimed.claim_id);
end
$$;
comment on function job_request(uuid, bigint) is
    'The exact request of a claimed job: provider, model, messages and limits, never the secret. With a claim_id, an '
    'error when the job is no longer claimed under it. Saves the prompt, holds what the call may cost and opens it. '
    'Null when it cannot be asked now, and is no longer yours: its documents do not fit and are condensed first, or '
    'there is no money for it.';

-- Returns a job to the queue that waits for money which other calls hold; it is due again in a second.
create function _postpone_unfunded(job uuid, claim_id bigint) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _return_claims(array[job], array[_postpone_unfunded.claim_id]);
    update jobs j set run_at = _now() + interval '1 second' where j.id = job and j.claim_id is null;
end
$$;

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
        perform from sessions s
        where s.id = (select j.session_id from jobs j where j.id = complete_job.job)
        for no key update;
        return _plan_job(complete_job.job, complete_job.claim_id);
    end if;
    if kind = 'render' then
        return _render_document(complete_job.job, complete_job.claim_id);
    end if;
    perform _refuse_null('answer', complete_job.answer is null);
    if complete_job.finish_reason is null
        or complete_job.finish_reason not in ('stop', 'length', 'content_filter', 'tool_use', 'error', 'unknown') then
        raise exception 'finish reason "%" is not known', coalesce(complete_job.finish_reason, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Known: stop, length, content_filter, tool_use, error, unknown.';
    end if;
    perform _check_usage(complete_job.job, complete_job.claim_id, complete_job.usage);
    if complete_job.finish_reason = 'error' then
        perform _lock_claims(array[complete_job.job], array[complete_job.claim_id]);
    end if;
    return _keep_answer(complete_job.job, complete_job.claim_id, complete_job.answer, complete_job.finish_reason,
                        complete_job.usage);
end
$$;
comment on function complete_job(uuid, bigint, text, text, jsonb) is
    'Finishes a claimed job with the answer of its model (a plan job plans, and needs none); returns its new status, '
    'or stale when the claim is no longer the job''s.';

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
            using errcode = 'invalid_parameter_value',
                  hint = format('Known: %s.', array_to_string(_error_classes(), ', '));
    end if;
    if fail_job.retry_after < interval '0' or fail_job.retry_after > interval '30 days' then
        raise exception 'retry_after cannot be %', fail_job.retry_after
            using errcode = 'invalid_parameter_value', hint = 'Give a time from 0 to 30 days.';
    end if;
    perform _check_usage(fail_job.job, fail_job.claim_id, fail_job.usage);
    return _keep_failure(
        fail_job.job, fail_job.claim_id, fail_job.class, coalesce(fail_job.message, 'no message given'),
        (extract(epoch from fail_job.retry_after) * 1000)::bigint, fail_job.usage);
end
$$;
comment on function fail_job(uuid, bigint, text, text, interval, jsonb) is
    'Gives back a claimed job with the class and the cause of its failure; returns its new status, or stale when the '
    'claim is no longer the job''s. Where usage is not given, a call that failed as transient or for its content is '
    'taken to have read its prompt; {"input_tokens": 0, "output_tokens": 0} says that it was not.';

-- Checks that usage has known keys and whole numbers, that no part is more than the whole, and that a call was opened.
create function _check_usage(job uuid, claim bigint, usage jsonb) returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if jsonb_typeof(usage) is distinct from 'object' or exists (
        select from jsonb_each(usage) as u
        where u.key <> all (array['input_tokens', 'output_tokens', 'cached_tokens', 'cache_write_tokens',
                                  'reasoning_tokens'])
           or not coalesce(case jsonb_typeof(u.value)
                               when 'number' then (u.value #>> '{}')::numeric between 0 and 1000000000000
                                              and (u.value #>> '{}')::numeric % 1 = 0
                               when 'null' then true end, false)) then
        raise exception 'usage cannot be %', coalesce(usage::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Give {"input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", '
                         '"reasoning_tokens"}, whole numbers from 0 on.';
    end if;
    if coalesce((usage ->> 'cached_tokens')::numeric, 0) + coalesce((usage ->> 'cache_write_tokens')::numeric, 0)
           > (usage ->> 'input_tokens')::numeric
        or (usage ->> 'reasoning_tokens')::numeric > (usage ->> 'output_tokens')::numeric then
        raise exception 'usage cannot be %', usage
            using errcode = 'invalid_parameter_value',
                  hint = 'input_tokens includes the tokens read from a cache and into one; output_tokens includes '
                         'reasoning_tokens.';
    end if;
    if ((usage ->> 'input_tokens')::numeric > 0 or (usage ->> 'output_tokens')::numeric > 0)
        and exists (select from jobs j where j.id = job and j.claim_id = claim)
        and not exists (select from model_calls c where c.job_id = job and c.claim_id = claim) then
        raise exception 'usage was given, but no call was opened for job "%" under this claim', job
            using errcode = 'object_not_in_prerequisite_state',
                  detail = 'What a call may cost is held before it leaves, and what it cost is recorded with it.',
                  hint = 'dialectic.job_request(job, claim_id) opens the call. A text without a call is handed in '
                         'without usage.';
    end if;
end
$$;
