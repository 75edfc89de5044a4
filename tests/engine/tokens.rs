//! Counting tokens from SQL: exact where a model is known to the letter, by its ratio where it is not, at once on a new connection.

use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

const COUNT: &str = "select dialectic.count_tokens($1, $2)";

fn count(client: &mut Client, text: &str, model: &str) -> i64 {
    one(client, COUNT, &[&text, &model])
}

#[test]
fn texts_are_counted_as_they_were_recorded() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .execute("select dialectic.add_model('old', 'openai', 'gpt-4', tokenizer => 'cl100k_base')", &[])
        .expect("add_model");
    let recorded: Vec<Value> =
        serde_json::from_str(include_str!("../fixtures/tokens/counts.json")).expect("recorded counts");
    let mut counted = 0;
    for case in recorded.iter().filter(|case| case["text"].as_str().is_some_and(|text| !text.contains('\0'))) {
        let times = case["times"].as_u64().map_or(1, |times| times as usize);
        let text = case["text"].as_str().expect("a text").repeat(times);
        assert_eq!(json!(count(&mut client, &text, "gpt-5-nano")), case["o200k_base"], "{text:.60}");
        assert_eq!(json!(count(&mut client, &text, "old")), case["cl100k_base"], "{text:.60}");
        counted += 1;
    }
    assert!(counted > 50, "{counted} texts");
    // What looks like a special token is text as any other.
    assert!(count(&mut client, "<|endoftext|>", "gpt-5-nano") > 1);
}

#[test]
fn messages_have_their_overhead_and_what_is_none_is_refused() {
    let database = Database::new();
    let mut client = database.connect();
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello, world!"}]);
    let counts = "select dialectic.count_message_tokens($1, $2)";
    // 3 + 4 tokens, 4 around each, 3 that begin the answer.
    assert_eq!(one::<i64>(&mut client, counts, &[&messages, &"gpt-5-nano"]), 3 + 4 + 2 * 4 + 3);
    for odd in [json!({}), json!([{"role": "robot", "content": ""}]), json!([1]), json!("text")] {
        refused_with(&mut client, counts, &[&odd, &"gpt-5-nano"], "22023", "messages");
    }
    for odd in [
        "(('[{\"role\": \"user\", \"content\": \"x\", \"z\": ' || repeat('[', 200) || repeat(']', 200) || '}]')::jsonb)",
        "'[{\"role\": \"user\", \"content\": \"x\", \"n\": 1e400}]'",
    ] {
        // What stands beside role and content is nobody's business, however odd it is.
        let count = format!("select dialectic.count_message_tokens({odd}, 'gpt-5-nano')");
        assert_eq!(one::<i64>(&mut client, &count, &[]), 8);
    }
    refused_with(&mut client, counts, &[&messages, &"nobody"], "42704", "nobody");
    refused_with(&mut client, COUNT, &[&"text", &"nobody"], "42704", "nobody");
    refused_with(&mut client, COUNT, &[&None::<&str>, &"gpt-5-nano"], "22004", "text");
}

#[test]
fn a_model_that_counts_otherwise_is_estimated_by_what_was_learned_of_it() {
    let database = Database::new();
    let mut client = database.connect();
    let text = "A well is dug where the water is near, and lined with stone. ".repeat(20);
    let exact = count(&mut client, &text, "gpt-5-nano");
    let model: String =
        one(&mut client, "select name from dialectic.models where api_model like 'claude%' limit 1", &[]);
    let first = count(&mut client, &text, &model);
    assert!(first > exact && first < exact * 3 / 2, "{first} of {exact}");
    client
        .execute("select dialectic._learn_ratios(array[$1], array[2.0], array[30])", &[&model])
        .expect("what was learned");
    assert_eq!(count(&mut client, &text, &model), 2 * exact);
    client
        .execute("select dialectic._learn_ratios(array[$1], array[3.0], array[7])", &[&model])
        .expect("later, of less");
    assert_eq!(count(&mut client, &text, &model), 2 * exact, "what was learned from more calls stays");
    client
        .execute("select dialectic.add_model($1, 'anthropic', 'claude-of-tomorrow')", &[&model])
        .expect("another model of that name");
    assert_ne!(count(&mut client, &text, &model), 2 * exact, "of another model nothing is known");
}

#[test]
fn no_text_is_too_odd_to_be_counted() {
    let database = Database::new();
    let mut client = database.connect();
    // Time that grew with the square of the length would be hours.
    client.batch_execute("set statement_timeout = '60s'").expect("set");
    for text in [
        " ".repeat(1 << 20),
        "a".repeat(1 << 20),
        "🧵".repeat(1 << 18),
        r"\ud800".repeat(1 << 17),
        "\u{1}\u{7f}".repeat(1 << 19),
    ] {
        for model in ["gpt-5-nano", "sim-a"] {
            assert!(count(&mut client, &text, model) > 0);
        }
    }
}

#[test]
fn a_new_connection_counts_without_a_vocabulary_of_its_own() {
    let database = Database::new();
    let text = "A well is dug where the water is near, and lined with stone. ".repeat(100);
    for _ in 0..7 {
        let mut client = database.connect();
        // What any first function costs is not what counting costs.
        one::<i64>(&mut client, COUNT, &[&"", &"sim-a"]);
        let pid = pid(&mut client);
        let before = private_memory(pid);
        assert!(count(&mut client, &text, "gpt-5-nano") > 1000);
        let grown = private_memory(pid).saturating_sub(before);
        assert!(grown < 2048, "{grown} kB");
    }
}
