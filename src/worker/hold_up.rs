//! What errors hold up: a session, or the whole database; when it is tried again, and when it is logged.
//!
//! Decides the backoff and what `health()` and `blocked` show. Never touches the database, never fails a job: whatever
//! is held up stays in flight and goes on when the cause has ended.

use crate::error::Problem;
use pgrx::Uuid;
use std::collections::HashMap;
use std::time::{Duration, Instant};

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);
/// How often the same cause is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Causes that are remembered for that; more than this are not told apart.
const LOGGED_CAUSES: usize = 64;

/// What is held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    Database,
    Session(Uuid),
}

/// Why, since when, and until when nothing is tried.
pub(crate) struct HoldUp {
    pub(crate) problem: Problem,
    /// How often it failed in a row.
    pub(crate) failures: u32,
    pub(crate) since: Instant,
    next_try: Instant,
}

/// All that is held up.
#[derive(Default)]
pub(crate) struct HoldUps {
    held: HashMap<Scope, HoldUp>,
    logged: HashMap<([u8; 5], String), Instant>,
    is_changed: bool,
}

impl HoldUps {
    /// An error holds this up, for longer each time. Returns whether it is to be logged.
    pub(crate) fn add(&mut self, scope: Scope, problem: Problem, now: Instant) -> bool {
        let held = self.held.entry(scope).or_insert_with(|| HoldUp {
            problem: problem.clone(),
            failures: 0,
            since: now,
            next_try: now,
        });
        let backoff = FIRST_BACKOFF.saturating_mul(1 << held.failures.min(10)).min(LONGEST_BACKOFF);
        held.failures = held.failures.saturating_add(1);
        held.next_try = now + backoff;
        held.problem = problem.clone();
        self.is_changed = true;
        self.is_to_be_logged(problem, now)
    }

    fn is_to_be_logged(&mut self, problem: Problem, now: Instant) -> bool {
        self.logged.retain(|_, at| now.duration_since(*at) < LOG_INTERVAL);
        let cause = (problem.sqlstate, without_numbers(&problem.message));
        if self.logged.contains_key(&cause) || self.logged.len() >= LOGGED_CAUSES {
            return false;
        }
        self.logged.insert(cause, now);
        true
    }

    /// It is over.
    pub(crate) fn remove(&mut self, scope: Scope) {
        self.is_changed |= self.held.remove(&scope).is_some();
    }

    /// It could not be tried, so nothing is known of its cause: it is tried again after the shortest backoff.
    pub(crate) fn postpone(&mut self, scope: Scope, now: Instant) {
        if let Some(held) = self.held.get_mut(&scope) {
            held.next_try = held.next_try.max(now + FIRST_BACKOFF);
        }
    }

    pub(crate) fn is_held(&self, session: Uuid) -> bool {
        self.held.contains_key(&Scope::Session(session))
    }

    /// How long nothing of the database is tried.
    pub(crate) fn database_rest(&self, now: Instant) -> Option<Duration> {
        let held = self.held.get(&Scope::Database)?;
        held.next_try.checked_duration_since(now).filter(|rest| !rest.is_zero())
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = Uuid> {
        self.held.keys().filter_map(|scope| match scope {
            Scope::Session(session) => Some(*session),
            Scope::Database => None,
        })
    }

    /// The session that is to be tried again now: the one that has waited longest.
    pub(crate) fn due_session(&self, now: Instant) -> Option<Uuid> {
        let due =
            self.sessions().filter_map(|session| Some((self.held.get(&Scope::Session(session))?.next_try, session)));
        due.filter(|(next_try, _)| *next_try <= now).min().map(|(_, session)| session)
    }

    /// How long until something is tried again.
    pub(crate) fn rest(&self, now: Instant) -> Option<Duration> {
        self.held.values().map(|held| held.next_try.saturating_duration_since(now)).min()
    }

    /// All of it, the database first, where it has changed since the last time.
    pub(crate) fn changed(&mut self) -> Option<Vec<(Scope, &HoldUp)>> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        let mut all: Vec<(Scope, &HoldUp)> = self.held.iter().map(|(scope, held)| (*scope, held)).collect();
        all.sort_by_key(|(scope, held)| (*scope != Scope::Database, held.since));
        Some(all)
    }
}

/// A message without words that have a digit in them, such as ids: errors that differ in these have the same cause.
fn without_numbers(message: &str) -> String {
    let has_digit = |word: &&str| word.bytes().any(|byte| byte.is_ascii_digit());
    message.split_whitespace().filter(|word| !has_digit(word)).collect::<Vec<_>>().join(" ")
}

/// How much of a message other processes see.
const SHOWN_MESSAGE_BYTES: usize = 400;

/// Something that an error holds up, as other processes see it. In shared memory, because a full disk or a read-only
/// server cannot store it in a table.
#[derive(Clone, Copy)]
pub(crate) struct ShownHoldUp {
    /// None where the whole database is held up.
    pub(crate) session: Option<[u8; 16]>,
    pub(crate) sqlstate: [u8; 5],
    pub(crate) failures: u32,
    /// When it began, in microseconds of the server's own time.
    pub(crate) since: i64,
    message: [u8; SHOWN_MESSAGE_BYTES],
    message_bytes: usize,
}

impl ShownHoldUp {
    pub(crate) const NONE: ShownHoldUp = ShownHoldUp {
        session: None,
        sqlstate: *b"00000",
        failures: 0,
        since: 0,
        message: [0; SHOWN_MESSAGE_BYTES],
        message_bytes: 0,
    };

    /// The message is cut to what fits, between characters.
    pub(crate) fn new(session: Option<[u8; 16]>, sqlstate: [u8; 5], failures: u32, since: i64, message: &str) -> Self {
        let end = (0..=message.len().min(SHOWN_MESSAGE_BYTES)).rev().find(|at| message.is_char_boundary(*at));
        let bytes = &message.as_bytes()[..end.unwrap_or(0)];
        let mut shown =
            ShownHoldUp { session, sqlstate, failures, since, message_bytes: bytes.len(), ..ShownHoldUp::NONE };
        shown.message[..bytes.len()].copy_from_slice(bytes);
        shown
    }

    pub(crate) fn message(&self) -> &str {
        std::str::from_utf8(&self.message[..self.message_bytes]).unwrap_or_default()
    }
}
