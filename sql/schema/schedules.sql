-- Schedules of pg_cron that call the extension. pg_cron stores when and as whom; what is run is stored here.

create table schedule_definitions (
    owner           text        not null,
    name            text        not null,
    role            name        not null,
    kind            text        not null check (kind in ('run', 'maintenance', 'run_pending')),
    schedule        text        not null,
    prompt          text,
    arguments       jsonb       not null default '{}',
    created_at      timestamptz not null default _now(),
    last_run_at     timestamptz,
    last_status     text        check (last_status in ('started', 'skipped')),
    last_session_id uuid,
    primary key (owner, name),
    check ((kind = 'run') = (prompt is not null))
);
comment on table schedule_definitions is
    'What is scheduled with pg_cron, by owner and name; the view schedules shows it.';
comment on column schedule_definitions.role is 'The role that scheduled it, and as which pg_cron runs it.';
comment on column schedule_definitions.schedule is 'When it runs, in the syntax and the time zone of pg_cron.';
comment on column schedule_definitions.arguments is 'The other arguments of run() or run_pending(), by name.';
comment on column schedule_definitions.last_status is
    'started, or skipped because the session of the run before was still active.';
