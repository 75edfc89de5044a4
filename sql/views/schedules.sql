-- Schedules and what became of their last run. Read only, with the rights of whoever reads.

-- The last run of each job of ours in pg_cron that the caller may see; nothing where pg_cron is in another database.
create function _cron_runs()
    returns table (job_name text, role name, is_active boolean, started_at timestamptz, status text, message text)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if to_regclass('cron.job_run_details') is null or not has_schema_privilege('cron', 'usage') then
        return;
    end if;
    return query execute
        'select j.jobname::text, j.username::name, j.active, d.start_time, d.status, d.return_message
         from cron.job j
         left join lateral (select r.start_time, r.status, r.return_message from cron.job_run_details r
                            where r.jobid = j.jobid order by r.runid desc limit 1) as d on true
         where j.database = current_database()';
end
$$;

create view schedules with (security_invoker) as
    select s.owner, s.name, s.kind, s.schedule, s.role, s.prompt, s.arguments, s.created_at,
           coalesce(c.is_active, false) as is_in_cron, greatest(s.last_run_at, c.started_at) as last_run_at,
           case when c.started_at > s.last_run_at or s.last_run_at is null then c.status else s.last_status end
               as last_status,
           case when c.started_at > s.last_run_at or s.last_run_at is null then c.message end as last_message,
           s.last_session_id
    from schedule_definitions s
    left join _cron_runs() as c on c.job_name = _cron_job_name(s.name) and c.role = s.role;
comment on view schedules is 'What is scheduled with pg_cron, with the time, status and session of the last run.';
comment on column schedules.is_in_cron is
    'Whether pg_cron has an active job for it. False where pg_cron is in another database, or hidden from you.';
comment on column schedules.last_status is
    'started or skipped; otherwise the status in pg_cron, such as failed or succeeded. Null before the first run.';
comment on column schedules.last_message is 'What pg_cron recorded of a run that failed.';
comment on column schedules.last_session_id is 'The session that was started last.';
