-- Planning: what a plan job does. It reads how far each model of its stage run has come, lets the planner (core) decide which
-- steps are ready and which children they get, and inserts those with their inputs.
--
-- It runs under the lock of the session, so nothing ends between what it reads and what it decides; planning twice inserts
-- nothing twice. It never calls a model.

-- How far each model of a stage run has come, as the planner wants to know it.
create function _stage_progress(run uuid) returns jsonb
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select jsonb_agg(jsonb_build_object(
        'model', root.model,
        'status', root.status,
        'planned', coalesce(root.results -> 'planned_steps', '[]'),
        'unfinished', (
            select coalesce(jsonb_agg(distinct child.step_key), '[]')
            from jobs child
            where child.parent_job_id = root.id and child.status <> all (_ended_statuses()))))
    from jobs root
    where root.stage_run_id = run and root.parent_job_id is null
$$;

-- The artifacts that a step may take, by the types its inputs name: those of completed steps of this stage run, those of
-- earlier stages from the newest iteration in which that stage completed, and the texts of the project and the stage.
create function _sources(run stage_runs, types text[]) returns jsonb
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    with source_run as (
        select run.id as id
        union all
        (select distinct on (r.stage) r.id
         from stage_runs r
         where r.session_id = run.session_id and r.stage <> run.stage and r.status = 'completed' and r.iteration <= run.iteration
         order by r.stage, r.iteration desc)
    ),
    artifact as (
        select c.id, c.output_type as type, c.stage, c.document_key, c.model, c.lineage_id, c.reviewer
        from source_run
        join jobs j on j.stage_run_id = source_run.id and j.status = 'completed' and j.parent_job_id is not null
        join jobs root on root.id = j.parent_job_id
        join contributions c on c.job_id = j.id and c.root_id = c.id
        where c.output_type = any (types)
          -- A model that failed is left out whole: half of its work would leave the other models with half of their inputs.
          and case when source_run.id = run.id
                   then root.status not in ('failed', 'retry_loop_failed', 'cancelled', 'superseded') and not exists (select from jobs other
                                    where other.parent_job_id = j.parent_job_id and other.step_key = j.step_key
                                      and other.status not in ('completed', 'cancelled', 'superseded'))
                   else root.status = 'completed' end
        union all
        select r.id, r.resource_type, r.stage, r.document_key, r.model, r.lineage_id, null
        from sessions s
        join resources r on r.project_id = s.project_id
        where s.id = run.session_id and r.resource_type = any (types) and r.job_id is null
          and (r.session_id is null
               or (r.session_id = s.id and r.iteration = run.iteration
                   and (r.stage = run.stage or r.resource_type <> 'seed_prompt')))
    )
    select coalesce(jsonb_agg(to_jsonb(artifact)), '[]') from artifact
$$;

-- Plans every step that is ready and returns the status the root goes to.
create function _plan_root(root jobs) returns text
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    run        stage_runs;
    definition text;
    recipe     jsonb;
    planned    jsonb := coalesce(root.results -> 'planned_steps', '[]');
    decision   jsonb;
    step       jsonb;
begin
    select r.* into strict run from stage_runs r where r.id = root.stage_run_id;
    select s.definition_id into strict definition from sessions s where s.id = root.session_id;
    recipe := _stage(definition, run.stage) -> 'recipe';
    loop
        decision := _ready_steps(recipe, root.model, _stage_progress(run.id), (get_config('stage_min_models') #>> '{}')::integer);
        exit when decision -> 'ready' = '[]';
        for step in select s from jsonb_array_elements(recipe -> 'steps') as s where decision -> 'ready' ? (s ->> 'key') loop
            perform _insert_children(root, step, _plan_step(recipe, step ->> 'key', run.stage, root.model, _sources(run, array(
                select i ->> 'type' from jsonb_array_elements(step -> 'inputs_required') as i))));
            planned := planned || jsonb_build_array(step ->> 'key');
        end loop;
        update jobs j set results = jsonb_build_object('planned_steps', planned) where j.id = root.id;
    end loop;
    if decision ->> 'status' = 'waiting_for_children' and not exists (
        select from jobs other join job_statuses s on s.status = other.status
        where other.stage_run_id = run.id and other.id <> root.id
          and (s.phase in ('ready', 'running', 'paused') or other.status = 'waiting_for_prerequisite')) then
        raise exception 'step "%" can never begin: nobody works on what it needs', decision ->> 'next'
            using errcode = 'invalid_parameter_value';
    end if;
    return decision ->> 'status';
end
$$;

create function _insert_children(root jobs, step jsonb, children jsonb) returns void
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    with child as materialized (
        select _uuid_v7() as id, c.*
        from jsonb_to_recordset(children)
            as c(group_key text, lineage_id uuid, starts_lineage boolean, reviewer text, inputs jsonb)
    ),
    inserted as (
        insert into jobs (id, session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, document_key,
                          lineage_id, reviewer, priority, max_retries, is_test_job)
        select child.id, root.session_id, root.stage_run_id, root.id, 'execute', step ->> 'key', root.model, child.group_key,
               step ->> 'document_key', case when child.starts_lineage then child.id else child.lineage_id end, child.reviewer,
               root.priority, root.max_retries, root.is_test_job
        from child
        on conflict do nothing
        returning id
    )
    insert into job_inputs (job, position, artifact, role, relevance)
    select child.id, input.position, (input.value ->> 'artifact')::uuid, input.value ->> 'role', (input.value ->> 'relevance')::double precision
    from inserted
    join child using (id), jsonb_array_elements(child.inputs) with ordinality as input(value, position)
$$;

create function plan(recipe jsonb, sources jsonb, models text[])
    returns table (step_key text, model text, group_key text, lineage_id text, reviewer text, inputs jsonb)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('recipe', plan.recipe is null);
    perform _refuse_null('sources', plan.sources is null);
    perform _refuse_null('models', coalesce(cardinality(plan.models), 0) = 0 or array_position(plan.models, null) is not null);
    return query
        select c.step_key, c.model, c.group_key, c.lineage_id, c.reviewer, c.inputs
        from jsonb_to_recordset(_plan_recipe(plan.recipe, plan.recipe ->> 'stage', plan.sources, plan.models))
            as c(step_key text, model text, group_key text, lineage_id text, reviewer text, inputs jsonb);
end
$$;
comment on function plan(jsonb, jsonb, text[]) is
    'The jobs a recipe would become over these sources ({id, type, stage, document_key, model, lineage_id, reviewer}) and models; nothing is stored.';
