-- Defining what runs: providers, models, prompts, domains and processes, for users and for what ships alike.
--
-- Everything is checked when it is stored, with errors that name the thing and the field. A session that runs is never
-- touched: it keeps the definition it started with (see _freeze).

create function _refuse_null(argument text, is_missing boolean) returns void
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if is_missing then
        raise exception '% must not be null or empty', argument
            using errcode = 'null_value_not_allowed', hint = format('Give a value for %s.', argument);
    end if;
end
$$;

create function _check_name(what text, name text, pattern text) returns void
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('name', coalesce(name, '') = '');
    if name !~ pattern then
        raise exception 'the name of a % cannot be "%"', what, name
            using errcode = 'invalid_parameter_value', hint = format('It must match %s.', pattern);
    end if;
end
$$;

create function _check_number(argument text, value numeric, lowest numeric, highest numeric) returns void
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if value is null or value not between lowest and highest then
        raise exception '% cannot be %', argument, coalesce(value::text, 'null')
            using errcode = 'invalid_parameter_value', hint = format('It must be a number from %s to %s.', lowest, highest);
    end if;
end
$$;

create function add_provider(
    name text, api text, base_url text default null, max_concurrency integer default null,
    requests_per_minute integer default null, tokens_per_minute integer default null
) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    apis constant text[] := array['openai', 'anthropic', 'google', 'ollama', 'simulator'];
begin
    perform _check_name('provider', add_provider.name, '^[a-z0-9][a-z0-9._:/-]{0,99}$');
    if add_provider.api is null or add_provider.api <> all (apis) then
        raise exception 'api "%" is not known', coalesce(add_provider.api, 'null')
            using errcode = 'invalid_parameter_value', hint = format('Known: %s.', array_to_string(apis, ', '));
    end if;
    if add_provider.api <> 'simulator' and coalesce(add_provider.base_url, '') !~ '^https?://[^/\s@]+' then
        raise exception 'provider "%" needs the address of its API', add_provider.name
            using errcode = 'invalid_parameter_value', hint = 'Give base_url, beginning with https:// or http://.';
    end if;
    perform _check_number('max_concurrency', coalesce(add_provider.max_concurrency, 1), 1, 2147483647);
    perform _check_number('requests_per_minute', coalesce(add_provider.requests_per_minute, 1), 1, 2147483647);
    perform _check_number('tokens_per_minute', coalesce(add_provider.tokens_per_minute, 1), 1, 2147483647);
    insert into providers as p (name, api, base_url, max_concurrency, requests_per_minute, tokens_per_minute)
    values (add_provider.name, add_provider.api, add_provider.base_url, add_provider.max_concurrency,
            add_provider.requests_per_minute, add_provider.tokens_per_minute)
    on conflict on constraint providers_pkey do update
        set api = excluded.api, base_url = excluded.base_url, max_concurrency = excluded.max_concurrency,
            requests_per_minute = excluded.requests_per_minute, tokens_per_minute = excluded.tokens_per_minute;
    -- A provider that was paused for its configuration has a new one now.
    delete from provider_clocks c where c.provider = add_provider.name;
    perform _tell_worker(null, false);
    return add_provider.name;
end
$$;
comment on function add_provider(text, text, text, integer, integer, integer) is
    'Adds or changes a provider: its wire format, its address and its limits.';

create function add_model(
    name text, provider text, api_model text default null, context_window integer default 128000,
    max_output_tokens integer default 4096, tokenizer text default null, input_price numeric default 0,
    output_price numeric default 0, settings jsonb default '{}'
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
    perform _check_number('context_window', add_model.context_window, 1, 100000000);
    perform _check_number('max_output_tokens', add_model.max_output_tokens, 1, 100000000);
    perform _check_number('input_price', add_model.input_price, 0, 1000000);
    perform _check_number('output_price', add_model.output_price, 0, 1000000);
    perform _refuse_null('settings', add_model.settings is null);
    if add_model.max_output_tokens >= add_model.context_window then
        raise exception 'model "%" would have no room for its input', add_model.name
            using errcode = 'invalid_parameter_value',
                  detail = format('max_output_tokens is %s, context_window is %s.', add_model.max_output_tokens, add_model.context_window),
                  hint = 'max_output_tokens must be smaller than context_window.';
    end if;
    if provider_api = 'simulator' then
        perform _check_simulator_settings(add_model.settings);
    end if;
    insert into models as m (name, provider, api_model, context_window, max_output_tokens, tokenizer, input_price, output_price, settings)
    values (add_model.name, add_model.provider, coalesce(add_model.api_model, add_model.name), add_model.context_window,
            add_model.max_output_tokens, coalesce(add_model.tokenizer, case provider_api when 'simulator' then 'simulator' else 'o200k_base' end),
            add_model.input_price, add_model.output_price, add_model.settings)
    on conflict on constraint models_pkey do update
        set provider = excluded.provider, api_model = excluded.api_model, context_window = excluded.context_window,
            max_output_tokens = excluded.max_output_tokens, tokenizer = excluded.tokenizer, input_price = excluded.input_price,
            output_price = excluded.output_price, settings = excluded.settings;
    return add_model.name;
end
$$;
comment on function add_model(text, text, text, integer, integer, text, numeric, numeric, jsonb) is
    'Adds or changes a model; prices in USD per million tokens. A model of the same name that shipped is hidden by it.';

create function _check_models(names text[]) returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    most    constant integer := 100;
    unknown text;
    twice   text;
begin
    if coalesce(cardinality(names), 0) = 0 or array_position(names, null) is not null then
        raise exception 'a session needs at least one model, and none of them null'
            using errcode = 'invalid_parameter_value', hint = 'For example: models => ''{sim-a,sim-b}''.';
    end if;
    if cardinality(names) > most then
        raise exception 'a session takes at most % models, % were given', most, cardinality(names)
            using errcode = 'program_limit_exceeded', hint = 'The calls of a process grow with the cube of the number of models.';
    end if;
    select n into twice from unnest(names) as n group by n having count(*) > 1 limit 1;
    if found then
        raise exception 'model "%" is named twice', twice
            using errcode = 'invalid_parameter_value', hint = 'Name each model once.';
    end if;
    select n into unknown from unnest(names) as n where not exists (select from _current_models m where m.name = n) limit 1;
    if found then
        raise exception 'model "%" does not exist', unknown
            using errcode = 'undefined_object',
                  detail = (select format('Known: %s.', string_agg(m.name, ', ' order by m.name)) from _current_models m),
                  hint = 'Add it with dialectic.add_model(…).';
    end if;
end
$$;

create function set_prompt(name text, body text) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    next_version integer;
begin
    perform _check_name('prompt', set_prompt.name, '^[a-z][a-z0-9_]{0,62}$');
    perform _refuse_null('body', coalesce(set_prompt.body, '') = '');
    perform _check_template(set_prompt.name, set_prompt.body);
    perform pg_advisory_xact_lock(hashtextextended('dialectic.set_prompt:' || set_prompt.name, 0));
    insert into prompt_templates (name, version, body)
    select set_prompt.name,
           1 + coalesce(max(t.version) filter (where t.is_shipped = _is_shipping()), 0),
           set_prompt.body
    from prompt_templates t
    where t.name = set_prompt.name
    returning version into next_version;
    return next_version;
end
$$;
comment on function set_prompt(text, text) is
    'Stores a new version of a prompt template and returns its number; sessions that run keep the version they started with.';

create function set_document_template(key text, body text) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    next_version integer;
begin
    perform _check_name('document key', set_document_template.key, '^[a-z][a-z0-9_]{0,62}$');
    perform _refuse_null('body', coalesce(set_document_template.body, '') = '');
    perform _check_document_template(set_document_template.key, set_document_template.body);
    perform pg_advisory_xact_lock(hashtextextended('dialectic.set_document_template:' || set_document_template.key, 0));
    insert into document_templates (key, version, body)
    select set_document_template.key,
           1 + coalesce(max(t.version) filter (where t.is_shipped = _is_shipping()), 0),
           set_document_template.body
    from document_templates t
    where t.key = set_document_template.key
    returning version into next_version;
    return next_version;
end
$$;
comment on function set_document_template(text, text) is
    'Stores a new version of the layout of a document and returns its number; sessions that run keep the version they started with.';

create function render_markdown(content jsonb, document_key text) returns text
    language plpgsql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('content', render_markdown.content is null);
    perform _refuse_null('document_key', render_markdown.document_key is null);
    return _render_markdown(content, document_key, (select t.body from _current_document_templates t where t.key = document_key));
end
$$;
comment on function render_markdown(jsonb, text) is
    'The Markdown that an answer in JSON becomes under a document key: by the layout of the key, or by its own shape where it has none.';

create function render_prompt(name text, vars jsonb) returns text
    language plpgsql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if not exists (select from _current_prompts t where t.name = render_prompt.name) then
        raise exception 'prompt "%" does not exist', render_prompt.name
            using errcode = 'undefined_object', hint = 'SELECT DISTINCT name FROM dialectic.prompt_templates lists them.';
    end if;
    return _render_template(_prompts_with_includes(array[render_prompt.name]), render_prompt.name, coalesce(vars, '{}'));
end
$$;
comment on function render_prompt(text, jsonb) is 'A prompt template filled with values; a variable that is not given is an error.';

-- The named templates and all that they include, directly or not, as {name: body}.
create function _prompts_with_includes(names text[]) returns jsonb
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    with recursive used(name, body) as (
        select t.name, t.body from _current_prompts t where t.name = any (names)
        union
        select t.name, t.body
        from used,
             lateral regexp_matches(used.body, '\{%-?\s*(?:include|extends|import|from)\s+["'']([a-z0-9_]+)["'']', 'g') as reference,
             _current_prompts t
        where t.name = reference[1]
    )
    select coalesce(jsonb_object_agg(name, body), '{}') from used
$$;

create function set_domain(domain jsonb) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if jsonb_typeof(domain) is distinct from 'object' then
        raise exception 'a domain must be an object'
            using errcode = 'invalid_parameter_value', hint = 'Give {"domain", "description", "default_process", "stages"}.';
    end if;
    perform _check_name('domain', domain ->> 'domain', '^[a-z][a-z0-9_]{0,62}$');
    -- What ships is seeded before its processes are.
    if not _is_shipping() and not exists (select from _current_processes p where p.name = domain ->> 'default_process') then
        raise exception 'domain "%": field "default_process": process "%" does not exist',
                domain ->> 'domain', coalesce(domain ->> 'default_process', 'null')
            using errcode = 'undefined_object', hint = 'Define it with dialectic.define_process(name, stages).';
    end if;
    if coalesce(jsonb_typeof(domain -> 'stages'), 'object') <> 'object'
        or jsonb_path_exists(domain, '$.stages.* ? (@.type() <> "object")') then
        raise exception 'domain "%": field "stages" must be an object of objects', domain ->> 'domain'
            using errcode = 'invalid_parameter_value', hint = 'Give {"*" or a stage: {values for prompts}}.';
    end if;
    insert into domains (name, description, default_process)
    values (domain ->> 'domain', domain ->> 'description', domain ->> 'default_process')
    on conflict on constraint domains_pkey do update
        set description = excluded.description, default_process = excluded.default_process;
    insert into domain_overlays (domain, stage, "values")
    select set_domain.domain ->> 'domain', o.key, o.value
    from jsonb_each(set_domain.domain -> 'stages') as o
    on conflict on constraint domain_overlays_pkey do update set "values" = excluded."values";
    return domain ->> 'domain';
end
$$;
comment on function set_domain(jsonb) is
    'Adds or changes a domain: {"domain", "description", "default_process", "stages": {"*" or a stage: {values for prompts}}}.';

create function _seed_models(seed jsonb) returns void
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select add_provider(p ->> 'name', p ->> 'api', p ->> 'base_url') from jsonb_array_elements(seed -> 'providers') as p;
    select add_model(m ->> 'name', m ->> 'provider', m ->> 'api_model', (m ->> 'context_window')::integer,
                     (m ->> 'max_output_tokens')::integer, m ->> 'tokenizer', (m ->> 'input_price')::numeric,
                     (m ->> 'output_price')::numeric, coalesce(m -> 'settings', '{}'))
    from jsonb_array_elements(seed -> 'models') as m;
$$;
