-- The tree of files: the path of every artifact, and which artifacts are documents that a person reads.
--
-- The core makes paths from columns; nothing stores or parses a path. Everything here only reads, with the privileges
-- of the caller.

-- The columns that decide the path of an artifact; null where the type of the artifact does not need them.
create type _path_facts as (
    project_name      text,
    session_id        uuid,
    iteration         integer,
    stage             text,
    stage_position    integer,
    type              text,
    model             text,
    source_model      text,
    reviewer          text,
    lineage_id        uuid,
    is_pair           boolean,
    key               text,
    combine_job       uuid,
    version           integer,
    continuation      integer,
    is_about_document boolean
);

-- The paths of these artifacts, in their order. Equal paths are numbered.
create function _artifact_paths(facts _path_facts[]) returns text[]
    language c immutable strict parallel safe
    as 'MODULE_PATHNAME', '_artifact_paths_wrapper';

-- Every artifact that has a path. A reader that needs paths must not select content, which is large.
create view _artifacts with (security_invoker) as
    select r.id, r.project_id, r.session_id, r.resource_type as type, facts.key,
           r.document_key is not null as is_about_document, r.mime_type, r.content, r.created_at,
           row(p.name, r.session_id, r.iteration, r.stage, coalesce(run.position, 0), r.resource_type,
               r.model, origin.model, r.reviewer, r.lineage_id, coalesce(j.strategy = 'pairwise_by_origin', false),
               facts.key, case when j.kind = 'combine' then j.id end, r.version, coalesce(j.continuation_count, 0),
               r.document_key is not null)::_path_facts as facts
    from resources r
    join projects p on p.id = r.project_id
    left join stage_runs run
           on run.session_id = r.session_id and run.stage = r.stage and run.iteration = r.iteration
    left join jobs j on j.id = r.job_id
    left join jobs origin on origin.id = r.lineage_id
    cross join lateral (
        select coalesce(case when j.makes = 'header' then r.step_key end, r.document_key, r.output_type, r.name, '')
    ) as facts(key)
    union all
    select c.id, s.project_id, c.session_id, facts.type, facts.key, true, c.mime_type, c.content, c.created_at,
           row(p.name, c.session_id, c.iteration, c.stage, run.position, facts.type,
               c.model, origin.model, c.reviewer, c.lineage_id, coalesce(j.strategy = 'pairwise_by_origin', false),
               facts.key, case when j.kind = 'combine' then j.id end, j.version, j.continuation_count,
               true)::_path_facts
    from contributions c
    join sessions s on s.id = c.session_id
    join projects p on p.id = s.project_id
    join jobs j on j.id = c.job_id
    join stage_runs run on run.id = j.stage_run_id
    left join jobs origin on origin.id = c.lineage_id
    cross join lateral (
        select case when c.mime_type = 'text/markdown' and c.document_key is not null and not c.is_part
                    then 'rendered_document' else 'raw_response' end,
               coalesce(case when j.makes = 'header' then c.step_key end, c.document_key, c.output_type)
    ) as facts(type, key);
comment on view _artifacts is 'Every artifact with the columns that decide its path.';

-- The paths of the artifacts of a project, or of one of its sessions. Artifacts of one path are numbered by age.
-- A checklist of the last stage has a second path, among the pending files of the project.
create function _artifact_places(project uuid, session uuid) returns table (id uuid, path text, mime_type text)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if not exists (select from projects p where p.id = _artifact_places.project) then
        raise exception 'project "%" does not exist', coalesce(_artifact_places.project::text, 'null')
            using errcode = 'no_data_found', hint = 'SELECT id, name FROM dialectic.projects lists yours.';
    end if;
    return query
    with listed as (
        select a.id, a.mime_type, a.created_at, false as is_pending, a.facts
        from _artifacts a
        where a.project_id = _artifact_places.project
          and (_artifact_places.session is null or a.session_id = _artifact_places.session)
        union all
        select a.id, a.mime_type, a.created_at, true,
               row((a.facts).project_name, a.session_id, (a.facts).iteration, (a.facts).stage,
                   (a.facts).stage_position, 'pending_file', (a.facts).model, null, null, null, false, a.key, null,
                   (a.facts).version, 0, false)::_path_facts
        from _artifacts a
        where a.project_id = _artifact_places.project and _artifact_places.session is null
          and a.type = 'rendered_document' and a.key = 'actionable_checklist'
    ),
    project_tree as (
        select array_agg(l.id order by l.created_at, l.id, l.is_pending) as ids,
               array_agg(l.mime_type order by l.created_at, l.id, l.is_pending) as mime_types,
               _artifact_paths(array_agg(l.facts order by l.created_at, l.id, l.is_pending)) as paths
        from listed l
    )
    select place.id, place.path, place.mime_type
    from project_tree t
    cross join lateral unnest(t.ids, t.paths, t.mime_types) as place(id, path, mime_type);
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
    select s.id into session from sessions s where s.id = files.id;
    select p.* into project
    from projects p
    where p.id = coalesce((select s.project_id from sessions s where s.id = session), files.id);
    if not found then
        raise exception 'no project and no session has the id "%"', coalesce(files.id::text, 'null')
            using errcode = 'no_data_found', hint = 'SELECT id, name FROM dialectic.projects lists yours.';
    end if;
    return query
        select place.path, place.mime_type, coalesce(r.content, c.content)
        from _artifact_places(project.id, session) as place
        left join resources r on r.id = place.id
        left join contributions c on c.id = place.id
        union all
        select _project_file_path(project.name, 'project_readme'), 'text/markdown', _project_readme(project)
        where session is null
        union all
        select _project_file_path(project.name, 'project_settings'), 'application/json',
               jsonb_pretty(_project_settings(project))
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
    return (
        select place.path
        from _artifact_places(project, null) as place
        where place.id = storage_path.resource
        order by place.path desc
        limit 1);
end
$$;
comment on function storage_path(uuid) is 'Where a resource or a contribution stands in the tree of files.';

-- The README of a project, for the reader of its folder.
create function _project_readme(project projects) returns text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format(E'# %s\n\nProcess `%s`, domain `%s`, begun %s.\n\n## Request\n\n%s\n\n## Sessions\n\n%s\n',
        project.name, project.process, project.domain, to_char(project.created_at at time zone 'UTC', 'YYYY-MM-DD'),
        (select string_agg('> ' || line, E'\n') from resources r, regexp_split_to_table(r.content, E'\n') as line
         where r.project_id = project.id and r.resource_type = 'initial_user_prompt'),
        coalesce((select string_agg(format('- `session_%s`: %s, models %s', right(s.id::text, 8), s.status,
                                           array_to_string(s.models, ', ')), E'\n' order by s.created_at)
                  from sessions s where s.project_id = project.id), 'None yet.'))
$$;

-- The settings that repeat the runs of a project: sessions, frozen definitions and models.
create function _project_settings(project projects) returns jsonb
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    with run as (
        select s.* from sessions s where s.project_id = project.id
    )
    select jsonb_build_object(
        'project', jsonb_build_object('name', project.name, 'domain', project.domain, 'process', project.process),
        'sessions', coalesce((
            select jsonb_agg(jsonb_build_object('id', r.id, 'models', r.models, 'definition', r.definition_id,
                                                'iteration', r.iteration) order by r.created_at)
            from run r), '[]'),
        'definitions', coalesce((
            select jsonb_object_agg(d.id, jsonb_build_object(
                       'process', d.process, 'domain', d.domain, 'stages', d.stages, 'prompts', d.prompts,
                       'documents', d.documents, 'overlays', d.overlays))
            from definitions d where d.id in (select r.definition_id from run r)), '{}'),
        'models', coalesce((
            select jsonb_agg(to_jsonb(m) - 'created_at' - 'is_shipped' order by m.name)
            from _current_models m where m.name in (select unnest(r.models) from run r)), '[]'))
$$;

-- The newest version of every document that a person reads: an answer that is a document itself, or a document that
-- was joined or rendered from answers. A step writes one document per group.
create view _newest_documents with (security_invoker) as
    with version as (
        select c.id, c.session_id, c.iteration, c.stage, c.model, c.lineage_id, c.document_key, c.content,
               c.created_at, c.id as root_id, c.job_id, c.finish_reason = 'stop' as is_complete, j.version,
               j.parent_job_id, j.step_key, j.group_key
        from contributions c
        join jobs j on j.id = c.job_id and j.status <> 'superseded'
        where c.document_key is not null and not c.is_part and c.mime_type = 'text/markdown'
        union all
        select r.id, r.session_id, r.iteration, r.stage, r.model, r.lineage_id, r.document_key, r.content,
               r.created_at, c.id, c.job_id, r.is_complete, r.version,
               j.parent_job_id, j.step_key, j.group_key
        from resources r
        join jobs j on j.id = r.job_id
        left join contributions c on c.id = r.source_contribution_id
        where r.resource_type = 'rendered_document' and r.document_key is not null and j.status <> 'superseded'
    )
    -- Several groups of a model may share a lineage and a reviewer, so the group is part of the identity.
    select distinct on (v.session_id, v.parent_job_id, v.step_key, v.group_key) v.*
    from version v
    order by v.session_id, v.parent_job_id, v.step_key, v.group_key, v.version desc, v.created_at desc, v.id desc;
comment on view _newest_documents is 'The newest version of every document a person reads, without its path.';

-- Paths follow the rule of the tree of files: all versions of all documents of a session, numbered by age.
create view documents with (security_invoker) as
    with placed as (
        select folder.session_id, place.id, place.path
        from (select a.session_id, array_agg(a.id order by a.created_at, a.id) as ids,
                     _artifact_paths(array_agg(a.facts order by a.created_at, a.id)) as paths
              from _artifacts a
              where a.type = 'rendered_document' or (a.type = 'user_feedback' and a.is_about_document)
              group by a.session_id) as folder
        cross join lateral unnest(folder.ids, folder.paths) as place(id, path)
    )
    select d.id, d.session_id, d.iteration, d.stage, d.model, d.lineage_id as lineage, d.document_key, placed.path,
           d.content, d.version,
           exists (
               -- An input may also have been read in its condensed form.
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
           d.is_complete as complete, coalesce(calls.tokens, 0)::bigint as tokens,
           round(coalesce(calls.cost, 0) / 1000000.0, 6) as cost, d.created_at
    from _newest_documents d
    join placed on placed.session_id = d.session_id and placed.id = d.id
    left join lateral (
        select sum(m.input_tokens + m.output_tokens) as tokens, sum(m.cost) as cost
        from (select d.job_id
              union
              select chunk.job_id from contributions chunk
              where chunk.root_id = d.root_id and chunk.root_id <> chunk.id) as wrote
        join model_calls m on m.job_id = wrote.job_id) as calls on true;
comment on view documents is
    'The newest version of every document a person reads, with what it took to write; stale: built on something that '
    'was replaced since. Cost is in dollars.';
