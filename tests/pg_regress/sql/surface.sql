-- The public surface: every object that does not begin with an underscore, and who may call what.

-- Functions and procedures, with all that a caller must know of them.
\pset format unaligned
\pset tuples_only on
select format('%s %s(%s)%s', case p.prokind when 'p' then 'procedure' else 'function' end, p.proname,
              pg_get_function_arguments(p.oid), ' returns ' || pg_get_function_result(p.oid)) as routine
from pg_proc p
where p.pronamespace = 'dialectic'::regnamespace and p.proname not like '\_%' and p.prorettype <> 'trigger'::regtype
order by p.proname, 1;
\pset format aligned
\pset tuples_only off

-- Tables, views and sequences.
select c.relname as name, case c.relkind when 'r' then 'table' when 'v' then 'view' when 'S' then 'sequence' end as kind,
       c.relrowsecurity as row_security
from pg_class c
where c.relnamespace = 'dialectic'::regnamespace and c.relkind in ('r', 'v', 'S') and c.relname not like '\_%'
order by 1;

-- Besides relations, routines and the types that go with relations the extension holds the schema of what it calls as its owner.
select pg_describe_object(d.classid, d.objid, 0) as object
from pg_depend d
join pg_extension e on e.oid = d.refobjid and d.refclassid = 'pg_extension'::regclass and d.deptype = 'e'
where e.extname = 'pg_dialectic' and d.classid not in ('pg_class'::regclass, 'pg_proc'::regclass)
  and not (d.classid = 'pg_type'::regclass and exists (
      select from pg_type t left join pg_type element on element.oid = t.typelem
      where t.oid = d.objid and coalesce(nullif(t.typrelid, 0), element.typrelid) <> 0))
order by 1;

-- Server settings, which are there once the library is loaded.
select dialectic._now() is not null as loaded;
select name, vartype, context, boot_val from pg_settings where name like 'dialectic.%' order by 1;

-- Who may call what.
select p.proname as name,
       has_function_privilege('regress_stranger', p.oid, 'execute') as stranger,
       has_function_privilege('regress_user', p.oid, 'execute') as "user",
       has_function_privilege('regress_admin', p.oid, 'execute') as admin
from pg_proc p
where p.pronamespace = 'dialectic'::regnamespace and p.proname not like '\_%'
order by 1;

-- Of what begins with an underscore a user has only what views, policies and public functions call with his rights.
select string_agg(p.proname, ' ' order by p.proname) filter (where has_function_privilege('regress_stranger', p.oid, 'execute')) as stranger,
       string_agg(p.proname, E'\n' order by p.proname) filter (where has_function_privilege('regress_user', p.oid, 'execute')) as "user",
       string_agg(p.proname, E'\n' order by p.proname)
           filter (where has_function_privilege('regress_admin', p.oid, 'execute')
                     and not has_function_privilege('regress_user', p.oid, 'execute')) as admin_besides
from pg_proc p
where p.pronamespace = 'dialectic'::regnamespace and p.proname like '\_%';

-- Everyone granted reads all but where secrets are found, nobody granted writes.
select r.rolname as role, has_schema_privilege(r.rolname, 'dialectic', 'usage') as usage, has_schema_privilege(r.rolname, 'dialectic', 'create') as creates,
       string_agg(c.relname, ' ') filter (where has_schema_privilege(r.rolname, 'dialectic', 'usage') and not has_table_privilege(r.rolname, c.oid, 'select')) as reads_not,
       count(*) filter (where has_table_privilege(r.rolname, c.oid, 'select')) as reads,
       count(*) filter (where has_table_privilege(r.rolname, c.oid, 'insert, update, delete, truncate, references, trigger')) as writes
from pg_roles r, pg_class c
where r.rolname like 'regress\_%' and c.relnamespace = 'dialectic'::regnamespace and c.relkind in ('r', 'v')
group by r.rolname
order by 1;

-- What the grants mean: each sees his own, an admin sees all, a stranger nothing.
set role regress_user;
select dialectic.run('Mine', models => '{sim-a}', process => 'essay') as mine \gset
select owner from dialectic.sessions;
select job, model, status from dialectic.job_tree(:'mine');
select dialectic.set_config('max_continuations', '1');
call dialectic.run_pending();
select * from dialectic.claim_jobs('thief', 1);
update dialectic.jobs set status = 'completed';
set role regress_admin;
select count(*) > 0 as sees_others from dialectic.sessions where owner <> 'role:regress_admin';
call dialectic.run_pending();
set role regress_user;
select status from dialectic.sessions;
select stage, count(*) from dialectic.documents group by 1 order by 1;
set role regress_stranger;
select count(*) from dialectic.sessions;
select dialectic.run('Nothing of mine');
reset role;
