-- Defining what runs: prompts, layouts and domains, for users and for what ships alike; models are in model.sql.
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

-- Keys are looked up by index, which has no room for long ones.
create function _check_key(idempotency_key text) returns void
    language plpgsql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if octet_length(idempotency_key) > 1000 then
        raise exception 'the idempotency key is too long: it has % bytes', octet_length(idempotency_key)
            using errcode = 'invalid_parameter_value', hint = 'Give 1000 bytes at the most; a UUID is enough.';
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
    -- What a process uses must have every variable; other prompts may be for render_prompt(), whose values anyone chooses.
    perform _check_variables(p.name, set_prompt.name) from _current_processes p;
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
             lateral regexp_matches(used.body, E'\\{%-?\\s*(?:include|extends|import|from)\\s+["'']([a-z0-9_]+)["'']', 'g') as reference,
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
