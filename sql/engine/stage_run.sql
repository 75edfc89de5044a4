-- Stage runs: opening one, storing its seed prompt, starting it, closing it, and opening the next one.
--
-- Everything here runs under the lock of the session (_own_session, or the job trigger). It inserts the plan jobs of a
-- stage run and never moves any other job.
--
-- A stage run that the job trigger opens has plan jobs and no seed prompt yet: the missing row of resources is the
-- whole state. Whoever works the first of these plan jobs renders the seed prompt and stores it before planning.

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

-- Inserts a stage run without a seed prompt. The job trigger renders nothing, because it holds the session's lock.
create function _insert_stage_run(session sessions, stage text) returns uuid
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    insert into stage_runs (session_id, stage, position, iteration)
    values (session.id, _insert_stage_run.stage,
            array_position(_stage_slugs(session.definition_id), _insert_stage_run.stage), session.iteration)
    returning id
$$;

-- Opens a stage run with its seed prompt, which is rendered in this call: a template that fails raises an error here.
create function _open_stage_run(session_id uuid, stage text) returns uuid
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    session sessions;
    opened  uuid;
begin
    select s.* into strict session from sessions s where s.id = _open_stage_run.session_id;
    opened := _insert_stage_run(session, _open_stage_run.stage);
    perform _insert_seed(opened, _render_seed(
        session.definition_id, _open_stage_run.stage, session.iteration,
        (select p.content from _request_prompts(array[session.project_id]) as p)));
    return opened;
end
$$;

-- Stores the seed prompt of a stage run. A stage run has one seed prompt: the first one stays.
create function _insert_seed(run uuid, content text) returns void
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    insert into resources (resource_type, project_id, session_id, stage, iteration, content)
    select 'seed_prompt', s.project_id, s.id, r.stage, r.iteration, _insert_seed.content
    from stage_runs r
    join sessions s on s.id = r.session_id
    where r.id = run
    on conflict (session_id, stage, iteration) where resource_type = 'seed_prompt' do nothing
$$;

-- Stores seed prompts that were rendered for claimed plan jobs. A claim that was revoked stores nothing.
create function _store_seeds(job_ids uuid[], claim_ids bigint[], contents text[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _insert_seed(j.stage_run_id, seed.content)
    from unnest(job_ids, claim_ids, contents) as seed(job_id, claim_id, content)
    join jobs j on j.id = seed.job_id and j.claim_id = seed.claim_id;
end
$$;

-- Starts a stage run that has not begun, or restarts one that has ended.
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

-- Starts a stage run: a plan job for each model that has none yet.
create function _start_stage_run(run uuid, models text[], max_retries integer, is_test boolean, idempotency_key text)
    returns void
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

-- Makes the stage that follows the current one the current stage and returns its slug. After the last stage it
-- completes the session and returns null. It opens no stage run.
create function _enter_next_stage(session sessions) returns text
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    slugs     text[] := _stage_slugs(session.definition_id);
    following text := slugs[array_position(slugs, session.current_stage) + 1];
begin
    if following is null then
        perform _complete_session(session);
        return null;
    end if;
    update sessions s
    set current_stage = following, status = 'active', completed_at = null,
        through_stage = case when s.through_stage = s.current_stage then following else s.through_stage end
    where s.id = session.id;
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

-- Closes the stage runs whose plans have all ended: such a run is complete if enough plans delivered, otherwise it has
-- failed, and its session with it. The job trigger calls this when plans have ended.
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

-- Advances a session whose current stage is complete: after its last stage it is complete; before, a session that
-- advances by itself gets the next stage run with its plan jobs. A retry of an earlier stage changes nothing here.
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
    where (r.session_id, r.stage, r.iteration, r.status)
        = (session.id, session.current_stage, session.iteration, 'completed');
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
    following := _enter_next_stage(session);
    opened := _insert_stage_run(session, following);
    update stage_runs r
    set continue_until_complete = done.continue_until_complete, max_output_tokens = done.max_output_tokens
    where r.id = opened;
    perform _start_stage_run(
        opened, _models_to_ask(session, slugs, following),
        (select max(j.max_retries) from jobs j where j.stage_run_id = done.id and j.parent_job_id is null),
        session.is_test, null);
end
$$;
