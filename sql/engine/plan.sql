-- Planning: reads the progress and the artifacts of many stage runs at once, and stores the children of their plans.
--
-- The planner (core) decides which steps are ready and which children they get. Runs under the locks of the sessions,
-- so no job ends between reading and deciding. Planning twice inserts nothing twice. Never calls a model.

-- The plans among these claimed jobs that are still claimed, with the facts that need no look at their stages. A plan
-- without a seed prompt gets one before it is planned; one that has planned steps has had it.
create function _plan_roots(job_ids uuid[], claim_ids bigint[])
    returns table (job_id uuid, session_id uuid, project_id uuid, stage_run_id uuid, stage text, iteration integer,
                   definition_id text, model text, failed_child text, last_position bigint, min_models integer,
                   has_seed boolean)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select j.id, s.id, s.project_id, run.id, run.stage, run.iteration, s.definition_id, j.model,
               (select format('step "%s" failed: %s', c.step_key, c.error_details ->> 'message')
                from steps_under_way u
                join jobs c on c.parent_job_id = u.parent_job_id and c.step_key = u.step_key
                where u.stage_run_id = j.stage_run_id and u.parent_job_id = j.id and u.failed > 0
                  and c.status in ('failed', 'retry_loop_failed')
                order by c.completed_at, c.id
                limit 1),
               greatest(s.last_position, (select _claim_position())), (select _min_models()),
               j.planned_steps is not null or exists (
                   select from resources r
                   where (r.session_id, r.stage, r.iteration) = (s.id, run.stage, run.iteration)
                     and r.resource_type = 'seed_prompt')
        from unnest(job_ids, claim_ids) as claim(job_id, claim_id)
        join jobs j on j.id = claim.job_id and j.claim_id = claim.claim_id and j.kind = 'plan'
        join sessions s on s.id = j.session_id
        join stage_runs run on run.id = j.stage_run_id
        order by j.id;
end
$$;

-- The progress of each model in these stage runs, for the planner.
create function _plan_progress(run_ids uuid[])
    returns table (stage_run_id uuid, model text, status text, planned text[], unfinished text[])
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select root.stage_run_id, root.model, root.status,
               coalesce(root.planned_steps, '{}'),
               array(select u.step_key from steps_under_way u
                     where u.stage_run_id = root.stage_run_id and u.parent_job_id = root.id and u.unfinished > 0)
        from jobs root
        where root.stage_run_id = any (run_ids) and root.parent_job_id is null
        order by root.stage_run_id, root.id;
end
$$;

-- The plans whose artifacts a stage run of a further iteration reads: of each other stage and each model the newest one
-- up to this iteration (is_previous: before it, and of the same stage too). Where a newer iteration did not ask a
-- model, that is a plan of an earlier one.
create function _plans_read(run stage_runs)
    returns table (stage text, iteration integer, is_previous boolean, root uuid)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select distinct on (wanted.is_previous, e.stage, root.model) e.stage, e.iteration, wanted.is_previous, root.id
    from (values (false), (true)) as wanted(is_previous)
    join stage_runs e on e.session_id = run.session_id and e.status = 'completed'
        and case when wanted.is_previous then e.iteration < run.iteration
                 else e.iteration <= run.iteration and e.stage <> run.stage end
    join jobs root on root.stage_run_id = e.id and root.parent_job_id is null
    order by wanted.is_previous, e.stage, root.model, e.iteration desc
$$;

-- Whether an artifact is among what a stage run of a further iteration reads: its plan is one of these, and its lineage
-- does not begin with a text that a newer iteration has replaced.
create function _is_read(plans jsonb, plan uuid, lineage uuid, reader uuid, is_previous boolean) returns boolean
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select plans ? plan::text
       and (is_previous or lineage is null or not exists (
           select from jobs origin
           where origin.id = lineage and origin.stage_run_id <> reader and not plans ? origin.parent_job_id::text))
$$;

-- A stage run, and a stage and iteration whose artifacts it reads. In a further iteration plans are the ids of the plan
-- jobs whose artifacts it reads; else plans is null, and it reads all of them.
create type _plan_read as (
    reader uuid, session_id uuid, stage text, iteration integer, is_previous boolean, plans jsonb
);

-- An artifact that a step of a stage run may take.
create type _plan_source as (
    stage_run_id uuid, id uuid, json_id uuid, type text, stage text, document_key text, model text, lineage_id uuid,
    reviewer text, is_previous boolean
);

-- The stages and iterations that these stage runs read: their own, and those of the other stages that completed.
create function _plan_reads(run_ids uuid[]) returns _plan_read[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(
        select row(r.id, r.session_id, r.stage, r.iteration, false, null)::_plan_read
        from stage_runs r
        where r.id = any (run_ids)
        union all
        select row(r.id, r.session_id, e.stage, e.iteration, false, null)::_plan_read
        from stage_runs r
        join stage_runs e on e.session_id = r.session_id and e.stage <> r.stage and e.iteration = 1
        where r.id = any (run_ids) and r.iteration = 1 and e.status = 'completed'
        union all
        -- The artifacts from before this iteration are offered besides, to inputs that ask for them.
        select distinct row(r.id, r.session_id, earlier.stage, earlier.iteration, earlier.is_previous,
                            jsonb_agg(earlier.root) over (partition by r.id, earlier.is_previous))::_plan_read
        from stage_runs r
        cross join lateral _plans_read(r) as earlier
        where r.id = any (run_ids) and r.iteration > 1);
end
$$;

-- Whether an artifact of a completed job is offered to a reader. Steps that the reader's models have not finished are
-- left out, and so is a model that failed: half of its work would leave the other models with half of their inputs.
create function _is_offered(job jobs, root jobs, lineage uuid, read _plan_read, unfinished text[]) returns boolean
    language sql stable
    return case
        when (job).stage_run_id = (read).reader
            then (root).status not in ('failed', 'retry_loop_failed', 'cancelled', 'superseded')
                 and (job).parent_job_id || ' ' || (job).step_key <> all (unfinished)
        else (root).status = 'completed'
             and ((read).plans is null
                  or _is_read((read).plans, (root).id, lineage, (read).reader, (read).is_previous)) end;

-- Answers that are texts themselves.
create function _answer_sources(reads _plan_read[], types text[], unfinished text[]) returns setof _plan_source
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select read.reader, c.id, null::uuid, c.output_type, c.stage, c.document_key, c.model, c.lineage_id,
               c.reviewer, read.is_previous
        from unnest(reads) as read
        join contributions c on (c.session_id, c.stage, c.iteration) = (read.session_id, read.stage, read.iteration)
        join jobs j on j.id = c.job_id and j.status = 'completed'
        join jobs root on root.id = j.parent_job_id
        where c.output_type = any (types) and not c.is_part and c.mime_type = 'text/markdown'
          and _is_offered(j, root, c.lineage_id, read, unfinished);
end
$$;

-- Texts made from answers: of an answer in JSON the header, the newest version of its document, or the JSON itself
-- where it stays JSON; of a text in several chunks the whole.
create function _made_sources(reads _plan_read[], types text[], unfinished text[]) returns setof _plan_source
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select made.reader, made.id, made.source_resource_id, made.output_type, made.stage, made.document_key,
               made.model, made.lineage_id, made.reviewer, made.is_previous
        from (
            select distinct on (read.reader, read.is_previous, j.parent_job_id, j.step_key, j.group_key)
                   read.reader, read.is_previous, r.id, r.source_resource_id, r.output_type, r.stage, r.document_key,
                   r.model, r.lineage_id, r.reviewer
            from unnest(reads) as read
            join resources r on (r.session_id, r.stage, r.iteration) = (read.session_id, read.stage, read.iteration)
                and r.resource_type in ('header_context', 'assembled_json', 'rendered_document')
            join jobs j on j.id = r.job_id and j.status = 'completed'
            join jobs root on root.id = j.parent_job_id
            where r.output_type = any (types) and _is_offered(j, root, r.lineage_id, read, unfinished)
            order by read.reader, read.is_previous, j.parent_job_id, j.step_key, j.group_key,
                     (r.resource_type = 'rendered_document') desc, r.version desc, r.id desc) as made;
end
$$;

-- Texts that no job wrote: those of the project, those of the stage run, and feedback. Feedback belongs to the stage it
-- is about: a reader of that stage and iteration reads the feedback given then.
create function _given_sources(run_ids uuid[], reads _plan_read[], types text[]) returns setof _plan_source
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select run.id, r.id, null::uuid, r.resource_type, r.stage, r.document_key, r.model, r.lineage_id, r.reviewer,
               false
        from stage_runs run
        join sessions s on s.id = run.session_id
        join resources r on r.project_id = s.project_id and r.resource_type = any (types)
        where run.id = any (run_ids) and r.job_id is null
          and (r.session_id is null
               or (r.resource_type <> 'user_feedback' and r.session_id = s.id and r.iteration = run.iteration
                   and (r.stage = run.stage or r.resource_type <> 'seed_prompt')))
        union all
        select read.reader, r.id, null, r.resource_type, r.stage, r.document_key, r.model, r.lineage_id, r.reviewer,
               read.is_previous
        from unnest(reads) as read
        join resources r on (r.session_id, r.stage, r.iteration) = (read.session_id, read.stage, read.iteration)
            and r.resource_type = 'user_feedback' and r.job_id is null
        where r.resource_type = any (types);
end
$$;

-- The artifacts that steps of these stage runs may take, by the types their inputs name. Answers, and texts made from
-- them, are read only where there can be any.
create function _plan_sources(run_ids uuid[], types text[], with_answers boolean, with_json boolean)
    returns setof _plan_source
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    reads      _plan_read[];
    unfinished text[];
begin
    if with_answers then
        reads := _plan_reads(run_ids);
        unfinished := array(
            select u.parent_job_id || ' ' || u.step_key
            from steps_under_way u
            where u.stage_run_id = any (run_ids) and u.unfinished > 0);
        return query select * from _answer_sources(reads, types, unfinished);
    end if;
    if with_json or (with_answers and exists (
            select from unnest(reads) as read
            join resources r on (r.session_id, r.stage, r.iteration) = (read.session_id, read.stage, read.iteration)
                and r.resource_type in ('header_context', 'assembled_json', 'rendered_document'))) then
        return query select * from _made_sources(reads, types, unfinished);
    end if;
    return query select * from _given_sources(run_ids, reads, types);
end
$$;

-- A job that was planned.
create type _planned_child as (
    id             uuid,
    root           uuid,
    step_key       text,
    output_type    text,
    group_key      text,
    document_key   text,
    lineage_id     uuid,
    reviewer       text,
    makes          text,
    strategy       text,
    queue_position bigint
);

-- An artifact that a planned job reads.
create type _planned_input as (
    job uuid, "position" integer, artifact uuid, role text, part text, relevance double precision,
    retrieval integer
);

-- Inserts the children that were planned, with what they read; a child that exists already stays as it is.
create function _plan_children(children _planned_child[], inputs _planned_input[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    inserted uuid[];
begin
    with child as (
        insert into jobs (id, session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, output_type,
                          document_key, lineage_id, reviewer, makes, strategy, priority, max_retries, is_test_job,
                          queue_position)
        select c.id, root.session_id, root.stage_run_id, root.id, 'execute', c.step_key, root.model, c.group_key,
               c.output_type, c.document_key, c.lineage_id, c.reviewer, c.makes, c.strategy, root.priority,
               root.max_retries, root.is_test_job, c.queue_position
        from unnest(children) as c
        join jobs root on root.id = c.root
        order by c.queue_position
        on conflict do nothing
        returning id
    )
    select array_agg(child.id) into inserted from child;
    insert into job_inputs (job, position, artifact, role, part, relevance, retrieval)
    select i.*
    from unnest(inputs) as i
    where cardinality(inserted) = cardinality(children) or i.job = any (inserted);
    update sessions s
    set last_position = newest.queue_position
    from (select root.session_id, max(c.queue_position) as queue_position
          from unnest(children) as c
          join jobs root on root.id = c.root
          group by root.session_id) as newest
    where s.id = newest.session_id and s.last_position < newest.queue_position;
end
$$;

-- Where a plan goes, and why if it fails. Its planned steps stay as they are where none are given.
create type _plan_outcome as (job_id uuid, status text, planned_steps text[], reason text);

-- Moves plans: they wait for what they planned, or are done, or have failed.
create function _move_plans(outcomes _plan_outcome[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update jobs j
    set status = plan.status, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        planned_steps = coalesce(plan.planned_steps, j.planned_steps),
        attempt_count = j.attempt_count + case when plan.status = 'waiting_for_children' then 0 else 1 end,
        completed_at = case when plan.status <> 'waiting_for_children' then _now() end,
        error_details = case when plan.status = 'failed'
                             then jsonb_build_object('class', 'permanent', 'message', plan.reason) end
    from unnest(outcomes) as plan
    where j.id = plan.job_id;
    if exists (select from suspect_jobs) then
        delete from suspect_jobs s using unnest(outcomes) as plan where s.job_id = plan.job_id;
    end if;
end
$$;

create function plan(recipe jsonb, sources jsonb, models text[])
    returns table (step_key text, model text, group_key text, lineage_id text, reviewer text, inputs jsonb)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('recipe', plan.recipe is null);
    perform _refuse_null('sources', plan.sources is null);
    perform _refuse_null('models', coalesce(cardinality(plan.models), 0) = 0
                                   or array_position(plan.models, null) is not null);
    return query
        select c.step_key, c.model, c.group_key, c.lineage_id, c.reviewer, c.inputs
        from jsonb_to_recordset(_plan_recipe(plan.recipe, plan.recipe ->> 'stage', plan.sources, plan.models))
            as c(step_key text, model text, group_key text, lineage_id text, reviewer text, inputs jsonb);
end
$$;
comment on function plan(jsonb, jsonb, text[]) is
    'The jobs a recipe would become over these sources ({id, type, stage, document_key, model, lineage_id, reviewer}) '
    'and models; nothing is stored.';
