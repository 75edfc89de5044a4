//! The settings of the worker are its own: what ALTER DATABASE and ALTER ROLE set for everybody else does not reach it.

use dialectic_tests::server::Server;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

/// A connection that the settings of its database do not reach: each has the value of the server.
fn untouched(server: &Server, database: &str, group: &[Extreme]) -> Client {
    let options: Vec<String> = group
        .iter()
        .map(|of| format!("-c {}={}", of.name, of.usual.replace('\\', "\\\\").replace(' ', "\\ ")))
        .collect();
    let mut config = server.config(database);
    config.options(&options.join(" "));
    config.connect(postgres::NoTls).unwrap_or_else(|error| panic!("{group:?}\n{error:?}"))
}

fn completes(client: &mut Client, session: Uuid, what: &str) {
    eventually_within(Duration::from_secs(60), what, || {
        one::<String>(client, "select status from dialectic.sessions where id = $1", &[&session]) == "completed"
    });
}

#[test]
fn worker_completes_an_essay_under_every_extreme_setting_of_its_database() {
    let (server, mut client) = Server::serving("");
    client.batch_execute("create database plain is_template true").expect("a database");
    server
        .connect("plain")
        .batch_execute("set client_min_messages = warning; create extension pg_dialectic cascade")
        .expect("the extension");
    for (number, group) in extremes(&mut client, 40).iter().enumerate() {
        let name = format!("extreme_{number}");
        client.batch_execute(&format!("create database {name} template plain")).expect("a database");
        for Extreme { name: setting, value, .. } in group {
            let _ = client.batch_execute(&format!("alter database {name} set {setting} = '{value}'"));
        }
        let mut inside = untouched(&server, &name, group);
        let session: Uuid = one(&mut inside, "select dialectic.run('Extreme?', '{sim-a}', process => 'essay')", &[]);
        completes(&mut inside, session, &format!("{group:?}"));
        drop(inside);
        client.batch_execute(&format!("drop database {name} with (force)")).expect("dropped");
    }
}

#[test]
fn role_set_for_a_database_does_not_keep_the_worker_from_starting() {
    let server = Server::with("");
    let mut client = server.connect("postgres");
    for statement in
        ["create role nobody", "create database roled", "alter role postgres in database roled set role = nobody"]
    {
        client.batch_execute(statement).expect(statement);
    }
    let mut inside = server.connect("roled");
    inside
        .batch_execute("set role none; set client_min_messages = warning; create extension pg_dialectic cascade")
        .expect("the extension");
    let session: Uuid = one(&mut inside, "select dialectic.run('As whom?', '{sim-a}', process => 'essay')", &[]);
    completes(&mut inside, session, "the worker starts");
}

#[test]
fn session_authorization_set_for_a_database_does_not_reach_the_worker() {
    let server = Server::with("");
    let mut client = server.connect("postgres");
    client.batch_execute("create role nobody").expect("a role");
    client.batch_execute("create database authorized").expect("a database");
    client.batch_execute("alter database authorized set session_authorization = nobody").expect("a setting");
    let mut inside = server.connect("authorized");
    inside
        .batch_execute(
            "set session authorization postgres; set client_min_messages = warning; create extension pg_dialectic cascade",
        )
        .expect("the extension");
    let session: Uuid = one(&mut inside, "select dialectic.run('As whom?', '{sim-a}', process => 'essay')", &[]);
    completes(&mut inside, session, "the worker has its own rights");
}

/// What the worker has set while it stores an answer, by name; the database has these settings.
fn seen_by_the_worker(server: &Server, settings: &[(&str, &str)], names: &[&str]) -> Vec<String> {
    let mut client = server.connect("postgres");
    client.batch_execute("create database watched").expect("a database");
    for (name, value) in settings {
        client.batch_execute(&format!("alter database watched set {name} = '{value}'")).expect(name);
    }
    let mut inside = server.connect("watched");
    inside
        .batch_execute(
            "set client_min_messages = warning; create extension pg_dialectic cascade; \
             create table public.seen (name text, setting text); \
             create function public.see() returns trigger language plpgsql as $$ begin \
                 insert into public.seen select name, setting from pg_catalog.pg_settings; return null; end $$; \
             create trigger see after insert on dialectic.contributions \
                 for each statement execute function public.see()",
        )
        .expect("a trigger that sees");
    let session: Uuid = one(&mut inside, "select dialectic.run('Seen?', '{sim-a}', process => 'essay')", &[]);
    completes(&mut inside, session, "an essay");
    let seen = column(
        &mut inside,
        "select distinct name || ' ' || setting from public.seen where name = any ($1) order by 1",
        &[&names],
    );
    drop(inside);
    client.batch_execute("drop database watched with (force)").expect("dropped");
    seen
}

#[test]
fn settings_of_the_database_are_reset_to_those_of_the_server() {
    let server = Server::with("work_mem = 5MB");
    let of_the_database = [("work_mem", "64kB"), ("track_activities", "off"), ("maintenance_work_mem", "1MB")];
    assert_eq!(
        seen_by_the_worker(&server, &of_the_database, &["work_mem", "track_activities", "maintenance_work_mem"]),
        ["maintenance_work_mem 65536", "track_activities on", "work_mem 5120"]
    );
}

#[test]
fn answers_are_committed_with_a_flush_and_stronger_settings_stay() {
    let server = Server::with("synchronous_commit = off");
    let name = ["synchronous_commit"];
    assert_eq!(seen_by_the_worker(&server, &[], &name), ["synchronous_commit on"]);
    server
        .connect("postgres")
        .batch_execute("alter system set synchronous_commit = remote_apply")
        .expect("ALTER SYSTEM");
    server.connect("postgres").batch_execute("select pg_reload_conf()").expect("reload");
    eventually("the server has it", || {
        one::<String>(&mut server.connect("postgres"), "show synchronous_commit", &[]) == "remote_apply"
    });
    assert_eq!(
        seen_by_the_worker(&server, &[("synchronous_commit", "off")], &name),
        ["synchronous_commit remote_apply"]
    );
}

#[test]
fn prompts_are_not_logged_and_errors_are() {
    let (server, mut client) = Server::serving(
        "log_statement = 'all'\nlog_min_duration_statement = 0\nlog_duration = on\n\
         log_parameter_max_length_on_error = -1\n\
         debug_print_plan = on\nlog_min_messages = panic\nsynchronous_commit = off",
    );
    // Its own words go to the log of this connection, so they are not what is looked for.
    let word = "Xylophonesque";
    let quiet = "set log_statement = 'none'; set log_min_duration_statement = -1; set debug_print_plan = off; \
                 set log_duration = off";
    client.batch_execute(quiet).expect("a quiet connection");
    let session: Uuid =
        one(&mut client, "select dialectic.run($1, '{sim-a}', process => 'essay')", &[&format!("{word}?")]);
    completes(&mut client, session, "an essay");
    assert!(!server.log().contains(word));
    // A trigger that raises makes the worker's transaction fail, which it logs.
    client
        .batch_execute(
            "create function public.raises() returns trigger language plpgsql as \
                 $$ begin raise exception 'logged once'; end $$; \
             create trigger raises before insert on dialectic.model_calls \
                 for each row execute function public.raises(); \
             select dialectic.run('Fails?', '{sim-a}', process => 'essay')",
        )
        .expect("a trigger");
    eventually("the error is logged", || server.log().contains("logged once"));
}
