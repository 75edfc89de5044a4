//! What a turn of a claimer is for and comes to, and where it runs.

use crate::error::{Error, Problem};
use crate::store::claim::Claim;
use crate::store::document;
use crate::store::request::{Draft, Opened};
use crate::worker::calls::ClaimId;
use crate::worker::gate::News;
use crate::worker::hand::Batch;
use pgrx::Uuid;
use std::collections::HashSet;
use std::time::Duration;

/// Where turns run: in transactions of the worker or of a procedure.
pub(crate) trait Host {
    /// Runs work in a transaction of its own, which is committed unless there is an error.
    fn transaction<T>(&mut self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Problem>;
    /// A place where a test may end the process.
    fn at(&mut self, _place: &'static str) {}
}

/// What a turn has done, to be taken in when it is committed.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) plans: Vec<Claim>,
    pub(crate) batches: Vec<Batch>,
    pub(crate) drafts: Vec<Draft>,
    pub(crate) sources: Vec<document::Source>,
    pub(crate) opened: Opened,
    /// Sessions that were to be locked, and those of them that were not free.
    pub(crate) asked: HashSet<Uuid>,
    pub(crate) held: HashSet<Uuid>,
    pub(crate) tried: HashSet<ClaimId>,
    pub(crate) kept: HashSet<ClaimId>,
    pub(crate) claimed: usize,
    pub(crate) planned: usize,
    /// How long planning took, which sees to its own bounds.
    pub(crate) planning: Duration,
    pub(crate) revoked: HashSet<ClaimId>,
    /// What has changed in the tables that are kept.
    pub(crate) news: News,
}

/// What a transaction is for.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) open: bool,
    pub(crate) keep: bool,
    pub(crate) claim: bool,
    /// Whether to see which claims were taken away.
    pub(crate) look: bool,
}

/// What a turn came to.
#[derive(Default)]
pub(crate) struct Report {
    /// How many jobs were claimed.
    pub(crate) claimed: usize,
    /// Whether another turn has something to do at once.
    pub(crate) is_busy: bool,
    /// Whether something waits for a session that somebody else holds.
    pub(crate) is_held_up: bool,
}
