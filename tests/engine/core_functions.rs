//! Recipes, plans, prompts and verdicts as SQL calls them: values pass through the boundary unharmed.
//! What is decided is tested with the core; nothing here needs a queue.

use dialectic_tests::*;
use serde_json::{Value, json};

/// A recipe of one step with one input, as jsonb.
const ONE_STEP: &str = r#"{"steps": [{"step": 1, "key": "w", "name": "n", "job_type": "execute", "prompt_template_name": "p",
    "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one", "output_type": "t"}]}"#;

#[test]
fn a_plan_has_a_job_for_every_model_and_source_document() {
    let database = Database::unserved();
    let recipe = json!({"stage": "antithesis", "steps": [{
        "step": 1, "key": "critique", "name": "c", "job_type": "execute", "prompt_template_name": "p",
        "inputs_required": [{"type": "thesis", "stage": "thesis", "from_models": "all", "multiple": true}],
        "granularity_strategy": "per_source_document", "output_type": "antithesis"}]});
    let documents = json!([
        {"id": "b", "type": "thesis", "stage": "thesis", "model": "sim-b", "lineage_id": "lb"},
        {"id": "a", "type": "thesis", "stage": "thesis", "model": "sim-a", "lineage_id": "la"}]);
    let jobs: Vec<String> = column(
        &mut database.connect(),
        "select format('%s %s %s %s %s', step_key, model, group_key, lineage_id, inputs #>> '{0,artifact}') \
         from dialectic.plan($1, $2, '{sim-a,sim-b}') order by model, group_key",
        &[&recipe, &documents],
    );
    let expected = ["critique sim-a a la a", "critique sim-a b lb b", "critique sim-b a la a", "critique sim-b b lb b"];
    assert_eq!(jobs, expected);
}

#[test]
fn planning_stores_nothing() {
    let database = Database::unserved();
    let mut client = database.connect();
    let before = mark(&mut client);
    let recipe: Value = serde_json::from_str(ONE_STEP).expect("a recipe");
    let planned: i64 = one(
        &mut client,
        r#"select count(*) from dialectic.plan($1, '[{"id": "s", "type": "seed_prompt"}]', '{m}')"#,
        &[&recipe],
    );
    assert_eq!(planned, 1);
    assert_eq!(mark(&mut client), before);
}

#[test]
fn a_checked_recipe_has_its_defaults_filled_in() {
    let database = Database::unserved();
    let recipe: Value = serde_json::from_str(ONE_STEP).expect("a recipe");
    let checked: Value =
        one(&mut database.connect(), "select dialectic._check_recipe($1, null, null, '{p}')", &[&recipe]);
    let input = json!({"type": "seed_prompt", "multiple": false, "required": true, "relevance": 1.0,
                       "from_models": "all", "previous_iteration": false});
    assert_eq!(checked.pointer("/steps/0/inputs_required/0"), Some(&input));
    assert_eq!(checked.pointer("/steps/0/file_type"), Some(&json!("markdown")));
    assert_eq!(checked.pointer("/steps/0/needs"), Some(&json!([])));
}

#[test]
fn text_of_a_user_is_never_rendered_as_a_template() {
    let database = Database::unserved();
    let mut client = database.connect();
    client.batch_execute("select dialectic.set_prompt('echo', '<{{ original_user_request }}>')").expect("a prompt");
    let rendered: String = one(
        &mut client,
        "select dialectic.render_prompt('echo', $1)",
        &[&json!({"original_user_request": "{{ 7*7 }} {% if x %} {# y #}"})],
    );
    assert_eq!(rendered, "<{{ 7*7 }} {% if x %} {# y #}>");
}
