//! Schedules where pg_cron is not preloaded: who cannot schedule, and why. With pg_cron: tests/worker/schedules.rs.

use dialectic_tests::*;

const SCHEDULE: &str = "select dialectic.schedule_run('weekly', '0 7 * * 1', 'What happened?', process => 'essay')";

#[test]
fn schedule_without_pg_cron_names_the_setting() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let preloaded: String = one(&mut client, "show shared_preload_libraries", &[]);
    let libraries = [preloaded.as_str(), "pg_cron"].into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>();
    let error = refused_with(&mut client, SCHEDULE, &[], "55000", "pg_cron is not preloaded");
    let hint = format!(
        "Set shared_preload_libraries = '{}' and cron.database_name = '{}' in postgresql.conf and restart the server.",
        libraries.join(", "),
        database.name()
    );
    assert_eq!(error.hint(), Some(hint.as_str()));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.schedules", &[]), 0);
}

#[test]
fn role_that_cannot_log_in_cannot_schedule() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            "drop role if exists law_cron_nologin; create role law_cron_nologin; \
             select dialectic.grant_user('law_cron_nologin'); set role law_cron_nologin",
        )
        .expect("a role");
    let error = refused_with(&mut client, SCHEDULE, &[], "55000", "role \"law_cron_nologin\" cannot log in");
    client
        .batch_execute(&format!("reset role; {} set role law_cron_nologin", error.hint().expect("a hint")))
        .expect("the hint");
    refused_with(&mut client, SCHEDULE, &[], "55000", "pg_cron is not preloaded");
    client.batch_execute("reset role; drop owned by law_cron_nologin; drop role law_cron_nologin").expect("dropped");
}

#[test]
fn owner_from_claims_cannot_schedule() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            "drop role if exists law_cron_jwt; create role law_cron_jwt login; \
             select dialectic.grant_user('law_cron_jwt'); set dialectic.identity = 'jwt'; \
             set dialectic.jwt_roles = 'law_cron_jwt'; set request.jwt.claims = '{\"sub\": \"someone\"}'; \
             set role law_cron_jwt",
        )
        .expect("a role");
    refused_with(&mut client, SCHEDULE, &[], "55000", "role \"law_cron_jwt\" cannot schedule anything");
    client.batch_execute("reset role; drop owned by law_cron_jwt; drop role law_cron_jwt").expect("dropped");
}

#[test]
fn user_cannot_store_a_schedule_of_an_admin() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let mut user = database.connect_as("law_cron_user");
    client.batch_execute("select dialectic.grant_user('law_cron_user')").expect("a grant");
    let store = "select dialectic._store_schedule('maintenance', 'maintenance', '17 3 * * *', null, '{}')";
    refused_with(&mut user, store, &[], "42501", "maintenance");
    assert_eq!(refused(&mut user, "select dialectic.schedule_maintenance()", &[]).code().code(), "42501");
}

#[test]
fn schedule_of_a_run_that_could_not_start_is_refused() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let store = |name: &str, arguments: &str| {
        format!("select dialectic._store_schedule('{name}', 'run', '0 7 * * 1', 'What happened?', '{arguments}')")
    };
    refused_with(&mut client, &store("weekly", r#"{"models": ["nobody"]}"#), &[], "42704", "nobody");
    refused_with(&mut client, &store("weekly", r#"{"process": "nothing"}"#), &[], "42704", "nothing");
    refused_with(&mut client, &store("a/b", "{}"), &[], "22023", "schedule name");
    client.execute(&store("weekly", r#"{"process": "essay"}"#), &[]).expect("a schedule");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.sessions", &[]), 0, "it is only tried");
    let session: Uuid = one(&mut client, "select dialectic.run_scheduled('weekly')", &[]);
    assert!(one::<bool>(&mut client, "select dialectic.run_scheduled('weekly') is null", &[]), "it is still active");
    let shown = "select concat_ws(' ', name, kind, last_status, last_session_id) from dialectic.schedules";
    assert_eq!(one::<String>(&mut client, shown, &[]), format!("weekly run skipped {session}"));
    client.execute("select dialectic.unschedule('weekly')", &[]).expect("unschedule");
    refused_with(&mut client, "select dialectic.unschedule('weekly')", &[], "P0002", "weekly");
    refused_with(&mut client, "select dialectic.run_scheduled('weekly')", &[], "P0002", "weekly");
}
