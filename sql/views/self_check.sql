-- Which invariants of the engine are broken. Read only; the invariants are in diagnosis.sql.

create function self_check() returns table (law text, object uuid, problem text)
    language sql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select b.law, b.object, b.problem
    from _broken_laws() as b
    -- Invariants do not hold for a deleted session while its rows are removed in parts.
    where not exists (
        select from deletions d
        where d.id in (
            select b.object
            union all select r.session_id from stage_runs r where r.id = b.object
            union all select j.session_id from jobs j where j.id = b.object
            union all select c.session_id from contributions c where c.id = b.object
            union all select r.session_id from resources r where r.id = b.object
            union all select c.session_id from model_calls c where c.id = b.object))
$$;
comment on function self_check() is 'A row for every broken law of the engine; no row when all is well.';
