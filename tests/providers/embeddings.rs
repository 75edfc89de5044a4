//! Embeddings over HTTP: each API is asked in its own words by index jobs, and its vectors are stored and paid for.

use crate::ground::*;
use dialectic_core::provider::dialect::Dialect;
use dialectic_tests::fake_provider::{Act, Provider};
use dialectic_tests::*;
use postgres::Client;
use serde_json::json;

/// A process whose one step reads passages, on the simulator; texts are embedded by the model `embedder`.
fn retrieve(client: &mut Client) -> Uuid {
    process(client);
    let stages = json!([{"slug": "only", "seed_prompt_template": "cell_seed", "recipe": {"steps": [
        {"key": "find", "job_type": "execute", "prompt_template_name": "cell_text", "granularity_strategy": "per_model",
         "inputs_required": [{"type": "general_resource", "multiple": true,
                              "retrieve": {"query": "{{ original_user_request }}", "match_count": 2}}],
         "output_type": "found", "document_key": "found"}]}}]);
    client.execute("select dialectic.define_process('find', $1)", &[&stages]).expect("a process");
    client.execute("select dialectic.set_config('embedding_model', '\"embedder\"')", &[]).expect("a setting");
    let project: Uuid =
        one(client, "select dialectic.create_project('Find', 'Where is the key?', process => 'find')", &[]);
    let text =
        "# Door\n\nThe key is below the mat.\n\n# Roof\n\nThe roof is green.\n\n# Cellar\n\nThe cellar is dry.\n";
    client.execute("select dialectic.add_resource($1, 'house.md', $2)", &[&project, &text]).expect("a resource");
    let session: Uuid = one(client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    session
}

fn embedder(client: &mut Client, settings: &str) {
    let add = format!(
        "select dialectic.add_model('embedder', 'scripted', api_model => 'embedder', kind => 'embedding', \
         context_window => 8191, input_price => 2, output_price => 0, settings => '{settings}')"
    );
    client.execute(&add, &[]).expect("a model");
}

#[test]
fn each_api_embeds_texts_and_queries() {
    for dialect in [Dialect::Chat, Dialect::Google, Dialect::Ollama] {
        let provider = Provider::start();
        let database = Database::new();
        let mut client = database.connect();
        let (api, settings) = catalogued(dialect);
        provide(&mut client, "scripted", api, &provider, "");
        embedder(&mut client, settings);
        let session = retrieve(&mut client);
        client.execute("call dialectic.wait($1)", &[&session]).expect("the session ends");
        let calls: Vec<String> = column(
            &mut client,
            "select concat_ws(' ', outcome, http_status, input_tokens, cost > 0) from dialectic.model_calls \
             where model = 'embedder' order by input_tokens",
            &[],
        );
        let chunks: i64 =
            one(&mut client, "select count(*) from dialectic.memory where embedding_model = 'embedder'", &[]);
        assert_eq!(chunks, 3, "{dialect:?}");
        match dialect {
            // It does not say how many tokens it read.
            Dialect::Google => assert_eq!(calls.len(), 2, "{calls:?}"),
            _ => assert_eq!(calls, ["answered 200 1 t", "answered 200 3 t"], "{dialect:?}"),
        }
        let purposes: Vec<String> = provider
            .requests()
            .iter()
            .filter_map(|seen| Some(seen.body.pointer("/requests/0/taskType")?.as_str()?.to_owned()))
            .collect();
        if dialect == Dialect::Google {
            assert!(purposes.contains(&"RETRIEVAL_QUERY".into()) && purposes.contains(&"RETRIEVAL_DOCUMENT".into()));
        }
        assert_sound(&mut client);
    }
}

#[test]
fn embeddings_that_are_refused_leave_the_ranking_to_words() {
    for (status, class) in [(400, "permanent"), (401, "configuration"), (500, "transient")] {
        let provider = Provider::start();
        let database = Database::new();
        let mut client = database.connect();
        provider.script("embedder", vec![Act::status(status)]);
        provide(&mut client, "scripted", "openai", &provider, "");
        embedder(&mut client, "{}");
        let session = retrieve(&mut client);
        client.execute("call dialectic.wait($1)", &[&session]).unwrap_or_else(|error| panic!("{class}: {error}"));
        let notes: String = one(
            &mut client,
            "select coalesce(results ->> 'notes', '') from dialectic.jobs where session_id = $1 and kind = 'execute'",
            &[&session],
        );
        assert!(notes.contains("ranked by words alone"), "{class}: {notes}");
        assert_sound(&mut client);
    }
}
