//! The ground that laws from outside stand on: a real server, a database of its own for each test, errors taken apart.
//!
//! `dev/cluster run` gives the server (PGHOST, PGPORT, PGUSER). Databases are copied from one that has the extension, made
//! once per process, and dropped when the test ends. Nothing here waits by sleeping: `eventually` looks until a deadline.

use postgres::error::DbError;
use postgres::types::{FromSqlOwned, ToSql};
use postgres::{Client, Config, NoTls};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use uuid::Uuid;

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
    /// A fresh database that has the extension and nothing else.
    pub fn new() -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("law_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        connect_to("postgres")
            .batch_execute(&format!("create database {name} template {}", template()))
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
        let _ = connect_to("postgres").batch_execute(&format!("drop database if exists {} with (force)", self.name));
    }
}

fn template() -> &'static str {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let name = format!("template_{}", std::process::id());
        connect_to("postgres")
            .batch_execute(&format!("create database {name} is_template true"))
            .expect("a database for the template");
        connect_to(&name)
            .batch_execute("set client_min_messages = warning; create extension pg_dialectic cascade")
            .expect("CREATE EXTENSION pg_dialectic CASCADE");
        name
    })
}

/// A connection to a database of the server that the environment names.
pub fn connect_to(database: &str) -> Client {
    let variable = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    Config::new()
        .host(&variable("PGHOST", "127.0.0.1"))
        .port(variable("PGPORT", "5432").parse().expect("PGPORT is a number"))
        .user(&variable("PGUSER", "postgres"))
        .dbname(database)
        .connect(NoTls)
        .expect("a server; run the tests with `dev/test end-to-end`")
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
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "{what}: not within {PATIENCE:?}");
        std::thread::yield_now();
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
