//! pg_dialectic: one prompt in, a tree of documents out. The contents page: modules, SQL files in order, `_PG_init`.
//!
//! | module | does |
//! |---|---|
//! | `api` | functions of the SQL surface that need Rust: decode, ask the core, encode |
//! | `store` | the only user of SPI |
//! | `worker` | claimers, call threads and waiting: what works the queue |
//! | `settings` | server settings |
//! | `test_hooks` | a clock that moves and a worker that stops, in test builds only |
//! | `error` | what goes wrong, as SQLSTATE, DETAIL and HINT |
//!
//! Decisions are in `dialectic_core`, which cannot see Postgres; state and its laws are in `sql/`.

// An `ErrorReport` is what pgrx raises with its SQLSTATE, DETAIL and HINT; its size is not ours to choose.
#![allow(clippy::result_large_err)]

mod api;
mod error;
mod settings;
mod store;
mod test_hooks;
mod uuid_v7;
mod worker;

use pgrx::prelude::*;

pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/bootstrap.sql", name = "bootstrap", bootstrap);
extension_sql_file!(
    "../sql/schema/catalog.sql",
    name = "catalog",
    requires = [api::clock::_now, api::clock::_uuid_v7, api::identity::_is_shipping]
);
extension_sql_file!("../sql/schema/runs.sql", name = "runs", requires = ["catalog"]);
extension_sql_file!(
    "../sql/schema/queue.sql",
    name = "queue",
    requires = [
        "runs",
        api::job::_job_statuses,
        api::job::_job_transitions,
        api::job::_job_kinds,
        api::job::_job_error_classes
    ]
);
extension_sql_file!("../sql/schema/deletion.sql", name = "deletion", requires = ["queue"]);
extension_sql_file!("../sql/schema/usage_history.sql", name = "usage_history", requires = ["deletion"]);
extension_sql_file!("../sql/schema/schedules.sql", name = "schedule_definitions", requires = ["usage_history"]);
extension_sql_file!("../sql/schema/memory.sql", name = "memory_schema", requires = ["schedule_definitions"]);
extension_sql_file!(
    "../sql/identity.sql",
    name = "identity",
    requires = ["memory_schema", api::entry::_calling_role, api::identity::_has_jwt_identity]
);
extension_sql_file!(
    "../sql/define.sql",
    name = "define",
    requires = [
        "identity",
        api::prompt::_check_template,
        api::prompt::_check_document_template,
        api::prompt::_render_markdown,
        worker::commit_hook::_notify_worker
    ]
);
extension_sql_file!("../sql/secret.sql", name = "secret", requires = ["define", api::provider::_secret_prefixes]);
extension_sql_file!(
    "../sql/model.sql",
    name = "model",
    requires = ["secret", api::provider::_check_provider_settings, api::provider::_check_model_settings]
);
extension_sql_file!("../sql/import.sql", name = "import", requires = ["model"]);
extension_sql_file!(
    "../sql/tokens.sql",
    name = "tokens",
    requires = ["import", api::tokens::_count_tokens, api::tokens::_count_message_tokens]
);
extension_sql_file!("../sql/configuration.sql", name = "configuration", requires = ["import"]);
extension_sql_file!(
    "../sql/process.sql",
    name = "process",
    requires = ["configuration", api::recipe::_check_recipe, api::prompt::_unknown_variables]
);
extension_sql_file!(
    "../sql/project.sql",
    name = "project",
    requires = ["process", "fingerprint", api::schema::_check_schema]
);
extension_sql_file!("../sql/money.sql", name = "money", requires = ["project"]);
extension_sql_file!("../sql/engine/payment.sql", name = "payment", requires = ["money"]);
extension_sql_file!("../sql/engine/close_call.sql", name = "close_call", requires = ["payment"]);
extension_sql_file!("../sql/engine/complete.sql", name = "complete", requires = ["close_call"]);
extension_sql_file!("../sql/notification.sql", name = "notification", requires = ["complete"]);
extension_sql_file!(
    "../sql/engine/stage_run.sql",
    name = "stage_run",
    requires = ["notification", api::prompt::_render_seed]
);
extension_sql_file!("../sql/stage.sql", name = "stage", requires = ["stage_run"]);
extension_sql_file!(
    "../sql/engine/cooldown.sql",
    name = "cooldown",
    requires = [
        "stage",
        api::job::_core_breaker_threshold,
        api::external_worker::_has_fallback,
        worker::cache_invalidation::_catalog_changed
    ]
);
extension_sql_file!(
    "../sql/engine/claim.sql",
    name = "claim",
    requires = ["cooldown", api::claim::_claim_with_lease, api::identity::_worker_state]
);
extension_sql_file!("../sql/engine/dead_claims.sql", name = "dead_claims", requires = ["claim"]);
extension_sql_file!("../sql/engine/lost_claims.sql", name = "lost_claims", requires = ["dead_claims"]);
extension_sql_file!("../sql/engine/plan.sql", name = "plan", requires = ["lost_claims", api::plan::_plan_recipe]);
extension_sql_file!("../sql/engine/request.sql", name = "request", requires = ["plan"]);
extension_sql_file!(
    "../sql/api/external_worker.sql",
    name = "external_worker",
    requires = [
        "request",
        api::external_worker::_open_request,
        api::external_worker::_keep_answer,
        api::external_worker::_keep_failure,
        api::external_worker::_render_document,
        api::external_worker::_settle_lost_calls,
        api::plan::_plan_job
    ]
);
extension_sql_file!("../sql/engine/partial_text.sql", name = "partial_text", requires = ["external_worker"]);
extension_sql_file!(
    "../sql/engine/continuation.sql",
    name = "continuation",
    requires = ["partial_text", "tokens", api::external_worker::_sent_messages]
);
extension_sql_file!("../sql/engine/document.sql", name = "document", requires = ["continuation"]);
extension_sql_file!("../sql/engine/combine.sql", name = "combine", requires = ["document"]);
extension_sql_file!("../sql/engine/index.sql", name = "index", requires = ["combine"]);
extension_sql_file!("../sql/engine/job_trigger.sql", name = "job_trigger", requires = ["index"]);
extension_sql_file!("../sql/engine/job_endings.sql", name = "job_endings", requires = ["job_trigger"]);
extension_sql_file!("../sql/control.sql", name = "control", requires = ["job_endings"]);
extension_sql_file!(
    "../sql/engine/work_queue.sql",
    name = "work_queue",
    requires = ["control", worker::claimer::_hold_claimer, worker::run_pending::_run_pending]
);
extension_sql_file!(
    "../sql/wait.sql",
    name = "wait",
    requires = [
        "work_queue",
        worker::waiters::_register_waiter,
        worker::waiters::_unregister_waiter,
        worker::waiters::_sleep_until_change,
        worker::waiters::_wake_waiters,
        worker::waiters::_is_current_xid
    ]
);
extension_sql_file!("../sql/regenerate.sql", name = "regenerate", requires = ["wait"]);
extension_sql_file!("../sql/refreeze.sql", name = "refreeze", requires = ["regenerate"]);
extension_sql_file!("../sql/looking.sql", name = "looking", requires = ["refreeze"]);
extension_sql_file!("../sql/views/usage.sql", name = "usage", requires = ["looking"]);
extension_sql_file!("../sql/explain.sql", name = "explain", requires = ["usage", api::explain::_explain]);
extension_sql_file!("../sql/files.sql", name = "files", requires = ["explain", api::path::_project_file_path]);
extension_sql_file!(
    "../sql/api/memory.sql",
    name = "memory",
    requires = ["files", api::memory::_chunks, api::memory::_simulate_embedding]
);
extension_sql_file!("../sql/api/search.sql", name = "search", requires = ["memory", api::memory::_text_configs]);
extension_sql_file!("../sql/api/memory_index.sql", name = "memory_index", requires = ["search"]);
extension_sql_file!("../sql/knit.sql", name = "knit", requires = ["define", api::knit::_knit, api::knit::_repair_json]);
extension_sql_file!(
    "../sql/health.sql",
    name = "health",
    requires = [
        "memory_index",
        api::identity::_worker_hold_ups,
        api::identity::_jobs_in_flight,
        api::schema::_schema_problem,
        api::schema::_library_version
    ]
);
extension_sql_file!("../sql/diagnosis.sql", name = "diagnosis", requires = ["health"]);
extension_sql_file!("../sql/self_check.sql", name = "self_check", requires = ["diagnosis"]);
extension_sql_file!("../sql/api/retention.sql", name = "retention", requires = ["self_check"]);
extension_sql_file!(
    "../sql/engine/maintenance.sql",
    name = "maintenance",
    requires = ["retention", worker::run_pending::_require_commits]
);
extension_sql_file!("../sql/api/schedule.sql", name = "schedule", requires = ["maintenance"]);
extension_sql_file!("../sql/views/schedules.sql", name = "schedules", requires = ["schedule"]);
// Made by build.rs: the fingerprint of the schema, and what ships as data in sql/seed.
include!(concat!(env!("OUT_DIR"), "/install_script.rs"));
extension_sql_file!("../sql/security.sql", name = "security", finalize);

/// Runs when the library is loaded, in the postmaster where it is preloaded, else in the backend that first needs it.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    error::leave_out_backtraces();
    settings::init();
    worker::init();
    api::entry::init();
    api::tokens::init();
}
