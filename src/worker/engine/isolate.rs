//! What the engine does after a transaction has failed: finds the smallest thing that the error belongs to.
//!
//! First what concerns no session, then one session at a time, then the unread jobs of a session one at a time. A job
//! that cannot be read or computed fails, after a few tries. An error while writing fails nothing: it holds up its
//! session, or the database where every session meets it.

use super::work::{Parts, Phase};
use super::{Engine, Failed, Host, Report, Succeeded};
use crate::error::Problem;
use crate::store::claim;
use crate::worker::hold_up::Scope;
use crate::worker::prepare::Admission;
use dialectic_net::ClaimId;
use pgrx::Uuid;
use std::collections::{HashSet, VecDeque};
use std::time::Instant;

/// This many sessions must fail, and none succeed, before an error is taken to concern the whole database.
const FAILED_SESSIONS: usize = 3;
/// After this many nothing else is tried.
const MOST_FAILED_SESSIONS: usize = 8;

/// What a transaction may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Only {
    /// Everything but what is held up.
    All,
    /// What concerns no session.
    Housekeeping,
    Session(Uuid),
    Claim(ClaimId),
}

/// This many searches in a row that find no cause hold up the whole database.
const MOST_FRUITLESS_SEARCHES: u32 = 2;

/// A search for the cause of an error.
pub(super) struct Isolation {
    /// The error, where a transaction for everything met it.
    problem: Option<Problem>,
    left: VecDeque<Only>,
    failed: Vec<(Uuid, Problem)>,
    has_succeeded: bool,
    /// Whether a job or a session was found that fails.
    has_found: bool,
}

impl Engine {
    /// A transaction for everything has failed.
    pub(super) fn begin_isolation(&mut self, host: &mut impl Host, failed: Failed) -> Result<(), Problem> {
        if failed.problem.is_of_the_server() {
            return self.hold_up(host, Scope::Database, failed.problem);
        }
        let due = match host.transaction(claim::due_sessions) {
            Ok(due) => due,
            Err(problem) => return self.hold_up(host, Scope::Database, problem),
        };
        let streaming: HashSet<Uuid> = self.partial_texts.iter().map(|(claim, _)| claim.session).collect();
        let waits = |session: &Uuid| self.in_flight.needs_transaction(*session) || streaming.contains(session);
        let sessions = self.in_flight.sessions().into_iter().filter(waits);
        let mut sessions: Vec<Uuid> = sessions.chain(due).filter(|session| !self.hold_ups.is_held(*session)).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let left = [Only::Housekeeping].into_iter().chain(sessions.into_iter().map(Only::Session)).collect();
        let problem = Some(failed.problem);
        self.isolation = Some(Isolation { problem, left, failed: Vec::new(), has_succeeded: false, has_found: false });
        Ok(())
    }

    /// Tries the next thing alone.
    pub(super) fn isolate(&mut self, host: &mut impl Host, most: usize, report: &mut Report) -> Result<(), Problem> {
        let Some(only) = self.isolation.as_mut().and_then(|isolation| isolation.left.pop_front()) else {
            return self.end_isolation(host);
        };
        let succeeded = self.try_only(host, only, most, report)?;
        if let Some(isolation) = &mut self.isolation {
            let has_written = succeeded.is_some_and(|succeeded| succeeded.has_written);
            isolation.has_succeeded |= has_written && only != Only::Housekeeping;
            if !isolation.has_succeeded && isolation.failed.len() >= MOST_FAILED_SESSIONS {
                return self.end_isolation(host);
            }
        }
        Ok(())
    }

    /// Tries a session again that an error holds up.
    pub(super) fn retry_session(
        &mut self,
        host: &mut impl Host,
        session: Uuid,
        most: usize,
        report: &mut Report,
    ) -> Result<(), Problem> {
        match self.try_only(host, Only::Session(session), most, report)? {
            Some(succeeded) if succeeded.has_tried || !self.in_flight.needs_transaction(session) => {
                self.hold_ups.remove(Scope::Session(session));
            }
            // Another transaction may have locked the session, or its provider has no room.
            _ => self.hold_ups.postpone(Scope::Session(session), Instant::now()),
        }
        // Its unread jobs are tried one by one in the next cycles; nothing else was found to fail.
        if let Some(isolation) = &mut self.isolation {
            isolation.has_succeeded = true;
        }
        Ok(())
    }

    /// Runs a transaction for this alone; none where it failed.
    fn try_only(
        &mut self,
        host: &mut impl Host,
        only: Only,
        most: usize,
        report: &mut Report,
    ) -> Result<Option<Succeeded>, Problem> {
        let look = self.look_due && only == Only::Housekeeping;
        let parts = Parts { open: true, keep: true, claim: true, look };
        let room = self.room(most);
        let Failed { problem, phase } = match self.step(host, &parts, room, only, report) {
            Ok(succeeded) => return Ok(Some(succeeded)),
            Err(failed) => failed,
        };
        if problem.is_of_the_server() {
            self.hold_up(host, Scope::Database, problem)?;
            return Ok(None);
        }
        if let Some(isolation) = &mut self.isolation {
            isolation.has_found = true;
        }
        let is_of_the_job = phase == Phase::Reading && !problem.may_pass();
        match only {
            Only::All | Only::Housekeeping => self.hold_up(host, Scope::Database, problem)?,
            Only::Session(session) if is_of_the_job => self.try_jobs(session),
            Only::Claim(id) if is_of_the_job => {
                self.in_flight.note_failed_read(id, problem);
                self.try_again(Only::Claim(id));
            }
            Only::Session(session) => self.fail_session(host, session, problem)?,
            Only::Claim(id) => {
                if let Some(claim) = self.in_flight.claim_of(id) {
                    self.fail_session(host, claim.session, problem)?;
                }
            }
        }
        Ok(None)
    }

    /// One of the unread jobs of a session cannot be read: each is tried alone.
    fn try_jobs(&mut self, session: Uuid) {
        for id in self.in_flight.unread(session) {
            self.try_again(Only::Claim(id));
        }
    }

    fn try_again(&mut self, only: Only) {
        let new = || Isolation {
            problem: None,
            left: VecDeque::new(),
            failed: Vec::new(),
            has_succeeded: true,
            has_found: true,
        };
        self.isolation.get_or_insert_with(new).left.push_back(only);
    }

    fn fail_session(&mut self, host: &mut impl Host, session: Uuid, problem: Problem) -> Result<(), Problem> {
        if let Some(isolation) = &mut self.isolation {
            isolation.failed.push((session, problem.clone()));
        }
        self.hold_up(host, Scope::Session(session), problem)
    }

    fn end_isolation(&mut self, host: &mut impl Host) -> Result<(), Problem> {
        let Some(mut isolation) = self.isolation.take() else { return Ok(()) };
        if let Some(problem) = isolation.problem.filter(|_| !isolation.has_found) {
            // It may have passed. If it is met again, nothing tells whose it is.
            self.fruitless_searches += 1;
            if self.fruitless_searches >= MOST_FRUITLESS_SEARCHES {
                return self.hold_up(host, Scope::Database, problem);
            }
        }
        let is_of_all = !isolation.has_succeeded && isolation.failed.len() >= FAILED_SESSIONS;
        match isolation.failed.pop().filter(|_| is_of_all) {
            Some((_, problem)) => self.hold_up(host, Scope::Database, problem),
            None => {
                self.hold_ups.remove(Scope::Database);
                Ok(())
            }
        }
    }

    /// An error holds something up until it is tried again; where the host raises, it is returned.
    fn hold_up(&mut self, host: &mut impl Host, scope: Scope, problem: Problem) -> Result<(), Problem> {
        if host.raises() {
            return Err(problem);
        }
        if self.hold_ups.add(scope, problem.clone(), Instant::now()) {
            let session = match scope {
                Scope::Session(session) => Some(session),
                Scope::Database => None,
            };
            host.log(&problem, session);
        }
        match scope {
            Scope::Database => self.isolation = None,
            // A call that cannot be opened must not take the room of one that can.
            Scope::Session(session) => {
                for id in self.in_flight.admitted(session) {
                    let call = self.in_flight.prepared_mut(id).map(|(_, call)| call.withdraw(Admission::Queued));
                    if let Some(ticket) = call.flatten() {
                        self.admissions.withdraw(ticket);
                    }
                }
            }
        }
        Ok(())
    }
}
