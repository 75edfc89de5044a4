-- Projects and what their runs produce: sessions, stage runs, answers, texts, calls, notifications.
--
-- Identity is in columns, never in names or paths. Foreign keys run one way (project > session > stage run), so that a
-- dump restores table by table. Rows below a stage run have none: a key is checked row by row, which costs a fifth of a
-- call, and these rows are filled from the row above them under the lock of the session and deleted with it. The same
-- holds for columns that repeat a reachable id (session_id) or point sideways or back (source_contribution_id).
-- self_check() verifies them all. Nothing here moves a job.

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
    status        text        not null default 'active'
        check (status in ('active', 'completed', 'failed', 'cancelled')),
    created_at    timestamptz not null default _now(),
    completed_at  timestamptz,
    check ((status = 'completed') = (completed_at is not null))
);
create index sessions_project on sessions (project_id);
create index sessions_owner on sessions (owner, id);
comment on table sessions is
    'One run of a process over a project with a set of models. The row is also the lock under which its jobs move.';
comment on column sessions.last_position is
    'The position of the last job that was lined up; the next one comes after it.';
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
comment on table contributions is
    'Raw model answers, one row per answer or chunk of one; never changed after they are saved.';
comment on column contributions.root_id is 'The first chunk of the answer: its own id where it is the first.';
comment on column contributions.chunk_no is 'Which chunk of the answer it is, from 1 on.';
comment on column contributions.is_part is
    'Whether it is one of several chunks: the whole is a text of its own, among resources.';
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
        'domain_standards', 'success_criteria', 'constraint_boundaries', 'stakeholder_considerations',
        'reference_documents', 'compliance_requirements', 'project_readme', 'project_settings', 'pending_file',
        'current_file', 'complete_file'))
);
create index resources_project on resources (project_id, resource_type) where job_id is null;
create index resources_session on resources (session_id, stage, iteration) where job_id is null;
create index resources_made on resources (session_id, stage, iteration)
    where resource_type in ('header_context', 'assembled_json', 'rendered_document');
-- A stage run has one seed prompt.
create unique index resources_seed on resources (session_id, stage, iteration) where resource_type = 'seed_prompt';
-- A job has one prompt and makes one text of each type; only the passages that it was sent have names.
create unique index resources_of_job on resources (job_id, resource_type, name) nulls not distinct
    where job_id is not null;
comment on table resources is
    'Every other text: prompts, seed prompts, headers, assembled answers, documents, user files, feedback. A prompt '
    'is a JSON list of messages.';
comment on column resources.source_resource_id is 'Of a document, the assembled answer it was rendered from.';
comment on column resources.is_complete is
    'Whether an answer was neither cut off nor lacks anything that was asked for.';

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
    outcome            text        not null default 'open'
        check (outcome in ('open', 'answered', 'failed', 'late', 'lost')),
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
comment on table model_calls is
    'One row per call, written before the request leaves and closed when its answer is kept. held, cost and unbilled '
    'are micro-dollars.';

comment on column model_calls.payer is 'The owner whose wallet pays for it, where a wallet does.';
comment on column model_calls.outcome is
    'open, answered, failed, late (its job was somebody else''s by then) or lost (its claimer died).';
comment on column model_calls.first_byte_at is 'When the first of the answer came.';
comment on column model_calls.http_status is 'The status of the response, where there was one.';
comment on column model_calls.error_class is
    'What kind of failure it was: throttled, transient, permanent, configuration, content or context_window.';
comment on column model_calls.finish_reason is
    'Why the model stopped: stop, length, content_filter, tool_use, error or unknown.';
comment on column model_calls.cached_tokens is 'Of the tokens read, those from the cache of the provider.';
comment on column model_calls.cache_write_tokens is 'Of the tokens read, those written into it.';
comment on column model_calls.reasoning_tokens is 'Of the tokens written, those that were only thought.';
comment on column model_calls.prices is
    'Of a token in micro-dollars, or of a million in dollars, as they were when it was opened: read, read from a '
    'cache, read into one, written, thought.';
comment on column model_calls.cost is 'Micro-dollars, rounded up once.';
comment on column model_calls.held is
    'Micro-dollars it may cost at the most, held before it left; null where neither a wallet nor a budget limits it.';
comment on column model_calls.unbilled is 'Micro-dollars that were used beyond what was held, and not charged.';
comment on column model_calls.model is
    'The model that was called: the fallback, where it stands in for the model of the job.';
comment on column model_calls.finish_reason_raw is 'Why the model stopped, in the word of its provider.';
comment on column model_calls.input_tokens is 'Tokens read, those from and into a cache included.';
comment on column model_calls.output_tokens is 'Tokens written, those that were only thought included.';
comment on column model_calls.is_estimated is
    'Whether the provider did not say what was consumed, and it was counted here.';

create table notifications (
    id                bigint      generated by default as identity primary key,
    owner             text        not null,
    session_id        uuid,
    job_id            uuid,
    type              text        not null check (type in (
        'contribution_generation_started', 'dialectic_contribution_started', 'contribution_generation_retrying',
        'contribution_generation_continued', 'dialectic_contribution_received', 'contribution_generation_failed',
        'contribution_generation_complete', 'contribution_generation_paused_nsf', 'planner_started',
        'planner_completed', 'execute_started', 'execute_chunk_completed', 'execute_completed', 'render_started',
        'render_completed', 'job_failed', 'dialectic_progress_update', 'stage_completed', 'session_completed')),
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

-- Most prompts fit into a page when they are compressed: inline they cost one write, in the TOAST table one per 2 kB.
-- lz4 compresses several times faster than the default, where the server has it.
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
