-- Providers and models: adds and changes them, those of users and those that ship.
--
-- Checks everything before it is stored, with errors that name the field. The core decides which settings there are.
-- Nothing here calls a provider, and nothing stored here is a secret.

-- The address of a provider as it is stored, without slashes at its end. The error does not repeat an address that is
-- refused, because it may contain a password.
create function _base_url(provider text, api text, base_url text) returns text
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    known constant jsonb := '{
        "openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com",
        "google": "https://generativelanguage.googleapis.com", "ollama": "http://127.0.0.1:11434"}';
begin
    if base_url is null then
        return known ->> api;
    end if;
    if base_url ~ '^[a-z]+://[^/?#]*@' then
        raise exception 'base_url of provider "%" must not carry a user or a password', provider
            using errcode = 'invalid_parameter_value',
                  hint = 'Say where the secret is found with dialectic.set_secret(provider, reference).';
    end if;
    if base_url !~ E'^https?://([A-Za-z0-9._~-]+|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?(/[^?#[:space:][:cntrl:]]*)?$'
        or substring(base_url from '^https?://[^/]*[^/:]:([0-9]+)(?:/|$)')::integer not between 1 and 65535 then
        raise exception 'base_url of provider "%" is not the address of an API', provider
            using errcode = 'invalid_parameter_value',
                  hint = 'It begins with https:// or http:// and ends before the path of a call; what follows a ? '
                         'goes into settings, under "query".';
    end if;
    return rtrim(base_url, '/');
end
$$;

-- Limits per minute and at once; null for none.
create function _check_limits(max_concurrency integer, requests_per_minute integer, tokens_per_minute integer)
    returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _check_number('max_concurrency', coalesce(max_concurrency, 1), 1, 2147483647);
    perform _check_number('requests_per_minute', coalesce(requests_per_minute, 1), 1, 2147483647);
    perform _check_number('tokens_per_minute', coalesce(tokens_per_minute, 1), 1, 2147483647);
end
$$;

-- A secret may be given here too: see set_secret.
create function add_provider(
    name text, api text, base_url text default null, secret text default null, max_concurrency integer default null,
    requests_per_minute integer default null, tokens_per_minute integer default null, settings jsonb default '{}'
) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
    set log_min_error_statement = panic
as $$
declare
    apis constant text[] := array['openai', 'anthropic', 'google', 'ollama', 'simulator'];
    known   providers;
    address text;
begin
    perform _check_name('provider', add_provider.name, '^[a-z0-9][a-z0-9._:/-]{0,99}$');
    if add_provider.api is null or add_provider.api <> all (apis) then
        raise exception 'api "%" is not known', coalesce(add_provider.api, 'null')
            using errcode = 'invalid_parameter_value', hint = format('Known: %s.', array_to_string(apis, ', '));
    end if;
    perform _check_limits(add_provider.max_concurrency, add_provider.requests_per_minute,
                          add_provider.tokens_per_minute);
    perform _refuse_null('settings', add_provider.settings is null);
    perform _check_provider_settings(add_provider.settings);
    -- A known provider keeps its address unless one is given. A new address deletes the secret.
    select p.* into known from _current_providers p where p.name = add_provider.name;
    -- It also keeps the defaults of its models, so that a caller who adds a secret need not repeat them.
    if known.api = add_provider.api and known.settings ? 'model_defaults' then
        add_provider.settings :=
            jsonb_build_object('model_defaults', known.settings -> 'model_defaults') || add_provider.settings;
    end if;
    perform _check_model_settings(add_provider.api, coalesce(add_provider.settings -> 'model_defaults', '{}'));
    address := _base_url(add_provider.name, add_provider.api,
                         coalesce(add_provider.base_url,
                                  case when known.api = add_provider.api then known.base_url end));
    if known.base_url is distinct from address and add_provider.secret is null then
        delete from secrets s where s.provider = add_provider.name and s.is_shipped = _is_shipping();
        if found then
            raise notice 'the secret of provider "%" was forgotten, for its address has changed', add_provider.name
                using hint = 'SELECT dialectic.set_secret(provider, reference) sets it again.';
        end if;
    end if;
    insert into providers as p (name, api, base_url, max_concurrency, requests_per_minute, tokens_per_minute, settings)
    values (add_provider.name, add_provider.api, address,
            add_provider.max_concurrency, add_provider.requests_per_minute, add_provider.tokens_per_minute,
            add_provider.settings)
    on conflict on constraint providers_pkey do update
        set api = excluded.api, base_url = excluded.base_url, max_concurrency = excluded.max_concurrency,
            requests_per_minute = excluded.requests_per_minute, tokens_per_minute = excluded.tokens_per_minute,
            settings = excluded.settings;
    if add_provider.secret is not null then
        perform set_secret(add_provider.name, add_provider.secret);
    end if;
    -- A provider that was paused because of its configuration is tried again.
    delete from provider_cooldowns c where c.provider = add_provider.name;
    perform _notify_worker(null, false);
    return add_provider.name;
end
$$;
comment on function add_provider(text, text, text, text, integer, integer, integer, jsonb) is
    'Adds or changes a provider: its wire format, its address, where its secret is found, its limits and how it is '
    'spoken to. A secret that was set stays unless one is given.';

-- A model that answers in the place of another must be able to, and must not lead back to it.
create function _check_fallback(model text, model_kind text, wanted text) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    found_kind text;
begin
    if model_kind <> 'chat' and exists (select from _current_models m where m.fallback = model and m.name <> model) then
        raise exception 'kind of model "%" cannot be "%": it is the fallback of another', model, model_kind
            using errcode = 'invalid_parameter_value', hint = 'Give that model another fallback first.';
    end if;
    if wanted is null then
        return;
    end if;
    -- Two that are changed at once could lead to each other.
    perform pg_advisory_xact_lock(hashtextextended('dialectic.add_model', 0));
    if wanted = model then
        raise exception 'fallback of model "%" cannot be the model itself', model
            using errcode = 'invalid_parameter_value', hint = 'Name another model.';
    end if;
    select m.kind into found_kind from _current_models m where m.name = wanted;
    if not found then
        raise exception 'fallback "%" does not exist', wanted
            using errcode = 'undefined_object', hint = 'Add it with dialectic.add_model(…) first.';
    end if;
    if model_kind <> 'chat' or found_kind <> 'chat' then
        raise exception 'fallback of model "%" cannot be "%"', model, wanted
            using errcode = 'invalid_parameter_value', detail = 'Both must be of kind chat.',
                  hint = 'Name a chat model, or none.';
    end if;
    if exists (with recursive chain(name) as (
                   select wanted
                   union
                   select m.fallback
                   from chain
                   join _current_models m on m.name = chain.name
                   where m.fallback is not null)
               select from chain where chain.name = model) then
        raise exception 'fallback "%" leads back to model "%"', wanted, model
            using errcode = 'invalid_parameter_value', hint = 'Name a model whose own fallbacks end elsewhere.';
    end if;
end
$$;

-- Prices in USD per million tokens; the last three may be null.
create function _check_prices(
    input_price numeric, output_price numeric, cached_price numeric, cache_write_price numeric, reasoning_price numeric
) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _check_number('input_price', input_price, 0, 1000000);
    perform _check_number('output_price', output_price, 0, 1000000);
    perform _check_number('cached_price', coalesce(cached_price, 0), 0, 1000000);
    perform _check_number('cache_write_price', coalesce(cache_write_price, 0), 0, 1000000);
    perform _check_number('reasoning_price', coalesce(reasoning_price, 0), 0, 1000000);
end
$$;

-- The kind of a model and its window. An embedding model writes no text, so its window needs no room for output.
create function _check_window(model text, model_kind text, context_window integer, max_output_tokens integer)
    returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if model_kind is null or model_kind not in ('chat', 'embedding') then
        raise exception 'kind cannot be "%"', coalesce(model_kind, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Known: chat, embedding.';
    end if;
    perform _check_number('context_window', context_window, 1, 100000000);
    perform _check_number('max_output_tokens', max_output_tokens, 1, 100000000);
    if model_kind = 'chat' and max_output_tokens >= context_window then
        raise exception 'model "%" would have no room for its input', model
            using errcode = 'invalid_parameter_value',
                  detail = format('max_output_tokens is %s, context_window is %s.', max_output_tokens, context_window),
                  hint = 'max_output_tokens must be smaller than context_window.';
    end if;
end
$$;

create function add_model(
    name text, provider text, api_model text default null, context_window integer default 128000,
    max_output_tokens integer default 4096, tokenizer text default null, input_price numeric default 0,
    output_price numeric default 0, settings jsonb default '{}', cached_price numeric default null,
    cache_write_price numeric default null, reasoning_price numeric default null, max_concurrency integer default null,
    requests_per_minute integer default null, tokens_per_minute integer default null, fallback text default null,
    kind text default 'chat'
) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    provider_api text;
begin
    perform _check_name('model', add_model.name, '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$');
    select p.api into provider_api from _current_providers p where p.name = add_model.provider;
    if not found then
        raise exception 'provider "%" does not exist', coalesce(add_model.provider, 'null')
            using errcode = 'undefined_object', hint = 'Add it with dialectic.add_provider(…) first.';
    end if;
    perform _check_window(add_model.name, add_model.kind, add_model.context_window, add_model.max_output_tokens);
    perform _check_prices(add_model.input_price, add_model.output_price, add_model.cached_price,
                          add_model.cache_write_price, add_model.reasoning_price);
    perform _check_limits(add_model.max_concurrency, add_model.requests_per_minute, add_model.tokens_per_minute);
    perform _refuse_null('settings', add_model.settings is null);
    perform _check_model_settings(provider_api, add_model.settings);
    perform _check_fallback(add_model.name, add_model.kind, add_model.fallback);
    add_model.api_model := coalesce(add_model.api_model, add_model.name);
    -- The token ratio was learned from another model.
    delete from token_ratios r
    using _current_models m
    where r.model = add_model.name and m.name = r.model and m.api_model <> add_model.api_model;
    insert into models as m (
        name, provider, api_model, kind, context_window, max_output_tokens, tokenizer, input_price, output_price,
        cached_price, cache_write_price, reasoning_price, max_concurrency, requests_per_minute, tokens_per_minute,
        fallback, settings)
    values (
        add_model.name, add_model.provider, add_model.api_model, add_model.kind, add_model.context_window,
        add_model.max_output_tokens,
        coalesce(add_model.tokenizer, case provider_api when 'simulator' then 'simulator' else 'o200k_base' end),
        add_model.input_price, add_model.output_price, add_model.cached_price, add_model.cache_write_price,
        add_model.reasoning_price, add_model.max_concurrency, add_model.requests_per_minute,
        add_model.tokens_per_minute, add_model.fallback, add_model.settings)
    on conflict on constraint models_pkey do update
        set provider = excluded.provider, api_model = excluded.api_model, kind = excluded.kind,
            context_window = excluded.context_window, max_output_tokens = excluded.max_output_tokens,
            tokenizer = excluded.tokenizer, input_price = excluded.input_price, output_price = excluded.output_price,
            cached_price = excluded.cached_price, cache_write_price = excluded.cache_write_price,
            reasoning_price = excluded.reasoning_price, max_concurrency = excluded.max_concurrency,
            requests_per_minute = excluded.requests_per_minute, tokens_per_minute = excluded.tokens_per_minute,
            fallback = excluded.fallback, settings = excluded.settings;
    -- A model that was paused because of its configuration is tried again.
    delete from provider_cooldowns c where c.provider = add_model.provider and c.model = add_model.name;
    perform _notify_worker(null, false);
    return add_model.name;
end
$$;
comment on function add_model(
    text, text, text, integer, integer, text, numeric, numeric, jsonb, numeric, numeric, numeric, integer, integer,
    integer, text, text) is
    'Adds or changes a model; prices in USD per million tokens. A model of the same name that shipped is hidden by it.';

create function _check_models(names text[], kind text default 'chat') returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    most    constant integer := (_setting_bounds('stage_min_models')).highest;
    unknown text;
    twice   text;
begin
    if coalesce(cardinality(names), 0) = 0 or array_position(names, null) is not null then
        raise exception 'a session needs at least one model, and none of them null'
            using errcode = 'invalid_parameter_value', hint = 'For example: models => ''{sim-a,sim-b}''.';
    end if;
    if cardinality(names) > most then
        raise exception 'a session takes at most % models, % were given', most, cardinality(names)
            using errcode = 'program_limit_exceeded',
                  hint = 'The calls of a process grow with the cube of the number of models.';
    end if;
    select n into twice from unnest(names) as n group by n having count(*) > 1 limit 1;
    if found then
        raise exception 'model "%" is named twice', twice
            using errcode = 'invalid_parameter_value', hint = 'Name each model once.';
    end if;
    select n into unknown
    from unnest(names) as n
    where not exists (select from _current_models m where m.name = n)
    limit 1;
    if found then
        raise exception 'model "%" does not exist', unknown
            using errcode = 'undefined_object',
                  hint = 'SELECT name, provider FROM dialectic.models WHERE kind = ''chat'' lists them; '
                         'dialectic.add_model(…) adds one.';
    end if;
    select m.name into unknown
    from _current_models m
    where m.name = any (names) and m.kind <> _check_models.kind
    limit 1;
    if found then
        raise exception 'model "%" %', unknown,
                case _check_models.kind when 'chat' then 'writes no texts' else 'makes no vectors' end
            using errcode = 'invalid_parameter_value',
                  hint = format('Name a model whose kind is %s.', _check_models.kind);
    end if;
end
$$;

create function _seed_models(seed jsonb) returns void
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select add_provider(p.name, p.api, p.base_url, settings => coalesce(p.settings, '{}'))
    from jsonb_to_recordset(seed -> 'providers') as p(name text, api text, base_url text, settings jsonb);
    select add_model(m.name, m.provider, m.api_model, m.context_window, m.max_output_tokens, m.tokenizer,
                     m.input_price, m.output_price, coalesce(m.settings, '{}'), m.cached_price, m.cache_write_price,
                     m.reasoning_price, kind => coalesce(m.kind, 'chat'))
    from jsonb_to_recordset(seed -> 'models') as m(
        name text, provider text, api_model text, kind text, context_window integer, max_output_tokens integer,
        tokenizer text, input_price numeric, output_price numeric, cached_price numeric, cache_write_price numeric,
        reasoning_price numeric, settings jsonb);
$$;

-- The prices of a model in micro-dollars per token, which is dollars per million: input, read from the cache, written
-- to the cache, output, reasoning. A price that is not set is the plain one; a model that does not exist costs nothing.
-- plpgsql, because it keeps its plan: a function with a subquery is not inlined, and the worker calls it often.
create function _prices(model text) returns numeric[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return coalesce((
        select array[m.input_price, coalesce(m.cached_price, m.input_price),
                     coalesce(m.cache_write_price, m.input_price), m.output_price,
                     coalesce(m.reasoning_price, m.output_price)]
        from models m
        where m.name = _prices.model
        order by m.is_shipped
        limit 1), '{0,0,0,0,0}');
end
$$;

-- The cost of a call at these prices, rounded up once. A provider may report more of a part than of the whole, and more
-- than a wallet can hold.
create function _cost(
    prices numeric[], read bigint, cached bigint, cache_write bigint, written bigint, reasoning bigint
) returns bigint
    language sql immutable
    return least(1000000000000000, ceil(
        greatest(read - cached - cache_write, 0) * prices[1] + cached * prices[2] + cache_write * prices[3]
        + greatest(written - reasoning, 0) * prices[4] + reasoning * prices[5]));

-- The highest of these prices that can apply to an input token, and to an output token.
create function _dearest(prices numeric[], out to_read numeric, out to_write numeric)
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    to_read := greatest(prices[1], prices[2], prices[3]);
    to_write := greatest(prices[4], prices[5]);
end
$$;
