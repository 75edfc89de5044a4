-- Cooldowns of providers: which are not called now, why, and until when; and the catalog that a claimer caches.
--
-- The core decides how long a provider is not called, and which model answers meanwhile; here both are stored and
-- shown.

-- Every process that caches one of these tables is told the moment one of them changes.
create function _forget_copies() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _catalog_changed(tg_relid);
    return null;
end
$$;
do $$
declare
    kept text;
begin
    foreach kept in array array['configuration', 'providers', 'models', 'secrets', 'provider_cooldowns'] loop
        execute format('create trigger _forget_copies after insert or update or delete or truncate on %I
                            for each statement execute function _forget_copies()', kept);
        -- Copies are also outdated by rows that replication brings; triggers that queue work do not fire for those.
        execute format('alter table %I enable always trigger _forget_copies', kept);
    end loop;
end
$$;

-- What a claimer has to know of every model: where it is called, how, and within which limits.
create function _catalog()
    returns table (model text, provider text, api text, base_url text, manner jsonb, secret text, api_model text,
                   context_window bigint, max_output_tokens bigint, settings jsonb, fallback text,
                   model_concurrency integer, model_requests integer, model_tokens integer,
                   provider_concurrency integer, provider_requests integer, provider_tokens integer, tokenizer text,
                   factor double precision, samples integer, is_chat boolean)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select m.name, p.name, p.api, coalesce(p.base_url, ''), p.settings, s.reference, m.api_model,
               m.context_window::bigint, m.max_output_tokens::bigint,
               coalesce(p.settings -> 'model_defaults', '{}') || m.settings, m.fallback,
               m.max_concurrency, m.requests_per_minute, m.tokens_per_minute,
               p.max_concurrency, p.requests_per_minute, p.tokens_per_minute, m.tokenizer, r.factor, r.samples,
               m.kind = 'chat'
        from _current_models m
        join _current_providers p on p.name = m.provider
        left join token_ratios r on r.model = m.name
        left join lateral (
            select r.reference from secrets r where r.provider = p.name order by r.is_shipped limit 1) as s on true;
end
$$;

-- The failures in a row that open a circuit. A body that is a constant is inlined, so no statement calls Rust for it.
do $$
begin
    execute format(
        'create function _breaker_threshold() returns integer language sql immutable parallel safe return %s',
        _core_breaker_threshold());
end
$$;

-- The cooldowns as they stand: seconds until each ends, whether it is a pause, whether the circuit is open.
create function _cooldowns()
    returns table (provider text, model text, seconds double precision, is_paused boolean, has_open_circuit boolean)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select c.provider, c.model, greatest(0, extract(epoch from c.free_at - _now()))::double precision,
               c.paused_reason is not null, c.failures >= _breaker_threshold()
        from provider_cooldowns c;
end
$$;

-- What the cooldowns of a provider mean for each of its models, and for the fallback of the model.
create view _model_cooldowns with (security_invoker) as
    select m.name as model, m.provider, max(c.free_at) as free_at, min(c.paused_reason) as paused_reason,
           min(c.model) filter (where c.paused_reason is not null) as paused_model, max(c.throttles) as throttles,
           max(c.failures) as failures, m.fallback
    from provider_cooldowns c
    join _current_models m on m.provider = c.provider and c.model in ('', m.name)
    group by m.name, m.provider, m.fallback;
comment on view _model_cooldowns is 'The models whose provider, or who themselves, have a cooldown.';

-- The models that no call is made for now, with the cause: their own cooldown, or that of the fallback which answers
-- for them. For blocked, health() and claim_jobs; a claimer inside the server knows its closed queues itself.
create view _closed_models with (security_invoker) as
    select own.model, closing.*
    from _model_cooldowns own
    left join _model_cooldowns other on other.model = own.fallback
    cross join lateral (
        select case when _has_fallback(
                        own.paused_reason is not null, own.failures >= _breaker_threshold(), own.free_at > _now(),
                        own.fallback is not null, coalesce(other.paused_reason is not null, false),
                        coalesce(other.failures >= _breaker_threshold(), false),
                        coalesce(other.free_at > _now(), false))
                    then other else own end as cooldown) as answering
    cross join lateral (
        select (answering.cooldown).provider, (answering.cooldown).free_at, (answering.cooldown).paused_reason,
               (answering.cooldown).paused_model, (answering.cooldown).throttles, (answering.cooldown).failures)
        as closing
    where closing.paused_reason is not null or closing.free_at > _now();
comment on view _closed_models is 'The models that no call is made for now, and why.';

-- What replies to these claims concern: the provider and the model that were called, what is stored of both, and
-- whether the call began after the cooldown of its provider was last changed. One row for each claim, in their order.
create function _cooldown_facts(job_ids uuid[], claim_ids bigint[]) returns table (
    provider text, model text, is_news boolean, throttles integer, failures integer, model_throttles integer,
    model_failures integer
)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select called.provider, called.model,
               coalesce(o.started_at > shared.changed_at, o.id is null),
               shared.throttles, shared.failures, own.throttles, own.failures
        from unnest(job_ids, claim_ids) with ordinality as r(job_id, claim_id, nth)
        left join jobs j on j.id = r.job_id
        left join model_calls o on o.job_id = r.job_id and o.claim_id = r.claim_id
        left join _current_models m on m.name = j.model
        cross join lateral (
            select coalesce(o.provider, m.provider) as provider, coalesce(o.model, j.model) as model) as called
        left join provider_cooldowns shared on shared.provider = called.provider and shared.model = ''
        left join provider_cooldowns own on own.provider = called.provider and own.model = called.model
        order by r.nth;
end
$$;

-- A cooldown as it is to be; the model is empty for all models of the provider.
create type _cooldown as (
    provider      text,
    model         text,
    free_after    double precision,
    -- Whether an earlier pause ends.
    ends_pause    boolean,
    throttles     integer,
    failures      integer,
    -- Null leaves an earlier reason as it is.
    paused_reason text
);

-- Stores cooldowns. A pause that a provider asked for still holds when a later one is shorter.
create function _set_cooldowns(changes _cooldown[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
begin
    insert into provider_cooldowns as c (
        provider, model, free_at, throttles, failures, paused_reason, changed_at)
    select n.provider, n.model, moment + make_interval(secs => n.free_after), n.throttles, n.failures, n.paused_reason,
           moment
    from unnest(changes) as n
    order by n.provider, n.model
    on conflict on constraint provider_cooldowns_pkey do update
        set free_at = case when (select n.ends_pause from unnest(changes) as n
                                 where n.provider = c.provider and n.model = c.model) then excluded.free_at
                           else greatest(c.free_at, excluded.free_at) end,
            throttles = excluded.throttles, failures = excluded.failures,
            paused_reason = coalesce(excluded.paused_reason, c.paused_reason), changed_at = excluded.changed_at;
    delete from provider_cooldowns c
    where c.throttles = 0 and c.failures = 0 and c.paused_reason is null and (c.free_at is null or c.free_at <= moment);
end
$$;

-- The backoff of retries, cooldowns and circuits.
create function _retry_settings(out base_seconds double precision, out max_seconds double precision)
    language plpgsql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    base_seconds := (get_config('retry_base_seconds') #>> '{}')::double precision;
    max_seconds := (get_config('retry_max_seconds') #>> '{}')::double precision;
end
$$;
