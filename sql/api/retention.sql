-- Deletion by owners and admins: a session, a project, everything older than some age.
--
-- A function cannot commit, so a deletion has two parts. Here the session is cancelled, its cost is added to the
-- roll-up and it is listed in deletions, which hides it; up to 1,000 of its rows are removed at once.
-- engine/maintenance.sql removes the rest. Never deletes a row of the ledger.

-- The most rows that a transaction removes.
create function _deletion_batch() returns integer
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select 1000
$$;

-- Marks sessions as deleted, under the locks of their wallets and of the sessions: jobs are cancelled, which ends calls
-- in flight, and calls are closed and added to the roll-up. A session that another transaction marked before it released
-- the lock is left out, so its calls are added once.
create function _mark_sessions_deleted(session_ids uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    session_ids := array(select id from unnest(session_ids) as id where id not in (select d.id from deletions d));
    update sessions s set status = 'cancelled' where s.id = any (session_ids) and s.status = 'active';
    update jobs j
    set status = 'cancelled', completed_at = _now(), status_before = null, claim_id = null, claimed_by = null,
        lease_until = null,
        error_details = jsonb_build_object('class', 'cancelled', 'message', 'the session is deleted')
    where j.session_id = any (session_ids) and j.status <> all (_ended_statuses());
    perform _settle_lost_calls(array(
        select c.id from jobs j join model_calls c on c.job_id = j.id
        where j.session_id = any (session_ids) and c.outcome = 'open'));
    perform _add_to_usage_history(array(
        select c from jobs j join model_calls c on c.job_id = j.id where j.session_id = any (session_ids)));
    delete from budgets b where b.session_id = any (session_ids);
    delete from partials p using jobs j where p.job_id = j.id and j.session_id = any (session_ids);
    insert into deletions (id, kind) select id, 'session' from unnest(session_ids) as id on conflict do nothing;
end
$$;

-- Marks projects as deleted, of those that are still empty once they are locked; returns them. Their idempotency keys
-- are free again.
create function _mark_empty_projects(project_ids uuid[], before timestamptz) returns uuid[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    project_ids := array(
        select p.id from projects p where p.id = any (project_ids) order by p.id for update skip locked);
    -- A session that was being started meanwhile is committed and seen here.
    project_ids := array(select p.id from _empty_projects(before, null) as p where p.id = any (project_ids));
    perform _mark_projects_deleted(project_ids);
    return project_ids;
end
$$;

create function _mark_projects_deleted(project_ids uuid[]) returns void
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    update projects p set idempotency_key = null
    where p.id = any (project_ids) and p.idempotency_key is not null;
    insert into deletions (id, kind) select id, 'project' from unnest(project_ids) as id on conflict do nothing;
$$;

-- A row that leaves deletions takes its session or project along. Nothing of a marked session holds money, so wallets
-- need not be locked: the trigger that does it (engine/payment.sql) does not fire inside another trigger.
create function _delete_marked() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    delete from sessions s where s.id = old.id;
    delete from projects p where p.id = old.id;
    return null;
end
$$;
create trigger _delete_marked after delete on deletions for each row execute function _delete_marked();

-- Removes up to this many rows of a marked session; the session itself goes when nothing else is left. Returns the
-- number of removed rows: 0 when another transaction has locked the session.
create function _remove_session_rows(session uuid, most integer) returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    removed integer := 0;
    number  integer;
    rows_of constant text[] := array[
        'notifications', 'select t.ctid from notifications t where t.session_id = $1',
        'memory', 'select t.ctid from memory t where t.session_id = $1',
        'partials', 'select t.ctid from jobs j join partials t on t.job_id = j.id where j.session_id = $1',
        'job_inputs', 'select t.ctid from jobs j join job_inputs t on t.job = j.id where j.session_id = $1',
        'job_dependencies',
            'select t.ctid from jobs j join job_dependencies t on t.job_id = j.id where j.session_id = $1',
        'resources', 'select t.ctid from jobs j join resources t on t.job_id = j.id where j.session_id = $1',
        'resources', 'select t.ctid from resources t where t.session_id = $1 and t.job_id is null',
        'contributions', 'select t.ctid from contributions t where t.session_id = $1 order by t.id desc',
        'model_calls', 'select t.ctid from jobs j join model_calls t on t.job_id = j.id where j.session_id = $1',
        'jobs', 'select t.ctid from jobs t where t.session_id = $1 order by t.id desc',
        'stage_runs', 'select t.ctid from stage_runs t where t.session_id = $1'];
begin
    perform from sessions s where s.id = session for update skip locked;
    if not found and exists (select from sessions s where s.id = session) then
        return 0;
    end if;
    for nth in 1 .. array_length(rows_of, 1) by 2 loop
        execute format('delete from %I where ctid = any (array(%s limit $2))', rows_of[nth], rows_of[nth + 1])
            using session, most - removed;
        get diagnostics number = row_count;
        removed := removed + number;
        if removed >= most then
            return removed;
        end if;
    end loop;
    delete from deletions d where d.id = session;
    return removed + 1;
end
$$;

-- The same for a project, whose sessions are gone.
create function _remove_project_rows(project uuid, most integer) returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    chunks    integer;
    resources integer;
begin
    if exists (select from sessions s where s.project_id = project) then
        return 0;
    end if;
    delete from memory m where m.ctid = any (array(
        select t.ctid from memory t where t.project_id = project limit most));
    get diagnostics chunks = row_count;
    delete from resources r where r.ctid = any (array(
        select t.ctid from resources t where t.project_id = project and t.job_id is null limit most - chunks));
    get diagnostics resources = row_count;
    if chunks + resources >= most then
        return chunks + resources;
    end if;
    delete from deletions d where d.id = project;
    return chunks + resources + 1;
end
$$;

-- Removes up to a batch of rows of these marked sessions and projects; returns the number of removed rows.
create function _remove_marked_rows(ids uuid[]) returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    removed integer := 0;
    marked  deletions;
begin
    for marked in select d.* from deletions d where d.id = any (ids) order by d.kind desc, d.deleted_at, d.id loop
        removed := removed + case marked.kind
            when 'session' then _remove_session_rows(marked.id, _deletion_batch() - removed)
            else _remove_project_rows(marked.id, _deletion_batch() - removed) end;
        exit when removed >= _deletion_batch();
    end loop;
    return removed;
end
$$;

create function delete_session(session uuid) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _lock_wallets(array(
        select s.id from sessions s
        where s.id = delete_session.session and (s.owner = _calling_owner() or _caller_is_admin())));
    perform _own_session(delete_session.session);
    perform _mark_sessions_deleted(array[delete_session.session]);
    perform _remove_marked_rows(array[delete_session.session]);
    return not exists (select from sessions s where s.id = delete_session.session);
end
$$;
comment on function delete_session(uuid) is
    'Cancels a session, hides it and deletes it; its cost stays in usage. '
    'Returns true when all its rows are removed, and false when more than 1,000 are: maintain() removes the rest.';

create function delete_project(project uuid) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    session_ids uuid[];
begin
    perform _require_read_committed();
    perform _own_project(delete_project.project);
    -- A session that is being started in it commits first.
    perform from projects p where p.id = delete_project.project for update;
    session_ids := array(
        select s.id from sessions s
        where s.project_id = delete_project.project and s.id not in (select d.id from deletions d));
    perform _lock_wallets(session_ids);
    perform from sessions s where s.id = any (session_ids) order by s.id for no key update;
    perform _mark_sessions_deleted(session_ids);
    perform _mark_projects_deleted(array[delete_project.project]);
    perform _remove_marked_rows(
        array(select s.id from sessions s where s.project_id = delete_project.project) || delete_project.project);
    return not exists (select from projects p where p.id = delete_project.project);
end
$$;
comment on function delete_project(uuid) is
    'Deletes a project with its resources and sessions, as delete_session() does. '
    'Returns true when all rows are removed, and false when maintain() removes the rest.';

-- Sessions that ended before a moment: completed, failed or cancelled, with no job that could still move.
create function _ended_sessions(before timestamptz, most integer) returns setof sessions
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select s.*
    from sessions s
    where s.status <> 'active' and s.created_at < before and s.id not in (select d.id from deletions d)
      and not exists (
          select from jobs j
          where j.session_id = s.id and (j.status <> all (_ended_statuses()) or j.completed_at >= before))
      and coalesce(s.completed_at, s.created_at) < before
    order by s.id
    limit most
$$;

-- Projects that were created before a moment and have no session.
create function _empty_projects(before timestamptz, most integer) returns setof projects
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select p.*
    from projects p
    where p.created_at < before and p.id not in (select d.id from deletions d)
      and not exists (
          select from sessions s where s.project_id = p.id and s.id not in (select d.id from deletions d))
    order by p.id
    limit most
$$;

create function purge(older_than interval) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    before      timestamptz := _now() - purge.older_than;
    session_ids uuid[];
    project_ids uuid[];
begin
    perform _require_read_committed();
    if purge.older_than is null or purge.older_than < interval '0' then
        raise exception 'older_than cannot be %', coalesce(purge.older_than::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'SELECT dialectic.purge(older_than => ''90 days'');';
    end if;
    session_ids := array(
        select s.id from _ended_sessions(before, null) as s where s.owner = _calling_owner() or _caller_is_admin());
    perform _lock_wallets(session_ids);
    -- A session that another transaction has locked is in use, and one that was used meanwhile has not ended.
    session_ids := array(
        select s.id from sessions s where s.id = any (session_ids) order by s.id for no key update skip locked);
    session_ids := array(select s.id from _ended_sessions(before, null) as s where s.id = any (session_ids));
    perform _mark_sessions_deleted(session_ids);
    project_ids := _mark_empty_projects(array(
        select p.id from _empty_projects(before, null) as p
        where p.owner = _calling_owner() or _caller_is_admin()), before);
    perform _remove_marked_rows(session_ids || project_ids);
    return cardinality(session_ids);
end
$$;
comment on function purge(interval) is
    'Deletes your sessions that ended longer ago than this, and projects as old that have no session; an admin deletes '
    'those of all owners. Returns the number of sessions; of more than 1,000 rows maintain() removes the rest.';
