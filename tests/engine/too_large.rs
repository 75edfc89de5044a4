//! A step that nothing makes fit fails before it costs anything, and says what is too large and what would help.

use dialectic_tests::*;
use postgres::Client;
use serde_json::json;

/// A session of one step that reads all resources, by a model with a window of 8,000 tokens.
fn reading(client: &mut Client, request: &str, texts: &[(&str, usize)]) -> Uuid {
    client
        .batch_execute(
            "select dialectic.set_prompt('all_seed', 'Brief.'); \
             select dialectic.set_prompt('all_texts', '{% block user %}{% include \"shared_documents\" %}\
             {% include \"shared_request\" %}{% endblock %}'); \
             select dialectic.add_model('reader', 'simulator', context_window => 8000, max_output_tokens => 1000, \
                                        input_price => 1, output_price => 1)",
        )
        .expect("prompts and a model");
    let stages = json!([{"slug": "only", "seed_prompt_template": "all_seed", "recipe": {"steps": [
        {"key": "gather", "job_type": "execute", "prompt_template_name": "all_texts",
         "granularity_strategy": "all_to_one",
         "inputs_required": [{"type": "initial_user_prompt"}, {"type": "general_resource", "multiple": true}],
         "output_type": "gathered", "document_key": "gathered"}]}}]);
    client.execute("select dialectic.define_process('all_at_once', $1)", &[&stages]).expect("a process");
    let project: Uuid =
        one(client, "select dialectic.create_project('All', $1, process => 'all_at_once')", &[&request]);
    for (name, words) in texts {
        let text = "word ".repeat(*words);
        client.execute("select dialectic.add_resource($1, $2, $3)", &[&project, name, &text]).expect("a text");
    }
    let session: Uuid = one(client, "select dialectic.start_session($1, '{reader}')", &[&project]);
    client.execute("select dialectic.generate($1)", &[&session]).expect("generate");
    session
}

/// The error of `wait` on a session that failed.
fn error_of_wait(client: &mut Client, session: Uuid) -> postgres::error::DbError {
    let error = client.batch_execute(&format!("call dialectic.wait('{session}')")).expect_err("it failed");
    error.as_db_error().expect("an error of the database").clone()
}

#[test]
fn step_that_cannot_fit_holds_no_money_and_makes_no_call() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.execute("select dialectic.open_wallet('role:postgres', 1000)", &[]).expect("a wallet");
    let session = reading(&mut client, &"please ".repeat(9_000), &[("norms.md", 400)]);
    work(&mut client);
    let spent: String = one(
        &mut client,
        "select concat_ws(' ', (select count(*) from dialectic.model_calls), \
                          (select count(*) from dialectic.jobs where kind = 'combine'), \
                          (select count(*) from dialectic.ledger where amount < 0), \
                          (select count(*) from dialectic.unfunded_jobs))",
        &[],
    );
    assert_eq!(spent, "0 0 0 0", "calls, combine jobs, charges, jobs that wait for money");
    let class: String = one(
        &mut client,
        "select error_class || ' ' || (error_details ->> 'sqlstate') from dialectic.jobs \
         where session_id = $1 and kind = 'execute'",
        &[&session],
    );
    assert_eq!(class, "context_window 54C01");
    assert_sound(&mut client);
}

#[test]
fn error_names_documents_limit_and_a_model_that_would_do() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for (name, window) in [("wide", 30_000), ("medium", 20_000), ("small", 12_000)] {
        let add = "select dialectic.add_model($1, 'simulator', context_window => $2, max_output_tokens => 1000)";
        client.execute(add, &[&name, &window]).expect("a model");
    }
    let session = reading(&mut client, &"please ".repeat(10_500), &[("norms.md", 400), ("rules.md", 300)]);
    work(&mut client);
    let error = error_of_wait(&mut client, session);
    assert_eq!(error.code().code(), "54C01");
    let (detail, hint) = (error.detail().unwrap_or_default(), error.hint().unwrap_or_default());
    for part in ["6840 that fit a window of 8000", "norms.md has ", "rules.md has ", "the request has 10500 tokens"] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert!(!detail.contains("document 2"), "{detail}");
    assert!(hint.contains("model \"medium\", which reads 20000 tokens"), "{hint}");
}

#[test]
fn setting_that_the_hint_names_helps() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = reading(&mut client, "Sum up.", &[("a.md", 9_000), ("b.md", 9_000), ("c.md", 9_000)]);
    work(&mut client);
    let error = error_of_wait(&mut client, session);
    let hint = error.hint().unwrap_or_default();
    let (_, statement) = hint.split_once("or SELECT").expect("a statement");
    client.batch_execute(&format!("SELECT{statement}")).expect("the statement of the hint");
    client.execute("select dialectic.retry($1)", &[&session]).expect("retry");
    work(&mut client);
    client.batch_execute(&format!("call dialectic.wait('{session}')")).expect("it completes");
    assert_sound(&mut client);
}
