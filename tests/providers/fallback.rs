//! A model that another answers for: when its provider cannot be called, and at the last attempt; never to the job's cost, and the answer
//! stays the model's own.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Provider};
use dialectic_tests::*;
use postgres::Client;

/// A model `first` whose provider does this, and a model `spare` of another one that is well; `more` goes to the first.
fn pair(act: Act, more: &str) -> (Database, Provider, Provider, Client) {
    let (first, spare, database) = (Provider::start(), Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    first.script("first", vec![act]);
    spare.script("spare", vec![Act::text("In its place.")]);
    chat(&mut client, "spare", &spare, "");
    provide(&mut client, "first", "openai", &first, "");
    model(&mut client, "first", "first", more);
    (database, first, spare, client)
}

fn said(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select concat_ws(' ', model, outcome, error_class) from dialectic.model_calls where session_id = $1 order by started_at, claim_id",
        &[&session],
    )
}

#[test]
fn a_model_whose_provider_is_paused_is_answered_for_at_no_cost() {
    const JOBS: usize = 10;
    let (_database, first, spare, mut client) = pair(Act::status(401), ", fallback => 'spare'");
    let session = calls(&mut client, "first", JOBS as i32);
    work(&mut client);
    assert_eq!(jobs(&mut client, session), [format!("{JOBS} completed 1")]);
    let calls = said(&mut client, session);
    let refused = calls.iter().filter(|call| *call == "first failed configuration").count();
    assert_eq!(calls.iter().filter(|call| *call == "spare answered").count(), JOBS);
    assert_eq!((first.request_count(), spare.request_count(), calls.len()), (refused, JOBS, refused + JOBS));
    assert!(refused > 0, "the model itself was asked first");
    let providers: Vec<String> = column(
        &mut client,
        "select distinct format('%s of %s', model, provider) from dialectic.model_calls order by 1",
        &[],
    );
    assert_eq!(providers, ["first of first", "spare of spare"]);
    let answers: Vec<String> = column(
        &mut client,
        "select distinct format('%s: %s', model, content) from dialectic.contributions where session_id = $1",
        &[&session],
    );
    assert_eq!(answers, ["first: In its place."], "the answer belongs to the model of the job");

    // What comes later goes to the one that answers at once.
    let later = self::calls(&mut client, "first", 2);
    work(&mut client);
    assert_eq!(said(&mut client, later), ["spare answered"; 2]);
    assert_sound(&mut client);
}

#[test]
fn the_last_attempt_goes_to_the_one_that_answers_in_its_place() {
    let (_database, first, spare, mut client) = pair(Act::status(500), ", fallback => 'spare'");
    let session = calls(&mut client, "first", 1);
    work(&mut client);
    let failed = "first failed transient";
    assert_eq!(said(&mut client, session), [failed, failed, failed, "spare answered"]);
    assert_eq!(jobs(&mut client, session), ["1 completed 4"]);
    assert_eq!((first.request_count(), spare.request_count()), (3, 1));
    let answer: String = one(
        &mut client,
        "select format('%s: %s', model, content) from dialectic.contributions where session_id = $1",
        &[&session],
    );
    assert_eq!(answer, "first: In its place.");
    assert_sound(&mut client);
}

#[test]
fn without_anybody_to_answer_in_its_place_the_job_fails() {
    let (_database, first, spare, mut client) = pair(Act::status(500), "");
    let session = calls(&mut client, "first", 1);
    work(&mut client);
    assert_eq!(said(&mut client, session), ["first failed transient"; 4]);
    assert_eq!(jobs(&mut client, session), ["1 retry_loop_failed 4"]);
    assert_eq!((first.request_count(), spare.request_count()), (4, 0));
}

#[test]
fn without_anybody_to_answer_in_its_place_a_paused_provider_keeps_its_jobs() {
    let (_database, _first, spare, mut client) = pair(Act::status(401), "");
    let session = calls(&mut client, "first", 3);
    work(&mut client);
    assert_eq!(jobs(&mut client, session), ["3 pending 0"]);
    assert_eq!(spare.request_count(), 0);
}
