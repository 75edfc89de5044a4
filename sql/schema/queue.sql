-- Jobs and the queue beside them: claimers, claims, ready jobs, and the unfinished jobs of each step.
--
-- No index of jobs mentions a column that changes while a job runs, so that a move writes no index. The claim finds
-- jobs in narrow tables, which the triggers on jobs (engine/job_trigger.sql) and the claim (engine/claim.sql) keep.
-- Nothing here moves a job.

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
    queue                   text        not null
        generated always as (case when kind in ('plan', 'render', 'index') then '' else model end) stored,
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
    combine_target         bigint,
    combine_limit          bigint,
    output_text_id         uuid,
    results                jsonb,
    error_details          jsonb,
    error_class            text        generated always as (error_details ->> 'class') stored,
    cause_job_id           uuid        generated always as ((error_details ->> 'cause_job')::uuid) stored,
    is_test_job            boolean     not null default false,
    idempotency_key        text,
    check ((kind = 'plan' and parent_job_id is null) = (step_key is null))
) with (fillfactor = 50);
comment on table jobs is
    'Units of work. Rows move only through the verbs: claim_jobs, complete_job, fail_job, cancel, pause, resume, '
    'retry.';
comment on column jobs.group_key is
    'Which of the groups that a step fans out into this job works on; unique per stage run, step and model.';
comment on column jobs.reviewer is 'The model whose review of the lineage this job writes or merges.';
comment on column jobs.makes is
    'What the answer is: a text, which is the document itself; a header; JSON; or JSON that is rendered into a '
    'document.';
comment on column jobs.strategy is 'How its step fans out.';
comment on column jobs.version is '1, and one more each time the same work is done anew.';
comment on column jobs.attempt_count is
    'Attempts charged to the job; a throttled call, a crash and a pause charge none.';
comment on column jobs.status_before is 'Where the job goes back to when its claim, its wait or its pause ends.';
comment on column jobs.priority is 'Higher runs first.';
comment on column jobs.queue_position is
    'The place in line: of equal priority the lower one runs first. Sessions take turns: each lines up from where the'
    ' claims stand.';
comment on column jobs.queue is
    'Jobs that need the same model line up in one queue; those that call none have a queue of their own.';
comment on column jobs.planned_steps is 'Of a plan: the steps whose jobs are inserted. Null before its first planning.';
comment on column jobs.after_chunk is 'Of a continuation: the number of the last chunk that was written before it.';
comment on column jobs.continue_reason is 'Of a continuation: why the answer is continued.';
comment on column jobs.missing_keys is 'Of a continuation: the keys that the answer lacks.';
comment on column jobs.output_budget is
    'The output tokens that the next call may use, when an earlier call used all of its tokens and said nothing.';
comment on column jobs.combine_depth is 'Of a combine job: in how many rounds the text that it writes was condensed.';
comment on column jobs.combine_target is 'Of a combine job: the tokens that its text should have.';
comment on column jobs.combine_limit is 'Of a combine job: the tokens that its text may have, over all its calls.';
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
comment on table job_statuses is
    'The statuses of a job, each with its phase: ready, running, waiting, paused or ended.';
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
    retrieval integer,
    chunks    uuid[],
    relevance double precision not null check (relevance between 0 and 1),
    first_byte integer check (first_byte >= 0),
    end_byte   integer check (end_byte > first_byte),
    primary key (job, position),
    check ((first_byte is null) = (end_byte is null))
);
comment on column job_inputs.first_byte is
    'Of an input that is read in parts: where the part begins in what would be read otherwise, in bytes from 0.';
comment on column job_inputs.end_byte is 'Where the part ends: the byte behind it.';
comment on column job_inputs.part is 'A JSON pointer to what is read of the artifact; all of it without one.';
comment on column job_inputs.retrieval is
    'The input of the step, counted from 1, that has passages of the artifact retrieved; all of it is read without one.';
comment on column job_inputs.chunks is 'The chunks in memory whose passages were sent, where passages were retrieved.';
comment on table job_inputs is
    'What each job was planned with, and so exactly what is sent; an artifact is a contribution or a resource.';

create sequence claim_ids as bigint;
comment on sequence claim_ids is 'Every claim draws its fence here.';

-- A sequence, for it leaves no dead rows: where the claims stand is read by everyone who lines up a job.
create sequence claim_positions as bigint minvalue 0 start 0;
comment on sequence claim_positions is
    'The position that was claimed last; a job that is lined up now comes right after it.';

-- Where the claims stand: a job that becomes ready now takes its position from here.
create function _claim_position() returns bigint
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return (select last_value from claim_positions);
end
$$;

create table claimers (
    name      text        primary key,
    opened_at timestamptz not null default _now(),
    server    text,
    has_left  boolean     not null default false
);
comment on table claimers is
    'The claimers inside the server that may hold claims; one that is gone is struck off when its claims are free. '
    'Whether it lives its lock says, not this table.';

comment on column claimers.server is
    'The server and timeline on which it claimed; null where its claims came with a dump.';
comment on column claimers.has_left is
    'Set by a claimer that ends in order: its claims are released like those of one that died, and count as no loss.';

create table claims (
    id          uuid    primary key default _uuid_v7(),
    claimed_by  text    not null,
    lease_until timestamptz,
    is_alone    boolean not null default false,
    job_ids     uuid[]  not null
);
create index claims_leased on claims (lease_until) where lease_until is not null;
comment on table claims is
    'What a claimer took in one go and may still hold, or have a call open for. Which job is whose its own row says; '
    'this is where to look when a claimer is gone.';

comment on column claims.is_alone is
    'Whether nothing else was in flight with its one job, because an earlier claim of that job was lost.';

-- A job that may have killed its claimer is worked alone, so that the next loss tells whether it did.
create table suspect_jobs (
    job_id     uuid        primary key,
    session_id uuid        not null,
    losses     integer     not null default 0,
    breaks     integer     not null default 0,
    lost_at    timestamptz not null default now()
);
comment on table suspect_jobs is
    'Jobs whose claimer died while it held them: each is worked alone next. A finished call deletes the row.';
comment on column suspect_jobs.losses is
    'How often its claimer died while it worked this job alone; three losses fail the job.';
comment on column suspect_jobs.lost_at is 'When its claimer died last.';
comment on column suspect_jobs.breaks is
    'Losses whose call had streamed new text: it came further each time, so only thirty fail the job.';

-- These two are made from the rows of jobs and therefore not dumped.
create table ready_jobs (
    job_id     uuid        not null,
    queue       text        not null,
    is_test    boolean     not null,
    priority   integer     not null,
    queue_position       bigint      not null,
    run_at     timestamptz not null,
    is_delayed boolean     not null,
    session_id uuid        not null
);
create index ready_jobs_line on ready_jobs (queue, is_test, priority, is_delayed, queue_position, job_id);
create index ready_jobs_delayed on ready_jobs (run_at, job_id) where is_delayed;
-- Without one a publication for all tables would refuse every claim. The row is narrow, and a key would be one more
-- index to write.
alter table ready_jobs replica identity full;
comment on table ready_jobs is
    'The line: a row for every job that may be claimed once its time has come. Those that are tried again stand '
    'apart, by their time.';

create table steps_under_way (
    stage_run_id  uuid    not null,
    parent_job_id uuid    not null,
    step_key      text    not null,
    unfinished    integer not null,
    failed        integer not null,
    primary key (stage_run_id, parent_job_id, step_key)
) with (fillfactor = 50);
comment on table steps_under_way is
    'How many jobs of each step of a plan have not ended, and how many failed; a step with neither has no row.';

create table queues (
    name     text    not null,
    is_test  boolean not null,
    priority integer not null,
    primary key (name, is_test, priority)
);
comment on table queues is
    'Every queue that a job ever lined up in; rows are added and never changed, so a claim finds its queues whatever '
    'old snapshots are held.';
