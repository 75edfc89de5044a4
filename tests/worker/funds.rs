//! Money that is held comes back: a call that does not fit beside those under way waits for them, is not paused, and is in nobody's way.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

/// What a call of the model may cost, and what is enough for two of them and not for three. It costs a few micro-dollars only.
const WORST: i64 = 1_000;
const FOR_TWO: i64 = 2_500;

fn cautious(client: &mut Client, latency_ms: i32) {
    client
        .execute(
            "select dialectic.add_model('cautious', 'simulator', context_window => 200000, max_output_tokens => 100000, output_price => 0.01, \
                                        settings => jsonb_build_object('latency_ms', $1::integer))",
            &[&latency_ms],
        )
        .expect("add_model");
}

/// So many sessions of an owner who can pay for one call at a time, with nothing else there yet.
fn poor_calls(client: &mut Client, model: &str, sessions: i32) {
    switch(client, false);
    single_calls(client, model, sessions);
    client.batch_execute("update dialectic.sessions set owner = 'jwt:poor'").expect("another owner");
    client.execute("select dialectic.open_wallet('jwt:poor', $1)", &[&(WORST * 3 / 2)]).expect("a wallet");
    switch(client, true);
}

/// The most calls that were ever open at once.
const AT_ONCE: &str = "select max(n) from (select sum(step) over (order by moment, step) as n from ( \
    select started_at as moment, 1 as step from dialectic.model_calls union all select finished_at, -1 from dialectic.model_calls) as m) as s";
const PAUSED: &str = "select count(*) from dialectic.notifications where type = 'contribution_generation_paused_nsf'";

#[test]
fn what_does_not_fit_beside_others_waits_for_them_and_is_not_paused() {
    let (_server, mut client) = Server::serving("");
    cautious(&mut client, 20);
    client.execute("select dialectic.open_wallet('role:postgres', $1)", &[&FOR_TWO]).expect("a wallet");
    single_calls(&mut client, "cautious", 12);
    all_completed(&mut client, Duration::from_secs(30));
    assert_eq!(one::<i64>(&mut client, PAUSED, &[]), 0);
    assert_eq!(one::<i64>(&mut client, AT_ONCE, &[]), 2);
    let held: Vec<i64> = column(&mut client, "select distinct held from dialectic.model_calls", &[]);
    assert_eq!(held, [WORST]);
}

#[test]
fn money_that_another_claimer_gives_back_is_found() {
    let (server, mut client) = Server::serving("");
    cautious(&mut client, 0);
    client.execute("select dialectic.open_wallet('role:postgres', $1)", &[&(WORST + WORST / 2)]).expect("a wallet");
    // Somebody outside has the money, and answers when the worker has come to wait for it.
    switch(&mut client, false);
    single_calls(&mut client, "cautious", 2);
    let mut outside = server.connect("law");
    outside
        .batch_execute(
            "select dialectic.complete_job(id, claim_id) from dialectic.claim_jobs('outside', 2) order by id;
             create temp table taken as select id, claim_id, dialectic.job_request(id) as request from dialectic.claim_jobs('outside', 1)",
        )
        .expect("a call outside");
    assert!(one::<bool>(&mut outside, "select request is not null from taken", &[]));
    switch(&mut client, true);
    let claimed = "select count(*) from dialectic.jobs where status = 'processing' and lease_until is null";
    soon("the worker has the other job", || one::<i64>(&mut client, claimed, &[]) == 1);
    assert_eq!(one::<i64>(&mut client, OPEN_CALLS, &[]), 1, "the worker waits");
    let cause = "select cause from dialectic.blocked where status = 'processing'";
    assert_eq!(column::<String>(&mut client, cause, &[]), ["waits for money that other calls hold, and may give back"]);
    outside.batch_execute("select dialectic.complete_job(id, claim_id, 'Done.') from taken").expect("an answer");
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(one::<i64>(&mut client, PAUSED, &[]), 0);
}

#[test]
fn who_waits_for_money_delays_nobody_else() {
    let (_server, mut client) = Server::serving("dialectic.max_concurrent_calls = 8");
    cautious(&mut client, 50);
    let many = reading(&mut client, "cautious", 100);
    client.execute("select dialectic.set_budget($1, $2)", &[&many, &FOR_TWO]).expect("a budget");
    soon("the many wait", || one::<i64>(&mut client, "select held from dialectic.budgets", &[]) == 2 * WORST);
    others_are_worked(&mut client);
    let left = "select count(*) from dialectic.jobs where session_id = $1 and completed_at is null";
    within(Duration::from_secs(60), "the many are done", || one::<i64>(&mut client, left, &[&many]) == 0);
    assert_eq!(one::<i64>(&mut client, PAUSED, &[]), 0);
    assert_sound(&mut client);
}

#[test]
fn an_owner_with_a_thousand_calls_that_wait_for_money_delays_no_other_owner() {
    let (_server, mut client) = Server::serving("");
    cautious(&mut client, 600_000);
    poor_calls(&mut client, "cautious", 1_000);
    soon("one is called and others wait", || {
        one::<bool>(
            &mut client,
            "select exists (select from dialectic.blocked where cause like 'waits for money%') \
                    and (select held from dialectic.wallets) = $1",
            &[&WORST],
        )
    });
    others_are_worked(&mut client);
    let open = "select count(*) from dialectic.model_calls where outcome = 'open' and model = 'cautious'";
    assert_eq!(one::<i64>(&mut client, open, &[]), 1, "the one that holds the money is still under way");
    // Those in hand stay few: no more of them are claimed.
    let in_hand = "select count(*) from dialectic.jobs where status = 'processing' and kind = 'execute'";
    assert!(one::<i64>(&mut client, in_hand, &[]) < 200);
    assert_eq!(one::<i64>(&mut client, PAUSED, &[]), 0);
}

#[test]
fn what_was_drafted_before_there_was_a_wallet_is_counted_for_it() {
    let (_server, mut client) = Server::serving("");
    client
        .batch_execute(
            "select dialectic.add_model('dear', 'simulator', context_window => 100000, max_output_tokens => 100, input_price => 1, output_price => 1)",
        )
        .expect("a model");
    set(&mut client, "dialectic.stop_at", Some("claimed"));
    single_calls(&mut client, "dear", 12);
    soon("it has claimed the calls", || stopped_at(&mut client).as_deref() == Some("claimed"));
    // Enough for the calls, not for windows full of text.
    client.batch_execute("select dialectic.open_wallet('role:postgres', 200000)").expect("a wallet");
    set(&mut client, "dialectic.stop_at", None);
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(one::<i64>(&mut client, PAUSED, &[]), 0);
    let held = "select max(coalesce(held, 100000)) from dialectic.model_calls";
    assert!(one::<i64>(&mut client, held, &[]) < 20_000, "every call was counted and held");
    assert_sound(&mut client);
}

#[test]
fn who_waits_for_money_delays_nobody_at_a_provider_with_little_room() {
    let (_server, mut client) = Server::serving("");
    client
        .batch_execute(
            "select dialectic.add_provider('narrow', 'simulator', max_concurrency => 2);
             select dialectic.add_model('tight', 'narrow', context_window => 200000, max_output_tokens => 100000, output_price => 0.01,
                                        settings => '{\"latency_ms\": 600000}')",
        )
        .expect("a provider");
    poor_calls(&mut client, "tight", 20);
    soon("one is called and others wait", || {
        one::<bool>(
            &mut client,
            "select exists (select from dialectic.blocked where cause like 'waits for money%')",
            &[],
        )
    });
    // The same model, and there is room for one more call.
    single_calls(&mut client, "tight", 1);
    let called = "select count(*) from dialectic.model_calls c join dialectic.sessions s on s.id = c.session_id where s.owner = 'role:postgres'";
    soon("the other owner is called", || one::<i64>(&mut client, called, &[]) == 1);
}

#[test]
fn a_budget_that_is_short_holds_up_its_session_and_no_other_of_its_owner() {
    let (_server, mut client) = Server::serving("");
    cautious(&mut client, 600_000);
    client.execute("select dialectic.open_wallet('role:postgres', 1000000)", &[]).expect("a wallet");
    let many = reading(&mut client, "cautious", 20);
    client.execute("select dialectic.set_budget($1, $2)", &[&many, &FOR_TWO]).expect("a budget");
    soon("the many wait", || one::<i64>(&mut client, "select held from dialectic.budgets", &[]) == 2 * WORST);
    single_calls(&mut client, "cautious", 1);
    let called = "select count(*) from dialectic.model_calls where session_id <> $1";
    soon("the other session is called", || one::<i64>(&mut client, called, &[&many]) == 1);
}

#[test]
fn answer_that_cannot_be_stored_waits_and_is_paid_for_once() {
    const OPENING: i64 = 1_000_000;
    let (_server, mut client) = Server::serving("");
    client
        .batch_execute(
            "select dialectic.add_model('dear', 'simulator', input_price => 2, output_price => 10); \
             alter table dialectic.contributions add check (content is null)",
        )
        .expect("a model that costs, and a table that takes nothing");
    client.execute("select dialectic.open_wallet('role:postgres', $1)", &[&OPENING]).expect("a wallet");
    single_calls(&mut client, "dear", 1);
    let held_up = "select coalesce((select cause from dialectic.blocked where cause_code = 'held_up'), '')";
    soon("the session is held up", || one::<String>(&mut client, held_up, &[]).contains("check constraint"));
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["1 open"]);
    client
        .batch_execute("alter table dialectic.contributions drop constraint contributions_content_check")
        .expect("a table that takes everything again");
    let completed = "select count(*) from dialectic.sessions where status = 'completed'";
    within(Duration::from_secs(40), "the answer is stored", || one::<i64>(&mut client, completed, &[]) == 1);
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["1 answered"]);
    let used = "select input_tokens * 2 + output_tokens * 10 from dialectic.model_calls where input_tokens > 0 and output_tokens > 0";
    let cost: i64 = one(&mut client, used, &[]);
    assert_eq!(one::<i64>(&mut client, "select cost from dialectic.model_calls", &[]), cost);
    let purse = "select format('%s, and %s held', balance, held) from dialectic.wallets";
    assert_eq!(one::<String>(&mut client, purse, &[]), format!("{}, and 0 held", OPENING - cost));
    assert_sound(&mut client);
}
