-- The catalog: settings, providers, references to their secrets, models, prompts, domains, processes.
--
-- What ships is never updated in place. A row that a user defines stands beside the shipped one and wins over it (the
-- views that begin with "_current_" choose), and only such rows are dumped. Nothing here moves work.

create table configuration (
    key         text    not null,
    value       jsonb   not null,
    description text,
    is_shipped  boolean not null default _is_shipping(),
    primary key (key, is_shipped)
);
comment on table configuration is
    'Settings: a row set by set_config wins over the shipped row of the same key; read them with get_config.';

create table providers (
    name                text        not null check (name ~ '^[a-z0-9][a-z0-9._:/-]{0,99}$'),
    api                 text        not null check (api in ('openai', 'anthropic', 'google', 'ollama', 'simulator')),
    base_url            text,
    max_concurrency     integer     check (max_concurrency > 0),
    requests_per_minute integer     check (requests_per_minute > 0),
    tokens_per_minute   integer     check (tokens_per_minute > 0),
    settings            jsonb       not null default '{}',
    created_at          timestamptz not null default _now(),
    is_shipped          boolean     not null default _is_shipping(),
    primary key (name, is_shipped)
);
comment on table providers is 'Where models are called: the wire format, the address and the limits of each provider.';
comment on column providers.settings is
    'How it is spoken to: headers, what is appended to every address, time limits, the largest response. Everybody '
    'who was granted anything reads it: no secret belongs here.';

create table secrets (
    provider   text        not null,
    reference  text        not null check (reference ~ '^(env:[A-Za-z_][A-Za-z0-9_]*|file:/.+)$'),
    changed_at timestamptz not null default _now(),
    is_shipped boolean     not null default _is_shipping(),
    primary key (provider, is_shipped)
);
comment on table secrets is
    'Where the secret of each provider is found; never a secret itself. Readable by nobody but the owner of the '
    'extension.';
comment on column secrets.reference is 'env:NAME or file:/path, resolved at the moment of a call and never earlier.';

create table models (
    name                text        not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}$'),
    provider            text        not null,
    api_model           text        not null,
    kind                text        not null default 'chat' check (kind in ('chat', 'embedding')),
    context_window      integer     not null check (context_window between 1 and 100000000),
    max_output_tokens   integer     not null check (max_output_tokens between 1 and 100000000),
    tokenizer           text        not null,
    input_price         numeric     not null check (input_price between 0 and 1000000),
    output_price        numeric     not null check (output_price between 0 and 1000000),
    cached_price        numeric     check (cached_price between 0 and 1000000),
    cache_write_price   numeric     check (cache_write_price between 0 and 1000000),
    reasoning_price     numeric     check (reasoning_price between 0 and 1000000),
    max_concurrency     integer     check (max_concurrency > 0),
    requests_per_minute integer     check (requests_per_minute > 0),
    tokens_per_minute   integer     check (tokens_per_minute > 0),
    fallback            text        check (fallback <> name),
    settings            jsonb       not null default '{}',
    created_at          timestamptz not null default _now(),
    is_shipped          boolean     not null default _is_shipping(),
    primary key (name, is_shipped)
);
create table token_ratios (
    model      text             primary key,
    factor     double precision not null check (factor > 0),
    samples    integer          not null check (samples >= 0),
    changed_at timestamptz      not null default _now()
);
comment on table token_ratios is
    'How many tokens of a model are one of o200k_base, learned from what its provider reports; none for models that '
    'are counted exactly.';
comment on column token_ratios.samples is 'From how many calls it was learned.';

comment on table models is 'Models by the name that recipes and sessions use. Prices are in USD per million tokens.';
comment on column models.context_window is 'The most tokens that it reads.';
comment on column models.cached_price is 'Of what is read from the cache of the provider; null: as input_price.';
comment on column models.cache_write_price is 'Of what is read and written into that cache; null: as input_price.';
comment on column models.reasoning_price is 'Of what it thought and nobody sees; null: as output_price.';
comment on column models.max_concurrency is
    'A limit of its own within those of its provider, as are those per minute; null: none.';
comment on column models.fallback is 'Another model that answers in its place when its provider cannot.';
comment on column models.kind is 'chat writes texts; embedding turns them into vectors.';
comment on column models.settings is
    'What differs between models; for simulator models the faults and the latency they show.';

create table provider_cooldowns (
    provider      text        not null,
    model         text        not null default '',
    free_at       timestamptz,
    throttles     integer     not null default 0,
    failures      integer     not null default 0,
    paused_reason text,
    changed_at    timestamptz not null default _now(),
    primary key (provider, model)
);
comment on table provider_cooldowns is
    'Providers that may not be called now: throttled or failing until free_at, or paused until their configuration is'
    ' mended.';
comment on column provider_cooldowns.free_at is 'Before this nobody calls.';
comment on column provider_cooldowns.paused_reason is 'What has to be mended first; nobody calls before.';
comment on column provider_cooldowns.model is 'The one model that is meant; empty for all of the provider.';
comment on column provider_cooldowns.failures is
    'How often in a row the provider failed; from the fifth on it is left alone for a while, then tried with one '
    'call.';
comment on column provider_cooldowns.throttles is
    'How often in a row the provider asked for patience; without a time of its own each doubles the wait.';

create table prompt_templates (
    name       text        not null check (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    version    integer     not null check (version > 0),
    body       text        not null,
    created_at timestamptz not null default _now(),
    is_shipped boolean     not null default _is_shipping(),
    primary key (name, is_shipped, version)
);
comment on table prompt_templates is
    'Prompt templates (minijinja), every version; a session keeps those it started with.';

create table document_templates (
    key        text        not null check (key ~ '^[a-z][a-z0-9_]{0,62}$'),
    version    integer     not null check (version > 0),
    body       text        not null,
    created_at timestamptz not null default _now(),
    is_shipped boolean     not null default _is_shipping(),
    primary key (key, is_shipped, version)
);
comment on table document_templates is
    'How the answer for a document key is laid out in Markdown (minijinja), every version; a key without one is laid '
    'out by its own shape.';

create table processes (
    name        text        not null check (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    version     integer     not null check (version > 0),
    description text,
    created_at  timestamptz not null default _now(),
    is_shipped  boolean     not null default _is_shipping(),
    primary key (name, is_shipped, version)
);
comment on table processes is
    'Processes, every version: an ordered list of stages. A session keeps the version it started with.';

create table stages (
    process              text    not null,
    version              integer not null,
    position             integer not null check (position > 0),
    slug                 text    not null check (slug ~ '^[a-z][a-z0-9_]{0,62}$'),
    display_name         text    not null,
    seed_prompt_template text    not null,
    recipe               jsonb   not null,
    is_shipped           boolean not null default _is_shipping(),
    primary key (process, is_shipped, version, slug),
    unique (process, is_shipped, version, position),
    foreign key (process, is_shipped, version) references processes (name, is_shipped, version) on delete cascade
);
comment on table stages is 'The stages of each version of a process, each with its recipe.';

create table domains (
    name            text    not null check (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    description     text,
    default_process text    not null,
    is_shipped      boolean not null default _is_shipping(),
    primary key (name, is_shipped)
);
comment on table domains is 'Fields of work: each names its default process.';

create table domain_overlays (
    domain     text    not null,
    stage      text    not null,
    "values"   jsonb   not null check (jsonb_typeof("values") = 'object'),
    is_shipped boolean not null default _is_shipping(),
    primary key (domain, stage, is_shipped)
);
comment on table domain_overlays is
    'Values a domain gives to prompts: per stage, where stage * holds what every stage starts from.';

create table definitions (
    id         text        primary key check (id ~ '^[0-9a-f]{64}$'),
    process    text        not null,
    domain     text        not null,
    stages     jsonb       not null,
    prompts    jsonb       not null,
    documents  jsonb       not null default '{}',
    overlays   jsonb       not null,
    created_at timestamptz not null default _now()
);
comment on table definitions is
    'A process as a session started with it: stages with their recipes, prompts, document templates and overlays, '
    'named by the SHA-256 of all that and never changed.';

-- The current row of each name: the user's where there is one, else the shipped one; of several versions the newest.
create view _current_models with (security_invoker) as
    select distinct on (name) * from models order by name, is_shipped;
create view _current_providers with (security_invoker) as
    select distinct on (name) * from providers order by name, is_shipped;
create view _current_prompts with (security_invoker) as
    select distinct on (name) * from prompt_templates order by name, is_shipped, version desc;
create view _current_document_templates with (security_invoker) as
    select distinct on (key) * from document_templates order by key, is_shipped, version desc;
create view _current_processes with (security_invoker) as
    select distinct on (name) * from processes order by name, is_shipped, version desc;
create view _current_domains with (security_invoker) as
    select distinct on (name) * from domains order by name, is_shipped;

comment on view _current_models is 'The model that each name stands for now.';
comment on view _current_providers is 'The provider that each name stands for now.';
comment on view _current_prompts is 'The template that each name stands for now.';
comment on view _current_document_templates is 'The document template that each key stands for now.';
comment on view _current_processes is 'The version of each process that new sessions get.';
comment on view _current_domains is 'The domain that each name stands for now.';
