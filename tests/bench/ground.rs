//! What every row stands on: a database that is as safe as a user's, a process that fans out, and proof that all was done.
//!
//! Sessions are made with the public functions only. Waiting looks at the status of sessions and is no part of any figure:
//! those come from the times the engine itself keeps. BENCH_SCALE makes everything smaller while one develops.

use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Between two looks at sessions that run.
const LOOKING: Duration = Duration::from_millis(20);
/// After this long something is wrong, not slow.
const PATIENCE: Duration = Duration::from_secs(900);

fn scale() -> f64 {
    std::env::var("BENCH_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1.0)
}

/// A size, made smaller by BENCH_SCALE but never less than `least`.
pub(crate) fn sized(full: i32, least: i32) -> i32 {
    ((f64::from(full) * scale()) as i32).max(least)
}

/// What is in the wallet of whoever runs a bench, in micro-dollars: more than it can spend.
pub(crate) const WEALTH: i64 = 1_000_000_000_000_000;

/// A fresh database with a connection to it.
pub(crate) fn fresh() -> (Database, Client) {
    let (database, mut client) = unlimited();
    client.execute("select dialectic.open_wallet('role:postgres', $1)", &[&WEALTH]).expect("a wallet");
    (database, client)
}

/// One whose calls nobody pays for.
pub(crate) fn unlimited() -> (Database, Client) {
    let database = Database::new();
    let mut client = database.connect();
    assert_safe(&mut client);
    (database, client)
}

/// Every call is held and settled, and the books agree.
pub(crate) fn assert_paid(client: &mut Client, calls: i32) {
    let settled: i64 = one(client, "select count(*) from dialectic.ledger where kind = 'settlement'", &[]);
    assert_eq!(settled, i64::from(calls), "settlements");
    let agree: bool = one(
        client,
        "select w.held = 0 and w.balance = (select sum(l.amount) from dialectic.ledger l) \
                and $1 - w.balance = (select sum(c.cost) from dialectic.model_calls c) and w.balance < $1 from dialectic.wallets w",
        &[&WEALTH],
    );
    assert!(agree, "the wallet and the calls do not agree");
}

/// Nothing that keeps data or guards it was turned off for the sake of speed.
fn assert_safe(client: &mut Client) {
    for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
        assert_eq!(one::<String>(client, "select current_setting($1)", &[&setting]), "on", "{setting}");
    }
    let changed: Vec<String> = column(client, "select array_to_string(setconfig, ', ') from pg_db_role_setting", &[]);
    assert!(changed.is_empty(), "settings of roles and databases: {changed:?}");
    let tables = "from pg_class c where c.relnamespace = 'dialectic'::regnamespace and c.relkind in ('r', 'p')";
    let unlogged: Vec<String> =
        column(client, &format!("select c.relname::text {tables} and c.relpersistence <> 'p'"), &[]);
    assert!(unlogged.is_empty(), "not logged: {unlogged:?}");
    let disabled: Vec<String> = column(
        client,
        &format!(
            "select t.tgname::text from pg_trigger t where t.tgenabled not in ('O', 'A') and t.tgrelid in (select c.oid {tables})"
        ),
        &[],
    );
    assert!(disabled.is_empty(), "triggers off: {disabled:?}");
    let on_jobs = "select count(*) from pg_trigger where tgrelid = 'dialectic.jobs'::regclass and not tgisinternal";
    assert!(one::<i64>(client, on_jobs, &[]) > 0, "jobs have no trigger");
    let open: Vec<String> = column(
        client,
        &format!(
            "select c.relname::text {tables} and not c.relrowsecurity and c.relname in \
             ('projects', 'sessions', 'stage_runs', 'jobs', 'job_inputs', 'contributions', 'resources', 'model_calls')"
        ),
        &[],
    );
    assert!(open.is_empty(), "row-level security off: {open:?}");
}

/// A project over so many texts, of a process that makes a call for each of them and, with `gather`, one more when all of them
/// are answered. The last one does not read the answers: it would cost more than waiting for them.
pub(crate) fn fan_project(client: &mut Client, texts: i32, gather: bool) -> Uuid {
    let mut steps = vec![json!({
        "key": "leaf", "job_type": "execute", "prompt_template_name": "bench_leaf",
        "granularity_strategy": "per_source_document",
        "inputs_required": [{"type": "general_resource", "multiple": true}],
        "output_type": "leaf", "document_key": "leaf"
    })];
    if gather {
        steps.push(json!({
            "key": "gather", "job_type": "execute", "prompt_template_name": "bench_leaf", "needs": ["leaf"],
            "granularity_strategy": "all_to_one", "inputs_required": [{"type": "seed_prompt"}],
            "output_type": "gathered", "document_key": "gathered"
        }));
    }
    let stages = json!([{"slug": "fan", "seed_prompt_template": "bench_seed", "recipe": {"steps": steps}}]);
    client
        .batch_execute(
            "select dialectic.set_prompt('bench_seed', 'Brief.'); \
             select dialectic.set_prompt('bench_leaf', '{% block system %}Be brief.{% endblock %}\
                {% block user %}{% include \"shared_documents\" %}Go on.{% endblock %}')",
        )
        .expect("prompts");
    client.execute("select dialectic.define_process('bench_fan', $1)", &[&stages]).expect("a process");
    let project: Uuid =
        one(client, "select dialectic.create_project('Bench', 'Fan out.', process => 'bench_fan')", &[]);
    client
        .execute(
            "select dialectic.add_resource($1, 'text ' || n, 'Text ' || n) from generate_series(1, $2) as n",
            &[&project, &texts],
        )
        .expect("texts");
    project
}

/// A model that answers after so many milliseconds, with about so many words.
pub(crate) fn model(client: &mut Client, name: &str, latency_ms: i32, words: i32) {
    let settings = json!({"latency_ms": latency_ms, "answer_words": words});
    client
        .execute(
            "select dialectic.add_model($1, 'simulator', settings => $2, input_price => 1.25, output_price => 10)",
            &[&name, &settings],
        )
        .expect("a model");
}

/// So many sessions over a project, generated in one transaction, so that they are seen at once.
pub(crate) fn begin(client: &mut Client, project: Uuid, model: &str, sessions: i32) -> Vec<Uuid> {
    let mut transaction = client.transaction().expect("a transaction");
    let begun: Vec<Uuid> = (0..sessions)
        .map(|_| {
            let session: Uuid = transaction
                .query_one("select dialectic.start_session($1, $2)", &[&project, &vec![model]])
                .expect("start_session")
                .get(0);
            transaction.execute("select dialectic.generate($1)", &[&session]).expect("generate");
            session
        })
        .collect();
    transaction.commit().expect("commit");
    begun
}

/// Looks until no session runs; all must have completed.
pub(crate) fn all_completed(client: &mut Client) {
    let running = "select count(*) from dialectic.sessions where status = 'active'";
    until(&format!("{running} is 0"), || one::<i64>(client, running, &[]) == 0);
    let others = "select count(*) from dialectic.sessions where status <> 'completed'";
    assert_eq!(one::<i64>(client, others, &[]), 0, "sessions that did not complete");
}

pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(LOOKING);
    }
}

/// Every job ended well, every call was answered once, every answer was kept, and no law is broken.
pub(crate) fn assert_done(client: &mut Client, calls: i32) {
    let calls = i64::from(calls);
    for (what, query) in [
        ("calls that were answered", "select count(*) from dialectic.model_calls where outcome = 'answered'"),
        ("calls", "select count(*) from dialectic.model_calls"),
        ("contributions", "select count(*) from dialectic.contributions"),
        ("prompts", "select count(*) from dialectic.resources where resource_type = 'turn_prompt'"),
        ("completed jobs", "select count(*) from dialectic.jobs where kind <> 'plan' and status = 'completed'"),
    ] {
        assert_eq!(one::<i64>(client, query, &[]), calls, "{what}");
    }
    assert_sound(client);
}

pub(crate) fn enable_worker(client: &mut Client, on: bool) {
    client.execute("select dialectic.set_config('worker_enabled', $1)", &[&json!(on)]).expect("set_config");
}

/// Plans by hand what waits to be planned, while the worker is off.
pub(crate) fn plan_by_hand(client: &mut Client) {
    let waiting = "select count(*)::integer from dialectic.jobs where kind = 'plan' and status = 'pending'";
    loop {
        let left: i32 = one(client, waiting, &[]);
        if left == 0 {
            return;
        }
        // A few at a time, as a worker outside the server would. They were due before any of their children.
        let planned: i64 = one(
            client,
            "select count(dialectic.complete_job(id, claim_id)) from dialectic.claim_jobs('bench', $1) where kind = 'plan'",
            &[&left.min(50)],
        );
        assert!(planned > 0, "plans are due and none can be claimed");
    }
}

/// The worker of this database, once it is there.
pub(crate) fn worker(client: &mut Client) -> i32 {
    process(client, "pg_dialectic worker", "datname = current_database()")
}

pub(crate) fn launcher(client: &mut Client) -> i32 {
    process(client, "pg_dialectic launcher", "true")
}

fn process(client: &mut Client, kind: &str, which: &str) -> i32 {
    let query = format!("select pid from pg_stat_activity where backend_type = '{kind}' and {which}");
    let mut found = Vec::new();
    until(&format!("there is a {kind}"), || {
        found = column(client, &query, &[]);
        !found.is_empty()
    });
    found[0]
}

/// A setting of the server, put back at the end.
pub(crate) struct Setting(&'static str);

impl Setting {
    pub(crate) fn new(name: &'static str, value: i32) -> Setting {
        alter(name, &format!("alter system set {name} = {value}"), |now| now == value.to_string());
        Setting(name)
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let default: String =
            one(&mut connect_to("postgres"), "select boot_val from pg_settings where name = $1", &[&self.0]);
        alter(self.0, &format!("alter system reset {}", self.0), |now| now == default);
    }
}

/// Changes a setting and looks until new connections have it, and so every process that starts from now on.
fn alter(name: &str, statement: &str, is_there: impl Fn(String) -> bool) {
    let mut client = connect_to("postgres");
    client.batch_execute(statement).expect("alter system");
    client.execute("select pg_reload_conf()", &[]).expect("reload");
    until(statement, || is_there(one(&mut connect_to("postgres"), "select current_setting($1)", &[&name])));
}

/// What the figures were taken on. A load far above one at the start means that somebody else was busy.
pub(crate) fn machine(load: f64) -> Value {
    let mut client = connect_to("postgres");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut facts = json!({"cores": cores, "scale": scale(), "load at the start": load});
    for setting in ["server_version", "fsync", "synchronous_commit", "shared_buffers", "dialectic.max_concurrent_calls"]
    {
        facts[setting] = json!(one::<String>(&mut client, "select current_setting($1)", &[&setting]));
    }
    facts
}

/// How many processes wanted to run, of late.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}
