//! Laws of the catalog: what is in the schema, under which names, described and pinned as promised.
//!
//! Everything is read from the system catalogs of a fresh install; nothing runs here but helpers. Calls are in
//! catalog_calls.rs.

use dialectic_tests::*;
use postgres::Client;

/// What has no SET: it commits as it goes and so can have neither SECURITY DEFINER nor SET.
const UNPINNED: [&str; 2] = ["maintain", "wait"];

/// The public functions and procedures with the arguments they can be called by, in order.
const SURFACE: [(&str, &str); 68] = [
    ("run", "prompt, models, process, domain, name, through, test, budget"),
    ("create_project", "name, prompt, domain, process, idempotency_key"),
    ("add_resource", "project, name, content, kind"),
    ("start_session", "project, models, description, auto_advance, budget"),
    (
        "generate",
        "session, stage, models, continue_until_complete, max_retries, max_output_tokens, idempotency_key, test",
    ),
    ("submit_stage", "session, feedback"),
    ("cancel", "id"),
    ("pause", "id"),
    ("repair_json", "text"),
    ("resume", "id"),
    ("retry", "id"),
    ("wait", "session, timeout"),
    ("run_pending", "max_jobs"),
    ("delete_session", "session"),
    ("delete_project", "project"),
    ("purge", "older_than"),
    ("maintain", ""),
    ("search", "project, query, match_count"),
    ("match_chunks", "session, query, match_count, metadata_filter"),
    ("match_chunks", "session, query_embedding, match_count, metadata_filter"),
    ("create_memory_index", "embedding_model"),
    ("run_scheduled", "name"),
    ("schedule_maintenance", "schedule"),
    ("schedule_run", "name, schedule, prompt, models, process, domain, through, budget"),
    ("schedule_run_pending", "schedule, max_jobs"),
    ("unschedule", "name"),
    ("progress", "session"),
    ("job_tree", "session"),
    ("knit", "chunks"),
    ("live", "job"),
    ("prompt", "job"),
    ("count_tokens", "text, model"),
    ("count_message_tokens", "messages, model"),
    ("health", ""),
    ("self_check", ""),
    ("define_process", "name, stages, description"),
    ("define_stage", "process, slug, recipe, display_name, seed_prompt_template"),
    ("validate_recipe", "recipe"),
    ("plan", "recipe, sources, models"),
    ("set_prompt", "name, body"),
    ("set_domain", "domain"),
    ("render_prompt", "name, vars"),
    ("add_provider", "name, api, base_url, secret, max_concurrency, requests_per_minute, tokens_per_minute, settings"),
    ("set_secret", "provider, reference"),
    ("import_models", "price_list, provider"),
    (
        "add_model",
        "name, provider, api_model, context_window, max_output_tokens, tokenizer, input_price, output_price, settings, \
         cached_price, cache_write_price, reasoning_price, max_concurrency, requests_per_minute, tokens_per_minute, fallback, \
         kind",
    ),
    ("add_setting", "key, value, description"),
    ("set_config", "key, value"),
    ("get_config", "key"),
    ("claim_jobs", "worker, max_jobs, lease"),
    ("job_request", "job, claim_id"),
    ("complete_job", "job, claim_id, answer, finish_reason, usage"),
    ("explain", "session, stage"),
    ("explain_total", "session, stage"),
    ("files", "id"),
    ("notifications_since", "id"),
    ("refreeze", "session"),
    ("regenerate", "session, document_key, model, lineage"),
    ("render_markdown", "content, document_key"),
    ("set_document_template", "key, body"),
    ("storage_path", "resource"),
    ("fail_job", "job, claim_id, class, message, retry_after, usage"),
    ("close_wallet", "owner"),
    ("open_wallet", "owner, amount"),
    ("top_up", "owner, amount, idempotency_key"),
    ("set_budget", "session, amount"),
    ("grant_user", "role"),
    ("grant_admin", "role"),
];

/// Columns that users query, table by table.
const COLUMNS: [(&str, &str); 15] = [
    (
        "sessions",
        "id project_id owner process models current_stage iteration auto_advance status created_at completed_at",
    ),
    ("stage_runs", "id session_id stage iteration status"),
    (
        "jobs",
        "id session_id stage_run_id parent_job_id kind step_key model document_key lineage_id status attempt_count max_retries \
         continuation_count target_contribution_id run_at priority claim_id claimed_by lease_until status_before created_at \
         started_at completed_at planned_steps after_chunk continue_reason missing_keys output_budget combine_depth \
         output_text_id results error_details error_class cause_job_id is_test_job idempotency_key",
    ),
    ("job_inputs", "job artifact role part relevance"),
    (
        "contributions",
        "id session_id job_id root_id chunk_no stage iteration step_key output_type model document_key lineage_id \
         source_prompt_resource_id is_header finish_reason input_tokens output_tokens cached_tokens raw_response content",
    ),
    (
        "resources",
        "id resource_type project_id session_id stage iteration model document_key lineage_id version source_contribution_id \
         content mime_type",
    ),
    ("notifications", "id owner session_id job_id type title message data link_path is_internal_event read created_at"),
    (
        "model_calls",
        "job_id claim_id attempt provider model started_at first_byte_at finished_at http_status error_class input_tokens \
         output_tokens cached_tokens held cost unbilled",
    ),
    ("wallets", "owner balance held"),
    ("ledger", "id owner kind amount call_id session_id idempotency_key created_at"),
    ("budgets", "session_id amount spent held"),
    ("documents", "session_id iteration stage model lineage document_key path content version stale tokens cost"),
    ("configuration", "key value description"),
    ("providers", "name api base_url max_concurrency requests_per_minute tokens_per_minute settings"),
    (
        "models",
        "name provider api_model kind context_window max_output_tokens tokenizer input_price output_price cached_price \
         cache_write_price reasoning_price max_concurrency requests_per_minute tokens_per_minute fallback settings",
    ),
];

fn fresh() -> (Database, Client) {
    let database = Database::new();
    let client = database.connect();
    (database, client)
}

fn none(client: &mut Client, query: &str) {
    let found: Vec<String> = column(client, query, &[]);
    assert!(found.is_empty(), "{query}\n{found:#?}");
}

#[test]
fn every_public_object_has_a_comment() {
    let (_database, mut client) = fresh();
    none(
        &mut client,
        "select c.relname::text from pg_class c where c.relnamespace = 'dialectic'::regnamespace and c.relkind in ('r', 'v', 'm', 'S') \
         and coalesce(obj_description(c.oid, 'pg_class'), '') = ''",
    );
    none(
        &mut client,
        "select p.oid::regprocedure::text from pg_proc p join pg_language l on l.oid = p.prolang \
         where p.pronamespace = 'dialectic'::regnamespace and p.proname not like '\\_%' and l.lanname <> 'c' \
         and coalesce(obj_description(p.oid, 'pg_proc'), '') = ''",
    );
}

#[test]
fn the_public_functions_are_these_with_these_arguments() {
    let (_database, mut client) = fresh();
    let rows = client
        .query(
            "select p.proname::text, array_to_string(p.proargnames[1:p.pronargs], ', ') from pg_proc p \
             where p.pronamespace = 'dialectic'::regnamespace and p.proname not like '\\_%' and p.prorettype <> 'trigger'::regtype",
            &[],
        )
        .expect("functions");
    let mut found: Vec<(String, String)> =
        rows.iter().map(|row| (row.get(0), row.get::<_, Option<String>>(1).unwrap_or_default())).collect();
    let mut promised: Vec<(String, String)> =
        SURFACE.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect();
    found.sort();
    promised.sort();
    assert_eq!(found, promised);
}

#[test]
fn the_columns_that_users_query_keep_their_names() {
    let (_database, mut client) = fresh();
    for (table, columns) in COLUMNS {
        let found: Vec<String> = column(
            &mut client,
            "select attname::text from pg_attribute where attrelid = ('dialectic.' || $1)::regclass and attnum > 0 and not attisdropped",
            &[&table],
        );
        let missing: Vec<&str> =
            columns.split_whitespace().filter(|name| !found.iter().any(|column| column == name)).collect();
        assert!(missing.is_empty(), "{table} lacks {missing:?}; it has {found:?}");
    }
    none(
        &mut client,
        "select v from unnest(array['blocked', 'documents', 'usage']) as v where not exists ( \
         select from pg_class where oid = to_regclass('dialectic.' || v) and relkind = 'v' and 'security_invoker=true' = any (reloptions))",
    );
}

#[test]
fn every_sql_function_pins_its_search_path_but_those_that_cannot() {
    let (_database, mut client) = fresh();
    let loose: Vec<String> = column(
        &mut client,
        "select p.proname::text from pg_proc p join pg_language l on l.oid = p.prolang \
         where p.pronamespace = 'dialectic'::regnamespace and l.lanname in ('sql', 'plpgsql') and p.prosqlbody is null \
         and not coalesce('search_path=pg_catalog, dialectic, pg_temp' = any (p.proconfig), false) order by 1",
        &[],
    );
    assert_eq!(loose, UNPINNED);
    none(
        &mut client,
        "select p.proname::text from pg_proc p where p.pronamespace = 'dialectic'::regnamespace \
         and p.proname in ('maintain', 'run_pending', 'wait') and (p.prosecdef or p.proconfig is not null)",
    );
    // A function in Rust cannot pin anything, so none may run with the rights of its owner.
    none(
        &mut client,
        "select p.proname::text from pg_proc p join pg_language l on l.oid = p.prolang \
         where p.pronamespace = 'dialectic'::regnamespace and l.lanname = 'c' and p.prosecdef",
    );
}

#[test]
fn those_without_a_search_path_qualify_every_operator_function_and_type() {
    let (_database, mut client) = fresh();
    for name in UNPINNED {
        // What is left when comments, literals and all that is qualified or built into the grammar are taken away.
        let bare: Vec<String> = column(
            &mut client,
            r"with source(body) as (select prosrc from pg_proc where proname = $1 and pronamespace = 'dialectic'::regnamespace),
              text(body) as (select regexp_replace(regexp_replace(body, '--[^\n]*', '', 'g'), '''[^'']*''', '''''', 'g') from source),
              plain(body) as (
                  select regexp_replace(regexp_replace(regexp_replace(regexp_replace(body,
                      'operator\(pg_catalog\.[^)]+\)', ' ', 'g'),
                      '::pg_catalog\.', ' ', 'g'),
                      '\m(errcode|detail|hint) = ', ' ', 'g'),
                      ':=', ' ', 'g') from text)
              select m[1] from plain, regexp_matches(body, '([-+*/<>=~!@#%^&|`?]+)', 'g') as m
              union all
              select m[1] from plain, regexp_matches(body, '(?:^|[^.\w])(\w+)\s*\(', 'g') as m where m[1] not in ('coalesce', 'least', 'exists')
              union all
              select m[1] from plain, regexp_matches(split_part(body, 'begin', 1), '\m(?:constant\s+)?(\w+)(?:\[\])?\s*(?:;|''''|$)', 'gn') as m
              where m[1] !~ '^\d+$' and body ~ ('\s' || m[1] || '(\[\])?\s*;') and m[1] not in ('record', 'max_jobs')",
            &[&name],
        );
        let qualified = ["text", "int4", "uuid", "jsonb", "float8", "bool", "timestamptz", "timeout", "0"];
        let bare: Vec<&String> = bare.iter().filter(|word| !qualified.contains(&word.as_str())).collect();
        assert!(bare.is_empty(), "{name}: not qualified: {bare:?}");
    }
}

#[test]
fn there_is_one_list_of_statuses_and_of_moves() {
    let (_database, mut client) = fresh();
    let statuses = |query: &str, client: &mut Client| -> Vec<String> { column(client, query, &[]) };
    let listed = statuses(
        "select status || ' ' || phase || ' ' || description from dialectic.job_statuses order by 1",
        &mut client,
    );
    let in_rust = statuses(
        "select status || ' ' || phase || ' ' || description from dialectic._job_statuses() order by 1",
        &mut client,
    );
    assert_eq!(listed, in_rust);
    assert_eq!(listed.len(), 14);
    let names = statuses("select status from dialectic.job_statuses order by 1", &mut client);
    for check in ["jobs_status_check", "jobs_status_before_check"] {
        let checked = statuses(
            &format!(
                "select m[1] from pg_constraint, regexp_matches(pg_get_constraintdef(oid), '''([a-z_]+)''', 'g') as m \
                 where conname = '{check}' and conrelid = 'dialectic.jobs'::regclass order by 1"
            ),
            &mut client,
        );
        assert_eq!(checked, names, "{check}");
    }
    for (phase, function) in [("ready", "_ready_statuses"), ("ended", "_ended_statuses")] {
        let of_phase = statuses(
            &format!("select status from dialectic.job_statuses where phase = '{phase}' order by 1"),
            &mut client,
        );
        let of_function =
            statuses(&format!("select s from unnest(dialectic.{function}()) as s order by 1"), &mut client);
        assert_eq!(of_phase, of_function);
        let plan = statuses(&format!("explain verbose select dialectic.{function}()"), &mut client).join("\n");
        assert!(!plan.contains(function), "the planner does not inline {function}: {plan}");
    }
    let classes = statuses("select c from unnest(dialectic._error_classes()) as c order by 1", &mut client);
    let rust_classes = statuses("select c from dialectic._job_error_classes() as c order by 1", &mut client);
    assert_eq!(classes, rust_classes);
    let moves =
        statuses("select from_status || ' ' || to_status from dialectic.job_transitions order by 1", &mut client);
    let rust_moves =
        statuses("select from_status || ' ' || to_status from dialectic._job_transitions() order by 1", &mut client);
    assert_eq!(moves, rust_moves);
    assert!(moves.contains(&"pending processing".to_owned()));
}

#[test]
fn foreign_keys_run_one_way() {
    let (_database, mut client) = fresh();
    let keys: i64 = one(
        &mut client,
        "select count(*) from pg_constraint where contype = 'f' and connamespace = 'dialectic'::regnamespace",
        &[],
    );
    assert!(keys > 4, "{keys} foreign keys");
    none(
        &mut client,
        "with recursive reach(origin, here) as ( \
             select conrelid, confrelid from pg_constraint where contype = 'f' and connamespace = 'dialectic'::regnamespace \
             union \
             select r.origin, c.confrelid from reach r join pg_constraint c on c.conrelid = r.here and c.contype = 'f') \
         select origin::regclass::text from reach where origin = here",
    );
}

#[test]
fn what_a_session_made_goes_with_it_and_nothing_else() {
    let database = Database::new();
    let mut client = database.connect();
    let run = "select dialectic.run('Why laws?', models => '{sim-a,sim-b}', process => 'essay')";
    let (kept, gone): (Uuid, Uuid) = (one(&mut client, run, &[]), one(&mut client, run, &[]));
    work(&mut client);
    let rows = |client: &mut postgres::Client, session: Uuid| -> Vec<i64> {
        let of = |table: &str, column: &str| format!("(select count(*) from dialectic.{table} where {column} = $1)");
        let counts = [
            of("jobs", "session_id"),
            of("contributions", "session_id"),
            of("model_calls", "session_id"),
            of("resources", "session_id"),
            "(select count(*) from dialectic.job_inputs i join dialectic.contributions c on c.id = i.artifact where c.session_id = $1)".to_owned(),
        ];
        let query = format!("select unnest(array[{}])", counts.join(", "));
        column(client, &query, &[&session])
    };
    let before = rows(&mut client, kept);
    assert!(before.iter().all(|count| *count > 0), "{before:?}");
    client.execute("delete from dialectic.sessions where id = $1", &[&gone]).expect("delete");
    assert_eq!(rows(&mut client, gone), [0, 0, 0, 0, 0]);
    assert_eq!(rows(&mut client, kept), before);
    assert_sound(&mut client);
}
