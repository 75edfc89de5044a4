-- Looking at work: how far it is, what the jobs are, what came out. Read only, with the rights of the one who looks.

create function progress(session uuid)
    returns table (
        stage text, iteration integer, model text, status text, bar text, steps_done integer, steps_total integer,
        jobs_done bigint, jobs_total bigint, ready bigint, running bigint, waiting bigint, paused bigint, failed bigint,
        elapsed interval, time_left interval, input_tokens bigint, output_tokens bigint, cost numeric)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _seen_session(progress.session);
    return query
        with stage_of_session as (
            select s as session, s.id, s.models, s.definition_id, listed.stage ->> 'slug' as slug, listed.position,
                   jsonb_array_length(listed.stage -> 'recipe' -> 'steps') as steps
            from sessions s
            join definitions d on d.id = s.definition_id,
                 jsonb_array_elements(d.stages) with ordinality as listed(stage, position)
            where s.id = progress.session
        ),
        row_of_model as (
            select st.slug, st.position, st.steps, run.id as run_id, run.iteration, run.status as run_status, run.started_at, m.name, m.nth,
                   root.id as root_id, root.status, root.completed_at,
                   m.name = any (_dropped_models(st.session, st.position::integer, run.iteration)) as is_dropped
            from stage_of_session st
            cross join lateral unnest(st.models) with ordinality as m(name, nth)
            left join stage_runs run on run.session_id = st.id and run.stage = st.slug
            left join jobs root on root.stage_run_id = run.id and root.model = m.name and root.parent_job_id is null
        ),
        counted as (
            select r.root_id,
                   count(*) filter (where j.status = 'completed') as done,
                   count(*) as total,
                   count(*) filter (where s.phase = 'ready') as ready,
                   count(*) filter (where s.phase = 'running') as running,
                   count(*) filter (where s.phase = 'waiting') as waiting,
                   count(*) filter (where s.phase = 'paused') as paused,
                   count(*) filter (where j.status in ('failed', 'retry_loop_failed')) as failed
            from row_of_model r
            join jobs j on j.parent_job_id = r.root_id
            join job_statuses s on s.status = j.status
            group by r.root_id
        ),
        stepped as (
            select r.root_id, count(*) filter (where step.done = step.total) as done, sum(step.done::numeric / step.total) as part
            from row_of_model r
            cross join lateral (
                select count(*) filter (where j.status = 'completed') as done, count(*) as total
                from jobs j
                where j.parent_job_id = r.root_id and j.status <> 'superseded'
                  -- Where a new version failed the one before it stands.
                  and not (j.version > 1 and j.status in ('failed', 'retry_loop_failed', 'cancelled'))
                group by j.step_key) as step
            group by r.root_id
        ),
        spent as (
            select r.root_id, sum(c.input_tokens) as tokens_in, sum(c.output_tokens) as tokens_out, sum(c.cost) as cost
            from row_of_model r
            join jobs j on j.parent_job_id = r.root_id
            join model_calls c on c.job_id = j.id
            group by r.root_id
        ),
        measured as (
            select r.*, coalesce(case when r.status = 'completed' then 1 else stepped.part / r.steps end, 0) as part,
                   stepped.done as steps_finished, coalesce(r.completed_at, _now()) - r.started_at as took
            from row_of_model r
            left join stepped using (root_id)
        )
        select m.slug, m.iteration, m.name, coalesce(
                   m.status, case when m.run_status = 'abandoned' then 'abandoned'
                                  when m.is_dropped then 'dropped'
                                  when m.run_status in ('running', 'completed', 'failed') then 'not asked' end,
                   m.run_status, 'not opened'),
               repeat('█', round(m.part * 20)::integer) || repeat('░', 20 - round(m.part * 20)::integer) || lpad(round(m.part * 100)::text, 4) || '%',
               coalesce(m.steps_finished, 0)::integer, m.steps,
               coalesce(c.done, 0), coalesce(c.total, 0), coalesce(c.ready, 0), coalesce(c.running, 0), coalesce(c.waiting, 0),
               coalesce(c.paused, 0), coalesce(c.failed, 0),
               date_trunc('milliseconds', case when m.root_id is not null then m.took end),
               date_trunc('milliseconds', case when m.part > 0 and m.part < 1 then m.took * ((1 - m.part) / m.part)::double precision end),
               coalesce(s.tokens_in, 0)::bigint, coalesce(s.tokens_out, 0)::bigint, round(coalesce(s.cost, 0) / 1000000.0, 6)
        from measured m
        left join counted c using (root_id)
        left join spent s using (root_id)
        order by m.iteration nulls last, m.position, m.nth;
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
        select repeat('  ', tree.depth) || case when tree.depth = 0 then format('%s, iteration %s', r.stage, r.iteration) else j.step_key end
                   || case when j.kind = 'render' then ' rendered' when j.continuation_count > 0 then format(' continued (%s)', j.continuation_count) else '' end
                   || coalesce(' ← ' || coalesce(origin.model || case when source.reviewed then ' reviewed by ' || j.reviewer else '' end, source.models), ''),
               j.id, j.status, j.document_key, j.model, j.attempt_count,
               date_trunc('milliseconds', coalesce(j.completed_at, case when j.status = 'processing' then _now() end) - j.started_at),
               coalesce(calls.tokens_in, 0)::bigint, coalesce(calls.tokens_out, 0)::bigint, round(coalesce(calls.cost, 0) / 1000000.0, 6),
               j.error_details ->> 'message'
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
comment on function job_tree(uuid) is 'The jobs of a session as an indented tree: what each worked on (←), its state, attempts, time, tokens and cost in dollars.';
