//! The statuses of a job, what each one means, and every legal move between two of them.
//!
//! This is the only list: the database's checks, its transition table, its comments and every set of statuses ("ready",
//! "ended", …) derive from it. It decides what may happen, never when or to which job; the rules that move jobs
//! are modelled in [`crate::queue`].
//!
//! ```text
//!                   claim
//!   ready ─────────────────────────▶ processing ─────────────────▶ completed ──▶ superseded
//!   │ pending                         │  │  │                         ▲
//!   │ pending_continuation ◀──────────┘  │  ├─▶ failed                │
//!   │ pending_next_step     429, dead    │  └─▶ retry_loop_failed     │
//!   │ retrying              claimer,     │                            │
//!   ▲  ▲                    next attempt │ waits                      │
//!   │  │                                 ▼                            │
//!   │  └── children ended ───── waiting_for_children ──▶ failed       │
//!   │      (pending_next_step)            └──────────────────────────┘
//!   └───── prerequisites ended ── waiting_for_prerequisite ──▶ failed
//!          (status_before)
//!
//!   ready, processing, waiting ──▶ paused_user | cancelled | superseded
//!   ready, processing          ──▶ paused_nsf
//!   paused_user, paused_nsf    ──▶ status_before (ready or waiting) | cancelled
//!   failed, retry_loop_failed, cancelled ── retry() ──▶ pending, pending_continuation,
//!                                                       pending_next_step, waiting_*
//! ```
//!
//! A child that fails for good fails its parent at once, from `processing` or either waiting status. A parent that is
//! ready or paused at that instant is not in the table: it keeps its status and fails as soon as it is claimed or waits
//! again. A child that a person cancels cancels its parent at once, from any status that has not ended.

use std::fmt;
use std::str::FromStr;

/// A name that is in none of this module's lists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown job {list} \"{name}\"")]
pub struct UnknownName {
    list: &'static str,
    name: String,
}

impl UnknownName {
    fn new(list: &'static str, name: &str) -> Self {
        let name = name.to_owned();
        UnknownName { list, name }
    }
}

/// Where a job stands.
///
/// The order is that of every table that lists statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Ready to run. A claimer moves it out, to `processing`.
    Pending,
    /// A cut-off answer that waits to be continued. A claimer moves it out, to `processing`.
    PendingContinuation,
    /// A parent whose next steps may be planned. A claimer moves it out, to `processing`.
    PendingNextStep,
    /// Failed in a way that may pass; waits for `run_at`. A claimer moves it out once it is due, to `processing`.
    Retrying,
    /// Claimed by a live claimer. That claimer moves it out with the outcome; when the claimer dies, whoever frees dead
    /// claims returns it to the status it was claimed from; a child that fails for good fails it.
    Processing,
    /// A plan whose children run, or that waits for other models. The end of the last child, of a step of the stage run
    /// or of another root moves it out, to `pending_next_step`; a child that fails for good moves it to `failed`.
    WaitingForChildren,
    /// Needs other jobs first. The end of the last of them moves it out: to the status it had before, or to `failed`
    /// when one of them did not complete.
    WaitingForPrerequisite,
    /// Stopped by a person. A person moves it out, with `resume` or `cancel`.
    PausedUser,
    /// Stopped by an empty wallet. A top-up moves it out, or a person with `resume` or `cancel`.
    PausedNsf,
    /// Done, its answer saved. Only `regenerate` moves it out, to `superseded`.
    Completed,
    /// Failed for good. Only `retry()` moves it out: a leaf to the ready status it had, a parent to wait.
    Failed,
    /// Failed after its last attempt. Only `retry()` moves it out, as from `failed`.
    RetryLoopFailed,
    /// Stopped for good by a person, or because a child or a sibling ended without delivering. Only `retry()` moves it
    /// out, as from `failed`.
    Cancelled,
    /// Replaced by a newer job. Nobody moves it out.
    Superseded,
}

/// What a status means for the engine; every set of statuses derives from this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// May be claimed once it is due.
    Ready,
    /// Held by a claimer.
    Running,
    /// Moves when other jobs end.
    Waiting,
    /// Moves when a person or a top-up says so.
    Paused,
    /// Nobody waits for it any longer.
    Ended,
}

impl Status {
    /// Every status, in the order of every table that lists them.
    pub const ALL: [Status; 14] = [
        Status::Pending,
        Status::PendingContinuation,
        Status::PendingNextStep,
        Status::Retrying,
        Status::Processing,
        Status::WaitingForChildren,
        Status::WaitingForPrerequisite,
        Status::PausedUser,
        Status::PausedNsf,
        Status::Completed,
        Status::Failed,
        Status::RetryLoopFailed,
        Status::Cancelled,
        Status::Superseded,
    ];

    /// The name in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::PendingContinuation => "pending_continuation",
            Status::PendingNextStep => "pending_next_step",
            Status::Retrying => "retrying",
            Status::Processing => "processing",
            Status::WaitingForChildren => "waiting_for_children",
            Status::WaitingForPrerequisite => "waiting_for_prerequisite",
            Status::PausedUser => "paused_user",
            Status::PausedNsf => "paused_nsf",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::RetryLoopFailed => "retry_loop_failed",
            Status::Cancelled => "cancelled",
            Status::Superseded => "superseded",
        }
    }

    /// One sentence for people: what the status means.
    pub const fn description(self) -> &'static str {
        match self {
            Status::Pending => "Ready to run.",
            Status::PendingContinuation => "A cut-off answer waits to be continued.",
            Status::PendingNextStep => "A parent whose next steps may be planned.",
            Status::Retrying => "Failed, waits for its next attempt at run_at.",
            Status::Processing => "Claimed by a live claimer.",
            Status::WaitingForChildren => "A plan that waits for its children or other models.",
            Status::WaitingForPrerequisite => "Needs other jobs first.",
            Status::PausedUser => "Stopped by a person until resumed.",
            Status::PausedNsf => "Stopped by an empty wallet until it is topped up.",
            Status::Completed => "Done, its answer saved.",
            Status::Failed => "Failed for good; retry() starts it again.",
            Status::RetryLoopFailed => "Failed after its last attempt; retry() starts it again.",
            Status::Cancelled => "Stopped by a person, or by a sibling's failure.",
            Status::Superseded => "Replaced by a newer job, for good.",
        }
    }

    /// What the status means for the engine.
    pub const fn phase(self) -> Phase {
        use Status::*;
        match self {
            Pending | PendingContinuation | PendingNextStep | Retrying => Phase::Ready,
            Processing => Phase::Running,
            WaitingForChildren | WaitingForPrerequisite => Phase::Waiting,
            PausedUser | PausedNsf => Phase::Paused,
            Completed | Failed | RetryLoopFailed | Cancelled | Superseded => Phase::Ended,
        }
    }

    /// May be claimed once it is due.
    pub fn is_ready(self) -> bool {
        self.phase() == Phase::Ready
    }

    /// Moves when other jobs end.
    pub fn is_waiting(self) -> bool {
        self.phase() == Phase::Waiting
    }

    /// Nobody waits for it any longer.
    pub fn is_ended(self) -> bool {
        self.phase() == Phase::Ended
    }

    /// Moves without a person: ready, running or waiting.
    pub fn is_live(self) -> bool {
        match self.phase() {
            Phase::Ready | Phase::Running | Phase::Waiting => true,
            Phase::Paused | Phase::Ended => false,
        }
    }

    /// Ended because the work could not be done: what fails a parent.
    pub fn is_failure(self) -> bool {
        matches!(self, Status::Failed | Status::RetryLoopFailed)
    }

    /// Ended, and `retry()` can start it again.
    pub fn is_retryable(self) -> bool {
        self.is_failure() || self == Status::Cancelled
    }

    /// Whether a job in this status may move to `to`. Staying is not a move.
    pub fn may_become(self, to: Status) -> bool {
        use Status::*;
        let stopped = matches!(to, PausedUser | Cancelled | Superseded);
        match self {
            Pending | PendingContinuation | PendingNextStep | Retrying => {
                stopped || matches!(to, Processing | PausedNsf)
            }
            Processing => {
                let told = matches!(to, Completed | Failed | RetryLoopFailed | PausedNsf);
                stopped || told || to.is_ready() || to.is_waiting()
            }
            // A waiting job spends nothing, so an empty wallet does not stop it.
            WaitingForChildren => stopped || matches!(to, PendingNextStep | Completed | Failed),
            WaitingForPrerequisite => stopped || to == Failed || to.is_ready(),
            // Never back to processing: the claim was given up when the job was paused.
            PausedUser | PausedNsf => to == Cancelled || to.is_ready() || to.is_waiting(),
            // Not to retrying: that names an attempt under way, and retry() starts the count anew.
            Failed | RetryLoopFailed | Cancelled => to.is_waiting() || (to.is_ready() && to != Retrying),
            Completed => to == Superseded,
            Superseded => false,
        }
    }

    /// Every legal move, from and to: the rows of the database's transition table.
    pub fn transitions() -> impl Iterator<Item = (Status, Status)> {
        Status::ALL
            .into_iter()
            .flat_map(|from| Status::ALL.into_iter().map(move |to| (from, to)))
            .filter(|(from, to)| from.may_become(*to))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Status {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Status::ALL.into_iter().find(|status| status.as_str() == name).ok_or_else(|| UnknownName::new("status", name))
    }
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Decides which jobs a stage needs next and inserts them.
    Plan,
    /// Asks one model for one document.
    Execute,
    /// Reduces inputs too large for a model's window.
    Combine,
    /// Embeds one artifact.
    Index,
    /// Turns a finished answer into its file.
    Render,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::Plan, Kind::Execute, Kind::Combine, Kind::Index, Kind::Render];

    /// The name in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Plan => "plan",
            Kind::Execute => "execute",
            Kind::Combine => "combine",
            Kind::Index => "index",
            Kind::Render => "render",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Kind::ALL.into_iter().find(|kind| kind.as_str() == name).ok_or_else(|| UnknownName::new("kind", name))
    }
}

#[cfg(test)]
mod laws {
    use super::{Kind, Phase, Status};

    fn leaves_to(from: Status) -> Vec<Status> {
        Status::transitions().filter(|(f, _)| *f == from).map(|(_, to)| to).collect()
    }

    #[test]
    fn nothing_leaves_superseded() {
        assert_eq!(leaves_to(Status::Superseded), []);
    }

    #[test]
    fn an_ended_status_is_left_only_by_retry_or_to_superseded() {
        for (from, to) in Status::transitions().filter(|(from, _)| from.is_ended()) {
            if from == Status::Completed {
                assert_eq!(to, Status::Superseded);
            } else {
                assert!(from.is_retryable() && (to.is_ready() || to.is_waiting()), "{from} -> {to}");
            }
        }
    }

    #[test]
    fn every_live_or_paused_status_can_be_cancelled() {
        for from in Status::ALL.into_iter().filter(|s| !s.is_ended()) {
            assert!(from.may_become(Status::Cancelled), "{from}");
        }
    }

    #[test]
    fn every_status_that_has_not_ended_can_still_complete() {
        for start in Status::ALL.into_iter().filter(|s| !s.is_ended()) {
            let mut seen = vec![start];
            let mut next = 0;
            while next < seen.len() {
                let from = seen[next];
                next += 1;
                // Through an ended status only retry() leads on, and that is not the job's own way.
                for to in leaves_to(from).into_iter().filter(|_| !from.is_ended()) {
                    if !seen.contains(&to) {
                        seen.push(to);
                    }
                }
            }
            assert!(seen.contains(&Status::Completed), "{start}");
        }
    }

    #[test]
    fn only_a_ready_job_is_ever_claimed() {
        for (from, _) in Status::transitions().filter(|(_, to)| *to == Status::Processing) {
            assert_eq!(from.phase(), Phase::Ready);
        }
    }

    #[test]
    fn an_empty_wallet_never_stops_a_job_that_waits() {
        for (from, _) in Status::transitions().filter(|(_, to)| *to == Status::PausedNsf) {
            assert!(from.is_ready() || from == Status::Processing, "{from}");
        }
    }

    #[test]
    fn staying_is_not_a_move() {
        assert!(Status::transitions().all(|(from, to)| from != to));
    }

    #[test]
    fn names_are_read_back_and_others_are_refused() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert!(status.description().ends_with('.'));
        }
        for kind in Kind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        let refused = "Pending".parse::<Status>().unwrap_err().to_string();
        assert_eq!(refused, "unknown job status \"Pending\"");
        assert!("".parse::<Kind>().is_err());
    }
}
