-- Applying the current process and its templates to a session that runs: decides which stages and steps keep the text
-- they began with, and which take the current one. Never moves a job: retry() brings back what failed.

-- The steps of a session that have begun, as "stage/step": a prompt of theirs was saved.
create function _begun_steps(session uuid) returns text[]
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select coalesce(array_agg(distinct run.stage || '/' || j.step_key), '{}')
    from jobs j
    join stage_runs run on run.id = j.stage_run_id
    where j.session_id = _begun_steps.session and j.kind = 'execute'
      and exists (select from resources r
                  where r.job_id = j.id and r.resource_type in ('turn_prompt', 'planner_prompt'))
$$;

-- The stages of a session with what has become of each: its frozen text, the current one, and how far it has come.
create function _refreeze_stages(session uuid, old jsonb, new jsonb)
    returns table (number bigint, slug text, before jsonb, after jsonb, is_begun boolean, is_over boolean)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    with run as (
        select r.stage, bool_or(r.status <> 'pending') as is_begun,
               bool_or(r.status = 'completed') and bool_and(r.status in ('completed', 'pending')) as is_over
        from stage_runs r
        where r.session_id = _refreeze_stages.session
        group by r.stage
    )
    select coalesce(o.n, c.n), coalesce(o.s ->> 'slug', c.s ->> 'slug'), o.s, c.s,
           coalesce(run.is_begun, false), coalesce(run.is_over, false)
    from jsonb_array_elements(old) with ordinality as o(s, n)
    full join jsonb_array_elements(new) with ordinality as c(s, n) on c.n = o.n and c.s ->> 'slug' = o.s ->> 'slug'
    left join run on run.stage = o.s ->> 'slug'
$$;

-- Why the current stages cannot be applied to a session; null where they can. A stage under way is planned step by
-- step, for each model by itself, so its steps stay the same.
create function _refreeze_problem(session sessions, old jsonb, new jsonb) returns text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case when g.after is null then format('stage "%s" has begun, and was moved or removed', g.slug)
                else format('stage "%s" has begun, and its steps were %s and are %s now', g.slug,
                            array_to_string(had.keys, ', '), array_to_string(has.keys, ', ')) end
    from _refreeze_stages(session.id, old, new) as g,
         lateral (select array(select jsonb_path_query(g.before, '$.recipe.steps[*].key') #>> '{}')) as had(keys),
         lateral (select array(select jsonb_path_query(g.after, '$.recipe.steps[*].key') #>> '{}')) as has(keys)
    where g.is_begun and (g.after is null or (not g.is_over and had.keys <> has.keys))
    union all
    select format('the session ends with stage "%s", which was removed', session.through_stage)
    where not jsonb_path_exists(new, '$[*] ? (@.slug == $slug)', jsonb_build_object('slug', session.through_stage))
      and session.through_stage is not null
    limit 1
$$;

-- The current stages of a process, in which stages that are over and steps that have begun are as they were.
create function _refrozen_stages(session uuid, old jsonb, new jsonb) returns jsonb
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select jsonb_agg(case when g.is_over then g.before
                          when g.is_begun then jsonb_set(g.after, '{recipe,steps}', (
                              select jsonb_agg(case when g.slug || '/' || (step ->> 'key') = any (begun.steps)
                                                    then g.before #> array['recipe', 'steps', (n - 1)::text]
                                                    else step end order by n)
                              from jsonb_array_elements(g.after #> '{recipe,steps}') with ordinality as l(step, n)))
                          else g.after end order by g.number)
    from _refreeze_stages(session, old, new) as g,
         (select _begun_steps(session)) as begun(steps)
    where g.after is not null
$$;

create function refreeze(session uuid) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    owned   sessions := _own_session(refreeze.session);
    frozen  definitions;
    current jsonb;
    problem text;
    applied text;
begin
    select d.* into frozen from definitions d where d.id = owned.definition_id;
    current := _current_stages(frozen.process);
    problem := _refreeze_problem(owned, frozen.stages, current);
    if problem is not null then
        raise exception 'session "%" cannot take the current text of process "%"', owned.id, frozen.process
            using errcode = 'object_not_in_prerequisite_state',
                  detail = upper(left(problem, 1)) || substr(problem, 2) || '.',
                  hint = format('Begin a new session with SELECT dialectic.start_session(%L, %L).',
                                owned.project_id, owned.models);
    end if;
    applied := _store_definition(frozen.process, frozen.domain, _refrozen_stages(owned.id, frozen.stages, current));
    if applied = owned.definition_id then
        return false;
    end if;
    update sessions s set definition_id = applied where s.id = owned.id;
    return true;
end
$$;
comment on function refreeze(uuid) is
    'Applies the current text of the process of a session, its prompts, layouts and overlays, to what has not begun: '
    'stages that are over and steps of which a prompt was sent keep their recipes, and a saved prompt is sent again as '
    'it is. Returns whether anything has changed. retry() then brings back what failed.';

-- What helps a session that failed. A template that failed fails again until it is corrected and applied.
create function _retry_hint(session sessions) returns text
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return case when exists (select from jobs j where j.session_id = session.id and _failed_by_template(j))
                then format('Correct the template with dialectic.set_prompt(name, body), then '
                            'SELECT dialectic.refreeze(%1$L); SELECT dialectic.retry(%1$L);', session.id)
                else format('SELECT dialectic.retry(%L) tries again what failed.', session.id) end;
end
$$;

-- Whether a job failed because of its template; the message of such a failure begins with the template's name.
create function _failed_by_template(job jobs) returns boolean
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select job.status = 'failed' and job.error_class = 'permanent'
       and job.error_details ->> 'message' like 'template "%'
$$;
