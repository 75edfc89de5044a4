-- Chains: an answer in several chunks. Where a model was cut off the answer goes on in another job; where a call broke off, in another
-- attempt of its job, from what it had said (partials). What was written before is sent along, and all of it is one answer.
--
-- How chunks are told apart and joined is the core's business (knit), and so is whether to ask for more. Nothing here calls a model.

-- What each call has said and put down. With a few letters nobody could tell whether what comes next goes on from them or begins again.
create view _fragments with (security_invoker) as
    select p.job_id, p.claim_id, string_agg(p.content, '' order by p.part_no) as said, min(p.part_no) as place
    from partials p
    group by p.job_id, p.claim_id
    having length(btrim(string_agg(p.content, ''), E' \t\n\r')) >= 12;
comment on view _fragments is 'What calls had said when they broke off, and what others are saying.';

-- What calls of a job had said when they broke off, oldest first; not that of this claim, which may be speaking.
create function _said_before(job uuid, claim_id bigint) returns text[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(
        select f.said from _fragments f
        where f.job_id = _said_before.job and f.claim_id is distinct from _said_before.claim_id
        order by f.place);
end
$$;

-- Texts that were condensed from others, each with the job that read those.
create view _condensed with (security_invoker) as
    select c.id as artifact, c.job_id from contributions c where c.output_type = 'combined'
    union all
    select r.id, c.job_id
    from resources r
    join contributions c on c.id = r.source_contribution_id
    where r.output_type = 'combined' and r.resource_type = 'rendered_document';
comment on view _condensed is 'Texts that were condensed from others, each with the job that read those.';

-- The messages that a chain is the answer to, as they were saved.
create function _chain_prompt(root uuid) returns text
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return (select r.content from contributions c join resources r on r.id = c.source_prompt_resource_id where c.id = root);
end
$$;

-- The first chunk that is not among those of a chain that a job goes on with; null when all are.
create function _gap(job jobs, numbers integer[]) returns text
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('chunk %s of contribution %s', min(n), job.target_contribution_id)
    from generate_series(1, greatest(job.after_chunk, 1)) as n
    where numbers is null or n <> all (numbers)
    having count(*) > 0
$$;

-- For replies that have just come, one element of each array a reply: what earlier calls of a job had said becomes the chunks before its
-- answer. Returns the jobs that have such chunks.
create function _keep_fragments(current uuid[], job_ids uuid[], claim_ids bigint[], answers text[], classes text[]) returns uuid[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    torn uuid[];
begin
    with fragment as (
        select f.job_id, f.claim_id, _uuid_v7() as id, f.said, row_number() over (partition by f.job_id order by f.place) as nth
        from unnest(job_ids, claim_ids, answers, classes) as r(job_id, claim_id, answer, class)
        -- Job by job: the others may be saying much.
        cross join lateral (select * from _fragments of where of.job_id = r.job_id and of.claim_id <> r.claim_id offset 0) as f
        where r.class is null and r.answer is not null and r.job_id = any (current)
    ),
    kept as (
        insert into contributions (id, session_id, job_id, root_id, chunk_no, stage, iteration, step_key, output_type, model, document_key,
                                   lineage_id, reviewer, source_prompt_resource_id, is_header, is_part, finish_reason, input_tokens, output_tokens,
                                   cached_tokens, content, mime_type)
        select f.id, j.session_id, j.id, coalesce(j.target_contribution_id, first.id), coalesce(j.after_chunk, 0) + f.nth,
               run.stage, run.iteration, j.step_key, j.output_type, j.model, j.document_key, j.lineage_id, j.reviewer,
               (select p.id from resources p
                where p.job_id = j.id and p.resource_type in ('turn_prompt', 'planner_prompt', 'continuation_prompt')
                  and (p.resource_type = 'continuation_prompt') = (f.nth > 1 or j.target_contribution_id is not null)),
               j.makes = 'header', true, 'error', coalesce(c.input_tokens, 0), coalesce(c.output_tokens, 0), coalesce(c.cached_tokens, 0), f.said,
               case j.makes when 'text' then 'text/markdown' else 'application/json' end
        from fragment f
        join fragment first on first.job_id = f.job_id and first.nth = 1
        join jobs j on j.id = f.job_id
        join stage_runs run on run.id = j.stage_run_id
        left join model_calls c on c.job_id = f.job_id and c.claim_id = f.claim_id
        returning contributions.job_id
    )
    select array_agg(distinct k.job_id) into torn from kept k;
    return coalesce(torn, '{}');
end
$$;

-- All messages of the request of a job that this claim made.
create function _prompt_of(job jobs, claim_id bigint) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    directive text := (select r.content from resources r where r.job_id = job.id and r.resource_type = 'continuation_prompt');
    queue_position      text := case when job.target_contribution_id is not null then _chain_prompt(job.target_contribution_id)
                           else (select r.content from resources r where r.job_id = job.id and r.resource_type in ('turn_prompt', 'planner_prompt')) end;
    -- The last thing it said is the answer to it.
    last      integer := (select max(c.chunk_no) from contributions c where c.job_id = job.id);
begin
    if directive is null then
        return case when job.target_contribution_id is null then queue_position::jsonb end;
    end if;
    return _continued_prompt(
        (select s.definition_id from sessions s where s.id = job.session_id), (select r.stage from stage_runs r where r.id = job.stage_run_id),
        job.step_key, job.kind = 'combine', queue_position,
        array(select c.content
              from contributions c
              where (c.id = job.target_contribution_id or (c.root_id = job.target_contribution_id and c.root_id <> c.id) or c.job_id = job.id)
                and (last is null or c.chunk_no < last)
              order by c.chunk_no) || _said_before(job.id, _prompt_of.claim_id),
        directive);
end
$$;

create function prompt(job uuid) returns jsonb
    language plpgsql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    seen jobs;
begin
    select j.* into seen
    from jobs j
    join sessions s on s.id = j.session_id
    where j.id = prompt.job and (s.owner = _calling_owner() or _caller_is_admin());
    if not found then
        raise exception 'job "%" does not exist', coalesce(prompt.job::text, 'null')
            using errcode = 'no_data_found', hint = 'dialectic.job_tree(session) lists the jobs of a session.';
    end if;
    return _prompt_of(seen, (select c.claim_id from model_calls c where c.job_id = seen.id order by c.started_at desc, c.claim_id desc limit 1));
end
$$;
comment on function prompt(uuid) is
    'All messages of the last request of a job; where it goes on with an answer: those of the first request, what was written so far, and what was asked for then. Null before there is one.';

-- What a call consumed as far as it can be counted: what was sent, and what was said of the answer.
create function _counted(call model_calls, said text, out read bigint, out written bigint)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    sent jsonb := (select _prompt_of(j, call.claim_id) from jobs j where j.id = call.job_id);
begin
    select case when sent is null then 0 else _count_message_tokens(sent::text, m.tokenizer, m.api_model, r.factor, r.samples) end,
           case when said is null then 0 else _count_tokens(said, m.tokenizer, m.api_model, r.factor, r.samples) end
    into read, written
    -- A model may be gone by now.
    from (select coalesce(s.tokenizer, 'o200k_base') as tokenizer, coalesce(s.api_model, call.model) as api_model
          from (select call.model) as called(name) left join _current_models s on s.name = called.name) as m
    left join token_ratios r on r.model = call.model;
end
$$;

-- What an answer consumed, where usage does not say it, or says that a text was made of nothing by nothing; null where usage says it, or
-- there was no call.
create function _count_usage(job uuid, claim_id bigint, answer text, usage jsonb) returns jsonb
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    call    model_calls;
    counted record;
begin
    if answer <> '' and usage -> 'input_tokens' = '0' and usage -> 'output_tokens' = '0' then
        usage := usage - '{input_tokens,output_tokens}'::text[];
    end if;
    if usage ->> 'input_tokens' is not null and usage ->> 'output_tokens' is not null then
        return null;
    end if;
    select c.* into call from model_calls c where c.job_id = _count_usage.job and c.claim_id = _count_usage.claim_id;
    if not found then
        return null;
    end if;
    counted := _counted(call, answer);
    return usage || jsonb_build_object(
        'input_tokens', coalesce((usage ->> 'input_tokens')::numeric::bigint, counted.read),
        'output_tokens', coalesce((usage ->> 'output_tokens')::numeric::bigint, counted.written));
end
$$;

-- Closes calls whose claimer died. What they consumed nobody said: it is counted from what was sent and from what was put down of the
-- answer. A call may not have left at all; what was sent is paid for all the same, and is better counted once too often.
create function _close_lost_calls(calls uuid[], moment timestamptz) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update model_calls c
    set outcome = 'lost', finished_at = moment, error_class = 'transient', error_message = 'the claimer died during the call',
        is_estimated = true, input_tokens = used.read, output_tokens = used.written, cached_tokens = 0, cache_write_tokens = 0, reasoning_tokens = 0,
        cost = _cost(c.prices, used.read, 0, 0, used.written, 0)
    from (
        select o.id, counted.read, counted.written
        from model_calls o
        cross join lateral _counted(o, (
            select string_agg(p.content, '' order by p.part_no) from partials p
            where p.job_id = o.job_id and p.claim_id = o.claim_id)) as counted
        where o.id = any (calls)) as used
    where c.id = used.id;
    if calls <> '{}' and (exists (select from wallets) or exists (select from budgets)) then
        perform _settle(calls);
    end if;
end
$$;
