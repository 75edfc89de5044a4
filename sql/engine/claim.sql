-- Claiming: which due jobs a claimer takes, and who lives. What is done with a claimed job is not decided here.
--
-- A claimer inside the server holds an advisory lock on its name while it lives, so its claims are void the moment it
-- dies; one outside has a lease. Whatever a claim locks (jobs, and where claims are void or money has come back also
-- sessions and wallets) it locks with SKIP LOCKED, so it never waits. Every claim draws a new fence.

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

-- What the lock of a claimer looks like in _live_claimers: the process that the name says, and the key. Anybody can
-- take a lock with that key; the process tells whose it is.
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

-- What one claim may take: nothing of the excluded sessions, nothing before the floor, of the limited queues no more
-- than their room, and no call of a session that waits for money. Jobs that are worked alone are not taken together
-- with others.
create type _claim_terms as (
    claimer          text,
    -- Null for a claimer inside the server: its advisory lock says how long its claims hold.
    lease            interval,
    takes_test_jobs  boolean,
    floor            bigint,
    excluded         uuid[],
    limited_queues   text[],
    rooms            integer[],
    -- Ordered by id: each job is looked up among what may be thousands.
    unfunded         uuid[],
    worked_alone     uuid[]
);

-- A job that this transaction has locked, and where its rows are.
create type _locked_job as (job_id uuid, queue text, queue_position bigint, place tid, job_place tid);

create function claim_jobs(worker text, max_jobs integer, lease interval default '5 min') returns setof jobs
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    claimed uuid[];
begin
    perform _refuse_null('worker', coalesce(worker, '') = '');
    if lease is null or lease <= interval '0' or lease > interval '1 day' then
        raise exception 'lease cannot be %', coalesce(lease::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give a time longer than zero and at most a day.';
    end if;
    if max_jobs is null or max_jobs not between 1 and 100000 then
        raise exception 'max_jobs cannot be %', coalesce(max_jobs::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give a number from 1 to 100000.';
    end if;
    perform _require_read_committed();
    claimed := array(select _claim_with_lease(worker, max_jobs, lease));
    return query select j.* from jobs j where j.id = any (claimed) order by j.queue_position, j.id;
end
$$;
comment on function claim_jobs(text, integer, interval) is
    'Takes up to max_jobs due jobs for a worker outside the server; each is its own until it is finished or the lease '
    'ends.';

-- Claims up to max_jobs jobs for a worker outside the server.
create function _claim_leased(
    worker text, max_jobs integer, lease interval, floor bigint, is_recovered boolean, closed_queues text[]
) returns setof uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if is_recovered then
        floor := least(floor, _claim_position());
    end if;
    floor := _resume_funded_jobs('{}', floor);
    return query
        select j.id
        from _claim((worker, lease, false, floor, '{}', closed_queues,
                     array(select 0 from unnest(closed_queues)), '{}', '{}')::_claim_terms, max_jobs, _uuid_v7()) as j;
end
$$;

-- Claims up to max_jobs jobs for a claimer inside the server; the last row has no job and says the new floor, below
-- which no job is ready. Test jobs are left to run_pending. Where a job is to be worked alone, nothing is claimed until
-- nothing is in flight, and then that job. Where void claims are found, nothing is claimed either: the one row returned
-- says so, and the claimer releases them first.
create function _claim_batch(
    claimer text, max_jobs integer, in_flight integer, floor bigint, is_recovered boolean, excluded uuid[],
    limited_queues text[], rooms integer[], payers_waiting text[]
) returns table (
    claim uuid, job_id uuid, claim_id bigint, session_id uuid, kind text, queue text, is_alone boolean,
    next_floor bigint, has_void_claims boolean
)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    is_worker boolean := claimer like 'worker:%';
    new_claim uuid := _uuid_v7();
    alone     uuid;
    terms     _claim_terms;
begin
    -- A worker that is switched off does not touch what dead claimers have left either.
    if is_worker and (select c.value from configuration c where c.key = 'worker_enabled' order by c.is_shipped limit 1)
                     <> 'true' then
        return;
    end if;
    if is_recovered then
        floor := least(floor, _claim_position());
    elsif _has_void_claims(claimer) then
        return query select null::uuid, null::uuid, null::bigint, null::uuid, null::text, null::text, false,
                            null::bigint, true;
        return;
    end if;
    floor := _resume_funded_jobs(excluded, floor);
    terms := (claimer, null, not is_worker, floor, excluded, limited_queues, rooms, _unfunded_sessions(payers_waiting),
              array(select s.job_id from suspect_jobs s))::_claim_terms;
    if terms.worked_alone <> '{}' then
        alone := _next_suspect(terms);
    end if;
    if alone is not null then
        if in_flight > 0 then
            return;
        end if;
        return query
            select new_claim, j.id, j.claim_id, j.session_id, j.kind, j.queue, true, null::bigint, false
            from _claim_alone(claimer, alone, new_claim) as j;
        if found then
            return;
        end if;
    end if;
    return query
        select new_claim, j.id, j.claim_id, j.session_id, j.kind, j.queue, false, null::bigint, false
        from _claim(terms, max_jobs, new_claim) as j
        order by j.queue_position, j.id;
    return query
        select null::uuid, null::uuid, null::bigint, null::uuid, null::text, null::text, false, _first_position(floor),
               false;
end
$$;

-- Resumes jobs that there is money for again; returns the floor, lowered to the positions that such jobs return to.
create function _resume_funded_jobs(excluded uuid[], floor bigint) returns bigint
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if exists (select from unfunded_jobs u where u.is_due) then
        floor := least(floor, _claim_position());
        perform _resume_due(excluded);
    end if;
    return floor;
end
$$;

-- The sessions of these payers: a payer is an owner or a session.
create function _unfunded_sessions(payers text[]) returns uuid[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if payers = '{}' then
        return '{}';
    end if;
    return array(
        select s.id from sessions s where s.owner = any (payers) and s.status = 'active'
        union
        select p.payer::uuid from unnest(payers) as p(payer) where p.payer !~ '^(role|jwt):'
        order by 1);
end
$$;

-- Claims due jobs by priority, then by queue_position; a job that is tried again keeps its queue_position. Candidates
-- are chosen without a lock and then locked; when other transactions hold too many of them, more are chosen.
create function _claim(terms _claim_terms, max_jobs integer, claim uuid) returns setof jobs
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment     timestamptz := _now();
    depth      integer := 1;
    candidates tid[];
    -- How many candidates there were the last time.
    before     integer;
    locked     _locked_job[];
begin
    loop
        candidates := _find_candidates(terms, moment, max_jobs, depth);
        locked := _lock_candidates(terms, candidates, max_jobs);
        exit when cardinality(locked) in (max_jobs, cardinality(candidates))
            or (cardinality(candidates) < max_jobs * depth
                and (terms.limited_queues = '{}' or cardinality(candidates) = before));
        before := cardinality(candidates);
        depth := depth * 4;
    end loop;
    if depth > 1 and terms.limited_queues <> '{}' then
        locked := _trim_to_rooms(terms, locked);
    end if;
    if cardinality(locked) > 0 then
        return query select * from _take_locked(terms, locked, claim, moment);
    end if;
end
$$;

-- The places in ready_jobs of up to max_jobs * depth jobs that the terms allow, the first of each queue.
create function _find_candidates(terms _claim_terms, moment timestamptz, max_jobs integer, depth integer) returns tid[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    most         integer := max_jobs * depth;
    excluded     uuid[] := terms.excluded;
    unfunded     uuid[] := terms.unfunded;
    worked_alone uuid[] := terms.worked_alone;
    closed       text[] := case when terms.limited_queues = '{}' then '{}' else _full_queues(terms) end;
begin
    return array(
        select c.place
        from (
            select q.place, q.job_id, q.priority, q.queue_position
            from queues l
            cross join lateral (
                select r.ctid as place, r.job_id, r.priority, r.queue_position
                from ready_jobs r
                where not r.is_delayed and r.queue = l.name and r.is_test = l.is_test and r.priority = l.priority
                  and r.queue_position >= terms.floor and r.run_at <= moment
                  and (l.name = '' or unfunded = '{}'
                       or unfunded[width_bucket(r.session_id, unfunded)] is distinct from r.session_id)
                  and r.session_id <> all (excluded) and (worked_alone = '{}' or r.job_id <> all (worked_alone))
                order by r.queue_position
                limit least(most, terms.rooms[array_position(terms.limited_queues, l.name)]::bigint * depth)
            ) as q
            where l.name <> all (closed) and (terms.takes_test_jobs or not l.is_test)
            union all
            (select r.ctid, r.job_id, r.priority, r.queue_position
             from ready_jobs r
             where r.is_delayed and r.run_at <= moment and r.queue <> all (closed)
               and (terms.takes_test_jobs or not r.is_test)
               and (r.queue = '' or unfunded = '{}'
                    or unfunded[width_bucket(r.session_id, unfunded)] is distinct from r.session_id)
               and r.session_id <> all (excluded) and (worked_alone = '{}' or r.job_id <> all (worked_alone))
             order by r.run_at
             limit most)
        ) as c
        order by c.priority desc, c.queue_position, c.job_id
        limit most);
end
$$;

-- The limited queues that have no room. In plpgsql, because a function in SQL with a subquery is planned at each call.
create function _full_queues(terms _claim_terms) returns text[]
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(select l.queue from unnest(terms.limited_queues, terms.rooms) as l(queue, room) where l.room < 1);
end
$$;

-- Locks up to max_jobs of the candidates, skipping what other transactions have locked.
--
-- Candidates are found again by their place (ctid). Rows of ready_jobs are never updated, so a row keeps its place; the
-- snapshot of the statement that called the claim keeps VACUUM from giving the place of a deleted row to another one.
-- The place of a job is that of the version that is locked here, and a locked row does not move.
create function _lock_candidates(terms _claim_terms, candidates tid[], max_jobs integer) returns _locked_job[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(
        select (c.job_id, c.queue, c.queue_position, c.place, c.job_place)::_locked_job
        from (
            select r.job_id, r.queue, r.queue_position, r.ctid as place, j.ctid as job_place
            from ready_jobs r
            join jobs j on j.id = r.job_id
            where r.ctid = any (candidates) and j.status = any (_ready_statuses())
              -- Checked in this statement's snapshot, so that a restore which disables the worker cannot race with
              -- the claim.
              and (terms.lease is not null or terms.takes_test_jobs or get_config('worker_enabled') = 'true')
            order by r.priority desc, r.queue_position, r.job_id
            limit max_jobs
            for update of r skip locked
            for no key update of j skip locked
        ) as c);
end
$$;

-- Drops locked jobs of limited queues beyond their room: where other transactions hold the first jobs of a queue, more
-- candidates than room are chosen.
create function _trim_to_rooms(terms _claim_terms, locked _locked_job[]) returns _locked_job[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(
        select (t.job_id, t.queue, t.queue_position, t.place, t.job_place)::_locked_job
        from (
            select l.*, row_number() over (partition by l.queue order by l.nth) as nth_of_queue,
                   terms.rooms[array_position(terms.limited_queues, l.queue)] as room
            from unnest(locked) with ordinality as l(job_id, queue, queue_position, place, job_place, nth)) as t
        where t.room is null or t.nth_of_queue <= t.room
        order by t.nth);
end
$$;

-- Makes locked jobs the claimer's: they leave the queue, and every job draws a fence of its own.
create function _take_locked(terms _claim_terms, locked _locked_job[], claim uuid, moment timestamptz)
    returns setof jobs
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    places     tid[] := array(select l.place from unnest(locked) as l);
    job_places tid[] := array(select l.job_place from unnest(locked) as l);
begin
    insert into claims (id, claimed_by, lease_until, job_ids)
    values (claim, terms.claimer, moment + terms.lease, array(select l.job_id from unnest(locked) as l));
    perform setval('claim_positions', (locked[1]).queue_position);
    delete from ready_jobs r where r.ctid = any (places);
    return query
        update jobs j
        set status = 'processing', status_before = j.status, claim_id = nextval('claim_ids'),
            claimed_by = terms.claimer, lease_until = moment + terms.lease, started_at = coalesce(j.started_at, moment)
        where j.ctid = any (job_places)
        returning j.*;
end
$$;

-- The lowest queue_position of a ready job in any queue, from the floor on; without any, the highest number there is.
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
            where not r.is_delayed and r.queue = l.name and r.is_test = l.is_test and r.priority = l.priority
              and r.queue_position >= floor
            order by r.queue_position
            limit 1) as first), 9223372036854775807);
end
$$;
