-- Before anything is created: whether the schema can be trusted. Whoever can create in it, or created anything in it
-- earlier, could put functions before those of Postgres that are then called with the rights of a superuser.
--
-- An empty schema is accepted: Postgres creates it before this script runs, a dump contains it, and DROP EXTENSION
-- leaves it.

do $$
declare
    owner    oid;
    creators text;
    holds    text;
begin
    -- Not even this block may find a function of somebody else; qualified, as the path may lead there until this is
    -- done.
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    select n.nspowner,
           (select string_agg(distinct case a.grantee when 0 then 'PUBLIC' else a.grantee::regrole::text end, ', ')
            from aclexplode(n.nspacl) as a
            where a.privilege_type = 'CREATE' and a.grantee <> n.nspowner
              and not exists (
                  select from pg_roles r where r.oid = a.grantee and (r.rolsuper or r.rolname = current_user))),
           (select pg_describe_object(d.classid, d.objid, d.objsubid) from pg_depend d
            where d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid
              and d.classid not in ('pg_extension'::regclass, 'pg_publication_namespace'::regclass)
            order by d.objid limit 1)
    into strict owner, creators, holds
    from pg_namespace n
    where n.nspname = 'dialectic';
    if holds is not null then
        raise exception 'schema "dialectic" is not empty'
            using errcode = 'object_not_in_prerequisite_state', detail = format('It holds %s.', holds),
                  hint = 'DROP SCHEMA dialectic CASCADE; if nothing in it is needed.';
    end if;
    if not exists (select from pg_roles r where r.oid = owner and (r.rolsuper or r.rolname = current_user)) then
        raise exception 'schema "dialectic" is owned by role "%"', pg_get_userbyid(owner)
            using errcode = 'object_not_in_prerequisite_state',
                  detail = 'Its owner could replace what the extension calls with the rights of a superuser.',
                  hint = 'DROP SCHEMA dialectic;';
    end if;
    if creators is not null then
        raise exception 'schema "dialectic" lets % create objects in it', creators
            using errcode = 'object_not_in_prerequisite_state',
                  detail = 'They could replace what the extension calls with the rights of a superuser.',
                  hint = 'DROP SCHEMA dialectic;';
    end if;
    if exists (select from pg_namespace n where n.nspname = 'dialectic_internal') then
        raise exception 'schema "dialectic_internal" exists'
            using errcode = 'object_not_in_prerequisite_state', detail = 'The extension creates it.',
                  hint = 'DROP SCHEMA dialectic_internal CASCADE; if nothing in it is needed.';
    end if;
    -- The rest of the script sees no schema of a required extension: others may create there.
    perform set_config('search_path', 'dialectic, pg_temp', true);
end
$$;
