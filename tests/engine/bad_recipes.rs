//! Recipes and templates that cannot work are refused when they are stored, with the step and the field or the line; nothing of
//! them stays.

use dialectic_tests::*;
use postgres::Client;
use serde_json::{Value, json};

/// Two steps over templates that ship.
fn sound() -> Value {
    json!({"steps": [
        {"key": "draft", "job_type": "execute", "prompt_template_name": "essay_thesis", "granularity_strategy": "all_to_one",
         "inputs_required": [{"type": "seed_prompt"}], "output_type": "draft"},
        {"key": "final", "job_type": "execute", "prompt_template_name": "essay_thesis", "granularity_strategy": "all_to_one",
         "inputs_required": [{"type": "draft"}], "output_type": "final", "document_key": "final"},
    ]})
}

fn spoilt(pointer: &str, name: &str, value: Value) -> Value {
    let mut recipe = sound();
    recipe
        .pointer_mut(pointer)
        .and_then(Value::as_object_mut)
        .expect("a place in the recipe")
        .insert(name.to_owned(), value);
    recipe
}

/// Refused by all three ways in, each naming the step, the field and a word; and nothing is stored.
fn is_refused(client: &mut Client, recipe: &Value, words: &[&str]) {
    let before = mark(client);
    let stages = json!([{"slug": "only", "seed_prompt_template": "essay_thesis_seed", "recipe": recipe}]);
    for (query, argument) in [
        ("select dialectic.validate_recipe($1)", recipe),
        ("select dialectic.define_stage('essay', 'thesis', $1)", recipe),
        ("select dialectic.define_process('own', $1)", &stages),
    ] {
        let error = refused_with(client, query, &[argument], "22023", "");
        for word in words {
            assert!(
                error.message().contains(word),
                "{query}\n{recipe}\n\"{}\" does not name \"{word}\"",
                error.message()
            );
        }
    }
    assert_eq!(mark(client), before);
}

#[test]
fn a_sound_recipe_is_stored_and_runs() {
    let database = Database::new();
    let mut client = database.connect();
    let stages = json!([{"slug": "only", "seed_prompt_template": "essay_thesis_seed", "recipe": sound()}]);
    assert_eq!(one::<i32>(&mut client, "select dialectic.define_process('own', $1)", &[&stages]), 1);
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why laws?', models => '{sim-a}', process => 'own')", &[]);
    work(&mut client);
    assert_eq!(
        one::<String>(&mut client, "select status from dialectic.sessions where id = $1", &[&session]),
        "completed"
    );
}

#[test]
fn a_spoilt_recipe_is_refused_by_step_and_field() {
    let database = Database::new();
    let mut client = database.connect();
    let (first, second) = ("/steps/0", "/steps/1");
    for (recipe, words) in [
        (spoilt(first, "granularity_strategy", json!("by_magic")), ["draft", "granularity_strategy", "by_magic"]),
        (spoilt(first, "prompt_template_name", json!("no_such")), ["draft", "prompt_template_name", "no_such"]),
        (spoilt(second, "inputs_required", json!([{"type": "nobodys"}])), ["final", "inputs_required", "nobodys"]),
        (spoilt(first, "colour", json!("red")), ["draft", "colour", "colour"]),
        (spoilt(second, "key", json!("draft")), ["draft", "key", "draft"]),
        (spoilt(first, "inputs_required", json!([{"type": "final"}])), ["draft", "needs", "final"]),
        (spoilt(first, "needs", json!(["draft"])), ["draft", "needs", "draft"]),
        (spoilt(first, "needs", json!(["no_such"])), ["draft", "needs", "no_such"]),
        (spoilt(first, "job_type", json!("dream")), ["draft", "job_type", "dream"]),
        (spoilt("/steps/0/inputs_required/0", "relevance", json!(7)), ["draft", "relevance", "from 0 to 1"]),
        (spoilt(first, "key", json!(null)), ["step", "key", "missing"]),
    ] {
        is_refused(&mut client, &recipe, &words);
    }
}

#[test]
fn what_is_not_a_recipe_at_all_is_refused() {
    let database = Database::new();
    let mut client = database.connect();
    for recipe in [
        json!([]),
        json!("steps"),
        json!(3),
        json!({}),
        json!({"steps": {}}),
        json!({"steps": []}),
        json!({"steps": [1]}),
    ] {
        is_refused(&mut client, &recipe, &["step"]);
    }
    is_refused(&mut client, &spoilt("", "stages", json!([])), &["stages"]);
}

#[test]
fn an_input_from_another_stage_must_be_produced_there() {
    let database = Database::new();
    let mut client = database.connect();
    let before = mark(&mut client);
    let recipe = spoilt("/steps/1", "inputs_required", json!([{"type": "draft", "stage": "elsewhere"}]));
    let error =
        refused_with(&mut client, "select dialectic.define_stage('essay', 'thesis', $1)", &[&recipe], "22023", "final");
    assert!(error.message().contains("elsewhere"), "{error:?}");
    // A stage that later ones read cannot lose what they read.
    let error = refused_with(
        &mut client,
        "select dialectic.define_stage('essay', 'thesis', $1)",
        &[&sound()],
        "22023",
        "critique",
    );
    assert!(error.message().contains("inputs_required"), "{error:?}");
    assert_eq!(mark(&mut client), before);
}

#[test]
fn the_stages_of_a_process_are_checked_too() {
    let database = Database::new();
    let mut client = database.connect();
    let before = mark(&mut client);
    let stage = |slug: Value, seed: &str| json!({"slug": slug, "seed_prompt_template": seed, "recipe": sound()});
    let seed = "essay_thesis_seed";
    for (stages, sqlstate, named) in [
        (json!({}), "22023", "stages"),
        (json!([]), "22023", "stages"),
        (json!([stage(json!("one"), seed), stage(json!("one"), seed)]), "22023", "one"),
        (json!([stage(json!("One!"), seed)]), "22023", "slug"),
        (json!([stage(json!(null), seed)]), "22023", "slug"),
        (json!([stage(json!("one"), "no_such")]), "42704", "no_such"),
    ] {
        refused_with(&mut client, "select dialectic.define_process('own', $1)", &[&stages], sqlstate, named);
    }
    assert_eq!(mark(&mut client), before);
}

#[test]
fn a_template_that_does_not_parse_is_refused_with_its_line() {
    let database = Database::new();
    let mut client = database.connect();
    let before = mark(&mut client);
    for (body, line) in [("{% if %}", 1), ("Fine.\nFine.\n{{ open", 3), ("{% for a in b %}\n{% endif %}", 2)] {
        let error = refused_with(&mut client, "select dialectic.set_prompt('broken', $1)", &[&body], "22023", "broken");
        assert!(error.message().contains(&format!("line {line}")), "{error:?}");
    }
    assert_eq!(mark(&mut client), before);
}

#[test]
fn a_template_that_never_ends_runs_out_of_fuel() {
    let database = Database::new();
    let mut client = database.connect();
    let endless = "{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}";
    assert_eq!(one::<i32>(&mut client, "select dialectic.set_prompt('endless', $1)", &[&endless]), 1);
    let error = refused_with(&mut client, "select dialectic.render_prompt('endless', '{}')", &[], "22023", "endless");
    assert!(error.message().contains("fuel"), "{error:?}");

    // In a session it fails the job and says why, and nothing else.
    let mut recipe = sound();
    recipe["steps"][1]["prompt_template_name"] = json!("endless");
    let stages = json!([{"slug": "only", "seed_prompt_template": "essay_thesis_seed", "recipe": recipe}]);
    client.execute("select dialectic.define_process('own', $1)", &[&stages]).expect("define_process");
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why laws?', models => '{sim-a}', process => 'own')", &[]);
    let _: Uuid = one(&mut client, "select dialectic.run('Why laws?', models => '{sim-b}', process => 'essay')", &[]);
    work(&mut client);
    let error = refused_with(&mut client, "call dialectic.wait($1)", &[&session], "55000", &session.to_string());
    assert!(error.detail().is_some_and(|detail| detail.contains("fuel")), "{error:?}");
    let ends: Vec<String> = column(&mut client, "select status from dialectic.sessions order by created_at", &[]);
    assert_eq!(ends, ["failed", "completed"]);
    assert_sound(&mut client);
}

#[test]
fn an_unknown_variable_is_named_and_never_a_blank() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .execute("select dialectic.set_prompt('greeting', 'Hello {{ who }},\nsee {{ what.thing }}')", &[])
        .expect("set_prompt");
    let render = "select dialectic.render_prompt('greeting', $1)";
    let error = refused_with(&mut client, render, &[&json!({"what": {"thing": 1}})], "22023", "greeting");
    assert!(error.message().contains("who") && error.message().contains("line 1"), "{error:?}");
    let error = refused_with(&mut client, render, &[&json!({"who": "you", "what": {}})], "22023", "what.thing");
    assert!(error.message().contains("line 2"), "{error:?}");
    let full = json!({"who": "you", "what": {"thing": "that"}});
    assert_eq!(one::<String>(&mut client, render, &[&full]), "Hello you,\nsee that");
}
