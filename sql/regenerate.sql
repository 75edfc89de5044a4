-- Writing one document anew: the old version is kept and superseded, the new one reads what is newest now. What was built on the
-- old one is shown as stale (documents.stale); nothing else is touched.

create function regenerate(session uuid, document_key text, model text, lineage uuid default null) returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    owned    sessions := _own_session(regenerate.session);
    found    jobs[];
    old      jobs;
    anew     uuid := _uuid_v7();
begin
    perform _refuse_null('document_key', regenerate.document_key is null);
    perform _refuse_null('model', regenerate.model is null);
    -- In the newest iteration that has it.
    found := array(
        select j from jobs j
        join stage_runs run on run.id = j.stage_run_id
        where j.session_id = owned.id and j.kind = 'execute' and j.continuation_count = 0 and j.status = 'completed'
          and j.document_key = regenerate.document_key and j.model = regenerate.model
          and (regenerate.lineage is null or j.lineage_id = regenerate.lineage)
          and run.iteration = (select max(r.iteration) from jobs o join stage_runs r on r.id = o.stage_run_id
                               where o.session_id = owned.id and o.document_key = j.document_key and o.model = j.model
                                 and o.kind = 'execute' and o.status = 'completed')
        order by j.id);
    if cardinality(found) = 0 then
        raise exception 'model "%" has written no document "%" in this session', regenerate.model, regenerate.document_key
            using errcode = 'no_data_found', hint = 'SELECT model, document_key, lineage FROM dialectic.documents lists what there is.';
    end if;
    if cardinality(found) > 1 then
        raise exception 'model "%" wrote "%" for % lineages', regenerate.model, regenerate.document_key, cardinality(found)
            using errcode = 'ambiguous_parameter',
                  detail = (select string_agg(format('%s (the proposal of %s)', f.lineage_id, origin.model), ', ' order by f.lineage_id)
                            from unnest(found) as f left join jobs origin on origin.id = f.lineage_id),
                  hint = 'Say which with lineage => …';
    end if;
    old := found[1];
    if exists (select from jobs j where j.parent_job_id = old.parent_job_id and j.step_key = old.step_key and j.group_key = old.group_key
                 and j.status <> all (_ended_statuses())) then
        raise exception 'document "%" of model "%" is being written', regenerate.document_key, regenerate.model
            using errcode = 'object_in_use', hint = format('Wait with CALL dialectic.wait(%L).', owned.id);
    end if;
    perform _supersede(array(
        select j.id from jobs j
        where j.parent_job_id = old.parent_job_id and j.step_key = old.step_key and j.group_key = old.group_key
          and j.version = old.version and j.status = 'completed'));
    insert into jobs (id, session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, output_type, makes, document_key, strategy,
                      lineage_id, reviewer, version, priority, max_retries, is_test_job, turn)
    values (anew, old.session_id, old.stage_run_id, old.parent_job_id, 'execute', old.step_key, old.model, old.group_key, old.output_type,
            old.makes, old.document_key, old.strategy,
            -- The first text of a lineage gives it its name, and what descends from it goes by that.
            old.lineage_id, old.reviewer, old.version + 1, old.priority, old.max_retries, old.is_test_job, _claim_turn() + 1);
    insert into job_inputs (job, position, artifact, role, part, relevance)
    select anew, i.position, coalesce(_newest_of(i.artifact), i.artifact), i.role, i.part, i.relevance
    from job_inputs i
    where i.job = old.id;
    return anew;
end
$$;
comment on function regenerate(uuid, text, text, uuid) is
    'Writes one document of a session anew and returns the job; the old version is kept, and what was built on it is shown as stale.';

-- What stands now in the place of an artifact that was replaced; null when it was not.
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
    where r.id = artifact and r.resource_type in ('header_context', 'assembled_json', 'rendered_document')
    union all
    select (select newer.id
            from jobs n
            join contributions newer on newer.job_id = n.id
            where n.parent_job_id = j.parent_job_id and n.step_key = j.step_key and n.group_key = j.group_key and n.status = 'completed'
            order by n.version desc, newer.id desc
            limit 1)
    from contributions c
    join jobs j on j.id = c.job_id and j.status = 'superseded'
    where c.id = artifact
$$;
