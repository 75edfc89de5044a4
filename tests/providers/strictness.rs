//! Requests to compatible servers that refuse what OpenAI's takes: rows that ship, that are imported and that are added
//! by hand send what these servers accept.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Provider, Strict};
use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// Entries as LiteLLM's list has them, some fields left out.
const PRICES: &str = r#"{
    "mistral/mistral-large-latest": {"input_cost_per_token": 5e-07, "litellm_provider": "mistral", "max_input_tokens": 262144,
        "max_output_tokens": 262144, "mode": "chat", "output_cost_per_token": 1.5e-06, "supports_response_schema": true},
    "deepseek/deepseek-chat": {"input_cost_per_token": 2.8e-07, "litellm_provider": "deepseek", "max_input_tokens": 131072,
        "max_output_tokens": 8192, "mode": "chat", "output_cost_per_token": 4.2e-07, "supports_response_schema": true}}"#;

/// Asks each model for a text and for JSON; the bodies of all requests, none of which was refused.
fn accepted(client: &mut Client, server: &Provider, models: &[&str]) -> Vec<Value> {
    let names: Vec<String> = models.iter().map(|name| (*name).to_owned()).collect();
    for name in models {
        server.script(name, vec![Act::text("Plain.")]);
    }
    process(client);
    let plain = project(client, 1);
    let sessions = begin_all(client, plain, &names);
    work(client);
    for session in sessions {
        assert_eq!(jobs(client, session), ["1 completed 1"]);
    }
    // One look at a request for JSON is enough.
    for name in models {
        server.script(name, vec![Act::status(413)]);
    }
    let shaped: Uuid =
        one(client, "select dialectic.create_project('Shape', 'What shape?', process => 'dialectic')", &[]);
    begin_all(client, shaped, &names);
    work(client);
    let seen = server.requests();
    let statuses: Vec<u16> = seen.iter().map(|seen| seen.status).collect();
    assert_eq!(statuses, [vec![200; models.len()], vec![413; models.len()]].concat());
    seen.into_iter().map(|seen| seen.body).collect()
}

/// The shipped provider of this name, played by a strict server, with one model added by hand and one imported.
fn played(client: &mut Client, name: &str, rules: Strict) -> Provider {
    let server = Provider::start();
    server.strict(rules);
    provide(client, name, "openai", &server, "");
    let import = format!("select action from dialectic.import_models('{PRICES}', '{name}')");
    assert_eq!(column::<String>(client, &import, &[]), ["added"]);
    model(client, "by-hand", name, "");
    server
}

#[test]
fn mistral_accepts_models_that_were_imported_or_added() {
    let database = Database::new();
    let mut client = database.connect();
    let server = played(&mut client, "mistral", Strict::Mistral);
    for body in accepted(&mut client, &server, &["mistral-large-latest", "by-hand"]) {
        assert!(body["max_tokens"].is_u64(), "{body}");
    }
}

#[test]
fn deepseek_accepts_models_that_were_imported_or_added() {
    let database = Database::new();
    let mut client = database.connect();
    let server = played(&mut client, "deepseek", Strict::DeepSeek);
    let bodies = accepted(&mut client, &server, &["deepseek-chat", "by-hand"]);
    for body in &bodies {
        assert!(body["max_tokens"].is_u64(), "{body}");
        assert_eq!(body["stream_options"], json!({"include_usage": true}));
    }
    for body in &bodies[2..] {
        assert_eq!(body["response_format"], json!({"type": "json_object"}));
    }
}

#[test]
fn model_setting_overrides_the_default_of_its_provider() {
    let (server, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    let defaults =
        r#", settings => '{"model_defaults": {"token_parameter": "max_tokens", "parameters": {"top_p": 0.5}}}'"#;
    provide(&mut client, "house", "openai", &server, defaults);
    model(&mut client, "own", "house", r#", settings => '{"token_parameter": "max_completion_tokens"}'"#);
    server.script("own", vec![Act::text("Plain.")]);
    calls(&mut client, "own", 1);
    work(&mut client);
    let body = server.requests()[0].body.clone();
    assert!(body["max_completion_tokens"].is_u64() && body.get("max_tokens").is_none(), "{body}");
    assert_eq!(body["top_p"], json!(0.5));
}

#[test]
fn model_defaults_are_checked_and_survive_a_new_secret() {
    let database = Database::new();
    let mut client = database.connect();
    let wrong =
        r#"select dialectic.add_provider('mistral', 'openai', settings => '{"model_defaults": {"json": "always"}}')"#;
    refused_with(&mut client, wrong, &[], "22023", "always");
    let simulated =
        r#"select dialectic.add_provider('sim', 'simulator', settings => '{"model_defaults": {"json": "none"}}')"#;
    refused_with(&mut client, simulated, &[], "22023", "json");

    let defaults = "select settings ->> 'model_defaults' from dialectic._current_providers where name = 'mistral'";
    let shipped: String = one(&mut client, defaults, &[]);
    client.execute("select dialectic.add_provider('mistral', 'openai', max_concurrency => 2)", &[]).expect("a limit");
    assert_eq!(one::<String>(&mut client, defaults, &[]), shipped);
    let none = r#"select dialectic.add_provider('mistral', 'openai', settings => '{"model_defaults": {}}')"#;
    client.execute(none, &[]).expect("no defaults");
    assert_eq!(one::<String>(&mut client, defaults, &[]), "{}");
}
