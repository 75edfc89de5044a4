//! Decides where an artifact stands in the tree of files, from what it is and never from when it was made.
//!
//! Every part of a path is a slug, so no name, however hostile, can leave the tree or offend a file system. Artifacts
//! that differ in any fact get different paths, as far as their slugs differ; [`paths`] numbers what is still equal.
//! Never touches a file, never remembers a path and never reads a fact back out of one.
//!
//! ```text
//! {project}/
//!   project_readme.md  project_settings.json  {initial_prompt}.md
//!   general_resource/…   Pending/…  Current/…  Complete/…
//!   session_{last 8 hex}/iteration_{n}/{position}_{stage}/
//!     seed_prompt.md   user_feedback.md
//!     documents/{m}_{a}_{k}[_feedback].md
//!     raw_responses/{m}_{a}_{k}[_continuation_{c}]_raw.json
//!     _work/prompts/{m}_{a}_{k}[_planner][_continuation_{c}]_prompt.md
//!     _work/context/{m}_{a}_{k}_header_context.json   …_rag_context.md
//!     _work/assembled_json/{m}_{a}_{k}_assembled.json
//! ```

#[cfg(test)]
mod laws;
mod numbering;
mod slug;

pub use numbering::{numbered, paths};
pub use slug::{short, slug};

use crate::recipe::PROJECT_RESOURCES;
use slug::{file_name, slug_within};
use std::fmt;

/// Models appear up to three times in one file name, and a name may have 255 bytes.
const MODEL: usize = 36;

/// What an artifact is, which decides its folder and its ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What the project is, for people.
    ProjectReadme,
    /// What it takes to run the project again.
    ProjectSettings,
    /// What the user asked for, by its name.
    InitialPrompt,
    /// What the user attached to the project, by its name.
    GeneralResource,
    /// Something to be done: a document of the last stage, or a file of the user's by its name.
    Pending,
    /// Something being done.
    Current,
    /// Something done.
    Complete,
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
    /// The passages that were retrieved for a call.
    RagContext,
    /// The chunks of an answer, joined.
    AssembledJson,
}

impl Kind {
    /// What a resource of this type is; none for a type that is not known. Feedback is told apart by whether it is
    /// about a document.
    pub fn of_resource(resource_type: &str, is_about_document: bool) -> Option<Self> {
        Some(match resource_type {
            "project_readme" => Self::ProjectReadme,
            "project_settings" => Self::ProjectSettings,
            "initial_user_prompt" => Self::InitialPrompt,
            "pending_file" => Self::Pending,
            "current_file" => Self::Current,
            "complete_file" => Self::Complete,
            "seed_prompt" => Self::SeedPrompt,
            "user_feedback" if is_about_document => Self::DocumentFeedback,
            "user_feedback" => Self::UserFeedback,
            "rendered_document" => Self::Document,
            "turn_prompt" | "continuation_prompt" => Self::Prompt,
            "planner_prompt" => Self::PlannerPrompt,
            "header_context" => Self::HeaderContext,
            "rag_context" => Self::RagContext,
            "assembled_json" => Self::AssembledJson,
            attached if PROJECT_RESOURCES.contains(&attached) => Self::GeneralResource,
            _ => return None,
        })
    }
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
    /// Judges by what a job row says. `pairwise` must be told: a model that joins a proposal with its own critique of
    /// it has the same source and reviewer as the critique itself.
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

impl<'a> Key<'a> {
    /// Judges by what a row says: the document key, else the output type. A header is called by its step, of which a
    /// stage can have two; what a combine job made is called by that job.
    pub fn of(
        document_key: Option<&'a str>,
        output_type: &'a str,
        header_step: Option<&'a str>,
        combine_job: Option<&'a str>,
    ) -> Self {
        match (combine_job, header_step) {
            (Some(job), _) => Self::Combined { job },
            (None, Some(step)) => Self::Named(step),
            (None, None) => Self::Named(document_key.unwrap_or(output_type)),
        }
    }
}

/// The facts of an artifact that decide its path. Those that its kind has no use for are of no account.
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
    /// Who wrote it; empty for what no model wrote.
    pub model: &'a str,
    /// What the model worked on.
    pub work: Work<'a>,
    /// What it is called; for what the user gave, its name as they wrote it.
    pub key: Key<'a>,
    /// 1, then one more for each regeneration or edit.
    pub version: u32,
    /// Which continuation, 0 for the first answer.
    pub continuation: u32,
}

impl<'a> Artifact<'a> {
    /// What belongs to the project and was written by no model.
    pub fn of_project(project_name: &'a str, kind: Kind, name: &'a str) -> Self {
        Self { key: Key::Named(name), ..Self::of_stage(project_name, "", 0, (0, ""), kind) }
    }

    /// What belongs to a stage, given by position and slug, and was written by no model.
    pub fn of_stage(
        project_name: &'a str,
        session_id: &'a str,
        iteration: u32,
        (stage_position, stage): (u32, &'a str),
        kind: Kind,
    ) -> Self {
        Self {
            project_name,
            session_id,
            iteration,
            stage_position,
            stage,
            kind,
            model: "",
            work: Work::Alone,
            key: Key::Named(""),
            version: 1,
            continuation: 0,
        }
    }

    /// The path, with `/` between its parts and none before the first.
    pub fn path(&self) -> String {
        let project = slug(self.project_name);
        let (folder, ending) = match self.kind {
            Kind::ProjectReadme => return format!("{project}/project_readme.md"),
            Kind::ProjectSettings => return format!("{project}/project_settings.json"),
            Kind::InitialPrompt => return format!("{project}/{}.md", self.prompt_name()),
            Kind::GeneralResource => return format!("{project}/general_resource/{}", self.given_name()),
            Kind::Pending => return format!("{project}/Pending/{}", self.task_name()),
            Kind::Current => return format!("{project}/Current/{}", self.task_name()),
            Kind::Complete => return format!("{project}/Complete/{}", self.task_name()),
            Kind::SeedPrompt => return format!("{}/seed_prompt.md", self.folder()),
            Kind::UserFeedback => return format!("{}/user_feedback.md", self.folder()),
            Kind::Document => ("documents", ".md"),
            Kind::DocumentFeedback => ("documents", "_feedback.md"),
            Kind::RawResponse => ("raw_responses", "_raw.json"),
            Kind::Prompt | Kind::PlannerPrompt => ("_work/prompts", "_prompt.md"),
            Kind::HeaderContext => ("_work/context", "_header_context.json"),
            Kind::RagContext => ("_work/context", "_rag_context.md"),
            Kind::AssembledJson => ("_work/assembled_json", "_assembled.json"),
        };
        let planner = if self.kind == Kind::PlannerPrompt { "_planner" } else { "" };
        let counted = matches!(self.kind, Kind::RawResponse | Kind::Prompt | Kind::PlannerPrompt);
        let continuation = match self.continuation {
            n if counted && n > 0 => format!("_continuation_{n}"),
            _ => String::new(),
        };
        format!("{}/{folder}/{}{planner}{continuation}{ending}", self.folder(), self.stem())
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

    /// Who wrote it on what, its version and what it is called.
    fn stem(&self) -> String {
        format!("{}_{}_{}", Who(self.model, self.work), self.version, self.key)
    }

    fn prompt_name(&self) -> String {
        match self.key {
            Key::Named("") => "initial_prompt".to_owned(),
            key => key.to_string(),
        }
    }

    fn given_name(&self) -> String {
        match self.key {
            Key::Named(name) => file_name(name),
            key => format!("{key}.md"),
        }
    }

    fn task_name(&self) -> String {
        if self.model.is_empty() { self.given_name() } else { self.stem() + ".md" }
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
