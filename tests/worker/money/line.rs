//! A connection in the storm: what it is refused is noted, and when it is killed it comes back. Nobody here knows what is asked.

use dialectic_tests::server::Server;
use dialectic_tests::{Uuid, pid};
use postgres::types::ToSql;
use postgres::{Client, Error, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a connection may be told in the storm besides yes: it was killed, the server crashed, or what it came for is not there any more.
const EXPECTED: [&str; 4] = ["cut", "57P01", "57P02", "55000"];

/// What is said of something that is not there any more.
const MOOT: [&str; 5] = ["is not claimed", "has not failed", "is over", "has completed without it", "has no request"];

/// What all connections share.
pub(super) struct Storm<'a> {
    server: &'a Server,
    pub(super) projects: Vec<Uuid>,
    pub(super) keys: AtomicU64,
    calls: AtomicI64,
    mortals: Mutex<BTreeSet<i32>>,
    deeds: Mutex<BTreeMap<String, u64>>,
    problems: Mutex<Vec<String>>,
    is_over: Mutex<bool>,
    end: Condvar,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Storm<'a> {
    pub(super) fn new(server: &'a Server, projects: Vec<Uuid>) -> Storm<'a> {
        Storm {
            server,
            projects,
            keys: AtomicU64::new(0),
            calls: AtomicI64::new(0),
            mortals: Mutex::default(),
            deeds: Mutex::default(),
            problems: Mutex::default(),
            is_over: Mutex::new(false),
            end: Condvar::new(),
        }
    }

    pub(super) fn calls(&self) -> i64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn has_made(&self, calls: i64) {
        self.calls.store(calls, Ordering::Relaxed);
    }

    /// Those that may be killed now.
    pub(super) fn mortals(&self) -> Vec<i32> {
        held(&self.mortals).iter().copied().collect()
    }

    /// Counts something that was done or seen.
    pub(super) fn note(&self, deed: &str) {
        *held(&self.deeds).entry(deed.to_owned()).or_default() += 1;
    }

    /// What was done and seen, and how often.
    pub(super) fn deeds(&self) -> BTreeMap<String, u64> {
        held(&self.deeds).clone()
    }

    /// What must not be was seen: all is over.
    pub(super) fn accuse(&self, problem: String) {
        held(&self.problems).push(problem);
        self.end();
    }

    pub(super) fn assert_well(&self) {
        let problems = held(&self.problems);
        assert!(problems.is_empty(), "{:#?}", &problems[..problems.len().min(10)]);
    }

    pub(super) fn end(&self) {
        *held(&self.is_over) = true;
        self.end.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        *held(&self.is_over)
    }

    /// Waits for the end, but no longer than this; returns whether it has come.
    pub(super) fn is_over_within(&self, milliseconds: u64) -> bool {
        let wait = self.end.wait_timeout_while(held(&self.is_over), Duration::from_millis(milliseconds), |over| !*over);
        *wait.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// One connection.
pub(super) struct Line<'a> {
    storm: &'a Storm<'a>,
    client: Client,
    pid: i32,
    is_mortal: bool,
}

impl<'a> Line<'a> {
    /// A connection that nobody kills.
    pub(super) fn safe(storm: &'a Storm<'a>) -> Line<'a> {
        Line::new(storm, false)
    }

    /// A connection that may be killed at any moment.
    pub(super) fn mortal(storm: &'a Storm<'a>) -> Line<'a> {
        Line::new(storm, true)
    }

    fn new(storm: &'a Storm<'a>, is_mortal: bool) -> Line<'a> {
        let mut client = storm.server.connect("law");
        let pid = pid(&mut client);
        if is_mortal {
            held(&storm.mortals).insert(pid);
        }
        Line { storm, client, pid, is_mortal }
    }

    /// The rows, or none when it was refused or cut.
    pub(super) fn ask(&mut self, query: &str, values: &[&(dyn ToSql + Sync)]) -> Option<Vec<Row>> {
        let answer = self.client.query(query, values);
        self.heard(query, answer)
    }

    /// The first value of the first row.
    pub(super) fn value<T: for<'b> postgres::types::FromSql<'b>>(
        &mut self,
        query: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Option<T> {
        self.ask(query, values).and_then(|rows| rows.first().map(|row| row.get(0)))
    }

    /// A statement that commits as it goes.
    pub(super) fn call(&mut self, statement: &str) -> Option<()> {
        let answer = self.client.batch_execute(statement);
        self.heard(statement, answer)
    }

    fn heard<T>(&mut self, query: &str, answer: Result<T, Error>) -> Option<T> {
        let error = match answer {
            Ok(answer) => return Some(answer),
            Err(error) => error,
        };
        let code = error.code().map_or("cut", |code| code.code()).to_owned();
        // The same code says that the ledger was changed or that a job moved as it must not.
        let is_expected = code != "55000"
            || error.as_db_error().is_some_and(|error| MOOT.iter().any(|moot| error.message().contains(moot)));
        if EXPECTED.contains(&code.as_str()) && is_expected {
            self.storm.note(&format!("heard {code}"));
        } else {
            self.storm.accuse(format!("{query}\n{error:?}"));
        }
        if code != "55000" {
            self.hang_up();
            *self = Line::new(self.storm, self.is_mortal);
        }
        None
    }

    fn hang_up(&self) {
        held(&self.storm.mortals).remove(&self.pid);
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        self.hang_up();
    }
}
