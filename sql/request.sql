-- Requests: the exact messages a claimed job sends, saved before they leave, with the call opened beside them.
--
-- What was planned (job_inputs) is what is sent, and a job that is tried again sends the same prompt again. Nothing here
-- calls a model, and no secret is in a request.

-- What a prompt template may say about a job: its place, its step, and the texts it was planned with.
create function _prompt_values(job jobs, session sessions, run stage_runs, step jsonb) returns jsonb
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _stage_values(session, run.stage, run.iteration) || jsonb_build_object(
        'model', job.model,
        'step', jsonb_build_object(
            'key', step ->> 'key', 'name', step ->> 'name', 'output_type', step ->> 'output_type', 'document_key', step ->> 'document_key'),
        'content_keys', _content_keys(step),
        'header_context', null,
        'documents', (
            select coalesce(jsonb_agg(jsonb_build_object(
                       'type', coalesce(c.output_type, r.resource_type),
                       'role', i.role,
                       'name', r.name,
                       'stage', coalesce(c.stage, r.stage),
                       'author', coalesce(c.model, r.model),
                       'reviewer', c.reviewer,
                       'document_key', coalesce(c.document_key, r.document_key),
                       'content', coalesce(c.content, r.content)) order by i.position), '[]')
            from job_inputs i
            left join contributions c on c.id = i.artifact
            left join resources r on r.id = i.artifact
            where i.job = job.id))
$$;

create function _content_keys(step jsonb) returns jsonb
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case jsonb_typeof(step -> 'content_to_include')
               when 'object' then (select jsonb_agg(k) from jsonb_object_keys(step -> 'content_to_include') as k)
               when 'array' then step -> 'content_to_include'
               else '[]' end
$$;

-- Saves the prompts of these claimed jobs and opens their calls; one row a job, with the request or why there is none.
create function _make_requests(job_ids uuid[]) returns table (job_id uuid, claim_id bigint, request jsonb, problem text)
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    prompts jsonb;
begin
    perform from sessions s
    where s.id in (select j.session_id from jobs j where j.id = any (job_ids))
    order by s.id
    for no key update;

    select jsonb_object_agg(j.id, _messages(s.definition_id, step ->> 'prompt_template_name', _prompt_values(j, s, run, step)))
    into prompts
    from jobs j
    join sessions s on s.id = j.session_id
    join stage_runs run on run.id = j.stage_run_id
    cross join lateral _step(s.definition_id, run.stage, j.step_key) as step
    where j.id = any (job_ids) and j.status = 'processing' and not exists (select from resources r where r.job_id = j.id);

    insert into resources (resource_type, project_id, session_id, job_id, stage, iteration, model, document_key, lineage_id, mime_type, content)
    select 'turn_prompt', s.project_id, s.id, j.id, run.stage, run.iteration, j.model, j.document_key, j.lineage_id,
           'application/json', prompt.value ->> 'messages'
    from jsonb_each(prompts) as prompt
    join jobs j on j.id = prompt.key::uuid
    join sessions s on s.id = j.session_id
    join stage_runs run on run.id = j.stage_run_id
    where prompt.value ? 'messages';

    return query
        with made as materialized (
            select j.id, j.claim_id, j.claimed_by, j.lease_until, j.session_id, j.attempt_count, j.model as model_name, m.*, p.api,
                   least(m.max_output_tokens, run.max_output_tokens) as output_limit,
                   _content_keys(_step(s.definition_id, run.stage, j.step_key)) as json_keys,
                   (select r.content::jsonb from resources r where r.job_id = j.id) as messages,
                   (select count(*) from model_calls c where c.job_id = j.id) as calls_before
            from jobs j
            join sessions s on s.id = j.session_id
            join stage_runs run on run.id = j.stage_run_id
            left join _current_models m on m.name = j.model
            left join _current_providers p on p.name = m.provider
            where j.id = any (job_ids) and j.status = 'processing'
        ),
        opened as (
            insert into model_calls (session_id, job_id, claim_id, claimed_by, lease_until, attempt, provider, model)
            select made.session_id, made.id, made.claim_id, made.claimed_by, made.lease_until, made.attempt_count + 1, made.provider, made.model_name
            from made
            where made.messages is not null and made.api is not null
            on conflict on constraint model_calls_job_id_claim_id_key do nothing
        )
        select made.id, made.claim_id,
               case when made.messages is not null and made.api is not null then jsonb_build_object(
                   'job_id', made.id, 'claim_id', made.claim_id, 'api', made.api, 'provider', made.provider, 'model', made.model_name,
                   'api_model', made.api_model, 'messages', made.messages, 'context_window', made.context_window,
                   'max_output_tokens', made.output_limit, 'json_keys', made.json_keys, 'settings', made.settings,
                   'call_no', made.calls_before + 1) end,
               case when made.api is null then format('model "%s" does not exist any more', made.model_name)
                    else prompts -> made.id::text ->> 'error' end
        from made;
end
$$;

create function job_request(job uuid) returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    claimed jobs;
    made    record;
begin
    select j.* into claimed from jobs j where j.id = job_request.job;
    if not found then
        raise exception 'job "%" does not exist', coalesce(job_request.job::text, 'null')
            using errcode = 'no_data_found', hint = 'dialectic.job_tree(session) lists the jobs of a session.';
    end if;
    if claimed.kind = 'plan' then
        raise exception 'job "%" is a plan: it makes no model call', claimed.id
            using errcode = 'object_not_in_prerequisite_state', hint = 'Finish it with dialectic.complete_job(job, claim_id).';
    end if;
    if claimed.status <> 'processing' then
        raise exception 'job "%" is not claimed', claimed.id
            using errcode = 'object_not_in_prerequisite_state', detail = format('Its status is %s.', claimed.status),
                  hint = 'Claim it first with dialectic.claim_jobs(worker, max_jobs).';
    end if;
    perform _require_read_committed();
    select m.* into made from _make_requests(array[claimed.id]) as m;
    if made.request is null then
        raise exception 'job "%" has no request: %', claimed.id, coalesce(made.problem, 'it is no longer claimed')
            using errcode = 'object_not_in_prerequisite_state', hint = 'Give it up with dialectic.fail_job(job, claim_id, class, message).';
    end if;
    return made.request;
end
$$;
comment on function job_request(uuid) is
    'The exact request of a claimed job: provider, model, messages and limits, never the secret. Saves the prompt and opens the call.';
