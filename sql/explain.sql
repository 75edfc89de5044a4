-- Forecasts: the calls, tokens and cost of a session, step by step, beside the actual figures after the run.
--
-- Gathers the facts of an estimate: the texts, the models with their prices, and the answers of earlier sessions. The
-- core decides which calls there will be and how many tokens they take. Only reads, with the privileges of the caller.

-- The stage runs that an estimate learns from: those of the owner's newest 20 sessions of the process, and the stages
-- that this session has completed (is_own), each in its newest iteration.
create function _past_runs(seen sessions)
    returns table (session_id uuid, stage text, iteration integer, is_own boolean)
    language sql stable
begin atomic
    with recent as (
        (select s.id, false as is_own
         from sessions s
         where s.owner = (seen).owner and s.process = (seen).process and s.id <> (seen).id
           and exists (select from stage_runs r where r.session_id = s.id and r.status = 'completed')
         order by s.id desc
         limit 20)
        union all
        select (seen).id, true
    )
    select r.session_id, r.stage, r.iteration, recent.is_own
    from recent
    join stage_runs r on r.session_id = recent.id
    where not recent.is_own
       or (r.status = 'completed' and not exists (
               select from stage_runs newer
               where newer.session_id = r.session_id and newer.stage = r.stage and newer.status = 'completed'
                 and newer.iteration > r.iteration));
end;

-- The mean output of an answer in earlier sessions by stage, step and model, with all its chunks. by_texts has it by
-- the number of texts that the answer was made from: [texts, written, thought].
create function _past_lengths(seen sessions)
    returns table (stage text, step_key text, model text, written numeric, thought numeric, by_texts jsonb)
    language sql stable
begin atomic
    with answer as (
        -- A job may have written several chunks of an answer.
        select writer.stage, writer.step_key, writer.model, writer.root_id,
               sum(called.written) as written, sum(called.thought) as thought,
               (select count(*)
                from contributions first
                join job_inputs i on i.job = first.job_id
                where first.id = writer.root_id) as texts
        from (
            select distinct c.stage, c.step_key, c.model, c.root_id, c.job_id
            from _past_runs(seen) as run
            join contributions c on (c.session_id, c.stage, c.iteration) = (run.session_id, run.stage, run.iteration)
            where not run.is_own and c.output_type <> 'combined') as writer
        cross join lateral (
            select sum(m.output_tokens) as written, sum(m.reasoning_tokens) as thought
            from model_calls m
            where m.job_id = writer.job_id and m.outcome = 'answered') as called
        group by writer.stage, writer.step_key, writer.model, writer.root_id
    ),
    by_number as (
        select a.stage, a.step_key, a.model, a.texts, avg(a.written) as written,
               coalesce(avg(a.thought), 0) as thought, count(*) as answers
        from answer a
        where a.written is not null
        group by a.stage, a.step_key, a.model, a.texts
    )
    select n.stage, n.step_key, n.model, sum(n.written * n.answers) / sum(n.answers),
           sum(n.thought * n.answers) / sum(n.answers), jsonb_agg(jsonb_build_array(n.texts, n.written, n.thought))
    from by_number n
    group by n.stage, n.step_key, n.model;
end;

-- One text per stage, step and model that stands for all of them: the one whose length is nearest to the mean. A text
-- is taken in the form that others read: an answer, a header, the document of an answer or else its JSON.
create function _past_samples(seen sessions)
    returns table (is_own boolean, stage text, step_key text, model text, id uuid, is_answer boolean,
                   length integer, mean numeric, texts bigint)
    language sql stable
begin atomic
    with made as (
        select run.is_own, c.stage, c.step_key, c.model, c.id, true as is_answer, 1 as form,
               octet_length(c.content) as length
        from _past_runs(seen) as run
        join contributions c on (c.session_id, c.stage, c.iteration) = (run.session_id, run.stage, run.iteration)
        where not c.is_part and c.mime_type = 'text/markdown' and c.output_type <> 'combined'
        union all
        select run.is_own, r.stage, r.step_key, r.model, r.id, false,
               case r.resource_type when 'assembled_json' then 2 else 1 end, octet_length(r.content)
        from _past_runs(seen) as run
        join resources r on (r.session_id, r.stage, r.iteration) = (run.session_id, run.stage, run.iteration)
            and r.resource_type in ('header_context', 'assembled_json', 'rendered_document')
        where r.output_type is distinct from 'combined'
    ),
    ranked as (
        select m.*, min(m.form) over (partition by m.is_own, m.stage, m.step_key, m.model) as first_form
        from made m
    ),
    measured as (
        select r.*, avg(r.length) over same as mean, count(*) over same as texts
        from ranked r
        where r.form = r.first_form
        window same as (partition by r.is_own, r.stage, r.step_key, r.model)
    )
    select distinct on (m.is_own, m.stage, m.step_key, m.model)
           m.is_own, m.stage, m.step_key, m.model, m.id, m.is_answer, m.length, m.mean, m.texts
    from measured m
    order by m.is_own, m.stage, m.step_key, m.model, abs(m.length - m.mean), m.id;
end;

-- The lengths of earlier answers and one sample text of each, for the models of the session. A step that none of them
-- has answered gets the model with the most texts. The simulator is left out: the core computes its answers.
create function _explain_past(seen sessions) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return (
        with chosen as (
            select s.*, simulated.it_is,
                   row_number() over (partition by s.is_own, s.stage, s.step_key
                                      order by simulated.it_is, s.texts desc, s.model) as nth
            from _past_samples(seen) as s
            cross join lateral (
                select exists (
                    select from _current_models m
                    join _current_providers p on p.name = m.provider and p.api = 'simulator'
                    where m.name = s.model) as it_is) as simulated
        )
        select jsonb_agg(jsonb_build_object(
                   'stage', s.stage, 'step_key', s.step_key, 'model', s.model, 'is_own', s.is_own,
                   'output_tokens', coalesce(took.written, 0), 'reasoning_tokens', coalesce(took.thought, 0),
                   'by_texts', took.by_texts, 'scale', s.mean / greatest(s.length, 1), 'text', text.content,
                   'json', text.json, 'is_headed', text.is_headed) order by s.nth)
        from chosen s
        left join _past_lengths(seen) as took
               on not s.is_own and (took.stage, took.step_key, took.model) = (s.stage, s.step_key, s.model)
        cross join lateral (
            select c.content, null::text as json, false as is_headed
            from contributions c
            where s.is_answer and c.id = s.id
            union all
            select r.content, coalesce(source.content, case when r.mime_type = 'application/json' then r.content end),
                   source.id is not null
            from resources r
            left join resources source on source.id = r.source_resource_id
            where not s.is_answer and r.id = s.id) as text
        where case when s.is_own then s.model = any (seen.models)
                   else not s.it_is and took.written is not null and (s.model = any (seen.models) or s.nth = 1) end);
end
$$;

-- The artifacts and the feedback of the iterations before the present one, which a further iteration may read.
create function _explain_before(seen sessions) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if seen.iteration = 1 then
        return '[]';
    end if;
    return (
        with plan as (
            -- Per model, because an iteration may have asked only some models.
            select distinct on (r.stage, root.model) r.stage, r.iteration, root.id
            from stage_runs r
            join jobs root on root.stage_run_id = r.id and root.parent_job_id is null
            where r.session_id = seen.id and r.status = 'completed' and r.iteration < seen.iteration
            order by r.stage, root.model, r.iteration desc
        ),
        run as (
            select distinct p.stage, p.iteration from plan p
        ),
        made as (
            select c.id, c.output_type as type, c.stage, c.document_key, c.model, c.lineage_id, c.reviewer, c.content,
                   false as is_headed
            from run
            join contributions c on (c.session_id, c.stage, c.iteration) = (seen.id, run.stage, run.iteration)
            join jobs j on j.id = c.job_id and j.status = 'completed'
            join plan p on p.id = j.parent_job_id
            where not c.is_part and c.mime_type = 'text/markdown' and c.output_type <> 'combined'
            union all
            select newest.* from (
                select distinct on (j.parent_job_id, j.step_key, j.group_key)
                       r.id, r.output_type, r.stage, r.document_key, r.model, r.lineage_id, r.reviewer, r.content,
                       r.source_resource_id is not null
                from run
                join resources r on (r.session_id, r.stage, r.iteration) = (seen.id, run.stage, run.iteration)
                    and r.resource_type in ('header_context', 'assembled_json', 'rendered_document')
                join jobs j on j.id = r.job_id and j.status = 'completed'
                join plan p on p.id = j.parent_job_id
                where r.output_type is distinct from 'combined'
                order by j.parent_job_id, j.step_key, j.group_key, (r.resource_type = 'rendered_document') desc,
                         r.version desc, r.id desc) as newest
            union all
            select r.id, r.resource_type, r.stage, r.document_key, r.model, r.lineage_id, r.reviewer, r.content, false
            from run
            join resources r on (r.session_id, r.stage, r.iteration) = (seen.id, run.stage, run.iteration)
                and r.resource_type = 'user_feedback' and r.job_id is null
        )
        -- The ids get a prefix, because the newest iteration may read the same text.
        select coalesce(jsonb_agg(jsonb_build_object(
                   'id', 'before:' || m.id, 'type', m.type, 'stage', m.stage, 'document_key', m.document_key,
                   'model', m.model, 'lineage_id', m.lineage_id, 'reviewer', m.reviewer, 'previous_iteration', true,
                   'content', m.content, 'is_headed', m.is_headed)), '[]')
        from made m);
end
$$;

-- The facts of an estimate, except the definition of the session.
create function _explain_facts(seen sessions, slugs text[]) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return jsonb_build_object(
        'iteration', seen.iteration,
        'safety', get_config('context_safety'),
        'ratio', get_config('tier2_max_ratio'),
        'request', (select r.content from resources r
                    where r.project_id = seen.project_id and r.resource_type = 'initial_user_prompt'
                      and r.job_id is null
                    order by r.version desc limit 1),
        'models', (select jsonb_agg(jsonb_build_object(
                              'name', asked.name, 'api', p.api, 'api_model', m.api_model, 'settings', m.settings,
                              'tokenizer', m.tokenizer, 'factor', ratio.factor, 'samples', ratio.samples,
                              'context_window', m.context_window, 'max_output_tokens', m.max_output_tokens)
                              order by asked.nth)
                   from unnest(seen.models) with ordinality as asked(name, nth)
                   left join _current_models m on m.name = asked.name
                   left join _current_providers p on p.name = m.provider
                   left join token_ratios ratio on ratio.model = m.name),
        'sources', (select coalesce(jsonb_agg(jsonb_build_object(
                                'id', r.id, 'type', r.resource_type, 'stage', r.stage, 'name', r.name,
                                'content', r.content)), '[]')
                    from resources r
                    where r.project_id = seen.project_id and r.job_id is null
                      and (r.session_id is null
                           or (r.resource_type = 'user_feedback' and r.session_id = seen.id
                               and r.iteration = (select max(run.iteration) from stage_runs run
                                                  where run.session_id = seen.id and run.stage = r.stage
                                                    and run.status = 'completed'))))
                   || _explain_before(seen),
        'past', coalesce(_explain_past(seen), '[]'))
        -- The arguments of generate(); a stage that follows by itself inherits them.
        || (select jsonb_build_object(
                       'limits', coalesce(jsonb_object_agg(listed.slug, wanted.most)
                                          filter (where wanted.most is not null), '{}'),
                       'continuations', jsonb_object_agg(
                           listed.slug, case when coalesce(wanted.may_continue, true)
                                             then get_config('max_continuations') else '0' end))
            from unnest(slugs) with ordinality as listed(slug, position)
            left join lateral (
                select r.max_output_tokens as most, r.continue_until_complete as may_continue
                from stage_runs r
                where r.session_id = seen.id
                  and (r.stage = listed.slug or (seen.auto_advance and r.position < listed.position))
                order by r.position desc, r.iteration desc
                limit 1) as wanted on true);
end
$$;

-- The calls of a session by stage and step, of each stage the newest iteration. Cost is in micro-dollars.
create function _actual_usage(seen sessions)
    returns table (stage text, step_key text, calls bigint, input_tokens numeric, output_tokens numeric, cost numeric)
    language sql stable
begin atomic
    select run.stage, j.step_key, count(*), sum(c.input_tokens), sum(c.output_tokens), sum(c.cost)
    from jobs j
    join stage_runs run on run.id = j.stage_run_id
    join model_calls c on c.job_id = j.id
    where j.session_id = (seen).id
      and run.iteration = (
          select max(r.iteration) from stage_runs r where r.session_id = (seen).id and r.stage = run.stage)
    group by run.stage, j.step_key;
end;

-- The prices of these models in micro-dollars per token. The highest price is that of the model or of its fallback,
-- which may answer in its place. A model that does not exist any more has no row.
create function _forecast_prices(models text[])
    returns table (name text, read numeric, written numeric, thought numeric, most_read numeric, most_written numeric)
    language sql stable
begin atomic
    select m.name, m.prices[1], m.prices[4], m.prices[5],
           greatest(d.to_read, of_fallback.to_read), greatest(d.to_write, of_fallback.to_write)
    from (select c.name, c.fallback, _prices(c.name) as prices from _current_models c where c.name = any (models)) as m
    cross join lateral _dearest(m.prices) as d
    left join lateral _dearest(_prices(m.fallback)) as of_fallback on m.fallback is not null;
end;

-- The rows of explain(): plpgsql cannot tell its argument from its column of the same name.
create function _explain_session(session uuid, only_stage text)
    returns table (
        stage text, step_key text, name text, granularity_strategy text, calls bigint, documents bigint, inputs bigint,
        tier integer, input_tokens bigint, output_tokens bigint, cost numeric, worst_cost numeric, actual_calls bigint,
        actual_input_tokens bigint, actual_output_tokens bigint, actual_cost numeric)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    seen  sessions := _seen_session(_explain_session.session);
    slugs text[] := array(select s ->> 'slug' from definitions d, jsonb_array_elements(d.stages) as s
                          where d.id = seen.definition_id);
begin
    if only_stage <> all (slugs) then
        raise exception 'process "%" has no stage "%"', seen.process, only_stage
            using errcode = 'invalid_parameter_value', hint = format('Its stages: %s.', array_to_string(slugs, ', '));
    end if;
    return query
        with planned as materialized (
            select e.*, row_number() over () as nth
            from _explain(seen.definition_id, _explain_facts(seen, slugs)) as e
        ),
        price as materialized (select * from _forecast_prices(seen.models)),
        -- Every call is rounded up by itself.
        priced as (
            select p.nth, sum(t.read) as tokens_in, sum(t.written) as tokens_out,
                   sum(t.calls * ceil((t.read * m.read + (t.written - t.thought) * m.written + t.thought * m.thought)
                                      / nullif(t.calls, 0))) as cost,
                   sum(t.calls + t.most_read * m.most_read + t.most_written * m.most_written)
                       filter (where m.most_read > 0 or m.most_written > 0) as worst_cost
            from planned p
            cross join unnest(p.models, p.model_calls, p.input_tokens, p.output_tokens, p.reasoning_tokens,
                              p.most_input_tokens, p.most_output_tokens)
                as t(model, calls, read, written, thought, most_read, most_written)
            left join price m on m.name = t.model
            group by p.nth
        )
        select p.stage, p.step_key, p.name, p.granularity_strategy, p.calls, p.documents, p.inputs, p.tier,
               coalesce(e.tokens_in, 0)::bigint, coalesce(e.tokens_out, 0)::bigint,
               round(coalesce(e.cost, 0) / 1000000.0, 6), round(coalesce(e.worst_cost, 0) / 1000000.0, 6),
               coalesce(s.calls, 0), coalesce(s.input_tokens, 0)::bigint, coalesce(s.output_tokens, 0)::bigint,
               round(coalesce(s.cost, 0) / 1000000.0, 6)
        from planned p
        left join priced e on e.nth = p.nth
        left join _actual_usage(seen) as s on s.stage = p.stage and s.step_key = p.step_key
        where p.stage = only_stage
           -- A session that ends before the last stage runs no further, unless a later stage was generated anyway.
           or (only_stage is null
               and (seen.through_stage is null
                    or array_position(slugs, p.stage) <= array_position(slugs, seen.through_stage)
                    or exists (select from stage_runs r where r.session_id = seen.id and r.stage = p.stage)))
        order by p.nth;
end
$$;

create function explain(session uuid, stage text default null)
    returns table (
        stage text, step_key text, name text, granularity_strategy text, calls bigint, documents bigint, inputs bigint,
        tier integer, input_tokens bigint, output_tokens bigint, cost numeric, worst_cost numeric, actual_calls bigint,
        actual_input_tokens bigint, actual_output_tokens bigint, actual_cost numeric)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select * from _explain_session(explain.session, explain.stage)
$$;
comment on function explain(uuid, text) is
    'The plan of a session before it runs: for each step the calls, the documents they become, the artifacts they '
    'read, how they fit (tier 1: they do, 2: texts are condensed first, 3: only passages would fit, which are not '
    'sent yet, so they will fail, 4: nothing helps and they will fail), the '
    'tokens and the cost to expect, and the cost if every answer and every text of an earlier step were as long as '
    'may be, at the dearest price of each model; after a run what it took beside them. Calls that condense texts or '
    'go on with an answer are in tokens and costs as far as they are to be expected, and not in calls; those that '
    'repeat a failed one are not foreseen. Costs are in dollars.';

create function explain_total(session uuid, stage text default null)
    returns table (
        calls bigint, documents bigint, tier integer, input_tokens bigint, output_tokens bigint, cost numeric,
        worst_cost numeric, actual_calls bigint, actual_input_tokens bigint, actual_output_tokens bigint,
        actual_cost numeric)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select sum(e.calls)::bigint, sum(e.documents)::bigint, max(e.tier), sum(e.input_tokens)::bigint,
           sum(e.output_tokens)::bigint, sum(e.cost), sum(e.worst_cost), sum(e.actual_calls)::bigint,
           sum(e.actual_input_tokens)::bigint, sum(e.actual_output_tokens)::bigint, sum(e.actual_cost)
    from _explain_session(explain_total.session, explain_total.stage) as e
$$;
comment on function explain_total(uuid, text) is
    'What explain() says of all steps of a session, or of a stage, together. Costs are in dollars.';
