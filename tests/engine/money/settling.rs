//! When a call is over: it is settled at what it used, once, however it ended and however often that is said.

use super::*;

#[test]
fn what_was_not_used_is_given_back() {
    let (_database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    let held = held(&mut client, &claim);
    assert_eq!(answer_with(&mut client, &claim, 40, 20), "completed");
    let cost = 40 * READ + 20 * WRITTEN;
    assert_eq!(entries(&mut client), [entry("hold", -held), entry("settlement", held - cost)]);
    assert_eq!(purse(&mut client), (OPENING - cost, 0));
    assert_eq!(call(&mut client, &claim), ("answered".to_owned(), cost, 0));
    assert_balanced(&mut client);
    assert_sound(&mut client);
}

#[test]
fn a_replayed_completion_is_charged_once() {
    let (database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    // Twice at once.
    let (first, second) =
        overlapping(&database, |a| answer_with(a, &claim, 40, 20), |b| answer_with(b, &claim, 40, 20));
    assert_eq!((first.as_str(), second.as_str()), ("completed", "stale"));
    let before = (purse(&mut client), entries(&mut client), call(&mut client, &claim));
    assert_eq!(before.0, (OPENING - 40 * READ - 20 * WRITTEN, 0));
    // And again, the same, otherwise, and as a failure.
    assert_eq!(answer_with(&mut client, &claim, 40, 20), "stale");
    assert_eq!(answer_with(&mut client, &claim, 80, 90), "stale");
    assert_eq!(fail(&mut client, &claim, "transient", "it broke"), "stale");
    assert_eq!((purse(&mut client), entries(&mut client), call(&mut client, &claim)), before);
    let texts = "select count(*) from dialectic.contributions where job_id = $1";
    assert_eq!(one::<i64>(&mut client, texts, &[&claim.job]), 1);
    assert_sound(&mut client);
}

#[test]
fn usage_that_is_missing_is_charged_by_tokens_and_not_by_characters() {
    let text = "Ein Baum wächst langsam; 木は静かに育つ。 ".repeat(8);
    for usage in [
        json!({}),
        json!({"output_tokens": null, "input_tokens": null}),
        json!({"output_tokens": 0, "input_tokens": 0}),
    ] {
        let (_database, mut client) = funded(OPENING);
        let (_, leaves) = leaves(&mut client, 1);
        let request = ask(&mut client, &leaves[0]).expect("a request");
        let said: String = one(
            &mut client,
            "select dialectic.complete_job($1, $2, $3, 'stop', $4)",
            &[&leaves[0].job, &leaves[0].claim, &text, &usage],
        );
        assert_eq!(said, "completed");
        let tokens: i64 = one(
            &mut client,
            "select dialectic.count_message_tokens($1, 'dear') * $2 + dialectic.count_tokens($3, 'dear') * $4",
            &[&request["messages"], &READ, &text, &WRITTEN],
        );
        let (_, cost, unbilled) = call(&mut client, &leaves[0]);
        assert_eq!((cost, unbilled), (tokens, 0));
        assert!(cost < text.chars().count() as i64 * WRITTEN, "that is what characters would cost");
        let estimated = "select is_estimated from dialectic.model_calls where job_id = $1";
        assert!(one::<bool>(&mut client, estimated, &[&leaves[0].job]), "it is said to be counted here");
        assert_balanced(&mut client);
        assert_sound(&mut client);
    }
}

#[test]
fn a_cancelled_call_is_settled_at_what_it_used() {
    for verb in ["cancel", "pause"] {
        let (_database, mut client) = funded(OPENING);
        let (session, claim) = asked(&mut client);
        client.query_one(&format!("select dialectic.{verb}($1)"), &[&session]).expect(verb);
        assert_balanced(&mut client);
        assert_eq!(answer_with(&mut client, &claim, 40, 3), "stale");
        let cost = 40 * READ + 3 * WRITTEN;
        assert_eq!(call(&mut client, &claim), ("late".to_owned(), cost, 0), "{verb}");
        assert_eq!(purse(&mut client), (OPENING - cost, 0), "{verb}");
        assert_balanced(&mut client);
        assert_sound(&mut client);
    }
}

#[test]
fn a_cancelled_call_whose_claimer_is_silent_is_settled_too() {
    let (_database, mut client) = funded(OPENING);
    let (session, claim) = asked(&mut client);
    client.query_one("select dialectic.cancel($1)", &[&session]).expect("cancel");
    two_hours_later(&mut client);
    let (outcome, cost, _) = call(&mut client, &claim);
    assert_eq!(outcome, "lost");
    assert!(cost > 0, "the prompt was read");
    assert_eq!(purse(&mut client), (OPENING - cost, 0));
    assert_balanced(&mut client);
    assert_sound(&mut client);
}

#[test]
fn a_call_that_failed_is_settled_at_what_it_used() {
    let (_database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    assert_eq!(fail(&mut client, &claim, "transient", "it broke"), "retrying");
    let (outcome, cost, unbilled) = call(&mut client, &claim);
    assert_eq!((outcome.as_str(), unbilled), ("failed", 0));
    assert_eq!(purse(&mut client), (OPENING - cost, 0));
    assert_balanced(&mut client);
    // The next attempt is another call with a hold of its own.
    let again = super::claim(&mut client, "hand", 1).remove(0);
    assert!(ask(&mut client, &again).is_some());
    assert_eq!(answer_with(&mut client, &again, 10, 10), "completed");
    assert_eq!(purse(&mut client), (OPENING - cost - 10 * (READ + WRITTEN), 0));
    assert_balanced(&mut client);
    assert_sound(&mut client);
}

/// A call that was lost, from a wallet with this in it: its claim, what it was taken to have cost, and what it held.
fn lost(client: &mut Client, amount: i64) -> (Claim, i64, i64) {
    let (_, claim) = asked(client);
    let held = held(client, &claim);
    two_hours_later(client);
    let (outcome, estimate, _) = call(client, &claim);
    assert_eq!(outcome, "lost");
    assert!(estimate > 0 && estimate < held, "the prompt was read: {estimate} of {held}");
    assert_eq!(entries(client), [entry("hold", -held), entry("settlement", held - estimate)]);
    assert_eq!(purse(client), (amount - estimate, 0));
    (claim, estimate, held)
}

#[test]
fn a_lost_call_is_settled_by_its_estimate_and_corrected_when_its_answer_comes() {
    for (read, written) in [(40, 20), (1, 0), (30, 200)] {
        let (_database, mut client) = funded(OPENING);
        let (claim, estimate, held) = lost(&mut client, OPENING);
        assert_eq!(answer_with(&mut client, &claim, read, written), "stale");
        let cost = read * READ + written * WRITTEN;
        let charged = cost.min(held);
        assert_eq!(call(&mut client, &claim), ("late".to_owned(), cost, cost - charged));
        assert_eq!(
            entries(&mut client),
            [entry("hold", -held), entry("settlement", held - estimate), entry("correction", estimate - charged)]
        );
        assert_eq!(purse(&mut client), (OPENING - charged, 0));
        // The answer comes once more: nothing is new.
        let before = (purse(&mut client), entries(&mut client), call(&mut client, &claim));
        assert_eq!(answer_with(&mut client, &claim, 7, 7), "stale");
        assert_eq!((purse(&mut client), entries(&mut client), call(&mut client, &claim)), before);
        assert_balanced(&mut client);
    }
}

#[test]
fn a_correction_never_overdraws() {
    let (estimate, hold) = {
        let (_database, mut client) = funded(OPENING);
        let (_, estimate, hold) = lost(&mut client, OPENING);
        (estimate, hold)
    };
    let amount = estimate + hold + 5;
    let (_database, mut client) = funded(amount);
    let (claim, ..) = lost(&mut client, amount);
    // All but 5 of what was given back is held for another call when the answer comes.
    let (_, others) = leaves(&mut client, 1);
    assert!(ask(&mut client, &others[0]).is_some());
    assert_eq!(purse(&mut client), (5, hold));
    assert_eq!(answer_with(&mut client, &claim, 40, 20), "stale");
    let cost = 40 * READ + 20 * WRITTEN;
    assert!(cost > estimate + 5);
    assert_eq!(
        call(&mut client, &claim),
        ("late".to_owned(), cost, cost - estimate - 5),
        "what could not be charged is said"
    );
    assert_eq!(purse(&mut client), (0, hold));
    assert_balanced(&mut client);
}

#[test]
fn a_correction_never_goes_beyond_the_budget() {
    let (estimate, hold) = {
        let (_database, mut client) = funded(OPENING);
        let (_, estimate, hold) = lost(&mut client, OPENING);
        (estimate, hold)
    };
    for (room, free) in [(0, 0), (7, 7), (10_000, 10_000)] {
        let (_database, mut client) = funded(OPENING);
        let (claim, ..) = lost(&mut client, OPENING);
        let session: Uuid = one(&mut client, "select session_id from dialectic.jobs where id = $1", &[&claim.job]);
        let limit = estimate + room;
        client.query_one("select dialectic.set_budget($1, $2)", &[&session, &limit]).expect("set_budget");
        assert_eq!(answer_with(&mut client, &claim, 40, 20), "stale");
        let cost = 40 * READ + 20 * WRITTEN;
        let added = (cost.min(hold) - estimate).min(free);
        assert_eq!(call(&mut client, &claim), ("late".to_owned(), cost, cost - estimate - added), "{room} left");
        assert_eq!(purse(&mut client), (OPENING - estimate - added, 0), "{room} left");
        let spent: i64 = one(&mut client, "select spent from dialectic.budgets", &[]);
        assert_eq!(spent, cost, "what it cost is told all the same");
        assert_balanced(&mut client);
    }
}

#[test]
fn what_exceeds_the_hold_is_unbilled_and_shown() {
    let (_database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    let held = held(&mut client, &claim);
    assert_eq!(answer_with(&mut client, &claim, 40, 5_000), "completed");
    let cost = 40 * READ + 5_000 * WRITTEN;
    assert_eq!(call(&mut client, &claim), ("answered".to_owned(), cost, cost - held));
    assert_eq!(purse(&mut client), (OPENING - held, 0));
    assert_balanced(&mut client);
    let shown = client.query("select object, problem from dialectic.self_check()", &[]).expect("self_check");
    let shown: Vec<(Uuid, String)> = shown.iter().map(|row| (row.get(0), row.get(1))).collect();
    let id: Uuid = one(&mut client, "select id from dialectic.model_calls where job_id = $1", &[&claim.job]);
    assert_eq!(shown.len(), 1, "{shown:?}");
    assert_eq!(shown[0].0, id);
    assert!(shown[0].1.contains(&(cost - held).to_string()), "{shown:?}");
}

#[test]
fn money_that_a_correction_gives_back_sets_others_going() {
    let (estimate, hold) = {
        let (_database, mut client) = funded(OPENING);
        let (_, estimate, hold) = lost(&mut client, OPENING);
        (estimate, hold)
    };
    // Enough for one call, and not for what the lost one was charged besides.
    let amount = hold + estimate - 1;
    let (_database, mut client) = funded(amount);
    let (claim, ..) = lost(&mut client, amount);
    let (_, others) = leaves(&mut client, 1);
    assert!(ask(&mut client, &others[0]).is_none());
    assert_eq!(status(&mut client, others[0].job), "paused_nsf");
    assert_eq!(answer_with(&mut client, &claim, 1, 0), "stale");
    assert_eq!(status(&mut client, others[0].job), "pending");
    assert_balanced(&mut client);
}

#[test]
fn a_budget_that_is_set_while_an_answer_comes_counts_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(&format!(
            "select dialectic.add_model('dear', 'simulator', max_output_tokens => 200, input_price => {READ}, output_price => {WRITTEN})"
        ))
        .expect("a model that costs");
    let (session, claim) = asked(&mut client);
    let set = "select dialectic.set_budget($1, 1000000)";
    let (_, said) = overlapping(
        &database,
        |first| one::<i32>(first, set, &[&session]),
        |second| answer_with(second, &claim, 40, 20),
    );
    assert_eq!(said, "completed");
    let spent: i64 = one(&mut client, "select spent from dialectic.budgets", &[]);
    assert_eq!(spent, 40 * READ + 20 * WRITTEN);
    assert_sound(&mut client);
}

#[test]
fn usage_may_be_said_in_whole_numbers_of_any_form() {
    let (_database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    let said: String = one(
        &mut client,
        "select dialectic.complete_job($1, $2, 'A leaf.', 'stop', '{\"input_tokens\": 5.0, \"output_tokens\": 1e1}')",
        &[&claim.job, &claim.claim],
    );
    assert_eq!(said, "completed");
    assert_eq!(call(&mut client, &claim).1, 5 * READ + 10 * WRITTEN);
}

#[test]
fn a_call_costs_what_its_model_cost_when_it_was_opened() {
    for change in [
        "select dialectic.add_model('dear', 'simulator', max_output_tokens => 200, input_price => 900, output_price => 900)",
        "delete from dialectic.models where name = 'dear'",
    ] {
        let (_database, mut client) = funded(OPENING);
        let (_, claim) = asked(&mut client);
        client.batch_execute(change).expect(change);
        assert_eq!(answer_with(&mut client, &claim, 40, 20), "completed");
        let cost = 40 * READ + 20 * WRITTEN;
        assert_eq!(call(&mut client, &claim), ("answered".to_owned(), cost, 0), "{change}");
        assert_eq!(purse(&mut client), (OPENING - cost, 0));
        assert_sound(&mut client);
    }
}

#[test]
fn a_failure_that_says_nothing_of_what_it_used_has_read_its_prompt_unless_it_was_turned_away() {
    for (class, usage, is_charged) in [
        ("transient", "{}", true),
        ("content", "{}", true),
        ("throttled", "{}", false),
        ("configuration", "{}", false),
        ("permanent", "{}", false),
        ("context_window", "{}", false),
        ("transient", r#"{"input_tokens": 0, "output_tokens": 0}"#, false),
    ] {
        let (_database, mut client) = funded(OPENING);
        let (_, leaves) = leaves(&mut client, 1);
        let request = ask(&mut client, &leaves[0]).expect("a request");
        let read: i64 = one(&mut client, "select dialectic.count_message_tokens($1, 'dear')", &[&request["messages"]]);
        let fail = format!("select dialectic.fail_job($1, $2, '{class}', 'it broke', usage => '{usage}')");
        one::<String>(&mut client, &fail, &[&leaves[0].job, &leaves[0].claim]);
        let cost = if is_charged { read * READ } else { 0 };
        assert_eq!(call(&mut client, &leaves[0]), ("failed".to_owned(), cost, 0), "{class} {usage}");
        assert_eq!(purse(&mut client), (OPENING - cost, 0), "{class} {usage}");
        assert_sound(&mut client);
    }
}

#[test]
fn usage_of_other_names_and_parts_beyond_the_whole_are_refused_and_lose_nothing() {
    let (_database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    for usage in [
        r#"{"prompt_tokens": 5}"#,
        r#"{"input_tokens": 5, "output_tokens": 5, "cached_tokens": 6}"#,
        r#"{"input_tokens": 5, "output_tokens": 5, "cached_tokens": 3, "cache_write_tokens": 3}"#,
        r#"{"input_tokens": 5, "output_tokens": 5, "reasoning_tokens": 6}"#,
    ] {
        let complete = format!("select dialectic.complete_job($1, $2, 'A leaf.', 'stop', '{usage}')");
        let error = refused(&mut client, &complete, &[&claim.job, &claim.claim]);
        assert_eq!(error.code().code(), "22023", "{usage}");
        assert!(error.hint().is_some(), "{usage}");
    }
    assert_eq!(answer_with(&mut client, &claim, 5, 5), "completed");
}
