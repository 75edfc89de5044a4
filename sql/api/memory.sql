-- What memory holds: texts are cut into chunks when they are first needed, and embedded here where the embedding model
-- runs in this process.
--
-- Decides which texts are remembered and which chunks lack an embedding. Chunks are the core's; no provider is called.

-- The model that embeds texts, null when none is set; it is local when it runs in this process.
create function _embedding_model(out name text, out is_local boolean)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select wanted.name, coalesce(p.api = 'simulator', false)
    from (select get_config('embedding_model') #>> '{}') as wanted(name)
    left join _current_models m on m.name = wanted.name
    left join _current_providers p on p.name = m.provider
$$;

-- What a chunk is searched by: its content below the name of its source and its headings.
create function _chunk_text(metadata jsonb, content text) returns text
    language sql stable
    return concat_ws(E'\n\n', nullif(concat_ws(' > ', metadata ->> 'name', (
        select string_agg(h.title, ' > ' order by h.nth)
        from jsonb_array_elements_text(metadata -> 'headings') with ordinality as h(title, nth))), ''), content);

-- The attachments of a project, which all its sessions share.
create function _attachments(project uuid) returns setof uuid
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select r.id from resources r
    where r.project_id = project and r.session_id is null and r.job_id is null
      and r.resource_type = any (_attachment_kinds())
$$;

-- Artifacts with their texts, and what filters can ask of their chunks.
create function _artifact_texts(artifacts uuid[])
    returns table (id uuid, project_id uuid, session_id uuid, content text, metadata jsonb)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select r.id, r.project_id, r.session_id, r.content, jsonb_strip_nulls(jsonb_build_object(
               'kind', r.resource_type, 'name', coalesce(r.name, r.document_key, r.output_type, r.resource_type),
               'stage', r.stage, 'model', r.model, 'document_key', r.document_key, 'lineage', r.lineage_id))
    from resources r
    where r.id = any (artifacts)
    union all
    select c.id, s.project_id, c.session_id, c.content, jsonb_strip_nulls(jsonb_build_object(
               'kind', case when c.mime_type = 'text/markdown' and c.document_key is not null and not c.is_part
                            then 'rendered_document' else 'raw_response' end,
               'name', coalesce(c.document_key, c.output_type),
               'stage', c.stage, 'model', c.model, 'document_key', c.document_key, 'lineage', c.lineage_id))
    from contributions c
    join sessions s on s.id = c.session_id
    where c.id = any (artifacts)
$$;

-- Those of these artifacts that are not in memory. Retention deletes the first chunk of a text first, so a text whose
-- first chunk is there is whole.
create function _forgotten(artifacts uuid[]) returns uuid[]
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select array(
        select a.id from unnest(artifacts) as a(id)
        where not exists (select from memory m where m.source_id = a.id and m.chunk_no = 1)
        order by a.id)
$$;

-- Cuts artifacts that are not in memory into chunks; returns the number of chunks. A chunk that the project has with an
-- embedding of the current model takes over that embedding, others have none. Two callers at once: the later one waits
-- for the rows of the earlier one and adds nothing.
create function _remember(artifacts uuid[]) returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    missing      constant uuid[] := _forgotten(artifacts);
    model        constant text := (_embedding_model()).name;
    chunk_tokens constant integer := get_config('chunk_tokens') #>> '{}';
    overlap      constant integer := get_config('chunk_overlap_tokens') #>> '{}';
    added        integer;
begin
    if missing = '{}' then
        return 0;
    end if;
    -- Chunks that retention has left were perhaps cut with other settings.
    delete from memory m
    where m.source_id = any (missing)
      and not exists (select from memory f where f.source_id = m.source_id and f.chunk_no = 1);
    insert into memory (project_id, session_id, source_id, chunk_no, content, tokens, metadata, content_hash,
                        text_config, lexemes, embedding_model, embedding)
    select t.project_id, t.session_id, t.id, c.chunk_no, c.content, c.tokens, whole.metadata, made.hash,
           c.text_config, to_tsvector(c.text_config::regconfig, made.searched), known.embedding_model, known.embedding
    from _artifact_texts(missing) as t
    cross join lateral _chunks(t.content, chunk_tokens, overlap) as c
    cross join lateral (select t.metadata || jsonb_build_object('headings', c.headings)) as whole(metadata)
    cross join lateral (select _chunk_text(whole.metadata, c.content)) as text(searched)
    cross join lateral (
        select text.searched, sha256(convert_to(text.searched, 'UTF8'))) as made(searched, hash)
    left join lateral (
        select o.embedding_model, o.embedding
        from memory o
        where o.project_id = t.project_id and o.content_hash = made.hash and o.embedding_model = model
        limit 1) as known on true
    order by t.id, c.chunk_no
    on conflict (source_id, chunk_no) do nothing;
    get diagnostics added = row_count;
    return added;
end
$$;

-- The chunks of these artifacts that have no embedding of a model. Three conditions, because an index serves each of them.
create function _unembedded(artifacts uuid[], model text) returns setof uuid
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select m.id from memory m where m.source_id = any (artifacts) and m.embedding_model is null
    union all
    select m.id from memory m where m.source_id = any (artifacts) and m.embedding_model < model
    union all
    select m.id from memory m where m.source_id = any (artifacts) and m.embedding_model > model
$$;

-- Embeds the chunks of these artifacts that have no embedding of the current model, where that model is local; returns
-- their number.
create function _embed_here(artifacts uuid[]) returns integer
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    model    constant record := _embedding_model();
    embedded integer;
begin
    if not model.is_local then
        return 0;
    end if;
    -- Locked in one order, so that two callers do not deadlock.
    with stale as (
        select m.id from memory m
        where m.id = any (array(select _unembedded(artifacts, model.name)))
          and m.embedding_model is distinct from model.name
        order by m.id
        for no key update
    )
    update memory m
    set embedding = _simulate_embedding(_chunk_text(m.metadata, m.content)), embedding_model = model.name
    from stale
    where m.id = stale.id;
    get diagnostics embedded = row_count;
    return embedded;
end
$$;
