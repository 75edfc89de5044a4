-- Claiming: who may work on a job, and when a claim is void. What is done with a claimed job is not decided here.
--
-- A claimer inside the server holds an advisory lock on its name while it lives, so its claims are void the moment it
-- dies; one outside has a lease. Whatever a claim locks (jobs, and where claims are void or money has come back also
-- sessions and wallets) it locks with SKIP LOCKED: it waits for nobody. Every claim draws a new fence.

-- The advisory lock of a claimer; the first key tells our locks from anyone else's.
create function _claimer_key(claimer text, out space integer, out key integer)
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select 1684626796, hashtext(claimer)
$$;

create view _claimer_locks with (security_invoker) as
    select l.pid, l.objid, l.mode
    from pg_locks l
    where l.locktype = 'advisory' and l.granted and l.objsubid = 2
      and l.database = (select oid from pg_database where datname = current_database())
      and l.classid = (select k.space::oid from _claimer_key('') as k);
comment on view _claimer_locks is 'The advisory locks that claimers of this database hold.';

-- What the lock of a claimer looks like in _live_claimers: the process that the name says, and the key. Anybody can take
-- a lock with that key; the process tells whose it is.
create function _claimer_lock_id(claimer text) returns text
    language sql immutable
    return split_part(claimer, ':', 2) || ':' || (hashtext(claimer)::bigint & 4294967295);

-- The lock ids of the claimers that live. Reading the lock table stops every other process for a moment, so a statement
-- reads it once and compares many claimers with the result.
create function _live_claimers() returns text[]
    language sql stable
    return array(select l.pid || ':' || l.objid from _claimer_locks l where l.mode = 'ExclusiveLock');

-- Whether anybody would take a due job: a worker that is switched off lives, and takes none.
create function _any_claimer_works() returns boolean
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    is_idle boolean := coalesce(_worker_state() = 'served', false) and get_config('worker_enabled') <> 'true';
begin
    return (select count(*) from _claimer_locks) > is_idle::integer;
end
$$;

create function claim_jobs(worker text, max_jobs integer, lease interval default '5 min') returns setof jobs
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('worker', coalesce(worker, '') = '');
    if lease is null or lease <= interval '0' or lease > interval '1 day' then
        raise exception 'lease cannot be %', coalesce(lease::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give a time longer than zero and at most a day.';
    end if;
    return query select * from _claim(worker, max_jobs, lease, false, _uuid_v7(), '{}', '{}', '{}', '{}');
end
$$;
comment on function claim_jobs(text, integer, interval) is
    'Takes up to max_jobs due jobs for a worker outside the server; each is its own until it is finished or the lease ends.';

-- Due work by priority, then by queue_position; a job that is tried again keeps its queue_position. lease null: the claimer holds its
-- advisory lock. What is lined up before the floor is known to be gone, so that a claim never walks through what others
-- have finished. Of the queues that are named no more is taken than there is room for, and of owners and sessions that
-- are poor no call.
create function _claim(
    claimer text, max_jobs integer, lease interval, with_test_jobs boolean, claim uuid, held uuid[], narrow text[], rooms integer[],
    poor text[]
) returns setof jobs
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
    -- Planned while the tables are small, it must still be right when they are not. A scan that is needed all the same
    -- would then seem dear enough to be compiled, which takes longer than all the rest.
    set enable_seqscan = off
    set jit = off
as $$
declare
    moment     timestamptz := _now();
    -- A claimer inside the server works these alone (_claim_alone).
    suspects   uuid[] := '{}';
    resting    text[] := _resting_models(moment) || array(select n.queue from unnest(narrow, rooms) as n(queue, room) where n.room < 1);
    floor      bigint;
    looked_at  integer := max_jobs;
    -- How many were looked at the last time.
    seen       integer;
    -- The sessions of which no call is taken, in order: there may be thousands, and each job is looked for among them.
    shut       uuid[] := '{}';
    -- By place in the table, which cannot change while they are looked at and locked; to find them again costs nothing.
    candidates tid[];
    places     tid[];
    chosen     tid[];
    ids        uuid[];
    last_position  bigint;
begin
    if max_jobs is null or max_jobs not between 1 and 100000 then
        raise exception 'max_jobs cannot be %', coalesce(max_jobs::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give a number from 1 to 100000.';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform _require_read_committed();
    end if;
    if exists (select from claimers c where c.name <> claimer) or exists (select from claims c where c.lease_until < moment) then
        perform _free_dead_claims(claimer, held);
    end if;
    if lease is null then
        suspects := array(select s.job_id from suspect_jobs s);
    end if;
    if exists (select from unfunded_jobs u where u.is_due) then
        perform _resume_due(held);
    end if;
    floor := _claim_floor();
    if poor <> '{}' then
        shut := array(
            select s.id from sessions s where s.owner = any (poor) and s.status = 'active'
            union
            select p.purse::uuid from unnest(poor) as p(purse) where p.purse !~ '^(role|jwt):'
            order by 1);
    end if;
    -- Candidates are looked at first and locked when chosen; when others hold too many of them, further ones are looked
    -- at.
    loop
        candidates := array(
            select c.place
            from (
                select q.place, q.job_id, q.priority, q.queue_position
                from queues l
                cross join lateral (
                    select r.ctid as place, r.job_id, r.priority, r.queue_position
                    from ready_jobs r
                    where not r.is_delayed and r.queue = l.name and r.is_test = l.is_test and r.priority = l.priority
                      and r.queue_position >= floor and r.run_at <= moment
                      and (l.name = '' or shut = '{}' or shut[width_bucket(r.session_id, shut)] is distinct from r.session_id)
                      and r.session_id <> all (held) and (suspects = '{}' or r.job_id <> all (suspects))
                    order by r.queue_position
                    limit least(looked_at, rooms[array_position(narrow, l.name)]::bigint * (looked_at / max_jobs))
                ) as q
                where l.name <> all (resting) and (with_test_jobs or not l.is_test)
                union all
                (select r.ctid, r.job_id, r.priority, r.queue_position
                 from ready_jobs r
                 where r.is_delayed and r.run_at <= moment and r.queue <> all (resting) and (with_test_jobs or not r.is_test)
                   and (r.queue = '' or shut = '{}' or shut[width_bucket(r.session_id, shut)] is distinct from r.session_id)
                   and r.session_id <> all (held) and (suspects = '{}' or r.job_id <> all (suspects))
                 order by r.run_at
                 limit looked_at)
            ) as c
            order by c.priority desc, c.queue_position, c.job_id
            limit looked_at);
        -- A claim waits for nobody, neither in the line nor among the jobs: whoever moves a job takes it out of the
        -- line as well.
        select coalesce(array_agg(c.place), '{}'), array_agg(c.job_place), array_agg(c.job_id), (array_agg(c.queue_position))[1]
        into places, chosen, ids, last_position
        from (
            select r.ctid as place, j.ctid as job_place, r.job_id, r.queue_position
            from ready_jobs r
            join jobs j on j.id = r.job_id
            where r.ctid = any (candidates) and j.status = any (_ready_statuses())
              -- Asked with the same eyes that see the jobs: the worker of a database that is being restored must not be
              -- early.
              and (lease is not null or with_test_jobs or get_config('worker_enabled') = 'true')
            order by r.priority desc, r.queue_position, r.job_id
            limit max_jobs
            for update of r skip locked
            for no key update of j skip locked
        ) as c;
        exit when cardinality(places) in (max_jobs, cardinality(candidates))
            or (cardinality(candidates) < looked_at and (narrow = '{}' or cardinality(candidates) = seen));
        seen := cardinality(candidates);
        looked_at := looked_at * 4;
    end loop;
    -- Of a narrow queue more was looked at than there is room for, where somebody holds what comes first.
    if looked_at > max_jobs and narrow <> '{}' then
        select coalesce(array_agg(c.place), '{}'), array_agg(c.job_place), array_agg(c.job_id)
        into places, chosen, ids
        from (
            select p.*, row_number() over (partition by r.queue order by p.nth) as in_queue, rooms[array_position(narrow, r.queue)] as room
            from unnest(places, chosen, ids) with ordinality as p(place, job_place, job_id, nth)
            join ready_jobs r on r.ctid = p.place
            order by p.nth) as c
        where c.room is null or c.in_queue <= c.room;
    end if;
    if places = '{}' then
        perform _raise_floor(_first_position(floor));
        return;
    end if;
    insert into claims (id, claimed_by, lease_until, job_ids) values (claim, claimer, moment + lease, ids);

    perform setval('claim_positions', last_position);
    delete from ready_jobs r where r.ctid = any (places);
    return query
        update jobs j
        set status = 'processing', status_before = j.status, claim_id = nextval('claim_ids'), claimed_by = claimer,
            lease_until = moment + lease, started_at = coalesce(j.started_at, moment)
        where j.ctid = any (chosen)
        returning j.*;
    perform _raise_floor(_first_position(floor));
end
$$;

-- The lowest queue_position that stands in any queue from the floor on; without any, all that will come.
create function _first_position(floor bigint) returns bigint
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return coalesce((
        select min(first.queue_position)
        from queues l
        cross join lateral (
            select r.queue_position from ready_jobs r
            where not r.is_delayed and r.queue = l.name and r.is_test = l.is_test and r.priority = l.priority and r.queue_position >= floor
            order by r.queue_position
            limit 1) as first), 9223372036854775807);
end
$$;

-- The claimers inside the server that may hold a claim or have a call open, and are gone. They are listed, for to look
-- through what was ever claimed would cost more the longer an old snapshot is held.
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

-- Whoever holds a claim without a lease is listed, however the claim came to be here: a restored database knows its
-- dead by this.
create function _list_claimers() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    -- Claims that a dump brought were not lost here.
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

-- Gives back the jobs of claimers that are gone: where they were, at once, and no attempt charged. The calls they had
-- under way are lost, whatever became of their jobs meanwhile. A claimer that lives is never touched, whoever asks.
create function _free_dead_claims(asking text, excluded uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
    dead   text[] := _dead_claimers(asking);
    -- The claims that are void, and each of their jobs with the one who took it.
    void   uuid[];
    takers text[];
    taken  uuid[];
    busy   text[];
    freed  uuid[];
    lost   bigint[];
begin
    if dead = '{}' and not exists (select from claims c where c.lease_until < moment) then
        return;
    end if;
    -- Skip claims that another process is already releasing.
    void := array(select c.id from claims c where c.lease_until < moment for update skip locked)
            || array(select c.id from claims c where c.lease_until is null and c.claimed_by = any (dead) for update skip locked);
    select array_agg(c.claimed_by), array_agg(job_id) into takers, taken
    from claims c, unnest(c.job_ids) as job_id
    where c.id = any (void);

    -- A session whose lock somebody holds, or the wallet of its owner, is left for the next claim: a claim waits for
    -- nobody.
    busy := _busy_wallets(array(select j.session_id from jobs j where j.id = any (taken)));
    with held as materialized (
        select j.id, j.session_id, j.claim_id
        from unnest(taken, takers) as t(job_id, claimed_by)
        join jobs j on j.id = t.job_id
        where j.status = 'processing' and j.claimed_by = t.claimed_by and (j.lease_until is null or j.lease_until < moment)
          and j.session_id <> all (excluded)
    ),
    quiet as materialized (
        select s.id from sessions s
        where s.id in (select h.session_id from held h) and s.owner <> all (busy)
        order by s.id
        for no key update skip locked
    ),
    gone as (
        select j.id, j.claim_id
        from quiet
        join held h on h.session_id = quiet.id
        join jobs j on j.id = h.id
        where j.status = 'processing' and j.claim_id = h.claim_id and (j.lease_until is null or j.lease_until < moment)
        order by j.id
        for no key update of j skip locked
    ),
    back as (
        update jobs j
        set status = j.status_before, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
            queue_position = greatest(j.queue_position, _claim_position())
        from gone
        where j.id = gone.id
        returning j.id, gone.claim_id
    )
    select array_agg(back.id), array_agg(back.claim_id) into freed, lost from back;
    if freed is not null then
        perform _note_lost_claims(freed, lost, void, moment);
    end if;

    perform _close_lost_calls(array(
        select o.id
        from unnest(taken, takers) as t(job_id, claimed_by)
        join model_calls o on o.job_id = t.job_id and o.claimed_by = t.claimed_by
        join sessions s on s.id = o.session_id
        where o.outcome = 'open' and (o.lease_until is null or o.lease_until < moment) and s.owner <> all (busy)
          and s.id <> all (excluded)
          and not exists (select from jobs j where j.id = o.job_id and j.status = 'processing' and j.claim_id = o.claim_id)
        for no key update of o, s skip locked), moment);

    -- While a database is restored its claims may come before its jobs: such a claim stays.
    delete from claims c
    where c.id = any (void)
      and not exists (select from unnest(c.job_ids) as t(job_id) where not exists (select from jobs j where j.id = t.job_id))
      and not exists (
          select from unnest(c.job_ids) as t(job_id) join jobs j on j.id = t.job_id
          where j.status = 'processing' and j.claimed_by = c.claimed_by and (j.lease_until is null or j.lease_until < moment))
      and not exists (
          select from unnest(c.job_ids) as t(job_id) join model_calls o on o.job_id = t.job_id and o.claimed_by = c.claimed_by
          where o.outcome = 'open' and (o.lease_until is null or o.lease_until < moment));
    delete from claimers c
    where c.name in (select k.name from claimers k where k.name = any (dead) for update skip locked)
      and not exists (select from claims held where held.lease_until is null and held.claimed_by = c.name);
end
$$;

-- Strikes off claims of which nothing is held any more, neither a job nor an open call.
create function _release_claims(claims uuid[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    delete from claims c where c.id = any (_release_claims.claims);
end
$$;
