//! Schedules with the real pg_cron: what runs, as whom, and what is recorded of it.

use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const EVERY_MINUTE: &str = "* * * * *";

/// A server with pg_cron in this database, and one with the extension named `law`.
fn with_cron(cron_database: &str) -> (Server, Client) {
    let server = Server::with(&format!(
        "shared_preload_libraries = 'pg_dialectic, pg_cron'\ncron.database_name = '{cron_database}'\n\
         cron.use_background_workers = on"
    ));
    let mut client = server.served("law");
    server.connect(cron_database).batch_execute("create extension pg_cron").expect("pg_cron");
    client
        .batch_execute("create role alice login; select dialectic.grant_user('alice')")
        .expect("a user of the extension");
    (server, client)
}

/// A connection as this role, and the hints of the warnings that it gets.
fn heard(server: &Server, role: &str) -> (Client, Arc<Mutex<Vec<String>>>) {
    let hints: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&hints);
    let mut config = server.config("law");
    config.user(role).notice_callback(move |notice| {
        sink.lock().expect("hints").extend(notice.hint().map(str::to_owned));
    });
    (config.connect(postgres::NoTls).expect("a connection"), hints)
}

/// What the view shows of a schedule.
fn shown(client: &mut Client, name: &str, columns: &str) -> String {
    one(client, &format!("select concat_ws(' ', {columns}) from dialectic.schedules where name = $1"), &[&name])
}

#[test]
fn pg_cron_runs_schedules_as_the_role_that_made_them() {
    let (server, mut admin) = with_cron("law");
    let (mut alice, _) = heard(&server, "alice");
    let schedule = "select dialectic.schedule_run($1, $2, $3, models => '{sim-a}', process => 'essay')";
    let error = refused_with(&mut alice, schedule, &[&"essay", &EVERY_MINUTE, &"x"], "42501", "schema cron");
    admin.batch_execute(error.hint().expect("a hint")).expect("the hint");

    // In one transaction, so that pg_cron sees all of it or nothing when a minute begins.
    admin.batch_execute("begin; set local role alice").expect("as alice");
    // Replaced: one job, with the prompt of the second call.
    for prompt in ["First", "Second"] {
        admin.execute(schedule, &[&"essay", &EVERY_MINUTE, &prompt]).expect("a schedule");
    }
    for name in ["broken", "busy", "gone"] {
        admin.execute(schedule, &[&name, &EVERY_MINUTE, &"Once more"]).expect("a schedule");
    }
    admin.execute("select dialectic.unschedule('gone')", &[]).expect("unschedule");
    let active: Uuid = one(&mut admin, "select dialectic.run_scheduled('busy')", &[]);
    admin.execute("select dialectic.pause($1)", &[&active]).expect("pause");
    admin
        .batch_execute(
            "reset role; \
             update dialectic.schedule_definitions set arguments = '{\"models\": [\"nobody\"]}' where name = 'broken'; \
             select dialectic.schedule_maintenance('* * * * *'); \
             select dialectic.schedule_run_pending(); \
             update dialectic.maintenance set last_run_at = '2000-01-01'; \
             commit",
        )
        .expect("schedules of an admin");
    let commands: Vec<String> =
        column(&mut admin, "select format('%s %s', username, command) from cron.job order by 1", &[]);
    assert_eq!(
        commands,
        [
            "alice SELECT dialectic.run_scheduled('broken')",
            "alice SELECT dialectic.run_scheduled('busy')",
            "alice SELECT dialectic.run_scheduled('essay')",
            "postgres CALL dialectic.maintain()",
            "postgres CALL dialectic.run_pending()"
        ]
    );

    // One wait for all of them.
    let done = "select count(distinct jobid) from cron.job_run_details where status in ('succeeded', 'failed')";
    within(Duration::from_secs(90), "pg_cron has run all five", || one::<i64>(&mut admin, done, &[]) == 5);
    let statuses: Vec<String> = column(
        &mut admin,
        "select distinct on (j.jobname) format('%s: %s', j.jobname, d.status) from cron.job j \
         join cron.job_run_details d using (jobid) order by j.jobname, d.runid",
        &[],
    );
    assert_eq!(
        statuses,
        [
            "dialectic broken: failed",
            "dialectic busy: succeeded",
            "dialectic essay: succeeded",
            "dialectic maintenance: succeeded",
            "dialectic run_pending: succeeded"
        ]
    );
    let (session, owner): (Uuid, String) = {
        let row = admin
            .query_one(
                "select s.id, s.owner from dialectic.schedules d join dialectic.sessions s on s.id = d.last_session_id \
                 where d.name = 'essay'",
                &[],
            )
            .expect("a session");
        (row.get(0), row.get(1))
    };
    assert_eq!(owner, "role:alice");
    let prompt = "select r.content from dialectic.sessions s join dialectic.resources r on r.project_id = s.project_id \
                  where s.id = $1 and r.resource_type = 'initial_user_prompt'";
    assert_eq!(one::<String>(&mut admin, prompt, &[&session]), "Second");
    assert_eq!(shown(&mut alice, "essay", "role, kind, is_in_cron, last_status"), "alice run t started");
    assert_eq!(shown(&mut alice, "busy", "last_status, last_session_id"), format!("skipped {active}"));
    assert_eq!(shown(&mut alice, "broken", "last_status"), "failed");
    assert!(shown(&mut alice, "broken", "last_message").contains("nobody"));
    assert_eq!(shown(&mut admin, "maintenance", "last_status"), "succeeded");
    assert!(one::<bool>(&mut admin, "select last_run_at > now() - interval '1 day' from dialectic.maintenance", &[]));
    // The worker leaves maintenance to the schedule, and takes it back.
    assert_eq!(one::<f64>(&mut admin, "select dialectic._maintenance_due_in()", &[]), 3600.0);
    admin.batch_execute("select dialectic.unschedule('maintenance')").expect("unschedule");
    assert!(one::<f64>(&mut admin, "select dialectic._maintenance_due_in()", &[]) > 3600.0);
    assert_eq!(one::<i64>(&mut admin, "select count(*) from cron.job where jobname ~ 'maintenance'", &[]), 0);
}

#[test]
fn pg_cron_in_another_database_is_reached_by_the_statement_in_the_hint() {
    let (server, mut admin) = with_cron("postgres");
    let mut elsewhere = server.connect("postgres");
    let (mut alice, hints) = heard(&server, "alice");
    let schedule = "select dialectic.schedule_run('it''s', '0 7 * * 1', 'x', process => 'essay')";
    refused_with(&mut alice, schedule, &[], "22023", "schedule name");
    let schedule = "select dialectic.schedule_run('weekly', '0 7 * * 1', 'It''s x', process => 'essay')";
    assert!(one::<Option<i64>>(&mut alice, schedule, &[]).is_none());
    let hint = hints.lock().expect("hints").pop().expect("a warning with a hint");
    elsewhere.batch_execute(&hint).expect("the hint");
    let job = "select concat_ws(' ', username, database, schedule, command) from cron.job";
    let command = "SELECT dialectic.run_scheduled('weekly')";
    assert_eq!(one::<String>(&mut elsewhere, job, &[]), format!("alice law 0 7 * * 1 {command}"));
    alice.batch_execute(command).expect("the command that pg_cron runs");
    assert_eq!(shown(&mut admin, "weekly", "is_in_cron, last_status"), "f started");
    alice.execute("select dialectic.unschedule('weekly')", &[]).expect("unschedule");
    let hint = hints.lock().expect("hints").pop().expect("a warning with a hint");
    elsewhere.batch_execute(&hint).expect("the hint");
    assert_eq!(one::<i64>(&mut elsewhere, "select count(*) from cron.job", &[]), 0);
}

#[test]
fn schedule_before_create_extension_pg_cron_says_so() {
    let server = Server::with("shared_preload_libraries = 'pg_dialectic, pg_cron'\ncron.database_name = 'law'");
    let mut client = server.served("law");
    let schedule = "select dialectic.schedule_maintenance()";
    let error = refused_with(&mut client, schedule, &[], "42704", "extension \"pg_cron\" does not exist");
    client.batch_execute(error.hint().expect("a hint")).expect("the hint");
    one::<i64>(&mut client, schedule, &[]);
}
