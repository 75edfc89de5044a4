//! What a model is told when it goes on: exactly what is missing. And that the messages of a job can be looked up as they were sent.

use super::*;

/// A process of one step that asks for a title, a list of nodes, and a word at the end; its job is claimed.
fn listing(client: &mut Client) -> Claim {
    let mut list = step("list", "all_to_one", seed());
    list["content_to_include"] =
        json!({"title": "A title", "nodes": [{"id": "A name", "text": "What it is"}], "remarks": "A last word"});
    define(client, "listing", &[("only", vec![list])]);
    begin(client, "listing", &["sim-a"], 0);
    first_claim(client)
}

/// What the model is told after this answer.
fn told(client: &mut Client, job: &Claim, text: &str, finish_reason: &str) -> String {
    assert_eq!(say(client, job, text, finish_reason), "completed");
    let further = next(client);
    let sent = messages(client, &further);
    said(sent.last().expect("a message")).to_owned()
}

#[test]
fn a_list_that_was_cut_off_is_asked_for_from_its_last_complete_item_on() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let job = listing(&mut client);
    let text = r#"{"title": "T", "nodes": [{"id": "alder", "text": "A tree"}, {"id": "birch", "text": "Another tree"}, {"id": "cedar", "text": "One mo"#;
    let told = told(&mut client, &job, text, "length");
    for named in ["nodes", "birch", "cedar", "remarks"] {
        assert!(told.contains(named), "{named} is not named: {told}");
    }
    assert!(!told.lines().any(|line| line.trim_start().starts_with("Missing keys:")), "{told}");
}

#[test]
fn keys_that_are_missing_are_asked_for_by_name_and_nothing_else_is() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let job = listing(&mut client);
    let told = told(&mut client, &job, r#"{"nodes": [{"id": "alder", "text": "A tree"}]}"#, "stop");
    assert!(told.lines().any(|line| line == "Missing keys: title, remarks"), "{told}");
}

#[test]
fn why_an_answer_goes_on_changes_what_is_said() {
    let whole = r#"{"title": "T", "nodes": [{"id": "alder", "text": "A tree"}], "remarks": "R""#;
    let mut heard = std::collections::BTreeSet::new();
    for (text, finish_reason) in [
        (whole.to_owned(), "length"),
        (format!("{whole}, \"continuation_needed\": true}}"), "stop"),
        (r#"{"title": "T", "remarks": "R"}"#.to_owned(), "stop"),
    ] {
        let database = Database::by_hand();
        let mut client = database.connect();
        let job = listing(&mut client);
        assert!(heard.insert(told(&mut client, &job, &text, finish_reason)), "{text}");
    }
}

#[test]
fn a_session_that_began_before_the_directive_was_shipped_goes_on_all_the_same() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    let without =
        "update dialectic.definitions set prompts = prompts - 'continue_answer' where prompts ? 'continue_answer'";
    assert_eq!(client.execute(without, &[]).expect("superuser"), 1, "it is shipped with the process");
    // A process keeps the definitions it has read.
    let mut client = database.connect();
    assert_eq!(say(&mut client, &first, TEXT[0], "length"), "completed");
    let second = next(&mut client);
    let sent = messages(&mut client, &second);
    assert!(!said(sent.last().expect("a message")).trim().is_empty());
    assert_eq!(finish(&mut client, &second, TEXT[1], "stop"), "completed");
    assert_eq!(document(&mut client, session), (TEXT.concat(), true));
}

#[test]
fn a_directive_of_the_users_own_is_said_in_sessions_that_begin_after_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .execute("select dialectic.set_prompt('continue_answer', 'On with it: {{ why }}.')", &[])
        .expect("set_prompt");
    let (_, first) = text_by_hand(&mut client);
    assert_eq!(told(&mut client, &first, TEXT[0], "length"), "On with it: cut.");
}

#[test]
fn the_messages_of_a_job_can_be_looked_up_as_they_were_sent() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, first) = note_by_hand(&mut client);
    let mut sent = vec![(first.job, messages(&mut client, &first))];
    assert_eq!(finish(&mut client, &first, NOTE[0], "length"), "completed");
    let second = next(&mut client);
    sent.push((second.job, messages(&mut client, &second)));
    assert_eq!(finish(&mut client, &second, r#"ll with stone"#, "length"), "completed");
    let third = next(&mut client);
    sent.push((third.job, messages(&mut client, &third)));
    assert_eq!(finish(&mut client, &third, r#"", "Cover it"]}"#, "stop"), "completed");
    finish_up(&mut client);
    for (job, sent) in sent {
        assert_eq!(prompt(&mut client, job), sent);
    }
    assert_sound(&mut client);
}

#[test]
fn the_messages_of_a_job_that_does_not_exist_are_refused() {
    let database = Database::by_hand();
    let mut client = database.connect();
    refused_with(&mut client, "select dialectic.prompt($1)", &[&Uuid::nil()], "P0002", &Uuid::nil().to_string());
}
