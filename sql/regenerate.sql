-- Regenerating a document: a new version is written from the newest inputs.
--
-- The old version stands until the new one is complete; then it is superseded and kept, and documents that were built
-- on it are shown as stale (documents.stale). A new version that fails changes nothing.

-- The key of the document of a job. A step that names no key uses its output type.
create function _key_of(job jobs) returns text
    language sql immutable
    return coalesce((job).document_key, case when (job).makes = 'document' then (job).output_type end);

-- The job that wrote the document: in the newest iteration that has it, there in the last stage, in its newest version.
create function _job_of_document(owned sessions, document_key text, model text, lineage uuid) returns jobs
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    written jobs[];
begin
    written := array(
        select newest from (
            select distinct on (j.parent_job_id, j.step_key, j.group_key) j
            from jobs j
            join stage_runs run on run.id = j.stage_run_id
            where j.session_id = owned.id and j.kind = 'execute' and j.continuation_count = 0
              and j.status = 'completed' and _key_of(j) = _job_of_document.document_key
              and j.model = _job_of_document.model
              and (_job_of_document.lineage is null or j.lineage_id = _job_of_document.lineage)
              and (run.iteration, run.position) = (
                  select r.iteration, r.position
                  from jobs o
                  join stage_runs r on r.id = o.stage_run_id
                  where o.session_id = owned.id and _key_of(o) = _job_of_document.document_key and o.model = j.model
                    and o.kind = 'execute' and o.status = 'completed'
                  order by r.iteration desc, r.position desc
                  limit 1)
            order by j.parent_job_id, j.step_key, j.group_key, j.version desc) as version(newest)
        order by (newest).id);
    if cardinality(written) = 0 then
        raise exception 'model "%" has written no document "%" in this session', model, document_key
            using errcode = 'no_data_found',
                  hint = 'SELECT model, document_key, lineage FROM dialectic.documents lists what there is.';
    end if;
    if cardinality(written) > 1 then
        raise exception 'model "%" wrote "%" for % lineages', model, document_key, cardinality(written)
            using errcode = 'ambiguous_parameter',
                  detail = (select string_agg(format('%s (the proposal of %s)', w.lineage_id, origin.model), ', '
                                              order by w.lineage_id)
                            from unnest(written) as w left join jobs origin on origin.id = w.lineage_id),
                  hint = 'Say which with lineage => …';
    end if;
    return written[1];
end
$$;

-- Refuses a document that is being written, or whose plan is not complete: a new version that fails now would fail the
-- plan, and the jobs that it has planned read the old version.
create function _refuse_unfinished_document(old jobs, document_key text) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    plan_status text := (select j.status from jobs j where j.id = old.parent_job_id);
begin
    if exists (
        select from jobs j
        where (j.parent_job_id, j.step_key, j.group_key) = (old.parent_job_id, old.step_key, old.group_key)
          and j.status <> all (_ended_statuses())) then
        raise exception 'document "%" of model "%" is being written', document_key, old.model
            using errcode = 'object_in_use', hint = format('Wait with CALL dialectic.wait(%L).', old.session_id);
    end if;
    if plan_status <> 'completed' then
        raise exception 'model "%" has not completed the stage of document "%"', old.model, document_key
            using errcode = 'object_not_in_prerequisite_state', detail = format('Its plan is %s.', plan_status),
                  hint = format(case when plan_status = any (_ended_statuses())
                                     then 'SELECT dialectic.retry(%L) brings back what failed.'
                                     else 'Wait with CALL dialectic.wait(%L).' end, old.session_id);
    end if;
end
$$;

create function regenerate(session uuid, document_key text, model text, lineage uuid default null) returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    owned   sessions := _own_session(regenerate.session);
    old     jobs;
    new_job uuid := _uuid_v7();
begin
    perform _refuse_cancelled(owned);
    perform _refuse_null('document_key', regenerate.document_key is null);
    perform _refuse_null('model', regenerate.model is null);
    old := _job_of_document(owned, regenerate.document_key, regenerate.model, regenerate.lineage);
    perform _refuse_unfinished_document(old, regenerate.document_key);
    -- The lineage stays: it is named after its first text. A version that failed keeps its number.
    insert into jobs (
        id, session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, output_type, makes,
        document_key, strategy, lineage_id, reviewer, version, priority, max_retries, is_test_job, queue_position)
    values (
        new_job, old.session_id, old.stage_run_id, old.parent_job_id, 'execute', old.step_key, old.model,
        old.group_key, old.output_type, old.makes, old.document_key, old.strategy, old.lineage_id, old.reviewer,
        (select 1 + max(j.version)
         from jobs j
         where (j.parent_job_id, j.step_key, j.group_key) = (old.parent_job_id, old.step_key, old.group_key)),
        old.priority, old.max_retries, old.is_test_job, _claim_position() + 1);
    insert into job_inputs (job, position, artifact, role, part, relevance, retrieval)
    -- A condensed input is replaced by the texts it was made from, which may have newer versions.
    with recursive read as (
        select array[i.position] as place, i.artifact, i.role, i.part, i.relevance, i.retrieval
        from job_inputs i
        where i.job = old.id
        union all
        select read.place || i.position, i.artifact, i.role, i.part, i.relevance, i.retrieval
        from read
        join _condensed c on c.artifact = read.artifact
        join job_inputs i on i.job = c.job_id
    ),
    -- The parts of a text are one input again.
    original as (
        select min(read.place) as place, read.artifact, read.role, read.part, max(read.relevance) as relevance,
               read.retrieval
        from read
        where not exists (select from _condensed c where c.artifact = read.artifact)
        group by read.artifact, read.role, read.part, read.retrieval
    )
    select new_job, row_number() over (order by o.place), coalesce(_newest_of(o.artifact), o.artifact), o.role, o.part,
           o.relevance, o.retrieval
    from original o;
    return new_job;
end
$$;
comment on function regenerate(uuid, text, text, uuid) is
    'Writes one document of a session anew and returns the job; the old version is kept, and what was built on it is '
    'shown as stale.';

-- The newest version of an artifact that was replaced; null when it was not.
create function _newest_of(artifact uuid) returns uuid
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select (select newer.id
            from resources newer
            join jobs n on n.id = newer.job_id and n.status = 'completed'
            where newer.session_id = r.session_id and newer.stage = r.stage and newer.iteration = r.iteration
              and newer.resource_type = r.resource_type
              and n.parent_job_id = j.parent_job_id and n.step_key = j.step_key and n.group_key = j.group_key
            order by newer.version desc, newer.id desc
            limit 1)
    from resources r
    join jobs j on j.id = r.job_id and j.status = 'superseded'
    where r.id = artifact and j.makes <> 'text'
      and r.resource_type in ('header_context', 'assembled_json', 'rendered_document')
    union all
    -- A text is an answer itself, or was put together from several chunks.
    select (select newer.id
            from jobs n
            cross join lateral (
                select c.id from contributions c where c.job_id = n.id and not c.is_part
                union all
                select r.id from resources r where r.job_id = n.id and r.resource_type = 'rendered_document') as newer
            where n.parent_job_id = j.parent_job_id and n.step_key = j.step_key and n.group_key = j.group_key
              and n.status = 'completed'
            order by n.version desc, newer.id desc
            limit 1)
    from (select c.id, c.job_id from contributions c where c.id = artifact
          union all
          select r.id, r.job_id from resources r where r.id = artifact) as old
    join jobs j on j.id = old.job_id and j.status = 'superseded' and j.makes = 'text'
$$;

-- Called when jobs have completed: a complete new version supersedes the older ones. A document is complete when it is
-- rendered, other JSON when it is assembled.
create function _replace_older(done uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _supersede(array(
        select older.id
        from jobs newer
        join jobs older on older.parent_job_id = newer.parent_job_id and older.step_key = newer.step_key
            and older.group_key = newer.group_key and older.version < newer.version and older.status = 'completed'
        where newer.id = any (done) and newer.version > 1 and newer.status = 'completed'
          and case newer.makes
                  when 'text' then exists (select from contributions c where c.job_id = newer.id and not c.is_part)
                      or exists (
                          select from resources r where r.job_id = newer.id and r.resource_type = 'rendered_document')
                  when 'document' then newer.kind = 'render'
                  else exists (
                      select from resources r
                      where r.job_id = newer.id and r.resource_type in ('header_context', 'assembled_json')) end));
end
$$;
