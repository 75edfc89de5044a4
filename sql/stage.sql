-- Stages of a session: opening one with its seed prompt, generating it, closing it, going on to the next.
--
-- Everything here happens under the lock of the session (_own_session, or the completion trigger). It inserts the root jobs
-- of a stage run and never moves any other job.

create function _stage_slugs(definition text) returns text[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if exists (select from definitions d where d.id = definition and jsonb_typeof(d.stages) <> 'array') then
        raise exception 'definition "%" cannot be read: its stages are not an array', definition
            using errcode = 'data_corrupted',
                  hint = 'Restore its row of dialectic.definitions, or cancel its sessions and start new ones.';
    end if;
    return (select array_agg(s ->> 'slug' order by position)
    from definitions d, jsonb_array_elements(d.stages) with ordinality as listed(s, position)
    where d.id = definition);
end
$$;

create function _open_stage_run(session_id uuid, stage text) returns uuid
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    session sessions;
    opened  uuid;
begin
    select s.* into strict session from sessions s where s.id = _open_stage_run.session_id;
    insert into stage_runs as r (session_id, stage, position, iteration)
    values (session.id, _open_stage_run.stage, array_position(_stage_slugs(session.definition_id), _open_stage_run.stage), session.iteration)
    returning r.id into opened;
    insert into resources (resource_type, project_id, session_id, stage, iteration, content)
    values ('seed_prompt', session.project_id, session.id, _open_stage_run.stage, session.iteration,
            _render_seed(session.definition_id, _open_stage_run.stage, session.iteration, (
                select p.content from _request_prompts(array[session.project_id]) as p)));
    return opened;
end
$$;

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
    select r.* into opened from stage_runs r where r.session_id = owned.id and generate.idempotency_key = any (r.idempotency_keys);
    if found then
        return query
            select j.id, j.model from jobs j
            where j.stage_run_id = opened.id and j.parent_job_id is null and j.model = any (chosen)
            order by j.id;
        return;
    end if;
    perform _refuse_cancelled(owned);
    chosen := coalesce(generate.models, _models_to_ask(owned, slugs, wanted));
    perform _check_generate(owned, slugs, wanted, chosen, retries, generate.max_output_tokens);

    select r.* into opened from stage_runs r where r.session_id = owned.id and r.status = 'running';
    if found then
        raise exception 'stage "%" is already being generated', opened.stage
            using errcode = 'object_in_use',
                  hint = format('Wait with CALL dialectic.wait(%L), or stop it with dialectic.cancel(%L).', owned.id, owned.id);
    end if;
    select r.* into opened from stage_runs r where r.session_id = owned.id and r.stage = wanted order by r.iteration desc limit 1;
    if opened.id is null or opened.status in ('completed', 'abandoned') then
        update stage_runs r set status = 'abandoned', completed_at = _now()
        where r.session_id = owned.id and r.status = 'pending';
        update sessions s
        set iteration = s.iteration + 1, current_stage = wanted, status = 'active', completed_at = null
        where s.id = owned.id;
        opened.id := _open_stage_run(owned.id, wanted);
    elsif opened.status = 'failed' then
        perform _retry_stage_run(opened.id);
    end if;

    update sessions s set status = 'active', completed_at = null where s.id = owned.id and s.status <> 'active';
    update stage_runs r
    set continue_until_complete = coalesce(generate.continue_until_complete, true), max_output_tokens = generate.max_output_tokens,
        idempotency_keys = r.idempotency_keys || array_remove(array[generate.idempotency_key], null)
    where r.id = opened.id;
    perform _start_stage_run(opened.id, chosen, retries, coalesce(generate.test, false) or owned.is_test, generate.idempotency_key);
    return query
        select j.id, j.model from jobs j
        where j.stage_run_id = opened.id and j.parent_job_id is null and j.model = any (chosen)
        order by j.id;
end
$$;
comment on function generate(uuid, text, text[], boolean, integer, integer, text, boolean) is
    'Generates a stage: one plan job per model that was not dropped, at once. A stage that completed starts a new iteration; one that failed is resumed where it failed.';

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

-- Sets a stage run going that has not begun, or again after it has ended.
create function _reopen_stage_run(run uuid) returns void
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    update stage_runs r
    set status = 'running', started_at = coalesce(r.started_at, _now()), completed_at = null,
        idle = case when r.completed_at < _now() then r.idle + tstzmultirange(tstzrange(r.completed_at, _now()))
                    else r.idle end
    where r.id = run
$$;

-- Sets a stage run going: a plan job for each model that has none yet.
create function _start_stage_run(run uuid, models text[], max_retries integer, is_test boolean, idempotency_key text) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _reopen_stage_run(run);
    insert into jobs (session_id, stage_run_id, kind, model, max_retries, is_test_job, idempotency_key, queue_position)
    select r.session_id, r.id, 'plan', m, max_retries, is_test, _start_stage_run.idempotency_key, _claim_position() + 1
    from stage_runs r, unnest(models) as m
    where r.id = run
    on conflict do nothing;
end
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
            using errcode = 'invalid_parameter_value', hint = format('The session''s models: %s.', array_to_string(session.models, ', '));
    end if;
    if cardinality(models) < least then
        raise exception 'a stage needs at least % models, % given', least, cardinality(models)
            using errcode = 'invalid_parameter_value', hint = 'The setting stage_min_models says so.';
    end if;
    if max_retries not between retries.lowest and retries.highest then
        raise exception 'max_retries cannot be %', max_retries
            using errcode = 'invalid_parameter_value', hint = format('It must be from %s to %s.', retries.lowest, retries.highest);
    end if;
    if max_output_tokens is not null and max_output_tokens not between 1 and 10000000 then
        raise exception 'max_output_tokens cannot be %', max_output_tokens
            using errcode = 'invalid_parameter_value', hint = 'It must be from 1 to 10000000, or null for what each model allows.';
    end if;
end
$$;

create function submit_stage(session uuid, feedback text default null) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    owned  sessions := _own_session(submit_stage.session);
    state  text;
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
        values ('user_feedback', owned.project_id, owned.id, owned.current_stage, owned.iteration, submit_stage.feedback);
    end if;
    return _open_next_stage(owned.id);
end
$$;
comment on function submit_stage(uuid, text) is
    'Opens the stage after the current one, which must be complete, and returns its slug; null after the last one.';

-- Opens the stage that follows the current one, or completes the session; returns the slug of the opened stage.
create function _open_next_stage(session_id uuid) returns text
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    session sessions;
    slugs   text[];
    following text;
begin
    select s.* into strict session from sessions s where s.id = _open_next_stage.session_id;
    slugs := _stage_slugs(session.definition_id);
    following := slugs[array_position(slugs, session.current_stage) + 1];
    if following is null then
        perform _complete_session(session);
        return null;
    end if;
    update sessions s
    set current_stage = following, status = 'active', completed_at = null,
        through_stage = case when s.through_stage = s.current_stage then following else s.through_stage end
    where s.id = session.id;
    perform _open_stage_run(session.id, following);
    return following;
end
$$;

create function _complete_session(session sessions) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update sessions s set status = 'completed', completed_at = _now() where s.id = session.id and s.status = 'active';
    if found then
        perform _notify(
            session.id, null, 'session_completed', 'the session is complete',
            format('Iteration %s is done.', session.iteration));
    end if;
end
$$;

-- Called by the completion trigger when roots have ended: a stage run whose roots have all ended is complete when enough of
-- them delivered. The last stage ends the session; before it, a session that advances by itself opens the next one.
create function _close_stage_runs(stage_run_ids uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    least  integer := _min_models();
    closed record;
begin
    for closed in
        update stage_runs r
        set status = case when ended.delivered >= least then 'completed' else 'failed' end, completed_at = _now()
        from (select j.stage_run_id, count(*) filter (where j.status = 'completed') as delivered,
                     array_agg(j.model order by j.model) filter (where j.status <> 'completed') as missing
              from jobs j
              where j.stage_run_id = any (stage_run_ids) and j.parent_job_id is null
              group by j.stage_run_id
              having bool_and(j.status = any (_ended_statuses()))) as ended
        where r.id = ended.stage_run_id and r.status = 'running'
        returning r.session_id, r.status, r.stage, r.iteration, ended.delivered, ended.missing
    loop
        if closed.status = 'failed' then
            update sessions s set status = 'failed' where s.id = closed.session_id and s.status = 'active';
        else
            perform _notify(
                closed.session_id, null, 'stage_completed', format('%s is complete', closed.stage),
                concat(_count_with_noun(closed.delivered, 'model'), ' delivered',
                       '; ' || array_to_string(closed.missing, ', ') || ' did not', '.'),
                jsonb_strip_nulls(jsonb_build_object(
                    'stage', closed.stage, 'iteration', closed.iteration, 'models', closed.delivered,
                    'missing', closed.missing)));
            perform _advance_session(s.id) from sessions s where s.id = closed.session_id and s.status = 'active';
        end if;
    end loop;
end
$$;

-- Goes on from the current stage if it is complete; an earlier one that was retried changes nothing here.
create function _advance_session(session_id uuid) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    session   sessions;
    slugs     text[];
    done      stage_runs;
    opened    uuid;
    following text;
begin
    select s.* into strict session from sessions s where s.id = _advance_session.session_id;
    select r.* into done
    from stage_runs r
    where (r.session_id, r.stage, r.iteration, r.status) = (session.id, session.current_stage, session.iteration, 'completed');
    if not found then
        return;
    end if;
    slugs := _stage_slugs(session.definition_id);
    if session.current_stage in (session.through_stage, slugs[cardinality(slugs)]) then
        perform _complete_session(session);
        return;
    end if;
    if not session.auto_advance then
        return;
    end if;
    following := _open_next_stage(session.id);
    update stage_runs r
    set continue_until_complete = done.continue_until_complete, max_output_tokens = done.max_output_tokens
    where (r.session_id, r.stage, r.iteration) = (session.id, following, session.iteration)
    returning r.id into opened;
    perform _start_stage_run(
        opened, _models_to_ask(session, slugs, following),
        (select max(j.max_retries) from jobs j where j.stage_run_id = done.id and j.parent_job_id is null),
        session.is_test, null);
end
$$;
