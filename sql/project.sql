-- Projects and sessions: a prompt comes in, a session over it begins. How its stages run is in stage.sql.

-- Only the owner may touch what is his; to everyone else it does not exist. Inside a definer function row-level security
-- does not apply, so these two come first in every one that takes an id.
create function _own_project(id uuid) returns projects
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    project projects;
begin
    select p.* into project
    from projects p
    where p.id = _own_project.id and (p.owner = _calling_owner() or _caller_is_admin())
      and p.id not in (select d.id from deletions d);
    if not found then
        raise exception 'project "%" does not exist', coalesce(_own_project.id::text, 'null')
            using errcode = 'no_data_found', hint = 'SELECT id, name FROM dialectic.projects lists yours.';
    end if;
    return project;
end
$$;

-- The session, for those who only look: row-level security decides who sees it.
create function _seen_session(id uuid) returns sessions
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    session sessions;
begin
    select s.* into session from sessions s
    where s.id = _seen_session.id and s.id not in (select d.id from deletions d);
    if not found then
        raise exception 'session "%" does not exist', coalesce(_seen_session.id::text, 'null')
            using errcode = 'no_data_found', hint = 'SELECT id, status, created_at FROM dialectic.sessions lists yours.';
    end if;
    return session;
end
$$;

-- The session, locked: its jobs, stage runs and state move under this lock alone (see engine/job_trigger.sql).
create function _own_session(id uuid) returns sessions
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    session sessions;
begin
    perform _require_read_committed();
    select s.* into session
    from sessions s
    where s.id = _own_session.id and (s.owner = _calling_owner() or _caller_is_admin())
    for no key update;
    -- Asked under the lock: whoever held it may have deleted the session.
    if not found or exists (select from deletions d where d.id = _own_session.id) then
        raise exception 'session "%" does not exist', coalesce(_own_session.id::text, 'null')
            using errcode = 'no_data_found', hint = 'SELECT id, status, created_at FROM dialectic.sessions lists yours.';
    end if;
    return session;
end
$$;

create function _require_read_committed() returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'jobs cannot be moved in a % transaction', upper(current_setting('transaction_isolation'))
            using errcode = 'invalid_transaction_state',
                  detail = 'With a snapshot taken earlier, two transactions that each finish a last child would both miss the other.',
                  hint = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED; default_transaction_isolation says what it begins with otherwise.';
    end if;
end
$$;

create function create_project(
    name text, prompt text, domain text default 'general', process text default null, idempotency_key text default null
) returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    most    constant integer := 8 * 1024 * 1024;
    chosen  text := create_project.process;
    project uuid;
begin
    if _calling_owner() is null then
        raise exception 'nobody is signed in'
            using errcode = 'insufficient_privilege', hint = 'With dialectic.identity = jwt, request.jwt.claims must have a "sub".';
    end if;
    if coalesce(btrim(create_project.prompt, E' \t\r\n'), '') = '' then
        raise exception 'the prompt is empty'
            using errcode = 'invalid_parameter_value', hint = 'Say in words what is to be written.';
    end if;
    if octet_length(create_project.prompt) > most then
        raise exception 'the prompt is too large'
            using errcode = 'program_limit_exceeded',
                  detail = format('It has %s; at most %s are taken.',
                                  pg_size_pretty(octet_length(create_project.prompt)::bigint), pg_size_pretty(most::bigint)),
                  hint = 'Add reference material with dialectic.add_resource(project, name, content).';
    end if;
    perform _check_key(create_project.idempotency_key);
    if coalesce(btrim(create_project.name), '') = '' or length(create_project.name) > 200 then
        raise exception 'the name of a project must have 1 to 200 characters'
            using errcode = 'invalid_parameter_value', hint = 'Give name => a short title.';
    end if;
    select coalesce(chosen, d.default_process) into chosen from _current_domains d where d.name = create_project.domain;
    if not found then
        raise exception 'domain "%" does not exist', coalesce(create_project.domain, 'null')
            using errcode = 'undefined_object',
                  detail = (select format('Known: %s.', string_agg(d.name, ', ' order by d.name)) from _current_domains d),
                  hint = 'Add it with dialectic.set_domain(…).';
    end if;
    if not exists (select from _current_processes p where p.name = chosen) then
        raise exception 'process "%" does not exist', chosen
            using errcode = 'undefined_object',
                  detail = (select format('Known: %s.', string_agg(p.name, ', ' order by p.name)) from _current_processes p),
                  hint = 'Define it with dialectic.define_process(name, stages).';
    end if;

    insert into projects as p (owner, name, domain, process, idempotency_key)
    values (_calling_owner(), create_project.name, create_project.domain, chosen, create_project.idempotency_key)
    on conflict on constraint projects_owner_idempotency_key_key do nothing
    returning p.id into project;
    if project is null then
        select p.id into strict project
        from projects p
        where p.owner = _calling_owner() and p.idempotency_key = create_project.idempotency_key;
        return project;
    end if;
    insert into resources (resource_type, project_id, content) values ('initial_user_prompt', project, create_project.prompt);
    return project;
end
$$;
comment on function create_project(text, text, text, text, text) is
    'Stores a prompt as a project; process defaults to that of the domain. The same idempotency key gives the same project.';

-- What a user may attach to a project; memory keeps all of it for search.
create function _attachment_kinds() returns text[]
    language sql immutable
    return array['deployment_context', 'domain_standards', 'success_criteria', 'constraint_boundaries',
                 'stakeholder_considerations', 'reference_documents', 'compliance_requirements', 'general_resource'];

create function add_resource(project uuid, name text, content text, kind text default 'general_resource') returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    kinds constant text[] := _attachment_kinds();
    added uuid;
begin
    perform _own_project(add_resource.project);
    if add_resource.kind is null or add_resource.kind <> all (kinds) then
        raise exception 'resource kind "%" is not known', coalesce(add_resource.kind, 'null')
            using errcode = 'invalid_parameter_value', hint = format('Known: %s.', array_to_string(kinds, ', '));
    end if;
    perform _refuse_null('name', coalesce(add_resource.name, '') = '');
    perform _refuse_null('content', coalesce(add_resource.content, '') = '');
    insert into resources as r (resource_type, project_id, name, content)
    values (add_resource.kind, add_resource.project, add_resource.name, add_resource.content)
    returning r.id into added;
    return added;
end
$$;
comment on function add_resource(uuid, text, text, text) is 'Adds reference material to a project.';

create function start_session(
    project uuid, models text[], description text default null, auto_advance boolean default false, budget bigint default null
) returns uuid
    language sql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _start_session(project, models, description, auto_advance, null, false, budget)
$$;
comment on function start_session(uuid, text[], text, boolean, bigint) is
    'Begins a session over a project with these models and writes the seed prompt of the first stage; generate() runs it. With a budget, in micro-dollars, it pauses before it spends more.';

create function _start_session(
    project uuid, models text[], description text, auto_advance boolean, through text, is_test boolean, budget bigint
) returns uuid
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    owned      projects := _own_project(_start_session.project);
    definition text;
    slugs      text[];
    session    uuid;
begin
    perform _check_schema();
    perform _check_models(_start_session.models);
    -- A project that is deleted meanwhile is found deleted once it is locked.
    perform from projects p where p.id = owned.id for key share;
    owned := _own_project(_start_session.project);
    definition := _freeze(owned.process, owned.domain);
    slugs := _stage_slugs(definition);
    if through is not null and through <> all (slugs) then
        raise exception 'process "%" has no stage "%"', owned.process, through
            using errcode = 'invalid_parameter_value', hint = format('Its stages: %s.', array_to_string(slugs, ', '));
    end if;
    insert into sessions as s (project_id, owner, process, definition_id, description, models, current_stage, through_stage, auto_advance, is_test)
    values (owned.id, owned.owner, owned.process, definition, _start_session.description, _start_session.models, slugs[1], through,
            coalesce(_start_session.auto_advance, false), _start_session.is_test)
    returning s.id into session;
    if _start_session.budget is not null then
        perform _check_amount('budget', _start_session.budget, 0);
        insert into budgets (session_id, amount) values (session, _start_session.budget);
    end if;
    perform _open_stage_run(session, slugs[1]);
    return session;
end
$$;

create function run(
    prompt text, models text[] default null, process text default null, domain text default 'general',
    name text default null, through text default null, test boolean default false, budget bigint default null
) returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    project uuid := create_project(
        coalesce(run.name, left(regexp_replace(btrim(run.prompt, E' \t\r\n'), '\s+', ' ', 'g'), 60)),
        run.prompt, run.domain, run.process);
    session uuid;
begin
    session := _start_session(
        project, coalesce(run.models, array(select jsonb_array_elements_text(get_config('default_models')))),
        null, true, run.through, coalesce(run.test, false), run.budget);
    perform generate(session, test => coalesce(run.test, false));
    return session;
end
$$;
comment on function run(text, text[], text, text, text, text, boolean, bigint) is
    'Starts a whole process over a prompt and returns the session at once; each stage opens the next by itself, up to through. With a budget, in micro-dollars, it pauses before it spends more.';
