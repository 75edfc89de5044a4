-- Imports models and prices from a list in the shape of LiteLLM's model_prices_and_context_window.json.
--
-- The list decides windows, limits and prices; settings that are stored here stay. Dollars per token become dollars per
-- million tokens, exactly. An entry that cannot be read is skipped with the reason and stops no other entry. Prices
-- that depend on the length of the input, the hour or the service tier are not read.

-- A number of an entry; null where there is none.
create function _listed_number(entry jsonb, key text) returns numeric
    language sql immutable
    return case jsonb_typeof(entry -> key) when 'number' then (entry ->> key)::numeric end;

-- A price of an entry, in USD per million tokens.
create function _listed_price(entry jsonb, key text) returns numeric
    language sql immutable
    return trim_scale(_listed_number(entry, key) * 1000000);

-- The name of a model in a list, without the name of its seller.
create function _listed_name(key text, entry jsonb) returns text
    language sql immutable
    return case when starts_with(key, (entry ->> 'litellm_provider') || '/')
                then substr(key, length(entry ->> 'litellm_provider') + 2) else key end;

-- Why an entry cannot become a model of this provider; null when it can.
create function _import_problem(entry jsonb, provider _current_providers) returns text
    language sql stable
    return case
        when jsonb_typeof(entry) <> 'object' then 'it is no object'
        when entry ->> 'litellm_provider' is null then 'it has no litellm_provider'
        when (provider).name is null then format('there is no provider "%s"', left(entry ->> 'litellm_provider', 40))
        when (provider).api = 'simulator' then 'its provider is a simulator'
        when entry ->> 'mode' is null then 'it has no mode'
        when entry ->> 'mode' not in ('chat', 'responses', 'embedding')
            then format('mode is "%s"', left(entry ->> 'mode', 40))
        when _listed_number(entry, 'max_input_tokens') is null then 'max_input_tokens is missing'
        when entry ->> 'mode' <> 'embedding' and _listed_number(entry, 'max_output_tokens') is null
            then 'max_output_tokens is missing'
        when _listed_number(entry, 'input_cost_per_token') is null then 'input_cost_per_token is missing'
        when entry ->> 'mode' <> 'embedding' and _listed_number(entry, 'output_cost_per_token') is null
            then 'output_cost_per_token is missing' end;

-- The settings of a model by its entry. Settings that the provider decides for all its models are left out: the list
-- says what a model can do, not what its server accepts.
create function _listed_settings(entry jsonb, provider _current_providers) returns jsonb
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'dialect', case when entry ->> 'mode' = 'responses' and provider.api = 'openai' then 'responses' end,
        'token_parameter', case when provider.api = 'openai' and provider.name <> 'openai' then 'max_tokens' end,
        'system_role', case when entry ->> 'mode' = 'chat' and entry -> 'supports_system_messages' = 'false'
                            then 'user' end,
        -- For Anthropic supports_response_schema means schemas of tools.
        'json', case when entry -> case provider.api when 'anthropic' then 'supports_native_structured_output'
                                                     else 'supports_response_schema' end = 'true' then 'schema' end,
        'sampling', case when entry -> 'supports_sampling_params' = 'false'
                           or (provider.name = 'openai' and entry -> 'supports_reasoning' = 'true')
                         then '[]'::jsonb end))
           - array(select jsonb_object_keys(coalesce(provider.settings -> 'model_defaults', '{}')))
    where entry ->> 'mode' <> 'embedding'
$$;

-- The model that an entry describes. The list puts the name of the seller before the name of many models. A model whose
-- answer could fill its window keeps three quarters of it for the input.
create function _listed_model(key text, entry jsonb, provider _current_providers, old _current_models)
    returns _current_models
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    new    _current_models := old;
    output numeric := _listed_number(entry, 'max_output_tokens');
begin
    new.api_model := _listed_name(key, entry);
    new.name := new.api_model;
    new.provider := provider.name;
    new.kind := case entry ->> 'mode' when 'embedding' then 'embedding' else 'chat' end;
    new.context_window := _listed_number(entry, 'max_input_tokens');
    new.max_output_tokens := case when new.kind = 'embedding' then 1
                                  when output >= new.context_window then greatest(1, new.context_window / 4)
                                  else output end;
    new.input_price := _listed_price(entry, 'input_cost_per_token');
    new.output_price := coalesce(_listed_price(entry, 'output_cost_per_token'), 0);
    new.cached_price := _listed_price(entry, 'cache_read_input_token_cost');
    new.cache_write_price := _listed_price(entry, 'cache_creation_input_token_cost');
    new.reasoning_price := _listed_price(entry, 'output_cost_per_reasoning_token');
    new.settings := coalesce(_listed_settings(entry, provider), '{}') || coalesce(old.settings, '{}');
    return new;
end
$$;

-- Adds or changes the model of an entry. The action is what was done, or 'skipped: ' and the reason.
create function _import_model(key text, entry jsonb, provider _current_providers, out model text, out action text)
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    problem text := _import_problem(entry, provider);
    old     _current_models;
    new     _current_models;
begin
    model := key;
    if problem is null then
        select m.* into old from _current_models m where m.name = _listed_name(key, entry);
        if old.provider <> provider.name then
            problem := format('a model of this name is at provider "%s"', old.provider);
        end if;
    end if;
    if problem is not null then
        action := 'skipped: ' || problem;
        return;
    end if;
    model := _listed_name(key, entry);
    new := _listed_model(key, entry, provider, old);
    if new is not distinct from old then
        action := 'unchanged';
        return;
    end if;
    perform add_model(new.name, new.provider, new.api_model, new.context_window, new.max_output_tokens,
                      new.tokenizer, new.input_price, new.output_price, new.settings, new.cached_price,
                      new.cache_write_price, new.reasoning_price, new.max_concurrency, new.requests_per_minute,
                      new.tokens_per_minute, new.fallback, new.kind);
    action := case when old.name is null then 'added' else 'changed' end;
exception
    when data_exception or undefined_object then
        get stacked diagnostics problem = message_text;
        action := 'skipped: ' || problem;
end
$$;

create function import_models(price_list jsonb, provider text default null) returns table (model text, action text)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    -- Providers that have another name in the list.
    ours   constant jsonb := '{"gemini": "google"}';
    listed record;
    seller _current_providers;
begin
    if jsonb_typeof(price_list) is distinct from 'object' then
        raise exception 'a price list must be an object'
            using errcode = 'invalid_parameter_value',
                  detail = format('price_list is %s.', coalesce('of type ' || jsonb_typeof(price_list), 'null')),
                  hint = 'Give {"model": {"litellm_provider", "mode", "max_input_tokens", "max_output_tokens", '
                         '"input_cost_per_token", "output_cost_per_token", …}}.';
    end if;
    if import_models.provider is not null
        and not exists (select from _current_providers p where p.name = import_models.provider) then
        raise exception 'provider "%" does not exist', import_models.provider
            using errcode = 'undefined_object', hint = 'Add it with dialectic.add_provider(…) first.';
    end if;
    for listed in
        select e.key, e.value as entry, e.value ->> 'litellm_provider' as seller
        from jsonb_each(price_list) as e
        order by e.key collate "C"
    loop
        select p.* into seller
        from _current_providers p
        where p.name = coalesce(ours ->> listed.seller, listed.seller);
        continue when import_models.provider is not null and seller.name is distinct from import_models.provider;
        select i.model, i.action into model, action from _import_model(listed.key, listed.entry, seller) as i;
        return next;
    end loop;
end
$$;
comment on function import_models(jsonb, text) is
    'Adds and changes models by a price list in the shape of LiteLLM''s: of every provider that is known here, or of '
    'one; says of each entry what became of it.';
