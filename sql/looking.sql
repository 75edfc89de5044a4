-- Progress and jobs of sessions. Only reads, with the privileges of the caller.

-- Every model of a session in every stage and iteration, with its plan job (root) where it has one.
create function _model_stages(seen sessions)
    returns table (
        stage text, stage_position bigint, steps integer, iteration integer, run_status text, started_at timestamptz,
        model text, nth bigint, root_id uuid, status text, completed_at timestamptz, is_dropped boolean)
    language sql stable
begin atomic
    select listed.stage ->> 'slug', listed.position, jsonb_array_length(listed.stage -> 'recipe' -> 'steps'),
           run.iteration, run.status, run.started_at, m.name, m.nth, root.id, root.status, root.completed_at,
           m.name = any (_dropped_models(seen, listed.position::integer, run.iteration))
    from definitions d
    cross join lateral jsonb_array_elements(d.stages) with ordinality as listed(stage, position)
    cross join lateral unnest((seen).models) with ordinality as m(name, nth)
    left join stage_runs run on run.session_id = (seen).id and run.stage = listed.stage ->> 'slug'
    left join jobs root on root.stage_run_id = run.id and root.model = m.name and root.parent_job_id is null
    where d.id = (seen).definition_id;
end;

-- The jobs below each plan job of a session by phase, and their calls. Cost is in micro-dollars.
create function _job_counts(seen sessions)
    returns table (
        root_id uuid, done bigint, total bigint, ready bigint, running bigint, waiting bigint, paused bigint,
        failed bigint, input_tokens numeric, output_tokens numeric, cost numeric)
    language sql stable
begin atomic
    select j.parent_job_id, count(*) filter (where j.status = 'completed'), count(*),
           count(*) filter (where s.phase = 'ready'), count(*) filter (where s.phase = 'running'),
           count(*) filter (where s.phase = 'waiting'), count(*) filter (where s.phase = 'paused'),
           count(*) filter (where j.status in ('failed', 'retry_loop_failed')),
           sum(calls.input_tokens), sum(calls.output_tokens), sum(calls.cost)
    from jobs j
    join job_statuses s on s.status = j.status
    cross join lateral (
        select sum(c.input_tokens) as input_tokens, sum(c.output_tokens) as output_tokens, sum(c.cost) as cost
        from model_calls c
        where c.job_id = j.id) as calls
    where j.session_id = (seen).id and j.parent_job_id is not null
    group by j.parent_job_id;
end;

-- The completed steps below each plan job of a session, and the sum of the completed parts of all its steps.
create function _step_progress(seen sessions) returns table (root_id uuid, done bigint, part numeric)
    language sql stable
begin atomic
    select step.root_id, count(*) filter (where step.done = step.total), sum(step.done::numeric / step.total)
    from (
        select j.parent_job_id as root_id, count(*) filter (where j.status = 'completed') as done, count(*) as total
        from jobs j
        where j.session_id = (seen).id and j.parent_job_id is not null and j.status <> 'superseded'
          -- Where a new version failed, the version before it stands.
          and not (j.version > 1 and j.status in ('failed', 'retry_loop_failed', 'cancelled'))
        group by j.parent_job_id, j.step_key) as step
    group by step.root_id;
end;

create function progress(session uuid)
    returns table (
        stage text, iteration integer, model text, status text, bar text, steps_done integer, steps_total integer,
        jobs_done bigint, jobs_total bigint, ready bigint, running bigint, waiting bigint, paused bigint, failed bigint,
        elapsed interval, time_left interval, input_tokens bigint, output_tokens bigint, cost numeric)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    seen sessions := _seen_session(progress.session);
begin
    return query
        with measured as (
            select m.*, coalesce(case when m.status = 'completed' then 1 else step.part / m.steps end, 0) as part,
                   step.done as steps_done, coalesce(m.completed_at, _now()) - m.started_at as took
            from _model_stages(seen) as m
            left join _step_progress(seen) as step using (root_id)
        )
        select m.stage, m.iteration, m.model,
               coalesce(m.status, case when m.run_status = 'abandoned' then 'abandoned'
                                       when m.is_dropped then 'dropped'
                                       when m.run_status in ('running', 'completed', 'failed') then 'not asked' end,
                        m.run_status, 'not opened'),
               repeat('█', round(m.part * 20)::integer) || repeat('░', 20 - round(m.part * 20)::integer)
                   || lpad(round(m.part * 100)::text, 4) || '%',
               coalesce(m.steps_done, 0)::integer, m.steps, coalesce(c.done, 0), coalesce(c.total, 0),
               coalesce(c.ready, 0), coalesce(c.running, 0), coalesce(c.waiting, 0), coalesce(c.paused, 0),
               coalesce(c.failed, 0), date_trunc('milliseconds', case when m.root_id is not null then m.took end),
               date_trunc('milliseconds', case when m.part > 0 and m.part < 1
                                               then m.took * ((1 - m.part) / m.part)::double precision end),
               coalesce(c.input_tokens, 0)::bigint, coalesce(c.output_tokens, 0)::bigint,
               round(coalesce(c.cost, 0) / 1000000.0, 6)
        from measured m
        left join _job_counts(seen) as c using (root_id)
        order by m.iteration nulls last, m.stage_position, m.nth;
end
$$;
comment on function progress(uuid) is
    'How far each model is in each stage of a session; made for \watch 1. Cost is in dollars.';

create function job_tree(session uuid)
    returns table (
        job text, id uuid, status text, document_key text, model text, attempts integer, duration interval,
        input_tokens bigint, output_tokens bigint, cost numeric, error text)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _seen_session(job_tree.session);
    return query
        with recursive tree as (
            select j.id as node, 0 as depth, array[j.created_at::text || j.id::text] as place
            from jobs j where j.session_id = job_tree.session and j.parent_job_id is null
            union all
            select j.id, tree.depth + 1, tree.place || (j.created_at::text || j.id::text)
            from tree join jobs j on j.parent_job_id = tree.node
        )
        select repeat('  ', tree.depth)
                   || case when tree.depth = 0 then format('%s, iteration %s', r.stage, r.iteration)
                           else j.step_key end
                   || case when j.kind = 'render' then ' rendered'
                           when j.continuation_count > 0 then format(' continued (%s)', j.continuation_count)
                           else '' end
                   || coalesce(' ← ' || coalesce(
                          origin.model || case when source.reviewed then ' reviewed by ' || j.reviewer else '' end,
                          source.models), ''),
               j.id, j.status, j.document_key, j.model, j.attempt_count,
               date_trunc('milliseconds',
                          coalesce(j.completed_at, case when j.status = 'processing' then _now() end) - j.started_at),
               coalesce(calls.tokens_in, 0)::bigint, coalesce(calls.tokens_out, 0)::bigint,
               round(coalesce(calls.cost, 0) / 1000000.0, 6), j.error_details ->> 'message'
        from tree
        join jobs j on j.id = tree.node
        join stage_runs r on r.id = j.stage_run_id
        left join jobs origin on origin.id = j.lineage_id and origin.id <> j.id
        left join lateral (
            select string_agg(distinct c.model, ', ') as models, bool_or(c.reviewer = j.reviewer) as reviewed
            from job_inputs i join contributions c on c.id = i.artifact
            where i.job = j.id) as source on true
        left join lateral (
            select sum(c.input_tokens) as tokens_in, sum(c.output_tokens) as tokens_out, sum(c.cost) as cost
            from model_calls c where c.job_id = j.id) as calls on true
        order by tree.place;
end
$$;
comment on function job_tree(uuid) is
    'The jobs of a session as an indented tree: what each worked on (←), its state, attempts, time, tokens and cost in '
    'dollars.';
