-- Models and prices from a list in the shape of LiteLLM's model_prices_and_context_window.json.
--
-- The list decides windows, limits and prices; what is known here of how a model is spoken to stays. Dollars per token become
-- dollars per million tokens, exactly. An entry that cannot be read is skipped and says why; none stops the others. Prices
-- that depend on the length of the input, the hour or the service tier are not read: the plain ones count.

-- A number of an entry; null where there is none or something else.
create function _listed(entry jsonb, key text) returns numeric
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case jsonb_typeof(entry -> key) when 'number' then (entry ->> key)::numeric end
$$;

-- A price of an entry, in USD per million tokens.
create function _listed_price(entry jsonb, key text) returns numeric
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select trim_scale(_listed(entry, key) * 1000000)
$$;

-- Why an entry cannot become a model; null when it can.
create function _why_not_listed(entry jsonb) returns text
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case
        when entry ->> 'mode' is null then 'it has no mode'
        when entry ->> 'mode' not in ('chat', 'responses', 'embedding') then format('mode is "%s"', left(entry ->> 'mode', 40))
        when _listed(entry, 'max_input_tokens') is null then 'max_input_tokens is missing'
        when entry ->> 'mode' <> 'embedding' and _listed(entry, 'max_output_tokens') is null then 'max_output_tokens is missing'
        when _listed(entry, 'input_cost_per_token') is null then 'input_cost_per_token is missing'
        when entry ->> 'mode' <> 'embedding' and _listed(entry, 'output_cost_per_token') is null then 'output_cost_per_token is missing'
    end
$$;

-- What an entry says about how its model is called. What the provider decides for all its models is left to it: the
-- list says what a model can do, not what its server accepts.
create function _listed_settings(entry jsonb, provider _current_providers) returns jsonb
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'dialect', case when entry ->> 'mode' = 'responses' and provider.api = 'openai' then 'responses' end,
        'token_parameter', case when provider.api = 'openai' and provider.name <> 'openai' then 'max_tokens' end,
        'system_role', case when entry ->> 'mode' = 'chat' and entry -> 'supports_system_messages' = 'false' then 'user' end,
        -- Anthropic's models had schemas by way of tools before they had them by themselves.
        'json', case when entry -> case provider.api when 'anthropic' then 'supports_native_structured_output'
                                                     else 'supports_response_schema' end = 'true' then 'schema' end,
        'sampling', case when entry -> 'supports_sampling_params' = 'false'
                           or (provider.name = 'openai' and entry -> 'supports_reasoning' = 'true') then '[]'::jsonb end))
           - array(select jsonb_object_keys(coalesce(provider.settings -> 'model_defaults', '{}')))
    where entry ->> 'mode' <> 'embedding'
$$;

create function import_models(price_list jsonb, provider text default null) returns table (model text, action text)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
#variable_conflict use_column
declare
    ours     constant jsonb := '{"gemini": "google"}';
    listed   record;
    owner    _current_providers;
    old      _current_models;
    new      _current_models;
    problem  text;
begin
    if jsonb_typeof(price_list) is distinct from 'object' then
        raise exception 'a price list must be an object'
            using errcode = 'invalid_parameter_value',
                  detail = format('price_list is %s.', coalesce('of type ' || jsonb_typeof(price_list), 'null')),
                  hint = 'Give {"model": {"litellm_provider", "mode", "max_input_tokens", "max_output_tokens", "input_cost_per_token", "output_cost_per_token", …}}.';
    end if;
    if import_models.provider is not null and not exists (select from _current_providers p where p.name = import_models.provider) then
        raise exception 'provider "%" does not exist', import_models.provider
            using errcode = 'undefined_object', hint = 'Add it with dialectic.add_provider(…) first.';
    end if;
    for listed in
        select e.key, e.value as entry, e.value ->> 'litellm_provider' as seller
        from jsonb_each(price_list) as e
        order by e.key collate "C"
    loop
        select p.* into owner from _current_providers p where p.name = coalesce(ours ->> listed.seller, listed.seller);
        continue when import_models.provider is not null and owner.name is distinct from import_models.provider;
        model := listed.key;
        problem := case
            when jsonb_typeof(listed.entry) <> 'object' then 'it is no object'
            when listed.seller is null then 'it has no litellm_provider'
            when owner.name is null then format('there is no provider "%s"', left(listed.seller, 40))
            when owner.api = 'simulator' then 'its provider is a simulator'
            else _why_not_listed(listed.entry) end;
        if problem is null then
            -- The list puts the seller before the name of many a model.
            new.api_model := case when starts_with(listed.key, listed.seller || '/') then substr(listed.key, length(listed.seller) + 2) else listed.key end;
            new.name := new.api_model;
            select m.* into old from _current_models m where m.name = new.name;
            if found and old.provider <> owner.name then
                problem := format('a model of this name is at provider "%s"', old.provider);
            end if;
        end if;
        if problem is null then
            model := new.name;
            begin
                new.kind := case listed.entry ->> 'mode' when 'embedding' then 'embedding' else 'chat' end;
                new.context_window := _listed(listed.entry, 'max_input_tokens');
                -- One that could fill its window with an answer leaves most of it for the question.
                new.max_output_tokens := case
                    when new.kind = 'embedding' then 1
                    when _listed(listed.entry, 'max_output_tokens') >= new.context_window then greatest(1, new.context_window / 4)
                    else _listed(listed.entry, 'max_output_tokens') end;
                new.input_price := _listed_price(listed.entry, 'input_cost_per_token');
                new.output_price := coalesce(_listed_price(listed.entry, 'output_cost_per_token'), 0);
                new.cached_price := _listed_price(listed.entry, 'cache_read_input_token_cost');
                new.cache_write_price := _listed_price(listed.entry, 'cache_creation_input_token_cost');
                new.reasoning_price := _listed_price(listed.entry, 'output_cost_per_reasoning_token');
                new.settings := coalesce(_listed_settings(listed.entry, owner), '{}') || coalesce(old.settings, '{}');
                if (new.api_model, new.kind, new.context_window, new.max_output_tokens, new.input_price, new.output_price, new.cached_price,
                    new.cache_write_price, new.reasoning_price, new.settings)
                    is not distinct from
                   (old.api_model, old.kind, old.context_window, old.max_output_tokens, old.input_price, old.output_price, old.cached_price,
                    old.cache_write_price, old.reasoning_price, old.settings) then
                    action := 'unchanged';
                else
                    perform add_model(new.name, owner.name, new.api_model, new.context_window, new.max_output_tokens, old.tokenizer,
                        new.input_price, new.output_price, new.settings, new.cached_price, new.cache_write_price, new.reasoning_price,
                        old.max_concurrency, old.requests_per_minute, old.tokens_per_minute, old.fallback, new.kind);
                    action := case when old.name is null then 'added' else 'changed' end;
                end if;
            exception
                when data_exception or undefined_object then
                    get stacked diagnostics problem = message_text;
            end;
        end if;
        if problem is not null then
            action := 'skipped: ' || problem;
        end if;
        return next;
    end loop;
end
$$;
comment on function import_models(jsonb, text) is
    'Adds and changes models by a price list in the shape of LiteLLM''s: of every provider that is known here, or of one; says of each entry what became of it.';
