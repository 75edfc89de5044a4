-- Holding and settling: what a call may cost at the worst is held before it leaves, and settled when it is closed.
--
-- Each happens in the transaction that opens or closes the call, so money and calls cannot come apart. What fits, and what is charged, the
-- core decides. What cannot be paid is paused and never failed. Nothing here calls a model.
--
-- Lock order: wallets by owner, then sessions, then the rest. A claimer that has sessions already only takes wallets that are free.

-- Locks those wallets of the owners of these sessions that nobody holds; returns the owners of the others.
create function _busy_wallets(session_ids uuid[]) returns text[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    owners text[];
    taken  text[];
begin
    if not exists (select from wallets) then
        return '{}';
    end if;
    owners := array(select distinct s.owner from sessions s where s.id = any (session_ids));
    taken := array(select w.owner from wallets w where w.owner = any (owners) order by w.owner for no key update skip locked);
    return array(select w.owner from wallets w where w.owner = any (owners) and w.owner <> all (taken));
end
$$;

-- Locks the wallets of the owners of these sessions, before the sessions are.
create function _lock_wallets(session_ids uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform from wallets w
    where w.owner in (select s.owner from sessions s where s.id = any (session_ids))
    order by w.owner
    for no key update;
end
$$;

-- Judges what calls of these models, with so many tokens to read and to write at the most, may cost: whether it is held, waits until calls
-- under way give back what they hold, or pauses, for only more money would help. One row for each of them, in their order, and no verdict where
-- the claim is gone or its call is open already. Holds nothing yet.
-- Under the locks of the sessions and their wallets; a wallet that was opened since cannot be overdrawn either, for it checks its balance.
create function _fund(job_ids uuid[], claim_ids bigint[], models text[], reads bigint[], writes bigint[])
    returns table (verdict text, amount bigint, payer text, purse text, waits_for text)
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        -- All it reads and may write, at the dearest price that can apply.
        with price as materialized (
            select distinct on (m.name) m.name, m.context_window, d.to_read, d.to_write
            from models m
            cross join lateral _dearest(_prices(m.name)) as d
            where m.name = any (models)
            order by m.name, m.is_shipped
        ),
        ask as materialized (
            select a.nth, j.id, w.owner, b.session_id, w.owner is not null or b.session_id is not null as is_limited, a.read is null as is_uncounted,
                   least(1000000000000000, ceil(coalesce(coalesce(a.read, p.context_window) * p.to_read + a.written * p.to_write, 0)))::bigint as worst
            from unnest(job_ids, claim_ids, models, reads, writes) with ordinality as a(job_id, claim_id, model, read, written, nth)
            left join jobs j on j.id = a.job_id and j.claim_id = a.claim_id
                and not exists (select from model_calls c where c.job_id = j.id and c.claim_id = j.claim_id)
            left join sessions s on s.id = j.session_id
            left join wallets w on w.owner = s.owner
            left join budgets b on b.session_id = s.id
            left join price p on p.name = a.model
            order by a.nth
        ),
        asked as materialized (
            select array_agg(a.worst) as worst, array_agg(a.owner) as owners, array_agg(a.session_id) as sessions from ask a
        ),
        wallet as materialized (
            select array_agg(w.owner) as owners, array_agg(w.balance) as balances, array_agg(w.held) as held
            from wallets w where w.owner in (select a.owner from ask a)
        ),
        budget as materialized (
            select array_agg(b.session_id) as sessions, array_agg(b.amount) as limits, array_agg(b.spent) as spent, array_agg(b.held) as held
            from budgets b where b.session_id in (select a.session_id from ask a)
        )
        select case when a.id is null then null
                    -- What was drafted before there was anything to limit it is drafted anew, and counted.
                    when a.is_uncounted and a.is_limited then 'uncounted'
                    else v.verdict end,
               case when a.is_limited then a.worst end, a.owner, v.purse,
               case v.purse when 'wallet' then a.owner when 'budget' then a.session_id::text end
        from asked
        cross join wallet
        cross join budget
        cross join lateral _admit(wallet.owners, wallet.balances, wallet.held, budget.sessions, budget.limits, budget.spent, budget.held,
                                  asked.worst, asked.owners, asked.sessions) with ordinality as v(verdict, purse, nth)
        join ask a on a.nth = v.nth
        order by a.nth;
end
$$;

-- Takes what these calls hold from the wallets of those who pay for them, where somebody does, and from the budgets they are under, as they are
-- opened.
create function _hold(calls uuid[], session_ids uuid[], payers text[], amounts bigint[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into ledger (owner, kind, amount, call_id, session_id)
    select c.payer, 'hold', -c.amount, c.id, c.session_id
    from unnest(calls, session_ids, payers, amounts) as c(id, session_id, payer, amount)
    where c.payer is not null;
    update wallets w
    set balance = w.balance - taken.amount, held = w.held + taken.amount
    from (select c.payer, sum(c.amount) as amount from unnest(payers, amounts) as c(payer, amount) group by c.payer) as taken
    where w.owner = taken.payer;
    update budgets b
    set held = b.held + taken.amount
    from (select c.session_id, sum(c.amount) as amount from unnest(session_ids, amounts) as c(session_id, amount) group by c.session_id) as taken
    where b.session_id = taken.session_id;
end
$$;

-- Pauses jobs whose calls cannot be paid; where they go back to they know from their claim.
create function _pause_unfunded(job_ids uuid[], needed bigint[], purses text[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into unfunded_jobs as u (job_id, session_id, owner, purse, needed)
    select j.id, s.id, s.owner, n.purse, n.needed
    from unnest(job_ids, _pause_unfunded.needed, purses) as n(job_id, needed, purse)
    join jobs j on j.id = n.job_id
    join sessions s on s.id = j.session_id
    on conflict on constraint unfunded_jobs_pkey do update
        set purse = excluded.purse, needed = excluded.needed, is_paused = false, is_due = false, created_at = excluded.created_at;
    update jobs j
    set status = 'paused_nsf', claim_id = null, claimed_by = null, lease_until = null
    where j.id = any (job_ids);
    -- Told once for a session, however many of its jobs follow.
    perform _notify(
        first.session_id, first.job_id, 'contribution_generation_paused_nsf', format('%s of %s waits for funds', first.step_key, first.model),
        (_want_of_funds(first.job)).problem, jsonb_build_object('purse', (first.job).purse, 'needed', (first.job).needed, 'jobs', first.jobs))
    from (
        select distinct on (u.session_id) u.session_id, u.job_id, j.step_key, j.model, u as job, count(*) over (partition by u.session_id) as jobs
        from unfunded_jobs u
        join jobs j on j.id = u.job_id
        where u.job_id = any (job_ids)
        order by u.session_id, u.needed desc) as first
    where not exists (
        select from unfunded_jobs u join jobs j on j.id = u.job_id and j.status = 'paused_nsf'
        where u.session_id = first.session_id and u.job_id <> all (job_ids));
end
$$;

-- Why a job is not paid for as things are now, and what would help, in words.
create function _want_of_funds(job unfunded_jobs, out problem text, out hint text)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    wallet  wallets;
    budget  budgets;
    lacks   text[] := '{}';
    helping text[] := '{}';
begin
    select w.* into wallet from wallets w where w.owner = job.owner and job.needed > w.balance + w.held;
    if found then
        lacks := lacks || format('the wallet of %s has %s', wallet.owner, _dollars(wallet.balance + wallet.held));
        helping := helping || format('dialectic.top_up(%L, %s, idempotency_key) or more (for admins)', wallet.owner,
                                     job.needed - wallet.balance - wallet.held);
    end if;
    select b.* into budget from budgets b where b.session_id = job.session_id and job.needed > b.amount - b.spent;
    if found then
        lacks := lacks || format('the budget of its session has %s left of %s', _dollars(greatest(budget.amount - budget.spent, 0)),
                                 _dollars(budget.amount));
        helping := helping || format('dialectic.set_budget(%L, %s) or more', job.session_id, budget.spent + job.needed);
    end if;
    if lacks = '{}' or job.is_paused then
        helping := helping || format('dialectic.resume(%L)', job.session_id);
    end if;
    problem := case when job.is_paused and lacks = '{}' then format('paused by a person: there is money for its call, which may cost %s', _dollars(job.needed))
                    else format('%sno funds: its call may cost %s and %s', case when job.is_paused then 'paused by a person, and ' else '' end,
                                _dollars(job.needed), coalesce(nullif(array_to_string(lacks, ', '), ''), 'there was less')) end;
    hint := array_to_string(helping, ' and ') || case cardinality(helping) when 1 then ' lets it go on' else ' let it go on' end
            || format('; dialectic.explain_total(%L) tells what all of the session is to cost', job.session_id);
end
$$;

-- Settles calls that were just closed: what they cost of what they held is charged, the rest comes back. Those among "known" were settled before, by
-- these estimates of their cost, and are corrected.
create function _settle(calls uuid[], known uuid[] default '{}', estimates bigint[] default '{}') returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    late    record;
    free    bigint;
    extra   bigint;
    payable uuid[] := '{}';
begin
    with closing as materialized (
        select c.id, c.session_id, c.payer, c.held is not null as is_held, coalesce(c.held, 0) as held, c.cost, _charged(coalesce(c.held, 0), c.cost) as charged
        from model_calls c
        where c.id = any (calls) and c.id <> all (known)
    ),
    entry as (
        insert into ledger (owner, kind, amount, call_id, session_id)
        select c.payer, 'settlement', c.held - c.charged, c.id, c.session_id from closing c where c.payer is not null
    ),
    purse as (
        update wallets w
        set balance = w.balance + back.amount, held = w.held - back.held
        from (select c.payer, sum(c.held - c.charged) as amount, sum(c.held) as held from closing c group by c.payer) as back
        where w.owner = back.payer
    ),
    excess as (
        update model_calls m set unbilled = c.cost - c.charged from closing c where m.id = c.id and c.is_held and c.cost > c.charged
    )
    update budgets b
    set held = b.held - back.held, spent = b.spent + back.cost
    from (select c.session_id, sum(c.held) as held, sum(c.cost) as cost from closing c group by c.session_id) as back
    where b.session_id = back.session_id;
    if known = '{}' then
        return;
    end if;

    for late in
        select c.id, c.session_id, c.held, c.cost, k.estimate, (select w.owner from wallets w where w.owner = c.payer) as payer,
               coalesce((select -sum(l.amount) from ledger l where l.call_id = c.id), _charged(c.held, k.estimate))::bigint as charged
        from unnest(known, estimates) as k(id, estimate)
        join model_calls c on c.id = k.id
    loop
        -- What it held was given back long ago: more is charged only as far as its wallet and its budget still have it. Where there is
        -- neither, nothing is short of it.
        free := least((select w.balance from wallets w where w.owner = late.payer),
                      (select greatest(b.amount - b.spent - b.held, 0) from budgets b where b.session_id = late.session_id));
        update budgets b set spent = b.spent + late.cost - late.estimate where b.session_id = late.session_id;
        payable := payable || _payable_by_budget(late.session_id);
        continue when late.held is null;
        extra := _corrected(late.held, late.charged, late.cost, coalesce(free, late.held));
        if late.payer is not null and extra <> 0 then
            insert into ledger (owner, kind, amount, call_id, session_id) values (late.payer, 'correction', -extra, late.id, late.session_id);
            update wallets w set balance = w.balance - extra where w.owner = late.payer;
        end if;
        update model_calls c set unbilled = greatest(late.cost - late.charged - extra, 0) where c.id = late.id;
        if extra < 0 and late.payer is not null then
            payable := payable || _payable_by_wallet(late.payer);
        end if;
    end loop;
    -- What came back may be enough for others.
    perform _set_going(payable);
end
$$;

-- Gives back all that these calls hold, whose jobs are gone already: nobody will ever know what they used.
create function _release(calls uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update model_calls c set outcome = 'lost', finished_at = _now(), cost = 0 where c.id = any (calls);
    perform _settle(calls);
end
$$;

-- Who deletes projects locks the wallets of their owners first, as everybody does: the sessions come after the wallets. Which sessions somebody
-- deletes by themselves is not known before they are locked, so then all wallets are that hold anything.
create function _lock_owning_wallets() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _lock_wallets(array(select s.id from sessions s where s.project_id = old.id));
    return old;
end
$$;
create trigger _lock_owning_wallets before delete on projects for each row execute function _lock_owning_wallets();

create function _lock_holding_wallets() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform from wallets w where w.held > 0 order by w.owner for no key update;
    return null;
end
$$;
create trigger _lock_holding_wallets before delete on sessions for each statement when (pg_trigger_depth() = 0)
    execute function _lock_holding_wallets();

-- A session takes its calls with it, and those under way are paid for as if their claimer had died: what they used is counted while there
-- is something left to count.
create function _settle_deleted() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _close_lost_calls(array(
        select c.id from jobs j join model_calls c on c.job_id = j.id where j.session_id = old.id and c.outcome = 'open' and c.held is not null), _now());
    return old;
end
$$;
create trigger _settle_deleted before delete on sessions for each row execute function _settle_deleted();
