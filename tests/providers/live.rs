//! What a model says can be read while it says it, by the owner of the job and by nobody else.

use crate::ground::*;
use dialectic_tests::provider::{Act, Answer, Latch, Provider};
use dialectic_tests::*;
use std::time::{Duration, Instant};

#[test]
fn the_owner_of_a_job_and_nobody_else_reads_along() {
    const WHOLE: &str = "One two three four five six.";
    let (provider, latch, database) = (Provider::start(), Latch::default(), Database::by_hand());
    let mut admin = database.connect();
    process(&mut admin);
    configure(&mut admin, "partial_flush_seconds", "0.2");
    // A message that opens the answer, and three words.
    provider.script("slow", vec![Act::answer(Answer::of(WHOLE)).held(4, &latch)]);
    chat(&mut admin, "slow", &provider, "");
    let mut owner = database.connect_as("law_live_owner");
    let mut other = database.connect_as("law_live_other");
    admin
        .execute("select dialectic.grant_user('law_live_owner'), dialectic.grant_user('law_live_other')", &[])
        .expect("grants");
    calls(&mut owner, "slow", 1);
    let working = set_to_work(&database);
    eventually("the answer has begun", || provider.under_way("slow") == 1);
    let begun = Instant::now();
    let job: Uuid = one(&mut owner, "select id from dialectic.jobs where kind = 'execute'", &[]);
    let live = "select dialectic.live($1)";
    eventually("the words are there", || one::<String>(&mut owner, live, &[&job]) == "One two three ");
    println!("the words were there after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(refused(&mut other, live, &[&job]).code().code(), "P0002");
    assert_eq!(column::<String>(&mut other, "select content from dialectic.partials", &[]), [""; 0]);
    assert_eq!(one::<i64>(&mut admin, "select count(*) from dialectic.contributions", &[]), 0);

    latch.lift();
    working.end();
    assert_eq!(one::<String>(&mut owner, live, &[&job]), WHOLE);
    assert_eq!(refused(&mut other, live, &[&job]).code().code(), "P0002");
    assert_eq!(one::<i64>(&mut admin, "select count(*) from dialectic.partials", &[]), 0);
    assert_sound(&mut admin);
}

#[test]
fn what_a_failed_call_has_said_is_not_taken_for_the_answer_of_the_next() {
    let (provider, latch, database) = (Provider::start(), Latch::default(), Database::by_hand());
    let mut client = database.connect();
    process(&mut client);
    configure(&mut client, "partial_flush_seconds", "0.05");
    let broken = Act::answer(Answer::of("Wrong from the start.")).end(dialectic_tests::provider::End::Closed(700));
    provider.script("slow", vec![broken, Act::answer(Answer::of("Right this time.")).held(3, &latch)]);
    chat(&mut client, "slow", &provider, "");
    calls(&mut client, "slow", 1);
    let working = set_to_work(&database);
    eventually("the second answer has begun", || provider.request_count() == 2);
    let job: Uuid = one(&mut client, "select id from dialectic.jobs where kind = 'execute'", &[]);
    eventually("the words are there", || {
        one::<String>(&mut client, "select dialectic.live($1)", &[&job]) == "Right this "
    });
    latch.lift();
    working.end();
    assert_eq!(one::<String>(&mut client, "select dialectic.live($1)", &[&job]), "Right this time.");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.partials", &[]), 0);
}
