-- Calls that ended: what they consumed and cost, and what is known of the job that each was made for.
--
-- Every call that came back is closed and costed, in time or not; one that was closed as lost is closed again. Decides
-- nothing that follows from it: the core decides what is charged, what becomes of the job and of its provider.

-- How a call ended, or a job that no call was made for.
create type _call_end as (
    job_id             uuid,
    claim_id           bigint,
    error_class        text,
    error_message      text,
    finish_reason      text,
    finish_reason_raw  text,
    http_status        integer,
    first_byte_ms_ago  bigint,
    input_tokens       bigint,
    output_tokens      bigint,
    cached_tokens      bigint,
    cache_write_tokens bigint,
    reasoning_tokens   bigint,
    is_estimated       boolean
);

-- A call whose claimer died, with what it consumed as far as that can be counted.
create type _lost_call as (call_id uuid, input_tokens bigint, output_tokens bigint);

-- What settling a call depends on. A call that was settled before, as lost, has the estimate of its cost from then.
create type _closed_call as (
    call_id     uuid,
    session_id  uuid,
    -- Null where no wallet paid, or the wallet is closed since.
    payer       text,
    held        bigint,
    cost        bigint,
    estimate    bigint,
    -- What the ledger says was charged before.
    charged     bigint,
    balance     bigint,
    budget_left bigint
);

-- Locks the sessions of these jobs, and the wallets of their owners before, so that no claim changes; returns the jobs
-- that are still claimed under these claims. A claim is drawn once: a job that has it is running for it.
create function _lock_claims(job_ids uuid[], claim_ids bigint[]) returns uuid[]
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if exists (select from wallets) then
        perform _lock_wallets(array(select j.session_id from jobs j where j.id = any (job_ids)));
    end if;
    perform from sessions s
    where s.id in (select j.session_id from jobs j where j.id = any (job_ids))
    order by s.id
    for no key update;
    return array(
        select j.id
        from unnest(job_ids, claim_ids) as r(job_id, claim_id)
        join jobs j on j.id = r.job_id and j.claim_id = r.claim_id);
end
$$;

-- Closes calls; one row for each end, in their order. The job of a claim that was revoked is not current.
create function _close_calls(ends _call_end[]) returns table (
    is_current boolean, claimed_from text, attempt_count integer, max_retries integer, has_cooldowns boolean,
    is_limited boolean, is_deleted boolean, closed _closed_call
)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment     timestamptz := _now();
    locked     uuid[] := _lock_claims(array(select e.job_id from unnest(ends) as e),
                                      array(select e.claim_id from unnest(ends) as e));
    -- Read under the locks: a budget may just have been set.
    limited    boolean := exists (select from wallets) or exists (select from budgets);
begin
    return query
        with call_end as materialized (
            select e.*, j.claim_id is not null as is_current, j.status_before, j.attempt_count, j.max_retries
            from rows from (unnest(ends)) with ordinality as e(
                job_id, claim_id, error_class, error_message, finish_reason, finish_reason_raw, http_status,
                first_byte_ms_ago, input_tokens, output_tokens, cached_tokens, cache_write_tokens, reasoning_tokens,
                is_estimated, nth)
            left join jobs j on j.id = e.job_id and j.claim_id = e.claim_id and j.id = any (locked)
        ),
        -- In the snapshot of this statement: the row as it was before it is closed again.
        lost as materialized (
            select c.id, c.cost as estimate
            from call_end e
            join model_calls c on c.job_id = e.job_id and c.claim_id = e.claim_id
            where limited and c.outcome = 'lost'
        ),
        closed_call as (
            update model_calls c
            set outcome = case when not e.is_current then 'late' when e.error_class is not null then 'failed'
                               else 'answered' end,
                first_byte_at = moment - make_interval(secs => e.first_byte_ms_ago::double precision / 1000),
                finished_at = moment, http_status = e.http_status, error_class = e.error_class,
                error_message = left(e.error_message, 4000), finish_reason = e.finish_reason,
                finish_reason_raw = left(e.finish_reason_raw, 200), input_tokens = e.input_tokens,
                output_tokens = e.output_tokens, cached_tokens = e.cached_tokens,
                cache_write_tokens = e.cache_write_tokens, reasoning_tokens = e.reasoning_tokens,
                is_estimated = e.is_estimated,
                cost = _cost(c.prices, e.input_tokens, e.cached_tokens, e.cache_write_tokens, e.output_tokens,
                             e.reasoning_tokens)
            from call_end e
            where c.job_id = e.job_id and c.claim_id = e.claim_id and c.outcome in ('open', 'lost')
            returning c.id, c.session_id, c.payer, c.held, c.cost, e.nth
        )
        select e.is_current, e.status_before, e.attempt_count, e.max_retries,
               exists (select from provider_cooldowns), limited,
               exists (select from deleted_calls d where d.job_id = e.job_id and d.claim_id = e.claim_id),
               case when c.id is not null
                    then _settlement_facts(c.id, c.session_id, c.payer, c.held, c.cost, lost.estimate) end
        from call_end e
        left join closed_call c on c.nth = e.nth
        left join lost on lost.id = c.id
        order by e.nth;
end
$$;

-- A closed call with what a correction of its settlement depends on; an estimate is known only of calls that were lost.
create function _settlement_facts(
    call_id uuid, session_id uuid, payer text, held bigint, cost bigint, estimate bigint
) returns _closed_call
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    wallet wallets;
begin
    if estimate is null then
        return (call_id, session_id, payer, held, cost, null, null, null, null)::_closed_call;
    end if;
    select w.* into wallet from wallets w where w.owner = payer;
    return (call_id, session_id, wallet.owner, held, cost, estimate,
            (select -sum(l.amount) from ledger l where l.call_id = _settlement_facts.call_id)::bigint, wallet.balance,
            (select greatest(b.amount - b.spent - b.held, 0) from budgets b
             where b.session_id = _settlement_facts.session_id))::_closed_call;
end
$$;

-- Closes calls whose claimer died, at the tokens that were counted. A call may not have left at all; it is paid for all
-- the same, because the provider may have answered it.
create function _close_lost_calls(lost _lost_call[]) returns setof _closed_call
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        update model_calls c
        set outcome = 'lost', finished_at = _now(), error_class = 'transient',
            error_message = 'the claimer died during the call', is_estimated = true, input_tokens = l.input_tokens,
            output_tokens = l.output_tokens, cached_tokens = 0, cache_write_tokens = 0, reasoning_tokens = 0,
            cost = _cost(c.prices, l.input_tokens, 0, 0, l.output_tokens, 0)
        from unnest(lost) as l
        where c.id = l.call_id
        returning c.id, c.session_id, c.payer, c.held, c.cost, null::bigint, null::bigint, null::bigint, null::bigint;
end
$$;

-- Answers of deleted calls: the roll-up gets what they used instead of what was estimated. Where the row of the call
-- is still there, what was charged for it has been corrected; otherwise the charge stands.
create function _add_late_usage(ends _call_end[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
begin
    with late as (
        delete from deleted_calls d
        using unnest(ends) as e
        where d.job_id = e.job_id and d.claim_id = e.claim_id
        returning d.*, e.input_tokens as read, e.output_tokens as written, e.cached_tokens as cached,
                  e.cache_write_tokens as cache_write, e.reasoning_tokens as reasoning
    ),
    priced as (
        select l.*, _cost(l.prices, l.read, l.cached, l.cache_write, l.written, l.reasoning) as true_cost,
               (select c.unbilled from model_calls c where c.job_id = l.job_id and c.claim_id = l.claim_id) as corrected
        from late l
    )
    insert into usage_history (owner, day, stage, model, calls, failed_calls, input_tokens, cached_tokens,
                               cache_write_tokens, output_tokens, reasoning_tokens, cost, unbilled, latencies)
    select p.owner, (p.started_at at time zone 'UTC')::date, p.stage, p.model, 0, -(p.is_failed::integer),
           p.read - p.input_tokens, p.cached, p.cache_write, p.written - p.output_tokens, p.reasoning,
           p.true_cost - p.cost,
           case when p.is_limited
                then coalesce(p.corrected, greatest(p.true_cost - (p.cost - p.unbilled), 0)) - p.unbilled else 0 end,
           case when p.is_failed then '{}' else _count_buckets(array[_latency_bucket(moment - p.started_at)]) end
    from priced p;
end
$$;
