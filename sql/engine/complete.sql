-- Completing: answers are stored and their jobs completed; jobs without an answer are moved to where the core says.
--
-- The caller has locked the claims of all jobs given here (_close_calls). What the end of a job wakes or fails is the
-- trigger's business (job_trigger.sql). Never decides what becomes of a failed job, and never calls a model.

-- An answer. Its text is null where no call was made, because the window has no room for a continuation.
create type _answer as (
    job_id          uuid,
    claim_id        bigint,
    -- The id of the contribution.
    id              uuid,
    text            text,
    finish_reason   text,
    input_tokens    bigint,
    output_tokens   bigint,
    cached_tokens   bigint,
    -- The whole answer in normal form, where it is JSON or came in several chunks.
    content         text,
    -- Why more of it is asked for, and which keys it lacks; null where it is all there will be.
    continue_reason text,
    missing_keys    text[],
    is_complete     boolean,
    notes           text[]
);

-- Where a job goes that was not answered; with a class it has failed, else it is called again with a larger budget.
create type _job_move as (
    job_id        uuid,
    status        text,
    is_charged    boolean,
    after_seconds double precision,
    error_class   text,
    error_message text,
    error_hint    text,
    output_budget bigint
);

-- Stores answers and completes their jobs.
create function _store_answers(answers _answer[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
    ids    uuid[] := array(select a.job_id from unnest(answers) as a);
    -- Jobs that continue what an earlier call of theirs had streamed.
    torn   uuid[] := '{}';
    -- Looked for once: hardly any answer stands on passages.
    has_notes boolean := exists (select from retrievals r where r.job = any (ids) and r.note is not null);
begin
    if exists (select from partials p where p.job_id = any (ids)) then
        torn := _keep_fragments(answers);
        delete from partials p where p.job_id = any (ids);
    end if;
    perform _insert_contributions(answers, torn);
    -- What follows an answer is inserted before its job completes, so that whoever counts always sees it.
    if exists (select from unnest(answers) as a where a.content is not null or a.continue_reason is not null) then
        perform _follow_answers(answers);
    end if;
    update jobs j
    set status = 'completed', completed_at = moment, attempt_count = j.attempt_count + 1, error_details = null,
        results = jsonb_strip_nulls(jsonb_build_object(
            'contribution_id', coalesce(j.output_text_id, case when a.text is not null then a.id end),
            'notes', to_jsonb(nullif(case when has_notes then a.notes || _retrieval_notes(j.id) else a.notes end,
                                     '{}')))),
        status_before = null, claim_id = null, claimed_by = null, lease_until = null
    from unnest(answers) as a
    where j.id = a.job_id;
    if exists (select from jobs j where j.id = any (ids) and j.version > 1) then
        perform _replace_older(ids);
    end if;
end
$$;

-- Inserts the texts of answers as contributions: a chunk of a chain, or an answer of its own. In plpgsql, because a
-- function in SQL is planned again at each call.
create function _insert_contributions(answers _answer[], torn uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into contributions (
        id, session_id, job_id, root_id, chunk_no, stage, iteration, step_key, output_type, model, document_key,
        lineage_id, reviewer, source_prompt_resource_id, is_header, is_part, finish_reason, input_tokens, output_tokens,
        cached_tokens, content, mime_type)
    select made.id, j.session_id, j.id,
           case when j.id = any (torn) then (select c.root_id from contributions c where c.job_id = j.id limit 1)
                else coalesce(j.target_contribution_id, made.id) end,
           case when j.id = any (torn) then (select max(c.chunk_no) + 1 from contributions c where c.job_id = j.id)
                else coalesce(j.after_chunk, 0) + 1 end,
           run.stage, run.iteration, j.step_key, j.output_type, j.model, j.document_key, j.lineage_id, j.reviewer,
           (select p.id from resources p
            where p.job_id = j.id and p.resource_type in ('turn_prompt', 'planner_prompt', 'continuation_prompt')
              and (p.resource_type = 'continuation_prompt') = made.is_continuation),
           j.makes = 'header', made.is_continuation or a.continue_reason is not null,
           a.finish_reason, a.input_tokens, a.output_tokens, a.cached_tokens, a.text,
           case j.makes when 'text' then 'text/markdown' else 'application/json' end
    from unnest(answers) as a
    join jobs j on j.id = a.job_id
    join stage_runs run on run.id = j.stage_run_id
    cross join lateral (
        -- A condensed text gets the id under which other jobs wait for it, as soon as it is whole.
        select j.target_contribution_id is not null or j.id = any (torn) as is_continuation,
               case when j.target_contribution_id is null and j.id <> all (torn) and a.continue_reason is null
                    then coalesce(j.output_text_id, a.id) else a.id end as id) as made
    where a.text is not null;
end
$$;

-- The SQLSTATE of a class of errors that has one of its own: 54 are exceeded limits of a program.
create function _sqlstate_of(class text) returns text
    language sql immutable parallel safe
    return case class when 'context_window' then '54C01' end;

-- Moves jobs that were not answered.
create function _move_jobs(moves _job_move[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    moment timestamptz := _now();
begin
    delete from suspect_jobs s using unnest(moves) as m where s.job_id = m.job_id;
    -- What a model streamed that refused or wrote nonsense is not continued.
    delete from partials p using unnest(moves) as m where p.job_id = m.job_id and m.error_class = 'content';
    update jobs j
    set status = m.status, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        attempt_count = j.attempt_count + m.is_charged::integer,
        queue_position = greatest(j.queue_position, _claim_position()),
        run_at = case when m.error_class is null then j.run_at
                      else moment + make_interval(secs => m.after_seconds) end,
        completed_at = case when m.status in ('failed', 'retry_loop_failed') then moment end,
        error_details = case when m.error_class is null then j.error_details else jsonb_strip_nulls(jsonb_build_object(
            'class', m.error_class, 'sqlstate', _sqlstate_of(m.error_class), 'message', m.error_message,
            'hint', m.error_hint, 'at', moment)) end,
        output_budget = coalesce(m.output_budget, j.output_budget)
    from unnest(moves) as m
    where j.id = m.job_id;
end
$$;

-- Returns claimed jobs that were not called to where they were; no attempt is charged.
create function _return_claims(job_ids uuid[], claim_ids bigint[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    -- Read once: in the statement below it would be read again for every job.
    current uuid[] := _lock_claims(job_ids, claim_ids);
begin
    update jobs j
    set status = j.status_before, status_before = null, claim_id = null, claimed_by = null, lease_until = null,
        queue_position = greatest(j.queue_position, _claim_position())
    where j.id = any (current);
end
$$;
