-- Notifications: what happened, told in the transaction that made it happen, to the owner of the session.
--
-- The trigger and the stages call what is here; nothing here moves a job.

create function _notify(
    session_id uuid, job_id uuid, type text, title text, message text, data jsonb default '{}'
) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into notifications (owner, session_id, job_id, type, title, message, data)
    select s.owner, s.id, _notify.job_id, _notify.type, _notify.title, _notify.message, _notify.data
    from sessions s where s.id = _notify.session_id;
end
$$;

-- Plans that failed: their model is left out of what comes after, as long as enough others are left.
create function _tell_of_failures(roots uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _notify(
        j.session_id, j.id, 'contribution_generation_failed', format('%s failed in %s', j.model, run.stage),
        format('%s. The other models go on without it. %s', j.error_details ->> 'message', _retry_hint(s)),
        jsonb_build_object('stage', run.stage, 'iteration', run.iteration, 'model', j.model, 'class', j.error_class,
                           'cause_job', j.cause_job_id))
    from jobs j
    join sessions s on s.id = j.session_id
    join stage_runs run on run.id = j.stage_run_id
    where j.id = any (roots);
end
$$;

-- Documents that were to be written anew and were not.
create function _tell_of_lost_versions(failed uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _notify(
        j.session_id, j.id, 'job_failed', format('%s could not write %s anew', j.model, coalesce(j.document_key, j.output_type)),
        format('%s. The version before it stands; retry() tries again.', j.error_details ->> 'message'),
        jsonb_build_object('stage', run.stage, 'iteration', run.iteration, 'model', j.model, 'document_key', j.document_key,
                           'version', j.version, 'class', j.error_class))
    from jobs j
    join stage_runs run on run.id = j.stage_run_id
    where j.id = any (failed) and j.version > 1 and j.kind in ('execute', 'render') and j.status in ('failed', 'retry_loop_failed');
end
$$;

-- Answers that are gone on with, and those that will not be and lack something.
create function _tell_of_chunks(current uuid[], job_ids uuid[], contents text[], follows jsonb[], complete boolean[], notes jsonb[])
    returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _notify(
        j.session_id, j.id, case when r.follow is null then 'contribution_generation_complete' else 'contribution_generation_continued' end,
        format(case when r.follow is null then '%s left %s incomplete' else '%s goes on with %s' end, j.model, coalesce(j.document_key, j.output_type)),
        case r.follow ->> 'why'
            when 'cut' then 'The answer was cut off.'
            when 'asked' then 'The answer says that it is not finished.'
            when 'missing' then format('The answer lacks %s.', (select string_agg(k, ', ') from jsonb_array_elements_text(r.follow -> 'missing') as k))
            else concat_ws('. ', upper(left(r.notes ->> 0, 1)) || substr(r.notes ->> 0, 2),
                           case when _key_of(j) is null then 'It is kept as far as it goes'
                                else 'It is kept as far as it goes; regenerate() writes it anew' end) || '.' end,
        jsonb_build_object('stage', run.stage, 'iteration', run.iteration, 'model', j.model, 'document_key', j.document_key,
                           'continuation', j.continuation_count))
    from unnest(job_ids, contents, follows, complete, notes) as r(job_id, content, follow, is_complete, notes)
    -- What is condensed to fit is nobody's document.
    join jobs j on j.id = r.job_id and j.id = any (current) and j.kind = 'execute'
    join stage_runs run on run.id = j.stage_run_id
    where r.follow is not null or (r.content is not null and not r.is_complete);
end
$$;

create function notifications_since(id bigint default 0) returns setof notifications
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _refuse_null('id', notifications_since.id is null);
    return query select n.* from notifications n where n.id > notifications_since.id order by n.id;
end
$$;
comment on function notifications_since(bigint) is 'What happened after the notification of this number, oldest first.';
