//! Condensing ends: every combine prompt fits its model's window, a document that fits none is cut into parts, and
//! combine jobs are never condensed themselves.

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
        assert!((1..=20).contains(&jobs) && key < 100 && depth <= 4, "{name}: {jobs} jobs, key {key}, depth {depth}");
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
    let (jobs, key, depth) = combined(&mut client, session);
    assert!(jobs <= 20 && key < 100 && depth <= 4, "{jobs} jobs, key {key}, depth {depth}");
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
    // Each text can be written in one call: 4096 tokens out of about 9,000, of 220,000 in all.
    assert!((20..=30).contains(&jobs) && depth == 1, "{jobs} combine jobs, depth {depth}");
    assert_sound(&mut client);
}

/// A session of `reading_all` over one document, generated.
fn over_one_document(client: &mut Client, window: i32, name: &str, text: &str) -> Uuid {
    let project = reading_all(client, window);
    client.execute("select dialectic.add_resource($1, $2, $3)", &[&project, &name, &text]).expect("a text");
    let session: Uuid = one(client, "select dialectic.start_session($1, '{reader}')", &[&project]);
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    work(client);
    session
}

/// Sections of about 60 tokens each.
fn manual(sections: usize) -> String {
    let section = |n: usize| format!("## Section {n}\n\n{}\n\n", format!("Rule {n} holds for every tool. ").repeat(8));
    (1..=sections).map(section).collect()
}

#[test]
fn document_beyond_the_window_is_condensed_in_parts() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let text = manual(150);
    let session = over_one_document(&mut client, 8000, "norms.md", &text);
    assert_completed(&mut client, session, "one document");
    let parts = client
        .query(
            "select i.first_byte, i.end_byte, c.output_text_id from dialectic.jobs c \
             join dialectic.job_inputs i on i.job = c.id \
             where c.session_id = $1 and c.kind = 'combine' and c.continuation_count = 0 order by i.first_byte",
            &[&session],
        )
        .expect("parts");
    let ranges: Vec<(i32, i32)> = parts.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert!((2..=8).contains(&ranges.len()), "{ranges:?}");
    assert_eq!((ranges[0].0, ranges[ranges.len() - 1].1), (0, text.len() as i32));
    assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0), "{ranges:?}");
    assert!(ranges.iter().all(|(first, _)| text[*first as usize..].starts_with("## Section")), "{ranges:?}");
    // The step reads what they became, in the order of the document.
    let read: Vec<Uuid> = column(
        &mut client,
        "select i.artifact from dialectic.jobs j join dialectic.job_inputs i on i.job = j.id \
         where j.session_id = $1 and j.kind = 'execute' order by i.position",
        &[&session],
    );
    assert_eq!(read, parts.iter().map(|row| row.get(2)).collect::<Vec<Uuid>>());
    assert_sound(&mut client);
}

#[test]
fn combine_job_is_sent_the_bytes_of_its_part() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = over_one_document(&mut client, 8000, "norms.md", &manual(150));
    let sent: bool = one(
        &mut client,
        "select bool_and(strpos(dialectic.prompt(c.id) -> 1 ->> 'content', convert_from(part.bytes, 'UTF8')) > 0) \
         from dialectic.jobs c join dialectic.job_inputs i on i.job = c.id \
         join dialectic.resources r on r.id = i.artifact \
         cross join lateral substring(convert_to(r.content, 'UTF8') from i.first_byte + 1 \
                                      for i.end_byte - i.first_byte) as part(bytes) \
         where c.session_id = $1 and c.kind = 'combine' and i.first_byte is not null",
        &[&session],
    );
    assert!(sent);
}

#[test]
fn regenerated_document_reads_the_whole_of_what_was_cut() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = over_one_document(&mut client, 8000, "norms.md", &manual(150));
    let job: Uuid = one(&mut client, "select dialectic.regenerate($1, 'gathered', 'reader')", &[&session]);
    let inputs: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', i.position, r.name, i.first_byte) from dialectic.job_inputs i \
         join dialectic.resources r on r.id = i.artifact where i.job = $1",
        &[&job],
    );
    assert_eq!(inputs, ["1 norms.md"]);
    work(&mut client);
    assert_eq!(one::<String>(&mut client, "select status from dialectic.jobs where id = $1", &[&job]), "completed");
    assert_sound(&mut client);
}
