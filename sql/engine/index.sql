-- Indexing: what a step retrieves from is cut into chunks and embedded before the step is asked.
--
-- An index job works on one artifact, or, without any, on the queries of the jobs that wait for it. It embeds one batch
-- per call and returns to the queue until nothing is left. It never fails: where texts cannot be embedded it completes
-- with a note, and retrieval ranks by words alone. Decides nothing about ranking (api/memory.sql).

-- The embedding model that can be called; null where none is set, or where a person must correct its provider. A
-- provider that only asks for a pause is waited for. Its fallback does not count: vectors of two models differ.
create function _usable_embedding_model() returns text
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    model text := get_config('embedding_model') #>> '{}';
begin
    return (select m.name from _current_models m
            where m.name = model and not exists (
                select from _model_cooldowns c where c.model = m.name and c.paused_reason is not null));
end
$$;

-- What a job searches for: an input of its step, counted from 1, is read as passages.
create type _query as (number integer, query text, match_count integer, metadata_filter jsonb);

-- Stores the queries of a claimed job, and inserts index jobs for what it retrieves from and is not indexed yet. The
-- job waits for them, or returns to the queue where nothing is missing. False when the claim is no longer the job's.
create function _index_inputs(job uuid, claim_id bigint, queries _query[]) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    waiter   jobs;
    wanted   constant text := (_embedding_model()).name;
    embedder constant text := _usable_embedding_model();
    source   uuid;
    needed   uuid[] := '{}';
begin
    select j.* into waiter from jobs j where j.id = _index_inputs.job and j.claim_id = _index_inputs.claim_id;
    if not found then
        return false;
    end if;
    insert into retrievals (job, number, query, match_count, metadata_filter, note)
    select waiter.id, q.number, q.query, coalesce(q.match_count, (get_config('match_count') #>> '{}')::integer),
           q.metadata_filter,
           case when embedder is null and wanted is not null
                then format('embedding model "%s" cannot be called', wanted) end
    from unnest(queries) as q
    on conflict on constraint retrievals_pkey do nothing;
    for source in
        select distinct i.artifact from job_inputs i
        join unnest(queries) as q on q.number = i.retrieval
        where i.job = waiter.id and not _is_indexed(i.artifact, embedder)
    loop
        needed := needed || _insert_index_job(waiter, embedder, source);
    end loop;
    if embedder is not null then
        needed := needed || _insert_index_job(waiter, embedder, null);
    end if;
    if needed = '{}' then
        perform _return_claims(array[waiter.id], array[waiter.claim_id]);
    else
        perform _wait_for(waiter.id, needed);
    end if;
    return true;
end
$$;

-- Whether a text is in memory, with embeddings of this model where one is given.
create function _is_indexed(source uuid, embedder text) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return exists (select from memory m where m.source_id = source)
       and (embedder is null or not exists (
           select from memory m where m.source_id = source and m.embedding_model is distinct from embedder));
end
$$;

-- Inserts the index job of an artifact, or of the queries where none is given. A job without a model calls none.
create function _insert_index_job(waiter jobs, embedder text, source uuid) returns uuid
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    made uuid := _uuid_v7();
begin
    insert into jobs (
        id, session_id, stage_run_id, parent_job_id, kind, step_key, model, group_key, output_type, strategy,
        version, priority, max_retries, is_test_job, queue_position)
    values (
        made, waiter.session_id, waiter.stage_run_id, waiter.parent_job_id, 'index', waiter.step_key,
        coalesce(embedder, ''), format('index:%s', made), 'index', waiter.strategy, waiter.version, waiter.priority,
        waiter.max_retries, waiter.is_test_job, greatest(waiter.queue_position, _claim_position()));
    insert into job_inputs (job, position, artifact, role, relevance)
    select made, 1, source, 'indexed', 1 where source is not null;
    return made;
end
$$;

-- What these claimed index jobs need to be worked; texts that are not in memory yet are put there first.
create function _index_jobs(job_ids uuid[])
    returns table (job_id uuid, claim_id bigint, session_id uuid, model text, call_no bigint, is_of_queries boolean,
                   is_leased boolean, note text)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    -- No text is sent to a model that is no longer set: two models would overwrite the embeddings of each other.
    current constant text := (_embedding_model()).name;
begin
    perform _remember(array(select i.artifact from job_inputs i where i.job = any (job_ids) order by i.artifact));
    return query
        select j.id, j.claim_id, j.session_id, case when j.model = current then j.model end,
               (select count(*) from model_calls c where c.job_id = j.id) + 1, i.artifact is null,
               i.artifact is null or j.model is distinct from current or _lease_index(i.artifact, j.id, j.claim_id),
               case when j.model <> '' and j.model is distinct from current
                    then format('embedding model "%s" is no longer set', j.model) end
        from unnest(job_ids) as claimed(id)
        join jobs j on j.id = claimed.id and j.claim_id is not null
        left join job_inputs i on i.job = j.id
        order by j.id;
end
$$;

-- Whether this claim may have a text embedded: no other claim that still holds is about to. Sessions of one project
-- share their attachments, and none of them is to pay for what another one is being charged for.
create function _lease_index(source uuid, job uuid, claim_id bigint) returns boolean
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    insert into index_leases as l (source_id, job_id, claim_id)
    values (source, _lease_index.job, _lease_index.claim_id)
    on conflict (source_id) do update set job_id = excluded.job_id, claim_id = excluded.claim_id
        where not exists (select from jobs j where j.id = l.job_id and j.claim_id = l.claim_id);
    return exists (
        select from index_leases l
        where l.source_id = source and l.job_id = _lease_index.job and l.claim_id = _lease_index.claim_id);
end
$$;

-- The texts of these index jobs that have no embedding of their model, in order; at most max_texts of each job.
create function _unembedded_texts(job_ids uuid[], max_texts integer)
    returns table (job_id uuid, target uuid, content text)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select j.id, t.target, t.content
        from jobs j
        cross join lateral (
            select m.id as target, _chunk_text(m.metadata, m.content) as content, m.chunk_no as nth
            from job_inputs i
            join memory m on m.source_id = i.artifact and m.embedding_model is distinct from j.model
            where i.job = j.id
            union all
            select r.id, r.query, r.number
            from job_dependencies d
            join retrievals r on r.job = d.job_id and r.embedding_model is distinct from j.model
            where d.prerequisite_id = j.id and not exists (select from job_inputs i where i.job = j.id)
            order by nth
            limit max_texts) as t
        where j.id = any (job_ids) and j.model <> ''
        order by j.id, t.nth;
end
$$;

-- A vector for a chunk or a query.
create type _embedding as (target uuid, model text, vector real[]);

create function _store_embeddings(embeddings _embedding[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    -- Assigned as an array, which pgvector casts: its type may be in any schema.
    update memory m set embedding = e.vector, embedding_model = e.model
    from unnest(embeddings) as e where m.id = e.target;
    update retrievals r set embedding = e.vector, embedding_model = e.model
    from unnest(embeddings) as e where r.id = e.target;
end
$$;

-- Completes index jobs, each with a note where texts have no embedding.
create function _complete_index_jobs(job_ids uuid[], notes text[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    delete from index_leases l where l.job_id = any (job_ids);
    update jobs j
    set status = 'completed', completed_at = _now(), error_details = null,
        results = jsonb_strip_nulls(jsonb_build_object('note', e.note)),
        status_before = null, claim_id = null, claimed_by = null, lease_until = null
    from unnest(job_ids, notes) as e(job_id, note)
    where j.id = e.job_id;
    update retrievals r set note = e.note
    from unnest(job_ids, notes) as e(job_id, note)
    join job_dependencies d on d.prerequisite_id = e.job_id
    where r.job = d.job_id and e.note is not null;
end
$$;

-- The passages that these jobs read. A query that was not embedded by the current model finds by words alone.
create function _request_passages(job_ids uuid[])
    returns table (job_id uuid, number integer, source_id uuid, chunk_id uuid, chunk_no integer, content text,
                   headings text[])
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    embedder constant text := (_embedding_model()).name;
begin
    -- Retention may have deleted chunks of a session that ended and is tried again.
    perform _remember(array(
        select distinct i.artifact from job_inputs i
        join retrievals r on r.job = i.job and r.number = i.retrieval
        where i.job = any (job_ids)
        order by i.artifact));
    return query
        select r.job, r.number, m.source_id, m.id, m.chunk_no, m.content,
               array(select jsonb_array_elements_text(m.metadata -> 'headings'))
        from retrievals r
        cross join lateral _match(
            array(select i.artifact from job_inputs i where i.job = r.job and i.retrieval = r.number), r.query,
            case when r.embedding_model = embedder then r.embedding end, r.match_count, r.metadata_filter) as f
        join memory m on m.id = f.id
        where r.job = any (job_ids);
end
$$;

-- The passages of an artifact that a job is sent.
create type _sent_passages as (job_id uuid, number integer, artifact uuid, chunks uuid[], content text);

-- Records which passages jobs are sent whose prompts were just stored; a job that is tried again sends the same ones.
create function _save_passages(passages _sent_passages[]) returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    update job_inputs i set chunks = p.chunks
    from unnest(passages) as p
    where i.job = p.job_id and i.artifact = p.artifact and i.retrieval = p.number;
    insert into resources (
        resource_type, project_id, session_id, job_id, stage, iteration, step_key, output_type, model, document_key,
        lineage_id, reviewer, version, name, content)
    select 'rag_context', s.project_id, s.id, j.id, run.stage, run.iteration, j.step_key, j.output_type, j.model,
           j.document_key, j.lineage_id, j.reviewer, j.version,
           format('%s %s', t.metadata ->> 'name', right(p.artifact::text, 8)), p.content
    from unnest(passages) as p
    join jobs j on j.id = p.job_id
    join sessions s on s.id = j.session_id
    join stage_runs run on run.id = j.stage_run_id
    join lateral _artifact_texts(array[p.artifact]) as t on true
    on conflict do nothing;
    perform _touch_memory(array(select unnest(p.chunks) from unnest(passages) as p));
end
$$;

-- What the document of a job says of its passages.
create function _retrieval_notes(job uuid) returns text[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return array(
        select distinct format('passages were ranked by words alone: %s', r.note)
        from retrievals r where r.job = _retrieval_notes.job and r.note is not null);
end
$$;
