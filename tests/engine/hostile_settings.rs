//! `run_pending` has settings of its own: it works the queue whatever the connection of the admin was set to.

use dialectic_tests::*;

/// What concerns the connection or ends a statement is the caller's to choose, and replica is refused.
const OF_THE_CALLER: [&str; 10] = [
    "client_encoding",
    "idle_session_timeout",
    "statement_timeout",
    "lock_timeout",
    "transaction_timeout",
    "session_replication_role",
    "exit_on_error",
    "max_stack_depth",
    "role",
    "session_authorization",
];

#[test]
fn run_pending_completes_an_essay_under_every_extreme_setting() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for group in extremes(&mut client, 40) {
        let session: Uuid =
            one(&mut client, "select dialectic.run('Extreme?', '{sim-a}', process => 'essay', test => true)", &[]);
        let mut hostile = database.connect();
        let group: Vec<&Extreme> = group.iter().filter(|of| !OF_THE_CALLER.contains(&of.name.as_str())).collect();
        for Extreme { name, value, .. } in &group {
            let _ = hostile.batch_execute(&format!("set {name} = '{value}'"));
        }
        hostile.batch_execute("call dialectic.run_pending()").unwrap_or_else(|error| panic!("{group:?}\n{error:?}"));
        let status: String = one(&mut client, "select status from dialectic.sessions where id = $1", &[&session]);
        assert_eq!(status, "completed", "{group:?}");
    }
    assert_sound(&mut client);
}

#[test]
fn run_pending_leaves_the_settings_of_its_caller_as_they_were() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let _: Uuid = one(&mut client, "select dialectic.run('Yours?', '{sim-a}', process => 'essay', test => true)", &[]);
    client
        .batch_execute("set search_path = public; set datestyle = 'German'; set synchronous_commit = off")
        .expect("set");
    let settings = "select string_agg(name || '=' || setting, ' ' order by name) from pg_settings \
                    where source = 'session'";
    let before: String = one(&mut client, settings, &[]);
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    assert_eq!(one::<String>(&mut client, settings, &[]), before);
}
