//! Before a call leaves: its worst case is held, or it does not leave.

use super::*;

#[test]
fn the_worst_case_of_a_call_is_held() {
    let (_database, mut client) = funded(OPENING);
    let (_, leaves) = leaves(&mut client, 1);
    let request = ask(&mut client, &leaves[0]).expect("a request");
    let worst: i64 = one(
        &mut client,
        "select dialectic.count_message_tokens($1, 'dear') * $2 + $3::bigint * $4::bigint",
        &[&request["messages"], &READ, &request["max_output_tokens"].as_i64().expect("a limit"), &WRITTEN],
    );
    let held = held(&mut client, &leaves[0]);
    // What a model reads may be more than is counted here; it is never less that is held.
    assert!(held >= worst && held <= worst * 2, "{held} held, the worst case is {worst}");
    assert_eq!(purse(&mut client), (OPENING - held, held));
    assert_eq!(entries(&mut client), [entry("hold", -held)]);
    assert_balanced(&mut client);
}

#[test]
fn a_call_that_is_asked_for_twice_is_held_once() {
    let (_database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    let before = purse(&mut client);
    ask(&mut client, &claim);
    assert_eq!(purse(&mut client), before);
    assert_eq!(entries(&mut client).len(), 1);
    assert_balanced(&mut client);
}

#[test]
fn parallel_jobs_cannot_overspend_together() {
    let hold = price();
    // There is enough for one and a half, and nothing but the wallet stands between two sessions.
    let (database, mut client) = funded(hold * 3 / 2);
    let (one_leaf, other) = (leaves(&mut client, 1).1.remove(0), leaves(&mut client, 1).1.remove(0));
    let (early, late) = overlapping(&database, |a| ask(a, &one_leaf).is_some(), |b| ask(b, &other).is_some());
    assert_eq!((early, late), (true, false));
    assert_eq!(purse(&mut client), (hold * 3 / 2 - hold, hold));
    let calls = "select count(*) from dialectic.model_calls where outcome = 'open'";
    assert_eq!(one::<i64>(&mut client, calls, &[]), 1, "what is not paid for does not leave");
    assert_eq!(status(&mut client, other.job), "pending", "the first may give back enough");
    assert_balanced(&mut client);

    // It does not: it has used nearly all of it.
    let written = hold / WRITTEN - 1;
    assert_eq!(answer_with(&mut client, &one_leaf, 0, written), "completed");
    client.batch_execute("set dialectic.clock_offset = 2").expect("a moment later");
    let other = leaf(&mut client, other.job);
    assert!(ask(&mut client, &other).is_none());
    assert_eq!(status(&mut client, other.job), "paused_nsf");
    let row = client.query_one("select short_of, needed from dialectic.unfunded_jobs where job_id = $1", &[&other.job]);
    let row = row.expect("it is said why");
    assert_eq!((row.get(0), row.get(1)), ("wallet", hold));

    client.execute("select dialectic.top_up($1, $2, 'more')", &[&OWNER, &hold]).expect("top_up");
    assert_eq!(status(&mut client, other.job), "pending");
    let other = leaf(&mut client, other.job);
    assert!(ask(&mut client, &other).is_some());
    assert_eq!(answer_with(&mut client, &other, 10, 10), "completed");
    assert_eq!(purse(&mut client), (hold * 5 / 2 - written * WRITTEN - 10 * (READ + WRITTEN), 0));
    assert_balanced(&mut client);
    assert_sound(&mut client);
}

#[test]
fn nobody_opens_a_call_in_the_name_of_a_claimer_inside_the_server() {
    let (database, mut client) = funded(OPENING);
    let (_, leaves) = leaves(&mut client, 1);
    // The lease is over, and somebody inside has the job now.
    let (mut inside, name) = claimer(&database);
    inside.batch_execute("set dialectic.clock_offset = 7200").expect("later");
    assert!(take(&mut inside, &name) > 0);
    let error = refused(&mut client, "select dialectic.job_request($1)", &[&leaves[0].job]);
    assert_eq!(error.code().code(), "55000", "{error:?}");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 0);
    assert_eq!(purse(&mut client), (OPENING, 0));
}
