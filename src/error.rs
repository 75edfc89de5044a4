//! What can go wrong on the Rust side, and the only place that chooses its SQLSTATE, DETAIL and HINT.

use dialectic_core::definition::DefinitionError;
use dialectic_core::plan::PlanError;
use dialectic_core::prompt::PromptError;
use dialectic_core::recipe::Problems;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// An error of a function on its way to the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Recipe(#[from] Problems),
    #[error("{0}")]
    Plan(#[from] PlanError),
    #[error("{0}")]
    Prompt(#[from] PromptError),
    #[error("{what} is not what was expected: {source}")]
    Json { what: &'static str, source: serde_json::Error },
    #[error("{argument} \"{value}\" is not known")]
    Unknown { argument: &'static str, value: String },
    #[error("{0}")]
    Setting(String),
    #[error("{0}")]
    Definition(#[from] DefinitionError),
    #[error("{0}")]
    Spi(#[from] pgrx::spi::Error),
    #[error("{0}")]
    Gone(String),
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> Self {
        use PgSqlErrorCode::*;
        let message = error.to_string();
        let (code, detail, hint) = match &error {
            Error::Recipe(problems) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                (problems.0.len() > 1).then(|| list(problems)),
                "dialectic.validate_recipe(recipe) checks a recipe without storing it.",
            ),
            Error::Plan(_) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                None,
                "A step needs what its inputs_required name; see what there is in dialectic.contributions and dialectic.resources.",
            ),
            Error::Prompt(_) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                None,
                "Templates are minijinja; a variable that is not given is an error.",
            ),
            Error::Json { .. } => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                None,
                "Compare it with the shape that the comment of the function describes.",
            ),
            Error::Unknown { .. } => (ERRCODE_INVALID_PARAMETER_VALUE, None, "Check the spelling."),
            Error::Setting(_) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                None,
                "Simulator models take fail_first, fail_always, fail_class, retry_after_ms, latency_ms, cut_after_tokens, \
                 malformed_json, drop_connection, panic, refuse, answer_words and seed.",
            ),
            Error::Definition(_) | Error::Spi(_) => {
                (ERRCODE_INTERNAL_ERROR, None, "This should not happen; please report it.")
            }
            Error::Gone(_) => {
                (ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, None, "This function is for run_pending and the worker.")
            }
        };
        let report = ErrorReport::new(code, message, "dialectic").set_hint(hint);
        match detail {
            Some(detail) => report.set_detail(detail),
            None => report,
        }
    }
}

fn list(problems: &Problems) -> String {
    problems.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
