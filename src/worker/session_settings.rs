//! The settings that the engine runs with, whatever ALTER DATABASE, ALTER ROLE and the session of an admin say.
//!
//! Decides which settings are reset to the server's values and which have values of our own. Settings named
//! `dialectic.…` are left alone: only a superuser changes them. A setting that was reset keeps the value that the
//! server had when the worker started, also after a reload. A server that is read-only is respected.

use pgrx::prelude::*;
use std::ffi::{CStr, CString};

type Setting = (&'static CStr, &'static CStr);

/// How statements of the engine are planned, wherever they run. By index and with generic plans: a plan is made once,
/// while tables are small, and must still be right when they are large ([`PlanRefresh`] has it made again). Never
/// compiled: a scan that is needed all the same looks expensive enough for JIT, which takes longer than the statement.
const PLANNER: [Setting; 6] = [
    (c"enable_seqscan", c"off"),
    (c"enable_indexscan", c"on"),
    (c"enable_indexonlyscan", c"on"),
    (c"enable_bitmapscan", c"on"),
    (c"jit", c"off"),
    (c"plan_cache_mode", c"force_generic_plan"),
];

/// What the worker and `run_pending` have in common: what statements mean, and that errors are logged but no prompt.
const ENGINE: [Setting; 26] = [
    (c"search_path", c"pg_catalog, pg_temp"),
    (c"session_replication_role", c"origin"),
    (c"row_security", c"on"),
    (c"array_nulls", c"on"),
    (c"transform_null_equals", c"off"),
    (c"standard_conforming_strings", c"on"),
    (c"backslash_quote", c"safe_encoding"),
    (c"bytea_output", c"hex"),
    (c"datestyle", c"ISO, MDY"),
    (c"intervalstyle", c"postgres"),
    (c"extra_float_digits", c"1"),
    (c"exit_on_error", c"off"),
    (c"debug_print_parse", c"off"),
    (c"debug_print_rewritten", c"off"),
    (c"debug_print_plan", c"off"),
    (c"log_min_messages", c"warning"),
    (c"log_min_error_statement", c"error"),
    (c"log_statement", c"none"),
    (c"log_duration", c"off"),
    (c"log_min_duration_statement", c"-1"),
    (c"log_min_duration_sample", c"-1"),
    (c"log_transaction_sample_rate", c"0"),
    (c"log_parameter_max_length", c"0"),
    (c"log_parameter_max_length_on_error", c"0"),
    (c"transaction_timeout", c"0"),
    (c"backtrace_functions", c""),
];

/// What the worker alone pins: its transactions are short, and in a deadlock it is the worker that yields.
const WORKER: [Setting; 9] = [
    (c"role", c"none"),
    (c"application_name", c"pg_dialectic worker"),
    (c"default_transaction_isolation", c"read committed"),
    (c"default_transaction_deferrable", c"off"),
    (c"statement_timeout", c"0"),
    (c"lock_timeout", c"1s"),
    (c"deadlock_timeout", c"50ms"),
    (c"idle_in_transaction_session_timeout", c"0"),
    (c"idle_session_timeout", c"0"),
];

/// What transactions of `run_pending` begin with; it must be set before their first statement.
const TRANSACTION: [Setting; 3] = [
    (c"transaction_isolation", c"read committed"),
    (c"transaction_read_only", c"off"),
    (c"transaction_deferrable", c"off"),
];

/// What belongs to the connection itself is never reset.
const OF_THE_CONNECTION: [&[u8]; 2] = [b"client_encoding", b"session_authorization"];

/// The settings of the server, as a process has them that is not connected to a database yet.
pub(crate) struct ServerSettings(Vec<(CString, CString)>);

/// Reads the settings of the server. Called before the worker connects.
pub(crate) fn of_the_server() -> ServerSettings {
    let mut settings = Vec::new();
    for &setting in all() {
        // SAFETY: entries of the server's own list, which nothing changes meanwhile.
        let name = unsafe { CStr::from_ptr((*setting).name) };
        settings.push((name.to_owned(), value(name)));
    }
    ServerSettings(settings)
}

/// Resets what ALTER DATABASE and ALTER ROLE have set, then pins what the worker needs. Called once it is connected.
pub(crate) fn pin_for_worker(server: &ServerSettings) {
    use pg_sys::GucSource::{PGC_S_DATABASE_USER, PGC_S_GLOBAL};
    // SAFETY: the worker was connected as this role; nothing of it has run yet.
    unsafe { pg_sys::SetSessionAuthorization(pg_sys::Oid::from(pg_sys::BOOTSTRAP_SUPERUSERID), true) };
    for &setting in all() {
        // SAFETY: as above.
        let (name, source) = unsafe { (CStr::from_ptr((*setting).name), (*setting).source) };
        let is_reset = (PGC_S_GLOBAL..=PGC_S_DATABASE_USER).contains(&source)
            && !name.to_bytes().starts_with(b"dialectic.")
            && !OF_THE_CONNECTION.contains(&name.to_bytes());
        if let Some((name, value)) = server.0.iter().find(|(known, _)| is_reset && known.as_c_str() == name) {
            set(name, value, Scope::Process);
        }
    }
    for (name, value) in WORKER.iter().chain(&ENGINE).chain(&PLANNER) {
        set(name, value, Scope::Process);
    }
    flush_commits(Scope::Process);
}

/// Pins, until the end of the transaction, what `run_pending` needs. Called before the first statement of each.
pub(crate) fn pin_for_transaction() {
    for (name, value) in TRANSACTION.iter().chain(&ENGINE).chain(&PLANNER) {
        set(name, value, Scope::Transaction);
    }
    flush_commits(Scope::Transaction);
}

/// Runs work of the engine in the transaction of a user, planned as everywhere in the engine.
pub(crate) fn with_planner_settings<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: in a transaction. An error that leaves `work` ends the level together with its (sub)transaction.
    let level = unsafe { pg_sys::NewGUCNestLevel() };
    for (name, value) in &PLANNER {
        set(name, value, Scope::Level);
    }
    let result = work();
    // SAFETY: ends the level that was begun above.
    unsafe { pg_sys::AtEOXact_GUC(true, level) };
    result
}

/// Has plans made again when the tables have grown: after 50 claimed jobs, and whenever there were eight times as many.
pub(crate) struct PlanRefresh {
    claimed: usize,
    due_at: usize,
}

impl PlanRefresh {
    pub(crate) fn new() -> Self {
        PlanRefresh { claimed: 0, due_at: 50 }
    }

    /// Counts claimed jobs. Called between transactions.
    pub(crate) fn count(&mut self, claimed: usize) {
        self.claimed += claimed;
        if self.claimed > self.due_at {
            // SAFETY: outside of a transaction.
            unsafe { pg_sys::ResetPlanCache() };
            self.due_at = self.claimed.saturating_mul(8);
        }
    }
}

/// A commit that is not flushed could lose an answer that was paid for; stronger values stay.
fn flush_commits(scope: Scope) {
    if value(c"synchronous_commit").as_bytes() == b"off" {
        set(c"synchronous_commit", c"on", scope);
    }
}

/// The value of a setting as it can be set again; empty where there is none.
fn value(name: &CStr) -> CString {
    // SAFETY: the value is copied at once.
    unsafe {
        let value = pg_sys::GetConfigOption(name.as_ptr(), true, false);
        if value.is_null() { CString::default() } else { CStr::from_ptr(value).to_owned() }
    }
}

/// How long a setting keeps its value.
#[derive(Clone, Copy)]
enum Scope {
    Process,
    Transaction,
    /// Until the innermost level of settings ends.
    Level,
}

/// Sets a setting, of those that this server has; one that cannot be set stays as it is.
fn set(name: &CStr, value: &CStr, scope: Scope) {
    use pg_sys::GucAction::{GUC_ACTION_LOCAL, GUC_ACTION_SAVE, GUC_ACTION_SET};
    use pg_sys::GucSource::{PGC_S_OVERRIDE, PGC_S_SESSION};
    let (source, action) = match scope {
        Scope::Process => (PGC_S_OVERRIDE, GUC_ACTION_SET),
        Scope::Transaction => (PGC_S_SESSION, GUC_ACTION_LOCAL),
        Scope::Level => (PGC_S_SESSION, GUC_ACTION_SAVE),
    };
    // SAFETY: both strings are copied; the level keeps it from raising an error.
    unsafe {
        if pg_sys::GetConfigOption(name.as_ptr(), true, false).is_null() {
            return;
        }
        pg_sys::set_config_option(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            source,
            action,
            true,
            pg_sys::DEBUG1 as i32,
            false,
        );
    }
}

/// Every setting there is.
fn all() -> &'static [*mut pg_sys::config_generic] {
    // SAFETY: the server's list; it lives on while no setting is defined, which nobody does meanwhile.
    unsafe {
        #[cfg(feature = "pg15")]
        let (list, number) = (pg_sys::get_guc_variables(), pg_sys::GetNumConfigOptions());
        #[cfg(not(feature = "pg15"))]
        let (list, number) = {
            let mut number = 0;
            (pg_sys::get_guc_variables(&mut number), number)
        };
        std::slice::from_raw_parts(list, usize::try_from(number).unwrap_or(0))
    }
}
