-- Documents: what follows from an answer. A header, an assembled answer and a text that came in several chunks are
-- stored as resources; a job renders a document from its answer; a job that continues the answer asks for the rest.
--
-- How JSON is read and how it becomes Markdown is the core's business. Nothing here calls a model.

-- Stores what follows from answers: the whole in normal form, and the jobs that render it or ask for more of it.
create function _follow_answers(answers _answer[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into resources (
        id, resource_type, project_id, session_id, job_id, stage, iteration, step_key, output_type, model, document_key,
        lineage_id, reviewer, version, source_contribution_id, is_complete, mime_type, content)
    select coalesce(case j.makes when 'text' then j.output_text_id end, _uuid_v7()),
           case j.makes when 'header' then 'header_context' when 'text' then 'rendered_document'
                        else 'assembled_json' end,
           s.project_id, s.id, j.id, run.stage, run.iteration, j.step_key, j.output_type, j.model, j.document_key,
           j.lineage_id, j.reviewer, j.version, _root_of(j, a.id), a.is_complete,
           case j.makes when 'text' then 'text/markdown' else 'application/json' end, a.content
    from unnest(answers) as a
    join jobs j on j.id = a.job_id
    join sessions s on s.id = j.session_id
    join stage_runs run on run.id = j.stage_run_id
    where a.content is not null;
    perform _insert_followers(answers);
    if exists (select from unnest(answers) as a
               where a.continue_reason is not null or (a.content is not null and not a.is_complete)) then
        perform _tell_of_chunks(answers);
    end if;
end
$$;

-- The first chunk of the chain that an answer belongs to.
create function _root_of(job jobs, contribution uuid) returns uuid
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return coalesce(job.target_contribution_id, (select c.root_id from contributions c where c.id = contribution),
                    contribution);
end
$$;

-- Inserts the jobs that render answers or continue them. A job that waits for an answer waits for all of it.
create function _insert_followers(answers _answer[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into jobs (
        session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, output_type, makes, document_key,
        strategy, lineage_id, reviewer, version, status, continuation_count, target_contribution_id, priority,
        max_retries, is_test_job, queue_position, continue_reason, missing_keys, after_chunk, output_text_id,
        combine_depth, combine_target, combine_limit, output_budget)
    select j.session_id, j.stage_run_id, j.parent_job_id,
           case when a.continue_reason is null then 'render' else j.kind end, j.step_key, j.model, j.group_key,
           j.output_type, j.makes, j.document_key, j.strategy, j.lineage_id, j.reviewer, j.version,
           case when a.continue_reason is null then 'pending' else 'pending_continuation' end,
           j.continuation_count + (a.continue_reason is not null)::integer, _root_of(j, a.id), j.priority,
           j.max_retries, j.is_test_job, greatest(j.queue_position, _claim_position()), a.continue_reason,
           a.missing_keys,
           (select c.chunk_no from contributions c where c.id = a.id and a.continue_reason is not null),
           continued.output_text_id, continued.combine_depth, continued.combine_target, continued.combine_limit,
           continued.output_budget
    from unnest(answers) as a
    join jobs j on j.id = a.job_id
    left join jobs continued on continued.id = j.id and a.continue_reason is not null
    where a.continue_reason is not null or (a.content is not null and j.makes = 'document')
    on conflict do nothing;
    insert into job_dependencies (job_id, prerequisite_id)
    select d.job_id, follower.id
    from unnest(answers) as a
    join job_dependencies d on d.prerequisite_id = a.job_id
    join jobs j on j.id = a.job_id
    join jobs follower on follower.parent_job_id = j.parent_job_id
        and follower.target_contribution_id = _root_of(j, a.id)
        and follower.continuation_count = j.continuation_count + 1 and follower.kind = j.kind
    where a.continue_reason is not null;
end
$$;

-- What these claimed render jobs render: the assembled answer and the facts of its front matter.
create function _document_jobs(job_ids uuid[])
    returns table (job_id uuid, claim_id bigint, session_id uuid, definition_id text, project text, stage text,
                   iteration integer, step_key text, model text, document_key text, version integer, tokens bigint,
                   cost text, sources text[], condensed text[], content text)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select j.id, j.claim_id, s.id, s.definition_id, p.name, run.stage, run.iteration, j.step_key, j.model,
               coalesce(j.document_key, j.output_type), j.version, spent.tokens::bigint,
               round(spent.cost / 1000000.0, 6)::text, _source_names(c.job_id, false),
               _source_names(c.job_id, true), a.content
        from unnest(job_ids) as claimed(id)
        join jobs j on j.id = claimed.id and j.claim_id is not null
        join sessions s on s.id = j.session_id
        join projects p on p.id = s.project_id
        join stage_runs run on run.id = j.stage_run_id
        join contributions c on c.id = j.target_contribution_id
        join resources a on a.session_id = s.id and a.stage = run.stage and a.iteration = run.iteration
            and a.resource_type = 'assembled_json' and a.source_contribution_id = c.id
        cross join lateral (
            select coalesce(sum(m.input_tokens + m.output_tokens), 0) as tokens, coalesce(sum(m.cost), 0) as cost
            from (select c.job_id
                  union
                  select chunk.job_id from contributions chunk
                  where chunk.root_id = c.id and chunk.root_id <> chunk.id) as wrote
            join model_calls m on m.job_id = wrote.job_id) as spent;
end
$$;

-- What a job read, each as stage/author/document; or only what it did not read as a whole.
create function _source_names(job uuid, only_condensed boolean) returns text[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(
        select concat_ws('/', t.stage, t.model, coalesce(t.key, t.name))
        from job_inputs i
        cross join lateral (
            select c.stage, c.model, coalesce(c.document_key, c.output_type) as key, null as name
            from contributions c where c.id = i.artifact
            union all
            select r.stage, r.model, coalesce(r.document_key, r.output_type, r.resource_type), r.name
            from resources r where r.id = i.artifact
        ) as t
        where i.job = _source_names.job and (not only_condensed or i.chunks is not null or i.role = 'combined')
        order by i.position);
end
$$;

-- Stores rendered documents and completes their jobs; returns the jobs that were still claimed under these claims.
create function _keep_documents(job_ids uuid[], claim_ids bigint[], texts text[]) returns setof uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    current uuid[] := _lock_claims(job_ids, claim_ids);
begin
    insert into resources (
        resource_type, project_id, session_id, job_id, stage, iteration, step_key, output_type, model, document_key,
        lineage_id, reviewer, version, source_contribution_id, source_resource_id, is_complete, content)
    select 'rendered_document', s.project_id, s.id, j.id, run.stage, run.iteration, j.step_key, j.output_type, j.model,
           coalesce(j.document_key, j.output_type), j.lineage_id, j.reviewer, j.version, j.target_contribution_id, a.id,
           a.is_complete, r.text
    from unnest(job_ids, texts) as r(job_id, text)
    join jobs j on j.id = r.job_id and j.id = any (current)
    join sessions s on s.id = j.session_id
    join stage_runs run on run.id = j.stage_run_id
    join resources a on a.session_id = s.id and a.stage = run.stage and a.iteration = run.iteration
        and a.resource_type = 'assembled_json' and a.source_contribution_id = j.target_contribution_id
    on conflict do nothing;
    update jobs j
    set status = 'completed', completed_at = _now(), attempt_count = j.attempt_count + 1, error_details = null,
        status_before = null, claim_id = null, claimed_by = null, lease_until = null
    where j.id = any (current);
    if exists (select from jobs j where j.id = any (current) and j.version > 1) then
        perform _replace_older(current);
    end if;
    return query select * from unnest(current);
end
$$;
