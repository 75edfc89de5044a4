-- The default process with two models: what it will do, that it does so, which documents come out and where they stand.
--
-- Ids differ on every run: they are masked in paths, and otherwise stay in variables.

-- What it will do.
select dialectic.run('Plan an offline-first notes app for field engineers.', models => '{sim-a,sim-b}', name => 'Notes') as session \gset
select project_id as project, right(id::text, 8) as short from dialectic.sessions where id = :'session' \gset
select stage, step_key, granularity_strategy as strategy, calls, documents, inputs from dialectic.explain(:'session');
select step_key, calls, actual_calls from dialectic.explain(:'session', 'parenthesis');

-- It does so.
call dialectic.run_pending();
select sum(calls) as calls, sum(actual_calls) as actual_calls, bool_and(calls = actual_calls) as as_explained from dialectic.explain(:'session');
select kind, status, count(*) from dialectic.jobs where session_id = :'session' group by 1, 2 order by 1;
select stage, document_key, count(*), min(version) as version, bool_or(stale) as stale, bool_and(complete) as complete
from dialectic.documents where session_id = :'session'
group by 1, 2 order by min(path), 2;
select type, title, message from dialectic.notifications_since() where session_id = :'session';

-- Where it stands: every folder, and what one model made of the proposal of the other.
select replace(regexp_replace(path, '[^/]*$', ''), :'short', 'X') as folder, count(distinct path) as files
from dialectic.files(:'project') group by 1 order by 1;
select replace(path, :'short', 'X') as path
from dialectic.files(:'session') where path ~ 'sim-a_critiquing_sim-b_1_(review_header|risk_register)' order by 1;
select count(*) as documents, bool_and(d.path = f.path) as in_the_tree, bool_and(d.path = dialectic.storage_path(d.id)) as each_in_its_place
from dialectic.documents d left join dialectic.files(:'session') f on f.path = d.path and f.content = d.content
where d.session_id = :'session';

-- What a document begins with.
select replace(line, :'session', 'ID') as line
from dialectic.documents d, regexp_split_to_table(d.content, E'\n') with ordinality as t(line, nth)
where d.session_id = :'session' and d.document_key = 'master_plan' and d.model = 'sim-a' and nth <= 19 and line !~ '^tokens: [0-9]+$'
order by nth;

-- One of them anew: the old version stays, what was built on it is stale.
select dialectic.regenerate(:'session', 'master_plan', 'sim-a') is not null as asked;
call dialectic.run_pending();
select stage, document_key, model, version, stale from dialectic.documents
where session_id = :'session' and (version > 1 or stale) order by path;
select replace(path, :'short', 'X') as path from dialectic.files(:'session') where path ~ 'documents/sim-a_._master_plan' order by 1;

-- JSON under a key that ships a layout, and under one that nobody knows.
\pset format unaligned
\pset tuples_only on
select dialectic.render_markdown('{"notes": "None.", "risks": [{"risk": "Rain", "impact": "High", "likelihood": "Low"}], "overview": "One risk."}', 'risk_register');
select dialectic.render_markdown('{"question": "Stay dry?", "options": [{"name": "Umbrella", "price": "20"}, {"name": "Wait", "price": "0"}]}', 'option_paper');
\pset format aligned
\pset tuples_only off
select * from dialectic.self_check();
