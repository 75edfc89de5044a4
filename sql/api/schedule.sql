-- Schedules with pg_cron: recurring runs, maintenance, and run_pending where nothing is preloaded.
--
-- The command in pg_cron is a call by name. It is scheduled with the rights of the caller, so pg_cron runs it as the
-- role that scheduled it. Decides who can schedule; when a command runs and what became of it is known to pg_cron.

-- The database that has pg_cron; null where it is not preloaded. Only a superuser can read these settings.
create function _cron_database() returns text
    language sql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select s.setting from pg_settings s
    where s.name = 'cron.database_name' and current_setting('shared_preload_libraries') ~ '\mpg_cron\M'
$$;

-- The value that shared_preload_libraries needs for pg_cron.
create function _preload_with_cron() returns text
    language sql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select concat_ws(', ', nullif(current_setting('shared_preload_libraries'), ''), 'pg_cron')
$$;

-- The name of the job in pg_cron.
create function _cron_job_name(name text) returns text
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select 'dialectic ' || name
$$;

-- Refuses a caller as whom pg_cron could not run anything.
create function _check_scheduler() returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if _has_jwt_identity(current_user) then
        raise exception 'role "%" cannot schedule anything', current_user
            using errcode = 'object_not_in_prerequisite_state',
                  detail = 'Its owner comes from request.jwt.claims, and pg_cron connects without claims.',
                  hint = 'Schedule it as a role that dialectic.jwt_roles does not list.';
    end if;
    if not exists (select from pg_roles r where r.rolname = current_user and r.rolcanlogin) then
        raise exception 'role "%" cannot log in', current_user
            using errcode = 'object_not_in_prerequisite_state',
                  detail = 'pg_cron connects as the role that schedules a job.',
                  hint = format('ALTER ROLE %I LOGIN;', current_user);
    end if;
    if _cron_database() is null then
        raise exception 'pg_cron is not preloaded'
            using errcode = 'object_not_in_prerequisite_state',
                  hint = format('Set shared_preload_libraries = ''%s'' and cron.database_name = ''%s'' in '
                                'postgresql.conf and restart the server.', _preload_with_cron(), current_database());
    end if;
    if _cron_database() <> current_database() then
        return;
    end if;
    if not exists (select from pg_extension e where e.extname = 'pg_cron') then
        raise exception 'extension "pg_cron" does not exist'
            using errcode = 'undefined_object', hint = 'CREATE EXTENSION pg_cron;';
    end if;
    if not has_schema_privilege('cron', 'usage') then
        raise exception 'permission denied for schema cron'
            using errcode = 'insufficient_privilege', hint = format('GRANT USAGE ON SCHEMA cron TO %I;', current_user);
    end if;
end
$$;

-- Stores a schedule of the caller in place of one of the same name.
create function _store_schedule(name text, kind text, schedule text, prompt text, arguments jsonb) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('schedule', coalesce(_store_schedule.schedule, '') = '');
    if coalesce(_store_schedule.name, '') !~ '^[[:alnum:]_ .-]{1,50}$' then
        raise exception 'schedule name "%" is not valid', coalesce(_store_schedule.name, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Use 1 to 50 letters, digits, spaces, dots, hyphens and underscores.';
    end if;
    if _store_schedule.kind <> 'run' and not _caller_is_admin() then
        raise exception 'permission denied for schedules of kind %', _store_schedule.kind
            using errcode = 'insufficient_privilege', hint = 'dialectic.grant_admin(role) lets a role schedule it.';
    end if;
    insert into schedule_definitions as s (owner, name, role, kind, schedule, prompt, arguments)
    select _calling_owner(), _store_schedule.name, r.rolname, _store_schedule.kind, _store_schedule.schedule,
           _store_schedule.prompt, jsonb_strip_nulls(_store_schedule.arguments)
    from pg_roles r where r.oid = _calling_role()
    on conflict on constraint schedule_definitions_pkey do update
        set role = excluded.role, kind = excluded.kind, schedule = excluded.schedule, prompt = excluded.prompt,
            arguments = excluded.arguments, created_at = excluded.created_at;
    if _store_schedule.kind = 'run' then
        perform _try_scheduled_run(_store_schedule.name);
    end if;
end
$$;

create function _delete_schedule(name text) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    delete from schedule_definitions s where s.owner = _calling_owner() and s.name = _delete_schedule.name;
    if not found then
        raise exception 'schedule "%" does not exist', coalesce(_delete_schedule.name, 'null')
            using errcode = 'no_data_found', hint = 'SELECT name, schedule FROM dialectic.schedules lists yours.';
    end if;
end
$$;

-- Schedules a command with the rights of the caller; returns the id of the job, or null where pg_cron is elsewhere.
create function _schedule_in_cron(name text, schedule text, command text) returns bigint
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    job bigint;
begin
    if _cron_database() <> current_database() then
        raise warning 'schedule "%" is stored, but pg_cron is in database "%"', name, _cron_database()
            using detail = 'Nothing runs before a superuser has scheduled it in that database.',
                  hint = format('SELECT cron.schedule_in_database(%L, %L, %L, %L, %L);', _cron_job_name(name),
                                schedule, command, current_database(), current_user);
        return null;
    end if;
    execute 'select cron.schedule($1, $2, $3)' into job using _cron_job_name(name), schedule, command;
    return job;
end
$$;

create function schedule_run(
    name text, schedule text, prompt text, models text[] default null, process text default null,
    domain text default 'general', through text default null, budget bigint default null
) returns bigint
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('name', schedule_run.name is null);
    perform _refuse_null('schedule', schedule_run.schedule is null);
    perform _refuse_null('prompt', schedule_run.prompt is null);
    perform _check_scheduler();
    if schedule_run.name in ('maintenance', 'run_pending') then
        raise exception 'a run cannot be scheduled as "%"', schedule_run.name
            using errcode = 'invalid_parameter_value',
                  hint = 'Give it another name; this one is kept for schedules of admins.';
    end if;
    perform _store_schedule(
        schedule_run.name, 'run', schedule_run.schedule, schedule_run.prompt,
        jsonb_build_object('models', to_jsonb(schedule_run.models), 'process', schedule_run.process,
                           'domain', schedule_run.domain, 'through', schedule_run.through,
                           'budget', schedule_run.budget));
    return _schedule_in_cron(
        schedule_run.name, schedule_run.schedule, format('SELECT dialectic.run_scheduled(%L)', schedule_run.name));
end
$$;
comment on function schedule_run(text, text, text, text[], text, text, text, bigint) is
    'Lets pg_cron call run() with this prompt again and again, as the role that calls this. An existing name is '
    'replaced. Times are those of pg_cron (GMT). Returns the id of the job in pg_cron, or null and a warning where '
    'pg_cron is in another database.';

-- Starts the session of a stored schedule.
create function _start_scheduled(scheduled schedule_definitions) returns uuid
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select run(
        scheduled.prompt,
        models => case when scheduled.arguments ? 'models'
                       then array(select jsonb_array_elements_text(scheduled.arguments -> 'models')) end,
        process => scheduled.arguments ->> 'process', domain => coalesce(scheduled.arguments ->> 'domain', 'general'),
        name => format('%s %s', scheduled.name, to_char(_now() at time zone 'UTC', 'YYYY-MM-DD HH24:MI')),
        through => scheduled.arguments ->> 'through', budget => (scheduled.arguments ->> 'budget')::bigint)
$$;

-- Refuses a schedule that cannot run as things are: starts it, and takes that back.
create function _try_scheduled_run(name text) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _start_scheduled(s) from schedule_definitions s
    where s.owner = _calling_owner() and s.name = _try_scheduled_run.name;
    raise sqlstate 'DL001';
exception when sqlstate 'DL001' then
    null;
end
$$;

create function run_scheduled(name text) returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    scheduled schedule_definitions;
    session   uuid;
begin
    select s.* into scheduled from schedule_definitions s
    where s.owner = _calling_owner() and s.name = run_scheduled.name and s.kind = 'run'
    for update;
    if not found then
        raise exception 'no run is scheduled as "%"', coalesce(run_scheduled.name, 'null')
            using errcode = 'no_data_found', hint = 'SELECT name, schedule FROM dialectic.schedules lists yours.';
    end if;
    if exists (select from sessions s where s.id = scheduled.last_session_id and s.status = 'active'
                 and s.id not in (select d.id from deletions d)) then
        raise notice 'schedule "%" is skipped: session "%" is still active', scheduled.name, scheduled.last_session_id;
    else
        session := _start_scheduled(scheduled);
    end if;
    update schedule_definitions s
    set last_run_at = _now(), last_status = case when session is null then 'skipped' else 'started' end,
        last_session_id = coalesce(session, s.last_session_id)
    where (s.owner, s.name) = (scheduled.owner, scheduled.name);
    return session;
end
$$;
comment on function run_scheduled(text) is
    'Starts the run that is scheduled under this name, as pg_cron does; returns the session. While the session of the '
    'run before is active it starts nothing, records that, and returns null.';

create function schedule_maintenance(schedule text default '17 3 * * *') returns bigint
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('schedule', schedule_maintenance.schedule is null);
    perform _check_scheduler();
    perform _store_schedule('maintenance', 'maintenance', schedule_maintenance.schedule, null, '{}');
    return _schedule_in_cron('maintenance', schedule_maintenance.schedule, 'CALL dialectic.maintain()');
end
$$;
comment on function schedule_maintenance(text) is
    'Lets pg_cron call maintain(), instead of the worker, which does it once a day. Times are those of pg_cron (GMT).';

create function schedule_run_pending(schedule text default '* * * * *', max_jobs integer default null) returns bigint
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('schedule', schedule_run_pending.schedule is null);
    perform _check_scheduler();
    if schedule_run_pending.max_jobs < 1 then
        raise exception 'max_jobs cannot be %', schedule_run_pending.max_jobs
            using errcode = 'invalid_parameter_value', hint = 'Give a number from 1 on, or null for all there is.';
    end if;
    perform _store_schedule('run_pending', 'run_pending', schedule_run_pending.schedule, null,
                            jsonb_build_object('max_jobs', schedule_run_pending.max_jobs));
    return _schedule_in_cron('run_pending', schedule_run_pending.schedule,
                             format('CALL dialectic.run_pending(%s)', schedule_run_pending.max_jobs));
end
$$;
comment on function schedule_run_pending(text, integer) is
    'Lets pg_cron call run_pending(), for servers where pg_dialectic is not preloaded. '
    'Times are those of pg_cron (GMT).';

create function unschedule(name text) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _delete_schedule(unschedule.name);
    if _cron_database() <> current_database() then
        raise warning 'schedule "%" is deleted, but pg_cron is in database "%"', unschedule.name, _cron_database()
            using detail = 'Its job fails until a superuser has deleted it in that database.',
                  hint = format('SELECT cron.unschedule(jobid) FROM cron.job WHERE jobname = %L AND username = %L '
                                'AND database = %L;', _cron_job_name(unschedule.name), current_user,
                                current_database());
    elsif to_regclass('cron.job') is not null and has_schema_privilege('cron', 'usage') then
        execute 'select cron.unschedule(j.jobid) from cron.job j where j.jobname = $1 and j.username = current_user'
            using _cron_job_name(unschedule.name);
    end if;
end
$$;
comment on function unschedule(text) is 'Deletes a schedule of yours, here and in pg_cron.';
