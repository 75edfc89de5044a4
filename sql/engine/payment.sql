-- Payment: what a call may cost at the worst is held before it leaves, and settled when it is closed.
--
-- Each happens in the transaction that opens or closes the call, so money and calls cannot come apart. The core decides
-- which calls are funded and what each is charged; here the facts are read and the results written. A call whose job is
-- deleted is released in full. What cannot be paid is paused and never failed. Nothing here calls a model.
--
-- Lock order: wallets by owner, then sessions, then the rest. A claimer with locked sessions locks only free wallets.

-- A call that a wallet or a budget limits, with the most tokens it may read and write.
create type _call_estimate as (job_id uuid, claim_id bigint, model text, input_tokens bigint, output_tokens bigint);

-- How a call is settled: what goes back to the wallet (less than zero is charged), what is no longer held, what counts
-- as spent of the budget, and what nobody paid (null leaves it as it is).
create type _settlement as (
    call_id    uuid,
    session_id uuid,
    payer      text,
    -- The kind of the ledger entry: settlement, or correction of one.
    kind       text,
    refund     bigint,
    released   bigint,
    spent      bigint,
    unbilled   bigint
);

-- A job whose call cannot be paid.
create type _unfunded_job as (job_id uuid, short_of text, needed bigint);

-- Locks those wallets of the owners of these sessions that are free; returns the owners of the others.
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
    taken := array(
        select w.owner from wallets w where w.owner = any (owners) order by w.owner for no key update skip locked);
    return array(select w.owner from wallets w where w.owner = any (owners) and w.owner <> all (taken));
end
$$;

-- Locks the wallets of the owners of these sessions, before the sessions.
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

-- What limits these calls, in their order: the wallet of the owner and the budget of the session, where there are any,
-- and what each call may cost at the dearest price that can apply. A call whose claim is revoked, or that is open
-- already, is left out. The caller has locked the sessions and their wallets; a wallet that was opened since cannot be
-- overdrawn either, because it checks its balance.
create function _funding_facts(calls _call_estimate[]) returns table (
    job_id uuid, is_counted boolean, worst_cost bigint, owner text, balance bigint, held_by_wallet bigint,
    budget_session uuid, budget bigint, spent bigint, held_by_budget bigint
)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        with price as materialized (
            select distinct on (m.name) m.name, m.context_window, d.to_read, d.to_write
            from models m
            cross join lateral _dearest(_prices(m.name)) as d
            where m.name in (select c.model from unnest(calls) as c)
            order by m.name, m.is_shipped
        )
        select j.id, c.input_tokens is not null,
               least(1000000000000000, ceil(coalesce(coalesce(c.input_tokens, p.context_window) * p.to_read
                                                     + c.output_tokens * p.to_write, 0)))::bigint,
               w.owner, w.balance, w.held, b.session_id, b.amount, b.spent, b.held
        from rows from (unnest(calls)) with ordinality
            as c(job_id, claim_id, model, input_tokens, output_tokens, nth)
        join jobs j on j.id = c.job_id and j.claim_id = c.claim_id
        join sessions s on s.id = j.session_id
        left join wallets w on w.owner = s.owner
        left join budgets b on b.session_id = s.id
        left join price p on p.name = c.model
        where not exists (select from model_calls o where o.job_id = j.id and o.claim_id = j.claim_id)
        order by c.nth;
end
$$;

-- Holds what these calls may cost: in the wallets of those who pay for them, and in the budgets of their sessions.
create function _hold_money(calls model_calls[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if not exists (select from unnest(calls) as c where c.held is not null) then
        return;
    end if;
    insert into ledger (owner, kind, amount, call_id, session_id)
    select c.payer, 'hold', -c.held, c.id, c.session_id
    from unnest(calls) as c
    where c.payer is not null;
    update wallets w
    set balance = w.balance - taken.amount, held = w.held + taken.amount
    from (select c.payer, sum(c.held) as amount from unnest(calls) as c group by c.payer) as taken
    where w.owner = taken.payer;
    update budgets b
    set held = b.held + taken.amount
    from (select c.session_id, sum(c.held) as amount from unnest(calls) as c group by c.session_id) as taken
    where b.session_id = taken.session_id and taken.amount is not null;
end
$$;

-- Pauses jobs whose calls cannot be paid. Its owner is notified once for a session, however many of its jobs follow.
create function _pause_unfunded(unpaid _unfunded_job[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    ids uuid[] := array(select n.job_id from unnest(unpaid) as n);
begin
    insert into unfunded_jobs as u (job_id, session_id, owner, short_of, needed)
    select j.id, s.id, s.owner, n.short_of, n.needed
    from unnest(unpaid) as n
    join jobs j on j.id = n.job_id
    join sessions s on s.id = j.session_id
    on conflict on constraint unfunded_jobs_pkey do update
        set short_of = excluded.short_of, needed = excluded.needed, is_paused = false, is_due = false,
            created_at = excluded.created_at;
    update jobs j
    set status = 'paused_nsf', claim_id = null, claimed_by = null, lease_until = null
    where j.id = any (ids);
    perform _notify(
        first.session_id, first.job_id, 'contribution_generation_paused_nsf',
        format('%s of %s waits for funds', first.step_key, first.model), (_want_of_funds(first.job)).problem,
        jsonb_build_object('short_of', (first.job).short_of, 'needed', (first.job).needed, 'jobs', first.jobs))
    from (
        select distinct on (u.session_id) u.session_id, u.job_id, j.step_key, j.model, u as job,
               count(*) over (partition by u.session_id) as jobs
        from unfunded_jobs u
        join jobs j on j.id = u.job_id
        where u.job_id = any (ids)
        order by u.session_id, u.needed desc) as first
    where not exists (
        select from unfunded_jobs u join jobs j on j.id = u.job_id and j.status = 'paused_nsf'
        where u.session_id = first.session_id and u.job_id <> all (ids));
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
    select w.* into wallet from wallets w where w.owner = job.owner and job.needed > _wallet_reserve(w);
    if found then
        lacks := lacks || format('the wallet of %s has %s', wallet.owner, _dollars(_wallet_reserve(wallet)));
        helping := helping || format('dialectic.top_up(%L, %s, idempotency_key) or more (for admins)', wallet.owner,
                                     job.needed - _wallet_reserve(wallet));
    end if;
    select b.* into budget from budgets b where b.session_id = job.session_id and job.needed > _budget_reserve(b);
    if found then
        lacks := lacks || format('the budget of its session has %s left of %s',
                                 _dollars(greatest(_budget_reserve(budget), 0)), _dollars(budget.amount));
        helping := helping || format('dialectic.set_budget(%L, %s) or more', job.session_id, budget.spent + job.needed);
    end if;
    if lacks = '{}' or job.is_paused then
        helping := helping || format('dialectic.resume(%L)', job.session_id);
    end if;
    if job.is_paused and lacks = '{}' then
        problem := format('paused by a person: there is money for its call, which may cost %s', _dollars(job.needed));
    else
        problem := format('%sno funds: its call may cost %s and %s',
                          case when job.is_paused then 'paused by a person, and ' else '' end, _dollars(job.needed),
                          coalesce(nullif(array_to_string(lacks, ', '), ''), 'there was less'));
    end if;
    hint := array_to_string(helping, ' and ')
            || case cardinality(helping) when 1 then ' lets it go on' else ' let it go on' end
            || format('; dialectic.explain_total(%L) tells what all of the session is to cost', job.session_id);
end
$$;

-- Settles calls that were just closed.
create function _settle_calls(settlements _settlement[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    with entry as (
        insert into ledger (owner, kind, amount, call_id, session_id)
        select s.payer, s.kind, s.refund, s.call_id, s.session_id
        from unnest(settlements) as s
        where s.payer is not null and (s.kind = 'settlement' or s.refund <> 0)
    ),
    wallet as (
        update wallets w
        set balance = w.balance + back.refund, held = w.held - back.released
        from (select s.payer, sum(s.refund) as refund, sum(s.released) as released
              from unnest(settlements) as s group by s.payer) as back
        where w.owner = back.payer
    ),
    excess as (
        update model_calls c set unbilled = s.unbilled
        from unnest(settlements) as s
        where c.id = s.call_id and s.unbilled is not null
    )
    update budgets b
    set held = b.held - back.released, spent = b.spent + back.spent
    from (select s.session_id, sum(s.released) as released, sum(s.spent) as spent
          from unnest(settlements) as s group by s.session_id) as back
    where b.session_id = back.session_id;
    -- A correction may leave enough for jobs that were paused.
    if exists (select from unnest(settlements) as s where s.kind = 'correction') then
        perform _set_going(
            array(select unnest(_payable_by_budget(s.session_id))
                  from unnest(settlements) as s where s.kind = 'correction')
            || array(select unnest(_payable_by_wallet(s.payer))
                     from unnest(settlements) as s where s.kind = 'correction' and s.refund > 0));
    end if;
end
$$;

-- Releases all that these calls hold: their jobs are deleted, so nothing of what they used can be counted any more.
create function _release_money(calls uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update model_calls c set outcome = 'lost', finished_at = _now(), cost = 0 where c.id = any (calls);
    perform _settle_calls(array(
        select (c.id, c.session_id, c.payer, 'settlement', c.held, c.held, 0, null)::_settlement
        from model_calls c where c.id = any (calls)));
end
$$;

-- A DELETE of projects locks the wallets of their owners first, because sessions are locked after wallets. Which
-- sessions a DELETE of sessions finds is not known before they are locked, so it locks every wallet that holds
-- anything.
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

-- A deleted session takes its calls with it. Calls in flight are settled as if their claimer had died, while there is
-- something left to count.
create function _settle_deleted() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _settle_lost_calls(array(
        select c.id from jobs j join model_calls c on c.job_id = j.id
        where j.session_id = old.id and c.outcome = 'open' and c.held is not null));
    return old;
end
$$;
create trigger _settle_deleted before delete on sessions for each row execute function _settle_deleted();
