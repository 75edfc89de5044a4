//! What was used, told in sums: the view agrees with the calls, shows nobody what is another's, and `wait` ends with a line of it.

use dialectic_tests::*;
use std::sync::{Arc, Mutex};

#[test]
fn usage_is_the_sum_of_the_calls_and_everyone_sees_their_own() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    let mut owner = database.connect_as("law_usage_owner");
    let mut other = database.connect_as("law_usage_other");
    admin
        .execute("select dialectic.grant_user('law_usage_owner'), dialectic.grant_user('law_usage_other')", &[])
        .expect("grants");
    admin
        .batch_execute(
            r#"select dialectic.add_model('weak', 'simulator', input_price => 1.5, output_price => 4, settings => '{"fail_first": 1}');
               select dialectic.set_config('retry_base_seconds', '0')"#,
        )
        .expect("a model that fails once");
    one::<Uuid>(&mut owner, "select dialectic.run('What is used?', models => '{sim-a,weak}', process => 'essay')", &[]);
    work(&mut admin);
    let sums = |table: &str, cost: &str| {
        format!(
            "select concat_ws(' ', {}, sum(input_tokens), sum(output_tokens), {cost}) from dialectic.{table}",
            if table == "usage" {
                "sum(calls), sum(failed_calls)"
            } else {
                "count(*), count(*) filter (where outcome = 'failed')"
            }
        )
    };
    let used: String = one(&mut owner, &sums("usage", "round(sum(cost) * 1000000)"), &[]);
    assert_eq!(used, one::<String>(&mut admin, &sums("model_calls", "sum(cost)"), &[]));
    let groups: Vec<String> = column(
        &mut owner,
        "select concat_ws(' ', owner, stage, model, calls > 0, cost > 0, median_time is not null) from dialectic.usage \
         where stage = 'thesis' order by model",
        &[],
    );
    assert_eq!(groups, ["role:law_usage_owner thesis sim-a t f t", "role:law_usage_owner thesis weak t t t"]);
    assert_eq!(one::<i64>(&mut other, "select count(*) from dialectic.usage", &[]), 0);
}

/// What `wait` says of a session, and its error if it ends in one.
pub(crate) fn waited(database: &Database, session: Uuid) -> (Vec<String>, Option<postgres::Error>) {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut listening = database.config();
    let ear = Arc::clone(&heard);
    listening.notice_callback(move |notice| ear.lock().expect("an ear").push(notice.message().to_owned()));
    let mut waiting = listening.connect(postgres::NoTls).expect("a connection that listens");
    let error = waiting.execute("call dialectic.wait($1)", &[&session]).err();
    let told = heard.lock().expect("an ear").clone();
    (told, error)
}

#[test]
fn wait_ends_with_a_line_of_what_it_took() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session: Uuid =
        one(&mut client, "select dialectic.run('What did it take?', models => '{sim-a}', process => 'essay')", &[]);
    work(&mut client);
    let (told, error) = waited(&database, session);
    assert!(error.is_none(), "{error:?}");
    let counts: String = one(
        &mut client,
        "select format('%s documents, %s calls, %s tokens read and %s written, $0', \
                (select count(*) from dialectic.documents), count(*), sum(input_tokens), sum(output_tokens)) from dialectic.model_calls",
        &[],
    );
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(&counts), "{told:?} does not begin with {counts}");
}

#[test]
fn what_failed_is_in_that_line_and_it_is_there_when_all_failed() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            r#"select dialectic.add_model('broken', 'simulator', settings => '{"fail_first": 100}');
               select dialectic.set_config('retry_base_seconds', '0')"#,
        )
        .expect("a model that fails");
    let run = "select dialectic.run('What did it take?', models => $1, process => 'essay', through => 'thesis')";
    let some: Uuid = one(&mut client, run, &[&vec!["sim-a", "broken"]]);
    let none: Uuid = one(&mut client, run, &[&vec!["broken"]]);
    work(&mut client);
    let (told, error) = waited(&database, some);
    assert!(error.is_none(), "{error:?}");
    assert!(told[0].starts_with("1 document, 5 calls (4 not answered), "), "{told:?}");
    assert!(told[0].ends_with("; did not deliver: broken (thesis)"), "{told:?}");
    let (told, error) = waited(&database, none);
    assert!(told[0].starts_with("0 documents, 4 calls (4 not answered), 0 tokens read"), "{told:?}");
    assert!(error.is_some());
}

#[test]
fn the_time_of_that_line_is_that_of_stages_and_of_what_was_done_again() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(r#"select dialectic.add_model('slow', 'simulator', settings => '{"latency_ms": 400}')"#)
        .expect("a model that takes its time");
    let run = "select dialectic.run('What did it take?', models => '{slow}', process => 'essay', through => 'thesis')";
    let session: Uuid = one(&mut client, run, &[]);
    work(&mut client);
    let taken = "select extract(epoch from dialectic._time_taken($1))::float8";
    let before: f64 = one(&mut client, taken, &[&session]);
    // What people do in between takes no time of it.
    client.batch_execute("set dialectic.clock_offset = 3600").expect("an hour later");
    assert_eq!(one::<f64>(&mut client, taken, &[&session]), before);
    client.batch_execute("reset dialectic.clock_offset").expect("now");
    client.query("select dialectic.regenerate($1, 'thesis', 'slow')", &[&session]).expect("regenerate");
    work(&mut client);
    assert!(one::<f64>(&mut client, taken, &[&session]) >= before + 0.4);
}
