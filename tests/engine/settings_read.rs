//! Every setting in `configuration` is read by something: another value gives another result. And settings of users.

use dialectic_tests::*;
use postgres::Client;

/// A setting that only streams of a provider show: providers/live.rs.
const READ_IN_PROVIDERS: &str = "partial_flush_seconds";

/// A setting, another value of it, and what shows the difference: what the first value gives and what the other gives.
type Effect = (&'static str, &'static str, fn(&mut Client) -> String, &'static str, &'static str);

const EFFECTS: [Effect; 19] = [
    ("job_default_max_retries", "7", retries, "3", "7"),
    ("max_continuations", "0", continuations, "true", "false"),
    ("antithesis_task_isolation_enabled", "false", critiques, "4", "2"),
    ("stage_min_models", "2", one_model, "started", "22023"),
    ("context_safety", "0.05", tier, "2", "4"),
    ("tier2_max_ratio", "0", tier, "2", "3"),
    ("retry_base_seconds", "0", is_delayed, "true", "false"),
    ("retry_max_seconds", "0", is_delayed, "true", "false"),
    ("notifications_retention_days", "100", notifications_after_40_days, "false", "true"),
    ("session_retention_days", "39", sessions_after_40_days, "1", "0"),
    ("rag_data_retention_days", "41", chunks_after_40_days, "0", "2"),
    ("worker_enabled", "false", is_due, "true", "false"),
    ("chunk_tokens", "40", searched_chunks, "2 sections", "more"),
    ("chunk_overlap_tokens", "0", repeated_words, "true", "false"),
    ("embedding_model", r#""sim-embed""#, embedded_chunks, "0", "2"),
    ("match_count", "1", matches, "2", "1"),
    ("mmr_lambda", "0", worst_match, "Pumps are oiled daily too", "Seals wear out"),
    ("rrf_k", "0", best_score, "0.0164", "1.0000"),
    ("default_models", r#"["sim-c"]"#, models, "{sim-a,sim-b}", "{sim-c}"),
];

fn run(client: &mut Client, models: &str) -> Uuid {
    one(client, &format!("select dialectic.run('x', models => '{models}', process => 'essay')"), &[])
}

fn retries(client: &mut Client) -> String {
    run(client, "{sim-a}");
    one(client, "select max(max_retries)::text from dialectic.jobs", &[])
}

fn continuations(client: &mut Client) -> String {
    client
        .batch_execute(
            r#"select dialectic.add_model('cut', 'simulator', settings => '{"answer_words": 900, "cut_after_tokens": 400}')"#,
        )
        .expect("a model");
    one::<Uuid>(client, "select dialectic.run('x', models => '{cut}', process => 'essay', through => 'thesis')", &[]);
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    one(client, "select (max(continuation_count) > 0)::text from dialectic.jobs", &[])
}

/// The review calls of two models over the two proposals of an essay.
fn critiques(client: &mut Client) -> String {
    run(client, "{sim-a,sim-b}");
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    one(client, "select count(*)::text from dialectic.jobs where step_key = 'critique'", &[])
}

fn one_model(client: &mut Client) -> String {
    match client.query_one("select dialectic.run('x', models => '{sim-a}', process => 'essay')", &[]) {
        Ok(_) => "started".to_owned(),
        Err(error) => error.as_db_error().expect("an error of the database").code().code().to_owned(),
    }
}

/// The context tier of a step that reads more than its window.
fn tier(client: &mut Client) -> String {
    client
        .batch_execute(
            "select dialectic.add_model('small', 'simulator', context_window => 8000, max_output_tokens => 1000)",
        )
        .expect("a model");
    let project: Uuid = one(client, "select dialectic.create_project('x', 'x', process => 'essay')", &[]);
    for _ in 0..4 {
        let add = "select dialectic.add_resource($1, 'material', repeat('many words of a text ', 500))";
        one::<Uuid>(client, add, &[&project]);
    }
    let session: Uuid = one(client, "select dialectic.start_session($1, '{small}')", &[&project]);
    one(client, "select max(tier)::text from dialectic.explain($1, 'thesis')", &[&session])
}

fn is_delayed(client: &mut Client) -> String {
    run(client, "{sim-a}");
    client.batch_execute("call dialectic.run_pending(1)").expect("the plan");
    client
        .batch_execute(
            "select dialectic.fail_job(id, claim_id, 'transient', 'once') from dialectic.claim_jobs('outside', 1)",
        )
        .expect("a failure");
    one(
        client,
        "select (run_at > (error_details ->> 'at')::timestamptz)::text from dialectic.jobs where status = 'retrying'",
        &[],
    )
}

fn later(client: &mut Client) {
    run(client, "{sim-a}");
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    client.batch_execute("set dialectic.clock_offset = 3456000").expect("40 days later");
    client.batch_execute("call dialectic.maintain()").expect("maintain");
}

fn notifications_after_40_days(client: &mut Client) -> String {
    later(client);
    one(client, "select (count(*) > 0)::text from dialectic.notifications", &[])
}

fn sessions_after_40_days(client: &mut Client) -> String {
    later(client);
    one(client, "select count(*)::text from dialectic.sessions", &[])
}

fn is_due(client: &mut Client) -> String {
    run(client, "{sim-a}");
    one(client, "select (dialectic._next_due('x', false, 0, '{}', '{}') is not null)::text", &[])
}

fn models(client: &mut Client) -> String {
    one::<Uuid>(client, "select dialectic.run('x', process => 'essay')", &[]);
    one(client, "select models::text from dialectic.sessions", &[])
}

/// A project with a text of two sections that was searched.
fn searched(client: &mut Client, text: &str, query: &str) -> Vec<(String, f64)> {
    let project: Uuid = one(client, "select dialectic.create_project('x', 'x', process => 'essay')", &[]);
    one::<Uuid>(client, "select dialectic.add_resource($1, 'text.md', $2)", &[&project, &text]);
    let found = client.query("select passage, score from dialectic.search($1, $2)", &[&project, &query]);
    found.expect("a search").iter().map(|row| (row.get(0), row.get(1))).collect()
}

const TWO_SECTIONS: &str = "# Oil\n\nPumps are oiled on every Monday morning, first of all. The oil is thin and clear.\n\n\
                            # Seals\n\nPumps have seals that are replaced.\n";

fn searched_chunks(client: &mut Client) -> String {
    let text = TWO_SECTIONS.replace("The oil", &format!("{}The oil", "A pump has a number. ".repeat(10)));
    searched(client, &text, "pumps");
    let chunks = "select case count(*) when 2 then '2 sections' else 'more' end from dialectic.memory";
    one(client, chunks, &[])
}

/// Whether a section of several chunks has words that two of them share.
fn repeated_words(client: &mut Client) -> String {
    let text = "Some words of a sentence. ".repeat(200);
    searched(client, &text, "words");
    one(client, "select (sum(length(content)) > $1)::text from dialectic.memory", &[&(text.len() as i64)])
}

fn embedded_chunks(client: &mut Client) -> String {
    searched(client, TWO_SECTIONS, "pumps");
    one(client, "select count(embedding)::text from dialectic.memory", &[])
}

fn matches(client: &mut Client) -> String {
    searched(client, TWO_SECTIONS, "pumps").len().to_string()
}

/// The second of two chunks, one of which repeats the best one.
fn worst_match(client: &mut Client) -> String {
    client.batch_execute("select dialectic.set_config('match_count', '2')").expect("a setting");
    let text = "# A\n\nPumps are oiled daily\n\n# A\n\nPumps are oiled daily too\n\n# A\n\nSeals wear out";
    let found = searched(client, text, "pumps or pumps oiled or pumps oiled daily or seals");
    found.last().map(|(passage, _)| passage.trim_start_matches("# A\n\n").to_owned()).unwrap_or_default()
}

fn best_score(client: &mut Client) -> String {
    searched(client, TWO_SECTIONS, "pumps").first().map(|(_, score)| format!("{score:.4}")).unwrap_or_default()
}

fn chunks_after_40_days(client: &mut Client) -> String {
    searched(client, TWO_SECTIONS, "pumps");
    client.batch_execute("set dialectic.clock_offset = 3456000").expect("40 days later");
    client.batch_execute("call dialectic.maintain()").expect("maintain");
    one(client, "select count(*)::text from dialectic.memory", &[])
}

#[test]
fn every_setting_is_read_by_something() {
    let mut keys: Vec<&str> = EFFECTS.iter().map(|effect| effect.0).chain([READ_IN_PROVIDERS]).collect();
    keys.sort_unstable();
    let database = Database::unserved();
    let shipped: Vec<String> = column(
        &mut database.connect(),
        "select key from dialectic.configuration where is_shipped order by key collate \"C\"",
        &[],
    );
    assert_eq!(shipped, keys);
    for (key, value, effect, before, after) in EFFECTS {
        let shown = [None, Some(value)].map(|value| {
            let database = Database::unserved();
            let mut client = database.connect();
            if let Some(value) = value {
                client
                    .execute("select dialectic.set_config($1, $2::text::jsonb)", &[&key, &value])
                    .unwrap_or_else(|error| panic!("{key}: {error:?}"));
            }
            effect(&mut client)
        });
        assert_eq!(shown, [before, after], "{key}");
    }
}

/// A recipe of one step over what the user attached, isolated by this setting.
fn isolated_by(setting: &str) -> String {
    format!(
        r#"{{"steps": [{{"key": "summary", "job_type": "execute", "prompt_template_name": "essay_critique",
            "inputs_required": [{{"type": "seed_prompt"}}, {{"type": "general_resource", "multiple": true}}],
            "granularity_strategy": "per_source_document", "isolated_by": "{setting}",
            "output_type": "summary", "document_key": "summary", "file_type": "markdown"}}]}}"#
    )
}

#[test]
fn isolated_by_must_name_a_setting_that_is_true_or_false() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let validate = "select dialectic.validate_recipe($1::text::jsonb)";
    for unknown in ["one_by_one", "match_count"] {
        refused_with(&mut client, validate, &[&isolated_by(unknown)], "22023", "step summary, isolated_by");
    }
    let error = refused_with(&mut client, validate, &[&isolated_by("one_by_one")], "22023", "one_by_one");
    client.batch_execute(error.hint().expect("a hint")).expect("the hint");
    client.query_one(validate, &[&isolated_by("one_by_one")]).expect("a recipe");
}

#[test]
fn setting_of_a_user_isolates_the_calls_of_a_step() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute("select dialectic.add_setting('one_by_one', 'true', 'Whether each text is summarised alone.')")
        .expect("a setting");
    let stages = format!(
        r#"[{{"slug": "summary", "seed_prompt_template": "essay_thesis_seed", "recipe": {}}}]"#,
        isolated_by("one_by_one")
    );
    client.execute("select dialectic.define_process('summaries', $1::text::jsonb)", &[&stages]).expect("a process");
    let mut calls = || {
        let project: Uuid = one(&mut client, "select dialectic.create_project('x', 'x', process => 'summaries')", &[]);
        for text in ["one", "two", "three"] {
            one::<Uuid>(&mut client, "select dialectic.add_resource($1, $2, $2)", &[&project, &text]);
        }
        let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
        client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
        work(&mut client);
        let count = "select count(*) from dialectic.jobs where session_id = $1 and kind = 'execute'";
        let calls: i64 = one(&mut client, count, &[&session]);
        client.batch_execute("select dialectic.set_config('one_by_one', 'false')").expect("another value");
        calls
    };
    assert_eq!((calls(), calls()), (3, 1));
}

#[test]
fn setting_of_a_user_keeps_its_name_and_type() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let add = "select dialectic.add_setting($1, $2::text::jsonb, 'Mine.')";
    client.execute(add, &[&"mine", &"-2.5"]).expect("a setting");
    client.execute("select dialectic.set_config('mine', '-7')", &[]).expect("another value");
    assert_eq!(one::<String>(&mut client, "select dialectic.get_config('mine')::text", &[]), "-7");
    refused_with(&mut client, "select dialectic.set_config('mine', 'true')", &[], "22023", "mine");
    for (key, value, code) in
        [("mine", "1", "42710"), ("match_count", "1", "42710"), ("No", "1", "22023"), ("other", "null", "22004")]
    {
        refused_with(&mut client, add, &[&key, &value], code, "");
    }
}
