-- Processes: storing a recipe, checking it, and freezing a process for a session. Planning with it is not done here.

create function validate_recipe(recipe jsonb) returns jsonb
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _check_isolation(_check_recipe(recipe, null, null, array(select name from _current_prompts)))
$$;
comment on function validate_recipe(jsonb) is
    'Checks a recipe by itself and returns it with its defaults filled in; every error names the step and the field.';

create function define_process(name text, stages jsonb, description text default null) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    templates    text[] := array(select t.name from _current_prompts t);
    upstream     jsonb := '[]';
    slugs        text[] := '{}';
    stage        jsonb;
    checked      jsonb;
    next_version integer;
begin
    perform _refuse_null('name', coalesce(define_process.name, '') = '');
    if define_process.name !~ '^[a-z][a-z0-9_]{0,62}$' then
        raise exception 'process name "%" is not valid', define_process.name
            using errcode = 'invalid_parameter_value', hint = 'Use lower-case letters, digits and underscores.';
    end if;
    if jsonb_typeof(define_process.stages) is distinct from 'array' or jsonb_array_length(define_process.stages) not between 1 and 100 then
        raise exception 'stages of process "%" must be a list of 1 to 100 stages', define_process.name
            using errcode = 'invalid_parameter_value', hint = 'Each is {"slug", "display_name", "seed_prompt_template", "recipe"}.';
    end if;

    perform pg_advisory_xact_lock(hashtextextended('dialectic.define_process:' || define_process.name, 0));
    select 1 + coalesce(max(p.version), 0) into next_version
    from processes p
    where p.name = define_process.name and p.is_shipped = _is_shipping();
    insert into processes (name, version, description)
    values (define_process.name, next_version, define_process.description);

    for stage in select value from jsonb_array_elements(define_process.stages) loop
        if coalesce(stage ->> 'slug', '') !~ '^[a-z][a-z0-9_]{0,62}$' then
            raise exception 'process "%": field "slug" of stage % is missing or not valid', define_process.name, cardinality(slugs) + 1
                using errcode = 'invalid_parameter_value', hint = 'Use lower-case letters, digits and underscores.';
        end if;
        if stage ->> 'slug' = any (slugs) then
            raise exception 'process "%" has two stages "%"', define_process.name, stage ->> 'slug'
                using errcode = 'invalid_parameter_value', hint = 'Every stage has a slug of its own.';
        end if;
        perform _refuse_null(format('field "seed_prompt_template" of stage "%s"', stage ->> 'slug'), stage ->> 'seed_prompt_template' is null);
        if stage ->> 'seed_prompt_template' <> all (templates) then
            raise exception 'stage "%": field "seed_prompt_template": prompt "%" does not exist',
                    stage ->> 'slug', stage ->> 'seed_prompt_template'
                using errcode = 'undefined_object', hint = 'Store it first with dialectic.set_prompt(name, body).';
        end if;
        checked := _check_isolation(_check_recipe(stage -> 'recipe', stage ->> 'slug', upstream, templates));
        insert into dialectic.stages (process, version, position, slug, display_name, seed_prompt_template, recipe)
        values (define_process.name, next_version, cardinality(slugs) + 1, stage ->> 'slug',
                coalesce(stage ->> 'display_name', initcap(stage ->> 'slug')), stage ->> 'seed_prompt_template', checked);
        upstream := upstream || _recipe_outputs(checked, stage ->> 'slug');
        slugs := slugs || (stage ->> 'slug');
    end loop;
    perform _check_variables(define_process.name, null);
    return next_version;
end
$$;
comment on function define_process(text, jsonb, text) is
    'Stores a new version of a process, its stages in order, each with its recipe; sessions that run keep the version they started with.';

create function define_stage(
    process text, slug text, recipe jsonb, display_name text default null, seed_prompt_template text default null
) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    stored   jsonb := _stored_stages(define_stage.process);
    replaced jsonb;
    altered  jsonb;
begin
    if stored is null then
        raise exception 'process "%" does not exist', define_stage.process
            using errcode = 'undefined_object', hint = 'Define it with dialectic.define_process(name, stages).';
    end if;
    select s into replaced from jsonb_array_elements(stored) as s where s ->> 'slug' = define_stage.slug;
    altered := jsonb_strip_nulls(jsonb_build_object(
        'slug', define_stage.slug,
        'display_name', coalesce(define_stage.display_name, replaced ->> 'display_name'),
        'seed_prompt_template', coalesce(define_stage.seed_prompt_template, replaced ->> 'seed_prompt_template'),
        'recipe', define_stage.recipe));
    return define_process(
        define_stage.process,
        case when replaced is null then stored || altered
             else (select jsonb_agg(case when s ->> 'slug' = define_stage.slug then altered else s end order by position)
                   from jsonb_array_elements(stored) with ordinality as listed(s, position)) end,
        (select p.description from _current_processes p where p.name = define_stage.process));
end
$$;
comment on function define_stage(text, text, jsonb, text, text) is
    'Replaces one stage of a process, or adds it at the end, as a new version of the process.';

create function _stored_stages(process text) returns jsonb
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select jsonb_agg(jsonb_build_object(
               'slug', s.slug, 'display_name', s.display_name, 'seed_prompt_template', s.seed_prompt_template, 'recipe', s.recipe)
           order by s.position)
    from _current_processes p
    join stages s on (s.process, s.is_shipped, s.version) = (p.name, p.is_shipped, p.version)
    where p.name = _stored_stages.process
$$;

-- The prompts that stages use, each with its place; continuing, repairing and combining have no step and go with every process.
create function _used_prompts(stages jsonb) returns table (place text, used_as text, template text)
    language sql immutable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('stage "%s": field "seed_prompt_template"', s ->> 'slug'), 'seed', s ->> 'seed_prompt_template'
    from jsonb_array_elements(stages) as s
    union all
    select format('stage "%s": step "%s"', s ->> 'slug', t ->> 'key'), 'step', t ->> 'prompt_template_name'
    from jsonb_array_elements(stages) as s, jsonb_array_elements(s -> 'recipe' -> 'steps') as t
    union all
    values ('continuing', 'continue', 'continue_answer'), ('repairing', 'repair', 'repair_missing_keys'),
           ('combining', 'step', 'tier2_document_combiner')
$$;

-- Refuses a process whose prompts use variables that nobody gives a value; where a template is named, only for variables in it.
create function _check_variables(process text, only_template text) returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    stored  jsonb := _stored_stages(process);
    bodies  jsonb := _prompts_with_includes(array(select u.template from _used_prompts(stored) as u));
    unknown record;
begin
    if only_template is not null and not bodies ? only_template then
        return;
    end if;
    select u.place, found.* into unknown
    from _used_prompts(stored) as u
    cross join lateral _unknown_variables(bodies, u.template, u.used_as) as found
    where only_template is null or found.template = only_template
    limit 1;
    if found then
        raise exception 'process "%": %: template "%" uses variable "%", which does not exist',
                process, unknown.place, unknown.template, unknown.variable
            using errcode = 'undefined_object',
                  detail = format('A template in this place is given: %s.', array_to_string(unknown.known, ', ')),
                  hint = format('Correct the template with dialectic.set_prompt(%L, body).', unknown.template);
    end if;
end
$$;

-- The process as it is now, with all that it uses. Steps that a setting holds together (isolated_by, set to false) are
-- frozen as one call.
create function _freeze(process text, domain text) returns text
    language sql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _store_definition(process, domain, _current_stages(process))
$$;

-- The stages of a process as a session would run them now.
create function _current_stages(process text) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    frozen_stages jsonb := _stored_stages(process);
begin
    if frozen_stages is null then
        raise exception 'process "%" does not exist', process
            using errcode = 'undefined_object',
                  detail = (select format('Known: %s.', string_agg(p.name, ', ' order by p.name)) from _current_processes p),
                  hint = 'Define it with dialectic.define_process(name, stages).';
    end if;
    select jsonb_agg(jsonb_set(s, '{recipe}', _isolate_recipe(s -> 'recipe', (
               select coalesce(jsonb_object_agg(c.key, get_config(c.key)), '{}')
               from configuration c where jsonb_typeof(c.value) = 'boolean'))) order by position)
    into frozen_stages
    from jsonb_array_elements(frozen_stages) with ordinality as listed(s, position);
    return frozen_stages;
end
$$;

-- Stages with the current text of all that they use, stored under the hash of the content.
create function _store_definition(process text, domain text, frozen_stages jsonb) returns text
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    used_prompts jsonb := _prompts_with_includes(array(select distinct u.template from _used_prompts(frozen_stages) as u));
    layouts      jsonb;
    overlays     jsonb;
    definition   text;
begin
    select coalesce(jsonb_object_agg(t.key, t.body), '{}') into layouts
    from _current_document_templates t
    where t.key in (select step ->> 'document_key'
                    from jsonb_array_elements(frozen_stages) as s, jsonb_array_elements(s -> 'recipe' -> 'steps') as step);
    select coalesce(jsonb_object_agg(stage, "values"), '{}') into overlays
    from (select distinct on (o.stage) o.stage, o."values"
          from domain_overlays o where o.domain = _store_definition.domain order by o.stage, o.is_shipped) as effective;
    definition := encode(sha256(convert_to(
        jsonb_build_array(process, domain, frozen_stages, used_prompts, layouts, overlays)::text, 'UTF8')), 'hex');
    insert into definitions (id, process, domain, stages, prompts, documents, overlays)
    values (definition, process, domain, frozen_stages, used_prompts, layouts, overlays)
    on conflict do nothing;
    return definition;
end
$$;
