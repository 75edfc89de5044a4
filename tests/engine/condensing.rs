//! Condensing ends: every combine prompt fits its model's window, so a combine job is not cut into groups again.

use dialectic_tests::*;
use postgres::Client;
use serde_json::json;

/// Every model of a session completed; otherwise what failed.
fn assert_completed(client: &mut Client, session: Uuid, what: &str) {
    let failed: Vec<String> = column(
        client,
        "select format('%s %s %s: %s', step_key, model, kind, error_details ->> 'message') from dialectic.jobs \
         where session_id = $1 and status <> 'completed' order by completed_at limit 3",
        &[&session],
    );
    assert_eq!(failed, Vec::<String>::new(), "{what}");
    let status: String = one(client, "select status from dialectic.sessions where id = $1", &[&session]);
    assert_eq!(status, "completed", "{what}");
}

/// The combine jobs of a session, the longest of their group keys and their greatest depth.
fn combined(client: &mut Client, session: Uuid) -> (i64, i32, i32) {
    let row = client
        .query_one(
            "select count(*), coalesce(max(length(group_key)), 0), coalesce(max(combine_depth), 0) \
             from dialectic.jobs where session_id = $1 and kind = 'combine' and continuation_count = 0",
            &[&session],
        )
        .expect("combine jobs");
    (row.get(0), row.get(1), row.get(2))
}

fn add_simulator(client: &mut Client, name: &str, window: i32, output: i32) {
    client
        .execute(
            "select dialectic.add_model($1, 'simulator', context_window => $2, max_output_tokens => $3)",
            &[&name, &window, &output],
        )
        .expect("a model");
}

#[test]
fn essay_with_a_narrow_fourth_model_completes() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for window in [7000, 8000, 8500, 9000] {
        let name = format!("narrow-{window}");
        add_simulator(&mut client, &name, window, 4096);
        let models = ["sim-a", "sim-b", "sim-c", name.as_str()];
        let run = "select dialectic.run('Why do we have laws?', models => $1, process => 'essay')";
        let session: Uuid = one(&mut client, run, &[&&models[..]]);
        work(&mut client);
        assert_completed(&mut client, session, &name);
        let (jobs, key, depth) = combined(&mut client, session);
        assert!((1..60).contains(&jobs) && key < 100 && depth <= 4, "{name}: {jobs} jobs, key {key}, depth {depth}");
    }
    assert_sound(&mut client);
}

#[test]
fn default_process_completes_on_two_models_of_32k() {
    let database = Database::by_hand();
    let mut client = database.connect();
    // Counted as the shipped rows of these models are, with a margin for what a ratio may be off.
    for (name, api_model) in [("llama", "llama3.1:8b"), ("qwen", "qwen3:8b")] {
        let add = "select dialectic.add_model($1, 'simulator', api_model => $2, context_window => 32768, \
                   max_output_tokens => 4096, tokenizer => 'o200k_base', settings => '{\"answer_words\": 600}')";
        client.execute(add, &[&name, &api_model]).expect("a model");
    }
    let session: Uuid = one(&mut client, "select dialectic.run('A library of seeds.', models => '{llama,qwen}')", &[]);
    work(&mut client);
    assert_completed(&mut client, session, "dialectic");
    let (_, key, depth) = combined(&mut client, session);
    assert!(key < 100 && depth <= 4, "key {key}, depth {depth}");
    assert_sound(&mut client);
}

/// A process with one step that reads all resources at once, by a model with this window.
fn reading_all(client: &mut Client, window: i32) -> Uuid {
    client
        .batch_execute(
            "select dialectic.set_prompt('all_seed', 'Brief.'); \
             select dialectic.set_prompt('all_texts', '{% block user %}{% include \"shared_documents\" %}\
             {% include \"shared_request\" %}{% endblock %}')",
        )
        .expect("prompts");
    let stages = json!([{"slug": "only", "seed_prompt_template": "all_seed", "recipe": {"steps": [
        {"key": "gather", "job_type": "execute", "prompt_template_name": "all_texts",
         "granularity_strategy": "all_to_one", "inputs_required": [{"type": "general_resource", "multiple": true}],
         "output_type": "gathered", "document_key": "gathered"}]}}]);
    client.execute("select dialectic.define_process('all_at_once', $1)", &[&stages]).expect("a process");
    add_simulator(client, "reader", window, 4096);
    one(client, "select dialectic.create_project('All', 'Sum up.', process => 'all_at_once')", &[])
}

#[test]
fn many_resources_are_condensed_in_one_level() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = reading_all(&mut client, 100_000);
    client
        .execute(
            "select dialectic.add_resource($1, 'text ' || n, n || repeat(' some words of a text that is read', 80)) \
             from generate_series(1, 300) as n",
            &[&project],
        )
        .expect("texts");
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{reader}')", &[&project]);
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    work(&mut client);
    assert_completed(&mut client, session, "300 resources");
    let (jobs, _, depth) = combined(&mut client, session);
    assert!((2..=4).contains(&jobs) && depth == 1, "{jobs} combine jobs, depth {depth}");
    assert_sound(&mut client);
}

#[test]
fn one_document_beyond_the_window_fails_with_its_class() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = reading_all(&mut client, 8000);
    client
        .execute("select dialectic.add_resource($1, 'norms.md', repeat('word ', 7000))", &[&project])
        .expect("a text");
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{reader}')", &[&project]);
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    work(&mut client);
    let class: String = one(
        &mut client,
        "select error_details ->> 'class' from dialectic.jobs where session_id = $1 and kind = 'execute'",
        &[&session],
    );
    assert_eq!((class.as_str(), combined(&mut client, session).0), ("context_window", 0));
    assert_sound(&mut client);
}
