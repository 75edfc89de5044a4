-- Void claims: claims of a claimer that died, and claims whose lease has ended. Their jobs return to the queue.
--
-- Decides which claims are void and releases what they hold: jobs, open calls, and the claims themselves. A claimer
-- that lives is never touched. The release locks with SKIP LOCKED; what another transaction holds is left for the next
-- claim.

-- The dead claimers inside the server that may hold a claim or have a call open. Claimers are listed in a table,
-- because scanning old claims gets slower while a long-running snapshot prevents vacuum.
create function _dead_claimers(asking text) returns text[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    live_claimers text[] := _live_claimers();
begin
    return array(
        select c.name from claimers c
        where c.name <> asking and _claimer_lock_id(c.name) <> all (live_claimers));
end
$$;

-- Lists the claimer of every claim without a lease, also of claims that a restore inserts: their claimers are dead.
create function _list_claimers() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    -- The server is null for claims that a restore inserts, because they were not lost here.
    insert into claimers (name, server)
    select distinct n.claimed_by, case split_part(n.claimed_by, ':', 2) when pg_backend_pid()::text then _server() end
    from new_claims n
    where n.lease_until is null and not exists (select from claimers c where c.name = n.claimed_by)
    on conflict do nothing;
    return null;
end
$$;
create trigger _list_claimers
    after insert on claims
    referencing new table as new_claims
    for each statement execute function _list_claimers();

-- A job that a void claim lists, and the claimer of that claim.
create type _lost_job as (job_id uuid, claimed_by text);

-- Whether there are void claims, or dead claimers that are still listed.
create function _has_void_claims(asking text) returns boolean
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return exists (select from claims c where c.lease_until < _now())
        or (exists (select from claimers c where c.name <> asking) and _dead_claimers(asking) <> '{}');
end
$$;

-- Releases the jobs of void claims: they return to where they were, at once, and no attempt is charged. Returns their
-- open calls, which are locked and to be closed as lost, whatever became of the jobs meanwhile.
create function _release_void_claims(asking text, excluded uuid[]) returns setof uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
    void   uuid[] := _lock_void_claims(_dead_claimers(asking), moment);
    lost   _lost_job[];
    busy   text[];
begin
    lost := array(
        select (job_id, c.claimed_by)::_lost_job from claims c, unnest(c.job_ids) as job_id where c.id = any (void));
    busy := _busy_wallets(array(select j.session_id from unnest(lost) as l join jobs j on j.id = l.job_id));
    perform _return_lost_jobs(lost, void, busy, excluded, moment);
    return query select * from unnest(_lock_lost_calls(lost, busy, excluded, moment));
end
$$;

-- Locks the void claims that no other transaction has locked.
create function _lock_void_claims(dead text[], moment timestamptz) returns uuid[]
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select array(select c.id from claims c where c.lease_until < moment for update skip locked)
           || array(select c.id from claims c where c.lease_until is null and c.claimed_by = any (dead)
                    for update skip locked)
$$;

-- Returns the lost jobs whose sessions can be locked, and whose owners' wallets are not busy.
create function _return_lost_jobs(
    lost _lost_job[], void uuid[], busy text[], excluded uuid[], moment timestamptz
) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    returned  uuid[];
    claim_ids bigint[];
begin
    with held as materialized (
        select j.id, j.session_id, j.claim_id
        from unnest(lost) as l
        join jobs j on j.id = l.job_id
        where j.status = 'processing' and j.claimed_by = l.claimed_by
          and (j.lease_until is null or j.lease_until < moment) and j.session_id <> all (excluded)
    ),
    locked_session as materialized (
        select s.id from sessions s
        where s.id in (select h.session_id from held h) and s.owner <> all (busy)
        order by s.id
        for no key update skip locked
    ),
    locked_job as (
        select j.id, j.claim_id
        from locked_session s
        join held h on h.session_id = s.id
        join jobs j on j.id = h.id
        where j.status = 'processing' and j.claim_id = h.claim_id and (j.lease_until is null or j.lease_until < moment)
        order by j.id
        for no key update of j skip locked
    ),
    returned_job as (
        update jobs j
        set status = j.status_before, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
            queue_position = greatest(j.queue_position, _claim_position())
        from locked_job l
        where j.id = l.id
        returning j.id, l.claim_id
    )
    select array_agg(r.id), array_agg(r.claim_id) into returned, claim_ids from returned_job r;
    if returned is not null then
        perform _note_lost_claims(returned, claim_ids, void, moment);
    end if;
end
$$;

-- The open calls of lost jobs, locked with their sessions; not those of a job that is still claimed for the call.
create function _lock_lost_calls(lost _lost_job[], busy text[], excluded uuid[], moment timestamptz) returns uuid[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(
        select o.id
        from unnest(lost) as l
        join model_calls o on o.job_id = l.job_id and o.claimed_by = l.claimed_by
        join sessions s on s.id = o.session_id
        where o.outcome = 'open' and (o.lease_until is null or o.lease_until < moment) and s.owner <> all (busy)
          and s.id <> all (excluded)
          and not exists (
              select from jobs j where j.id = o.job_id and j.status = 'processing' and j.claim_id = o.claim_id)
        for no key update of o, s skip locked);
end
$$;

-- Deletes void claims that hold nothing any more, and dead claimers without claims.
create function _delete_void_claims(asking text) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
    dead   text[] := _dead_claimers(asking);
    void   uuid[] := _lock_void_claims(dead, moment);
begin
    delete from claims c
    where c.id = any (void)
      -- A restore may insert claims before their jobs: such a claim stays.
      and not exists (
          select from unnest(c.job_ids) as t(job_id) where not exists (select from jobs j where j.id = t.job_id))
      and not exists (
          select from unnest(c.job_ids) as t(job_id) join jobs j on j.id = t.job_id
          where j.status = 'processing' and j.claimed_by = c.claimed_by
            and (j.lease_until is null or j.lease_until < moment))
      and not exists (
          select from unnest(c.job_ids) as t(job_id)
          join model_calls o on o.job_id = t.job_id and o.claimed_by = c.claimed_by
          where o.outcome = 'open' and (o.lease_until is null or o.lease_until < moment));
    delete from claimers c
    where c.name in (select k.name from claimers k where k.name = any (dead) for update skip locked)
      and not exists (select from claims held where held.lease_until is null and held.claimed_by = c.name);
end
$$;

-- Deletes claims that hold nothing any more, neither a job nor an open call.
create function _release_claims(claims uuid[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    delete from claims c where c.id = any (_release_claims.claims);
end
$$;
