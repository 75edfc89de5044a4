//! Dump and restore: everything users made and everything under way comes back, and nothing that ships goes along.
//!
//! The real pg_dump, psql and pg_restore of the server move a database with every kind of row (dump_rows.rs) into an empty
//! one; the two are then compared by query. Not a word on stderr is allowed: pg_dump warns there of cycles of foreign keys.

use crate::dump_rows::{STATUSES, define, fill};
use dialectic_tests::*;
use postgres::Client;
use std::path::PathBuf;
use std::process::Command;

/// What is not dumped: what the running server knows of its providers and of where the claims stand, when it maintained last,
/// what the rows of jobs bring about by themselves, and lists that ship and nobody changes.
const NOT_DUMPED: [&str; 10] = [
    "claim_positions",
    "claimers",
    "index_leases",
    "job_statuses",
    "job_transitions",
    "maintenance",
    "provider_cooldowns",
    "queues",
    "ready_jobs",
    "steps_under_way",
];

fn server_program(name: &str) -> Command {
    let folder = std::env::var("DIALECTIC_PGBIN").expect("DIALECTIC_PGBIN; run the tests with `dev/test engine`");
    Command::new(PathBuf::from(folder).join(name))
}

/// Runs a program that must succeed without a word of complaint; returns what it printed.
fn quietly(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{complaint}", output.status);
    assert!(complaint.is_empty(), "{command:?} complains:\n{complaint}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A file that is gone when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(database: &Database) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("{}.dump", database.name())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[derive(Clone, Copy)]
enum Way {
    Plain,
    Custom,
}

/// Dumps a database and restores it into an empty one.
fn carried(source: &Database, way: Way) -> Database {
    let target = Database::empty();
    let file = Scratch::new(&target);
    let format = match way {
        Way::Plain => "--format=plain",
        Way::Custom => "--format=custom",
    };
    quietly(server_program("pg_dump").arg(format).arg("--file").arg(&file.0).arg(source.name()));
    match way {
        Way::Plain => quietly(
            server_program("psql")
                .args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--output=/dev/null"])
                .args(["--dbname", target.name(), "--file"])
                .arg(&file.0),
        ),
        Way::Custom => {
            quietly(server_program("pg_restore").args(["--exit-on-error", "--dbname", target.name()]).arg(&file.0))
        }
    };
    target
}

/// Every table of the schema with the number and the hash of its rows. When a shipped row came with the extension is the one
/// thing that may differ.
fn tables(client: &mut Client) -> Vec<(String, i64, String)> {
    let names: Vec<String> = column(
        client,
        "select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace and relkind in ('r', 'p') order by 1",
        &[],
    );
    assert!(names.len() > 15, "{names:?}");
    names
        .into_iter()
        .filter(|name| !["claimers", "index_leases", "maintenance", "queues", "provider_cooldowns"].contains(&name.as_str()))
        .map(|name| {
            let row = client
                .query_one(
                    &format!(
                        "select count(*), md5(coalesce(string_agg(content, e'\\n' order by content), '')) from ( \
                             select case when (to_jsonb(t) ->> 'is_shipped')::boolean then (to_jsonb(t) - 'created_at')::text else t::text end as content \
                             from dialectic.{name} as t) as rows"
                    ),
                    &[],
                )
                .expect("the rows of a table");
            (name, row.get(0), row.get(1))
        })
        .collect()
}

/// Who may do what with the schema, its tables, sequences and routines, one line each.
fn grants(client: &mut Client) -> Vec<String> {
    column(
        client,
        "with object(name, acl) as ( \
             select 'schema', coalesce(nspacl, acldefault('n', nspowner)) from pg_namespace where nspname = 'dialectic' \
             union all \
             select oid::regclass::text, coalesce(relacl, acldefault(case relkind when 'S' then 's' else 'r' end::\"char\", relowner)) \
             from pg_class where relnamespace = 'dialectic'::regnamespace and relkind in ('r', 'v', 'S') \
             union all \
             select oid::regprocedure::text, coalesce(proacl, acldefault('f', proowner)) from pg_proc where pronamespace = 'dialectic'::regnamespace) \
         select format('%s: %s %s %s', name, coalesce(grantee::regrole::text, 'public'), privilege_type, is_grantable) \
         from object, aclexplode(acl) order by 1",
        &[],
    )
}

/// Row-level security: where it is on, and every policy.
fn policies(client: &mut Client) -> Vec<String> {
    column(
        client,
        "select format('%s %s %s', oid::regclass, relrowsecurity, relforcerowsecurity) from pg_class \
         where relnamespace = 'dialectic'::regnamespace and relkind = 'r' \
         union all select p::text from pg_policies p where schemaname = 'dialectic' order by 1",
        &[],
    )
}

fn broken_laws(client: &mut Client) -> Vec<String> {
    column(client, "select s::text from dialectic.self_check() as s order by 1", &[])
}

/// All that must be the same before and after.
fn assert_same(before: &mut Client, after: &mut Client) {
    for (there, here) in tables(before).into_iter().zip(tables(after)) {
        assert_eq!(there, here, "table, rows, hash");
    }
    for sequence in ["claim_ids", "notifications_id_seq"] {
        let last = format!("select format('%s %s', last_value, is_called) from dialectic.{sequence}");
        assert_eq!(one::<String>(before, &last, &[]), one::<String>(after, &last, &[]), "{sequence}");
    }
    for view in ["documents", "_artifacts"] {
        let rows = format!(
            "select count(*), md5(coalesce(string_agg(v::text, '' order by v::text), '')) from dialectic.{view} v"
        );
        let [there, here] = [&mut *before, &mut *after].map(|client| client.query_one(&rows, &[]).expect("a view"));
        assert!(there.get::<_, i64>(0) > 0);
        assert_eq!(there.get::<_, String>(1), here.get::<_, String>(1), "{view}");
    }
    assert_eq!(grants(before), grants(after));
    assert_eq!(policies(before), policies(after));
    assert_eq!(broken_laws(before), broken_laws(after));
}

/// A database with all there can be, and roles that were granted what there is to grant.
fn filled(roles: &str) -> Database {
    let database = Database::by_hand();
    let (user, admin) = (format!("{roles}_user"), format!("{roles}_admin"));
    drop((database.connect_as(&user), database.connect_as(&admin)));
    let mut client = database.connect();
    client
        .batch_execute(&format!("select dialectic.grant_user('{user}'), dialectic.grant_admin('{admin}')"))
        .expect("grants");
    fill(&mut client);
    client
        .batch_execute(
            "insert into dialectic.claimers (name) values ('worker:0:gone'); \n             insert into dialectic.suspect_jobs (job_id, session_id) select id, session_id from dialectic.jobs limit 1",
        )
        .expect("a claimer that died");
    let granted = grants(&mut client);
    assert!(
        granted.contains(&format!("dialectic.run(text,text[],text,text,text,text,boolean,bigint): {user} EXECUTE f")),
        "{granted:#?}"
    );
    assert!(granted.contains(&format!("dialectic.set_config(text,jsonb): {admin} EXECUTE f")), "{granted:#?}");
    database
}

/// The ground of the laws below: what is carried away is as various as it can be.
#[test]
fn the_database_that_is_dumped_has_jobs_in_every_status_and_calls_of_every_outcome() {
    let database = filled("dump_ground");
    let mut client = database.connect();
    let statuses: Vec<String> = column(&mut client, "select distinct status from dialectic.jobs order by 1", &[]);
    assert_eq!(statuses, STATUSES);
    let outcomes: Vec<String> =
        column(&mut client, "select distinct outcome from dialectic.model_calls order by 1", &[]);
    assert_eq!(outcomes, ["answered", "failed", "late", "lost", "open"]);
    let empty: Vec<String> =
        tables(&mut client).into_iter().filter(|(_, rows, _)| *rows == 0).map(|(name, ..)| name).collect();
    assert_eq!(empty, [] as [String; 0], "tables without a row");
    for table in [
        "configuration",
        "providers",
        "secrets",
        "models",
        "prompt_templates",
        "document_templates",
        "processes",
        "stages",
        "domains",
        "domain_overlays",
    ] {
        let own: i64 = one(&mut client, &format!("select count(*) from dialectic.{table} where not is_shipped"), &[]);
        assert!(own > 0, "nobody's own {table}");
    }
    assert_sound(&mut client);
}

fn assert_carries_everything(roles: &str, way: Way) {
    let source = filled(roles);
    let target = carried(&source, way);
    assert_same(&mut source.connect(), &mut target.connect());
}

#[test]
fn a_plain_dump_restored_by_psql_carries_everything() {
    assert_carries_everything("dump_plain", Way::Plain);
}

#[test]
fn a_custom_dump_restored_by_pg_restore_carries_everything() {
    assert_carries_everything("dump_custom", Way::Custom);
}

#[test]
fn a_dump_of_a_restored_database_carries_everything_again() {
    let source = filled("dump_twice");
    let target = carried(&carried(&source, Way::Plain), Way::Plain);
    assert_same(&mut source.connect(), &mut target.connect());
}

#[test]
fn restored_work_goes_on_where_it_was() {
    let source = filled("dump_goes_on");
    let target = carried(&source, Way::Plain);
    let mut client = target.connect();
    let last: i64 = one(&mut client, "select last_value from dialectic.claim_ids", &[]);
    // By then the leases and the delays that were dumped have passed.
    client.batch_execute("set dialectic.clock_offset = 7200").expect("superuser");
    client
        .batch_execute("select dialectic.resume(s.id) from dialectic.sessions s where s.status = 'active'")
        .expect("resume");
    work(&mut client);
    let unfinished: Vec<String> = column(
        &mut client,
        "select format('%s %s %s: %s', j.model, j.step_key, j.status, j.error_details) from dialectic.jobs j \
         where j.status <> all (dialectic._ended_statuses())",
        &[],
    );
    assert_eq!(unfinished, [] as [String; 0]);
    let stage: String = one(
        &mut client,
        "select r.status from dialectic.stage_runs r join dialectic.sessions s on s.id = r.session_id \
         where r.stage = 'antithesis' and cardinality(s.models) = 4",
        &[],
    );
    assert_eq!(stage, "completed");
    let outcomes: Vec<String> =
        column(&mut client, "select distinct outcome from dialectic.model_calls order by 1", &[]);
    assert_eq!(outcomes, ["answered", "failed", "late", "lost"], "a call is still open");
    assert!(one::<i64>(&mut client, "select last_value from dialectic.claim_ids", &[]) > last);
    assert_sound(&mut client);
}

#[test]
fn restored_work_waits_until_somebody_wants_it() {
    let source = Database::unserved();
    let mut client = source.connect();
    let session = generated(&mut client, &["sim-a"]);
    assert!(one::<bool>(&mut client, "select dialectic.get_config('worker_enabled') = 'true'", &[]));
    let target = carried(&source, Way::Custom);
    let mut client = target.connect();
    assert!(one::<bool>(&mut client, "select dialectic.get_config('worker_enabled') = 'false'", &[]));
    let cause: String = one(&mut client, "select cause from dialectic.blocked where session_id = $1", &[&session]);
    assert!(cause.contains("worker_enabled"), "{cause}");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 0);
    hand_over(&mut client);
    assert_eq!(
        column::<String>(&mut client, "select distinct status from dialectic.jobs", &[]),
        ["completed"],
        "it goes on"
    );
}

/// The rows of each table in a plain dump, in the text format of COPY.
fn dumped_rows(database: &Database) -> Vec<(String, Vec<String>)> {
    let text = quietly(server_program("pg_dump").arg(database.name()));
    let mut lines = text.lines();
    let mut tables = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(table) = line.strip_prefix("COPY dialectic.").and_then(|rest| rest.split(' ').next()) {
            let rows = lines.by_ref().take_while(|row| *row != "\\.").map(str::to_owned).collect();
            tables.push((table.to_owned(), rows));
        }
    }
    tables
}

#[test]
fn nothing_that_ships_is_dumped() {
    let database = Database::new();
    let fresh = dumped_rows(&database);
    assert!(fresh.len() > 10, "{fresh:?}");
    assert!(fresh.iter().all(|(_, rows)| rows.is_empty()), "{fresh:#?}");

    let mut client = database.connect();
    define(&mut client);
    let with_own = dumped_rows(&database);
    for (table, rows) in &with_own {
        let own = "configuration document_templates domain_overlays domains models processes prompt_templates providers secrets stages"
            .contains(table.as_str());
        assert_eq!(own, !rows.is_empty(), "{table}: {rows:#?}");
    }
    let dump = quietly(server_program("pg_dump").arg(database.name()));
    let bodies: Vec<String> = column(&mut client, "select body from dialectic.prompt_templates where is_shipped", &[]);
    assert!(bodies.len() > 10);
    let lines = bodies.iter().flat_map(|body| body.lines()).filter(|line| line.len() > 60);
    for line in lines {
        assert!(!dump.contains(line), "shipped and dumped: {line}");
    }
}

#[test]
fn every_table_is_dumped_or_listed_as_not_and_only_the_users_rows_of_those_that_ship_some() {
    let database = Database::new();
    let mut client = database.connect();
    let not_registered: Vec<String> = column(
        &mut client,
        "select c.relname::text from pg_class c where c.relnamespace = 'dialectic'::regnamespace and c.relkind in ('r', 'p', 'm', 'S') \
         and not exists (select from pg_extension e where e.extname = 'pg_dialectic' and c.oid = any (e.extconfig)) order by 1",
        &[],
    );
    assert_eq!(not_registered, NOT_DUMPED);
    let misjudged: Vec<String> = column(
        &mut client,
        "select format('%s: %s', c.relname, condition) from pg_extension e, unnest(e.extconfig, e.extcondition) as r(id, condition) \
         join pg_class c on c.oid = r.id where e.extname = 'pg_dialectic' and condition <> case when exists ( \
             select from pg_attribute a where a.attrelid = c.oid and a.attname = 'is_shipped') then 'where not is_shipped' else '' end",
        &[],
    );
    assert_eq!(misjudged, [] as [String; 0]);
}
