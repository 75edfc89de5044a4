//! Errors of the Rust side as a client receives them: SQLSTATE, message, DETAIL and HINT, never a bare panic.

use dialectic_tests::*;

const INVALID_PARAMETER: &str = "22023";
const NOT_IN_PREREQUISITE_STATE: &str = "55000";

#[test]
fn an_unsound_recipe_is_refused_with_every_problem() {
    let database = Database::unserved();
    let error = refused_with(
        &mut database.connect(),
        r#"select dialectic._check_recipe('{"steps": [
               {"step": 1, "key": "w", "name": "n", "job_type": "execute", "prompt_template_name": "nope",
                "inputs_required": [{"type": "nobody_makes_it"}], "granularity_strategy": "all_to_one", "output_type": "t"},
               {"step": 2, "key": "w", "name": "n", "job_type": "execute", "prompt_template_name": "p",
                "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one", "output_type": "u"}]}',
               's', '[]', '{p}')"#,
        &[],
        INVALID_PARAMETER,
        "step w, ",
    );
    assert!(error.message().starts_with("step w, "), "{error:?}");
    let detail = error.detail().expect("a detail");
    for problem in ["another step is called w", "no template nope", "no step produces nobody_makes_it"] {
        assert!(detail.contains(problem), "{detail}");
    }
    assert!(error.hint().is_some_and(|hint| hint.contains("validate_recipe")));
}

#[test]
fn a_missing_variable_is_an_error_with_its_place() {
    let database = Database::unserved();
    let error = refused_with(
        &mut database.connect(),
        "select dialectic.render_prompt('shared_request', '{}')",
        &[],
        INVALID_PARAMETER,
        "shared_request",
    );
    assert!(error.message().contains("original_user_request"), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("minijinja")), "{error:?}");
}

#[test]
fn a_plan_without_its_input_is_an_error_that_names_step_and_input() {
    let database = Database::unserved();
    let error = refused_with(
        &mut database.connect(),
        r#"select * from dialectic.plan('{"steps": [{"step": 1, "key": "w", "name": "n", "job_type": "execute",
           "prompt_template_name": "p", "inputs_required": [{"type": "seed_prompt"}],
           "granularity_strategy": "all_to_one", "output_type": "t"}]}', '[]', '{m}')"#,
        &[],
        INVALID_PARAMETER,
        "step w",
    );
    assert!(error.message().contains("seed_prompt"), "{error:?}");
    assert!(error.hint().is_some_and(|hint| hint.contains("inputs_required")), "{error:?}");
}

#[test]
fn a_move_that_is_not_in_the_table_is_refused_with_both_states() {
    let database = Database::unserved();
    let mut client = database.connect();
    client.batch_execute("select dialectic.run('Why?', models => '{sim-a}')").expect("a session");
    let error = refused_with(
        &mut client,
        "update dialectic.jobs set status = 'completed', completed_at = now()",
        &[],
        NOT_IN_PREREQUISITE_STATE,
        "from \"pending\" to \"completed\"",
    );
    assert!(error.hint().is_some_and(|hint| hint.contains("job_transitions")), "{error:?}");
}
