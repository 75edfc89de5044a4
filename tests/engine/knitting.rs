//! Joining and repairing answers from SQL; what they come to is proved in the core.

use dialectic_tests::*;
use serde_json::{Value, json};

#[test]
fn chunks_are_knit_whichever_way_they_go_on() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let mut knit = |chunks: &[&str]| one::<String>(&mut client, "select dialectic.knit($1)", &[&chunks]);
    assert_eq!(knit(&[r#"{"a": "one tw"#, r#"o", "b": [1, 2"#, r#", 3]}"#]), r#"{"a": "one two", "b": [1, 2, 3]}"#);
    let afresh = knit(&[
        r#"{"items": [{"id": 1, "title": "First"}, {"id": 2, "ti"#,
        r#"{"items": [{"id": 2, "title": "Second"}, {"id": 3, "title": "Third"}]}"#,
    ]);
    let titles: Vec<Value> = serde_json::from_str::<Value>(&afresh).expect("JSON")["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| item["title"].clone())
        .collect();
    assert_eq!(titles, ["First", "Second", "Third"]);
    assert_eq!(knit(&["# Notes\n\nThe first ha", "lf and the second."]), "# Notes\n\nThe first half and the second.");
}

#[test]
fn json_is_repaired_and_what_has_none_is_refused() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let repaired: Value =
        one(&mut client, "select dialectic.repair_json($1)", &[&r#"Here: {"a": [1, 2], "b": "cut o"#]);
    assert_eq!(repaired, json!({"a": [1, 2], "b": "cut o"}));
    let nul: Value = one(&mut client, "select dialectic.repair_json($1)", &[&r#"{"a": "x\u0000y"}"#]);
    assert_eq!(nul, json!({"a": "x\u{fffd}y"}));
    refused_with(&mut client, "select dialectic.repair_json('none')", &[], "22023", "no JSON");
    refused_with(&mut client, "select dialectic.repair_json(null)", &[], "22004", "text");
    refused_with(&mut client, "select dialectic.knit('{}')", &[], "22004", "chunks");
}

#[test]
fn every_role_that_was_granted_anything_may_knit_and_repair() {
    let database = Database::new();
    let mut client = database.connect();
    for (role, grant) in [("knit_user", "grant_user"), ("knit_admin", "grant_admin")] {
        let mut granted = database.connect_as(role);
        client.execute(&format!("select dialectic.{grant}('{role}')"), &[]).expect("a grant");
        assert_eq!(one::<String>(&mut granted, "select dialectic.knit('{One,\" two\"}')", &[]), "One two");
        assert_eq!(one::<Value>(&mut granted, "select dialectic.repair_json('{\"a\": [1')", &[]), json!({"a": []}));
        assert_eq!(one::<i64>(&mut granted, "select dialectic.count_tokens('hello world', 'gpt-5-nano')", &[]), 2);
    }
}
