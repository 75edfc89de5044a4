-- Who sees and does what. Rows belong to an owner (_current_owner), and row-level security shows each his own; an admin sees
-- all. PUBLIC has nothing: grant_user and grant_admin give a role what it needs.
--
-- Users never write a table: every change goes through a function, and those that change things check the owner
-- first. They run with the rights of the extension's owner and are called through an entry, which refuses where it
-- cannot be told who is asking.

do $$
declare
    policy record;
begin
    for policy in
        select * from (values
            ('projects', 'owner = (select dialectic._current_owner())'),
            ('sessions', 'owner = (select dialectic._current_owner())'),
            ('stage_runs', 'session_id in (select s.id from dialectic.sessions s)'),
            ('jobs', 'session_id in (select s.id from dialectic.sessions s)'),
            ('job_inputs', 'job in (select j.id from dialectic.jobs j)'),
            ('job_dependencies', 'job_id in (select j.id from dialectic.jobs j)'),
            ('contributions', 'session_id in (select s.id from dialectic.sessions s)'),
            ('resources', 'project_id in (select p.id from dialectic.projects p)'),
            ('model_calls', 'session_id in (select s.id from dialectic.sessions s)'),
            ('partials', 'job_id in (select j.id from dialectic.jobs j)'),
            ('notifications', 'owner = (select dialectic._current_owner())'),
            ('definitions', 'id in (select s.definition_id from dialectic.sessions s)'),
            ('queues', 'false'),
            ('ready_jobs', 'false'),
            ('steps_under_way', 'stage_run_id in (select r.id from dialectic.stage_runs r)'),
            ('claimers', 'false'),
            ('claims', 'false'),
            ('suspect_jobs', 'session_id in (select s.id from dialectic.sessions s)'),
            ('wallets', 'owner = (select dialectic._current_owner())'),
            ('ledger', 'owner = (select dialectic._current_owner())'),
            ('budgets', 'session_id in (select s.id from dialectic.sessions s)'),
            ('unfunded_jobs', 'owner = (select dialectic._current_owner())'),
            ('usage_history', 'owner = (select dialectic._current_owner())'),
            ('deleted_calls', 'owner = (select dialectic._current_owner())'),
            -- Policies read which sessions are deleted, with the rights of whoever reads; there is nothing but ids.
            ('deletions', 'true'),
            ('maintenance', 'true'),
            ('schedule_definitions', 'owner = (select dialectic._current_owner())'),
            ('memory', 'project_id in (select p.id from dialectic.projects p)'),
            ('retrievals', 'job in (select j.id from dialectic.jobs j)'),
            ('index_leases', 'false')
        ) as p(table_name, seen)
    loop
        execute format('alter table %I enable row level security', policy.table_name);
        execute format('create policy owner_sees on %I for select using ((select dialectic._is_admin()) or %s)', policy.table_name, policy.seen);
    end loop;
end
$$;

-- The texts of a deleted session or project are hidden from admins too, until maintain() has removed its rows.
do $$
declare
    policy record;
begin
    for policy in
        select * from (values ('projects', 'id'), ('sessions', 'id'), ('stage_runs', 'session_id'),
                              ('jobs', 'session_id'), ('contributions', 'session_id'), ('resources', 'session_id'),
                              ('resources', 'project_id'),
                              ('model_calls', 'session_id'), ('notifications', 'session_id'),
                              ('memory', 'session_id'), ('memory', 'project_id')
        ) as p(table_name, column_name)
    loop
        execute format('create policy %3$I on %1$I as restrictive for select '
                       'using (%2$I is null or %2$I not in (select d.id from dialectic.deletions d))',
                       policy.table_name, policy.column_name, 'deleted_is_hidden_by_' || policy.column_name);
    end loop;
end
$$;

-- Where secrets are found concerns nobody, no admin either: the worker reads it as the owner.
alter table secrets enable row level security;
create policy nobody_sees on secrets for select using (false);

-- Everything users make is dumped, and what ships is not. Of secrets only the references are there to be dumped.
do $$
declare
    name text;
begin
    foreach name in array array['projects', 'sessions', 'stage_runs', 'jobs', 'job_inputs', 'job_dependencies', 'contributions',
                                'resources', 'model_calls', 'partials', 'token_ratios', 'claims', 'suspect_jobs', 'notifications', 'definitions', 'wallets', 'ledger',
                                'budgets', 'unfunded_jobs', 'usage_history', 'usage_history_id_seq', 'deleted_calls', 'deletions', 'schedule_definitions', 'memory', 'retrievals', 'claim_ids', 'partials_part_no_seq', 'notifications_id_seq', 'ledger_id_seq'] loop
        perform pg_extension_config_dump(format('dialectic.%I', name)::regclass, '');
    end loop;
    foreach name in array array['configuration', 'providers', 'secrets', 'models', 'prompt_templates', 'document_templates', 'processes', 'stages', 'domains',
                                'domain_overlays'] loop
        perform pg_extension_config_dump(format('dialectic.%I', name)::regclass, 'where not is_shipped');
    end loop;
end
$$;

-- What each kind of role may call. Functions that begin with _ are ours, but for those that views and policies call.
create function _granted_functions(kind text) returns setof regprocedure
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select p.oid::regprocedure
    from pg_proc p
    where p.pronamespace = 'dialectic'::regnamespace
      and p.prorettype <> 'trigger'::regtype
      and case
              when p.proname in (
                  '_any_claimer_works', '_artifact_paths', '_artifact_places', '_breaker_threshold', '_check_recipe',
                  '_check_isolation', '_check_scheduler', '_cron_database', '_cron_job_name', '_cron_runs', '_delete_schedule',
                  '_preload_with_cron', '_schedule_in_cron', '_store_schedule', '_histogram_median',
                  '_claimer_key', '_claimer_lock_id', '_live_claimers', '_count_message_tokens', '_count_tokens', '_current_owner',
                  '_dearest', '_dollars', '_dropped_models', '_ended_statuses', '_explain', '_explain_before',
                  '_actual_usage', '_explain_facts', '_explain_past', '_explain_session', '_failed_by_template', '_forecast_prices',
                  '_past_lengths', '_past_runs', '_past_samples',
                  '_failed_regeneration', '_has_fallback', '_has_jwt_identity', '_hold_ups', '_is_admin', '_is_current_xid',
                  '_is_planned_past', '_job_counts',
                  '_knit', '_measured_model', '_min_models', '_model_stages', '_now', '_owner_of', '_plan_recipe', '_prices',
                  '_project_file_path', '_project_readme', '_project_settings', '_ready_statuses', '_receipt', '_refuse_null', '_register_waiter',
                  '_repair_json', '_retry_hint', '_seen_session', '_session_state', '_sleep_until_change', '_step_progress', '_count_with_noun', '_time_taken',
                  '_undelivered', '_unregister_waiter', '_wallet_reserve', '_budget_reserve', '_want_of_funds',
                  '_worker_state') then true
              when p.proname in (
                  '_append_partials', '_catalog', '_cooldowns', '_close_claimer', '_combine', '_document_jobs',
                  '_close_calls', '_close_lost_calls', '_cooldown_facts', '_delete_void_claims', '_due_sessions',
                  '_fail_unreadable', '_funding_facts', '_keep_documents', '_lost_prompts', '_move_jobs',
                  '_pause_unfunded', '_release_void_claims', '_retry_settings', '_return_claims', '_set_cooldowns',
                  '_settle_calls', '_store_answers',
                  '_learn_ratios', '_release_claimer', '_release_claims', '_lock_sessions', '_next_due', '_open_calls',
                  '_open_claimer',
                  '_move_plans', '_plan_children', '_plan_progress', '_plan_roots', '_plan_sources',
                  '_request_inputs', '_request_jobs', '_request_prompts', '_request_texts', '_revoked', '_store_seeds',
                  '_claim_batch', '_add_late_usage', '_maintain_batch', '_maintenance_due_in', '_end_maintenance',
                  '_require_commits', '_complete_index_jobs', '_index_inputs', '_index_jobs', '_store_embeddings',
                  '_unembedded_texts',
                  '_request_passages', '_save_passages') then kind = 'admin'
              when p.proname like '\_%' then false
              when p.proname in (
                  'add_model', 'add_provider', 'add_setting', 'claim_jobs', 'close_wallet', 'complete_job', 'create_memory_index', 'define_process',
                  'define_stage', 'fail_job', 'grant_admin', 'grant_user', 'import_models', 'job_request',
                  'maintain', 'open_wallet', 'run_pending', 'schedule_maintenance', 'schedule_run_pending', 'self_check', 'set_config', 'set_document_template', 'set_domain',
                  'set_prompt', 'set_secret', 'top_up') then kind = 'admin'
              else true end
$$;

create function _grant(role_name name, kind text) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    granted regprocedure;
begin
    if not exists (select from pg_roles r where r.rolname = role_name) then
        raise exception 'role "%" does not exist', coalesce(role_name, 'null')
            using errcode = 'undefined_object', hint = 'CREATE ROLE it first.';
    end if;
    execute format('grant usage on schema dialectic to %I', role_name);
    execute (select format('grant select on table %s to %I', string_agg(format('dialectic.%I', c.relname), ', '), role_name)
             from pg_class c
             where c.relnamespace = 'dialectic'::regnamespace and c.relkind in ('r', 'p', 'v', 'm') and c.relname <> 'secrets');
    for granted in select * from _granted_functions(kind) loop
        execute format('grant execute on routine %s to %I', granted, role_name);
    end loop;
end
$$;

create function grant_user(role name) returns void
    language sql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _grant(role, 'user')
$$;
comment on function grant_user(name) is 'Lets a role run processes and see what is its own.';

create function grant_admin(role name) returns void
    language sql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _grant(role, 'admin')
$$;
comment on function grant_admin(name) is 'Lets a role see everything, define processes and models, change settings and work the queue.';

-- A function declared SECURITY DEFINER moves to dialectic_internal, where nobody may call it. In its place stands an
-- entry of the same signature that records its caller before it switches to the owner (src/api/entry.rs); dependents
-- keep pointing there.
create schema dialectic_internal;
do $$
declare
    routine record;
begin
    for routine in
        select p.proname, p.provolatile, p.proisstrict, p.proparallel, p.procost, p.proretset, p.prorows,
               pg_get_functiondef(p.oid) as definition, pg_get_function_result(p.oid) as result,
               pg_get_function_arguments(p.oid) as arguments, pg_get_function_identity_arguments(p.oid) as identity
        from pg_proc p
        where p.pronamespace = 'dialectic'::regnamespace and p.prosecdef
    loop
        execute regexp_replace(routine.definition, '^CREATE OR REPLACE FUNCTION dialectic\.',
                               'create function dialectic_internal.');
        execute format('alter function dialectic_internal.%I(%s) security invoker', routine.proname, routine.identity);
        execute format('create or replace function dialectic.%I(%s) returns %s language c %s %s %s cost %s %s '
                       'as %L, %L', routine.proname, routine.arguments, routine.result,
                       case routine.provolatile when 'v' then 'volatile' when 's' then 'stable' else 'immutable' end,
                       case when routine.proisstrict then 'strict' else '' end,
                       case routine.proparallel when 'u' then 'parallel unsafe' when 'r' then 'parallel restricted'
                                                else 'parallel safe' end,
                       routine.procost, case when routine.proretset then format('rows %s', routine.prorows) else '' end,
                       'MODULE_PATHNAME', 'dialectic_call_as_owner');
    end loop;
end
$$;

revoke all on all routines in schema dialectic, dialectic_internal from public;

-- Default privileges of the installer may have granted something to other roles: only grant_user and grant_admin do.
do $$
declare
    grantee name;
begin
    for grantee in
        select distinct r.rolname
        from (select c.relacl as acl, c.relowner as owner from pg_class c where c.relnamespace = 'dialectic'::regnamespace
              union all
              select p.proacl, p.proowner from pg_proc p
              where p.pronamespace in ('dialectic'::regnamespace, 'dialectic_internal'::regnamespace)
              union all
              select n.nspacl, n.nspowner from pg_namespace n where n.nspname in ('dialectic', 'dialectic_internal')) as o
        cross join aclexplode(o.acl) as granted
        join pg_roles r on r.oid = granted.grantee and r.oid <> o.owner
    loop
        execute format('revoke all on all tables in schema dialectic from %I', grantee);
        execute format('revoke all on all sequences in schema dialectic from %I', grantee);
        execute format('revoke all on all routines in schema dialectic, dialectic_internal from %I', grantee);
        execute format('revoke all on schema dialectic, dialectic_internal from %I', grantee);
    end loop;
end
$$;

-- The launcher hears of this database when the extension is committed.
select _notify_worker(null, false);
