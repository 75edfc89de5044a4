//! Calls that are ended from outside: their sockets are closed at once, and what was said until then is counted.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Answer, Latch, Provider};
use dialectic_tests::*;
use std::thread::spawn;
use std::time::Duration;

/// How many words are said before the provider falls silent; the first message of the stream has none.
const SAID: usize = 20;

/// An answer that stops after some words.
fn stopping(latch: &Latch) -> Act {
    Act::answer(Answer::of_tokens(50)).held(1 + SAID, latch)
}

#[test]
fn a_cancel_closes_a_hundred_streams_and_counts_what_was_said() {
    const STREAMS: usize = 100;
    let (provider, latch) = (Provider::start(), Latch::default());
    let (_server, mut client) = own(&format!("{LOOPBACK}\ndialectic.max_concurrent_calls = 120"), &[]);
    configure(&mut client, "partial_flush_seconds", "0.05");
    provider.script("endless", vec![stopping(&latch)]);
    provide(&mut client, "endless", "openai", &provider, "");
    model(&mut client, "endless", "endless", ", input_price => 1.25, output_price => 10");
    for _ in 0..3 {
        let session = calls(&mut client, "endless", STREAMS as i32);
        let heard = "select count(*) from (select p.job_id from dialectic.partials p join dialectic.jobs j on j.id = p.job_id \
                     where j.session_id = $1 group by p.job_id having length(string_agg(p.content, '')) >= $2) as heard";
        let length = (SAID * "word ".len()) as i32;
        eventually("all streams have said their words", || {
            one::<i64>(&mut client, heard, &[&session, &length]) == STREAMS as i64
        });
        assert_eq!((provider.under_way("endless"), provider.open_sockets()), (STREAMS, STREAMS));
        client.query_one("select dialectic.cancel($1)", &[&session]).expect("cancel");
        // The latch holds every stream: only the cancel can close them.
        provider.closed_within(Duration::from_secs(20)).expect("all sockets are closed");
        let open = "select count(*) from dialectic.model_calls where session_id = $1 and outcome = 'open'";
        eventually("the calls are recorded", || one::<i64>(&mut client, open, &[&session]) == 0);
        let late: i64 = one(
            &mut client,
            "select count(*) from dialectic.model_calls where session_id = $1 and outcome = 'late' and is_estimated \
             and output_tokens between $2 and 2 * $2 and input_tokens > 0 and cost > 0 and first_byte_at is not null",
            &[&session, &(SAID as i64)],
        );
        assert_eq!(late, STREAMS as i64);
        assert_eq!(jobs(&mut client, session), [format!("{STREAMS} cancelled 0")]);
        assert_eq!(one::<i64>(&mut client, heard, &[&session, &length]), STREAMS as i64, "what was said is there");
    }
    assert_sound(&mut client);
}

/// Ends a `run_pending` that has streams under way; their sockets are closed, and the next one makes the calls again.
fn closes_its_sockets(end: &str) {
    const STREAMS: usize = 10;
    let (provider, latch, database) = (Provider::start(), Latch::default(), Database::by_hand());
    let mut client = database.connect();
    process(&mut client);
    provider.script("endless", vec![stopping(&latch)]);
    chat(&mut client, "endless", &provider, "");
    let session = calls(&mut client, "endless", STREAMS as i32);
    let mut worker = database.connect();
    let process = pid(&mut worker);
    let running = spawn(move || {
        let result = worker.batch_execute("call dialectic.run_pending()");
        (worker, result)
    });
    eventually("the streams are under way", || provider.under_way("endless") == STREAMS);
    assert!(one::<bool>(&mut client, &format!("select {end}($1)"), &[&process]));
    let took = provider.closed_within(Duration::from_secs(20)).expect("all sockets are closed");
    println!("{end} closed {STREAMS} streams after {took:?}");
    // The connection lives for as long as this does, and holds no socket.
    let (_worker, result) = running.join().expect("the thread ends");
    result.expect_err("it was ended");

    latch.lift();
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    assert_eq!(jobs(&mut client, session), [format!("{STREAMS} completed 1")]);
    assert_sound(&mut client);
}

#[test]
fn a_run_pending_that_is_terminated_closes_its_sockets() {
    closes_its_sockets("pg_terminate_backend");
}

#[test]
fn a_run_pending_that_is_cancelled_closes_its_sockets() {
    closes_its_sockets("pg_cancel_backend");
}

#[test]
fn a_call_that_is_ended_before_its_first_word_has_read_what_it_was_sent() {
    let (provider, latch) = (Provider::start(), Latch::default());
    let (_server, mut client) = own(LOOPBACK, &[]);
    // One has been told that its request was taken, the other nothing at all.
    provider.script("taken", vec![Act::answer(Answer::of_tokens(50)).held(1, &latch)]);
    provider.script("unheard", vec![Act::answer(Answer::of_tokens(50)).late(Duration::from_secs(60))]);
    for name in ["taken", "unheard"] {
        provide(&mut client, name, "openai", &provider, "");
        model(&mut client, name, name, ", input_price => 1.25, output_price => 10");
        for verb in ["pause", "cancel"] {
            let session = calls(&mut client, name, 1);
            eventually("it is asked", || provider.under_way(name) == 1);
            client.query_one(&format!("select dialectic.{verb}($1)"), &[&session]).expect(verb);
            let closed = "select count(*) from dialectic.model_calls where session_id = $1 and outcome = 'late' and is_estimated \
                          and output_tokens = 0 and cost = ceil(input_tokens * 1.25) \
                          and input_tokens = (select dialectic.count_message_tokens(dialectic.prompt(job_id), $2))";
            eventually("the prompt is charged", || one::<i64>(&mut client, closed, &[&session, &name]) == 1);
            eventually("nobody listens", || provider.under_way(name) == 0);
        }
    }
    latch.lift();
    assert_sound(&mut client);
}
