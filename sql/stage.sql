-- The functions that generate a stage and submit it, and the models that a stage asks.
--
-- They lock the session (_own_session) and raise what is wrong with a call. Stage runs are written in
-- engine/stage_run.sql. A job is never moved here; a retry is left to control.sql.

create function generate(
    session uuid, stage text default null, models text[] default null, continue_until_complete boolean default true,
    max_retries integer default null, max_output_tokens integer default null, idempotency_key text default null,
    test boolean default false
) returns table (job_id uuid, model text)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    owned   sessions := _own_session(generate.session);
    slugs   text[] := _stage_slugs(owned.definition_id);
    wanted  text := coalesce(generate.stage, owned.current_stage);
    chosen  text[] := coalesce(generate.models, owned.models);
    retries integer := coalesce(generate.max_retries, (get_config('job_default_max_retries') #>> '{}')::integer);
    opened  stage_runs;
begin
    perform _check_key(generate.idempotency_key);
    select r.* into opened
    from stage_runs r
    where r.session_id = owned.id and generate.idempotency_key = any (r.idempotency_keys);
    if found then
        return query select p.job_id, p.model from _plan_jobs_of(opened.id, chosen) as p;
        return;
    end if;
    perform _refuse_cancelled(owned);
    chosen := coalesce(generate.models, _models_to_ask(owned, slugs, wanted));
    perform _check_generate(owned, slugs, wanted, chosen, retries, generate.max_output_tokens);

    select r.* into opened from stage_runs r where r.session_id = owned.id and r.status = 'running';
    if found then
        raise exception 'stage "%" is already being generated', opened.stage
            using errcode = 'object_in_use',
                  hint = format('Wait with CALL dialectic.wait(%L), or stop it with dialectic.cancel(%L).',
                                owned.id, owned.id);
    end if;
    select r.* into opened
    from stage_runs r
    where r.session_id = owned.id and r.stage = wanted order by r.iteration desc limit 1;
    if opened.id is null or opened.status in ('completed', 'abandoned') then
        opened.id := _begin_iteration(owned.id, wanted);
    elsif opened.status = 'failed' then
        perform _retry_stage_run(opened.id);
    end if;

    update sessions s set status = 'active', completed_at = null where s.id = owned.id and s.status <> 'active';
    update stage_runs r
    set continue_until_complete = coalesce(generate.continue_until_complete, true),
        max_output_tokens = generate.max_output_tokens,
        idempotency_keys = r.idempotency_keys || array_remove(array[generate.idempotency_key], null)
    where r.id = opened.id;
    perform _start_stage_run(
        opened.id, chosen, retries, coalesce(generate.test, false) or owned.is_test, generate.idempotency_key);
    return query select p.job_id, p.model from _plan_jobs_of(opened.id, chosen) as p;
end
$$;
comment on function generate(uuid, text, text[], boolean, integer, integer, text, boolean) is
    'Generates a stage: one plan job per model that was not dropped, at once. A stage that completed starts a new '
    'iteration; one that failed is resumed where it failed.';

-- The plan jobs of a stage run for these models.
create function _plan_jobs_of(run uuid, models text[]) returns table (job_id uuid, model text)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select j.id, j.model
    from jobs j
    where j.stage_run_id = run and j.parent_job_id is null and j.model = any (models)
    order by j.id
$$;

-- Takes a session back to a stage in a new iteration, and opens that stage.
create function _begin_iteration(session_id uuid, stage text) returns uuid
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update stage_runs r set status = 'abandoned', completed_at = _now()
    where r.session_id = _begin_iteration.session_id and r.status = 'pending';
    update sessions s
    set iteration = s.iteration + 1, current_stage = _begin_iteration.stage, status = 'active', completed_at = null
    where s.id = _begin_iteration.session_id;
    return _open_stage_run(_begin_iteration.session_id, _begin_iteration.stage);
end
$$;

-- A cancelled session does nothing until retry().
create function _refuse_cancelled(session sessions) returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if session.status = 'cancelled' then
        raise exception 'session "%" is cancelled', session.id
            using errcode = 'object_not_in_prerequisite_state',
                  hint = format('SELECT dialectic.retry(%L);', session.id);
    end if;
end
$$;

-- The models that did not deliver in the last stage before this position that asked them. Later stages do not ask them.
create function _dropped_models(session sessions, stage_position integer, iteration integer) returns text[]
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select coalesce(array_agg(last.model order by last.model), '{}')
    from (
        select distinct on (root.model) root.model, root.status
        from stage_runs r
        join jobs root on root.stage_run_id = r.id and root.parent_job_id is null
        where r.session_id = session.id and r.position < stage_position
          and r.iteration <= _dropped_models.iteration
        order by root.model, r.position desc, r.iteration desc) as last
    where last.status in ('failed', 'retry_loop_failed', 'cancelled')
$$;

-- The models of a session that a stage asks unless its caller names others.
create function _models_to_ask(session sessions, slugs text[], stage text) returns text[]
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select array(
        select m.name from unnest(session.models) with ordinality as m(name, nth)
        where m.name <> all (_dropped_models(session, array_position(slugs, stage), session.iteration))
        order by m.nth)
$$;

create function _check_generate(
    session sessions, slugs text[], stage text, models text[], max_retries integer, max_output_tokens integer
) returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    least   integer := _min_models();
    retries record := _setting_bounds('job_default_max_retries');
    foreign_model text;
begin
    if stage <> all (slugs) then
        raise exception 'process "%" has no stage "%"', session.process, stage
            using errcode = 'invalid_parameter_value', hint = format('Its stages: %s.', array_to_string(slugs, ', '));
    end if;
    if array_position(slugs, stage) > array_position(slugs, session.current_stage) then
        raise exception 'stage "%" is not open yet', stage
            using errcode = 'object_not_in_prerequisite_state',
                  detail = format('The session is at stage "%s".', session.current_stage),
                  hint = 'dialectic.submit_stage(session) opens the next stage once this one is complete.';
    end if;
    perform _check_models(models);
    select m into foreign_model from unnest(models) as m where m <> all (session.models) limit 1;
    if found then
        raise exception 'model "%" is not one of the session''s', foreign_model
            using errcode = 'invalid_parameter_value',
                  hint = format('The session''s models: %s.', array_to_string(session.models, ', '));
    end if;
    if cardinality(models) < least then
        raise exception 'a stage needs at least % models, % given', least, cardinality(models)
            using errcode = 'invalid_parameter_value', hint = 'The setting stage_min_models says so.';
    end if;
    if max_retries not between retries.lowest and retries.highest then
        raise exception 'max_retries cannot be %', max_retries
            using errcode = 'invalid_parameter_value',
                  hint = format('It must be from %s to %s.', retries.lowest, retries.highest);
    end if;
    if max_output_tokens is not null and max_output_tokens not between 1 and 10000000 then
        raise exception 'max_output_tokens cannot be %', max_output_tokens
            using errcode = 'invalid_parameter_value',
                  hint = 'It must be from 1 to 10000000, or null for what each model allows.';
    end if;
    perform _check_output_reserve(models, max_output_tokens);
end
$$;

-- An answer as long as a window would leave no room for the prompt.
create function _check_output_reserve(models text[], max_output_tokens integer) returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    narrow record;
begin
    select m.name, m.context_window into narrow
    from _current_models m
    where m.name = any (models) and m.context_window <= _check_output_reserve.max_output_tokens
    order by m.context_window, m.name
    limit 1;
    if found then
        raise exception 'max_output_tokens cannot be %: model "%" reads % tokens', max_output_tokens, narrow.name,
            narrow.context_window
            using errcode = 'invalid_parameter_value',
                  hint = format('Give less than %s, or null for what each model allows.', narrow.context_window);
    end if;
end
$$;

create function submit_stage(session uuid, feedback text default null) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    owned     sessions := _own_session(submit_stage.session);
    state     text;
    following text;
begin
    perform _refuse_cancelled(owned);
    select r.status into state
    from stage_runs r
    where (r.session_id, r.stage, r.iteration) = (owned.id, owned.current_stage, owned.iteration);
    if state is distinct from 'completed' then
        raise exception 'stage "%" is not complete', owned.current_stage
            using errcode = 'object_not_in_prerequisite_state',
                  detail = format('It is %s.', coalesce(state, 'not generated')),
                  hint = case state when 'failed' then _retry_hint(owned)
                                    when 'running' then 'Wait with CALL dialectic.wait(session).'
                                    else 'Run it with dialectic.generate(session).' end;
    end if;
    if coalesce(btrim(submit_stage.feedback), '') <> '' then
        insert into resources (resource_type, project_id, session_id, stage, iteration, content)
        values ('user_feedback', owned.project_id, owned.id, owned.current_stage, owned.iteration,
                submit_stage.feedback);
    end if;
    following := _enter_next_stage(owned);
    if following is not null then
        perform _open_stage_run(owned.id, following);
    end if;
    return following;
end
$$;
comment on function submit_stage(uuid, text) is
    'Opens the stage after the current one, which must be complete, and returns its slug; null after the last one.';
