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
    #[error("{reason}")]
    Setting { of: SettingsOf, reason: String },
    #[error("{0}")]
    Definition(#[from] DefinitionError),
    #[error("{0}")]
    Spi(#[from] pgrx::spi::Error),
    #[error("{0}")]
    Gone(String),
}

/// Whose settings were not what they should be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SettingsOf {
    Simulator,
    Model,
    Provider,
}

/// Why a transaction of the engine has failed.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) message: String,
    /// Whether what was to be done is to blame, and would fail again; else the server was, and may be over it soon.
    pub(crate) is_of_the_work: bool,
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let is_of_the_work = !matches!(error, Error::Gone(_) | Error::Spi(_));
        Problem { message: error.to_string(), is_of_the_work }
    }
}

impl From<pgrx::pg_sys::panic::CaughtError> for Problem {
    fn from(cause: pgrx::pg_sys::panic::CaughtError) -> Self {
        use pgrx::pg_sys::panic::CaughtError::{ErrorReport, PostgresError, RustPanic};
        let (report, is_panic) = match cause {
            PostgresError(report) | ErrorReport(report) => (report, false),
            RustPanic { ereport, .. } => (ereport, true),
        };
        let is_of_the_work = is_panic || BLAMED.iter().any(|class| is_of_class(report.sql_error_code(), class));
        Problem { message: report.message().to_owned(), is_of_the_work }
    }
}

/// Classes of errors that come from what was to be written: data, constraints, limits, what a function raises. Locks, deadlocks, a
/// schema that is being altered, memory and disk do not.
const BLAMED: [&[u8; 2]; 5] = [b"21", b"22", b"23", b"54", b"P0"];

fn is_of_class(code: PgSqlErrorCode, class: &[u8; 2]) -> bool {
    // As the server packs them: six bits a character, the class first.
    let packed = |character: u8| i64::from(character.wrapping_sub(b'0') & 0x3f);
    (code as i64) & 0xfff == packed(class[0]) | packed(class[1]) << 6
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
            Error::Setting { of, .. } => (ERRCODE_INVALID_PARAMETER_VALUE, None, of.known()),
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

impl SettingsOf {
    /// What there is to choose from.
    fn known(self) -> &'static str {
        match self {
            SettingsOf::Simulator => {
                "Simulator models take fail_first, fail_always, fail_class, retry_after_ms, latency_ms, cut_after_tokens, \
                 malformed_json, drop_connection, panic, refuse, answer_words, seed, marker, omit_keys, omit_always, wrap, \
                 continue and thinks_tokens."
            }
            SettingsOf::Model => {
                "Models take dialect, token_parameter, system_role, sampling, parameters, json, prefill, thinking, effort, \
                 stream_usage and extra_body."
            }
            SettingsOf::Provider => {
                "Providers take headers, query, auth_header, connect_seconds, first_byte_seconds, silence_seconds, \
                 call_seconds and max_response_bytes."
            }
        }
    }
}

fn list(problems: &Problems) -> String {
    problems.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
