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
create function _tell_of_chunks(answers _answer[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    perform _notify(
        j.session_id, j.id,
        case when a.continue_reason is null then 'contribution_generation_complete'
             else 'contribution_generation_continued' end,
        format(case when a.continue_reason is null then '%s left %s incomplete' else '%s goes on with %s' end, j.model,
               coalesce(j.document_key, j.output_type)),
        case a.continue_reason
            when 'cut' then 'The answer was cut off.'
            when 'asked' then 'The answer says that it is not finished.'
            when 'missing' then format('The answer lacks %s.', array_to_string(a.missing_keys, ', '))
            else concat_ws('. ', upper(left(a.notes[1], 1)) || substr(a.notes[1], 2),
                           case when _key_of(j) is null then 'It is kept as far as it goes'
                                else 'It is kept as far as it goes; regenerate() writes it anew' end) || '.' end,
        jsonb_build_object('stage', run.stage, 'iteration', run.iteration, 'model', j.model,
                           'document_key', j.document_key, 'continuation', j.continuation_count))
    from unnest(answers) as a
    -- What is condensed to fit is nobody's document.
    join jobs j on j.id = a.job_id and j.kind = 'execute'
    join stage_runs run on run.id = j.stage_run_id
    where a.continue_reason is not null or (a.content is not null and not a.is_complete);
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
