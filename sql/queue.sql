-- The queue beside the jobs: who claims, what was claimed, who stands in line, how far each step is.
--
-- No index of jobs mentions what changes while a job runs, so that moving one writes no index. What must be found by that has a
-- narrow table of its own here, kept by the triggers on jobs (engine/job_trigger.sql) and the claim (engine/claim.sql). Nothing here moves a job.

create sequence claim_ids as bigint;
comment on sequence claim_ids is 'Every claim draws its fence here.';

-- A sequence, for it leaves no dead rows: where the claims stand is read by everyone who lines up a job.
create sequence claim_positions as bigint minvalue 0 start 0;
comment on sequence claim_positions is 'The position that was claimed last; a job that is lined up now comes right after it.';

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
comment on table claimers is 'The claimers inside the server that may hold claims; one that is gone is struck off when its claims are free. Whether it lives its lock says, not this table.';

comment on column claimers.server is 'The server and timeline on which it claimed; null where its claims came with a dump.';
comment on column claimers.has_left is 'Set by a claimer that ends in order: its claims are released like those of one that died, and count as no loss.';

create table claims (
    id          uuid    primary key default _uuid_v7(),
    claimed_by  text    not null,
    lease_until timestamptz,
    is_alone    boolean not null default false,
    job_ids     uuid[]  not null
);
create index claims_leased on claims (lease_until) where lease_until is not null;
comment on table claims is 'What a claimer took in one go and may still hold, or have a call open for. Which job is whose its own row says; this is where to look when a claimer is gone.';

comment on column claims.is_alone is 'Whether nothing else was in flight with its one job, because an earlier claim of that job was lost.';

-- A job that may have killed its claimer is worked alone, so that the next loss tells whether it did.
create table suspect_jobs (
    job_id     uuid        primary key,
    session_id uuid        not null,
    losses     integer     not null default 0,
    breaks     integer     not null default 0,
    lost_at    timestamptz not null default now()
);
comment on table suspect_jobs is 'Jobs whose claimer died while it held them: each is worked alone next. A finished call deletes the row.';
comment on column suspect_jobs.losses is 'How often its claimer died while it worked this job alone; three losses fail the job.';
comment on column suspect_jobs.lost_at is 'When its claimer died last.';
comment on column suspect_jobs.breaks is 'Losses whose call had streamed new text: it came further each time, so only thirty fail the job.';

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
comment on table ready_jobs is 'The line: a row for every job that may be claimed once its time has come. Those that are tried again stand apart, by their time.';

create table steps_under_way (
    stage_run_id  uuid    not null,
    parent_job_id uuid    not null,
    step_key      text    not null,
    unfinished    integer not null,
    failed        integer not null,
    primary key (stage_run_id, parent_job_id, step_key)
) with (fillfactor = 50);
comment on table steps_under_way is 'How many jobs of each step of a plan have not ended, and how many failed; a step with neither has no row.';

create table queues (
    name     text    not null,
    is_test  boolean not null,
    priority integer not null,
    primary key (name, is_test, priority)
);
comment on table queues is 'Every queue that a job ever lined up in; rows are added and never changed, so a claim finds its queues whatever old snapshots are held.';
