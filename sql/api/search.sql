-- Search: the chunks of memory that answer a query, by meaning and by words.
--
-- SQL finds candidates, at least 50 by each method; the core fuses their ranks and leaves out chunks that repeat
-- others. What is missing in memory is added first. No provider is called: a query is embedded where the embedding
-- model is local, else words alone rank.

-- A chunk that was found, as the core reads it (src/api/memory.rs).
create type _candidate as (
    distance_rank integer,
    text_rank     integer,
    distance      double precision,
    vector        real[],
    content       text
);

-- The chosen candidates by their positions from 1 on, best first.
create function _select_candidates(
    candidates _candidate[], rrf_k double precision, mmr_lambda double precision, match_count integer
) returns table ("position" integer, score double precision)
    language c immutable strict parallel safe
    as 'MODULE_PATHNAME', '_select_candidates_wrapper';

-- A query in the words of a configuration: a chunk must have all of them, or, where the query has more than six words
-- or is_loose, some of them. The configuration "simple" keeps function words, which would find every text.
create function _text_query(config regconfig, query text, is_loose boolean) returns tsquery
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case when is_loose or count(*) > 6
                then string_agg('''' || replace(replace(w.word, '\', '\\'), '''', '''''') || '''', ' | ')::tsquery
                else websearch_to_tsquery(config, query) end
    from unnest(tsvector_to_array(to_tsvector(config, query))) as w(word)
    where config <> 'simple'::regconfig
       or (to_tsvector('english', w.word) <> '' and to_tsvector('german', w.word) <> '')
$$;

-- The chunks of these artifacts that have the words of a query, best first.
create function _match_words(sources uuid[], query text, metadata_filter jsonb, is_loose boolean, most integer)
    returns table (id uuid, rank integer)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select found.id, (row_number() over (order by found.score desc, found.id))::integer
    from (select m.id, ts_rank_cd(m.lexemes, q.words, 32) as score
          from unnest(_text_configs()) as c(name)
          cross join lateral (select _text_query(c.name::regconfig, query, is_loose)) as q(words)
          join memory m on m.text_config = c.name and m.lexemes @@ q.words
          where m.source_id = any (sources) and m.metadata @> metadata_filter
          order by 2 desc, 1
          limit most) as found
$$;

-- The same, where a query of few words that no chunk has all of finds chunks with some. Quotation marks and a minus say
-- that the query means what it says.
create function _match_text(sources uuid[], query text, metadata_filter jsonb, most integer)
    returns table (id uuid, rank integer)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query select * from _match_words(sources, query, metadata_filter, false, most);
    if not found and query !~ '"|(^|\s)-' then
        return query select * from _match_words(sources, query, metadata_filter, true, most);
    end if;
end
$$;

-- The chunks of these artifacts that are nearest to a vector, by comparison with each of them.
create function _nearest_of_all(
    sources uuid[], model text, query_embedding memory.embedding%type, metadata_filter jsonb, most integer
) returns table (id uuid, distance double precision)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    return query
        select m.id, _cosine_distance(m.embedding, query_embedding)
        from memory m
        where m.source_id = any (sources) and m.embedding_model = model and m.metadata @> metadata_filter
          -- A model may have been added again with vectors of another length.
          and _dimensions(m.embedding) = _dimensions(query_embedding)
        order by _cosine_distance(m.embedding, query_embedding)
        limit most;
end
$$;

-- Chooses chunks of these artifacts: by meaning where a vector is given, by words where a query is. The score is the
-- cosine similarity where only a vector is given, else the fused rank.
create function _match(
    sources uuid[], query text, query_embedding memory.embedding%type, match_count integer, metadata_filter jsonb
) returns table (id uuid, score double precision)
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    -- With fewer candidates there is nothing to choose from.
    most       constant integer := greatest(50, match_count);
    ids        uuid[];
    candidates _candidate[];
begin
    with nearest as (
        select n.id, n.distance, (row_number() over (order by n.distance, n.id))::integer as rank
        from _nearest(sources, (_embedding_model()).name, query_embedding, metadata_filter, most) as n
        where query_embedding is not null
    ), found as (
        select coalesce(n.id, w.id) as id, n.rank as distance_rank, w.rank as text_rank,
               case when query is null then n.distance end as distance
        from nearest n
        full join (select * from _match_text(sources, query, metadata_filter, most) where query is not null) as w
            on w.id = n.id
    )
    select array_agg(f.id order by f.id),
           array_agg(row(f.distance_rank, f.text_rank, f.distance,
                         case when query_embedding is not null then m.embedding::real[] end, m.content)::_candidate
                     order by f.id)
    into ids, candidates
    from found f
    join memory m on m.id = f.id;
    return query
        select ids[s."position"], s.score
        from _select_candidates(candidates, (get_config('rrf_k') #>> '{}')::double precision,
                                (get_config('mmr_lambda') #>> '{}')::double precision, match_count) as s;
end
$$;

-- Adds what is missing of these artifacts to memory. A read-only transaction cannot, and says so.
create function _prepare_search(sources uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if current_setting('transaction_read_only') = 'off' then
        perform _remember(sources);
        perform _embed_here(sources);
    elsif _forgotten(sources) <> '{}' then
        raise notice 'not searched, because they are not in memory yet: %',
                     _count_with_noun(cardinality(_forgotten(sources)), 'text')
            using detail = 'A read-only transaction cannot add them.', hint = 'Search once in a writable transaction.';
    end if;
end
$$;

-- The vector of a query; null, with a NOTICE, where no model can make it here.
create function _embed_query(query text) returns memory.embedding%type
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    model  constant record := _embedding_model();
    vector memory.embedding%type;
begin
    if model.is_local then
        vector := _simulate_embedding(query);
    elsif model.name is null then
        raise notice 'ranked by words alone: no embedding model is set';
    else
        raise notice 'ranked by words alone: embedding model "%" is not called by a search', model.name;
    end if;
    return vector;
end
$$;

-- Notes that chunks were used. To the day, and without waiting: retention counts in days.
create function _touch_memory(ids uuid[]) returns void
    language plpgsql
    set search_path = pg_catalog, dialectic, pg_temp
as $$
begin
    if current_setting('transaction_read_only') = 'off' then
        update memory m set last_used_at = _now()
        where m.id in (
            select t.id from memory t
            where t.id = any (ids) and t.last_used_at < _now() - interval '1 day'
            for no key update skip locked);
    end if;
end
$$;

-- The number of matches that is asked for, checked.
create function _match_count(match_count integer) returns integer
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    wanted constant integer := coalesce(match_count, (get_config('match_count') #>> '{}')::integer);
    bounds constant record := _setting_bounds('match_count');
begin
    perform _check_number('match_count', wanted, bounds.lowest, bounds.highest);
    return wanted;
end
$$;

-- The attachments of a session's project and the newest documents of the session, for its owner.
create function _searched_in_session(session uuid) returns uuid[]
    language plpgsql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    project uuid;
begin
    select s.project_id into project
    from sessions s
    where s.id = session and (s.owner = _calling_owner() or _caller_is_admin())
      and s.id not in (select d.id from deletions d) and s.project_id not in (select d.id from deletions d);
    if not found then
        raise exception 'session "%" does not exist', coalesce(session::text, 'null')
            using errcode = 'no_data_found',
                  hint = 'SELECT id, status, created_at FROM dialectic.sessions lists yours.';
    end if;
    return array(select _attachments(project))
           || array(select d.id from _newest_documents d where d.session_id = session);
end
$$;

create function match_chunks(
    session uuid, query text, match_count integer default null, metadata_filter jsonb default '{}'
) returns table (id uuid, source_id uuid, chunk_no integer, content text, metadata jsonb, score double precision)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    sources constant uuid[] := _searched_in_session(session);
    wanted  constant integer := _match_count(match_count);
    matches record;
begin
    perform _refuse_null('query', coalesce(btrim(query), '') = '');
    perform _refuse_null('metadata_filter', metadata_filter is null);
    perform _prepare_search(sources);
    select array_agg(m.id) as ids, array_agg(m.score) as scores into matches
    from _match(sources, query, _embed_query(query), wanted, metadata_filter) as m;
    perform _touch_memory(matches.ids);
    return query
        select m.id, m.source_id, m.chunk_no, m.content, m.metadata, f.score
        from unnest(matches.ids, matches.scores) with ordinality as f(id, score, nth)
        join memory m on m.id = f.id
        order by f.nth;
end
$$;
comment on function match_chunks(uuid, text, integer, jsonb) is
    'The chunks that answer a query best, of what is attached to the project of a session and of the newest documents '
    'of the session: by words, and by meaning where the embedding model is a simulator model. Chunks that repeat a '
    'better one are left out. The filter is JSON that metadata must contain.';

create function match_chunks(
    session uuid, query_embedding memory.embedding%type, match_count integer default null,
    metadata_filter jsonb default '{}'
) returns table (id uuid, source_id uuid, chunk_no integer, content text, metadata jsonb, score double precision)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    sources constant uuid[] := _searched_in_session(session);
    wanted  constant integer := _match_count(match_count);
    matches record;
begin
    perform _refuse_null('query_embedding', query_embedding is null);
    perform _refuse_null('metadata_filter', metadata_filter is null);
    perform _prepare_search(sources);
    perform _check_dimensions(sources, query_embedding);
    select array_agg(m.id) as ids, array_agg(m.score) as scores into matches
    from _match(sources, null, query_embedding, wanted, metadata_filter) as m;
    perform _touch_memory(matches.ids);
    return query
        select m.id, m.source_id, m.chunk_no, m.content, m.metadata, f.score
        from unnest(matches.ids, matches.scores) with ordinality as f(id, score, nth)
        join memory m on m.id = f.id
        order by f.nth;
end
$$;
do $$
begin
    execute format('comment on function %s is %L',
                   (select p.oid::regprocedure from pg_proc p
                    where p.pronamespace = 'dialectic'::regnamespace and p.proname = 'match_chunks'
                      and p.proargtypes[1] <> 'text'::regtype),
                   'The chunks nearest to a vector by cosine distance, of what is attached to the project of a session '
                   'and of the newest documents of the session. Chunks that repeat a better one are left out. The '
                   'filter is JSON that metadata must contain.');
end
$$;

create function search(project uuid, query text, match_count integer default null)
    returns table (passage text, document text, heading text, score double precision)
    language plpgsql
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
declare
    sources constant uuid[] := array(select _attachments((_own_project(project)).id))
        || array(select d.id from sessions s join _newest_documents d on d.session_id = s.id
                 where s.project_id = project and s.id not in (select d.id from deletions d));
    wanted  constant integer := _match_count(match_count);
    matches record;
begin
    perform _refuse_null('query', coalesce(btrim(query), '') = '');
    perform _prepare_search(sources);
    select array_agg(m.id) as ids, array_agg(m.score) as scores into matches
    from _match(sources, query, _embed_query(query), wanted, '{}') as m;
    perform _touch_memory(matches.ids);
    return query
        with place as (
            select p.id, min(p.path) as path from _artifact_places(search.project, null) as p group by p.id
        )
        select m.content, place.path,
               (select string_agg(h.title, ' > ' order by h.nth)
                from jsonb_array_elements_text(m.metadata -> 'headings') with ordinality as h(title, nth)), f.score
        from unnest(matches.ids, matches.scores) with ordinality as f(id, score, nth)
        join memory m on m.id = f.id
        left join place on place.id = m.source_id
        order by f.nth;
end
$$;
comment on function search(uuid, text, integer) is
    'Searches everything that is attached to a project and every document of its sessions: the passage, the path of '
    'its file, the headings above it and a score, best first.';
