//! What a model says can be read while it says it, by the owner of the job and by nobody else.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Answer, Author, End, Latch, Provider};
use dialectic_tests::*;
use std::time::Duration;

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
    let job: Uuid = one(&mut owner, "select id from dialectic.jobs where kind = 'execute'", &[]);
    let live = "select dialectic.live($1)";
    eventually("the words are there", || one::<String>(&mut owner, live, &[&job]) == "One two three ");
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
fn what_was_said_before_an_interruption_is_read_before_what_is_being_said_now() {
    const WHOLE: &str = "One two three four five six seven eight nine ten.";
    let (provider, latch, database) = (Provider::start(), Latch::default(), Database::by_hand());
    let mut client = database.connect();
    process(&mut client);
    configure(&mut client, "partial_flush_seconds", "0.05");
    // Closed after a message that opens the answer and some words; then a message that opens it, and two words more.
    let author = || Act::author(Author::of(WHOLE));
    provider.script("slow", vec![author().end(End::Closed(900)), author().held(3, &latch)]);
    chat(&mut client, "slow", &provider, "");
    calls(&mut client, "slow", 1);
    let working = set_to_work(&database);
    eventually("the second answer has begun", || provider.request_count() == 2);
    let shown = provider.requests()[1].messages();
    let words = shown.iter().find(|(role, _)| role == "assistant").map(|(_, words)| words.as_str()).unwrap_or_default();
    let said = words.split_inclusive(' ').count();
    assert!((1..7).contains(&said) && WHOLE.starts_with(words), "{shown:?}");
    let so_far: String = WHOLE.split_inclusive(' ').take(said + 2).collect();
    let job: Uuid = one(&mut client, "select id from dialectic.jobs where kind = 'execute'", &[]);
    let live = "select dialectic.live($1)";
    eventually("the words are there", || one::<String>(&mut client, live, &[&job]) == so_far);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.contributions", &[]), 0);

    latch.lift();
    working.end();
    assert_eq!(one::<String>(&mut client, live, &[&job]), WHOLE);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.partials", &[]), 0);
    assert_sound(&mut client);
}

#[test]
fn a_thread_does_not_wake_for_every_word_of_a_long_stream() {
    const WORDS: usize = 400;
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    let whole: String = (0..WORDS).map(|number| format!("word{number} ")).collect();
    let whole = whole.trim_end();
    provider.script("slow", vec![Act::answer(Answer::of(whole)).every(Duration::from_millis(5))]);
    chat(&mut client, "slow", &provider, "");
    calls(&mut client, "slow", 1);
    work(&mut client);
    assert_eq!(one::<String>(&mut client, "select content from dialectic.contributions", &[]), whole);
    let pid = server::worker(&mut client).expect("a worker");
    let woken: usize = std::fs::read_dir(format!("/proc/{pid}/task"))
        .expect("the threads of the worker")
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok())
        .filter(|status| status.contains("Name:\tdialectic call\n"))
        .filter_map(|status| {
            status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<usize>().ok())
        })
        .sum();
    let heard = "select extract(epoch from finished_at - started_at)::float8 from dialectic.model_calls";
    // It pauses for 30 ms, and sleeps twice for each: at the pause and for the next word.
    let most = (one::<f64>(&mut client, heard, &[]) / 0.03 * 2.0) as usize + 60;
    assert!((1..most).contains(&woken), "woken {woken} times for {WORDS} words, and {most} would be many");
    assert_sound(&mut client);
}
