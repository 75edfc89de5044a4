//! Budgets: a session stands at its limit, says so, and goes on when the limit is raised or taken off.

use super::*;

/// Two texts to write in a session that may spend this.
fn limited(client: &mut Client, budget: i64) -> (Uuid, Vec<Claim>) {
    let project = fan_project(client, 2);
    let session: Uuid =
        one(client, "select dialectic.start_session($1, '{dear}', budget => $2::bigint)", &[&project, &budget]);
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    plan_roots(client, 1, "waiting_for_children");
    (session, claim(client, "hand", 2))
}

fn budget(client: &mut Client, session: Uuid) -> (i64, i64, i64) {
    let row = client
        .query_one("select amount, spent, held from dialectic.budgets where session_id = $1", &[&session])
        .expect("a budget");
    (row.get(0), row.get(1), row.get(2))
}

#[test]
fn a_budget_pauses_and_a_raised_one_goes_on() {
    let hold = price();
    let (_database, mut client) = funded(OPENING);
    let limit = hold * 3 / 2;
    let (session, leaves) = limited(&mut client, limit);
    assert!(ask(&mut client, &leaves[0]).is_some());
    assert_eq!(budget(&mut client, session), (limit, 0, hold));
    assert!(ask(&mut client, &leaves[1]).is_none(), "there is not enough for two");
    // The wallet could have paid, and was not touched for it.
    assert_eq!(purse(&mut client), (OPENING - hold, hold));
    assert_eq!(status(&mut client, leaves[1].job), "pending", "the first may leave enough");

    // It does not.
    let written = hold / WRITTEN - 1;
    assert_eq!(answer_with(&mut client, &leaves[0], 0, written), "completed");
    assert_eq!(budget(&mut client, session), (limit, written * WRITTEN, 0));
    client.batch_execute("set dialectic.clock_offset = 2").expect("a moment later");
    let second = leaf(&mut client, leaves[1].job);
    assert!(ask(&mut client, &second).is_none());
    assert_eq!(status(&mut client, second.job), "paused_nsf");
    let row =
        client.query_one("select short_of, needed from dialectic.unfunded_jobs where job_id = $1", &[&second.job]);
    let row = row.expect("it is said why");
    assert_eq!((row.get(0), row.get(1)), ("budget", hold));
    let cause: String = one(&mut client, "select cause from dialectic.blocked where job_id = $1", &[&second.job]);
    assert!(cause.contains("budget"), "{cause}");

    client.query_one("select dialectic.set_budget($1, $2)", &[&session, &(hold * 2)]).expect("set_budget");
    let second = leaf(&mut client, second.job);
    assert!(ask(&mut client, &second).is_some());
    assert_eq!(answer_with(&mut client, &second, 10, 10), "completed");
    assert_eq!(budget(&mut client, session), (hold * 2, written * WRITTEN + 10 * (READ + WRITTEN), 0));
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    assert_eq!(session_status(&mut client, session), "completed");
    assert_balanced(&mut client);
}

#[test]
fn a_budget_that_is_taken_off_limits_nobody() {
    let (_database, mut client) = funded(OPENING);
    let (session, leaves) = limited(&mut client, 0);
    assert!(leaves.iter().all(|leaf| ask(&mut client, leaf).is_none()));
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.unfunded_jobs where short_of = 'budget'", &[]),
        2
    );
    client.query_one("select dialectic.set_budget($1, null)", &[&session]).expect("set_budget");
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    assert_eq!(session_status(&mut client, session), "completed");
    assert_balanced(&mut client);
    assert_sound(&mut client);
}

#[test]
fn a_budget_holds_without_a_wallet_and_a_raise_is_enough() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute("select dialectic.add_model('dear', 'simulator', input_price => 2, output_price => 10)")
        .expect("a model that costs");
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why?', models => '{dear}', process => 'essay', budget => 0)", &[]);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "active");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 0);
    let waits = refused(&mut client, "call dialectic.wait($1)", &[&session]);
    assert!(waits.message().contains("funds"), "{waits:?}");
    client.query_one("select dialectic.set_budget($1, 10000000)", &[&session]).expect("set_budget");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    let spent: bool = one(
        &mut client,
        "select b.held = 0 and b.spent = (select sum(cost) from dialectic.model_calls) from dialectic.budgets b",
        &[],
    );
    assert!(spent, "{:?}", budget(&mut client, session));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.ledger", &[]), 0);
    assert_sound(&mut client);
}
