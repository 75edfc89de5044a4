-- Requests: what the messages of a claimed job are made from, and the calls that are opened for them.
--
-- What was planned (job_inputs) is what is sent, and a job that is tried again sends the same prompt again. A request
-- that continues an answer sends that prompt, what was written so far, and a directive. The prompt is stored and the
-- money held in the transaction that opens the call. Nothing here calls a model, and no secret is in a request.

-- What the requests of these claimed jobs are made from: their place, their limits, and the prompt if one is stored.
create function _request_jobs(job_ids uuid[])
    returns table (job_id uuid, claim_id bigint, session_id uuid, project_id uuid, definition_id text, stage text,
                   iteration integer, step_key text, model text, max_output_tokens bigint, call_no bigint,
                   is_last_attempt boolean, kind text, context_safety double precision, max_ratio double precision,
                   may_continue boolean, makes text, prompt text, chunks text[], fragments integer, gap text,
                   continue_reason text, missing_keys text[], is_funded boolean, target_tokens bigint,
                   text_limit bigint)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        with allowed as materialized (
            select (get_config('context_safety') #>> '{}')::double precision as safety,
                   (get_config('tier2_max_ratio') #>> '{}')::double precision as ratio,
                   (get_config('max_continuations') #>> '{}')::integer as continuations)
        select j.id, j.claim_id, s.id, s.project_id, s.definition_id, run.stage, run.iteration, j.step_key, j.model,
               -- What a stage wants of its answers is not what it wants of condensed texts.
               coalesce(j.output_budget, case when j.kind <> 'combine' then run.max_output_tokens end),
               (select count(*) from model_calls c where c.job_id = j.id) + 1,
               j.attempt_count > 0 and j.attempt_count >= j.max_retries, j.kind, allowed.safety, allowed.ratio,
               run.continue_until_complete and j.continuation_count < allowed.continuations, j.makes,
               case when j.target_contribution_id is not null then _chain_prompt(j.target_contribution_id)
                    else (select r.content from resources r
                          where r.job_id = j.id and r.resource_type in ('turn_prompt', 'planner_prompt')) end,
               chain.chunks || torn.fragments, cardinality(torn.fragments),
               case when j.target_contribution_id is not null then _gap(j, chain.numbers) end,
               j.continue_reason, j.missing_keys,
               exists (select from wallets w where w.owner = s.owner)
               or exists (select from budgets b where b.session_id = s.id),
               j.combine_target, j.combine_limit
        from unnest(job_ids) as claimed(id)
        join jobs j on j.id = claimed.id and j.claim_id is not null
        join sessions s on s.id = j.session_id
        join stage_runs run on run.id = j.stage_run_id
        cross join allowed
        cross join lateral (
            select case when exists (select from partials p where p.job_id = j.id)
                        then _said_before(j.id, j.claim_id) else '{}' end as fragments) as torn
        left join lateral (
            select array_agg(c.content order by c.chunk_no) as chunks, array_agg(c.chunk_no) as numbers
            from contributions c
            where c.id = j.target_contribution_id or (c.root_id = j.target_contribution_id and c.root_id <> c.id))
            as chain on j.target_contribution_id is not null;
end
$$;

-- What these jobs were planned with, in order.
create function _request_inputs(job_ids uuid[])
    returns table (job_id uuid, "position" integer, artifact uuid, role text, part text, relevance double precision,
                   first_byte integer, end_byte integer, retrieval integer, is_indexed boolean)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select i.job, i.position, i.artifact, i.role, i.part, i.relevance, i.first_byte, i.end_byte, i.retrieval,
               i.retrieval is not null
               and exists (select from retrievals r where r.job = i.job and r.number = i.retrieval)
        from job_inputs i
        where i.job = any (job_ids)
        order by i.job, i.position;
end
$$;

-- Texts by their ids, each once however many jobs read it.
create function _request_texts(ids uuid[])
    returns table (id uuid, type text, name text, stage text, author text, reviewer text, about text,
                   document_key text, content text, has_front_matter boolean, depth integer,
                   text_limit bigint)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select c.id, c.output_type, null::text, c.stage, c.model, c.reviewer, nullif(origin.model, c.model),
               c.document_key, c.content, false, combine.combine_depth, combine.combine_limit
        from contributions c
        left join jobs origin on origin.id = c.lineage_id and c.lineage_id <> c.job_id
        left join jobs combine on c.output_type = 'combined' and combine.id = c.job_id
        where c.id = any (ids)
        union all
        select r.id, coalesce(r.output_type, r.resource_type), r.name, r.stage, r.model, r.reviewer,
               nullif(origin.model, r.model), r.document_key, r.content,
               r.resource_type = 'rendered_document' and r.source_resource_id is not null, combine.combine_depth,
               combine.combine_limit
        from resources r
        left join jobs origin on origin.id = r.lineage_id
        left join jobs combine on r.output_type = 'combined' and combine.id = r.job_id
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

-- A call that is to be opened. Its prompt is null where it is stored already; of a continuation only the last message
-- is stored, because the others are. What it may cost is null where neither a wallet nor a budget limits it.
create type _opening as (
    job_id          uuid,
    claim_id        bigint,
    prompt          text,
    is_continuation boolean,
    provider        text,
    model           text,
    held            bigint,
    payer           text
);

-- Opens calls: stores their prompts, holds what they may cost, inserts them. Returns the jobs whose calls may leave
-- once this is committed; a job whose claim is revoked, or that has an open call already, is not among them.
create function _open_calls(openings _opening[]) returns setof uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    opened model_calls[];
begin
    perform _save_prompts(openings);
    -- Prices are looked up once for each model, not once for each call.
    with price as materialized (
        select called.model, _prices(called.model) as list
        from (select distinct o.model from unnest(openings) as o) as called
    ),
    inserted as (
        insert into model_calls as c (
            session_id, job_id, claim_id, claimed_by, lease_until, attempt, provider, model, prices, held, payer)
        select j.session_id, j.id, j.claim_id, j.claimed_by, j.lease_until, j.attempt_count + 1, o.provider, o.model,
               price.list, o.held, case when o.held > 0 then o.payer end
        from unnest(openings) as o
        join jobs j on j.id = o.job_id and j.claim_id = o.claim_id
        join price on price.model = o.model
        on conflict on constraint model_calls_job_id_claim_id_key do nothing
        returning c
    )
    select array_agg(i.c) into opened from inserted i;
    perform _hold_money(opened);
    return query select c.job_id from unnest(opened) as c;
end
$$;

-- Stores prompts; the directive of a continuation replaces that of an earlier attempt. In plpgsql, because a function
-- in SQL is planned again at each call.
create function _save_prompts(openings _opening[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into resources as saved (
        resource_type, project_id, session_id, job_id, stage, iteration, step_key, output_type, model, document_key,
        lineage_id, reviewer, version, mime_type, content)
    select case when o.is_continuation then 'continuation_prompt' when j.makes = 'header' then 'planner_prompt'
                else 'turn_prompt' end,
           s.project_id, s.id, j.id, run.stage, run.iteration, j.step_key, j.output_type, j.model, j.document_key,
           j.lineage_id, j.reviewer, j.version, 'application/json', o.prompt
    from unnest(openings) as o
    join jobs j on j.id = o.job_id and j.claim_id = o.claim_id
    join sessions s on s.id = j.session_id
    join stage_runs run on run.id = j.stage_run_id
    where o.prompt is not null
    on conflict (job_id, resource_type, name) where job_id is not null do update
        set content = excluded.content where saved.resource_type = 'continuation_prompt';
end
$$;
