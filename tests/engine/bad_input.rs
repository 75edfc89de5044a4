//! Names that nothing has and values that cannot be: the right SQLSTATE, the thing named, a hint, and nothing half-created.

use dialectic_tests::*;
use postgres::Client;

const NOTHING: &str = "00000000-0000-0000-0000-000000000009";

/// Each of these is refused with its SQLSTATE, names this and has a hint; and the database is as it was.
fn all_refused(client: &mut Client, cases: &[(&str, &str, &str)]) {
    let before = mark(client);
    for (query, sqlstate, named) in cases {
        refused_with(client, query, &[], sqlstate, named);
    }
    assert_eq!(mark(client), before);
}

#[test]
fn an_unknown_id_is_named() {
    let database = Database::new();
    let mut client = database.connect();
    generated(&mut client, &["sim-a"]);
    work(&mut client);
    let calls: Vec<String> = [
        "select dialectic.add_resource('?', 'name', 'text')",
        "select dialectic.start_session('?', '{sim-a}')",
        "select * from dialectic.generate('?')",
        "select dialectic.submit_stage('?')",
        "select * from dialectic.progress('?')",
        "select * from dialectic.job_tree('?')",
        "call dialectic.wait('?')",
        "select dialectic.cancel('?')",
        "select dialectic.pause('?')",
        "select dialectic.resume('?')",
        "select dialectic.retry('?')",
        "select dialectic.job_request('?')",
        "select dialectic.complete_job('?', 1, 'answer')",
        "select dialectic.fail_job('?', 1, 'transient', 'no luck')",
    ]
    .map(|call| call.replace('?', NOTHING))
    .to_vec();
    let cases: Vec<_> = calls.iter().map(|call| (call.as_str(), "P0002", NOTHING)).collect();
    all_refused(&mut client, &cases);
}

#[test]
fn an_unknown_name_is_named() {
    let database = Database::new();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    work(&mut client);
    let project: Uuid = one(&mut client, "select id from dialectic.projects", &[]);
    let resource = format!("select dialectic.add_resource('{project}', 'name', 'text', 'no_such')");
    let model = format!("select dialectic.start_session('{project}', '{{sim-a,no_such}}')");
    let stage = format!("select dialectic.generate('{session}', stage => 'no_such')");
    let foreign = format!("select dialectic.generate('{session}', models => '{{sim-b}}')");
    all_refused(
        &mut client,
        &[
            (&resource, "22023", "no_such"),
            (&model, "42704", "no_such"),
            (&stage, "22023", "no_such"),
            (&foreign, "22023", "sim-b"),
            ("select dialectic.run('Why?', models => '{no_such}', process => 'essay')", "42704", "no_such"),
            ("select dialectic.run('Why?', process => 'no_such')", "42704", "no_such"),
            ("select dialectic.run('Why?', domain => 'no_such')", "42704", "no_such"),
            ("select dialectic.run('Why?', process => 'essay', through => 'no_such')", "22023", "no_such"),
            ("select dialectic.create_project('Name', 'Why?', process => 'no_such')", "42704", "no_such"),
            ("select dialectic.create_project('Name', 'Why?', domain => 'no_such')", "42704", "no_such"),
            ("select dialectic.get_config('no_such')", "42704", "no_such"),
            ("select dialectic.set_config('no_such', '1')", "42704", "no_such"),
            ("select dialectic.set_config('default_models', '[\"no_such\"]')", "42704", "no_such"),
            ("select dialectic.set_config('embedding_model', '\"no_such\"')", "42704", "no_such"),
            ("select dialectic.add_model('new', 'no_such')", "42704", "no_such"),
            ("select dialectic.add_provider('new', 'no_such')", "22023", "no_such"),
            ("select dialectic.add_model('new', 'simulator', settings => '{\"no_such\": 1}')", "22023", "no_such"),
            ("select dialectic.render_prompt('no_such', '{}')", "42704", "no_such"),
            ("select dialectic.define_stage('no_such', 'thesis', '{}')", "42704", "no_such"),
            (
                "select dialectic.set_domain('{\"domain\": \"new\", \"default_process\": \"no_such\"}')",
                "42704",
                "no_such",
            ),
            ("select dialectic.grant_user('no_such')", "42704", "no_such"),
            ("select dialectic.grant_admin('no_such')", "42704", "no_such"),
        ],
    );
}

#[test]
fn a_name_that_cannot_be_one_is_named() {
    let database = Database::new();
    let mut client = database.connect();
    all_refused(
        &mut client,
        &[
            ("select dialectic.add_model('two words', 'simulator')", "22023", "two words"),
            ("select dialectic.add_provider('two words', 'simulator')", "22023", "two words"),
            ("select dialectic.add_provider('far', 'openai', 'ftp://far')", "22023", "far"),
            ("select dialectic.add_provider('far', 'openai', '')", "22023", "far"),
            ("select dialectic.set_prompt('Two Words', 'text')", "22023", "Two Words"),
            ("select dialectic.define_process('Two Words', '[]')", "22023", "Two Words"),
            (
                "select dialectic.set_domain('{\"domain\": \"Two Words\", \"default_process\": \"essay\"}')",
                "22023",
                "Two Words",
            ),
            ("select dialectic.set_domain('[]')", "22023", "domain"),
            (
                "select dialectic.set_domain('{\"domain\": \"new\", \"default_process\": \"essay\", \"stages\": 3}')",
                "22023",
                "stages",
            ),
            (
                "select dialectic.set_domain('{\"domain\": \"new\", \"default_process\": \"essay\", \"stages\": {\"*\": 3}}')",
                "22023",
                "stages",
            ),
        ],
    );
}

#[test]
fn a_set_of_models_is_small_and_has_each_once() {
    let database = Database::new();
    let mut client = database.connect();
    let thousand = "select dialectic.run('Why?', process => 'essay', models => array(select 'm' || n from generate_series(1, 1000) n))";
    all_refused(
        &mut client,
        &[
            ("select dialectic.run('Why?', process => 'essay', models => '{}')", "22023", "at least one model"),
            ("select dialectic.run('Why?', process => 'essay', models => '{sim-a,sim-b,sim-a}')", "22023", "sim-a"),
            ("select dialectic.run('Why?', process => 'essay', models => '{sim-a,null}')", "22023", "null"),
            (thousand, "54000", "1000"),
            ("select dialectic.set_config('default_models', '[]')", "22023", "at least one model"),
            ("select dialectic.set_config('default_models', '[1]')", "22023", "default_models"),
        ],
    );
}

#[test]
fn a_setting_has_its_type_and_its_range() {
    let database = Database::new();
    let mut client = database.connect();
    all_refused(
        &mut client,
        &[
            ("select dialectic.set_config('max_continuations', '\"five\"')", "22023", "max_continuations"),
            ("select dialectic.set_config('max_continuations', '1.5')", "22023", "max_continuations"),
            ("select dialectic.set_config('max_continuations', '-1')", "22023", "max_continuations"),
            ("select dialectic.set_config('max_continuations', null)", "22023", "max_continuations"),
            ("select dialectic.set_config('stage_min_models', '0')", "22023", "stage_min_models"),
            ("select dialectic.set_config('context_safety', '1.1')", "22023", "context_safety"),
            ("select dialectic.set_config('context_safety', '0')", "22023", "context_safety"),
            ("select dialectic.set_config('tier2_max_ratio', '-1')", "22023", "tier2_max_ratio"),
            ("select dialectic.set_config('tier2_max_ratio', '17')", "22023", "tier2_max_ratio"),
            ("select dialectic.set_config('chunk_overlap_tokens', '256')", "22023", "chunk_overlap_tokens"),
            ("select dialectic.set_config('chunk_tokens', '32')", "22023", "chunk_tokens"),
            ("select dialectic.set_config('retry_max_seconds', '1e300')", "22023", "retry_max_seconds"),
            (
                "select dialectic.set_config('antithesis_task_isolation_enabled', '1')",
                "22023",
                "antithesis_task_isolation_enabled",
            ),
            ("select dialectic.set_config('default_models', '\"sim-a\"')", "22023", "default_models"),
            ("select dialectic.set_config('embedding_model', '5')", "22023", "embedding_model"),
        ],
    );
    client.execute("select dialectic.set_config('embedding_model', null)", &[]).expect("no embedding model");
    assert_eq!(
        one::<serde_json::Value>(&mut client, "select dialectic.get_config('embedding_model')", &[]),
        serde_json::Value::Null
    );
}

#[test]
fn answer_as_long_as_the_window_is_refused() {
    let database = Database::new();
    let mut client = database.connect();
    client.batch_execute("select dialectic.add_model('narrow', 'simulator', context_window => 9000)").expect("a model");
    let project: Uuid = one(&mut client, "select dialectic.create_project('Windows', 'Why?')", &[]);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a,narrow}')", &[&project]);
    let generate = "select dialectic.generate($1, max_output_tokens => $2)";
    let refused = refused_with(&mut client, generate, &[&session, &9000], "22023", "\"narrow\" reads 9000 tokens");
    assert!(refused.hint().is_some_and(|hint| hint.contains("less than 9000")), "{refused:?}");
    client.execute(generate, &[&session, &8999]).expect("less than the window");
    let model = "select dialectic.add_model('mute', 'simulator', context_window => 900, max_output_tokens => 900)";
    refused_with(&mut client, model, &[], "22023", "mute");
}

#[test]
fn a_prompt_and_a_name_are_not_empty() {
    let database = Database::new();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    work(&mut client);
    let project: Uuid = one(&mut client, "select project_id from dialectic.sessions where id = $1", &[&session]);
    let long = format!("select dialectic.create_project('{}', 'Why?')", "n".repeat(201));
    let (no_name, no_text) = (
        format!("select dialectic.add_resource('{project}', '', 'text')"),
        format!("select dialectic.add_resource('{project}', 'name', '')"),
    );
    all_refused(
        &mut client,
        &[
            ("select dialectic.run('')", "22023", "prompt"),
            ("select dialectic.run(E' \\t\\r\\n ')", "22023", "prompt"),
            ("select dialectic.create_project('Name', '   ')", "22023", "prompt"),
            ("select dialectic.create_project('  ', 'Why?')", "22023", "name"),
            (&long, "22023", "name"),
            (&no_name, "22004", "name"),
            (&no_text, "22004", "content"),
            ("select dialectic.set_prompt('empty', '')", "22004", "body"),
            ("select dialectic.set_prompt('', 'text')", "22004", "name"),
        ],
    );
}
