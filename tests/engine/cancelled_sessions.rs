//! A cancelled session: what works on sessions refuses it and says how to bring it back, and that does bring it back.

use crate::by_hand::session_status;
use dialectic_tests::*;
use postgres::Client;

const VERBS: [&str; 4] = [
    "call dialectic.wait($1)",
    "select dialectic.submit_stage($1)",
    "select * from dialectic.generate($1)",
    "select dialectic.regenerate($1, 'thesis', 'sim-a')",
];

fn started(client: &mut Client) -> Uuid {
    let project: Uuid = one(client, "select dialectic.create_project('Why', 'Why?', process => 'essay')", &[]);
    one(client, "select dialectic.start_session($1, '{sim-a,sim-b}')", &[&project])
}

fn generate(client: &mut Client, session: Uuid) {
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
}

fn cancel(client: &mut Client, session: Uuid) {
    client.query("select dialectic.cancel($1)", &[&session]).expect("cancel");
    assert_eq!(session_status(client, session), "cancelled");
}

/// Everything refuses the session with the same message, and the hint is the statement that brings it back.
fn refuse_and_revive(client: &mut Client, session: Uuid) {
    let before = mark(client);
    let mut hint = String::new();
    for verb in VERBS {
        let error = refused_with(client, verb, &[&session], "55000", "cancelled");
        assert_eq!(error.message(), format!("session \"{session}\" is cancelled"), "{verb}");
        assert_ne!(error.detail(), Some(""), "{verb}");
        hint = error.hint().expect("a hint").to_owned();
        assert_eq!(hint, format!("SELECT dialectic.retry('{session}');"), "{verb}");
    }
    assert_eq!(mark(client), before);
    client.batch_execute(&hint).expect("the hint is a statement");
    assert_eq!(session_status(client, session), "active");
}

#[test]
fn session_cancelled_before_it_is_generated_can_be_revived() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = started(&mut client);
    cancel(&mut client, session);
    refuse_and_revive(&mut client, session);
    generate(&mut client, session);
    work(&mut client);
    client.execute("call dialectic.wait($1)", &[&session]).expect("wait");
    assert_sound(&mut client);
}

#[test]
fn session_cancelled_after_a_complete_stage_can_be_revived() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = started(&mut client);
    generate(&mut client, session);
    work(&mut client);
    client.execute("call dialectic.wait($1)", &[&session]).expect("wait");
    cancel(&mut client, session);
    refuse_and_revive(&mut client, session);
    assert_eq!(one::<String>(&mut client, "select dialectic.submit_stage($1)", &[&session]), "antithesis");
    assert_sound(&mut client);
}

#[test]
fn session_cancelled_while_it_runs_can_be_revived() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why?', models => '{sim-a,sim-b}', process => 'essay')", &[]);
    client.batch_execute("call dialectic.run_pending(5)").expect("run_pending");
    cancel(&mut client, session);
    refuse_and_revive(&mut client, session);
    work(&mut client);
    client.execute("call dialectic.wait($1)", &[&session]).expect("wait");
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn repeated_idempotency_key_still_gives_the_jobs_of_a_cancelled_session() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = started(&mut client);
    let generate = "select job_id from dialectic.generate($1, idempotency_key => 'once')";
    let jobs: Vec<Uuid> = column(&mut client, generate, &[&session]);
    cancel(&mut client, session);
    assert_eq!(column::<Uuid>(&mut client, generate, &[&session]), jobs);
    assert_eq!(session_status(&mut client, session), "cancelled");
}
