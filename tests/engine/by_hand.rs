//! The worker played by hand: a process that fans out into as many jobs as a test wants, claims and answers one by one, and
//! a record of every move that a job makes.

use dialectic_tests::*;
use postgres::Client;

/// A job and the claim that a test holds on it.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) job: Uuid,
    pub(crate) claim: i64,
    pub(crate) kind: String,
    pub(crate) model: String,
}

/// Claims up to `most` due jobs, oldest first.
pub(crate) fn claim(client: &mut Client, worker: &str, most: i32) -> Vec<Claim> {
    let claimed = client
        .query("select id, claim_id, kind, model from dialectic.claim_jobs($1, $2) order by id", &[&worker, &most])
        .expect("claim_jobs");
    claimed
        .iter()
        .map(|row| Claim { job: row.get(0), claim: row.get(1), kind: row.get(2), model: row.get(3) })
        .collect()
}

/// Finishes a claimed job with this answer; returns what complete_job says.
pub(crate) fn answer(client: &mut Client, claim: &Claim, text: &str) -> String {
    one(client, "select dialectic.complete_job($1, $2, $3)", &[&claim.job, &claim.claim, &text])
}

/// Gives a claimed job back with this class of failure; returns what fail_job says.
pub(crate) fn fail(client: &mut Client, claim: &Claim, class: &str, message: &str) -> String {
    one(client, "select dialectic.fail_job($1, $2, $3, $4)", &[&claim.job, &claim.claim, &class, &message])
}

/// A project over the process `fan`: one stage, one step, one job for each of its reference texts.
pub(crate) fn fan_project(client: &mut Client, texts: i32) -> Uuid {
    client
        .batch_execute(
            r#"
            select dialectic.set_prompt('fan_seed', 'Brief.');
            select dialectic.set_prompt('fan_leaf', '{% block system %}Be brief.{% endblock %}{% block user %}{% include "shared_documents" %}Go on.{% endblock %}');
            select dialectic.define_process('fan', '[{"slug": "fan", "seed_prompt_template": "fan_seed", "recipe": {"steps": [
                {"step": 1, "key": "leaf", "name": "Leaf", "job_type": "execute", "prompt_template_name": "fan_leaf",
                 "inputs_required": [{"type": "general_resource", "multiple": true}],
                 "granularity_strategy": "per_source_document",
                 "output_type": "leaf", "document_key": "leaf", "file_type": "markdown"}]}}]');
            "#,
        )
        .expect("the process fan");
    let project: Uuid = one(client, "select dialectic.create_project('Fan', 'Fan out.', process => 'fan')", &[]);
    client
        .execute(
            "select dialectic.add_resource($1, 'text ' || n, 'Text ' || n) from generate_series(1, $2) as n",
            &[&project, &texts],
        )
        .expect("reference texts");
    project
}

/// Starts a session over a project and generates its first stage.
pub(crate) fn begin(client: &mut Client, project: Uuid, models: &[&str]) -> Uuid {
    let session: Uuid = one(client, "select dialectic.start_session($1, $2)", &[&project, &models]);
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    session
}

/// Claims and plans every root that is due; each comes to rest in this status.
pub(crate) fn plan_roots(client: &mut Client, count: usize, becomes: &str) -> Vec<Claim> {
    let roots = claim(client, "planner", 100);
    assert_eq!(roots.len(), count, "{roots:?}");
    for root in &roots {
        assert_eq!(root.kind, "plan");
        assert_eq!(one::<String>(client, "select dialectic.complete_job($1, $2)", &[&root.job, &root.claim]), becomes);
    }
    roots
}

/// A session of the process `fan` with its jobs planned and claimed: its root and the claims.
pub(crate) fn fanned(client: &mut Client, texts: i32) -> (Uuid, Vec<Claim>) {
    let project = fan_project(client, texts);
    begin(client, project, &["sim-a"]);
    let root = plan_roots(client, 1, "waiting_for_children")[0].job;
    let leaves = claim(client, "hand", 100);
    assert_eq!(leaves.len(), texts as usize);
    (root, leaves)
}

pub(crate) fn status(client: &mut Client, job: Uuid) -> String {
    one(client, "select status from dialectic.jobs where id = $1", &[&job])
}

pub(crate) fn session_status(client: &mut Client, session: Uuid) -> String {
    one(client, "select status from dialectic.sessions where id = $1", &[&session])
}

/// From now on every move of a job is recorded, with how many of its children had not ended then.
pub(crate) fn record_moves(client: &mut Client) {
    client
        .batch_execute(
            "create table public.moves (n bigint generated always as identity, job uuid, root boolean, status text, open_children bigint); \
             create function public.record_move() returns trigger language plpgsql as $$ begin \
                 insert into public.moves (job, root, status, open_children) \
                 select new.id, new.parent_job_id is null, new.status, count(*) from dialectic.jobs c \
                 where c.parent_job_id = new.id and c.status <> all (dialectic._ended_statuses()); \
                 return null; end $$; \
             create trigger record_move after update on dialectic.jobs for each row \
                 when (old.status is distinct from new.status) execute function public.record_move()",
        )
        .expect("the record of moves");
}

/// The statuses that a job went to since the record began, in order.
pub(crate) fn moves(client: &mut Client, job: Uuid) -> Vec<String> {
    column(client, "select status from public.moves where job = $1 order by n", &[&job])
}

/// How often a root was woken since the record began, and how many children were then not done.
pub(crate) fn wakings(client: &mut Client, root: Uuid) -> (i64, i64) {
    let row = client
        .query_one(
            "select count(*), coalesce(sum(open_children), 0)::bigint from public.moves where job = $1 and status = 'pending_next_step'",
            &[&root],
        )
        .expect("the record of moves");
    (row.get(0), row.get(1))
}

/// A connection that is a claimer inside the server and holds its claims by living, and the name of the claimer.
pub(crate) fn claimer(database: &Database) -> (Client, String) {
    let mut client = database.connect();
    let name = one(&mut client, "select dialectic._open_claimer('law')", &[]);
    (client, name)
}

/// Has such a claimer take up to ten due jobs; returns how many it has.
pub(crate) fn take(client: &mut Client, claimer: &str) -> i64 {
    take_jobs(client, claimer);
    one(client, "select count(*) from dialectic.jobs where status = 'processing' and claimed_by = $1", &[&claimer])
}

/// As `take`; returns each job that it took, its claim, and whether the claimer is to work on nothing else. Releases void
/// claims first and leaves closed queues alone, as a claimer does.
pub(crate) fn take_jobs(client: &mut Client, claimer: &str) -> Vec<(Uuid, i64, bool)> {
    const CLAIM: &str = "select job_id, claim_id, is_alone, has_void_claims \
         from dialectic._claim_batch($1, 10, 0, 0, $2, '{}', array(select model from dialectic._closed_models), \
             array(select 0 from dialectic._closed_models), '{}') \
         where job_id is not null or has_void_claims";
    let mut rows = client.query(CLAIM, &[&claimer, &false]).expect("_claim_batch");
    if rows.iter().any(|row| row.get("has_void_claims")) {
        let mut transaction = client.transaction().expect("a transaction");
        for statement in [
            "select dialectic._settle_lost_calls(array(select dialectic._release_void_claims($1, '{}')))",
            "select dialectic._delete_void_claims($1)",
        ] {
            transaction.execute(statement, &[&claimer]).expect("release");
        }
        transaction.commit().expect("commit");
        rows = client.query(CLAIM, &[&claimer, &true]).expect("_claim_batch");
    }
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}
