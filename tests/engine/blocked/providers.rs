//! The view `blocked` where the cause lies with a model, its provider or the clock.

use super::{WAITS_FOR_ONE, blocks, planned};
use dialectic_tests::*;
use postgres::Client;

#[test]
fn a_model_that_is_gone_is_named() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.execute("select dialectic.add_model('gone', 'simulator')", &[]).expect("add_model");
    planned(&mut client, &["gone"]);
    client.batch_execute("delete from dialectic.models where name = 'gone'").expect("delete");
    blocks(
        &mut client,
        &[("plan", "gone", WAITS_FOR_ONE), ("execute", "gone", "model \"gone\" does not exist any more")],
    );
}

/// Fails the one execute job that can be claimed.
fn fail(client: &mut Client, class: &str, retry_after: &str) {
    let failed = client
        .execute(
            &format!("select dialectic.fail_job(c.id, c.claim_id, '{class}', 'no luck', {retry_after}) from dialectic.claim_jobs('worker', 1) c"),
            &[],
        )
        .expect("fail_job");
    assert_eq!(failed, 1);
}

#[test]
fn a_provider_that_is_paused_or_throttled_is_named() {
    let database = Database::by_hand();
    let mut client = database.connect();
    planned(&mut client, &["sim-a"]);
    fail(&mut client, "throttled", "'1 hour'");
    let until: String = one(&mut client, "select free_at::text from dialectic.provider_cooldowns", &[]);
    blocks(
        &mut client,
        &[
            ("plan", "sim-a", WAITS_FOR_ONE),
            ("execute", "sim-a", &format!("provider simulator is throttled until {until}, 1 in a row")),
        ],
    );

    client.batch_execute("set dialectic.clock_offset = 3601").expect("time passes");
    fail(&mut client, "configuration", "null");
    blocks(
        &mut client,
        &[
            ("plan", "sim-a", WAITS_FOR_ONE),
            (
                "execute",
                "sim-a",
                "provider simulator is paused: no luck; correct it with set_secret(…) or add_provider(…)",
            ),
        ],
    );
}

#[test]
fn a_job_that_is_not_due_says_when_and_why() {
    let database = Database::by_hand();
    let mut client = database.connect();
    planned(&mut client, &["sim-a"]);
    fail(&mut client, "transient", "'1 hour'");
    let at: String = one(&mut client, "select run_at::text from dialectic.jobs where kind = 'execute'", &[]);
    let tried = format!("tried again at {at}; the last attempt failed: no luck");
    blocks(&mut client, &[("plan", "sim-a", WAITS_FOR_ONE), ("execute", "sim-a", &tried)]);

    let database = Database::by_hand();
    let mut client = database.connect();
    generated(&mut client, &["sim-a"]);
    let at: String =
        one(&mut client, "update dialectic.jobs set run_at = now() + interval '1 hour' returning run_at::text", &[]);
    blocks(&mut client, &[("plan", "sim-a", &format!("not due until {at}"))]);
}
