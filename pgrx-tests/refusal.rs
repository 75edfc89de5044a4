//! Errors of the Rust side as a backend raises them: SQLSTATE, DETAIL and HINT, never a bare panic.

#[pgrx::pg_schema]
mod tests {
    use pgrx::pg_sys::panic::CaughtError;
    use pgrx::prelude::*;

    /// What a statement is refused with: SQLSTATE, message, DETAIL and HINT.
    fn refused(statement: &str) -> (PgSqlErrorCode, String, Option<String>, Option<String>) {
        PgTryBuilder::new(|| {
            Spi::run(statement).expect("an error of the backend, not of SPI");
            None
        })
        .catch_others(|caught| match caught {
            CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => Some((
                report.sql_error_code(),
                report.message().to_owned(),
                report.detail().map(str::to_owned),
                report.hint().map(str::to_owned),
            )),
            panic @ CaughtError::RustPanic { .. } => panic.rethrow(),
        })
        .execute()
        .unwrap_or_else(|| panic!("{statement}\nwas not refused"))
    }

    #[pg_test]
    fn an_unsound_recipe_is_refused_with_every_problem() {
        let (state, message, detail, hint) = refused(
            r#"select dialectic._check_recipe('{"steps": [
                   {"step": 1, "key": "w", "name": "n", "job_type": "execute", "prompt_template_name": "nope",
                    "inputs_required": [{"type": "nobody_makes_it"}], "granularity_strategy": "all_to_one", "output_type": "t"},
                   {"step": 2, "key": "w", "name": "n", "job_type": "execute", "prompt_template_name": "p",
                    "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one", "output_type": "u"}]}',
                   's', '[]', '{p}')"#,
        );
        assert_eq!(state, PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE);
        assert!(message.starts_with("step w, "), "{message}");
        let detail = detail.expect("a detail");
        for problem in ["another step is called w", "no template nope", "no step produces nobody_makes_it"] {
            assert!(detail.contains(problem), "{detail}");
        }
        assert!(hint.is_some_and(|hint| hint.contains("validate_recipe")));
    }

    #[pg_test]
    fn a_variable_that_is_not_given_is_an_error_with_its_place() {
        let (state, message, _, hint) = refused("select dialectic.render_prompt('shared_request', '{}')");
        assert_eq!(state, PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE);
        assert!(message.contains("shared_request") && message.contains("original_user_request"), "{message}");
        assert!(hint.is_some_and(|hint| hint.contains("minijinja")));
    }

    #[pg_test]
    fn a_plan_without_its_input_is_an_error_that_names_step_and_input() {
        let (state, message, _, hint) = refused(
            r#"select * from dialectic.plan('{"steps": [{"step": 1, "key": "w", "name": "n", "job_type": "execute",
               "prompt_template_name": "p", "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one",
               "output_type": "t"}]}', '[]', '{m}')"#,
        );
        assert_eq!(state, PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE);
        assert!(message.contains("step w") && message.contains("seed_prompt"), "{message}");
        assert!(hint.is_some_and(|hint| hint.contains("inputs_required")));
    }

    #[pg_test]
    fn an_unknown_class_of_error_is_refused() {
        let (state, message, ..) = refused("select dialectic._retry_verdict('sulking', 0, 3, null, 2, 300, 1)");
        assert_eq!(state, PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE);
        assert!(message.contains("\"sulking\""), "{message}");
    }

    #[pg_test]
    fn a_move_that_is_not_in_the_table_is_refused_with_both_states() {
        Spi::run("select dialectic.run('Why?', models => '{sim-a}')").expect("a session");
        let (state, message, _, hint) = refused("update dialectic.jobs set status = 'completed', completed_at = now()");
        assert_eq!(state, PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE);
        assert!(message.contains("from \"pending\" to \"completed\""), "{message}");
        assert!(hint.is_some_and(|hint| hint.contains("job_transitions")));
    }
}
