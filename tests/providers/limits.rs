//! No more calls at once than a provider and a model take, and none before the time that a provider asked for.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Latch, Provider};
use dialectic_tests::server::soon;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn a_provider_and_a_model_never_see_more_calls_at_once_than_they_take() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    provide(&mut client, "narrow", "openai", &provider, ", max_concurrency => 5");
    model(&mut client, "narrower", "narrow", ", max_concurrency => 2");
    model(&mut client, "wide", "narrow", "");
    for name in ["narrower", "wide"] {
        provider.script(name, vec![Act::text("One at a time.").late(Duration::from_millis(15))]);
    }
    client.batch_execute("begin").expect("begin");
    let sessions = ["narrower", "wide"].map(|name| calls(&mut client, name, 40));
    client.batch_execute("commit").expect("commit");
    work(&mut client);
    for session in sessions {
        assert_eq!(jobs(&mut client, session), ["40 completed 1"]);
    }
    assert_eq!(provider.most_at_once("narrower"), 2, "the limit of the model is kept, and used");
    assert_eq!(provider.most_at_once(""), 5, "the limit of the provider is kept, and used");
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["80 answered"]);
    assert_sound(&mut client);
}

#[test]
fn no_more_jobs_are_claimed_than_their_provider_takes() {
    let (_server, mut client) = own(LOOPBACK, &[]);
    let (provider, latch) = (Provider::start(), Latch::default());
    provider.script("narrow", vec![Act::text("In time.").held(0, &latch)]);
    chat(&mut client, "narrow", &provider, ", max_concurrency => 2");
    // Other calls keep the worker claiming while those of the provider are not read yet.
    let other = calls(&mut client, "sim-a", 2000);
    soon("the worker is busy", || one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]) > 100);
    let session = calls(&mut client, "narrow", 20);
    soon("the provider is busy", || provider.under_way("narrow") == 2);
    soon("the other calls are over", || jobs(&mut client, other) == ["2000 completed 1"]);
    assert_eq!(jobs(&mut client, session), ["18 pending 0", "2 processing 0"]);
    latch.lift();
    worked(&mut client);
    assert_eq!(jobs(&mut client, session), ["20 completed 1"]);
}

#[test]
fn a_provider_that_asks_for_patience_with_an_answer_is_not_called_before() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    let patient = Act::text("Come back later.")
        .header("x-ratelimit-limit-requests", "60")
        .header("x-ratelimit-remaining-requests", "0")
        .header("x-ratelimit-reset-requests", "2s");
    provider.script("patient", vec![patient, Act::text("Welcome back.")]);
    chat(&mut client, "patient", &provider, ", max_concurrency => 1");
    let session = calls(&mut client, "patient", 3);
    work(&mut client);
    assert_eq!(jobs(&mut client, session), ["3 completed 1"]);
    let requests = provider.requests();
    let waited = requests[1].at - requests[0].at;
    println!("the second call came after {waited:?}");
    assert!(waited >= Duration::from_secs(2), "{waited:?}");
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["3 answered"]);
}
