-- Usage: what calls took and cost, of calls that exist and of calls that are deleted. Read only, with the rights of
-- whoever reads.

create view usage with (security_invoker) as
    select s.owner, c.session_id, run.stage, c.model, (c.started_at at time zone 'UTC')::date as day, count(*) as calls,
           count(*) filter (where c.outcome in ('failed', 'lost')) as failed_calls,
           coalesce(sum(c.input_tokens), 0)::bigint as input_tokens,
           coalesce(sum(c.cached_tokens), 0)::bigint as cached_tokens,
           coalesce(sum(c.cache_write_tokens), 0)::bigint as cache_write_tokens,
           coalesce(sum(c.output_tokens), 0)::bigint as output_tokens,
           coalesce(sum(c.reasoning_tokens), 0)::bigint as reasoning_tokens,
           round(coalesce(sum(c.cost), 0) / 1000000.0, 6) as cost,
           round(coalesce(sum(c.unbilled), 0) / 1000000.0, 6) as unbilled,
           percentile_disc(0.5) within group (order by c.finished_at - c.started_at) as median_time,
           percentile_disc(0.5) within group (order by c.first_byte_at - c.started_at) as median_first_byte
    from model_calls c
    join sessions s on s.id = c.session_id
    join jobs j on j.id = c.job_id
    join stage_runs run on run.id = j.stage_run_id
    -- Row-level security does not hide a deleted session from a superuser, and its calls are in the roll-up.
    where c.session_id not in (select d.id from deletions d)
    group by s.owner, c.session_id, run.stage, c.model, (c.started_at at time zone 'UTC')::date
    union all
    select h.owner, null, h.stage, h.model, h.day, sum(h.calls)::bigint, sum(h.failed_calls)::bigint,
           sum(h.input_tokens)::bigint, sum(h.cached_tokens)::bigint, sum(h.cache_write_tokens)::bigint,
           sum(h.output_tokens)::bigint, sum(h.reasoning_tokens)::bigint,
           round(sum(h.cost) / 1000000.0, 6), round(sum(h.unbilled) / 1000000.0, 6),
           _histogram_median(jsonb_agg(h.latencies)), _histogram_median(jsonb_agg(h.first_bytes))
    from usage_history h
    group by h.owner, h.day, h.stage, h.model;
comment on view usage is
    'Calls, tokens, cost in dollars and latency by owner, session, stage, called model and day (UTC). '
    'Calls of deleted sessions are in rows whose session_id is null.';
comment on column usage.session_id is 'Null for the calls of all deleted sessions together.';
comment on column usage.failed_calls is
    'Those that failed or were lost with their claimer; not those that were ended by cancel() or pause().';
comment on column usage.cost is 'What the calls cost, in dollars.';
comment on column usage.unbilled is 'What of it was charged to nobody, in dollars.';
comment on column usage.median_time is
    'From the request to the end of the answer. Of deleted calls, rounded up by at most a fifth.';
