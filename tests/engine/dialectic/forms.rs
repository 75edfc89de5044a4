//! The forms that models give their JSON: fenced, wrapped in a key, between sentences, broken at first. The documents are the
//! same.

use super::*;
use crate::by_hand::session_status;
use serde_json::json;

/// All that was made of the answers of a session, in order; what tells sessions apart left out.
fn made(client: &mut Client, session: Uuid) -> Vec<(String, String)> {
    let rows = client
        .query(
            "select concat_ws(' ', stage, step_key, resource_type), content from dialectic.resources \
             where session_id = $1 and resource_type in ('header_context', 'assembled_json', 'rendered_document') \
             order by stage, step_key, resource_type",
            &[&session],
        )
        .expect("what was made");
    rows.iter().map(|row| (row.get(0), body(row.get(1)).to_owned())).collect()
}

fn with(client: &mut Client, settings: Value) -> Uuid {
    model(client, "moody", &settings);
    let session = run(client, &["moody"]);
    work(client);
    assert_eq!(session_status(client, session), "completed", "{settings}");
    session
}

#[test]
fn whatever_a_model_puts_around_its_json_the_documents_are_the_same() {
    let database = Database::new();
    let mut client = database.connect();
    let plain = with(&mut client, json!({"marker": "auto"}));
    let expected = made(&mut client, plain);
    assert_eq!(expected.len(), 33 + 18);
    for wrap in ["fence", "content", "document_key", "prose"] {
        let session = with(&mut client, json!({"marker": "auto", "wrap": wrap}));
        let answers = "select count(*) from dialectic.contributions c join dialectic.contributions plain \
                       using (stage, step_key, content) where c.session_id = $1 and plain.session_id = $2";
        assert_eq!(one::<i64>(&mut client, answers, &[&session, &plain]), 0, "{wrap}: every answer looks different");
        let made = made(&mut client, session);
        for (made, expected) in made.iter().zip(&expected) {
            assert_eq!(made, expected, "{wrap}");
        }
        assert_eq!(made.len(), expected.len(), "{wrap}");
        let calls = "select count(*) from dialectic.model_calls where session_id = $1";
        assert_eq!(one::<i64>(&mut client, calls, &[&session]), 33, "{wrap}: nothing was asked twice");
    }
    assert_sound(&mut client);
}

/// Broken JSON of a model that says it is done is refused, not kept as far as it goes (`verdict` in the core).
#[test]
fn a_first_answer_of_broken_json_is_asked_for_again_and_the_documents_are_the_same() {
    let database = Database::new();
    let mut client = database.connect();
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    let plain = with(&mut client, json!({}));
    let session = with(&mut client, json!({"malformed_json": 1}));
    let calls: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', attempt, outcome, error_class, count(*)) from dialectic.model_calls where session_id = $1 \
         group by attempt, outcome, error_class order by 1",
        &[&session],
    );
    assert_eq!(calls, ["1 failed content 33", "2 answered 33"]);
    assert_eq!(made(&mut client, session), made(&mut client, plain));
    let incomplete = "select count(*) from dialectic.documents where not complete";
    assert_eq!(one::<i64>(&mut client, incomplete, &[]), 0);
    assert_sound(&mut client);
}
