-- The statements of a claimer inside the server between claiming and keeping: its name, the locks of sessions, revoked
-- claims, and when the next job is due. Never claims and never stores an answer.

-- Makes this backend a claimer: its name, held as a lock for as long as it is one.
create function _open_claimer(kind text) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    claimer text := format('%s:%s:%s', kind, pg_backend_pid(), _uuid_v7());
begin
    perform pg_advisory_lock(k.space, k.key) from _claimer_key(claimer) as k;
    perform _hold_claimer(k.space, k.key) from _claimer_key(claimer) as k;
    if kind = 'worker' then
        -- Its server may have been started with what was missing.
        delete from provider_cooldowns c where c.paused_reason is not null;
    end if;
    return claimer;
end
$$;

-- Locks those of these sessions that no other transaction has locked, nor the wallets of their owners; returns them,
-- and whether a wallet or a budget limits them. Sessions that are deleted are returned too: their claims will be found
-- gone.
create function _lock_sessions(ids uuid[]) returns table (session uuid, is_limited boolean)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    busy   text[] := _busy_wallets(ids);
    locked bigint;
begin
    return query
        select s.id,
               exists (select from wallets w where w.owner = s.owner)
               or exists (select from budgets b where b.session_id = s.id)
        from sessions s
        where s.id = any (ids) and s.owner <> all (busy)
        order by s.id
        for no key update of s skip locked;
    get diagnostics locked = row_count;
    if locked < cardinality(ids) then
        return query
            select gone.id, false from unnest(ids) as gone(id)
            where not exists (select from sessions s where s.id = gone.id);
    end if;
end
$$;

-- The claims among these that are no longer the jobs'.
create function _revoked(job_ids uuid[], claim_ids bigint[]) returns setof bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select held.claim_id
        from unnest(job_ids, claim_ids) as held(job_id, claim_id)
        where not exists (
            select from jobs j where j.id = held.job_id and j.claim_id = held.claim_id);
end
$$;

-- Seconds until the next job can be claimed, but for those in queues that are full: 0 when one is due, null when none
-- is coming.
create function _next_due(
    claimer text, with_test_jobs boolean, floor bigint, full_queues text[], excluded uuid[]
) returns double precision
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    next timestamptz;
begin
    if not with_test_jobs and get_config('worker_enabled') <> 'true' then
        return null;
    end if;
    select min(first.run_at) into next
    from (
        select l.name as queue, q.run_at
        from queues l
        cross join lateral (
            select r.run_at from ready_jobs r
            where not r.is_delayed and r.queue = l.name and r.is_test = l.is_test and r.priority = l.priority
              and r.queue_position >= floor and r.session_id <> all (excluded)
            order by r.queue_position
            limit 1) as q
        where (with_test_jobs or not l.is_test) and l.name <> all (full_queues)
        union all
        (select r.queue, r.run_at from ready_jobs r
         where r.is_delayed and (with_test_jobs or not r.is_test) and r.queue <> all (full_queues)
           and r.session_id <> all (excluded)
         order by r.run_at
         limit 100)
        union all
        -- A worker outside that lets its lease pass gives its jobs back.
        (select '', c.lease_until from claims c where c.lease_until is not null order by c.lease_until limit 1)
        union all
        -- Jobs that there is money for again, but whose session another transaction has locked, are tried again.
        (select '', _now() + interval '1 second' from unfunded_jobs u where u.is_due limit 1)
        union all
        -- And so are the claims of dead claimers.
        (select '', _now() + interval '1 second'
         from claimers c
         where c.name <> _next_due.claimer and _claimer_lock_id(c.name) <> all ((select _live_claimers())::text[])
         limit 1)
    ) as first;
    return case when next is not null then greatest(0, extract(epoch from next - _now())) end;
end
$$;

comment on procedure run_pending(integer) is
    'Works the queue in this connection until nothing is due within 30 seconds, or max_jobs are done; commits as it '
    'goes.';
