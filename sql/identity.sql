-- Who is asking. The owner of a row is text: role:<name>, or jwt:<sub> where a gateway signs its users in by claims; the prefix
-- keeps a claim from naming a role. The role is the outer one, so that it is the caller's inside a definer function too.

create function _outer_role_name() returns name
    language sql stable parallel restricted
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select rolname from pg_roles where oid = _outer_role()
$$;

create function _current_owner() returns text
    language sql stable parallel restricted
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select case
        when _has_jwt_identity(_outer_role_name()::text)
        then 'jwt:' || nullif(nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub', '')
        else 'role:' || _outer_role_name()
    end
$$;

-- An admin is a role that may change settings.
create function _is_admin() returns boolean
    language sql stable parallel restricted
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select has_function_privilege(_outer_role(), 'dialectic.set_config(text, jsonb)', 'execute')
$$;
