//! The ground that laws from outside stand on: a real server, a database of its own for each test, errors taken apart.
//!
//! `dev/cluster run` gives the server (PGHOST, PGPORT, PGUSER). Databases are copied from one that has the extension, made
//! once per process, and dropped when the test ends. Nothing here hopes that a while is long enough: `eventually` looks again
//! and again until a deadline.

mod extremes;
pub mod fake_provider;
pub mod server;
mod working;

use postgres::error::DbError;
use postgres::types::{FromSqlOwned, ToSql};
use postgres::{Client, Config, NoTls};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use extremes::*;
pub use uuid::Uuid;
pub use working::*;

/// How long `eventually` looks before it gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A database with the extension, dropped at the end.
pub struct Database {
    name: String,
}

impl Default for Database {
    fn default() -> Self {
        Database::new()
    }
}

impl Database {
    /// A fresh database that has the extension and nothing else. Where the library is preloaded its worker works the queue as
    /// soon as there is something in it.
    pub fn new() -> Database {
        Database::copied(template(), "")
    }

    /// As `new`, with the worker switched off: jobs stay where the test puts them.
    pub fn by_hand() -> Database {
        Database::copied(template_by_hand(), "")
    }

    /// As `new`, but there is no worker at all: a template is not served.
    pub fn unserved() -> Database {
        Database::copied(template(), "is_template true")
    }

    fn copied(template: &str, options: &str) -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("law_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        connect_to("postgres")
            .batch_execute(&format!("create database {name} template {template} {options}"))
            .expect("a database from the template");
        Database { name }
    }

    /// A fresh database without the extension.
    pub fn empty() -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("bare_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        connect_to("postgres").batch_execute(&format!("create database {name}")).expect("a database");
        Database { name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A connection as the superuser.
    pub fn connect(&self) -> Client {
        connect_to(&self.name)
    }

    /// How it is connected to, for those who want it otherwise.
    pub fn config(&self) -> Config {
        config(&self.name)
    }

    /// A connection that acts as this role; it is made if there is none. Roles belong to the whole server: name them after
    /// the test.
    pub fn connect_as(&self, role: &str) -> Client {
        let mut client = self.connect();
        client
            .batch_execute(&format!(
                "do $$ begin if not exists (select from pg_roles where rolname = '{role}') then create role {role} login; end if; end $$; \
                 set session authorization {role}"
            ))
            .expect("a role to act as");
        client
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let mut client = connect_to("postgres");
        let _ = client.batch_execute(&format!("alter database {} is_template false", self.name));
        let _ = client.batch_execute(&format!("drop database if exists {} with (force)", self.name));
    }
}

fn template() -> &'static str {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    TEMPLATE.get_or_init(|| make_template("", ""))
}

fn template_by_hand() -> &'static str {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    TEMPLATE.get_or_init(|| make_template("_by_hand", "; select dialectic.set_config('worker_enabled', 'false')"))
}

/// Templates have no worker, so that nobody is connected to them when they are copied.
fn make_template(suffix: &str, further: &str) -> String {
    let name = format!("template_{}{suffix}", std::process::id());
    connect_to("postgres")
        .batch_execute(&format!("create database {name} is_template true"))
        .expect("a database for the template");
    connect_to(&name)
        .batch_execute(&format!("set client_min_messages = warning; create extension pg_dialectic cascade{further}"))
        .expect("CREATE EXTENSION pg_dialectic CASCADE");
    name
}

/// A connection to a database of the server that the environment names.
pub fn connect_to(database: &str) -> Client {
    config(database).connect(NoTls).expect("a server; run the tests with `dev/test engine`")
}

/// How a database of the server of the environment is connected to.
fn config(database: &str) -> Config {
    let variable = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let mut config = Config::new();
    config
        .host(&variable("PGHOST", "127.0.0.1"))
        .port(variable("PGPORT", "5432").parse().expect("PGPORT is a number"))
        .user(&variable("PGUSER", "postgres"))
        .dbname(database);
    config
}

/// The one value that a query gives.
pub fn one<T: FromSqlOwned>(client: &mut Client, query: &str, values: &[&(dyn ToSql + Sync)]) -> T {
    client.query_one(query, values).unwrap_or_else(|error| panic!("{query}\n{error:?}")).get(0)
}

/// The first column of all rows that a query gives.
pub fn column<T: FromSqlOwned>(client: &mut Client, query: &str, values: &[&(dyn ToSql + Sync)]) -> Vec<T> {
    client
        .query(query, values)
        .unwrap_or_else(|error| panic!("{query}\n{error:?}"))
        .iter()
        .map(|row| row.get(0))
        .collect()
}

/// The error a query ends with; a query that succeeds is a failure.
pub fn refused(client: &mut Client, query: &str, values: &[&(dyn ToSql + Sync)]) -> DbError {
    match client.query(query, values) {
        Ok(rows) => panic!("{query}\nwas not refused: {} rows", rows.len()),
        Err(error) => error.as_db_error().unwrap_or_else(|| panic!("{query}\n{error:?}")).clone(),
    }
}

/// As `refused`, and the error has this SQLSTATE, names this thing and has a hint.
pub fn refused_with(
    client: &mut Client,
    query: &str,
    values: &[&(dyn ToSql + Sync)],
    sqlstate: &str,
    named: &str,
) -> DbError {
    let error = refused(client, query, values);
    assert_eq!(error.code().code(), sqlstate, "{query}\n{error:?}");
    assert!(error.message().contains(named), "{query}\nmessage \"{}\" does not name \"{named}\"", error.message());
    assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{query}\nno hint: {error:?}");
    error
}

/// Looks until the condition holds; a condition that never does is a failure after 20 seconds.
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    eventually_within(PATIENCE, what, condition);
}

/// As `eventually`, with a patience of its own.
pub fn eventually_within(patience: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + patience;
    while !condition() {
        assert!(Instant::now() < until, "{what}: not within {patience:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Looks until the backend with this pid waits for a lock: how a race is forced into its bad interleaving.
pub fn waits_for_a_lock(watcher: &mut Client, pid: i32) {
    eventually("a backend waits for a lock", || {
        one(
            watcher,
            "select coalesce((select wait_event_type = 'Lock' from pg_stat_activity where pid = $1), false)",
            &[&pid],
        )
    });
}

/// Forces two connections to overlap: the first acts in an open transaction, the second acts until it is seen waiting for a
/// lock, then the first commits. Returns what both got.
pub fn overlapping<A, B: Send>(
    database: &Database,
    first: impl FnOnce(&mut Client) -> A,
    second: impl FnOnce(&mut Client) -> B + Send,
) -> (A, B) {
    let (mut one, mut other, mut watcher) = (database.connect(), database.connect(), database.connect());
    one.batch_execute("begin").expect("begin");
    let early = first(&mut one);
    let waiting = pid(&mut other);
    let late = std::thread::scope(|scope| {
        let running = scope.spawn(move || second(&mut other));
        waits_for_a_lock(&mut watcher, waiting);
        one.batch_execute("commit").expect("commit");
        running.join().expect("the second connection")
    });
    (early, late)
}

/// What a backend alone has written to of its memory, in kB.
pub fn private_memory(pid: i32) -> u64 {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("smaps_rollup");
    let of = |name: &str| {
        let line = smaps.lines().find(|line| line.starts_with(name)).expect("a line");
        line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number")
    };
    of("Private_Dirty:")
}

/// The process of a connection.
pub fn pid(client: &mut Client) -> i32 {
    one(client, "select pg_backend_pid()", &[])
}

/// A session over a small process, generated and ready to be claimed; returns its id.
pub fn generated(client: &mut Client, models: &[&str]) -> Uuid {
    let project: Uuid =
        one(client, "select dialectic.create_project('Law', 'Is this a law?', process => 'essay')", &[]);
    let session: Uuid = one(client, "select dialectic.start_session($1, $2)", &[&project, &models]);
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    session
}

/// A mark of every row of every table; equal marks mean that nothing was changed, and nothing half-created.
pub fn mark(client: &mut Client) -> Vec<(String, i64, String)> {
    let tables: Vec<String> = column(
        client,
        "select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace and relkind = 'r' order by 1",
        &[],
    );
    let one_of = |table: &String| {
        format!(
            "select '{table}', count(*), coalesce(md5(string_agg(t::text, '' order by t::text)), '') from dialectic.{table} t"
        )
    };
    let query = tables.iter().map(one_of).collect::<Vec<_>>().join(" union all ");
    client.query(&query, &[]).expect("a mark").iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// No law of the engine is broken.
pub fn assert_sound(client: &mut Client) {
    let broken: Vec<String> =
        column(client, "select format('%s: %s %s', law, object, problem) from dialectic.self_check()", &[]);
    assert!(broken.is_empty(), "self_check: {broken:#?}");
}
