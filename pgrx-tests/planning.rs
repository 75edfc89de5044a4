//! Recipes, plans, prompts and verdicts: the core as SQL calls it. What is decided is the core's own tests' business; here is that
//! values come through unharmed.

#[pgrx::pg_schema]
mod tests {
    use crate::pg_tests::{one, text};
    use pgrx::JsonB;
    use pgrx::prelude::*;
    use serde_json::json;

    #[pg_test]
    fn a_plan_has_a_job_for_every_model_and_source_document() {
        let jobs: String = one(
            r#"select string_agg(format('%s %s %s %s %s', step_key, model, group_key, lineage_id, inputs #>> '{0,artifact}'), '; ' order by model, group_key)
               from dialectic.plan('{"stage": "antithesis", "steps": [{"step": 1, "key": "critique", "name": "c", "job_type": "execute",
                   "prompt_template_name": "p", "inputs_required": [{"type": "thesis", "stage": "thesis", "from_models": "all", "multiple": true}],
                   "granularity_strategy": "per_source_document", "output_type": "antithesis"}]}',
                   '[{"id": "b", "type": "thesis", "stage": "thesis", "model": "sim-b", "lineage_id": "lb"},
                     {"id": "a", "type": "thesis", "stage": "thesis", "model": "sim-a", "lineage_id": "la"}]', '{sim-a,sim-b}')"#,
        );
        assert_eq!(jobs, "critique sim-a a la a; critique sim-a b lb b; critique sim-b a la a; critique sim-b b lb b");
    }

    #[pg_test]
    fn planning_stores_nothing() {
        let stored = "(select count(*) from dialectic.jobs) || ' ' || (select count(*) from dialectic.resources)";
        let before = text(stored);
        one::<i64>(
            r#"select count(*) from dialectic.plan('{"steps": [{"step": 1, "key": "w", "name": "n", "job_type": "execute",
               "prompt_template_name": "p", "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one",
               "output_type": "t"}]}', '[{"id": "s", "type": "seed_prompt"}]', '{m}')"#,
        );
        assert_eq!(text(stored), before);
    }

    #[pg_test]
    fn a_checked_recipe_has_its_defaults_filled_in() {
        let JsonB(recipe) = one(
            r#"select dialectic._check_recipe('{"steps": [{"step": 1, "key": "w", "name": "n", "job_type": "execute",
               "prompt_template_name": "p", "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one",
               "output_type": "t"}]}', null, null, '{p}')"#,
        );
        assert_eq!(
            recipe.pointer("/steps/0/inputs_required/0"),
            Some(
                &json!({"type": "seed_prompt", "multiple": false, "required": true, "relevance": 1.0, "from_models": "all",
                         "previous_iteration": false})
            )
        );
        assert_eq!(recipe.pointer("/steps/0/file_type"), Some(&json!("markdown")));
        assert_eq!(recipe.pointer("/steps/0/needs"), Some(&json!([])));
    }

    #[pg_test]
    fn what_a_user_wrote_is_never_rendered_as_a_template() {
        Spi::run("select dialectic.set_prompt('echo', '<{{ original_user_request }}>')").expect("a prompt");
        assert_eq!(
            text(r#"dialectic.render_prompt('echo', '{"original_user_request": "{{ 7*7 }} {% if x %} {# y #}"}')"#),
            "<{{ 7*7 }} {% if x %} {# y #}>"
        );
    }

    #[pg_test]
    fn a_verdict_depends_on_the_class_and_the_attempts_alone() {
        let verdict = |arguments: &str| -> serde_json::Value {
            let JsonB(verdict) = one(&format!("select dialectic._retry_verdict({arguments})"));
            verdict
        };
        assert_eq!(
            verdict("'transient', 0, 3, null, 2, 300, 1"),
            json!({"status": "retrying", "charged": 1, "after": 2.0})
        );
        assert_eq!(
            verdict("'transient', 3, 3, null, 2, 300, 1"),
            json!({"status": "retry_loop_failed", "charged": 1, "after": 0.0})
        );
        assert_eq!(
            verdict("'permanent', 0, 3, null, 2, 300, 1"),
            json!({"status": "failed", "charged": 1, "after": 0.0})
        );
        assert_eq!(verdict("'throttled', 0, 3, 7, 2, 300, 1"), json!({"status": null, "charged": 0, "after": 7.0}));
        assert_eq!(
            verdict("'configuration', 0, 3, null, 2, 300, 1"),
            json!({"status": null, "charged": 0, "after": 300.0})
        );
    }
}
