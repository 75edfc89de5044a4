//! Inputs that are read as passages: what a step retrieves from is cut into chunks and embedded by index jobs that the
//! step waits for, and its prompt has the passages that answer its query.

use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// A text whose sections are about different things; each names its own number.
fn manual(sections: usize) -> String {
    let topics = ["pump", "invoice", "harbour", "orchard", "turbine", "ledger", "glacier", "lantern"];
    let section = |number: usize| {
        let topic = topics[number % topics.len()];
        format!(
            "## Section {number}: the {topic}\n\nThe {topic} of section {number} is checked every {number} days. \
             Its limit is {} units, as rule R-{number} says.\n\n",
            number * 10
        )
    };
    (1..=sections).map(section).collect()
}

/// A process whose one step reads passages of what is attached.
fn define(client: &mut Client, retrieve: &Value) {
    client
        .batch_execute(
            "select dialectic.set_prompt('find_seed', 'Brief.'); \
             select dialectic.set_prompt('find', '{% block user %}{% include \"shared_documents\" %}FIND \
             {% include \"shared_request\" %}{% endblock %}')",
        )
        .expect("prompts");
    let stages = json!([{"slug": "only", "seed_prompt_template": "find_seed", "recipe": {"steps": [
        {"key": "find", "job_type": "execute", "prompt_template_name": "find", "granularity_strategy": "per_model",
         "inputs_required": [{"type": "general_resource", "multiple": true, "retrieve": retrieve}],
         "output_type": "found", "document_key": "found"}]}}]);
    client.execute("select dialectic.define_process('find', $1)", &[&stages]).expect("a process");
}

/// A session of that process over a manual of so many sections.
fn begun(client: &mut Client, request: &str, sections: usize, models: &[&str]) -> Uuid {
    define(client, &json!({"query": "{{ original_user_request }}", "match_count": 3}));
    let project: Uuid = one(client, "select dialectic.create_project('Find', $1, process => 'find')", &[&request]);
    let add = "select dialectic.add_resource($1, 'manual.md', $2)";
    client.execute(add, &[&project, &manual(sections)]).expect("a resource");
    let session: Uuid = one(client, "select dialectic.start_session($1, $2)", &[&project, &models]);
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    session
}

fn prompt(client: &mut Client) -> String {
    let prompts = "select r.content::jsonb #>> '{0,content}' from dialectic.resources r \
                   join dialectic.jobs j on j.id = r.job_id where j.kind = 'execute' and r.resource_type = 'turn_prompt'";
    one(client, prompts, &[])
}

fn jobs(client: &mut Client) -> Vec<String> {
    let jobs = "select concat_ws(' ', kind, status, count(*)) from dialectic.jobs group by kind, status order by 1";
    column(client, jobs, &[])
}

fn embed_with(client: &mut Client, model: &str) {
    client.execute("select dialectic.set_config('embedding_model', to_jsonb($1::text))", &[&model]).expect("a setting");
}

#[test]
fn step_reads_passages_instead_of_the_whole_document() {
    let database = Database::by_hand();
    let mut client = database.connect();
    begun(&mut client, "Tell me the exact limit in units that rule R-37 of the manual names for us.", 40, &["sim-a"]);
    work(&mut client);
    assert_eq!(jobs(&mut client), ["execute completed 1", "index completed 1", "plan completed 1"]);
    let prompt = prompt(&mut client);
    assert!(prompt.contains("Its limit is 370 units, as rule R-37 says."), "{prompt}");
    assert!(prompt.contains("[…]") && !prompt.contains("rule R-11 says"), "{prompt}");
    let chunks: i64 = one(&mut client, "select count(*) from dialectic.memory where embedding is null", &[]);
    assert_eq!(chunks, 40, "a chunk for each section, without an embedding model");
    let sent =
        "select count(*) from dialectic.job_inputs i, unnest(i.chunks) as sent join dialectic.memory m on m.id = sent";
    assert_eq!(one::<i64>(&mut client, sent, &[]), 3, "the chunks that were sent are listed");
    let context: String =
        one(&mut client, "select content from dialectic.resources where resource_type = 'rag_context'", &[]);
    assert!(prompt.contains(&context) && context.contains("rule R-37"), "{context}");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 1);
    assert_sound(&mut client);
}

#[test]
fn chunks_and_queries_are_embedded_by_calls_of_index_jobs() {
    let database = Database::by_hand();
    let mut client = database.connect();
    embed_with(&mut client, "sim-embed");
    begun(&mut client, "What is the limit of rule R-37?", 40, &["sim-a"]);
    work(&mut client);
    assert_eq!(jobs(&mut client), ["execute completed 1", "index completed 2", "plan completed 1"]);
    assert!(prompt(&mut client).contains("as rule R-37 says."));
    let calls: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', j.kind, c.model, c.outcome, c.input_tokens > 0, c.output_tokens) \
         from dialectic.model_calls c join dialectic.jobs j on j.id = c.job_id where j.kind = 'index'",
        &[],
    );
    assert_eq!(calls, ["index sim-embed answered t 0", "index sim-embed answered t 0"]);
    let embedded = "select (select count(*) from dialectic.memory where embedding_model = 'sim-embed') \
                    + (select count(*) from dialectic.retrievals where embedding_model = 'sim-embed')";
    assert_eq!(one::<i64>(&mut client, embedded, &[]), 41);
    assert_sound(&mut client);
}

#[test]
fn text_that_several_models_retrieve_from_is_embedded_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    embed_with(&mut client, "sim-embed");
    begun(&mut client, "What is the limit of rule R-7?", 20, &["sim-a", "sim-b", "sim-c"]);
    work(&mut client);
    let of_texts = "select count(*) from dialectic.model_calls c join dialectic.job_inputs i on i.job = c.job_id \
                    join dialectic.jobs j on j.id = c.job_id where j.kind = 'index'";
    assert_eq!(one::<i64>(&mut client, of_texts, &[]), 1);
    assert_eq!(jobs(&mut client)[0], "execute completed 3");
    assert_sound(&mut client);
}

#[test]
fn text_of_more_chunks_than_a_batch_is_embedded_in_several_calls() {
    let database = Database::by_hand();
    let mut client = database.connect();
    embed_with(&mut client, "sim-embed");
    begun(&mut client, "What is the limit of rule R-600?", 700, &["sim-a"]);
    work(&mut client);
    let missing: i64 = one(&mut client, "select count(*) from dialectic.memory where embedding is null", &[]);
    let of_texts = "select count(*) from dialectic.model_calls c join dialectic.job_inputs i on i.job = c.job_id \
                    join dialectic.jobs j on j.id = c.job_id where j.kind = 'index'";
    assert_eq!((missing, one::<i64>(&mut client, of_texts, &[])), (0, 2));
    assert!(prompt(&mut client).contains("rule R-600 says"));
    assert_sound(&mut client);
}

#[test]
fn embedding_model_that_fails_leaves_the_ranking_to_words() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for (class, settings) in [
        ("transient", json!({"fail_always": true})),
        ("permanent", json!({"fail_always": true, "fail_class": "permanent"})),
    ] {
        let add =
            "select dialectic.add_model($1, 'simulator', settings => $2, kind => 'embedding', context_window => 8191)";
        client.execute(add, &[&class, &settings]).expect("a model");
        embed_with(&mut client, class);
        let session = begun(&mut client, "What is the limit of rule R-37?", 40, &["sim-a"]);
        work(&mut client);
        let ended: Vec<String> = column(
            &mut client,
            "select concat_ws(' ', kind, status) from dialectic.jobs where session_id = $1 and kind <> 'plan' order by 1",
            &[&session],
        );
        assert_eq!(ended, ["execute completed", "index completed", "index completed"], "{class}");
        let notes: String = one(
            &mut client,
            "select coalesce(results ->> 'notes', '') from dialectic.jobs where session_id = $1 and kind = 'execute'",
            &[&session],
        );
        assert!(notes.contains("ranked by words alone"), "{class}: {notes}");
    }
}

#[test]
fn embedding_that_nobody_can_pay_for_leaves_the_ranking_to_words() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let add = "select dialectic.add_model('dear', 'simulator', kind => 'embedding', context_window => 8191, \
               input_price => 1000000, output_price => 0)";
    client.execute(add, &[]).expect("a model");
    client.execute("select dialectic.open_wallet('role:postgres', 1)", &[]).expect("a wallet");
    embed_with(&mut client, "dear");
    begun(&mut client, "What is the limit of rule R-37?", 40, &["sim-a"]);
    work(&mut client);
    assert_eq!(jobs(&mut client), ["execute completed 1", "index completed 2", "plan completed 1"]);
    assert!(prompt(&mut client).contains("as rule R-37 says."));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.ledger where kind = 'hold'", &[]), 0);
    assert_sound(&mut client);
}

fn notes(client: &mut Client, session: Uuid) -> String {
    let notes =
        "select coalesce(results ->> 'notes', '') from dialectic.jobs where session_id = $1 and kind = 'execute'";
    one(client, notes, &[&session])
}

#[test]
fn paused_embedding_model_leaves_the_ranking_to_words_and_is_noted() {
    let database = Database::by_hand();
    let mut client = database.connect();
    // Its key is missing, so its first call pauses it.
    client
        .batch_execute(
            "select dialectic.add_provider('keyless', 'openai', 'https://models.example/v1', \
                                           secret => 'env:DIALECTIC_NO_SUCH_KEY'); \
             select dialectic.add_model('keyless', 'keyless', kind => 'embedding', context_window => 8191)",
        )
        .expect("a model");
    embed_with(&mut client, "keyless");
    begun(&mut client, "What is the limit of rule R-37?", 40, &["sim-a"]);
    work(&mut client);
    let calls = "select count(*) from dialectic.model_calls where provider = 'keyless'";
    let before: i64 = one(&mut client, calls, &[]);
    let session = begun(&mut client, "What is the limit of rule R-37?", 40, &["sim-a"]);
    work(&mut client);
    assert_eq!(one::<i64>(&mut client, calls, &[]), before, "a paused model is not called");
    let notes = notes(&mut client, session);
    assert!(notes.contains("\\\"keyless\\\" cannot be called"), "{notes}");
    assert_sound(&mut client);
}

#[test]
fn index_job_of_a_model_that_is_no_longer_set_sends_nothing() {
    let database = Database::by_hand();
    let mut client = database.connect();
    embed_with(&mut client, "text-embedding-3-small");
    let session = begun(&mut client, "What is the limit of rule R-37?", 40, &["sim-a"]);
    let is_waiting = "select count(*) from dialectic.jobs where kind = 'index' and status = 'pending'";
    while one::<i64>(&mut client, is_waiting, &[]) == 0 {
        client.batch_execute("call dialectic.run_pending(1)").expect("a job");
    }
    embed_with(&mut client, "sim-embed");
    work(&mut client);
    assert_eq!(jobs(&mut client), ["execute completed 1", "index completed 2", "plan completed 1"]);
    let called: i64 = one(&mut client, "select count(*) from dialectic.model_calls where provider = 'openai'", &[]);
    assert_eq!(called, 0);
    let notes = notes(&mut client, session);
    assert!(notes.contains("is no longer set"), "{notes}");
    assert_sound(&mut client);
}

#[test]
fn step_whose_other_documents_are_condensed_still_reads_passages() {
    let database = Database::by_hand();
    let mut client = database.connect();
    define(&mut client, &json!({"query": "What is the limit of rule R-37?", "match_count": 3}));
    let stages = json!([{"slug": "only", "seed_prompt_template": "find_seed", "recipe": {"steps": [
        {"key": "find", "job_type": "execute", "prompt_template_name": "find", "granularity_strategy": "per_model",
         "inputs_required": [
             {"type": "reference_documents", "multiple": true},
             {"type": "general_resource", "retrieve": {"query": "What is the limit of rule R-37?", "match_count": 3}}],
         "output_type": "found", "document_key": "found"}]}}]);
    client.execute("select dialectic.define_process('find', $1)", &[&stages]).expect("a process");
    let add = "select dialectic.add_model('narrow', 'simulator', context_window => 5000, max_output_tokens => 1000)";
    client.execute(add, &[]).expect("a model");
    let project: Uuid = one(&mut client, "select dialectic.create_project('Find', 'Find it.', process => 'find')", &[]);
    let attach = "select dialectic.add_resource($1, $2, $3, $4)";
    for number in 1..=4 {
        let text = format!("Text {number}. {}", "It says something of no importance. ".repeat(200));
        let name = format!("text {number}");
        client.execute(attach, &[&project, &name, &text, &"reference_documents"]).expect("a text");
    }
    client.execute(attach, &[&project, &"manual.md", &manual(400), &"general_resource"]).expect("a manual");
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{narrow}')", &[&project]);
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    work(&mut client);
    let jobs = jobs(&mut client);
    assert!(jobs.iter().any(|job| job.starts_with("combine completed")), "{jobs:?}");
    assert!(jobs.contains(&"execute completed 1".to_owned()), "{jobs:?}");
    let prompt = prompt(&mut client);
    assert!(prompt.contains("rule R-37 says") && !prompt.contains("rule R-100 says"), "{prompt}");
    assert_sound(&mut client);
}
