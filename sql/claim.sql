-- Claiming: who may work on a job, and when a claim is void. What is done with a claimed job is not decided here.
--
-- A claimer inside the server holds an advisory lock on its name while it lives, so its claims are void the moment it dies;
-- one outside has a lease. Claims take rows with SKIP LOCKED and no other lock; every claim draws a new fence.

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

create function _claimer_lives(claimer text) returns boolean
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select exists (
        select from _claimer_locks l, _claimer_key(claimer) as k
        where l.mode = 'ExclusiveLock' and l.objid = (k.key::bigint & 4294967295)::oid
          -- The name of a claimer says whose lock it is; anybody can take a lock.
          and l.pid::text = split_part(claimer, ':', 2))
$$;

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
    return query select * from _claim(worker, max_jobs, lease, false);
end
$$;
comment on function claim_jobs(text, integer, interval) is
    'Takes up to max_jobs due jobs for a worker outside the server; each is its own until it is finished or the lease ends.';

-- Due work by priority, then by turn; a job that is tried again keeps its turn. lease null: the claimer holds its advisory lock.
-- What is lined up before the floor is known to be gone, so that a claim never walks through what others have finished.
create function _claim(claimer text, max_jobs integer, lease interval, with_test_jobs boolean) returns setof jobs
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment     timestamptz := _now();
    resting    text[] := _resting_models(moment);
    floor      bigint;
    looked_at  integer := max_jobs;
    -- By place in the table, which cannot change while they are looked at and locked; to find them again costs nothing.
    candidates tid[];
    chosen     tid[];
begin
    if max_jobs is null or max_jobs not between 1 and 100000 then
        raise exception 'max_jobs cannot be %', coalesce(max_jobs::text, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Give a number from 1 to 100000.';
    end if;
    perform _require_read_committed();
    perform _free_dead_claims(claimer);
    floor := _claim_floor();
    -- Candidates are looked at first and locked when chosen; when others hold too many of them, further ones are looked at.
    loop
        candidates := array(
            select c.place
            from (
                select j.place, j.id, j.priority, j.turn
                from lanes l
                cross join lateral (
                    select q.ctid as place, q.id, q.priority, q.turn
                    from jobs q
                    where q.lane = l.name and q.is_test_job = l.is_test and q.priority = l.priority and q.turn >= floor
                      and q.status = any (_queued_statuses())
                      and q.run_at <= moment
                    order by q.turn
                    limit looked_at
                ) as j
                where l.name <> all (resting) and (with_test_jobs or not l.is_test)
                union all
                (select j.ctid, j.id, j.priority, j.turn
                 from jobs j
                 where j.status = 'retrying' and j.run_at <= moment
                   and j.lane <> all (resting) and (with_test_jobs or not j.is_test_job)
                 order by j.run_at
                 limit looked_at)
            ) as c
            order by c.priority desc, c.turn, c.id
            limit looked_at);
        chosen := array(
            select j.ctid
            from jobs j
            where j.ctid = any (candidates) and j.status = any (_ready_statuses())
              -- Asked with the same eyes that see the jobs: the worker of a database that is being restored must not be early.
              and (lease is not null or with_test_jobs or get_config('worker_enabled') = 'true')
            order by j.priority desc, j.turn, j.id
            limit max_jobs
            for no key update of j skip locked);
        exit when cardinality(chosen) = max_jobs or cardinality(candidates) < looked_at;
        looked_at := looked_at * 4;
    end loop;
    if chosen = '{}' then
        perform _raise_floor(_first_turn(floor));
        return;
    end if;
    if lease is null and not exists (select from claimers c where c.name = claimer) then
        insert into claimers (name) values (claimer);
    end if;

    perform setval('claim_turns', (select j.turn from jobs j where j.ctid = chosen[1]));
    return query
        update jobs j
        set status = 'processing', status_before = j.status, claim_id = nextval('claim_ids'), claimed_by = claimer,
            lease_until = moment + lease, started_at = coalesce(j.started_at, moment)
        where j.ctid = any (chosen)
        returning j.*;
    perform _raise_floor(_first_turn(floor));
end
$$;

-- The lowest turn that stands in any lane from the floor on; without any, all that will come.
create function _first_turn(floor bigint) returns bigint
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return coalesce((
        select min(first.turn)
        from lanes l
        cross join lateral (
            select q.turn from jobs q
            where q.lane = l.name and q.is_test_job = l.is_test and q.priority = l.priority and q.turn >= floor
              and q.status = any (_queued_statuses())
            order by q.turn
            limit 1) as first), 9223372036854775807);
end
$$;

-- Models whose provider may not be called now.
create function _resting_models(moment timestamptz) returns text[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(
        select m.name
        from provider_clocks c
        join _current_models m on m.provider = c.provider
        where c.paused_reason is not null or c.free_at > moment);
end
$$;

-- The claimers inside the server that may hold a claim or have a call open, and are gone. They are listed, for to look through what
-- was ever claimed would cost more the longer an old snapshot is held.
create function _dead_claimers(asking text) returns text[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(select c.name from claimers c where c.name <> asking and not _claimer_lives(c.name));
end
$$;

-- Lists everybody who holds a claim or has a call open, whoever listed him: a restored database knows its dead only by these.
create function _list_claimers() returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into claimers (name)
    select j.claimed_by from jobs j where j.status = 'processing' and j.lease_until is null
    union
    select c.claimed_by from model_calls c where c.outcome = 'open' and c.lease_until is null
    on conflict do nothing;
end
$$;

-- Gives back the jobs of claimers that are gone: where they were, at once, and no attempt charged. The calls they had under
-- way are lost, whatever became of their jobs meanwhile. A claimer that lives is never touched, whoever asks.
create function _free_dead_claims(asking text) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
    dead   text[] := _dead_claimers(asking);
    voided uuid[] := array(
        select j.id from jobs j where j.status = 'processing' and j.lease_until is not null and j.lease_until < moment);
begin
    if dead <> '{}' then
        voided := voided || array(
            select j.id from jobs j where j.status = 'processing' and j.lease_until is null and j.claimed_by = any (dead));
    end if;
    if voided <> '{}' then
        -- A session whose lock somebody holds is left for the next claim: a claim waits for nobody.
        with quiet as materialized (
            select s.id from sessions s
            where s.id in (select j.session_id from jobs j where j.id = any (voided))
            order by s.id
            for no key update skip locked
        ),
        gone as (
            select j.id
            from quiet
            join jobs j on j.session_id = quiet.id
            where j.id = any (voided) and j.status = 'processing' and (j.lease_until is null or j.lease_until < moment)
            order by j.id
            for no key update of j skip locked
        )
        update jobs j
        set status = j.status_before, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
            turn = greatest(j.turn, _claim_turn())
        from gone
        where j.id = gone.id;
    end if;

    if dead <> '{}' or exists (select from model_calls o where o.outcome = 'open' and o.lease_until is not null and o.lease_until < moment) then
        update model_calls c
        set outcome = 'lost', finished_at = moment, error_class = 'transient', error_message = 'the claimer died during the call'
        where c.id in (
            select o.id from model_calls o
            where o.outcome = 'open'
              and case when o.lease_until is null then o.claimed_by = any (dead) else o.lease_until < moment end
              and not exists (select from jobs j where j.id = o.job_id and j.status = 'processing' and j.claim_id = o.claim_id)
            for no key update skip locked);
    end if;
    if dead <> '{}' then
        delete from claimers c
        where c.name = any (dead)
          and not exists (select from jobs j where j.status = 'processing' and j.claimed_by = c.name)
          and not exists (select from model_calls o where o.outcome = 'open' and o.claimed_by = c.name);
    end if;
end
$$;
