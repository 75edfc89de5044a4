//! Null where a value is needed: a clean error that names the argument, never one from the inside of the engine.

use dialectic_tests::*;

/// Whose result is defined when all arguments are null: for all the jobs there are.
const MAY_SUCCEED: [&str; 1] = ["run_pending"];

#[test]
fn a_call_with_nothing_but_nulls_is_a_clean_error() {
    let database = Database::new();
    let mut client = database.connect();
    let functions = client
        .query(
            "select proname::text, format(case prokind when 'p' then 'call dialectic.%I(%s)' else 'select * from dialectic.%I(%s)' end, proname, \
                 (select string_agg('null::' || format_type(t, null), ', ' order by n) from unnest(proargtypes::oid[]) with ordinality as a(t, n))) \
             from pg_proc where pronamespace = 'dialectic'::regnamespace and proname not like '\\_%' and pronargs > 0 \
               and prorettype <> 'trigger'::regtype order by 1",
            &[],
        )
        .expect("functions");
    assert!(functions.len() >= 30);
    let before = mark(&mut client);
    for function in functions {
        let (name, call): (String, String) = (function.get(0), function.get(1));
        if MAY_SUCCEED.contains(&name.as_str()) {
            client.batch_execute(&call).expect("a defined result");
            continue;
        }
        let error = refused(&mut client, &call, &[]);
        // Missing, unknown, not valid: nothing from the inside of the engine.
        assert!(["22004", "22023", "42704", "P0002"].contains(&error.code().code()), "{call}: {error:?}");
        assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{call}: no hint: {error:?}");
    }
    assert_eq!(mark(&mut client), before);
}

#[test]
fn one_null_among_good_arguments_is_a_clean_error_too() {
    let database = Database::new();
    let mut client = database.connect();
    let plan = "select * from dialectic.plan('{\"steps\": []}', ";
    let no_sources = format!("{plan} null, '{{sim-a}}')");
    let no_models = format!("{plan} '[]', null)");
    let null_model = format!("{plan} '[]', '{{null}}')");
    let model = "select dialectic.add_model('new', 'simulator', ? => null)";
    let [window, tokens, price, settings] =
        ["context_window", "max_output_tokens", "input_price", "settings"].map(|name| model.replace('?', name));
    let before = mark(&mut client);
    for (query, sqlstate, named) in [
        (window.as_str(), "22023", "context_window"),
        (&tokens, "22023", "max_output_tokens"),
        (&price, "22023", "input_price"),
        (&settings, "22004", "settings"),
        ("select dialectic.claim_jobs('worker', null)", "22023", "max_jobs"),
        ("select dialectic.claim_jobs('worker', 1, null)", "22023", "lease"),
        ("select dialectic.claim_jobs(null, 1)", "22004", "worker"),
        (&no_sources, "22004", "sources"),
        (&no_models, "22004", "models"),
        (&null_model, "22004", "models"),
        ("select dialectic.define_process('new', null)", "22023", "stages"),
        ("select dialectic.define_process('new', '[null]')", "22023", "slug"),
        ("select dialectic.define_stage('essay', null, '{}')", "22023", "slug"),
    ] {
        refused_with(&mut client, query, &[], sqlstate, named);
    }
    assert_eq!(mark(&mut client), before);
    let session = generated(&mut client, &["sim-a"]);
    refused_with(&mut client, "call dialectic.wait($1, null)", &[&session], "22023", "timeout");
}
