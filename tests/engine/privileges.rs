//! Who may call and write what, read from the catalog and tried: users write no table, PUBLIC has nothing, definer functions pin
//! their search_path, views run with the rights of the one who looks.

use dialectic_tests::*;
use postgres::Client;

fn names(client: &mut Client, query: &str) -> Vec<String> {
    column(client, query, &[])
}

const TABLES: &str = "select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace and relkind in ('r', 'p') order by 1";

#[test]
fn every_definer_function_pins_its_search_path() {
    let database = Database::new();
    let loose = names(
        &mut database.connect(),
        "select oid::regprocedure::text from pg_proc where pronamespace = 'dialectic'::regnamespace and prosecdef \
         and coalesce(array_to_string(proconfig, ';'), '') !~ '(^|;)search_path=pg_catalog, dialectic, pg_temp(;|$)'",
    );
    assert!(loose.is_empty(), "{loose:?}");
}

#[test]
fn public_has_no_function_no_table_no_sequence_and_no_schema() {
    let database = Database::new();
    let open = names(
        &mut database.connect(),
        "select p.oid::regprocedure::text from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a \
         where p.pronamespace = 'dialectic'::regnamespace and a.grantee = 0 \
         union all \
         select c.oid::regclass::text from pg_class c, aclexplode(c.relacl) a where c.relnamespace = 'dialectic'::regnamespace and a.grantee = 0 \
         union all \
         select n.nspname from pg_namespace n, aclexplode(n.nspacl) a where n.nspname = 'dialectic' and a.grantee = 0",
    );
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn every_view_runs_with_the_rights_of_the_one_who_looks() {
    let database = Database::new();
    let mut client = database.connect();
    let views = "select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace and relkind = 'v'";
    assert!(names(&mut client, views).len() >= 7);
    let definer = names(
        &mut client,
        &format!("{views} and not coalesce(reloptions::text ~ 'security_invoker=(true|on)', false)"),
    );
    assert!(definer.is_empty(), "{definer:?}");
}

#[test]
fn every_table_that_leads_to_an_owner_has_row_level_security() {
    let database = Database::new();
    let open = names(
        &mut database.connect(),
        "select distinct c.oid::regclass::text from pg_class c join pg_attribute a on a.attrelid = c.oid \
         where c.relnamespace = 'dialectic'::regnamespace and c.relkind = 'r' and not c.relrowsecurity \
           and a.attname in ('owner', 'project_id', 'session_id', 'session', 'job_id', 'job', 'stage_run_id')",
    );
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn users_and_admins_write_no_table() {
    let database = Database::new();
    let mut client = database.connect();
    let mut user = database.connect_as("law_write_user");
    let mut admin = database.connect_as("law_write_admin");
    client
        .execute("select dialectic.grant_user('law_write_user'), dialectic.grant_admin('law_write_admin')", &[])
        .expect("grants");
    for table in names(&mut client, TABLES) {
        let first_column: String = one(
            &mut client,
            "select quote_ident(attname) from pg_attribute where attrelid = ('dialectic.' || $1)::regclass and attnum = 1",
            &[&table],
        );
        for statement in [
            format!("insert into dialectic.{table} default values"),
            format!("update dialectic.{table} set {first_column} = {first_column}"),
            format!("delete from dialectic.{table}"),
            format!("truncate dialectic.{table} cascade"),
            format!("alter table dialectic.{table} disable row level security"),
        ] {
            for role in [&mut user, &mut admin] {
                assert_eq!(refused(role, &statement, &[]).code().code(), "42501", "{statement}");
            }
        }
    }
    assert_eq!(refused(&mut user, "select nextval('dialectic.claim_ids')", &[]).code().code(), "42501");
    assert_eq!(refused(&mut user, "create table dialectic.mine ()", &[]).code().code(), "42501");
}

/// What only an admin may call, by name.
const ADMIN_ONLY: [&str; 26] = [
    "add_model",
    "add_provider",
    "add_setting",
    "claim_jobs",
    "close_wallet",
    "complete_job",
    "create_memory_index",
    "define_process",
    "define_stage",
    "fail_job",
    "grant_admin",
    "grant_user",
    "import_models",
    "job_request",
    "maintain",
    "open_wallet",
    "run_pending",
    "schedule_maintenance",
    "schedule_run_pending",
    "self_check",
    "set_config",
    "set_document_template",
    "set_domain",
    "set_prompt",
    "set_secret",
    "top_up",
];

#[test]
fn a_user_may_call_every_public_verb_but_those_of_admins() {
    let database = Database::new();
    let mut client = database.connect();
    drop(database.connect_as("law_verbs_user"));
    drop(database.connect_as("law_verbs_admin"));
    client
        .execute("select dialectic.grant_user('law_verbs_user'), dialectic.grant_admin('law_verbs_admin')", &[])
        .expect("grants");
    let verbs = "select proname::text from pg_proc where pronamespace = 'dialectic'::regnamespace and proname not like '\\_%' \
                 and prorettype <> 'trigger'::regtype and not has_function_privilege";
    assert_eq!(names(&mut client, &format!("{verbs}('law_verbs_user', oid, 'execute') order by 1")), ADMIN_ONLY);
    assert!(names(&mut client, &format!("{verbs}('law_verbs_admin', oid, 'execute')")).is_empty());
}

#[test]
fn a_role_without_a_grant_can_do_nothing_at_all() {
    let database = Database::new();
    let mut client = database.connect();
    client.execute("select dialectic.run('Why laws?', models => '{sim-a}', process => 'essay')", &[]).expect("run");
    work(&mut client);
    let before = mark(&mut client);
    let mut nobody = database.connect_as("law_nobody");
    for relation in names(
        &mut client,
        "select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace and relkind in ('r', 'v')",
    ) {
        assert_eq!(
            refused(&mut nobody, &format!("select * from dialectic.{relation}"), &[]).code().code(),
            "42501",
            "{relation}"
        );
    }
    let calls = names(
        &mut client,
        "select format(case prokind when 'p' then 'call dialectic.%I(%s)' else 'select dialectic.%I(%s)' end, proname, \
             (select string_agg('null::' || format_type(t, null), ', ' order by n) from unnest(proargtypes::oid[]) with ordinality as a(t, n))) \
         from pg_proc where pronamespace = 'dialectic'::regnamespace and prorettype <> 'trigger'::regtype",
    );
    assert!(calls.len() > 90);
    for call in calls {
        assert_eq!(refused(&mut nobody, &call, &[]).code().code(), "42501", "{call}");
    }
    assert_eq!(mark(&mut client), before);
}
