-- Relations of the kind in the variable `kind` (r: tables, v: views) with their columns, keys, comments and readers.

create temporary view relation as
select c.oid, c.relname::text collate "C" as name, c.relkind::text as kind, obj_description(c.oid) as comment,
       c.relrowsecurity as has_policy,
       has_table_privilege('docs_user', c.oid, 'select') as for_users,
       has_table_privilege('docs_admin', c.oid, 'select') as for_admins
from pg_class c
where c.relnamespace = 'dialectic'::regnamespace and c.relname not like '\_%';

select string_agg(format('[%s](#%s)', name, name), ', ' order by name) || '.' from relation where kind = :'kind';

select format(E'\n## %s\n\n%s\n\n| column | type | |\n|---|---|---|\n%s\n%s\n%s.', r.name, r.comment, a.columns,
              E'\n' || k.keys || E'\n',
              case when not r.for_admins then 'Read by superusers only'
                   when r.for_users and r.has_policy then 'Users read their own rows, admins all rows'
                   when r.for_users and r.kind = 'v' then 'Users read what concerns their own sessions, admins all rows'
                   when r.for_users then 'Read by users and admins'
                   else 'Read by admins' end)
from relation r
cross join lateral (
    select string_agg(format('| `%s` | %s | %s |', a.attname, format_type(a.atttypid, a.atttypmod),
                             replace(concat_ws(' ', col_description(r.oid, a.attnum),
                                 case when r.kind = 'r' and not a.attnotnull then '(may be null)' end), '|', '\|')),
                      E'\n' order by a.attnum) as columns
    from pg_attribute a where a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped) as a
cross join lateral (
    select string_agg(format('- %s', case when c.contype = 'p' then 'Primary key: `' || names || '`.'
                                          when c.contype = 'u' then 'Unique: `' || names || '`.'
                                          else format('`%s` references [`%s`](#%s).', names, f.relname, f.relname) end),
                      E'\n' order by c.contype <> 'p', c.contype <> 'u', names collate "C",
                                     f.relname collate "C") as keys
    from pg_constraint c
    left join pg_class f on f.oid = c.confrelid
    cross join lateral (select string_agg(a.attname, ', ' order by k.position) as names
                        from unnest(c.conkey) with ordinality as k(attnum, position)
                        join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.attnum) as n
    where c.conrelid = r.oid and c.contype in ('p', 'u', 'f')) as k
where r.kind = :'kind'
order by r.name;
