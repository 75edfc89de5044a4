-- Combine jobs: they condense the documents of a job whose prompt does not fit, before it is sent.
--
-- The core decides which documents, and which parts of them, each job reads and how long its text may be. Nothing here
-- counts a token, and no text is changed: a part of an artifact is a range of its bytes.

-- A combine job that is to be inserted: the tokens that its text should have, and those that it may have.
create type _combine_group as (number integer, target_tokens bigint, max_tokens bigint);

-- What a combine job reads: an input of the waiting job by its position, or a part of it.
create type _combine_member as (group_number integer, "position" integer, first_byte integer, end_byte integer);

-- Inserts a combine job for each group of inputs that do not fit into the prompt of a claimed job. The job waits for
-- them, and then reads their texts in place of the inputs. False when the claim is no longer the job's.
create function _combine(job uuid, claim_id bigint, groups _combine_group[], members _combine_member[])
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    waiter   jobs;
    combined _combine_group;
    made     uuid;
    needed   uuid[] := '{}';
    text_ids uuid[] := '{}';
begin
    select j.* into waiter from jobs j where j.id = _combine.job and j.claim_id = _combine.claim_id;
    if not found then
        return false;
    end if;
    foreach combined in array groups loop
        made := _uuid_v7();
        needed[combined.number] := made;
        text_ids[combined.number] := _uuid_v7();
        insert into jobs (
            id, session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, output_type, strategy,
            lineage_id, reviewer, version, priority, max_retries, is_test_job, queue_position, output_text_id,
            combine_depth, combine_target, combine_limit)
        select made, waiter.session_id, waiter.stage_run_id, waiter.parent_job_id, 'combine', waiter.step_key,
               waiter.model, format('combined:%s', made), 'combined', waiter.strategy, waiter.lineage_id,
               waiter.reviewer, waiter.version, waiter.priority, waiter.max_retries, waiter.is_test_job,
               greatest(waiter.queue_position, _claim_position()), text_ids[combined.number],
               1 + coalesce(max(before.combine_depth), 0), combined.target_tokens, combined.max_tokens
        from unnest(members) as m
        join job_inputs i on i.job = waiter.id and i.position = m.position
        left join _condensed t on t.artifact = i.artifact
        left join jobs before on before.id = t.job_id
        where m.group_number = combined.number;
        insert into job_inputs (job, position, artifact, role, part, relevance, first_byte, end_byte)
        select made, i.position, i.artifact, i.role, i.part, i.relevance, m.first_byte, m.end_byte
        from unnest(members) as m
        join job_inputs i on i.job = waiter.id and i.position = m.position
        where m.group_number = combined.number;
    end loop;
    perform _replace_combined_inputs(waiter.id, members, text_ids);
    perform _wait_for(waiter.id, needed);
    return true;
end
$$;

-- What is sent is what is listed: from now on the texts of the combine jobs, in the order of what they are made from.
create function _replace_combined_inputs(waiter uuid, members _combine_member[], text_ids uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    with listed as (
        delete from job_inputs i where i.job = waiter returning i.*
    ),
    replaced as (
        select l.position, 0 as group_number, l.artifact, l.role, l.part, l.relevance, l.first_byte, l.end_byte,
               l.retrieval, l.chunks
        from listed l
        where l.position not in (select m.position from unnest(members) as m)
        union all
        select min(l.position), m.group_number, text_ids[m.group_number], 'combined', null, max(l.relevance), null,
               null, null, null
        from unnest(members) as m
        join listed l on l.position = m.position
        group by m.group_number
    )
    insert into job_inputs (job, position, artifact, role, part, relevance, first_byte, end_byte, retrieval, chunks)
    select waiter, row_number() over (order by r.position, r.group_number), r.artifact, r.role, r.part, r.relevance,
           r.first_byte, r.end_byte, r.retrieval, r.chunks
    from replaced r;
end
$$;
