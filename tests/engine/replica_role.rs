//! session_replication_role = replica: the triggers that queue work do not fire, so nothing that changes anything is
//! accepted; what is stranded or disabled nevertheless is reported.

use dialectic_tests::*;
use postgres::Client;

const REPLICA: &str = "set session_replication_role = replica";

/// All functions that run with the rights of the extension's owner, as calls with nulls.
fn calls(client: &mut Client, condition: &str) -> Vec<String> {
    let query = format!(
        "select format('select * from dialectic.%I(%s)', proname, ( \
             select string_agg('null::' || format_type(t, null), ', ' order by n) \
             from unnest(proargtypes::oid[]) with ordinality as a(t, n))) \
         from pg_proc where pronamespace = 'dialectic'::regnamespace and prosrc = 'dialectic_call_as_owner' \
           and prorettype <> 'trigger'::regtype and {condition} order by 1"
    );
    column(client, &query, &[])
}

#[test]
fn functions_that_change_anything_refuse_under_replica_role() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let before = mark(&mut client);
    let changing = calls(&mut client, "provolatile = 'v'");
    assert!(changing.len() > 40, "{changing:?}");
    client.batch_execute(REPLICA).expect("superuser");
    let mut hints = Vec::new();
    for call in changing.iter().map(String::as_str).chain(["call dialectic.run_pending()"]) {
        let error = refused_with(&mut client, call, &[], "55000", "while session_replication_role is replica");
        hints.push(error.hint().unwrap_or_default().to_owned());
    }
    hints.dedup();
    assert_eq!(hints, ["SET session_replication_role = origin;"]);
    assert_eq!(mark(&mut client), before);
    client.batch_execute(&hints[0]).expect("the hint");
    let _: Uuid = one(&mut client, "select dialectic.run('Now', '{sim-a}', process => 'essay')", &[]);
}

#[test]
fn functions_that_only_read_work_under_replica_role() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.batch_execute(REPLICA).expect("superuser");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.health()", &[]), 1);
    assert_sound(&mut client);
    let reading: Vec<String> = column(
        &mut client,
        "select proname::text from pg_proc where pronamespace = 'dialectic'::regnamespace \
         and prosrc = 'dialectic_call_as_owner' and provolatile <> 'v' order by 1",
        &[],
    );
    let expected = [
        "_cron_database",
        "_due_sessions",
        "_hold_ups",
        "_lost_prompts",
        "_maintenance_due_in",
        "_preload_with_cron",
        "_retry_settings",
        "health",
        "prompt",
        "render_markdown",
        "render_prompt",
        "self_check",
    ];
    assert_eq!(reading, expected);
}

#[test]
fn only_cache_invalidation_fires_always() {
    let database = Database::new();
    let mut client = database.connect();
    let always: Vec<String> = column(
        &mut client,
        "select distinct format('%s %s', tgname, tgenabled) from pg_trigger t join pg_class c on c.oid = t.tgrelid \
         where c.relnamespace = 'dialectic'::regnamespace and tgenabled <> 'O'",
        &[],
    );
    assert_eq!(always, ["_forget_copies A"]);
}

#[test]
fn disabled_triggers_are_reported_until_they_are_enabled() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let problems = "select p from dialectic.health(), unnest(problems) as p where p like 'trigger %'";
    assert_eq!(column::<String>(&mut client, problems, &[]), [] as [String; 0]);
    client
        .batch_execute(
            "alter table dialectic.jobs disable trigger handle_job_completion; \
             alter table dialectic.models disable trigger _forget_copies; \
             alter table dialectic.job_dependencies disable trigger all; \
             create function public.own() returns trigger language plpgsql as 'begin return null; end'; \
             create trigger own after insert on dialectic.jobs for each row execute function public.own(); \
             alter table dialectic.jobs disable trigger own",
        )
        .expect("triggers are disabled");
    let reported: Vec<String> = column(&mut client, problems, &[]);
    assert!(reported.len() >= 4, "{reported:?}");
    assert!(!reported.iter().any(|problem| problem.contains("trigger own ")), "{reported:?}");
    let broken: Vec<String> = column(
        &mut client,
        "select problem from dialectic.self_check() where law = 'every trigger of the extension is enabled' order by 1",
        &[],
    );
    assert_eq!(broken, reported);
    for problem in reported {
        let (_, statement) = problem.split_once(": ").expect("a statement");
        client.batch_execute(statement).expect("the statement helps");
    }
    assert_eq!(column::<String>(&mut client, problems, &[]), [] as [String; 0]);
    assert_sound(&mut client);
}

#[test]
fn ready_job_missing_from_the_queue_is_reported_until_it_is_queued_again() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    let problems = "select p from dialectic.health(), unnest(problems) as p where p like '%missing from the queue%'";
    assert_eq!(column::<String>(&mut client, problems, &[]), [] as [String; 0]);
    client.batch_execute("delete from dialectic.ready_jobs").expect("stranded");
    let reported: Vec<String> = column(&mut client, problems, &[]);
    assert!(reported.len() == 1 && reported[0].starts_with("1 ready job is missing from the queue"), "{reported:?}");
    let stranded: Uuid = one(&mut client, "select object from dialectic.self_check()", &[]);
    let root: Uuid = one(&mut client, "select id from dialectic.jobs where session_id = $1", &[&session]);
    assert_eq!(stranded, root);
    client.execute("select dialectic.cancel($1)", &[&stranded]).expect("cancel");
    client.execute("select dialectic.retry($1)", &[&stranded]).expect("retry");
    assert_eq!(column::<String>(&mut client, problems, &[]), [] as [String; 0]);
    assert_sound(&mut client);
    hand_over(&mut client);
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.documents where session_id = $1", &[&session]),
        1
    );
}
