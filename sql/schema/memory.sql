-- Memory: texts of a project as chunks that can be searched, with their embeddings.
--
-- Rows are copies: every chunk can be made again from its source, so retention deletes them without loss. Nothing here
-- names the schema of pgvector: it is looked up once, and functions below bind its operators when they are created.
-- Decides nothing about ranking (api/memory.sql).

-- Iterative index scans, which filters need, came with 0.8.0.
do $$
declare
    found text := (select e.extversion from pg_extension e where e.extname = 'vector');
begin
    if string_to_array(regexp_replace(found, '[^0-9.].*$', ''), '.')::integer[] < array[0, 8, 0] then
        raise exception 'pgvector 0.8.0 or later is required, but version % is installed', found
            using errcode = 'feature_not_supported', hint = 'ALTER EXTENSION vector UPDATE;';
    end if;
end
$$;

create table memory (
    id              uuid        primary key default _uuid_v7(),
    project_id      uuid        not null references projects on delete cascade,
    session_id      uuid        references sessions on delete cascade,
    source_id       uuid        not null,
    chunk_no        integer     not null check (chunk_no > 0),
    content         text        not null,
    tokens          integer     not null check (tokens >= 0),
    metadata        jsonb       not null default '{}' check (jsonb_typeof(metadata) = 'object'),
    content_hash    bytea       not null,
    text_config     text        not null,
    lexemes         tsvector    not null,
    embedding_model text,
    created_at      timestamptz not null default _now(),
    last_used_at    timestamptz not null default _now(),
    unique (source_id, chunk_no)
    -- Searches change last_used_at, which no index has: room in the page keeps indexes out of it.
) with (fillfactor = 90);
do $$
begin
    execute (select format('alter table memory add column embedding %I.vector', n.nspname)
             from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
end
$$;
alter table memory add check ((embedding is null) = (embedding_model is null));
create index memory_project on memory (project_id, content_hash);
create index memory_session on memory (session_id) where session_id is not null;
create index memory_embedded on memory (source_id, embedding_model);
create index memory_lexemes on memory using gin (lexemes);

comment on table memory is
    'Chunks of attached texts and of documents, for search. Chunks are numbered within their source from 1 on.';
comment on column memory.session_id is 'The session that wrote the source; null for what a user attached.';
comment on column memory.source_id is 'The resource or contribution that the chunk is a part of.';
comment on column memory.tokens is 'Tokens of the content by o200k_base.';
comment on column memory.metadata is
    'What filters can ask for: kind, name, stage, model, document_key, lineage and headings, outermost first.';
comment on column memory.content_hash is
    'SHA-256 of the text that is embedded: equal texts of a project share one embedding.';
comment on column memory.text_config is 'The text search configuration by which lexemes were made, such as english.';
comment on column memory.lexemes is 'The words of name, headings and content, for full text search.';
comment on column memory.embedding_model is 'The model that made the embedding.';
comment on column memory.embedding is 'Null until it is made; its length is the model''s.';
comment on column memory.last_used_at is 'When a search last returned the chunk, to the day.';

-- Operators of pgvector, bound here. They are inlined, so the planner sees the operators themselves.
do $$
declare
    vector_schema name := (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
                           where e.extname = 'vector');
begin
    execute format('create function _cosine_distance(a %1$I.vector, b %1$I.vector) returns double precision '
                   'language sql immutable parallel safe return a operator(%1$I.<=>) b', vector_schema);
    execute format('create function _dimensions(embedding %1$I.vector) returns integer '
                   'language sql immutable parallel safe return %1$I.vector_dims(embedding)', vector_schema);
end
$$;

-- What jobs retrieve instead of reading whole documents. The number is that of the input in the step.
create table retrievals (
    id              uuid    not null default _uuid_v7() unique,
    job             uuid    not null references jobs on delete cascade,
    number          integer not null,
    query           text    not null,
    match_count     integer not null,
    metadata_filter jsonb   not null,
    embedding_model text,
    note            text,
    primary key (job, number)
);
do $$
begin
    execute (select format('alter table retrievals add column embedding %I.vector', n.nspname)
             from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector');
end
$$;
comment on table retrievals is 'What jobs search for where a step reads passages instead of whole documents.';
comment on column retrievals.number is 'The input of the step, counted from 1, as in job_inputs.retrieval.';
comment on column retrievals.query is 'The query, as it was rendered for the job.';
comment on column retrievals.note is 'Why the passages were ranked by words alone, although an embedding model is set.';

-- Which claim has a text embedded. A lease whose claim does not hold any more is void.
create table index_leases (
    source_id uuid   primary key,
    job_id    uuid   not null,
    claim_id  bigint not null
);
comment on table index_leases is 'Which claim has a text embedded now, so that no other one pays for the same.';
