-- The clocks of providers: who may not be called now, why, and until when; and what a claimer knows of providers and models.
--
-- A provider that asks for patience is left alone until it says, one that keeps failing for longer each time and then tried with one
-- call, one that is configured wrongly until that is mended. Which job is charged for it is not decided here.

-- Every process that keeps a copy of these forgets it the moment one of them changes.
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
    returns table (model text, provider text, api text, base_url text, manner jsonb, secret text, api_model text, context_window bigint,
                   max_output_tokens bigint, settings jsonb, fallback text, model_concurrency integer, model_requests integer,
                   model_tokens integer, provider_concurrency integer, provider_requests integer, provider_tokens integer, tokenizer text,
                   factor double precision, samples integer)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select m.name, p.name, p.api, coalesce(p.base_url, ''), p.settings, s.reference, m.api_model, m.context_window::bigint,
               m.max_output_tokens::bigint, coalesce(p.settings -> 'model_defaults', '{}') || m.settings, m.fallback,
               m.max_concurrency, m.requests_per_minute, m.tokens_per_minute,
               p.max_concurrency, p.requests_per_minute, p.tokens_per_minute, m.tokenizer, r.factor, r.samples
        from _current_models m
        join _current_providers p on p.name = m.provider
        left join token_ratios r on r.model = m.name
        left join lateral (
            select r.reference from secrets r where r.provider = p.name order by r.is_shipped limit 1) as s on true;
end
$$;

-- The clocks as they stand: seconds until each is free, whether it is paused, whether it is tried with one call at a time.
create function _cooldowns() returns table (provider text, model text, rests double precision, is_paused boolean, is_tried boolean)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select c.provider, c.model, greatest(0, extract(epoch from c.free_at - _now()))::double precision, c.paused_reason is not null,
               c.failures >= _breaker_threshold()
        from provider_cooldowns c;
end
$$;

-- The models that have a clock: until when it keeps them, and whether their fallback answers meanwhile.
create view _model_clocks with (security_invoker) as
    select m.name as model, m.provider, max(c.free_at) as free_at, min(c.paused_reason) as paused_reason,
           min(c.model) filter (where c.paused_reason is not null) as paused_model, max(c.throttles) as throttles,
           max(c.failures) as failures,
           m.fallback is not null and (bool_or(c.paused_reason is not null) or max(c.failures) >= _breaker_threshold())
               and not exists (
                   select from _current_models f join provider_cooldowns other on other.provider = f.provider and other.model in ('', f.name)
                   where f.name = m.fallback and (other.paused_reason is not null or other.free_at > _now())) as is_stood_in_for
    from provider_cooldowns c
    join _current_models m on m.provider = c.provider and c.model in ('', m.name)
    group by m.name, m.provider, m.fallback;
comment on view _model_clocks is 'The models whose provider has a clock.';

-- Models that may not be called now, and for which none stands in.
create function _resting_models(moment timestamptz) returns text[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if not exists (select from provider_cooldowns) then
        return '{}';
    end if;
    return array(
        select c.model from _model_clocks c
        where (c.paused_reason is not null or c.free_at > moment) and not c.is_stood_in_for);
end
$$;

-- What these replies mean for the clocks of those who gave them. A reply that asks for patience is heard whether or not it was an
-- answer; a strike is a failure that the provider is to blame for.
create function _update_cooldowns(
    job_ids uuid[], claim_ids bigint[], answers text[], classes text[], messages text[], retry_after_ms bigint[],
    http_statuses integer[], scopes text[], strikes boolean[], moment timestamptz
) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    base double precision := (get_config('retry_base_seconds') #>> '{}')::double precision;
    most double precision := (get_config('retry_max_seconds') #>> '{}')::double precision;
begin
    insert into provider_cooldowns as c (provider, model, free_at, throttles, failures, paused_reason, changed_at)
    select h.provider, h.model,
           greatest(
               max(moment + make_interval(secs => h.retry_after_ms::double precision / 1000)) filter (where h.is_answer or h.class = 'throttled'),
               -- One that asks for no patience and throttles all the same gets some, and more each time.
               max(moment + make_interval(secs => least(most, 0.05 * 2 ^ least(coalesce(clock.throttles, 0), 20)))) filter (where h.is_throttled_again),
               max(moment + make_interval(secs => least(most, base * 2 ^ least(coalesce(clock.throttles, 0), 20))))
                   filter (where h.class = 'throttled' and h.retry_after_ms is null),
               moment + make_interval(secs => case when bool_or(h.is_answer) then null else _breaker_rest(
                   coalesce(max(clock.failures), 0) + (count(*) filter (where h.is_strike))::integer, base, most, random()) end)),
           case when bool_or(h.is_answer) then bool_or(h.is_throttled)::integer
                else coalesce(max(clock.throttles), 0)
                     + (bool_or(h.is_throttled and clock.provider is null) or bool_or(h.is_throttled_again))::integer end,
           case when bool_or(h.is_answer) then 0 else coalesce(max(clock.failures), 0) + count(*) filter (where h.is_strike) end,
           max(h.reason) filter (where h.class = 'configuration'),
           moment
    from (
        select coalesce(o.provider, m.provider) as provider,
               -- What was under way when the provider asked for patience says nothing new.
               r.class is not distinct from 'throttled' as is_throttled,
               r.class is not distinct from 'throttled' and coalesce(o.started_at > (
                   select k.changed_at from provider_cooldowns k where k.provider = coalesce(o.provider, m.provider) and k.model = ''), o.id is null)
                   as is_throttled_again,
               case when r.class = 'configuration' and r.scope = 'model' then coalesce(o.model, j.model) else '' end as model,
               r.answer is not null as is_answer, r.class, r.retry_after_ms,
               -- The words of a provider are for whoever called it: they may be his own.
               case when r.http_status is null then r.message
                    else format('it answered with status %s; the error_message of its calls says more', r.http_status) end as reason,
               coalesce(r.is_strike, false) as is_strike
        from unnest(job_ids, claim_ids, answers, classes, messages, retry_after_ms, http_statuses, scopes, strikes)
            as r(job_id, claim_id, answer, class, message, retry_after_ms, http_status, scope, is_strike)
        join jobs j on j.id = r.job_id
        left join model_calls o on o.job_id = r.job_id and o.claim_id = r.claim_id
        left join _current_models m on m.name = j.model
    ) as h
    left join provider_cooldowns clock on clock.provider = h.provider and clock.model = h.model
    where h.provider is not null
      -- One that was never failed and does not ask for anything needs no clock.
      and (h.class in ('throttled', 'configuration') or h.is_strike or (h.is_answer and (h.retry_after_ms is not null or clock.provider is not null)))
    group by h.provider, h.model
    order by h.provider, h.model
    on conflict on constraint provider_cooldowns_pkey do update
        set -- A circuit that is closed again no longer rests; what the provider asked for still holds.
            free_at = case when c.failures >= _breaker_threshold() and excluded.failures = 0 then excluded.free_at
                           else greatest(c.free_at, excluded.free_at) end,
            throttles = excluded.throttles, failures = excluded.failures,
            paused_reason = coalesce(excluded.paused_reason, c.paused_reason), changed_at = excluded.changed_at;
    -- Most are soon as if nothing had been.
    delete from provider_cooldowns c
    where c.throttles = 0 and c.failures = 0 and c.paused_reason is null and (c.free_at is null or c.free_at <= moment);
end
$$;
