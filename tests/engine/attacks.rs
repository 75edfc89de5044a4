//! What an enemy tried once: each must stay without effect on anyone else.

use crate::by_hand::{claimer, take};
use dialectic_tests::*;

#[test]
fn a_template_as_deep_as_it_is_long_is_an_error_or_a_text_and_never_the_end_of_the_server() {
    let database = Database::new();
    let mut client = database.connect();
    for (start, piece, end) in [
        ("{{ 1", "+1", " }}"),
        ("{{ ", "not ", "1 }}"),
        ("{{ ", "-", "1 }}"),
        ("{{ x", ".a", " }}"),
        ("{{ 1", "|abs", " }}"),
    ] {
        for times in [1_000, 10_000, 30_000, 100_000] {
            let body = format!("{start}{}{end}", piece.repeat(times));
            let stored = client.query("select dialectic.set_prompt('deep', $1)", &[&body]);
            if let Err(error) = stored {
                assert_eq!(
                    error.as_db_error().expect("an error of the database").code().code(),
                    "22023",
                    "{piece} {times}"
                );
            } else {
                let _ = client.query("select dialectic.render_prompt('deep', '{\"x\": {}}')", &[]);
            }
        }
    }
    let nested = "{% set ns = namespace() %}{% set ns.x = [] %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}";
    client.query("select dialectic.set_prompt('nested', $1)", &[&nested]).expect("a template");
    refused(&mut client, "select dialectic.render_prompt('nested', '{}')", &[]);
    for greedy in [
        "{{ 'x\nx'|indent(9000000000000000000) }}",
        "{{ [1]|slice(9000000000000000000) }}",
        "{{ [1]|batch(9000000000000000000) }}",
        "{{ {}|tojson(indent=9000000000000000000) }}",
    ] {
        // Some are refused when they are stored, the others when they are filled.
        if client.query("select dialectic.set_prompt('greedy', $1)", &[&greedy]).is_ok() {
            refused(&mut client, "select dialectic.render_prompt('greedy', '{}')", &[]);
        }
    }
    assert_eq!(one::<i32>(&mut client, "select 1", &[]), 1, "the connection is still there");
}

#[test]
fn a_user_cannot_bring_templates_of_his_own() {
    let database = Database::new();
    database
        .connect()
        .batch_execute("do $$ begin create role attacks_user; exception when duplicate_object then end $$; select dialectic.grant_user('attacks_user')")
        .expect("a user");
    let mut user = database.connect_as("attacks_user");
    for call in ["_render_template('{\"a\": \"b\"}', 'a', '{}')", "_check_template('a', 'b')", "set_prompt('a', 'b')"] {
        assert_eq!(refused(&mut user, &format!("select dialectic.{call}"), &[]).code().code(), "42501", "{call}");
    }
}

#[test]
fn who_holds_his_session_delays_nobody_else() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let held = generated(&mut client, &["sim-a"]);
    let free = generated(&mut client, &["sim-a"]);
    let mut holder = database.connect();
    let mut transaction = holder.transaction().expect("begin");
    transaction.query("select dialectic.resume($1)", &[&held]).expect("a verb that takes the lock");

    let working = set_to_work(&database);
    let documents = "select count(*) from dialectic.documents where session_id = $1";
    eventually("the other session is worked", || one::<i64>(&mut client, documents, &[&free]) == 1);
    assert_eq!(one::<i64>(&mut client, documents, &[&held]), 0);
    transaction.commit().expect("commit");
    working.end();
    assert_eq!(one::<i64>(&mut client, documents, &[&held]), 1);
    assert_sound(&mut client);
}

#[test]
fn an_answer_to_a_session_that_is_held_is_kept_when_it_is_let_go() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .execute(r#"select dialectic.add_model('slow', 'simulator', settings => '{"latency_ms": 300}')"#, &[])
        .expect("a slow model");
    let session = generated(&mut client, &["slow"]);
    let working = set_to_work(&database);
    eventually("the call is under way", || {
        one(&mut client, "select exists (select from dialectic.model_calls where outcome = 'open')", &[])
    });
    let mut holder = database.connect();
    let mut transaction = holder.transaction().expect("begin");
    transaction.query("select dialectic.resume($1)", &[&session]).expect("a verb that takes the lock");
    // Long enough for the answer to have come and been put back: another session is worked meanwhile, from begin to end.
    let other = generated(&mut client, &["slow"]);
    let documents = "select count(*) from dialectic.documents where session_id = $1";
    eventually("the other session is worked", || one::<i64>(&mut client, documents, &[&other]) == 1);
    assert_eq!(one::<i64>(&mut client, documents, &[&session]), 0);
    transaction.commit().expect("commit");
    working.end();
    assert_eq!(one::<i64>(&mut client, documents, &[&session]), 1);
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.model_calls where session_id = $1", &[&session]),
        1
    );
    assert_sound(&mut client);
}

#[test]
fn a_lock_that_somebody_else_takes_keeps_no_dead_claimer_alive() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    let (mut claimer, name) = claimer(&database);
    assert_eq!(take(&mut claimer, &name), 1);
    let process = pid(&mut claimer);

    let mut enemy = database.connect();
    let waiting = std::thread::spawn({
        let name = name.clone();
        move || {
            enemy
                .query("select pg_advisory_lock(space, key) from dialectic._claimer_key($1)", &[&name])
                .expect("the lock, in the end");
            enemy
        }
    });
    eventually("the enemy waits for the lock", || {
        one(&mut client, "select exists (select from pg_locks where locktype = 'advisory' and not granted)", &[])
    });
    client.query("select pg_terminate_backend($1)", &[&process]).expect("the claimer dies");
    let enemy = waiting.join().expect("the enemy has the lock");
    hand_over(&mut client);
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.documents where session_id = $1", &[&session]),
        1
    );
    drop(enemy);
}

#[test]
fn a_provider_that_keeps_asking_for_patience_is_asked_ever_more_rarely() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            r#"select dialectic.add_model('busy', 'simulator', settings => '{"fail_always": true, "fail_class": "throttled"}');
               select dialectic.set_config('retry_base_seconds', '0.5')"#,
        )
        .expect("a model that is always busy");
    let session = generated(&mut client, &["busy"]);
    // 0.5 + 1 + 2 + 4 + 8 + 16 seconds of clock, moved and not waited for; then the wait is longer than run_pending's patience.
    for calls in 1..=7 {
        client.batch_execute(&format!("set dialectic.clock_offset = {}", 100 * calls)).expect("later");
        let job: Option<Uuid> = client
            .query_opt("select id from dialectic.claim_jobs('w', 1) where kind = 'execute'", &[])
            .expect("a claim")
            .map(|row| row.get(0));
        if let Some(job) = job {
            client
                .query("select dialectic.fail_job($1, (select claim_id from dialectic.jobs where id = $1), 'throttled', 'busy')", &[&job])
                .expect("fail_job");
        } else {
            client
                .batch_execute(
                    "select dialectic.complete_job(id, claim_id) from dialectic.jobs where status = 'processing'",
                )
                .expect("the plan");
        }
    }
    let wait: f64 = one(
        &mut client,
        "select extract(epoch from free_at - changed_at)::float8 from dialectic.provider_cooldowns where provider = 'simulator'",
        &[],
    );
    assert_eq!(wait, 0.5 * 2f64.powi(5));
    let attempts: i32 = one(
        &mut client,
        "select attempt_count from dialectic.jobs where session_id = $1 and kind = 'execute'",
        &[&session],
    );
    assert_eq!(attempts, 0);
}
