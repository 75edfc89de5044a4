-- Requests: the exact messages a claimed job sends, saved before they leave, with the call opened beside them.
--
-- What was planned (job_inputs) is what is sent, and a job that is tried again sends the same prompt again. Where an answer is gone on
-- with, what was written so far stands behind that prompt, and then what is asked for now. Nothing here calls a model, and no secret is
-- in a request.

-- What a request is made from, for each of these claimed jobs: its place, its limits, and the prompt if one is saved already.
create function _request_jobs(job_ids uuid[])
    returns table (job_id uuid, claim_id bigint, session_id uuid, project_id uuid, definition_id text, stage text, iteration integer,
                   step_key text, model text, max_output_tokens bigint, call_no bigint, is_last_attempt boolean, kind text,
                   context_safety double precision, max_ratio double precision, may_continue boolean, makes text, prompt text, chunks text[],
                   fragments integer, gap text, continue_reason text, missing_keys text[], is_funded boolean, combine_depth integer)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        with allowed as materialized (
            select (select c.value #>> '{}' from configuration c where c.key = 'context_safety' order by c.is_shipped limit 1)::double precision as safety,
                   (select c.value #>> '{}' from configuration c where c.key = 'tier2_max_ratio' order by c.is_shipped limit 1)::double precision as ratio,
                   (select c.value #>> '{}' from configuration c where c.key = 'max_continuations' order by c.is_shipped limit 1)::integer as continuations)
        select j.id, j.claim_id, s.id, s.project_id, s.definition_id, run.stage, run.iteration, j.step_key, j.model,
               coalesce(j.output_budget, run.max_output_tokens),
               (select count(*) from model_calls c where c.job_id = j.id) + 1,
               j.attempt_count > 0 and j.attempt_count >= j.max_retries, j.kind, allowed.safety, allowed.ratio,
               run.continue_until_complete and j.continuation_count < allowed.continuations, j.makes,
               case when j.target_contribution_id is not null then _chain_prompt(j.target_contribution_id)
                    else (select r.content from resources r where r.job_id = j.id and r.resource_type in ('turn_prompt', 'planner_prompt')) end,
               chain.chunks || torn.fragments, cardinality(torn.fragments),
               case when j.target_contribution_id is not null then _gap(j, chain.numbers) end,
               j.continue_reason, j.missing_keys,
               exists (select from wallets w where w.owner = s.owner) or exists (select from budgets b where b.session_id = s.id),
               j.combine_depth
        from unnest(job_ids) as claimed(id)
        join jobs j on j.id = claimed.id and j.claim_id is not null
        join sessions s on s.id = j.session_id
        join stage_runs run on run.id = j.stage_run_id
        cross join allowed
        cross join lateral (
            select case when exists (select from partials p where p.job_id = j.id) then _said_before(j.id, j.claim_id) else '{}' end as fragments) as torn
        left join lateral (
            select array_agg(c.content order by c.chunk_no) as chunks, array_agg(c.chunk_no) as numbers
            from contributions c
            where c.id = j.target_contribution_id or (c.root_id = j.target_contribution_id and c.root_id <> c.id))
            as chain on j.target_contribution_id is not null;
end
$$;

-- What these jobs were planned with, in order.
create function _request_inputs(job_ids uuid[]) returns table (job_id uuid, artifact uuid, role text, part text)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query select i.job, i.artifact, i.role, i.part from job_inputs i where i.job = any (job_ids) order by i.job, i.position;
end
$$;

-- Texts by their ids, each once however many jobs read it.
create function _request_texts(ids uuid[])
    returns table (id uuid, type text, name text, stage text, author text, reviewer text, about text, document_key text, content text,
                   has_front_matter boolean, depth integer)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select c.id, c.output_type, null::text, c.stage, c.model, c.reviewer, nullif(origin.model, c.model), c.document_key, c.content, false,
               case c.output_type when 'combined' then (select j.combine_depth from jobs j where j.id = c.job_id) end
        from contributions c left join jobs origin on origin.id = c.lineage_id and c.lineage_id <> c.job_id
        where c.id = any (ids)
        union all
        select r.id, coalesce(r.output_type, r.resource_type), r.name, r.stage, r.model, r.reviewer, nullif(origin.model, r.model), r.document_key,
               r.content, r.resource_type = 'rendered_document' and r.source_resource_id is not null,
               case r.output_type when 'combined' then (select j.combine_depth from jobs j where j.id = r.job_id) end
        from resources r left join jobs origin on origin.id = r.lineage_id
        where r.id = any (ids);
end
$$;

-- What the users asked for, by project.
create function _request_prompts(project_ids uuid[]) returns table (project_id uuid, content text)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select distinct on (r.project_id) r.project_id, r.content
        from resources r
        where r.project_id = any (project_ids) and r.resource_type = 'initial_user_prompt' and r.job_id is null
        order by r.project_id, r.version desc;
end
$$;

-- Saves the prompts that are new (the others are null), holds what the calls of these models may cost, and opens them. Says of each job
-- whether its call is open and may leave once this is committed, waits for money that other calls hold, or is paused for want of any; nothing
-- of those whose claim is gone. Of a prompt that goes on with an answer only the last message is saved: what stands before it is there already.
create function _open_calls(
    job_ids uuid[], claim_ids bigint[], prompts text[], going_on boolean[], providers text[], models text[], reads bigint[], writes bigint[]
) returns table (job uuid, state text, waits_for text)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    is_limited boolean := exists (select from wallets) or exists (select from budgets);
    -- What becomes of each of them, and what they may cost, where anything is limited.
    verdicts   text[];
    amounts    bigint[];
    payers     text[];
    purses     text[];
    awaited    text[];
    opened     record;
begin
    if is_limited then
        select array_agg(f.verdict), array_agg(f.amount), array_agg(f.payer), array_agg(f.purse), array_agg(f.waits_for)
        into verdicts, amounts, payers, purses, awaited
        from _fund(job_ids, claim_ids, models, reads, writes) as f;
    end if;
    insert into resources as saved (resource_type, project_id, session_id, job_id, stage, iteration, step_key, output_type, model, document_key,
                                    lineage_id, reviewer, version, mime_type, content)
    select case when made.goes_on then 'continuation_prompt' when j.makes = 'header' then 'planner_prompt' else 'turn_prompt' end,
           s.project_id, s.id, j.id, run.stage, run.iteration, j.step_key, j.output_type, j.model, j.document_key, j.lineage_id, j.reviewer,
           j.version, 'application/json', made.prompt
    from unnest(job_ids, claim_ids, prompts, going_on, verdicts) as made(job_id, claim_id, prompt, goes_on, verdict)
    join jobs j on j.id = made.job_id and j.claim_id = made.claim_id
    join sessions s on s.id = j.session_id
    join stage_runs run on run.id = j.stage_run_id
    where made.prompt is not null and (not is_limited or made.verdict = 'hold')
    on conflict (job_id, resource_type) where job_id is not null do update
        set content = excluded.content where saved.resource_type = 'continuation_prompt';
    -- Looked up once for each model, not once for each call.
    with price as materialized (
        select called.model, _prices(called.model) as list from (select distinct unnest(models) as model) as called
    ),
    open_call as (
        insert into model_calls as c (session_id, job_id, claim_id, claimed_by, lease_until, attempt, provider, model, prices, held, payer)
        select j.session_id, j.id, j.claim_id, j.claimed_by, j.lease_until, j.attempt_count + 1, made.provider, made.model, price.list, made.amount,
               case when made.amount > 0 then made.payer end
        from unnest(job_ids, claim_ids, providers, models, verdicts, amounts, payers)
            as made(job_id, claim_id, provider, model, verdict, amount, payer)
        join jobs j on j.id = made.job_id and j.claim_id = made.claim_id
        join price on price.model = made.model
        where not is_limited or made.verdict = 'hold'
        on conflict on constraint model_calls_job_id_claim_id_key do nothing
        returning c.id, c.job_id, c.session_id, c.held, c.payer
    )
    select array_agg(o.job_id) as jobs, array_agg(o.id) as calls, array_agg(o.session_id) as sessions, array_agg(o.held) as amounts,
           array_agg(o.payer) as payers
    into opened
    from open_call o;
    if is_limited and opened.jobs is not null then
        perform _hold(opened.calls, opened.sessions, opened.payers, opened.amounts);
    end if;
    if 'pause' = any (verdicts) then
        perform _pause_unfunded(array_agg(f.job_id), array_agg(f.amount), array_agg(f.purse))
        from unnest(job_ids, verdicts, amounts, purses) as f(job_id, verdict, amount, purse)
        where f.verdict = 'pause';
    end if;
    if 'uncounted' = any (verdicts) then
        perform _give_back(array_agg(f.job_id), array_agg(f.claim_id))
        from unnest(job_ids, claim_ids, verdicts) as f(job_id, claim_id, verdict)
        where f.verdict = 'uncounted';
    end if;
    return query
        select id, 'open', null from unnest(opened.jobs) as id
        union all
        select f.job_id, case f.verdict when 'wait' then 'waiting' else 'paused' end, f.waits_for
        from unnest(job_ids, verdicts, awaited) as f(job_id, verdict, waits_for)
        where f.verdict in ('wait', 'pause', 'uncounted');
end
$$;

create function job_request(job uuid, claim_id bigint default null) returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    claimed jobs;
    made    jsonb;
begin
    select j.* into claimed from jobs j where j.id = job_request.job;
    if not found then
        raise exception 'job "%" does not exist', coalesce(job_request.job::text, 'null')
            using errcode = 'no_data_found', hint = 'dialectic.job_tree(session) lists the jobs of a session.';
    end if;
    if claimed.kind in ('plan', 'render') then
        raise exception 'job "%" is a %: it makes no model call', claimed.id, claimed.kind
            using errcode = 'object_not_in_prerequisite_state', hint = 'Finish it with dialectic.complete_job(job, claim_id).';
    end if;
    perform _require_read_committed();
    perform _lock_wallets(array[claimed.session_id]);
    perform from sessions s where s.id = claimed.session_id for no key update;
    -- Who waited for the locks may have lost the job meanwhile; a call in the name of somebody else would be nobody's to close.
    select j.* into claimed from jobs j where j.id = job_request.job;
    if claimed.status is distinct from 'processing' or claimed.lease_until is null or claimed.claim_id <> job_request.claim_id then
        raise exception 'job "%" is not claimed%', job_request.job, case claimed.status when 'processing' then ' by you' else '' end
            using errcode = 'object_not_in_prerequisite_state',
                  detail = format('Its status is %s%s.', claimed.status, ', claimed by ' || claimed.claimed_by || ' with claim ' || claimed.claim_id),
                  hint = 'Claim it first with dialectic.claim_jobs(worker, max_jobs).';
    end if;
    made := _make_request(claimed.id);
    if made ? 'problem' then
        raise exception 'job "%" has no request: %', claimed.id, made ->> 'problem'
            using errcode = 'object_not_in_prerequisite_state', hint = 'Give it up with dialectic.fail_job(job, claim_id, class, message).';
    end if;
    if made ->> 'state' = 'waiting' then
        -- Calls under way may give back enough: it is looked at again soon.
        perform _give_back(array[claimed.id], array[claimed.claim_id]);
        update jobs j set run_at = _now() + interval '1 second' where j.id = claimed.id and j.claim_id is null;
    end if;
    return nullif(made -> 'request', 'null');
end
$$;
comment on function job_request(uuid, bigint) is
    'The exact request of a claimed job: provider, model, messages and limits, never the secret. With a claim_id, an error when the job is no longer claimed under it. Saves the prompt, holds what the call may cost and opens it. Null when it cannot be asked now, and is no longer yours: its documents do not fit and are condensed first, or there is no money for it.';
