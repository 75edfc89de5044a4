-- Every error that sql/ and src/ raise, read from the sources: RAISE EXCEPTION, ErrorReport::new and src/error.rs.
-- What a placeholder stands for is shown as …

\set sql `cat sql/*.sql sql/*/*.sql`
\set rust `cat $(find src -name '*.rs' | LC_ALL=C sort)`
\set variants `cat src/error.rs`

create temporary table source (sql text, rust text, variants text);
insert into source values (:'sql', :'rust', :'variants');

-- The code of a condition as PL/pgSQL knows it.
create function pg_temp.sqlstate(condition text) returns text language plpgsql as $$
begin
    raise exception using errcode = condition;
exception when query_canceled or others then
    return sqlstate;
end
$$;

-- A literal as people read it: quotes undone, continued lines joined, placeholders as …
create function pg_temp.readable(literal text) returns text language sql as $$
    select regexp_replace(regexp_replace(replace(replace(literal, '''''', ''''), '\"', '"'), '\\\n\s*', '', 'g'),
                          '%[sLI]?|\{\w*\}', '…', 'g')
$$;

create temporary table error (condition text, message text, hint text);

-- Adjacent literals are one; a statement ends where a line ends with a semicolon.
insert into error
select substring(piece from 'errcode = ''(\w+)'''), substring(piece from '^''((?:[^'']|'''')*)'''),
       substring(piece from 'hint = (?:format\()?''((?:[^'']|'''')*)''')
from (select regexp_replace(split_part(p.piece, E';\n', 1), '''\s*\n\s*''', '', 'g') as piece
      from source, regexp_split_to_table(sql, 'raise exception\s+') with ordinality as p(piece, n)
      where n > 1) as raised;

-- The hint is looked for up to the end of the function.
insert into error
select lower(found[1]), found[2],
       substring(split_part(rest, E'\n}\n', 1) from '\.set_hint\(\s*"((?:[^"\\]|\\.)*)"')
from source, regexp_split_to_table(rust, 'ErrorReport::new\(') with ordinality as p(rest, n),
     regexp_matches(rest, '^\s*PgSqlErrorCode::ERRCODE_(\w+),\s*(?:format!\()?"((?:[^"\\]|\\.)*)"') as found
where n > 1 and found[1] <> 'WARNING';

-- A variant of src/error.rs has its message in the enum, its code and its hint (the last literal) in an arm of parts().
insert into error
select lower(substring(arm from 'ERRCODE_(\w+)')),
       case when pg_temp.readable(found[1]) = '…' then found[2] else found[1] end,
       substring(arm from '.*"((?:[^"\\]|\\.)*)"')
from source, regexp_matches(variants, '#\[error\("((?:[^"\\]|\\.)*)"\)\]\s*(\w+)', 'g') as found,
     split_part(split_part(variants, 'fn parts(', 2), E'\n    }\n', 1) as parts,
     substring(parts from 'Error::' || found[2] || '\M.*') as arms,
     split_part(arms, E'\n            Error::', 1) as arm;

-- Messages that are composed, by the variant of src/error.rs that carries them; % is what wait() ends with.
create temporary table composed (message text primary key, meaning text);
insert into composed values
    ('Recipe', 'what is wrong in a recipe, with the step and the field'),
    ('Plan', 'an input that a step needs and that is missing'),
    ('Prompt', 'what is wrong in a template'),
    ('TooDeep', 'what is nested too deep in a template, with its line'),
    ('Setting', 'a setting of a model or a provider that is unknown or invalid'),
    ('Definition', 'a stored definition that cannot be read'),
    ('Spi', 'an internal statement that failed'),
    ('Gone', 'a function of the worker that somebody else called'),
    ('Unreadable', 'a row that cannot be read'),
    ('%', 'why the session that `dialectic.wait` waited for did not complete');

-- The names of SQLSTATEs that are ours.
create temporary table own_condition (condition text primary key, name text not null);
insert into own_condition values ('54C01', 'context_window_exceeded');

create temporary table class (class text primary key, follows text not null);
insert into class values
    ('throttled', 'The provider is busy. The job waits; no attempt is charged.'),
    ('transient', 'The job is retried up to `job_default_max_retries` times, then fails.'),
    ('permanent', 'The job fails.'),
    ('configuration', 'The provider or the model is paused until an admin corrects it; no attempt is charged.'),
    ('content', 'The answer cannot be used. The job is retried up to `job_default_max_retries` times, then fails.'),
    ('context_window', 'The prompt does not fit the model. The job fails; where no model delivers, `wait` ends with `54C01`.'),
    ('internal', 'The job cannot be read or computed. The job fails.');

do $$
declare
    wrong text := (select string_agg(e::text, E'\n') from error e where condition is null or message is null
                   or message ~ '^([A-Z]\w+|%)$' and not exists (select from composed c where c.message = e.message));
begin
    if wrong is not null then
        raise exception E'dev/reference/errors.sql cannot read these errors:\n%', wrong;
    elsif array(select class from class order by 1) <> array(select unnest(dialectic._error_classes()) order by 1) then
        raise exception 'dev/reference/errors.sql must explain each of these classes: %', dialectic._error_classes();
    end if;
end
$$;

select '# Errors

Generated by `make docs` from the sources. This page lists every error that the extension raises, by SQLSTATE. `…`
stands for a value. An entry in *italics* describes a message that is composed. When nothing moves, see
[troubleshooting](../operations.md#troubleshooting).
';

select format(E'## %s %s\n\n%s\n', code, condition, string_agg(line, E'\n' order by line collate "C"))
from (select distinct pg_temp.sqlstate(condition) as code, coalesce(o.name, condition) as condition,
             format('- %s%s', coalesce('*' || c.meaning || '*', '`' || pg_temp.readable(e.message) || '`'),
                    E'\\\n  Hint: ' || replace(pg_temp.readable(e.hint), '<', '&lt;')) as line
      from error e left join composed c using (message) left join own_condition o using (condition)) as e
group by code, condition
order by code collate "C";

select '## Classes of failed calls

A failed call has its class in `error_class` of `dialectic.model_calls`. A failed job has it in `error_class`.
`dialectic.fail_job` takes the same classes.

| class | what follows |
|---|---|';
select format('| `%s` | %s |', class, follows)
from unnest(dialectic._error_classes()) with ordinality as c(class, position) join class using (class)
order by position;
