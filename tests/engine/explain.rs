//! That the tokens and the price of a session are told before it runs: by what was explained and what it then took. What the laws
//! below stand on: models of different habits, prompts of different lengths, processes that ship and one of a user.

mod history;
mod middle;
mod price;
mod windows;

use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// Models of the simulator: plain, wordy, one that thinks first, one that marks and fences what it writes.
fn models(client: &mut Client) {
    for (name, settings) in [
        ("plain", json!({})),
        ("wordy", json!({"answer_words": 400})),
        ("thinker", json!({"thinks_tokens": 700, "answer_words": 200})),
        ("marked", json!({"marker": "auto", "wrap": "fence", "answer_words": 60})),
    ] {
        client
            .execute(
                "select dialectic.add_model($1, 'simulator', settings => $2, input_price => 2, output_price => 8)",
                &[&name, &settings],
            )
            .expect("a model");
    }
}

/// A process of a user: a paper in JSON and a note in Markdown on each reference text, then a memo on a part of the papers and on the
/// notes, by a template that marks documents in its own way, and a check that stays JSON.
fn define(client: &mut Client) {
    client
        .batch_execute(
            r#"select dialectic.set_prompt('decide_seed', 'Decide on {{ original_user_request }} in {{ domain }}.');
               select dialectic.set_prompt('decide', '{% block system %}You are {{ model }}.
{% include "shared_contract" %}{% endblock %}{% block user %}{% include "shared_documents" %}
{% include "shared_request" %}{% endblock %}');
               select dialectic.set_prompt('decide_last', '{% for d in documents %}== {{ d.role }} of {{ d.author or "nobody" }}
{{ d.content }}
{% endfor %}Decide: {{ original_user_request }}');"#,
        )
        .expect("templates");
    let step = |key: &str, template: &str, strategy: &str, inputs: Value| {
        json!({"key": key, "job_type": "execute", "prompt_template_name": template, "granularity_strategy": strategy,
               "inputs_required": inputs, "output_type": key, "document_key": key, "file_type": "markdown"})
    };
    let resources = json!({"type": "general_resource", "multiple": true});
    let mut paper = step("paper", "decide", "all_to_one", json!([{"type": "seed_prompt"}, resources]));
    paper["content_to_include"] = json!({"question": "What is decided, in one sentence.",
        "options": [{"name": "Two words.", "gain": "What it brings.", "price": "What it costs."}], "unknowns": []});
    let note = step("note", "decide", "per_source_document", json!([resources]));
    let from = |key: &str| json!({"type": key, "stage": "survey", "from_models": "all", "multiple": true});
    let mut options = from("paper");
    options["part"] = json!("/options");
    let memo = step("memo", "decide_last", "all_to_one", json!([options, from("note")]));
    let mut check = step("check", "decide", "per_source_document", json!([{"type": "memo", "from_models": "all"}]));
    check["content_to_include"] = json!(["claims", "verdict"]);
    check["file_type"] = json!("json");
    let stages = json!([
        {"slug": "survey", "seed_prompt_template": "decide_seed", "recipe": {"steps": [paper, note]}},
        {"slug": "verdict", "seed_prompt_template": "decide_seed", "recipe": {"steps": [memo, check]}}]);
    client.execute("select dialectic.define_process('decision', $1)", &[&stages]).expect("a process");
}

/// A session that has not begun, over reference texts.
fn start(client: &mut Client, process: &str, models: &[&str], request: &str, texts: &[&str]) -> Uuid {
    let project: Uuid =
        one(client, "select dialectic.create_project('Explained', $1, process => $2)", &[&request, &process]);
    for text in texts {
        client.execute("select dialectic.add_resource($1, 'Text', $2)", &[&project, text]).expect("a text");
    }
    one(client, "select dialectic.start_session($1, $2, auto_advance => true)", &[&project, &models])
}

/// Runs a session to its end.
fn run(client: &mut Client, session: Uuid) {
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    work(client);
    let status: String = one(client, "select status from dialectic.sessions where id = $1", &[&session]);
    assert_eq!(status, "completed");
}

/// What there is to read and to write in all, as it was expected or as it came.
fn tokens(client: &mut Client, session: Uuid, which: &str) -> (i64, i64) {
    let query = format!("select {which}input_tokens, {which}output_tokens from dialectic.explain_total($1)");
    let row = client.query_one(&query, &[&session]).expect("explain_total");
    (row.get(0), row.get(1))
}

/// What was expected is within so many percent of what came.
fn assert_near(what: &str, expected: (i64, i64), actual: (i64, i64), percent: f64) {
    let off = |expected: i64, actual: i64| 100.0 * (expected as f64 / actual as f64 - 1.0);
    let (read, written) = (off(expected.0, actual.0), off(expected.1, actual.1));
    println!("{what}: read {actual:?}, off by {read:+.1} % and {written:+.1} %");
    assert!(read.abs() <= percent && written.abs() <= percent, "{what}: {expected:?} of {actual:?}");
}

/// Explains a session, runs it, and compares.
fn foretold(client: &mut Client, what: &str, session: Uuid, percent: f64) {
    let expected = tokens(client, session, "");
    assert_eq!(one::<i64>(client, "select count(*) from dialectic.jobs where session_id = $1", &[&session]), 0);
    run(client, session);
    let actual = tokens(client, session, "actual_");
    assert_near(what, expected, actual, percent);
}

const SHORT: &str = "Plan an offline-first notes app for field engineers.";

/// A long text about nothing much, in sentences of different lengths.
fn long(paragraphs: usize) -> String {
    let one = "The municipality owns eleven workshops; four of them are rented out. Nobody has counted the tools since the flood, \
               though an inventory was promised (twice). Volunteers keep lists on paper. A reorganisation of responsibilities is \
               under way: storage, lending, repair and reimbursement go to one office.\n\n";
    one.repeat(paragraphs)
}

#[test]
fn a_dialectic_of_one_two_and_three_models_takes_the_tokens_that_were_foretold() {
    for models_asked in [&["plain"][..], &["plain", "wordy"], &["plain", "wordy", "thinker"]] {
        let database = Database::new();
        let mut client = database.connect();
        models(&mut client);
        let session = start(&mut client, "dialectic", models_asked, SHORT, &[]);
        foretold(&mut client, &format!("dialectic by {models_asked:?}"), session, 5.0);
    }
}

#[test]
fn whatever_the_prompt_and_the_texts_are_the_tokens_are_foretold() {
    let (prompt, text, longer) = (long(20), long(30), long(60));
    let (prompt, text, longer) = (prompt.as_str(), text.as_str(), longer.as_str());
    for (process, models_asked, request, texts) in [
        ("dialectic", &["marked"][..], "Go.", &[][..]),
        ("dialectic", &["thinker"], prompt, &[text]),
        ("essay", &["plain", "wordy", "thinker"], "Should a city close its centre to cars?", &[]),
        ("essay", &["marked", "wordy"], prompt, &[]),
        (
            "decision",
            &["plain", "wordy"],
            "Should the workshop buy a second lathe?",
            &["A lathe costs 3000.", "It is loud."],
        ),
        ("decision", &["plain", "thinker", "marked"], "Buy?", &[text, longer]),
        ("decision", &["wordy"], prompt, &[longer]),
    ] {
        let database = Database::new();
        let mut client = database.connect();
        models(&mut client);
        define(&mut client);
        let session = start(&mut client, process, models_asked, request, texts);
        let what = format!("{process} by {models_asked:?}, {} characters and {} texts", request.len(), texts.len());
        foretold(&mut client, &what, session, 5.0);
    }
}

#[test]
fn what_it_takes_to_condense_texts_that_do_not_fit_is_foretold_too() {
    let database = Database::new();
    let mut client = database.connect();
    define(&mut client);
    let settings = json!({"answer_words": 420, "thinks_tokens": 50});
    client
        .execute(
            "select dialectic.add_model('narrow', 'simulator', settings => $1, context_window => 5000, max_output_tokens => 1000)",
            &[&settings],
        )
        .expect("a model");
    let texts = [
        "A lathe is loud.",
        "A saw is louder.",
        "A drill is not.",
        "A file is slow.",
        "Glue is slower.",
        "Nails are quick.",
    ];
    let session = start(&mut client, "decision", &["narrow"], "What shall the workshop buy?", &texts);
    foretold(&mut client, "decision in a small window", session, 10.0);
    let condensed = "select count(*) from dialectic.jobs where session_id = $1 and kind = 'combine'";
    assert!(one::<i64>(&mut client, condensed, &[&session]) > 0);
}

#[test]
fn the_total_is_the_sum_of_the_steps_and_a_stage_a_part_of_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    models(&mut client);
    let session = start(&mut client, "essay", &["plain", "thinker"], SHORT, &[]);
    let sums = "select array[sum(calls), sum(documents), sum(input_tokens), sum(output_tokens), sum(cost), sum(worst_cost), sum(actual_calls), \
                             sum(actual_input_tokens), sum(actual_output_tokens), sum(actual_cost)]::text";
    let total = "select array[calls, documents, input_tokens, output_tokens, cost, worst_cost, actual_calls, actual_input_tokens, \
                              actual_output_tokens, actual_cost]::text";
    for stage in [None, Some("thesis"), Some("synthesis")] {
        let steps: String = one(&mut client, &format!("{sums} from dialectic.explain($1, $2)"), &[&session, &stage]);
        let rows: Vec<String> =
            column(&mut client, &format!("{total} from dialectic.explain_total($1, $2)"), &[&session, &stage]);
        assert_eq!(rows, [steps]);
    }
    let told: i64 = one(
        &mut client,
        "select count(*) from dialectic.explain($1) where input_tokens > 0 and output_tokens > 0 \
                                      and cost > 0 and worst_cost > cost",
        &[&session],
    );
    assert_eq!(told, 5, "every step");
    refused_with(&mut client, "select dialectic.explain_total($1, 'nowhere')", &[&session], "22023", "nowhere");
    refused_with(&mut client, "select dialectic.explain_total($1)", &[&Uuid::nil()], "P0002", "session");
}

#[test]
fn explaining_calls_nobody_and_stores_nothing() {
    let database = Database::by_hand();
    let mut client = database.connect();
    // Whoever asked it would not live to tell.
    client
        .execute("select dialectic.add_model('deadly', 'simulator', settings => '{\"panic\": true}')", &[])
        .expect("a model");
    let session = start(&mut client, "dialectic", &["deadly"], SHORT, &[]);
    let count = "select (select count(*) from dialectic.jobs) + (select count(*) from dialectic.model_calls) + (select count(*) from dialectic.contributions)
                        + (select count(*) from dialectic.resources)";
    let before: i64 = one(&mut client, count, &[]);
    let mut transaction =
        client.build_transaction().read_only(true).start().expect("a transaction that can write nothing");
    let (read, written) = {
        let row = transaction
            .query_one("select input_tokens, output_tokens from dialectic.explain_total($1)", &[&session])
            .expect("explain");
        (row.get::<_, i64>(0), row.get::<_, i64>(1))
    };
    transaction.commit().expect("commit");
    assert!(read > 100_000 && written > 10_000, "{read}, {written}");
    assert_eq!(one::<i64>(&mut client, count, &[]), before);
}

#[test]
fn what_it_takes_to_go_on_with_answers_that_are_cut_off_is_foretold_too() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute("select dialectic.add_model('short', 'simulator', max_output_tokens => 150, input_price => 2, output_price => 10)")
        .expect("a model");
    for nth in ["by its settings", "by its history"] {
        let session = start(&mut client, "essay", &["short"], SHORT, &[]);
        foretold(&mut client, &format!("an essay in short answers, {nth}"), session, 15.0);
        let calls = "select calls = 5 and actual_calls > 10 from dialectic.explain_total($1)";
        assert!(one::<bool>(&mut client, calls, &[&session]));
    }
}

#[test]
fn it_is_told_how_prompts_fit_and_that_one_does_not() {
    let database = Database::new();
    let mut client = database.connect();
    define(&mut client);
    client
        .batch_execute(
            "select dialectic.add_model('small', 'simulator', context_window => 8000, max_output_tokens => 1500)",
        )
        .expect("a model");
    let tier = "select tier from dialectic.explain_total($1)";
    let fits = start(&mut client, "essay", &["small"], SHORT, &[]);
    assert_eq!(one::<i32>(&mut client, tier, &[&fits]), 1);
    let text = long(30);
    let condensed = start(&mut client, "decision", &["small"], "Buy?", &[&text, &text, &text]);
    assert_eq!(one::<i32>(&mut client, tier, &[&condensed]), 2);
    let too_large = start(&mut client, "essay", &["small"], &long(120), &[]);
    assert_eq!(one::<i32>(&mut client, tier, &[&too_large]), 4);
    let shown: i64 = one(&mut client, "select input_tokens from dialectic.explain($1, 'thesis')", &[&too_large]);
    assert!(shown > 8_000, "how much too large it is: {shown}");
    client.query("select * from dialectic.generate($1)", &[&too_large]).expect("generate");
    work(&mut client);
    assert_eq!(
        one::<String>(&mut client, "select status from dialectic.sessions where id = $1", &[&too_large]),
        "failed"
    );
}

#[test]
fn a_session_that_ends_before_the_last_stage_is_explained_as_far_as_it_goes() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session: Uuid = one(
        &mut client,
        "select dialectic.run('Why?', models => '{sim-a,sim-b}', process => 'essay', through => 'antithesis')",
        &[],
    );
    let stages: Vec<String> =
        column(&mut client, "select distinct stage from dialectic.explain($1) order by 1", &[&session]);
    assert_eq!(stages, ["antithesis", "thesis"]);
    assert_eq!(one::<i64>(&mut client, "select calls from dialectic.explain_total($1)", &[&session]), 6);
    assert_eq!(one::<i64>(&mut client, "select calls from dialectic.explain_total($1, 'synthesis')", &[&session]), 14);
}
