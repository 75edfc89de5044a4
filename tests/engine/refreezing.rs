//! Templates are checked when a process is defined, and a session takes a corrected one by refreeze().

use crate::by_hand::session_status;
use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// The stages of a process of two stages with one step each.
fn stages(first: &str, second: &str) -> Value {
    let stage = |slug: &str, step: &str, prompt: &str, input: Value| {
        json!({"slug": slug, "seed_prompt_template": "small_seed", "recipe": {"steps": [
            {"key": step, "job_type": "execute", "prompt_template_name": prompt, "granularity_strategy": "all_to_one",
             "inputs_required": [input], "output_type": step, "document_key": step}]}})
    };
    json!([
        stage("one", "draft", first, json!({"type": "seed_prompt"})),
        stage("two", "polish", second, json!({"type": "draft", "stage": "one", "multiple": true})),
    ])
}

fn set_prompt(client: &mut Client, name: &str, body: &str) {
    client.execute("select dialectic.set_prompt($1, $2)", &[&name, &body]).expect("set_prompt");
}

/// The process `small`, whose second prompt has this body.
fn small(client: &mut Client, second: &str) {
    for (name, body) in [("small_seed", "Brief."), ("small_draft", "Draft. {{ original_user_request }}")] {
        set_prompt(client, name, body);
    }
    set_prompt(client, "small_polish", second);
    let stages = stages("small_draft", "small_polish");
    client.execute("select dialectic.define_process('small', $1)", &[&stages]).expect("define_process");
}

fn run(client: &mut Client) -> Uuid {
    let session = one(client, "select dialectic.run('Say it.', models => '{sim-a}', process => 'small')", &[]);
    work(client);
    session
}

/// Why the step `polish` failed.
fn failure(client: &mut Client, session: Uuid) -> String {
    one(
        client,
        "select error_details ->> 'message' from dialectic.jobs \
         where session_id = $1 and step_key = 'polish' and kind = 'execute'",
        &[&session],
    )
}

fn refreeze(client: &mut Client, session: Uuid) -> bool {
    one(client, "select dialectic.refreeze($1)", &[&session])
}

fn retry(client: &mut Client, session: Uuid) {
    client.execute("select dialectic.retry($1)", &[&session]).expect("retry");
    work(client);
}

const BROKEN: &str = "Polish. {{ overlay.nothing_like_it }}";

#[test]
fn corrected_template_applies_after_refreeze_and_retry() {
    let database = Database::new();
    let mut client = database.connect();
    small(&mut client, BROKEN);
    let session = run(&mut client);
    assert_eq!(session_status(&mut client, session), "failed");
    let message = failure(&mut client, session);
    assert!(message.starts_with("template \"small_polish\""), "{message}");

    set_prompt(&mut client, "small_polish", "Polish. {{ documents[0].content }}");
    retry(&mut client, session);
    assert_eq!(failure(&mut client, session), message, "the definition is frozen");
    assert_eq!(session_status(&mut client, session), "failed");

    assert!(refreeze(&mut client, session));
    assert!(!refreeze(&mut client, session), "nothing is left to apply");
    retry(&mut client, session);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn hint_of_a_template_failure_names_refreeze_then_retry() {
    let database = Database::new();
    let mut client = database.connect();
    small(&mut client, BROKEN);
    let session = run(&mut client);
    let error = refused(&mut client, "call dialectic.wait($1)", &[&session]);
    let hint = error.hint().unwrap_or_default().to_owned();
    let statement = format!("SELECT dialectic.refreeze('{session}'); SELECT dialectic.retry('{session}');");
    assert!(hint.ends_with(&statement), "{hint}");
    let told: String = one(
        &mut client,
        "select message from dialectic.notifications where session_id = $1 and type = 'contribution_generation_failed'",
        &[&session],
    );
    assert!(told.ends_with(&statement), "{told}");
    // The hint helps.
    set_prompt(&mut client, "small_polish", "Polish.");
    client.batch_execute(&statement).expect("the hint");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
}

#[test]
fn hint_of_another_failure_names_retry_alone() {
    let database = Database::new();
    let mut client = database.connect();
    let settings = json!({"fail_always": true, "fail_class": "permanent"});
    client.execute("select dialectic.add_model('bad', 'simulator', settings => $1)", &[&settings]).expect("a model");
    let session: Uuid = one(&mut client, "select dialectic.run('x', models => '{bad}', process => 'essay')", &[]);
    work(&mut client);
    let error = refused(&mut client, "call dialectic.wait($1)", &[&session]);
    let expected = format!("SELECT dialectic.retry('{session}') tries again what failed.");
    assert_eq!(error.hint(), Some(expected.as_str()));
}

#[test]
fn refreeze_keeps_recipes_of_begun_steps_and_refuses_their_removal() {
    let database = Database::new();
    let mut client = database.connect();
    small(&mut client, BROKEN);
    let session = run(&mut client);
    // The first stage is over: whatever its step reads now, it stays as it was.
    set_prompt(&mut client, "small_other", "Other.");
    let changed = stages("small_other", "small_other");
    client.execute("select dialectic.define_process('small', $1)", &[&changed]).expect("define_process");
    assert!(refreeze(&mut client, session));
    let prompts: Vec<String> = column(
        &mut client,
        "select jsonb_path_query(d.stages, '$[*].recipe.steps[*].prompt_template_name') #>> '{}' \
         from dialectic.sessions s join dialectic.definitions d on d.id = s.definition_id where s.id = $1",
        &[&session],
    );
    assert_eq!(prompts, ["small_draft", "small_other"]);

    let mut gone = stages("small_other", "small_other");
    gone[1]["slug"] = json!("three");
    client.execute("select dialectic.define_process('small', $1)", &[&gone]).expect("define_process");
    let error = refused_with(&mut client, "select dialectic.refreeze($1)", &[&session], "55000", "small");
    assert!(error.detail().is_some_and(|detail| detail.contains("\"two\"")), "{error:?}");
    let hint = error.hint().unwrap_or_default();
    let statement = hint.split_once("with ").expect("a statement").1;
    client.batch_execute(statement.trim_end_matches('.')).expect("the hint");
    retry(&mut client, session);
    assert_eq!(session_status(&mut client, session), "completed");
}

#[test]
fn refreeze_is_for_the_owner_of_the_session() {
    let database = Database::new();
    let mut client = database.connect();
    small(&mut client, BROKEN);
    let session = run(&mut client);
    client
        .batch_execute(
            "do $$ begin create role refreezer login; exception when duplicate_object then null; end $$; \
             select dialectic.grant_user('refreezer')",
        )
        .expect("a role");
    let mut other = database.connect_as("refreezer");
    refused_with(&mut other, "select dialectic.refreeze($1)", &[&session], "P0002", "does not exist");
}

#[test]
fn define_process_refuses_unknown_variables() {
    let database = Database::by_hand();
    let mut client = database.connect();
    small(&mut client, "Polish.");
    for (body, template, variable) in [
        ("{{ orginal_user_request }}", "small_part", "orginal_user_request"),
        ("{% if nobody is defined %}x{% endif %}", "small_part", "nobody"),
        ("{{ stage.nmae }}", "small_part", "stage.nmae"),
    ] {
        set_prompt(&mut client, "small_part", body);
        set_prompt(&mut client, "small_new", "New. {% include \"small_part\" %}");
        let stages = stages("small_draft", "small_new");
        let error =
            refused_with(&mut client, "select dialectic.define_process('small', $1)", &[&stages], "42704", variable);
        for named in ["stage \"two\"", "step \"polish\"", &format!("template \"{template}\"")] {
            assert!(error.message().contains(named), "{}", error.message());
        }
        assert!(error.detail().is_some_and(|detail| detail.contains("original_user_request")), "{error:?}");
    }
    // A seed prompt knows nothing of documents.
    let mut seeded = stages("small_draft", "small_polish");
    set_prompt(&mut client, "small_seeding", "{{ documents }}");
    seeded[0]["seed_prompt_template"] = json!("small_seeding");
    refused_with(&mut client, "select dialectic.define_process('small', $1)", &[&seeded], "42704", "documents");
}

#[test]
fn set_prompt_refuses_unknown_variables_where_a_process_uses_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    small(&mut client, "Polish.");
    let set = "select dialectic.set_prompt($1, '{{ nobody }}')";
    refused_with(&mut client, set, &[&"small_polish"], "42704", "nobody");
    refused_with(&mut client, set, &[&"shared_request"], "42704", "nobody");
    refused_with(&mut client, set, &[&"continue_answer"], "42704", "nobody");
    // A prompt that no process uses is for render_prompt(), whose values anyone chooses.
    client.execute(set, &[&"small_unused"]).expect("set_prompt");
}
