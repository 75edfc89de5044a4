//! What set_config() accepts no later call refuses.

use dialectic_tests::*;

#[test]
fn settings_out_of_the_bounds_of_their_users_are_refused() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let set = "select dialectic.set_config($1, $2::text::jsonb)";
    for (key, value, bounds) in [
        ("job_default_max_retries", "200", "from 0 to 100"),
        ("job_default_max_retries", "101", "from 0 to 100"),
        ("stage_min_models", "101", "from 1 to 100"),
        ("max_continuations", "1001", "from 0 to 1000"),
    ] {
        let error = refused_with(&mut client, set, &[&key, &value], "22023", key);
        assert!(error.hint().is_some_and(|hint| hint.contains(bounds)), "{key}: {error:?}");
    }
    refused_with(&mut client, set, &[&"default_models", &"[]"], "22023", "at least one model");
}

#[test]
fn every_setting_at_its_bounds_lets_a_session_start() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let numbers: Vec<String> = column(
        &mut client,
        "select key from dialectic.configuration \
         where is_shipped and jsonb_typeof(value) = 'number' and key <> 'stage_min_models'",
        &[],
    );
    for key in numbers {
        for bound in ["lowest", "highest"] {
            client.batch_execute("begin").expect("begin");
            // Chunks are larger than what they share.
            let other = match (key.as_str(), bound) {
                ("chunk_tokens", "lowest") => "select dialectic.set_config('chunk_overlap_tokens', '0')",
                ("chunk_overlap_tokens", "highest") => "select dialectic.set_config('chunk_tokens', '1000000')",
                _ => "",
            };
            client.batch_execute(other).expect("another setting");
            let set = format!("select dialectic.set_config($1, to_jsonb({bound})) from dialectic._setting_bounds($1)");
            client.execute(&set, &[&key]).unwrap_or_else(|error| panic!("{key} {bound}: {error:?}"));
            let session: Uuid = one(&mut client, "select dialectic.run('x', process => 'essay')", &[]);
            client
                .query("select * from dialectic.explain($1)", &[&session])
                .unwrap_or_else(|error| panic!("{key} {bound}: {error:?}"));
            client.batch_execute("rollback").expect("rollback");
        }
    }
}

#[test]
fn a_whole_number_with_a_fraction_of_zero_is_stored_as_an_integer() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            "select dialectic.set_config('job_default_max_retries', '5.0'); \
             select dialectic.set_config('max_continuations', '2.00'); \
             select dialectic.run('x', process => 'essay')",
        )
        .expect("a session");
    let retries: i32 = one(&mut client, "select max(max_retries) from dialectic.jobs", &[]);
    assert_eq!(retries, 5);
    work(&mut client);
}

#[test]
fn generate_and_the_setting_share_the_bounds_of_retries() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project: Uuid = one(&mut client, "select dialectic.create_project('p', 'x')", &[]);
    let session: Uuid = one(&mut client, "select dialectic.start_session($1, '{sim-a}')", &[&project]);
    let generate = "select * from dialectic.generate($1, max_retries => 101)";
    let error = refused_with(&mut client, generate, &[&session], "22023", "max_retries");
    assert_eq!(error.hint(), Some("It must be from 0 to 100."));
}

#[test]
fn retention_of_sessions_is_a_whole_number_or_null() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let set = "select dialectic.set_config('session_retention_days', $1::text::jsonb)";
    for wrong in ["-1", "0.5", "\"90\"", "true"] {
        let error = refused_with(&mut client, set, &[&wrong], "22023", "session_retention_days");
        assert!(error.hint().is_some_and(|hint| hint.ends_with(", or null.")), "{error:?}");
    }
    for right in ["90", "null"] {
        client.execute(set, &[&right]).unwrap_or_else(|error| panic!("{right}: {error:?}"));
        assert_eq!(
            one::<String>(&mut client, "select dialectic.get_config('session_retention_days')::text", &[]),
            right
        );
    }
}
