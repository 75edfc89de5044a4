//! The public surface as it is called: by named arguments, as the first thing a connection does, and amid hostile names.

use dialectic_tests::*;
use postgres::Client;

const RECIPE: &str = r#"{"steps": [{"step": 1, "key": "write", "name": "Write", "job_type": "execute",
    "prompt_template_name": "essay_thesis", "inputs_required": [{"type": "seed_prompt", "relevance": 1.0}],
    "granularity_strategy": "all_to_one", "output_type": "text", "document_key": "text", "file_type": "markdown"}]}"#;

fn done(client: &mut Client, statement: &str) {
    client.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}\n{error:?}"));
}

#[test]
fn everything_can_be_called_by_the_names_of_its_arguments() {
    let database = Database::by_hand();
    drop((database.connect_as("named_user"), database.connect_as("named_admin")));
    let mut client = database.connect();
    for statement in [
        "select dialectic.add_provider(name => 'p', api => 'simulator', base_url => null, secret => 'env:DIALECTIC_KEY', max_concurrency => 2, \
                                       requests_per_minute => 60, tokens_per_minute => 1000, settings => '{}')",
        "select dialectic.add_model(name => 'm', provider => 'p', api_model => 'x', context_window => 9000, max_output_tokens => 800, \
                                    tokenizer => 'simulator', input_price => 1, output_price => 2, settings => '{}', cached_price => 0.1, \
                                    cache_write_price => 1.2, reasoning_price => 2, max_concurrency => 5, requests_per_minute => 6, \
                                    tokens_per_minute => 7000, fallback => 'sim-a', kind => 'chat')",
        "select dialectic.set_secret(provider => 'p', reference => 'env:DIALECTIC_OTHER_KEY')",
        "select * from dialectic.import_models(price_list => '{}', provider => 'openai')",
        "select dialectic.set_prompt(name => 'seed', body => '{{ original_user_request }}')",
        "select dialectic.render_prompt(name => 'seed', vars => '{\"original_user_request\": \"x\"}')",
        &format!("select dialectic.validate_recipe(recipe => '{RECIPE}')"),
        &format!(
            "select * from dialectic.plan(recipe => '{RECIPE}', sources => '[{{\"id\": \"01890000-0000-7000-8000-000000000001\", \"type\": \"seed_prompt\"}}]', models => '{{m}}')"
        ),
        &format!(
            "select dialectic.define_process(name => 'one', stages => '[{{\"slug\": \"only\", \"seed_prompt_template\": \"seed\", \"recipe\": {RECIPE}}}]')"
        ),
        &format!(
            "select dialectic.define_stage(process => 'one', slug => 'more', recipe => '{RECIPE}', seed_prompt_template => 'seed')"
        ),
        "select dialectic.set_config(key => 'max_continuations', value => '6')",
        "select dialectic.get_config(key => 'max_continuations')",
        "select dialectic.grant_user(role => 'named_user'), dialectic.grant_admin(role => 'named_admin')",
    ] {
        done(&mut client, statement);
    }
    let project: Uuid = one(
        &mut client,
        "select dialectic.create_project(name => 'n', prompt => 'p', domain => 'general', process => 'one', idempotency_key => 'k')",
        &[],
    );
    one::<Uuid>(
        &mut client,
        "select dialectic.add_resource(project => $1, name => 'n', content => 'c', kind => 'domain_standards')",
        &[&project],
    );
    let session: Uuid = one(
        &mut client,
        "select dialectic.start_session(project => $1, models => '{m}', description => 'd', auto_advance => false)",
        &[&project],
    );
    let root: Uuid = one(
        &mut client,
        "select job_id from dialectic.generate(session => $1, stage => 'only', models => '{m}', continue_until_complete => true, \
         max_retries => 1, max_output_tokens => 100, idempotency_key => 'g', test => false)",
        &[&session],
    );
    for (verb, moved) in [("pause", 1), ("resume", 1), ("cancel", 1), ("retry", 1)] {
        assert_eq!(one::<i32>(&mut client, &format!("select dialectic.{verb}(id => $1)"), &[&root]), moved, "{verb}");
    }
    let claimed = "select id, claim_id from dialectic.claim_jobs(worker => 'w', max_jobs => 1, lease => '1 min')";
    let plan = client.query_one(claimed, &[]).expect("the plan");
    let (id, claim): (Uuid, i64) = (plan.get(0), plan.get(1));
    assert_eq!(id, root);
    one::<String>(&mut client, "select dialectic.complete_job(job => $1, claim_id => $2)", &[&id, &claim]);
    let leaf = client.query_one(claimed, &[]).expect("the call");
    let (id, claim): (Uuid, i64) = (leaf.get(0), leaf.get(1));
    client.query_one("select dialectic.job_request(job => $1)", &[&id]).expect("a request");
    let failed: String = one(
        &mut client,
        "select dialectic.fail_job(job => $1, claim_id => $2, class => 'throttled', message => 'slow', retry_after => '0')",
        &[&id, &claim],
    );
    assert_eq!(failed, "pending");
    let leaf = client.query_one(claimed, &[]).expect("the call again");
    let completed: String = one(
        &mut client,
        "select dialectic.complete_job(job => $1, claim_id => $2, answer => 'a', finish_reason => 'stop', usage => '{}')",
        &[&leaf.get::<_, Uuid>(0), &leaf.get::<_, i64>(1)],
    );
    assert_eq!(completed, "completed");
    done(&mut client, "call dialectic.run_pending(max_jobs => 10)");
    done(&mut client, &format!("call dialectic.wait(session => '{session}', timeout => '1 s')"));
    assert_eq!(
        one::<String>(&mut client, "select dialectic.submit_stage(session => $1, feedback => 'f')", &[&session]),
        "more"
    );
    done(&mut client, &format!("select * from dialectic.progress(session => '{session}')"));
    done(&mut client, &format!("select * from dialectic.job_tree(session => '{session}')"));
    one::<Uuid>(
        &mut client,
        "select dialectic.run(prompt => 'p', models => '{m}', process => 'one', domain => 'general', name => 'n', through => 'only', test => true)",
        &[],
    );
    for looked_at in ["blocked", "documents", "health()", "self_check()"] {
        done(&mut client, &format!("select * from dialectic.{looked_at}"));
    }
}

/// Nothing has loaded the library when a connection begins; the first statement does, whichever it is.
#[test]
fn every_verb_works_as_the_first_statement_of_a_connection() {
    let database = Database::new();
    let mut client = database.connect_as("first_words");
    database.connect().batch_execute("select dialectic.grant_user('first_words')").expect("grant");
    let session: Uuid = one(&mut client, "select dialectic.run('p', models => '{sim-a}', process => 'essay')", &[]);
    for statement in [
        "select count(*) from dialectic.projects",
        "select count(*) from dialectic.jobs",
        "select count(*) from dialectic.documents",
        "select count(*) from dialectic.blocked",
        "select count(*) from dialectic.health()",
        "select count(*) from dialectic.progress('SESSION')",
        "select count(*) from dialectic.job_tree('SESSION')",
        "select dialectic.pause('SESSION')::bigint",
        "select dialectic.resume('SESSION')::bigint",
        "select dialectic.cancel('SESSION')::bigint",
        "select dialectic.retry('SESSION')::bigint",
        "select count(*) from dialectic.create_project('n', 'p')",
        "select count(*) from dialectic.start_session((select id from dialectic.projects limit 1), '{sim-a}')",
        "select count(*) from dialectic.add_resource((select id from dialectic.projects limit 1), 'n', 'c')",
        "select count(*) from dialectic.plan('{\"steps\": []}', '[]', '{m}')",
    ] {
        let statement = statement.replace("SESSION", &session.to_string());
        for role in ["first_words", "postgres"] {
            let mut fresh = if role == "postgres" { database.connect() } else { database.connect_as(role) };
            match fresh.query_one(&statement, &[]) {
                Ok(_) => {}
                // A recipe without steps is refused, in words of our own.
                Err(error) if statement.contains("steps") => {
                    assert_eq!(error.code().map(|c| c.code()), Some("22023"), "{error:?}")
                }
                Err(error) => panic!("{role}: {statement}\n{error:?}"),
            }
        }
    }
}

/// Before the library is loaded anybody can set a placeholder of the same name.
#[test]
fn an_identity_cannot_be_smuggled_in_before_the_library_is_loaded() {
    let database = Database::new();
    let mut admin = database.connect();
    drop(database.connect_as("authenticated"));
    done(&mut admin, "select dialectic.grant_user('authenticated')");
    let session: Uuid = one(&mut admin, "select dialectic.run('p', models => '{sim-a}', process => 'essay')", &[]);
    done(
        &mut admin,
        "update dialectic.projects set owner = 'jwt:victim'; update dialectic.sessions set owner = 'jwt:victim'",
    );
    let mut thief = database.connect_as("authenticated");
    let smuggled = thief.batch_execute("set dialectic.identity = 'jwt'");
    // Where the library is preloaded there is no such before.
    let refusal = smuggled.err().and_then(|error| error.code().map(|code| code.code().to_owned()));
    assert_eq!(refusal.as_deref(), preloaded().then_some("42501"));
    done(&mut thief, "set request.jwt.claims = '{\"sub\": \"victim\"}'");
    let owner: String = one(&mut thief, "select dialectic._current_owner()", &[]);
    assert_eq!(owner, "role:authenticated");
    refused_with(&mut thief, "select dialectic.cancel($1)", &[&session], "P0002", &session.to_string());
}

#[test]
fn an_admin_works_the_queue_amid_hostile_names() {
    let database = Database::by_hand();
    let mut client = database.connect_as("hostile_admin");
    let mut owner = database.connect();
    done(&mut owner, "select dialectic.grant_admin('hostile_admin')");
    // In front of everything stand operators, functions and types of the names that the procedures use; none does any good.
    done(
        &mut owner,
        r#"
        create schema hostile;
        do $$
        declare
            kind record;
            sign text;
            word text;
        begin
            for kind in select * from (values ('integer', 'integer'), ('double precision', 'integer'), ('double precision', 'double precision'),
                ('timestamptz', 'interval'), ('timestamptz', 'timestamptz')) as k(a, b) loop
                foreach sign in array array['<', '>', '=', '>=', '-', '+', '*'] loop
                    word := format('bad_%s', md5(kind.a || kind.b || sign));
                    execute format('create function hostile.%I(%s, %s) returns boolean language plpgsql as %L', word, kind.a, kind.b,
                                   'begin raise exception ''hostile operator''; end');
                    execute format('create operator hostile.%s (leftarg = %s, rightarg = %s, function = hostile.%I)', sign, kind.a, kind.b, word);
                end loop;
            end loop;
            foreach word in array array['cardinality(uuid[])', 'clock_timestamp()', '_in_transaction_block()', '_open_claimer(text)',
                '_free_threads()', '_claim_batch(text, integer, uuid, uuid[])', '_make(text, uuid[], uuid[])', '_calls_in_flight()', '_keep_replies()',
                '_next_due(boolean)', '_close_claimer()', '_session_state(uuid)', '_send_requests(jsonb)'] loop
                execute format('create function hostile.%s returns boolean language plpgsql as %L', word, 'begin raise exception ''hostile function''; end');
            end loop;
            foreach word in array array['text', 'int4', 'float8', 'uuid', 'timestamptz', 'bool', 'record', 'jsonb'] loop
                execute format('create type hostile.%I as (x pg_catalog.int4)', word);
            end loop;
        end $$;
        grant usage on schema hostile to hostile_admin;
        "#,
    );
    let session: Uuid = one(&mut client, "select dialectic.run('p', models => '{sim-a}', process => 'essay')", &[]);
    done(&mut client, "set search_path = hostile, pg_catalog");
    assert!(client.query("select 1 < 2", &[]).is_err(), "the trap is not set");
    done(&mut client, "call dialectic.run_pending(1000)");
    done(&mut client, &format!("call dialectic.wait('{session}')"));
    assert_eq!(one::<String>(&mut owner, "select status from dialectic.sessions", &[]), "completed");
    assert_sound(&mut owner);
}

#[test]
fn run_pending_ends_after_max_jobs() {
    let database = Database::by_hand();
    let mut client = database.connect();
    generated(&mut client, &["sim-a", "sim-b"]);
    for begun in 1..=4i64 {
        done(&mut client, "call dialectic.run_pending(max_jobs => 1)");
        let seen: i64 = one(&mut client, "select count(*) from dialectic.jobs where started_at is not null", &[]);
        assert!(seen <= begun, "{seen} jobs were begun in {begun} calls for one each");
        let running: i64 = one(&mut client, "select count(*) from dialectic.jobs where status = 'processing'", &[]);
        assert_eq!(running, 0, "a job was left in the middle");
    }
    assert_eq!(one::<i64>(&mut client, "select sum(attempt_count) from dialectic.jobs", &[]), 2);
}

#[test]
fn a_uuid_made_later_sorts_later_and_is_of_version_7() {
    let database = Database::new();
    let mut client = database.connect();
    let row = client
        .query_one(
            "with begun as materialized (select extract(epoch from clock_timestamp()) * 1000 as at),
                  made as materialized (select n, dialectic._uuid_v7() as id from begun, generate_series(1, 100000) as n),
                  seen as (select id, lag(id) over (order by n) as before,
                                  ('x' || lpad(replace(left(id::text, 13), '-', ''), 16, '0'))::bit(64)::bigint as at from made)
             select count(*), count(*) filter (where id <= before), count(*) filter (where substr(id::text, 15, 1) <> '7'),
                    count(*) filter (where substr(id::text, 20, 1) not in ('8', '9', 'a', 'b')),
                    count(*) filter (where seen.at < floor(begun.at) or seen.at > extract(epoch from clock_timestamp()) * 1000)
             from seen, begun",
            &[],
        )
        .expect("uuids");
    let counts: Vec<i64> = (0..5).map(|n| row.get(n)).collect();
    assert_eq!(counts, [100_000, 0, 0, 0, 0], "made, out of order, other version, other variant, out of time");
}

#[test]
fn every_shipped_prompt_renders_and_none_without_its_variables() {
    let database = Database::new();
    let mut client = database.connect();
    let names: Vec<String> =
        column(&mut client, "select name from dialectic.prompt_templates where is_shipped order by 1", &[]);
    assert!(names.len() >= 14, "{names:?}");
    for keys in ["[]", r#"["title", "body"]"#] {
        let vars = serde_json::from_str::<serde_json::Value>(&format!(
            r#"{{"original_user_request": "REQUEST {{{{ 7*7 }}}}", "process": "essay", "domain": "general", "iteration": 1,
                 "stage": {{"slug": "thesis", "display_name": "Proposal"}}, "model": "sim-a", "header_context": "HEADER",
                 "target_words": 99, "overlay": {{"role": "ROLE", "style_guide": "STYLE", "stage_instructions": "INSTRUCTIONS"}},
                 "step": {{"key": "k", "name": "n", "output_type": "thesis", "document_key": "d"}}, "content_keys": {keys},
                 "content_to_include": {{"title": "HINT"}}, "missing": ["title"], "shape": {{"title": "HINT"}},
                 "why": "cut", "is_json": true, "is_closed": false, "document_key": "d", "tail": "LAST", "open_at": null,
                 "open_list": {{"path": "points", "items": 2, "last_complete": "ITEM", "interrupted": null}},
                 "documents": [{{"type": "thesis", "author": "sim-b", "reviewer": null, "about": null, "stage": "thesis", "content": "DOCUMENT"}},
                               {{"type": "thesis", "author": "sim-c", "reviewer": null, "about": null, "stage": "thesis", "content": "OTHER"}}]}}"#
        ))
        .expect("values");
        for name in &names {
            let text: String = one(&mut client, "select dialectic.render_prompt($1, $2)", &[name, &vars]);
            assert!(!text.trim().is_empty(), "{name} is empty");
            assert!(!text.contains("{%") && !text.replace("{{ 7*7 }}", "").contains("{{"), "{name}: {text}");
            // A repair follows the turn it mends, and the request is there.
            let part = name.starts_with("shared_") || name == "repair_missing_keys" || name == "continue_answer";
            let says_request = !part || name == "shared_request";
            assert_eq!(text.contains("REQUEST {{ 7*7 }}"), says_request, "{name}: {text}");
        }
    }
    let optional = ["shared_role", "shared_style", "shared_instructions"];
    for name in names.iter().filter(|name| !optional.contains(&name.as_str())) {
        refused_with(&mut client, "select dialectic.render_prompt($1, '{}')", &[name], "22023", "unknown variable");
    }
}

#[test]
fn leaf_functions_are_inlined() {
    let database = Database::new();
    let mut client = database.connect();
    for (function, call) in [
        ("_dollars", "_dollars(c.cost)"),
        ("_count_with_noun", "_count_with_noun(c.cost, 'dollar')"),
        ("_cost", "_cost(c.prices, c.input_tokens, c.cached_tokens, 0, c.output_tokens, 0)"),
        ("_min_models", "_min_models()"),
        ("_key_of", "_key_of(j)"),
    ] {
        let plan: Vec<String> = column(
            &mut client,
            &format!(
                "explain (verbose, costs off) select dialectic.{call} from dialectic.model_calls c \
                 join dialectic.jobs j on j.id = c.job_id"
            ),
            &[],
        );
        let output = plan.iter().find(|line| line.contains("Output:")).expect("the output of the plan");
        assert!(!output.contains(&format!("dialectic.{function}(")), "{output}");
    }
}
