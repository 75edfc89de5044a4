-- Deletion: the rows below a project, session, stage run or job are deleted with it, as a set and not row by row.

create function _delete_below() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    case tg_table_name
        when 'projects' then
            delete from resources r using gone where r.project_id = gone.id and r.job_id is null;
        when 'sessions' then
            delete from resources r using gone where r.session_id = gone.id and r.job_id is null;
            delete from notifications n using gone where n.session_id = gone.id;
            delete from jobs j using gone where j.session_id = gone.id;
            delete from budgets b using gone where b.session_id = gone.id;
        when 'stage_runs' then
            delete from jobs j using gone where j.session_id = gone.session_id and j.stage_run_id = gone.id;
        when 'jobs' then
            delete from ready_jobs r using gone where r.job_id = gone.id;
            delete from suspect_jobs s using gone where s.job_id = gone.id;
            delete from steps_under_way u using gone
            where u.stage_run_id = gone.stage_run_id and u.parent_job_id = gone.id;
            update claims c
            set job_ids = array(select id from unnest(c.job_ids) as id where id not in (select g.id from gone g))
            where exists (select from gone g where g.id = any (c.job_ids));
            delete from claims c where c.job_ids = '{}';
            delete from job_inputs i using gone where i.job = gone.id;
            delete from contributions c using gone where c.job_id = gone.id;
            perform _release_money(array(
                select c.id
                from gone
                join model_calls c on c.job_id = gone.id
                where c.outcome = 'open' and c.held is not null));
            delete from model_calls c using gone where c.job_id = gone.id;
            delete from unfunded_jobs u using gone where u.job_id = gone.id;
            delete from partials p using gone where p.job_id = gone.id;
            delete from resources r using gone where r.job_id = gone.id;
    end case;
    return null;
end
$$;
do $$
declare
    above text;
begin
    foreach above in array array['projects', 'sessions', 'stage_runs', 'jobs'] loop
        execute format('create trigger _delete_below after delete on %I referencing old table as gone
                            for each statement execute function _delete_below()', above);
    end loop;
end
$$;
