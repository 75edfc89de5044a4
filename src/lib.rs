//! pg_dialectic: one prompt in, a tree of documents out. The contents page: modules, SQL files in order, `_PG_init`.
pgrx::pg_module_magic!(name, version);
