-- Continuation: an answer in several chunks. An answer that was cut off is continued by another job; a call that broke
-- off is continued by the next attempt of its job, from the text it had streamed (partials). Each request sends what
-- was written before.
--
-- The core decides how chunks are joined (knit) and whether to ask for more. Nothing here calls a model.

-- The text that each call has streamed. Shorter text is left out: with a few letters nobody could tell whether the next
-- call continues them or begins again.
create view _fragments with (security_invoker) as
    select p.job_id, p.claim_id, string_agg(p.content, '' order by p.part_no) as said, min(p.part_no) as place
    from partials p
    group by p.job_id, p.claim_id
    having length(btrim(string_agg(p.content, ''), E' \t\n\r')) >= 12;
comment on view _fragments is 'The text that calls have streamed: of calls that broke off, and of calls in flight.';

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
    return (select r.content from contributions c
            join resources r on r.id = c.source_prompt_resource_id
            where c.id = root);
end
$$;

-- The first missing chunk of the answer that a job continues; null when none is missing.
create function _gap(job jobs, numbers integer[]) returns text
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('chunk %s of contribution %s', min(n), job.target_contribution_id)
    from generate_series(1, greatest(job.after_chunk, 1)) as n
    where numbers is null or n <> all (numbers)
    having count(*) > 0
$$;

-- What earlier calls of answered jobs had streamed becomes the chunks before their answers. Returns the jobs that have
-- such chunks.
create function _keep_fragments(answers _answer[]) returns uuid[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    torn uuid[];
begin
    with fragment as (
        select f.job_id, f.claim_id, _uuid_v7() as id, f.said,
               row_number() over (partition by f.job_id order by f.place) as nth
        from unnest(answers) as a
        -- Job by job: other jobs may be streaming much.
        cross join lateral (
            select * from _fragments of where of.job_id = a.job_id and of.claim_id <> a.claim_id offset 0) as f
        where a.text is not null
    ),
    kept as (
        insert into contributions (
            id, session_id, job_id, root_id, chunk_no, stage, iteration, step_key, output_type, model, document_key,
            lineage_id, reviewer, source_prompt_resource_id, is_header, is_part, finish_reason, input_tokens,
            output_tokens, cached_tokens, content, mime_type)
        select f.id, j.session_id, j.id, coalesce(j.target_contribution_id, first.id),
               coalesce(j.after_chunk, 0) + f.nth,
               run.stage, run.iteration, j.step_key, j.output_type, j.model, j.document_key, j.lineage_id, j.reviewer,
               (select p.id from resources p
                where p.job_id = j.id and p.resource_type in ('turn_prompt', 'planner_prompt', 'continuation_prompt')
                  and (p.resource_type = 'continuation_prompt') = (f.nth > 1 or j.target_contribution_id is not null)),
               j.makes = 'header', true, 'error', coalesce(c.input_tokens, 0), coalesce(c.output_tokens, 0),
               coalesce(c.cached_tokens, 0), f.said,
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

-- What the messages were that these claims sent, and what is known of the calls: the stored prompt, the chunks that
-- stood behind it, the directive that asked for more, the text that was streamed, and how tokens are counted. Where the
-- model is deleted since, its tokens are counted by the default tokenizer.
create function _sent_prompts(job_ids uuid[], claim_ids bigint[]) returns table (
    job_id uuid, claim_id bigint, call_id uuid, definition_id text, stage text, step_key text, is_combine boolean,
    turn text, chunks text[], directive text, streamed text, tokenizer text, api_model text, factor double precision,
    samples integer
)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select j.id, r.claim_id, o.id, s.definition_id, run.stage, j.step_key, j.kind = 'combine',
               case when j.target_contribution_id is null then (
                        select t.content from resources t
                        where t.job_id = j.id and t.resource_type in ('turn_prompt', 'planner_prompt'))
                    when d.content is not null then _chain_prompt(j.target_contribution_id) end,
               _sent_chunks(j, r.claim_id), d.content,
               (select string_agg(p.content, '' order by p.part_no) from partials p
                where p.job_id = j.id and p.claim_id = r.claim_id),
               coalesce(m.tokenizer, 'o200k_base'), coalesce(m.api_model, o.model, j.model), ratio.factor, ratio.samples
        from unnest(job_ids, claim_ids) with ordinality as r(job_id, claim_id, nth)
        join jobs j on j.id = r.job_id
        join sessions s on s.id = j.session_id
        left join stage_runs run on run.id = j.stage_run_id
        left join resources d on d.job_id = j.id and d.resource_type = 'continuation_prompt'
        left join model_calls o on o.job_id = r.job_id and o.claim_id = r.claim_id
        left join _current_models m on m.name = coalesce(o.model, j.model)
        left join token_ratios ratio on ratio.model = coalesce(o.model, j.model)
        order by r.nth;
end
$$;

-- The same of calls whose claimer died.
create function _lost_prompts(calls uuid[]) returns table (
    job_id uuid, claim_id bigint, call_id uuid, definition_id text, stage text, step_key text, is_combine boolean,
    turn text, chunks text[], directive text, streamed text, tokenizer text, api_model text, factor double precision,
    samples integer
)
    language plpgsql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select p.*
        from (select array_agg(c.job_id) as jobs, array_agg(c.claim_id) as claims
              from model_calls c where c.id = any (calls)) as lost
        cross join lateral _sent_prompts(lost.jobs, lost.claims) as p;
end
$$;

-- The chunks that stood behind the prompt of a job when this claim sent it. The last chunk that the job wrote itself is
-- the answer to that request.
create function _sent_chunks(job jobs, claim_id bigint) returns text[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    last integer := (select max(c.chunk_no) from contributions c where c.job_id = job.id);
begin
    return array(
        select c.content
        from contributions c
        where (c.id = job.target_contribution_id
               or (c.root_id = job.target_contribution_id and c.root_id <> c.id) or c.job_id = job.id)
          and (last is null or c.chunk_no < last)
        order by c.chunk_no) || _said_before(job.id, _sent_chunks.claim_id);
end
$$;

create function prompt(job uuid) returns jsonb
    language plpgsql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if not exists (
        select from jobs j
        join sessions s on s.id = j.session_id
        where j.id = prompt.job and (s.owner = _calling_owner() or _caller_is_admin())
          and s.id not in (select d.id from deletions d)) then
        raise exception 'job "%" does not exist', coalesce(prompt.job::text, 'null')
            using errcode = 'no_data_found', hint = 'dialectic.job_tree(session) lists the jobs of a session.';
    end if;
    return _sent_messages(
        prompt.job,
        (select c.claim_id from model_calls c
         where c.job_id = prompt.job order by c.started_at desc, c.claim_id desc limit 1));
end
$$;
comment on function prompt(uuid) is
    'All messages of the last request of a job. A request that continues an answer has those of the first request, '
    'what was written so far, and the directive. Null before there is one.';
