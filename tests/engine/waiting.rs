//! What `wait` says at the end: the time that was worked, and a regeneration that failed.

use crate::by_hand::status;
use dialectic_tests::*;
use postgres::Client;

/// Has every call of the model `ill` fail from now on, or succeed.
fn ill(client: &mut Client, fails: bool) {
    let settings = if fails { r#"{"fail_always": true, "fail_class": "permanent"}"# } else { "{}" };
    client
        .execute("select dialectic.add_model('ill', 'simulator', settings => $1::text::jsonb)", &[&settings])
        .expect("add_model");
}

fn run_thesis(client: &mut Client) -> Uuid {
    let run = "select dialectic.run('Why?', models => '{ill}', process => 'essay', through => 'thesis')";
    let session: Uuid = one(client, run, &[]);
    work(client);
    session
}

#[test]
fn time_in_the_receipt_does_not_count_the_pause_before_a_retry() {
    for (what, again) in
        [("retry", "select dialectic.retry($1)"), ("generate", "select count(*)::int from dialectic.generate($1)")]
    {
        let database = Database::by_hand();
        let mut client = database.connect();
        ill(&mut client, true);
        let session = run_thesis(&mut client);
        ill(&mut client, false);
        client.batch_execute("set dialectic.clock_offset = 3600").expect("an hour later");
        one::<i32>(&mut client, again, &[&session]);
        work(&mut client);
        let taken: f64 = one(&mut client, "select extract(epoch from dialectic._time_taken($1))::float8", &[&session]);
        assert!(taken < 3000.0, "{what}: {taken} s");
        assert_sound(&mut client);
    }
}

#[test]
fn failed_regeneration_makes_wait_fail_until_it_is_retried() {
    let database = Database::by_hand();
    let mut client = database.connect();
    ill(&mut client, false);
    let session = run_thesis(&mut client);
    ill(&mut client, true);
    let job: Uuid = one(&mut client, "select dialectic.regenerate($1, 'thesis', 'ill')", &[&session]);
    work(&mut client);
    assert_eq!(status(&mut client, job), "failed");
    let error = refused_with(&mut client, "call dialectic.wait($1)", &[&session], "55000", "\"thesis\"");
    assert_eq!(error.message(), "document \"thesis\" of model \"ill\" could not be regenerated");
    assert!(error.detail().is_some_and(|detail| detail.contains("simulated permanent failure")), "{error:?}");
    ill(&mut client, false);
    client.batch_execute(error.hint().expect("a hint")).expect("the hint is a statement");
    work(&mut client);
    client.execute("call dialectic.wait($1)", &[&session]).expect("wait");
    assert_sound(&mut client);
}

#[test]
fn failed_regeneration_is_over_when_a_later_one_delivered() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for again in
        ["select dialectic.regenerate($1, 'thesis', 'ill')", "select dialectic.generate($1, stage => 'thesis')"]
    {
        ill(&mut client, false);
        let session = run_thesis(&mut client);
        ill(&mut client, true);
        one::<Uuid>(&mut client, "select dialectic.regenerate($1, 'thesis', 'ill')", &[&session]);
        work(&mut client);
        ill(&mut client, false);
        client.query(again, &[&session]).expect("again");
        work(&mut client);
        client.execute("call dialectic.wait($1)", &[&session]).unwrap_or_else(|error| panic!("{again}: {error:?}"));
    }
}
