-- The tree of files: where every artifact stands, and which of them are documents that a person reads.
--
-- Paths are made from columns, in the core, and never stored or parsed. Read only, with the rights of the one who looks.

-- Everything that has a place in the tree, with the facts that decide it.
create view _artifacts with (security_invoker) as
    select r.id, r.project_id, p.name as project_name, r.session_id, r.iteration, r.stage, coalesce(run.position, 0) as stage_position,
           r.resource_type as type, r.model, origin.model as source_model, r.reviewer, r.lineage_id,
           coalesce(j.strategy = 'pairwise_by_origin', false) as is_pair,
           coalesce(case when j.makes = 'header' then r.step_key end, r.document_key, r.output_type, r.name, '') as key,
           case when j.kind = 'combine' then j.id end as combine_job, r.version, coalesce(j.continuation_count, 0) as continuation,
           r.document_key is not null as is_about_document, r.mime_type, r.content, r.created_at
    from resources r
    join projects p on p.id = r.project_id
    left join stage_runs run on run.session_id = r.session_id and run.stage = r.stage and run.iteration = r.iteration
    left join jobs j on j.id = r.job_id
    left join jobs origin on origin.id = r.lineage_id
    union all
    select c.id, s.project_id, p.name, c.session_id, c.iteration, c.stage, run.position,
           case when c.mime_type = 'text/markdown' and c.document_key is not null and not c.is_part then 'rendered_document' else 'raw_response' end,
           c.model, origin.model, c.reviewer, c.lineage_id, coalesce(j.strategy = 'pairwise_by_origin', false),
           coalesce(case when j.makes = 'header' then c.step_key end, c.document_key, c.output_type), case when j.kind = 'combine' then j.id end,
           j.version, j.continuation_count, true, c.mime_type, c.content, c.created_at
    from contributions c
    join sessions s on s.id = c.session_id
    join projects p on p.id = s.project_id
    join jobs j on j.id = c.job_id
    join stage_runs run on run.id = j.stage_run_id
    left join jobs origin on origin.id = c.lineage_id;
comment on view _artifacts is 'Every artifact with the facts that decide its place in the tree of files.';

-- The artifacts of a project, or of one of its sessions, each with its path. Those that would stand in one place are numbered in
-- the order they were made.
create function _files(project uuid, session uuid) returns table (id uuid, path text, mime_type text, content text)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if not exists (select from projects p where p.id = _files.project) then
        raise exception 'project "%" does not exist', coalesce(_files.project::text, 'null')
            using errcode = 'no_data_found', hint = 'SELECT id, name FROM dialectic.projects lists yours.';
    end if;
    return query
        with listed as (
            select a.* from _artifacts a
            where a.project_id = _files.project and (_files.session is null or a.session_id = _files.session)
            union all
            -- What is to be done next: the checklists of the last stage.
            select a.id, a.project_id, a.project_name, a.session_id, a.iteration, a.stage, a.stage_position, 'pending_file', a.model, null, null,
                   null, false, a.key, null, a.version, 0, false, a.mime_type, a.content, a.created_at
            from _artifacts a
            where a.project_id = _files.project and _files.session is null and a.type = 'rendered_document' and a.key = 'actionable_checklist'
        ),
        numbered as (
            select l.*, row_number() over (order by l.created_at, l.id, l.type = 'pending_file') as nth from listed l
        ),
        placed as (
            select _artifact_paths(coalesce(jsonb_agg(to_jsonb(n) - 'content' order by n.nth), '[]')) as paths from numbered n
        )
        select n.id, p.path, n.mime_type, n.content
        from placed
        cross join lateral unnest(placed.paths) with ordinality as p(path, nth)
        join numbered n on n.nth = p.nth;
end
$$;

create function files(id uuid) returns table (path text, mime_type text, content text)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    project projects;
    session uuid;
begin
    select p.* into project from projects p where p.id = files.id;
    if not found then
        select p.*, s.id into project.id, project.owner, project.name, project.domain, project.process, project.idempotency_key,
                              project.created_at, session
        from sessions s join projects p on p.id = s.project_id
        where s.id = files.id;
        if not found then
            raise exception 'no project and no session has the id "%"', coalesce(files.id::text, 'null')
                using errcode = 'no_data_found', hint = 'SELECT id, name FROM dialectic.projects lists yours.';
        end if;
    end if;
    return query
        select f.path, f.mime_type, f.content from _files(project.id, session) as f
        union all
        select _artifact_path(to_jsonb(g)), g.mime_type, g.content
        from (select project.name as project_name, 'project_readme' as type, 'text/markdown' as mime_type, _project_readme(project) as content
              union all
              select project.name, 'project_settings', 'application/json', jsonb_pretty(_project_settings(project))) as g
        where session is null
        order by 1;
end
$$;
comment on function files(uuid) is
    'The tree of files of a project, or of one session: every prompt, answer, document and user file with its path.';

create function storage_path(resource uuid) returns text
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    project uuid;
begin
    select a.project_id into project from _artifacts a where a.id = storage_path.resource limit 1;
    if not found then
        raise exception 'artifact "%" does not exist', coalesce(storage_path.resource::text, 'null')
            using errcode = 'no_data_found', hint = 'SELECT path FROM dialectic.files(project) lists what there is.';
    end if;
    return (select f.path from _files(project, null) as f where f.id = storage_path.resource order by f.path desc limit 1);
end
$$;
comment on function storage_path(uuid) is 'Where a resource or a contribution stands in the tree of files.';

-- What a project is, for whoever opens its folder.
create function _project_readme(project projects) returns text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format(E'# %s\n\nProcess `%s`, domain `%s`, begun %s.\n\n## Request\n\n%s\n\n## Sessions\n\n%s\n',
        project.name, project.process, project.domain, to_char(project.created_at at time zone 'UTC', 'YYYY-MM-DD'),
        (select string_agg('> ' || line, E'\n') from resources r, regexp_split_to_table(r.content, E'\n') as line
         where r.project_id = project.id and r.resource_type = 'initial_user_prompt'),
        coalesce((select string_agg(format('- `session_%s`: %s, models %s', right(s.id::text, 8), s.status, array_to_string(s.models, ', ')), E'\n' order by s.created_at)
                  from sessions s where s.project_id = project.id), 'None yet.'))
$$;

-- What it takes to run the project again as it ran.
create function _project_settings(project projects) returns jsonb
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select jsonb_build_object(
        'project', jsonb_build_object('name', project.name, 'domain', project.domain, 'process', project.process),
        'sessions', coalesce((select jsonb_agg(jsonb_build_object('id', s.id, 'models', s.models, 'definition', s.definition_id, 'iteration', s.iteration)
                                               order by s.created_at)
                              from sessions s where s.project_id = project.id), '[]'),
        'definitions', coalesce((select jsonb_object_agg(d.id, jsonb_build_object(
                                     'process', d.process, 'domain', d.domain, 'stages', d.stages, 'prompts', d.prompts,
                                     'documents', d.documents, 'overlays', d.overlays))
                                 from definitions d where d.id in (select s.definition_id from sessions s where s.project_id = project.id)), '{}'),
        'models', coalesce((select jsonb_agg(to_jsonb(m) - 'created_at' - 'is_shipped' order by m.name) from _current_models m
                            where m.name in (select unnest(s.models) from sessions s where s.project_id = project.id)), '[]'))
$$;

-- Answers that are documents themselves, and those that were put together or rendered from answers; of each document the newest version.
create view documents with (security_invoker) as
    with version as (
        select c.id, c.session_id, c.iteration, c.stage, c.model, c.lineage_id, c.reviewer, c.document_key, c.content, c.created_at,
               c.id as root_id, c.job_id, c.finish_reason = 'stop' as is_complete, j.version, j.parent_job_id, j.step_key, j.group_key
        from contributions c
        join jobs j on j.id = c.job_id and j.status <> 'superseded'
        where c.document_key is not null and not c.is_part and c.mime_type = 'text/markdown'
        union all
        select r.id, r.session_id, r.iteration, r.stage, r.model, r.lineage_id, coalesce(r.reviewer, c.reviewer), r.document_key, r.content, r.created_at,
               c.id, c.job_id, r.is_complete, r.version, j.parent_job_id, j.step_key, j.group_key
        from resources r
        join jobs j on j.id = r.job_id
        left join contributions c on c.id = r.source_contribution_id
        where r.resource_type = 'rendered_document' and r.document_key is not null and j.status <> 'superseded'
    ),
    newest as (
        -- What a step made for one of its groups: several groups of a model may share a lineage and a reviewer.
        select distinct on (v.session_id, v.parent_job_id, v.step_key, v.group_key) v.*
        from version v
        order by v.session_id, v.parent_job_id, v.step_key, v.group_key, v.version desc, v.created_at desc, v.id desc
    ),
    -- By the same rule as in the tree of files: all versions of all documents of a session, in the order they were made.
    placed as (
        select folder.session_id, place.id, place.path
        from (select a.session_id, array_agg(a.id order by a.created_at, a.id) as ids,
                     _artifact_paths(jsonb_agg(to_jsonb(a) - 'content' order by a.created_at, a.id)) as paths
              from _artifacts a
              where a.type = 'rendered_document' or (a.type = 'user_feedback' and a.is_about_document)
              group by a.session_id) as folder
        cross join lateral unnest(folder.ids, folder.paths) as place(id, path)
    )
    select d.id, d.session_id, d.iteration, d.stage, d.model, d.lineage_id as lineage, d.document_key, placed.path,
           d.content, d.version,
           exists (
               -- Also by way of what was condensed for it.
               with recursive read as (
                   select i.artifact from job_inputs i where i.job = d.job_id
                   union
                   select i.artifact
                   from read
                   join _condensed c on c.artifact = read.artifact
                   join job_inputs i on i.job = c.job_id)
               select from read
               left join resources r on r.id = read.artifact
               left join contributions c on c.id = read.artifact
               join jobs maker on maker.id = coalesce(r.job_id, c.job_id)
               where maker.status = 'superseded') as stale,
           d.is_complete as complete, coalesce(calls.tokens, 0)::bigint as tokens, round(coalesce(calls.cost, 0) / 1000000.0, 6) as cost, d.created_at
    from newest d
    join placed on placed.session_id = d.session_id and placed.id = d.id
    left join lateral (
        select sum(m.input_tokens + m.output_tokens) as tokens, sum(m.cost) as cost
        from (select d.job_id union select chunk.job_id from contributions chunk where chunk.root_id = d.root_id and chunk.root_id <> chunk.id) as wrote
        join model_calls m on m.job_id = wrote.job_id) as calls on true;
comment on view documents is
    'The newest version of every document a person reads, with what it took to write; stale: built on something that was replaced since. Cost is in dollars.';
