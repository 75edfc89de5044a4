-- What users make and what runs: projects, sessions, stage runs, jobs, answers, texts, calls.
--
-- Identity is in columns, never in names or paths. Foreign keys run one way only (project > session > stage run), so that a dump
-- restores table by table. From jobs on there are none: a key is checked row by row, a fifth of what a call costs, while these rows
-- are filled from the row above them under the lock of the session, and go with it. The same holds for columns that repeat what
-- can be reached (session_id) or point sideways or back (parent_job_id, target_contribution_id, source_contribution_id, artifact).
-- self_check() verifies them all. How jobs move is not decided here.

create table projects (
    id              uuid        primary key default _uuid_v7(),
    owner           text        not null,
    name            text        not null,
    domain          text        not null,
    process         text        not null,
    idempotency_key text,
    created_at      timestamptz not null default _now(),
    unique (owner, idempotency_key)
);
comment on table projects is 'A prompt with a name, a domain and an owner; the prompt itself is a resource.';

create table sessions (
    id            uuid        primary key default _uuid_v7(),
    project_id    uuid        not null references projects on delete cascade,
    owner         text        not null,
    process       text        not null,
    definition_id text        not null references definitions,
    description   text,
    models        text[]      not null check (cardinality(models) > 0),
    current_stage text        not null,
    through_stage text,
    iteration     integer     not null default 1 check (iteration > 0),
    last_position     bigint      not null default 0,
    auto_advance  boolean     not null default false,
    is_test       boolean     not null default false,
    status        text        not null default 'active' check (status in ('active', 'completed', 'failed', 'cancelled')),
    created_at    timestamptz not null default _now(),
    completed_at  timestamptz,
    check ((status = 'completed') = (completed_at is not null))
);
create index sessions_project on sessions (project_id);
create index sessions_owner on sessions (owner, id);
comment on table sessions is 'One run of a process over a project with a set of models. The row is also the lock under which its jobs move.';
comment on column sessions.last_position is 'The position of the last job that was lined up; the next one comes after it.';
comment on column sessions.through_stage is 'The last stage to run; null means the last stage of the process.';

create table stage_runs (
    id                      uuid        primary key default _uuid_v7(),
    session_id              uuid        not null references sessions on delete cascade,
    stage                   text        not null,
    position                integer     not null default 1 check (position > 0),
    iteration               integer     not null check (iteration > 0),
    status                  text        not null default 'pending'
        check (status in ('pending', 'running', 'completed', 'failed', 'abandoned')),
    continue_until_complete boolean     not null default true,
    max_output_tokens       integer     check (max_output_tokens > 0),
    idempotency_keys        text[]      not null default '{}',
    created_at              timestamptz not null default _now(),
    started_at              timestamptz,
    completed_at            timestamptz,
    idle                    tstzmultirange not null default '{}',
    unique (session_id, stage, iteration)
);
create index stage_runs_running on stage_runs (id) where status = 'running';
comment on table stage_runs is 'One stage of one iteration of a session.';
comment on column stage_runs.status is
    'pending, running, completed, failed, or abandoned: not generated when the session went back to an earlier stage.';
comment on column stage_runs.idle is 'When it had ended, before a retry set it going again.';

create table jobs (
    id                     uuid        primary key default _uuid_v7(),
    session_id             uuid        not null,
    stage_run_id           uuid        not null,
    parent_job_id          uuid,
    kind                   text        not null,
    step_key               text,
    model                  text        not null,
    group_key              text        not null default '',
    output_type            text,
    makes                  text        not null default 'text' check (makes in ('text', 'header', 'json', 'document')),
    document_key           text,
    strategy               text,
    lineage_id             uuid,
    reviewer               text,
    version                integer     not null default 1 check (version > 0),
    status                 text        not null default 'pending',
    status_before          text,
    attempt_count          integer     not null default 0 check (attempt_count >= 0),
    max_retries            integer     not null default 3 check (max_retries >= 0),
    continuation_count     integer     not null default 0 check (continuation_count >= 0),
    target_contribution_id uuid,
    priority               integer     not null default 0,
    queue_position                   bigint      not null default 0,
    queue                   text        not null generated always as (case when kind in ('plan', 'render') then '' else model end) stored,
    run_at                 timestamptz not null default _now(),
    claim_id               bigint,
    claimed_by             text,
    lease_until            timestamptz,
    created_at             timestamptz not null default _now(),
    started_at             timestamptz,
    completed_at           timestamptz,
    planned_steps          text[],
    after_chunk            integer,
    continue_reason        text,
    missing_keys           text[],
    output_budget          bigint,
    combine_depth          integer,
    output_text_id         uuid,
    results                jsonb,
    error_details          jsonb,
    error_class            text        generated always as (error_details ->> 'class') stored,
    cause_job_id           uuid        generated always as ((error_details ->> 'cause_job')::uuid) stored,
    is_test_job            boolean     not null default false,
    idempotency_key        text,
    check ((kind = 'plan' and parent_job_id is null) = (step_key is null))
) with (fillfactor = 50);
comment on table jobs is 'Units of work. Rows move only through the verbs: claim_jobs, complete_job, fail_job, cancel, pause, resume, retry.';
comment on column jobs.group_key is 'Which of the groups that a step fans out into this job works on; unique per stage run, step and model.';
comment on column jobs.reviewer is 'The model whose review of the lineage this job writes or merges.';
comment on column jobs.makes is 'What the answer is: a text, which is the document itself; a header; JSON; or JSON that is rendered into a document.';
comment on column jobs.strategy is 'How its step fans out.';
comment on column jobs.version is '1, and one more each time the same work is done anew.';
comment on column jobs.attempt_count is 'Attempts charged to the job; a throttled call, a crash and a pause charge none.';
comment on column jobs.status_before is 'Where the job goes back to when its claim, its wait or its pause ends.';
comment on column jobs.priority is 'Higher runs first.';
comment on column jobs.queue_position is 'The place in line: of equal priority the lower one runs first. Sessions take turns: each lines up from where the claims stand.';
comment on column jobs.queue is 'Jobs that need the same model line up in one queue; those that call none have a queue of their own.';
comment on column jobs.planned_steps is 'Of a plan: the steps whose jobs are inserted. Null before its first planning.';
comment on column jobs.after_chunk is 'Of a continuation: the number of the last chunk that was written before it.';
comment on column jobs.continue_reason is 'Of a continuation: why the answer is continued.';
comment on column jobs.missing_keys is 'Of a continuation: the keys that the answer lacks.';
comment on column jobs.output_budget is
    'The output tokens that the next call may use, when an earlier call used all of its tokens and said nothing.';
comment on column jobs.combine_depth is 'Of a combine job: how many times the text that it writes was condensed.';
comment on column jobs.output_text_id is
    'Of a combine job: the id that its text will have. The job that reads the text already lists it.';
comment on column jobs.error_class is 'The class of the last error, as in error_details.';
comment on column jobs.cause_job_id is 'The job whose end failed or cancelled this one, as in error_details.';
comment on column jobs.claim_id is 'The fence: drawn anew for each claim; an answer that carries another one is late.';

-- One list of statuses and kinds, kept in the core crate; every set and check in the database is made from it.
create table job_statuses (
    status      text primary key,
    phase       text not null,
    description text not null
);
comment on table job_statuses is 'The statuses of a job, each with its phase: ready, running, waiting, paused or ended.';
insert into job_statuses select * from _job_statuses();

create table job_transitions (
    from_status text not null references job_statuses,
    to_status   text not null references job_statuses,
    primary key (from_status, to_status)
);
comment on table job_transitions is 'Every legal move of a job from one status to another; anything else is refused.';
insert into job_transitions select * from _job_transitions();

do $$
declare
    statuses text := (select string_agg(quote_literal(status), ', ' order by status) from job_statuses);
    ready    text := (select string_agg(quote_literal(status), ', ') from job_statuses where phase = 'ready');
    ended    text := (select string_agg(quote_literal(status), ', ') from job_statuses where phase = 'ended');
    kinds    text := (select string_agg(quote_literal(kind), ', ') from _job_kinds() as kind);
    classes  text := (select string_agg(quote_literal(class), ', ') from _job_error_classes() as class);
    -- A body that is a constant is inlined: a statement that asks for one of these lists calls no function.
    list     text := 'create function %I() returns text[] language sql immutable parallel safe return array[%s]';
begin
    execute format('alter table jobs add constraint jobs_status_check check (status in (%s))', statuses);
    execute format('alter table jobs add constraint jobs_status_before_check check (status_before in (%s))', statuses);
    execute format('alter table jobs add constraint jobs_kind_check check (kind in (%s))', kinds);
    execute format(
        'alter table jobs add constraint jobs_completed_at_check check ((status in (%s)) = (completed_at is not null))',
        ended);
    execute format(list, '_ready_statuses', ready);
    execute format(list, '_ended_statuses', ended);
    execute format(list, '_error_classes', classes);
end
$$;
create index jobs_session on jobs (session_id);
create unique index jobs_root on jobs (stage_run_id, model) where parent_job_id is null;
create unique index jobs_planned_once on jobs (parent_job_id, step_key, group_key, kind, continuation_count, version)
    where parent_job_id is not null;
create unique index jobs_idempotency on jobs (session_id, idempotency_key, model) where idempotency_key is not null;

create table job_dependencies (
    job_id          uuid not null references jobs on delete cascade,
    prerequisite_id uuid not null references jobs on delete cascade,
    primary key (job_id, prerequisite_id),
    check (job_id <> prerequisite_id)
);
create index job_dependencies_prerequisite on job_dependencies (prerequisite_id);
comment on table job_dependencies is 'Which jobs a job waits for before it may run.';

create table job_inputs (
    job       uuid    not null,
    position  integer not null,
    artifact  uuid    not null,
    role      text    not null,
    part      text,
    relevance double precision not null check (relevance between 0 and 1),
    primary key (job, position)
);
comment on column job_inputs.part is 'A JSON pointer to what is read of the artifact; all of it without one.';
comment on table job_inputs is 'What each job was planned with, and so exactly what is sent; an artifact is a contribution or a resource.';

create table contributions (
    id                        uuid        primary key default _uuid_v7(),
    session_id                uuid        not null,
    job_id                    uuid        not null,
    root_id                   uuid        not null,
    chunk_no                  integer     not null default 1 check (chunk_no > 0),
    stage                     text        not null,
    iteration                 integer     not null,
    step_key                  text        not null,
    output_type               text        not null,
    model                     text        not null,
    document_key              text,
    lineage_id                uuid,
    reviewer                  text,
    source_prompt_resource_id uuid,
    is_header                 boolean     not null default false,
    is_part                   boolean     not null default false,
    finish_reason             text        not null
        check (finish_reason in ('stop', 'length', 'content_filter', 'tool_use', 'error', 'unknown')),
    input_tokens              bigint      not null default 0,
    output_tokens             bigint      not null default 0,
    cached_tokens             bigint      not null default 0,
    raw_response              jsonb,
    content                   text        not null,
    mime_type                 text        not null default 'text/markdown',
    created_at                timestamptz not null default _now(),
    unique (job_id, chunk_no)
);
create index contributions_stage on contributions (session_id, stage, iteration);
create index contributions_root on contributions (root_id) where root_id <> id;
comment on table contributions is 'Raw model answers, one row per answer or chunk of one; never changed after they are saved.';
comment on column contributions.root_id is 'The first chunk of the answer: its own id where it is the first.';
comment on column contributions.chunk_no is 'Which chunk of the answer it is, from 1 on.';
comment on column contributions.is_part is 'Whether it is one of several chunks: the whole is a text of its own, among resources.';
comment on column contributions.raw_response is 'What else the provider said with the answer, where it said anything.';

create table resources (
    id                     uuid        primary key default _uuid_v7(),
    resource_type          text        not null,
    project_id             uuid        not null,
    session_id             uuid,
    job_id                 uuid,
    stage                  text,
    iteration              integer,
    step_key               text,
    output_type            text,
    model                  text,
    document_key           text,
    lineage_id             uuid,
    reviewer               text,
    version                integer     not null default 1 check (version > 0),
    source_contribution_id uuid,
    source_resource_id     uuid,
    name                   text,
    content                text        not null,
    is_complete            boolean     not null default true,
    mime_type              text        not null default 'text/markdown',
    created_at             timestamptz not null default _now(),
    constraint resources_resource_type_check check (resource_type in (
        'initial_user_prompt', 'seed_prompt', 'planner_prompt', 'turn_prompt', 'continuation_prompt', 'header_context',
        'assembled_json', 'rendered_document', 'user_feedback', 'rag_context', 'general_resource', 'deployment_context',
        'domain_standards', 'success_criteria', 'constraint_boundaries', 'stakeholder_considerations', 'reference_documents',
        'compliance_requirements', 'project_readme', 'project_settings', 'pending_file', 'current_file', 'complete_file'))
);
create index resources_project on resources (project_id, resource_type) where job_id is null;
create index resources_session on resources (session_id, stage, iteration) where job_id is null;
create index resources_made on resources (session_id, stage, iteration)
    where resource_type in ('header_context', 'assembled_json', 'rendered_document');
-- A stage run has one seed prompt.
create unique index resources_seed on resources (session_id, stage, iteration) where resource_type = 'seed_prompt';
-- A job has one prompt and makes one text of each type.
create unique index resources_of_job on resources (job_id, resource_type) where job_id is not null;
comment on table resources is 'Every other text: prompts, seed prompts, headers, assembled answers, documents, user files, feedback. A prompt is a JSON list of messages.';
comment on column resources.source_resource_id is 'Of a document, the assembled answer it was rendered from.';
comment on column resources.is_complete is 'Whether an answer was neither cut off nor lacks anything that was asked for.';

create table model_calls (
    id                 uuid        primary key default _uuid_v7(),
    session_id         uuid        not null,
    job_id             uuid        not null,
    claim_id           bigint      not null,
    claimed_by         text        not null,
    lease_until        timestamptz,
    attempt            integer     not null,
    provider           text        not null,
    model              text        not null,
    outcome            text        not null default 'open' check (outcome in ('open', 'answered', 'failed', 'late', 'lost')),
    started_at         timestamptz not null default _now(),
    first_byte_at      timestamptz,
    finished_at        timestamptz,
    http_status        integer,
    error_class        text,
    error_message      text,
    finish_reason      text,
    finish_reason_raw  text,
    input_tokens       bigint,
    output_tokens      bigint,
    cached_tokens      bigint,
    cache_write_tokens bigint,
    reasoning_tokens   bigint,
    is_estimated       boolean,
    prices             numeric[]   not null,
    held               bigint,
    payer              text,
    cost               bigint,
    unbilled           bigint      not null default 0,
    unique (job_id, claim_id),
    check ((outcome = 'open') = (finished_at is null))
) with (fillfactor = 70);
comment on table model_calls is 'One row per call, written before the request leaves and closed when its answer is kept. held, cost and unbilled are micro-dollars.';

comment on column model_calls.payer is 'The owner whose wallet pays for it, where a wallet does.';
comment on column model_calls.outcome is 'open, answered, failed, late (its job was somebody else''s by then) or lost (its claimer died).';
comment on column model_calls.first_byte_at is 'When the first of the answer came.';
comment on column model_calls.http_status is 'The status of the response, where there was one.';
comment on column model_calls.error_class is 'What kind of failure it was: throttled, transient, permanent, configuration, content or context_window.';
comment on column model_calls.finish_reason is 'Why the model stopped: stop, length, content_filter, tool_use, error or unknown.';
comment on column model_calls.cached_tokens is 'Of the tokens read, those from the cache of the provider.';
comment on column model_calls.cache_write_tokens is 'Of the tokens read, those written into it.';
comment on column model_calls.reasoning_tokens is 'Of the tokens written, those that were only thought.';
comment on column model_calls.prices is 'Of a token in micro-dollars, or of a million in dollars, as they were when it was opened: read, read from a cache, read into one, written, thought.';
comment on column model_calls.cost is 'Micro-dollars, rounded up once.';
comment on column model_calls.held is 'Micro-dollars it may cost at the most, held before it left; null where neither a wallet nor a budget limits it.';
comment on column model_calls.unbilled is 'Micro-dollars that were used beyond what was held, and not charged.';
comment on column model_calls.model is 'The model that was called: the fallback, where it stands in for the model of the job.';
comment on column model_calls.finish_reason_raw is 'Why the model stopped, in the word of its provider.';
comment on column model_calls.input_tokens is 'Tokens read, those from and into a cache included.';
comment on column model_calls.output_tokens is 'Tokens written, those that were only thought included.';
comment on column model_calls.is_estimated is 'Whether the provider did not say what was consumed, and it was counted here.';

create table notifications (
    id                bigint      generated by default as identity primary key,
    owner             text        not null,
    session_id        uuid,
    job_id            uuid,
    type              text        not null check (type in (
        'contribution_generation_started', 'dialectic_contribution_started', 'contribution_generation_retrying',
        'contribution_generation_continued', 'dialectic_contribution_received', 'contribution_generation_failed',
        'contribution_generation_complete', 'contribution_generation_paused_nsf', 'planner_started', 'planner_completed',
        'execute_started', 'execute_chunk_completed', 'execute_completed', 'render_started', 'render_completed', 'job_failed',
        'dialectic_progress_update', 'stage_completed', 'session_completed')),
    title             text        not null,
    message           text        not null,
    data              jsonb       not null default '{}',
    link_path         text,
    is_internal_event boolean     not null default false,
    read              boolean     not null default false,
    created_at        timestamptz not null default _now()
);
create index notifications_owner on notifications (owner, id);
create index notifications_session on notifications (session_id);
comment on sequence notifications_id_seq is 'The numbers of notifications, by which a client resumes.';
comment on table notifications is 'What happened, written in the transaction it tells of.';

-- What hangs on a row goes with it: as a set, where a key would go row by row.
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
            delete from steps_under_way u using gone where u.stage_run_id = gone.stage_run_id and u.parent_job_id = gone.id;
            update claims c
            set job_ids = array(select id from unnest(c.job_ids) as id where id not in (select g.id from gone g))
            where exists (select from gone g where g.id = any (c.job_ids));
            delete from claims c where c.job_ids = '{}';
            delete from job_inputs i using gone where i.job = gone.id;
            delete from contributions c using gone where c.job_id = gone.id;
            perform _release_money(array(
                select c.id from gone join model_calls c on c.job_id = gone.id where c.outcome = 'open' and c.held is not null));
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

-- Most prompts fit into a page when they are packed: kept whole there they cost one write instead of one for every 2 kB. lz4 packs
-- several times faster than the default, where the server has it.
alter table resources set (toast_tuple_target = 8160);
alter table contributions set (toast_tuple_target = 8160);
do $$
begin
    alter table contributions alter column content set compression lz4;
    alter table resources alter column content set compression lz4;
exception when feature_not_supported then
    null;
end
$$;
