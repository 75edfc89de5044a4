-- The index of embeddings for large projects: how it is made, when a search uses it, who learns that it is missing.
--
-- An HNSW index needs a fixed length, so each embedding model has one of its own. It is not dumped. Comparing a query
-- with every chunk is exact and fast enough for most projects, so the index is used from a number of chunks on.

-- More chunks than this are searched by index.
create function _exact_search_limit() returns integer
    language sql immutable
    return 20000;

-- The number of chunks of these artifacts: the last chunk of each has the number of its chunks.
create function _chunk_count(sources uuid[]) returns bigint
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select coalesce(sum(last.chunk_no), 0)
    from unnest(sources) as s(id)
    cross join lateral (
        select m.chunk_no from memory m where m.source_id = s.id order by m.chunk_no desc limit 1) as last
$$;

-- The name of the index of a model.
create function _memory_index_name(model text) returns name
    language sql immutable
    return ('memory_hnsw_' || left(md5(model), 16))::name;

-- How the index of a model sees an embedding: an expression and its dimensions. Null where there is no such index.
create function _memory_index(model text, out expression text, out dimensions integer)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('embedding::%s', format_type(a.atttypid, a.atttypmod)), a.atttypmod
    from pg_class c
    join pg_index i on i.indexrelid = c.oid and i.indisvalid
    join pg_attribute a on a.attrelid = c.oid and a.attnum = 1
    where c.relnamespace = 'dialectic'::regnamespace and c.relname = _memory_index_name(model)
$$;

-- The schema of pgvector.
create function _vector_schema() returns name
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'
$$;

-- The length of the embeddings of a model; null while there are none.
create function _known_dimensions(model text) returns integer
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _dimensions(m.embedding) from memory m where m.embedding_model = model limit 1
$$;

-- Refuses a vector that cannot be compared with the embeddings of these artifacts, and says which chunks have none.
create function _check_dimensions(sources uuid[], query_embedding memory.embedding%type) returns void
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    model    constant text := (_embedding_model()).name;
    expected constant integer := (
        select _dimensions(m.embedding) from memory m
        where m.source_id = any (sources) and m.embedding_model = model limit 1);
    missing  constant bigint := (select count(*) from _unembedded(sources, model));
begin
    if model is null then
        raise exception 'no embedding model is set'
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'SELECT name FROM dialectic.models WHERE kind = ''embedding''; an admin sets one with '
                         'dialectic.set_config(''embedding_model'', …).';
    end if;
    if expected <> _dimensions(query_embedding) then
        raise exception 'query_embedding has % dimensions, but the embeddings of model "%" have %',
                _dimensions(query_embedding), model, expected
            using errcode = 'invalid_parameter_value', hint = 'Embed the query with the same model.';
    end if;
    if missing > 0 then
        raise notice 'not searched, because model "%" has not embedded them yet: %', model,
                     _count_with_noun(missing, 'chunk');
    end if;
end
$$;

-- The chunks of these artifacts that are nearest to a vector, by index. Sorting would be the other way to order them,
-- so it is off: the planner knows little of filters that are applied while the index is read.
create function _nearest_by_index(
    sources uuid[], model text, expression text, query_embedding memory.embedding%type, metadata_filter jsonb,
    most integer
) returns table (id uuid, distance double precision)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
    set enable_sort = off
    set hnsw.iterative_scan = strict_order
    set hnsw.ef_search = 100
    set hnsw.max_scan_tuples = 200000
as $$
begin
    return query execute format(
        'select m.id, (m.%1$s) operator(%2$I.<=>) $3::%3$s from memory m '
        'where m.embedding_model = %4$L and m.source_id = any ($1) and m.metadata @> $2 '
        'order by (m.%1$s) operator(%2$I.<=>) $3::%3$s limit $4',
        expression, _vector_schema(), split_part(expression, '::', 2), model)
    using sources, metadata_filter, query_embedding, most;
end
$$;

-- The chunks of these artifacts that are nearest to a vector: by index where there is one and they are many. A filter
-- that leaves the index too few chunks is applied to all of them instead.
create function _nearest(
    sources uuid[], model text, query_embedding memory.embedding%type, metadata_filter jsonb, most integer
) returns table (id uuid, distance double precision)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    known     record;
    ids       uuid[];
    distances double precision[];
begin
    select i.expression, i.dimensions into known from _memory_index(model) as i;
    if known.dimensions = _dimensions(query_embedding)
        and _chunk_count(sources) > _exact_search_limit() then
        select array_agg(n.id), array_agg(n.distance) into ids, distances
        from _nearest_by_index(sources, model, known.expression, query_embedding, metadata_filter, most) as n;
    end if;
    if cardinality(ids) = most then
        return query select n.id, n.distance from unnest(ids, distances) as n(id, distance);
    else
        return query select * from _nearest_of_all(sources, model, query_embedding, metadata_filter, most);
    end if;
end
$$;

create function create_memory_index(embedding_model text) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    dimensions constant integer := _known_dimensions(embedding_model);
    -- pgvector indexes at most 2,000 dimensions of a vector and 4,000 of a halfvec.
    type       constant text := case when dimensions > 2000 then 'halfvec' else 'vector' end;
begin
    perform _check_models(array[embedding_model], 'embedding');
    if dimensions is null then
        raise exception 'model "%" has embedded nothing yet', embedding_model
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'The index needs the length of its vectors: SELECT dialectic.search(project, query) embeds a '
                         'project where the model is a simulator model.';
    end if;
    if dimensions > 4000 then
        raise exception 'embeddings of % dimensions cannot be indexed', dimensions
            using errcode = 'program_limit_exceeded', detail = 'An index has at most 4,000 dimensions.',
                  hint = 'Use an embedding model with shorter vectors; searches without an index are exact.';
    end if;
    execute format('create index if not exists %1$I on memory '
                   'using hnsw ((embedding::%2$I.%3$I(%4$s)) %2$I.%3$s_cosine_ops) where embedding_model = %5$L',
                   _memory_index_name(embedding_model), _vector_schema(), type, dimensions, embedding_model);
    return _memory_index_name(embedding_model);
end
$$;
comment on function create_memory_index(text) is
    'Makes an HNSW index of the embeddings of a model, which searches use in projects of more than 20,000 chunks; '
    'returns its name. Nothing is added to memory while it is made. It is not in a dump.';

-- Projects that are searched without an index although they are large, for health(). A table of few pages has none, so
-- most servers count nothing.
create function _memory_problems() returns setof text
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select format('%s has %s chunks and no index, so searches compare each of them: '
                  'SELECT dialectic.create_memory_index(%L)',
                  -- Only the owner and admins see which project it is.
                  case when _caller_is_admin() or p.owner = _calling_owner() then 'project ' || p.id
                       else 'a project of another owner' end, large.chunks, large.embedding_model)
    from (select m.project_id, m.embedding_model, count(*) as chunks
          from memory m
          where m.embedding_model is not null
            and pg_relation_size('dialectic.memory') > _exact_search_limit() * 100::bigint
          group by m.project_id, m.embedding_model
          having count(*) > _exact_search_limit()) as large
    join projects p on p.id = large.project_id
    where (_memory_index(large.embedding_model)).dimensions is null and _known_dimensions(large.embedding_model) <= 4000
    order by large.chunks desc
$$;
