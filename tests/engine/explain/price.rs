//! What it will cost, worked out by hand: at the prices of each model, and at the most.

use super::*;

/// A session of the one step of the one model, which reads nothing but what is there: `n` calls of it in an essay.
fn alone(client: &mut Client, prices: &str, settings: Value) -> Uuid {
    client
        .execute(
            &format!(
                "select dialectic.add_model('priced', 'simulator', max_output_tokens => 3000, settings => $1, {prices})"
            ),
            &[&settings],
        )
        .expect("a model");
    start(client, "essay", &["priced"], SHORT, &[])
}

/// Of the first stage, which has one call: tokens read and written, cost and worst cost in micro-dollars.
fn first(client: &mut Client, session: Uuid) -> [i64; 4] {
    let row = client
        .query_one(
            "select input_tokens, output_tokens, (cost * 1000000)::bigint, (worst_cost * 1000000)::bigint \
             from dialectic.explain($1, 'thesis')",
            &[&session],
        )
        .expect("explain");
    [0, 1, 2, 3].map(|column| row.get(column))
}

/// The worst is the price of what is read, which may be a few tokens more than was counted, and of the longest answer, rounded up.
fn assert_worst(worst: i64, price: i64, read: i64, written: i64) {
    let least = price * read + written;
    assert!((least..=least + 12 * price + 1).contains(&worst), "{worst} of {least}");
}

#[test]
fn a_call_costs_what_its_tokens_cost_and_at_the_most_the_longest_answer_at_the_dearest_price() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let prices =
        "input_price => 3, output_price => 10, cached_price => 1, cache_write_price => 4, reasoning_price => 20";
    let session = alone(&mut client, prices, json!({"thinks_tokens": 500}));
    let [read, written, cost, worst] = first(&mut client, session);
    assert!(written > 500 && written < 1_500, "{written}");
    assert_eq!(cost, 3 * read + 10 * (written - 500) + 20 * 500);
    assert_worst(worst, 4, read, 20 * 3_000);
}

#[test]
fn what_has_no_price_of_its_own_has_the_plain_one() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session =
        alone(&mut client, "input_price => 3, output_price => 10, cached_price => 1", json!({"thinks_tokens": 500}));
    let [read, written, cost, worst] = first(&mut client, session);
    assert_eq!(cost, 3 * read + 10 * written);
    assert_worst(worst, 3, read, 10 * 3_000);
}

#[test]
fn a_stage_that_wants_short_answers_costs_less_at_the_most_and_so_do_those_that_follow_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = alone(&mut client, "input_price => 3, output_price => 10", json!({}));
    let all = "select (worst_cost * 1000000)::bigint from dialectic.explain_total($1)";
    let before: i64 = one(&mut client, all, &[&session]);
    client.query("select * from dialectic.generate($1, max_output_tokens => 100)", &[&session]).expect("generate");
    let [read, written, _, worst] = first(&mut client, session);
    // The answer is gone on with, twice, and the prompt read again each time.
    assert!((201..300).contains(&written), "{written}");
    assert!(worst > 3 * read + 10 * 300, "{worst}");
    let after: i64 = one(&mut client, all, &[&session]);
    // Five texts, each of which has 2700 tokens less.
    assert!(before - after > 5 * 10 * 1_800, "{after} after {before}");
}

#[test]
fn what_a_run_cost_is_beside_what_was_expected_and_below_the_most() {
    let database = Database::new();
    let mut client = database.connect();
    models(&mut client);
    let session = start(&mut client, "essay", &["plain", "wordy", "thinker"], SHORT, &[]);
    let expected =
        one::<f64>(&mut client, "select cost::double precision from dialectic.explain_total($1)", &[&session]);
    run(&mut client, session);
    let row = client
        .query_one("select actual_cost::double precision, worst_cost::double precision, calls = actual_calls from dialectic.explain_total($1)", &[&session])
        .expect("explain_total");
    let (actual, worst): (f64, f64) = (row.get(0), row.get(1));
    assert!((expected / actual - 1.0).abs() < 0.1 && worst > actual, "{expected}, {actual}, {worst}");
    assert!(row.get::<_, bool>(2));
}

#[test]
fn a_budget_of_the_worst_cost_is_enough() {
    let database = Database::new();
    let mut client = database.connect();
    models(&mut client);
    define(&mut client);
    for (process, asked, request, texts) in [
        ("essay", &["plain", "wordy"][..], SHORT, &[][..]),
        ("decision", &["thinker", "marked"], "Buy?", &["A lathe costs 3000.", "It is loud."]),
        ("dialectic", &["plain"], SHORT, &[]),
    ] {
        let session = start(&mut client, process, asked, request, texts);
        let worst: i64 =
            one(&mut client, "select (worst_cost * 1000000)::bigint from dialectic.explain_total($1)", &[&session]);
        client.query_one("select dialectic.set_budget($1, $2)", &[&session, &worst]).expect("set_budget");
        run(&mut client, session);
        let held: i64 =
            one(&mut client, "select sum(held)::bigint from dialectic.model_calls where session_id = $1", &[&session]);
        assert!(held <= worst, "{process}: {held} were held, {worst} foretold");
    }
}

#[test]
fn at_the_most_whoever_stands_in_for_a_model_answers() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let prices = "input_price => 3, output_price => 10";
    let session = alone(&mut client, prices, json!({}));
    let [read, _, cost, _] = first(&mut client, session);
    client
        .batch_execute("select dialectic.add_model('dearer', 'simulator', input_price => 7, output_price => 30)")
        .expect("a dearer model");
    let session = alone(&mut client, &format!("{prices}, fallback => 'dearer'"), json!({}));
    let [_, _, still, worst] = first(&mut client, session);
    assert_eq!(still, cost);
    assert_worst(worst, 7, read, 30 * 3_000);
}

#[test]
fn a_call_that_costs_next_to_nothing_costs_a_micro_dollar() {
    let database = Database::new();
    let mut client = database.connect();
    let session = alone(&mut client, "input_price => 0.0000001, output_price => 0.0000001", json!({}));
    let row = "select (cost * 1000000)::bigint, (worst_cost * 1000000)::bigint, (actual_cost * 1000000)::bigint from dialectic.explain_total($1)";
    let told = client.query_one(row, &[&session]).expect("explain_total");
    assert_eq!(told.get::<_, i64>(0), 5);
    assert!(told.get::<_, i64>(1) >= 5);
    run(&mut client, session);
    assert_eq!(client.query_one(row, &[&session]).expect("explain_total").get::<_, i64>(2), 5);
}
