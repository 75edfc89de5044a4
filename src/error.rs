//! What can go wrong on the Rust side, and the only place that chooses its SQLSTATE, DETAIL and HINT.

use dialectic_core::definition::DefinitionError;
use dialectic_core::plan::PlanError;
use dialectic_core::prompt::PromptError;
use dialectic_core::recipe::Problems;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Keeps Rust backtraces out of the DETAIL of errors, where pgrx puts them if RUST_BACKTRACE is set for the server.
pub(crate) fn leave_out_backtraces() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    let before = std::env::var_os(VARIABLE);
    // SAFETY: the library is being loaded, by a process that has no other thread. Our copy of the standard library
    // looks at the variable once, so other libraries find it as it was.
    unsafe {
        std::env::set_var(VARIABLE, "0");
        drop(std::backtrace::Backtrace::capture());
        match before {
            Some(value) => std::env::set_var(VARIABLE, value),
            None => std::env::remove_var(VARIABLE),
        }
    }
}

/// An error of a function on its way to the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Recipe(#[from] Problems),
    #[error("{0}")]
    Plan(#[from] PlanError),
    #[error("{0}")]
    Prompt(PromptError),
    #[error("{0}")]
    TooDeep(PromptError),
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
    #[error("column \"{column}\" of a result cannot be read: {problem}")]
    Column { column: &'static str, problem: String },
    #[error("{0}")]
    Gone(String),
    #[error("{0}")]
    Unreadable(String),
    #[error("the schema of pg_dialectic in database \"{database}\" was made by another build than the library")]
    OtherSchema { database: String, schema: Option<String>, library: &'static str },
}

/// Whose settings were not what they should be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SettingsOf {
    Simulator,
    Model,
    Provider,
}

/// Why a transaction of the engine has failed.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    /// The five characters of its SQLSTATE.
    pub(crate) sqlstate: [u8; 5],
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn sqlstate(&self) -> &str {
        std::str::from_utf8(&self.sqlstate).unwrap_or("XX000")
    }

    /// Whether it concerns every session alike: the server is read-only, full, out of connections or shutting down.
    pub(crate) fn is_of_the_server(&self) -> bool {
        matches!(&self.sqlstate, b"25006" | b"53100" | b"53300" | b"57P01" | b"57P02" | b"57P03" | b"58030")
    }

    /// Whether it may end without a change of the data that was read: then the job that was read is not its cause.
    pub(crate) fn may_pass(&self) -> bool {
        let class = &self.sqlstate[..2];
        // 0A000: a cached plan meets a table that was altered.
        [&b"08"[..], b"0A", b"25", b"40", b"53", b"55", b"57", b"58"].contains(&class)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, detail, hint) = error.parts();
        Problem { sqlstate: unpacked(code), message: error.to_string(), detail, hint: Some(hint.to_owned()) }
    }
}

impl From<pgrx::pg_sys::panic::CaughtError> for Problem {
    fn from(cause: pgrx::pg_sys::panic::CaughtError) -> Self {
        use pgrx::pg_sys::panic::CaughtError::{ErrorReport, PostgresError, RustPanic};
        match cause {
            PostgresError(report) | ErrorReport(report) => Problem {
                sqlstate: unpacked(report.sql_error_code()),
                message: report.message().to_owned(),
                detail: report.detail().map(str::to_owned),
                hint: report.hint().map(str::to_owned),
            },
            RustPanic { ereport, .. } => {
                Problem { sqlstate: *b"XX000", message: ereport.message().to_owned(), detail: None, hint: None }
            }
        }
    }
}

impl From<Problem> for ErrorReport {
    fn from(problem: Problem) -> Self {
        let mut report = ErrorReport::new(packed(problem.sqlstate), problem.message, "dialectic");
        if let Some(detail) = problem.detail {
            report = report.set_detail(detail);
        }
        match problem.hint {
            Some(hint) => report.set_hint(hint),
            None => report,
        }
    }
}

/// The characters of a SQLSTATE, which the server packs into six bits each, the first one lowest.
fn unpacked(code: PgSqlErrorCode) -> [u8; 5] {
    let code = code as i32;
    std::array::from_fn(|at| ((code >> (6 * at)) & 0x3f) as u8 + b'0')
}

fn packed(sqlstate: [u8; 5]) -> PgSqlErrorCode {
    let code = sqlstate.iter().rev().fold(0i32, |code, character| code << 6 | i32::from((character - b'0') & 0x3f));
    PgSqlErrorCode::from(code as isize)
}

impl Error {
    /// Its SQLSTATE, DETAIL and HINT.
    fn parts(&self) -> (PgSqlErrorCode, Option<String>, &'static str) {
        use PgSqlErrorCode::*;
        match self {
            Error::Recipe(problems) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                (problems.0.len() > 1).then(|| list(problems)),
                "dialectic.validate_recipe(recipe) checks a recipe without storing it.",
            ),
            Error::Plan(_) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                None,
                "A step needs what its inputs_required name; see what there is in dialectic.contributions and \
                 dialectic.resources.",
            ),
            Error::TooDeep(_) => (
                ERRCODE_INVALID_PARAMETER_VALUE,
                None,
                "Assign the parts of a long expression with set, and move inner blocks to a prompt of their own that \
                 the template includes.",
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
            Error::Definition(_) | Error::Spi(_) | Error::Column { .. } => {
                (ERRCODE_INTERNAL_ERROR, None, "This should not happen; please report it.")
            }
            Error::Unreadable(_) => {
                (ERRCODE_DATA_CORRUPTED, None, "SELECT * FROM dialectic.self_check() lists what else is broken.")
            }
            Error::Gone(_) => (ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, None, "Try again."),
            Error::OtherSchema { schema, library, .. } => (
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                Some(format!(
                    "The schema has fingerprint {}, the library {library}.",
                    schema.as_deref().unwrap_or("none")
                )),
                "Restart the server if pg_dialectic was installed since it started; \
                 otherwise ALTER EXTENSION pg_dialectic UPDATE.",
            ),
        }
    }
}

impl From<PromptError> for Error {
    fn from(problem: PromptError) -> Self {
        if problem.is_too_deep { Error::TooDeep(problem) } else { Error::Prompt(problem) }
    }
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> Self {
        let (code, detail, hint) = error.parts();
        let report = ErrorReport::new(code, error.to_string(), "dialectic").set_hint(hint);
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
                "Simulator models take fail_first, fail_always, fail_class, retry_after_ms, latency_ms, \
                 cut_after_tokens, \
                 malformed_json, drop_connection, refuse, answer_words, seed, marker, echo_facts, omit_keys, \
                 omit_always, wrap, \
                 continue and thinks_tokens."
            }
            SettingsOf::Model => {
                "Models take dialect, token_parameter, system_role, sampling, parameters, json, prefill, thinking, \
                 effort, \
                 stream_usage, dimensions and extra_body."
            }
            SettingsOf::Provider => {
                "Providers take headers, query, auth_header, connect_seconds, first_byte_seconds, silence_seconds, \
                 call_seconds, max_response_bytes and model_defaults."
            }
        }
    }
}

fn list(problems: &Problems) -> String {
    problems.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
