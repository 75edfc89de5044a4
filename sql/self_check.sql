-- self_check: a row for every broken invariant of the stored state.
--
-- One function per group of invariants; each SELECT checks one, and its first column is the name of the invariant.
-- Only reads. Nothing is repaired here.

create function _broken_definitions_and_sessions() returns table (law text, object uuid, problem text)
    language sql stable
begin atomic
    select 'a definition has the content that it is named after', s.id,
           format('the row of definition %s was changed', d.id)
    from definitions d
    join lateral (select s.id from sessions s where s.definition_id = d.id order by s.id limit 1) as s on true
    where d.id <> encode(sha256(convert_to(
        jsonb_build_array(d.process, d.domain, d.stages, d.prompts, d.documents, d.overlays)::text, 'UTF8')), 'hex')
    union all
    select 'a parent exists in the session of its child', j.id, format('parent %s does not', j.parent_job_id)
    from jobs j
    where j.parent_job_id is not null
      and not exists (
          select from jobs p
          where (p.id, p.session_id, p.stage_run_id) = (j.parent_job_id, j.session_id, j.stage_run_id))
    union all
    select 'a job is of the session of its stage run', j.id,
           format('session %s, stage run %s', j.session_id, j.stage_run_id)
    from jobs j
    where not exists (select from stage_runs r where r.id = j.stage_run_id and r.session_id = j.session_id)
    union all
    select 'an answer is of the session of its job', c.id, format('session %s, job %s', c.session_id, c.job_id)
    from contributions c
    where not exists (select from jobs j where j.id = c.job_id and j.session_id = c.session_id)
    union all
    select 'a call is of the session of its job', c.id, format('session %s, job %s', c.session_id, c.job_id)
    from model_calls c
    where not exists (select from jobs j where j.id = c.job_id and j.session_id = c.session_id)
    union all
    select 'a text is of a session of its project', r.id,
           format('session %s, project %s', r.session_id, r.project_id)
    from resources r
    where r.session_id is not null
      and not exists (select from sessions s where s.id = r.session_id and s.project_id = r.project_id)
    union all
    select 'a chunk is of a session of its project', m.id, format('session %s, project %s', m.session_id, m.project_id)
    from memory m
    where m.session_id is not null
      and not exists (select from sessions s where s.id = m.session_id and s.project_id = m.project_id)
    union all
    select 'a text is of a project', r.id, format('project %s does not exist', r.project_id)
    from resources r
    where not exists (select from projects p where p.id = r.project_id);
end;

create function _broken_links() returns table (law text, object uuid, problem text)
    language sql stable
begin atomic
    select 'an input is of a job', i.job, 'the job does not exist'
    from job_inputs i
    where not exists (select from jobs j where j.id = i.job)
    union all
    select 'a continued answer exists in the session of its job', j.id,
           format('contribution %s does not', j.target_contribution_id)
    from jobs j
    where j.target_contribution_id is not null
      and not exists (
          select from contributions c where c.id = j.target_contribution_id and c.session_id = j.session_id)
    union all
    select 'the source of a text exists in its session', r.id,
           format('contribution %s does not', r.source_contribution_id)
    from resources r
    where r.source_contribution_id is not null
      and not exists (
          select from contributions c where c.id = r.source_contribution_id and c.session_id = r.session_id)
    union all
    select 'an input exists', i.job, format('artifact %s does not', i.artifact)
    from job_inputs i
    where not exists (select from contributions c where c.id = i.artifact)
      and not exists (select from resources r where r.id = i.artifact)
      -- The condensed form of a text is listed before it is written.
      and not exists (
          select from job_dependencies d
          join jobs c on c.id = d.prerequisite_id and c.kind = 'combine' and c.status <> 'completed'
          where d.job_id = i.job)
    union all
    select 'the provider of a model exists', null, format('model %s names provider %s', m.name, m.provider)
    from _current_models m
    where not exists (select from providers p where p.name = m.provider)
    union all
    select 'every trigger of the extension is enabled', null, t.problem
    from _disabled_triggers() as t(problem);
end;

create function _broken_queue() returns table (law text, object uuid, problem text)
    language sql stable
begin atomic
    select 'a running job is claimed, and no other is', j.id,
           format('%s with claim %s by %s', j.status, coalesce(j.claim_id::text, 'none'),
                  coalesce(j.claimed_by, 'nobody'))
    from jobs j
    where (j.status = 'processing') <> (j.claim_id is not null) or (j.claim_id is null) <> (j.claimed_by is null)
    union all
    select 'a running job is in a claim of its claimer', j.id, format('%s holds it', j.claimed_by)
    from jobs j
    where j.status = 'processing' and j.claim_id is not null
      and not exists (select from claims c where c.claimed_by = j.claimed_by and j.id = any (c.job_ids))
    union all
    select 'every ready job is in line, once, at its place, and no other is', coalesce(j.id, r.job_id),
           format('%s, in line %s', coalesce(j.status, 'gone'),
                  case when r.job_id is null then 'nowhere' else 'at queue_position ' || r.queue_position end)
    from (select * from jobs where status = any (_ready_statuses())) as j
    full join ready_jobs r
        on (r.job_id, r.queue, r.is_test, r.priority, r.queue_position, r.run_at, r.is_delayed, r.session_id)
         = (j.id, j.queue, j.is_test_job, j.priority, j.queue_position, j.run_at, j.status = 'retrying', j.session_id)
    where j.id is null or r.job_id is null
    union all
    select 'who is in line has a queue', r.job_id, format('queue "%s" does not exist', r.queue)
    from ready_jobs r
    where not exists (
        select from queues l where (l.name, l.is_test, l.priority) = (r.queue, r.is_test, r.priority))
    union all
    select 'the unfinished and failed jobs of a step are counted', coalesce(j.parent_job_id, u.parent_job_id),
           format('step %s: %s unfinished and %s failed, counted %s and %s', coalesce(j.step_key, u.step_key),
                  coalesce(j.unfinished, 0), coalesce(j.failed, 0), coalesce(u.unfinished, 0), coalesce(u.failed, 0))
    from (select c.stage_run_id, c.parent_job_id, c.step_key,
                 count(*) filter (where c.status <> all (_ended_statuses())) as unfinished,
                 count(*) filter (where c.status in ('failed', 'retry_loop_failed')) as failed
          from jobs c
          where c.parent_job_id is not null
            and (c.status <> all (_ended_statuses()) or c.status in ('failed', 'retry_loop_failed'))
          group by c.stage_run_id, c.parent_job_id, c.step_key) as j
    full join steps_under_way u
        on (u.stage_run_id, u.parent_job_id, u.step_key) = (j.stage_run_id, j.parent_job_id, j.step_key)
    where (coalesce(j.unfinished, 0), coalesce(j.failed, 0)) <> (coalesce(u.unfinished, 0), coalesce(u.failed, 0));
end;

create function _broken_progress() returns table (law text, object uuid, problem text)
    language sql stable
begin atomic
    select 'nobody waits for what has ended', j.id, 'all its prerequisites are complete'
    from jobs j
    where j.status = 'waiting_for_prerequisite'
      and not exists (
          select from job_dependencies d
          join jobs p on p.id = d.prerequisite_id
          where d.job_id = j.id and p.status not in ('completed', 'superseded'))
    union all
    select 'a parent waits only while somebody works', j.id, 'no job of its stage run can move'
    from jobs j
    where j.status = 'waiting_for_children'
      and not exists (
          select from jobs other
          join job_statuses s on s.status = other.status
          where other.stage_run_id = j.stage_run_id
            and (s.phase in ('ready', 'running', 'paused') or other.status = 'waiting_for_prerequisite'))
    union all
    select 'a child that failed or was cancelled ends its parent', p.id,
           format('child %s is %s, the parent is %s', c.id, c.status, p.status)
    from jobs c
    join jobs p on p.id = c.parent_job_id
    where c.status in ('failed', 'retry_loop_failed', 'cancelled') and p.status in ('completed', 'waiting_for_children')
      -- A new version of a document is written after the plan of the first one has completed.
      and not (c.version > 1 and p.status = 'completed')
    union all
    select 'a stage run ends when its roots have ended', r.id, format('it is %s', r.status)
    from stage_runs r
    where r.status = 'running'
      and not exists (
          select from jobs j
          where j.stage_run_id = r.id and j.parent_job_id is null and j.status <> all (_ended_statuses()));
end;

create function _broken_answers() returns table (law text, object uuid, problem text)
    language sql stable
begin atomic
    -- Partial answers of failed calls end with 'error'. A chain that cannot be continued is assembled as it is.
    select 'a completed job has its answer, exactly once', j.id, format('it has %s', answers.number)
    from jobs j
    cross join lateral (
        select count(*) as number from contributions c where c.job_id = j.id and c.finish_reason <> 'error') as answers
    where j.kind = 'execute' and j.status = 'completed' and answers.number <> 1
      and not (answers.number = 0 and exists (select from resources r where r.job_id = j.id and not r.is_complete))
    union all
    select 'the chunks of an answer are there, each once', c.root_id,
           format('%s chunks, the last is chunk %s', count(*), max(c.chunk_no))
    from contributions c
    group by c.root_id
    having count(*) <> max(c.chunk_no) or count(distinct c.chunk_no) <> count(*)
    union all
    select 'an answer in chunks is followed or whole', c.id,
           format('nobody goes on with it after chunk %s', c.chunk_no)
    from contributions c
    join jobs j on j.id = c.job_id and j.status = 'completed'
    where c.is_part and c.finish_reason <> 'error'
      and not exists (
          select from jobs next
          where next.target_contribution_id = c.root_id and next.continuation_count = j.continuation_count + 1)
      and not exists (select from resources r where r.job_id = j.id and r.source_contribution_id = c.root_id)
    union all
    select 'an answer belongs to a job that completed', c.id, format('job %s is %s', j.id, j.status)
    from contributions c
    join jobs j on j.id = c.job_id
    where j.status not in ('completed', 'superseded')
    union all
    select 'an open call belongs to a running job', c.id, format('job %s is %s', j.id, j.status)
    from model_calls c
    join jobs j on j.id = c.job_id
    where c.outcome = 'open' and (j.status <> 'processing' or j.claim_id <> c.claim_id)
      and c.started_at < _now() - interval '1 hour';
end;

create function _broken_wallets() returns table (law text, object uuid, problem text)
    language sql stable
begin atomic
    select 'the balance of a wallet is the sum of its ledger', null::uuid,
           format('%s has %s, its ledger %s', w.owner, _dollars(w.balance), _dollars(l.amount))
    from wallets w
    cross join lateral (select coalesce(sum(l.amount), 0) as amount from ledger l where l.owner = w.owner) as l
    where w.balance <> l.amount
    union all
    select 'a ledger without a wallet comes to nothing', null,
           format('that of %s comes to %s', l.owner, _dollars(l.amount))
    from (select l.owner, sum(l.amount) as amount from ledger l group by l.owner) as l
    where l.amount <> 0 and not exists (select from wallets w where w.owner = l.owner)
    union all
    select 'a wallet holds what its open calls hold', null,
           format('%s holds %s, its calls %s', w.owner, _dollars(w.held), _dollars(calls.held))
    from wallets w
    cross join lateral (
        select coalesce(sum(-h.amount), 0) as held
        from ledger h
        where h.owner = w.owner and h.kind = 'hold'
          and not exists (select from ledger s where s.call_id = h.call_id and s.kind = 'settlement')) as calls
    where w.held <> calls.held
    union all
    select 'a call is settled when it is closed, and not before', h.call_id,
           format('it is %s and %s', coalesce(c.outcome, 'gone'),
                  case when s.id is null then 'not settled' else 'settled' end)
    from ledger h
    left join model_calls c on c.id = h.call_id
    left join ledger s on s.call_id = h.call_id and s.kind = 'settlement'
    where h.kind = 'hold' and (s.id is null) <> (c.outcome is not distinct from 'open')
      and not (c.id is null and s.id is not null)
    union all
    select 'a call is paid for by whoever holds money for it', c.id,
           format('it is %s, and %s does', coalesce(c.payer, 'nobody'), coalesce(h.owner, 'nobody'))
    from model_calls c
    left join ledger h on h.call_id = c.id and h.kind = 'hold'
    where c.payer is distinct from h.owner;
end;

create function _broken_charges() returns table (law text, object uuid, problem text)
    language sql stable
begin atomic
    select 'what was charged and what is unbilled is what a call cost', c.id,
           format('%s and %s of %s', _dollars(paid.amount), _dollars(c.unbilled), _dollars(c.cost))
    from model_calls c
    cross join lateral (select -sum(l.amount) as amount from ledger l where l.call_id = c.id) as paid
    where c.held is not null and c.outcome <> 'open' and paid.amount + c.unbilled <> c.cost
      -- A charge to a wallet that is closed stays, even if the call turns out cheaper later.
      and not (paid.amount > c.cost and exists (select from ledger l where l.owner = c.payer and l.kind = 'closing'))
    union all
    select 'a budget counts what its calls hold and have cost', b.session_id,
           format('%s and %s, its calls %s and %s', _dollars(b.held), _dollars(b.spent), _dollars(calls.held),
                  _dollars(calls.cost))
    from budgets b
    cross join lateral (
        select coalesce(sum(c.held) filter (where c.outcome = 'open'), 0) as held, coalesce(sum(c.cost), 0) as cost
        from jobs j
        join model_calls c on c.job_id = j.id
        where j.session_id = b.session_id) as calls
    where (b.held, b.spent) <> (calls.held, calls.cost)
    union all
    select 'a job whose call can be paid does not wait for funds', u.job_id,
           format('%s are needed, and there', _dollars(u.needed))
    from unfunded_jobs u
    join jobs j on j.id = u.job_id and j.status = 'paused_nsf'
    where not u.is_paused and not u.is_due
      and not exists (select from wallets w where w.owner = u.owner and u.needed > w.balance + w.held)
      and not exists (select from budgets b where b.session_id = u.session_id and u.needed > b.amount - b.spent)
    union all
    select 'a job without funds is listed with what it needs', j.id, 'it is not'
    from jobs j
    where j.status = 'paused_nsf' and not exists (select from unfunded_jobs u where u.job_id = j.id)
    union all
    select 'a call costs no more than was held for it', c.id,
           format('%s of %s are unbilled', _dollars(c.unbilled), _dollars(c.cost))
    from model_calls c
    where c.unbilled > 0;
end;

-- Every broken invariant, of deleted sessions too.
create function _broken_invariants() returns table (law text, object uuid, problem text)
    language sql stable
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select * from _broken_definitions_and_sessions()
    union all
    select * from _broken_links()
    union all
    select * from _broken_queue()
    union all
    select * from _broken_progress()
    union all
    select * from _broken_answers()
    union all
    select * from _broken_wallets()
    union all
    select * from _broken_charges()
$$;

create function self_check() returns table (law text, object uuid, problem text)
    language sql stable
    security definer
    set search_path = pg_catalog, dialectic, pg_temp
as $$
    select b.law, b.object, b.problem
    from _broken_invariants() as b
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
