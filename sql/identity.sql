-- Who is asking. The owner of a row is text: role:<name>, or jwt:<sub> where a gateway authenticates users by claims;
-- the prefix keeps a claim from naming a role. Always a current user, never the session's or the outer one: in
-- maintenance and in functions of other users those are somebody else.

create function _owner_of(role name) returns text
    language sql stable parallel restricted
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case
        when _has_jwt_identity(role::text)
        then 'jwt:' || nullif(nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub', '')
        else 'role:' || role
    end
$$;

-- The owner for policies, views and functions that run with the rights of the caller.
create function _current_owner() returns text
    language sql stable parallel restricted
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _owner_of(current_user)
$$;

-- The owner for functions that run with the rights of the extension's owner: the current user of whoever called them.
create function _calling_owner() returns text
    language sql stable parallel restricted
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select _owner_of(rolname) from pg_roles where oid = _calling_role()
$$;

-- An admin is a role that may change settings. For policies and views, and for functions as above.
create function _is_admin() returns boolean
    language sql stable parallel restricted
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select has_function_privilege(current_user, 'dialectic.set_config(text, jsonb)', 'execute')
$$;

create function _caller_is_admin() returns boolean
    language sql stable parallel restricted
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select has_function_privilege(_calling_role(), 'dialectic.set_config(text, jsonb)', 'execute')
$$;
