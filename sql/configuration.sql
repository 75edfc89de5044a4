-- Settings by key: what ships, reading, changing. Which setting means what is decided where it is read.

insert into configuration (key, value, description) values
    ('job_default_max_retries', '3', 'How often a failed job is tried again before it fails for good.'),
    ('max_continuations', '5', 'How often a cut-off answer is continued.'),
    ('rag_data_retention_days', '30', 'How long chunks of texts stay in memory.'),
    ('antithesis_task_isolation_enabled', 'true', 'Whether each critique is a call of its own; off: one call per model.'),
    ('stage_min_models', '1', 'How many models must deliver for a stage to complete.'),
    ('context_safety', '0.98', 'The part of a context window that may be filled.'),
    ('tier2_max_ratio', '2.0', 'By how many times the window a prompt may exceed it and still have its texts condensed.'),
    ('chunk_tokens', '256', 'The size of a chunk in memory.'),
    ('chunk_overlap_tokens', '32', 'How much neighbouring chunks share.'),
    ('match_count', '10', 'How many chunks a retrieval returns.'),
    ('rrf_k', '60', 'The constant of reciprocal rank fusion.'),
    ('mmr_lambda', '0.7', 'How much relevance counts against diversity.'),
    ('retry_base_seconds', '2', 'The first delay before a failed job is tried again; it doubles each time, with full jitter.'),
    ('retry_max_seconds', '300', 'The longest such delay.'),
    ('partial_flush_seconds', '2', 'How often text that is still streaming is saved.'),
    ('notifications_retention_days', '30', 'How long notifications are kept.'),
    ('session_retention_days', 'null', 'How long sessions are kept after they ended; null keeps them.'),
    ('worker_enabled', 'true', 'Whether the background worker takes jobs of this database; run_pending() does in any case.'),
    ('default_models', '["sim-a", "sim-b"]', 'The models of run() when none are named.'),
    ('embedding_model', 'null', 'The model that embeds texts.');

create function get_config(key text) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    found_value jsonb;
begin
    select c.value into found_value
    from configuration c
    where c.key = get_config.key
    order by c.is_shipped
    limit 1;
    if not found then
        raise exception 'setting "%" does not exist', get_config.key
            using errcode = 'undefined_object', hint = 'SELECT key, value, description FROM dialectic.configuration lists them.';
    end if;
    return found_value;
end
$$;
comment on function get_config(text) is 'The value of a setting.';

create function _min_models() returns integer
    language sql stable
    return (get_config('stage_min_models') #>> '{}')::integer;

-- The least and the most that a setting may be. Whatever takes the same number as an argument asks here for its bounds.
create function _setting_bounds(key text, out lowest numeric, out highest numeric)
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case when key in ('stage_min_models', 'chunk_tokens', 'match_count') then 1
                when key in ('context_safety', 'partial_flush_seconds') then 0.05 else 0 end,
           case when key in ('context_safety', 'mmr_lambda') then 1
                -- No session has more models, and generate() takes no more retries.
                when key in ('stage_min_models', 'job_default_max_retries') then 100
                when key in ('max_continuations', 'match_count') then 1000
                -- Sixteen windows over is a hundred combine calls and more; retrieval reads less.
                when key = 'tier2_max_ratio' then 16
                -- Less than the largest chunk.
                when key = 'chunk_overlap_tokens' then 999999
                else 1000000 end
$$;

-- A value of a setting as it is stored; an error where it is not of the setting's type, or out of bounds.
create function _check_setting(key text, value jsonb) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    is_nullable constant boolean := key = 'session_retention_days';
    expected text := case when is_nullable then 'number' else jsonb_typeof(get_config(key)) end;
    whole    boolean := key not in ('context_safety', 'tier2_max_ratio', 'mmr_lambda', 'retry_base_seconds', 'retry_max_seconds',
                                       'partial_flush_seconds');
    bounds   record := _setting_bounds(key);
    is_own   boolean := not exists (select from configuration c where c.key = _check_setting.key and c.is_shipped);
    wanted   text;
begin
    if key = 'embedding_model' then
        wanted := case when jsonb_typeof(value) not in ('string', 'null') then 'the name of a model, or null' end;
        if jsonb_typeof(value) = 'string' then
            perform _check_models(array[value #>> '{}'], 'embedding');
        end if;
    elsif is_nullable and jsonb_typeof(value) = 'null' then
        return value;
    elsif key = 'default_models' then
        if jsonb_typeof(value) <> 'array' or exists (select from jsonb_array_elements(value) as e where jsonb_typeof(e) <> 'string') then
            wanted := 'a list of model names';
        else
            perform _check_models(array(select jsonb_array_elements_text(value)));
        end if;
    elsif jsonb_typeof(value) <> expected then
        wanted := 'a ' || expected;
    elsif expected = 'number' and not is_own
        and ((value #>> '{}')::numeric not between bounds.lowest and bounds.highest or (whole and (value #>> '{}')::numeric % 1 <> 0)) then
        wanted := format('a %snumber from %s to %s', case when whole then 'whole ' end, bounds.lowest, bounds.highest);
    end if;
    wanted := coalesce(wanted, _wanted_overlap(key, value));
    if wanted is not null then
        wanted := wanted || case when is_nullable then ', or null' else '' end;
        raise exception 'setting "%" cannot be %', key, value
            using errcode = 'invalid_parameter_value', hint = format('It must be %s.', wanted);
    end if;
    -- 3.0 is a whole number, and cannot be read as an integer.
    return case when expected = 'number' then to_jsonb(trim_scale((value #>> '{}')::numeric)) else value end;
end
$$;

-- What a chunk or its overlap must be, where chunks would have nothing of their own; null where they have.
create function _wanted_overlap(key text, value jsonb) returns text
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if key = 'chunk_overlap_tokens' and value >= get_config('chunk_tokens') then
        return format('smaller than chunk_tokens, which is %s', get_config('chunk_tokens'));
    elsif key = 'chunk_tokens' and value <= get_config('chunk_overlap_tokens') then
        return format('larger than chunk_overlap_tokens, which is %s', get_config('chunk_overlap_tokens'));
    end if;
    return null;
end
$$;

create function set_config(key text, value jsonb) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    checked jsonb := _check_setting(set_config.key, coalesce(set_config.value, 'null'));
begin
    insert into configuration as c (key, value, description)
    select known.key, checked, known.description
    from configuration known
    where known.key = set_config.key
    limit 1
    on conflict on constraint configuration_pkey do update set value = excluded.value;
    perform _notify_worker(null, false);
end
$$;
comment on function set_config(text, jsonb) is
    'Changes a setting for the whole database; the shipped value stays beside it.';

create function add_setting(key text, value jsonb, description text) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('value', coalesce(jsonb_typeof(add_setting.value), 'null') = 'null');
    perform _refuse_null('description', coalesce(add_setting.description, '') = '');
    if coalesce(add_setting.key, '') !~ '^[a-z][a-z0-9_]{0,62}$' then
        raise exception 'setting name "%" is not valid', coalesce(add_setting.key, 'null')
            using errcode = 'invalid_parameter_value', hint = 'Use lower-case letters, digits and underscores.';
    end if;
    if exists (select from configuration c where c.key = add_setting.key) then
        raise exception 'setting "%" already exists', add_setting.key
            using errcode = 'duplicate_object',
                  hint = format('SELECT dialectic.set_config(%L, %L);', add_setting.key, add_setting.value);
    end if;
    insert into configuration (key, value, description)
    values (add_setting.key, add_setting.value, add_setting.description);
end
$$;
comment on function add_setting(text, jsonb, text) is
    'Adds a setting of your own; set_config() changes it, to a value of the same JSON type. '
    'Steps of a recipe name a setting that is true or false as isolated_by.';

-- The recipe, or an error where a step is isolated by what is no setting.
create function _check_isolation(recipe jsonb) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    unknown record;
begin
    select step ->> 'key' as step, step ->> 'isolated_by' as key into unknown
    from jsonb_array_elements(recipe -> 'steps') as step
    where step ? 'isolated_by'
      and not exists (select from configuration c
                      where c.key = step ->> 'isolated_by' and jsonb_typeof(c.value) = 'boolean')
    limit 1;
    if found then
        raise exception 'step %, isolated_by: "%" is not a setting that is true or false', unknown.step, unknown.key
            using errcode = 'invalid_parameter_value',
                  detail = (select format('Known: %s.', string_agg(distinct c.key, ', ' order by c.key))
                            from configuration c where jsonb_typeof(c.value) = 'boolean'),
                  hint = format('SELECT dialectic.add_setting(%L, ''true'', ''What it is for'');', unknown.key);
    end if;
    return recipe;
end
$$;
