//! Decides where an artifact stands in the tree of files, from what it is and never from when it was made.
//!
//! Every part of a path is a slug, so no name, however hostile, can leave the tree or offend a file system. Artifacts
//! that differ in any fact get different paths, as far as their slugs differ; the shell numbers what is still equal.
//! Never touches a file and never remembers a path.

#[cfg(test)]
mod laws;
mod slug;

pub use slug::{short, slug};

use slug::slug_within;
use std::fmt;

/// Models appear up to three times in one file name, and a name may have 255 bytes.
const MODEL: usize = 36;

/// What an artifact is, which decides its folder and its ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The brief of a stage.
    SeedPrompt,
    /// What the user said about a stage.
    UserFeedback,
    /// A document for people.
    Document,
    /// What the user said about a document.
    DocumentFeedback,
    /// An answer as it came.
    RawResponse,
    /// The messages of a call.
    Prompt,
    /// The messages of a call that plans.
    PlannerPrompt,
    /// The decisions a model's documents share.
    HeaderContext,
    /// The chunks of an answer, joined.
    AssembledJson,
}

/// What the model worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work<'a> {
    /// Its own matter, or everything at once.
    Alone,
    /// The proposal of one model.
    Critiquing {
        /// Who wrote the proposal.
        source: &'a str,
    },
    /// A proposal and one critique of it.
    Pair {
        /// Who wrote the proposal.
        source: &'a str,
        /// Who wrote the critique.
        reviewer: &'a str,
    },
    /// All texts that descend from one proposal.
    Reducing {
        /// The lineage, of which the last eight hex digits are shown.
        lineage: &'a str,
    },
}

impl<'a> Work<'a> {
    /// Judges by what a job row says. `pairwise` must be told: a model that joins a proposal with its own critique of it
    /// has the same source and reviewer as the critique itself.
    pub fn of(
        model: &str,
        source: Option<&'a str>,
        reviewer: Option<&'a str>,
        lineage: Option<&'a str>,
        pairwise: bool,
    ) -> Self {
        match (source, reviewer, lineage) {
            (Some(source), Some(reviewer), _) if !pairwise && reviewer == model => Self::Critiquing { source },
            (Some(source), Some(reviewer), _) => Self::Pair { source, reviewer },
            (Some(source), None, _) if source == model => Self::Alone,
            (_, None, Some(lineage)) => Self::Reducing { lineage },
            _ => Self::Alone,
        }
    }
}

/// What the artifact is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key<'a> {
    /// By its document key, else its output type, for a header its step key.
    Named(&'a str),
    /// By the combine job that made it.
    Combined {
        /// The id of the job, of which the last eight hex digits are shown.
        job: &'a str,
    },
}

/// The facts of an artifact that decide its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Artifact<'a> {
    /// The name of the project, as its owner wrote it.
    pub project_name: &'a str,
    /// The id of the session.
    pub session_id: &'a str,
    /// The iteration inside the session.
    pub iteration: u32,
    /// The position of the stage in its process.
    pub stage_position: u32,
    /// The slug of the stage.
    pub stage: &'a str,
    /// What it is.
    pub kind: Kind,
    /// Who wrote it; of no account for what belongs to the whole stage.
    pub model: &'a str,
    /// What the model worked on.
    pub work: Work<'a>,
    /// What it is called.
    pub key: Key<'a>,
    /// 1, then one more for each regeneration or edit.
    pub version: u32,
    /// Which continuation, 0 for the first answer.
    pub continuation: u32,
}

impl Artifact<'_> {
    /// The path, with `/` between its parts and none before the first.
    pub fn path(&self) -> String {
        let (folder, ending) = match self.kind {
            Kind::SeedPrompt => return format!("{}/seed_prompt.md", self.folder()),
            Kind::UserFeedback => return format!("{}/user_feedback.md", self.folder()),
            Kind::Document => ("documents", ".md"),
            Kind::DocumentFeedback => ("documents", "_feedback.md"),
            Kind::RawResponse => ("raw_responses", "_raw.json"),
            Kind::Prompt | Kind::PlannerPrompt => ("_work/prompts", "_prompt.md"),
            Kind::HeaderContext => ("_work/context", "_header_context.json"),
            Kind::AssembledJson => ("_work/assembled_json", "_assembled.json"),
        };
        let planner = if self.kind == Kind::PlannerPrompt { "_planner" } else { "" };
        let counted = matches!(self.kind, Kind::RawResponse | Kind::Prompt | Kind::PlannerPrompt);
        let continuation = match self.continuation {
            n if counted && n > 0 => format!("_continuation_{n}"),
            _ => String::new(),
        };
        let (who, version, key) = (Who(self.model, self.work), self.version, self.key);
        format!("{}/{folder}/{who}_{version}_{key}{planner}{continuation}{ending}", self.folder())
    }

    /// The folder of the stage it belongs to.
    pub fn folder(&self) -> String {
        format!(
            "{}/session_{}/iteration_{}/{}_{}",
            slug(self.project_name),
            short(self.session_id),
            self.iteration,
            self.stage_position,
            slug(self.stage)
        )
    }
}

/// The n-th artifact with the same path: the first keeps it, the second ends in `_2`.
pub fn numbered(path: &str, n: u32) -> String {
    match path.rsplit_once('.') {
        _ if n < 2 => path.to_owned(),
        Some((stem, ending)) if !ending.contains('/') => format!("{stem}_{n}.{ending}"),
        _ => format!("{path}_{n}"),
    }
}

/// A model and what it worked on.
struct Who<'a>(&'a str, Work<'a>);

impl fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = |name| slug_within(name, MODEL);
        f.write_str(&model(self.0))?;
        match self.1 {
            Work::Alone => Ok(()),
            Work::Critiquing { source } => write!(f, "_critiquing_{}", model(source)),
            Work::Pair { source, reviewer } => {
                write!(f, "_from_{}_{}", model(source), model(reviewer))
            }
            Work::Reducing { lineage } => write!(f, "_reducing_{}", short(lineage)),
        }
    }
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(&slug(name)),
            Self::Combined { job } => write!(f, "combined_{}", short(job)),
        }
    }
}
