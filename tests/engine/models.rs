//! Providers, models and where secrets are found: what is refused and by what name, what a price list becomes to the last digit,
//! and that a secret given by mistake stays nowhere.

use dialectic_tests::*;
use postgres::Client;

/// Looks like a key, and is in no other test.
const CANARY: &str = "sk-canary-7d1f4c";

fn all_refused(client: &mut Client, calls: &[(&str, &str, &str)]) {
    let before = mark(client);
    for (call, sqlstate, named) in calls {
        refused_with(client, &format!("select dialectic.{call}"), &[], sqlstate, named);
    }
    assert_eq!(mark(client), before);
}

#[test]
fn a_provider_is_spoken_to_only_in_ways_that_there_are() {
    let database = Database::new();
    let mut client = database.connect();
    all_refused(
        &mut client,
        &[
            ("add_provider('far', 'openai', 'far.example/v1')", "22023", "base_url"),
            ("add_provider('far', 'openai', 'https://')", "22023", "base_url"),
            ("add_provider('far', 'openai', 'https://far example')", "22023", "base_url"),
            ("add_provider('far', 'openai', 'https://far.example/v1?key=1')", "22023", "base_url"),
            ("add_provider('far', 'openai', 'https://me:word@far.example')", "22023", "base_url"),
            ("add_provider('far', 'openai', settings => null)", "22004", "settings"),
            ("add_provider('far', 'openai', settings => '[]')", "22023", "settings"),
            (r#"add_provider('far', 'openai', settings => '{"hedaers": {}}')"#, "22023", "hedaers"),
            (r#"add_provider('far', 'openai', settings => '{"connect_seconds": 0}')"#, "22023", "connect_seconds"),
            (
                r#"add_provider('far', 'openai', settings => '{"headers": {"Authorization": "x"}}')"#,
                "22023",
                "Authorization",
            ),
        ],
    );
    let error =
        refused(&mut client, "select dialectic.add_provider('far', 'openai', 'https://me:word@far.example')", &[]);
    assert!(!format!("{error:?}").contains("word@"), "{error:?}");
}

#[test]
fn the_address_of_a_provider_is_known_or_kept_without_the_slash_at_its_end() {
    let database = Database::new();
    let mut client = database.connect();
    for (given, kept) in [
        ("'openai'", "https://api.openai.com/v1"),
        ("'anthropic'", "https://api.anthropic.com"),
        ("'google'", "https://generativelanguage.googleapis.com"),
        ("'ollama'", "http://127.0.0.1:11434"),
        ("'openai', 'https://far.example/v1/'", "https://far.example/v1"),
        ("'ollama', 'http://[::1]:11434//'", "http://[::1]:11434"),
    ] {
        client.execute(&format!("select dialectic.add_provider('far', {given})"), &[]).expect(given);
        let url: String = one(&mut client, "select base_url from dialectic.providers where name = 'far'", &[]);
        assert_eq!(url, kept);
    }
}

#[test]
fn a_model_is_described_only_in_words_that_there_are() {
    let database = Database::new();
    let mut client = database.connect();
    all_refused(
        &mut client,
        &[
            ("add_model('new', 'openai', kind => 'image')", "22023", "image"),
            ("add_model('new', 'openai', kind => null)", "22023", "kind"),
            (r#"add_model('new', 'openai', settings => '["chat"]')"#, "22023", "settings"),
            (
                r#"add_model('new', 'openai', settings => '{"token_paramter": "max_tokens"}')"#,
                "22023",
                "token_paramter",
            ),
            (r#"add_model('new', 'openai', settings => '{"json": "always"}')"#, "22023", "always"),
            (r#"add_model('new', 'openai', settings => '{"prefill": 1}')"#, "22023", "settings"),
            (r#"add_model('new', 'openai', settings => '{"latency_ms": 1}')"#, "22023", "latency_ms"),
            (r#"add_model('new', 'simulator', settings => '{"json": "schema"}')"#, "22023", "json"),
            ("run('Why?', models => '{sim-a,text-embedding-3-small}')", "22023", "text-embedding-3-small"),
        ],
    );
    for (api, known) in [("simulator", "omit_always, wrap, continue and thinks_tokens"), ("openai", "token_parameter")]
    {
        let error = refused(
            &mut client,
            &format!(r#"select dialectic.add_model('new', '{api}', settings => '{{"mood": "bad"}}')"#),
            &[],
        );
        assert!(error.hint().is_some_and(|hint| hint.contains(known)), "{error:?}");
    }
}

#[test]
fn fallbacks_lead_somewhere_and_never_back() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute(
            "select dialectic.add_model('c', 'simulator');
             select dialectic.add_model('b', 'simulator', fallback => 'c');
             select dialectic.add_model('a', 'simulator', fallback => 'b');
             select dialectic.add_model('v', 'simulator', context_window => 100, max_output_tokens => 4096, kind => 'embedding');",
        )
        .expect("a chain");
    all_refused(
        &mut client,
        &[
            ("add_model('c', 'simulator', fallback => 'c')", "22023", "the model itself"),
            ("add_model('c', 'simulator', fallback => 'b')", "22023", "leads back"),
            ("add_model('c', 'simulator', fallback => 'a')", "22023", "leads back"),
            ("add_model('c', 'simulator', fallback => 'nobody')", "42704", "nobody"),
            ("add_model('c', 'simulator', fallback => 'v')", "22023", "fallback"),
            ("add_model('v', 'simulator', fallback => 'c', kind => 'embedding')", "22023", "fallback"),
            ("add_model('c', 'simulator', kind => 'embedding')", "22023", "kind"),
        ],
    );
    client.execute("select dialectic.add_model('c', 'simulator', fallback => 'sim-a')", &[]).expect("a longer chain");
}

#[test]
fn a_secret_that_is_given_itself_is_refused_and_stays_nowhere() {
    let database = Database::new();
    let mut client = database.connect();
    let before = mark(&mut client);
    let given = [
        CANARY.to_owned(),
        format!("{CANARY}\n"),
        format!("env:{CANARY}"),
        format!("env: {CANARY}"),
        format!("ENV:{CANARY}"),
        format!("file:{CANARY}"),
        format!("file:/etc/{CANARY}"),
        format!("file:/run/secrets/../../{CANARY}"),
        format!("file:/run/secrets/./{CANARY}"),
        format!("file:/run/secrets//{CANARY}"),
        format!("file:/run/secrets/{CANARY}/.."),
        format!("file:/run/secrets/{CANARY}\n"),
        format!("file://host/{CANARY}"),
        format!("https://{CANARY}"),
        String::new(),
    ];
    for reference in given {
        for call in [
            format!("select dialectic.set_secret('openai', '{reference}')"),
            format!("select dialectic.add_provider('far', 'openai', secret => '{reference}')"),
        ] {
            let error = refused_with(&mut client, &call, &[], "22023", "");
            assert!(!format!("{error:?}").contains(CANARY), "{error:?}");
        }
    }
    assert_eq!(mark(&mut client), before);
    let literal = refused(&mut client, &format!("select dialectic.set_secret('openai', '{CANARY}')"), &[]);
    assert_eq!(
        literal.hint(),
        Some("It would stay in the server log, in WAL and in every backup. Use env:NAME or file:/path.")
    );
    refused_with(&mut client, "select dialectic.set_secret('nobody', 'env:KEY')", &[], "42704", "nobody");
    // The server writes down the statements that fail; not these.
    let log = std::env::var("DIALECTIC_LOG").expect("DIALECTIC_LOG; run the tests with `dev/test engine`");
    let log = String::from_utf8_lossy(&std::fs::read(log).expect("the log of the server")).into_owned();
    assert!(log.contains("this is none"), "the refusals are in the log");
    assert!(!log.contains(CANARY), "a secret is in the log");
}

#[test]
fn a_reference_is_kept_where_nobody_reads_it_and_wakes_its_provider() {
    let database = Database::new();
    let mut client = database.connect();
    let mut admin = database.connect_as("secret_admin");
    client.execute("select dialectic.grant_admin('secret_admin')", &[]).expect("grant_admin");
    // In one transaction: a worker that starts forgets what was paused before, and would forget these.
    client
        .batch_execute(
            "begin; insert into dialectic.provider_cooldowns (provider, paused_reason) values ('openai', 'no key'), ('google', 'no key'); \
             set local role secret_admin; \
             select dialectic.set_secret('openai', 'env:DIALECTIC_OPENAI_API_KEY'); \
             select dialectic.set_secret('openai', 'file:/run/secrets/openai'); \
             reset role",
        )
        .expect("two pauses, one mended");
    assert_eq!(
        column::<String>(&mut client, "select provider from dialectic.provider_cooldowns order by 1", &[]),
        ["google"]
    );
    client.batch_execute("commit").expect("commit");
    admin
        .execute("select dialectic.add_provider('far', 'openai', secret => 'env:DIALECTIC_FAR_KEY')", &[])
        .expect("add_provider");
    admin
        .execute("select dialectic.add_provider('far', 'openai', max_concurrency => 2)", &[])
        .expect("the secret stays");
    let kept = "select provider || ' ' || reference from dialectic.secrets order by 1";
    assert_eq!(
        column::<String>(&mut client, kept, &[]),
        ["far env:DIALECTIC_FAR_KEY", "openai file:/run/secrets/openai"]
    );

    assert_eq!(refused(&mut admin, "select * from dialectic.secrets", &[]).code().code(), "42501");
    // Even a role that was given the table by mistake sees no row of it.
    client.execute("grant select on dialectic.secrets to secret_admin", &[]).expect("a mistake");
    assert_eq!(one::<i64>(&mut admin, "select count(*) from dialectic.secrets", &[]), 0);
    let views: Vec<String> = column(
        &mut client,
        "select distinct c.relname::text from pg_depend d join pg_rewrite r on r.oid = d.objid join pg_class c on c.oid = r.ev_class \
         where d.refobjid = 'dialectic.secrets'::regclass and d.classid = 'pg_rewrite'::regclass",
        &[],
    );
    assert_eq!(views, [] as [String; 0]);

    admin.execute("select dialectic.set_secret('openai', null)", &[]).expect("forgotten");
    assert_eq!(column::<String>(&mut client, kept, &[]), ["far env:DIALECTIC_FAR_KEY"]);
}

#[test]
fn a_superuser_decides_where_secrets_may_be() {
    let database = Database::new();
    let mut client = database.connect();
    client.execute("select dialectic.grant_admin('prefix_admin')", &[]).unwrap_or_else(|_| {
        drop(database.connect_as("prefix_admin"));
        client.execute("select dialectic.grant_admin('prefix_admin')", &[]).expect("grant_admin")
    });
    // As the first thing of a connection, before the library is there to object.
    let mut admin = database.connect_as("prefix_admin");
    let _ = admin.batch_execute("set dialectic.secret_prefixes = 'file:/'");
    refused_with(&mut admin, "select dialectic.set_secret('openai', 'file:/etc/shadow')", &[], "22023", "not allowed");

    client.batch_execute("set dialectic.secret_prefixes = 'file:/srv/keys/'").expect("superuser");
    client.execute("select dialectic.set_secret('openai', 'file:/srv/keys/openai')", &[]).expect("allowed");
    refused_with(&mut client, "select dialectic.set_secret('openai', 'env:KEY')", &[], "22023", "not allowed");
    client.batch_execute("set dialectic.secret_prefixes = ''").expect("superuser");
    refused_with(&mut client, "select dialectic.set_secret('openai', 'env:KEY')", &[], "22023", "not allowed");
}

/// Entries of LiteLLM's list as it stood at 00035b69, some fields left out; the last ones are made up.
const PRICES: &str = r#"{
    "sample_spec": {"input_cost_per_token": 0.0, "litellm_provider": "one of https://docs.litellm.ai/docs/providers",
        "max_input_tokens": "max input tokens, if the provider specifies it", "mode": "one of: chat, embedding, completion"},
    "gemini/gemini-2.5-flash-lite": {"cache_read_input_token_cost": 1e-08, "input_cost_per_token": 1e-07, "litellm_provider": "gemini",
        "max_input_tokens": 1048576, "max_output_tokens": 65535, "mode": "chat", "output_cost_per_reasoning_token": 4e-07,
        "output_cost_per_token": 4e-07, "rpm": 15, "supports_response_schema": true, "supports_system_messages": true},
    "gemini/gemini-2.0-flash-lite": {"cache_read_input_token_cost": 1.875e-08, "input_cost_per_token": 7.5e-08, "litellm_provider": "gemini",
        "max_input_tokens": 1048576, "max_output_tokens": 8192, "mode": "chat", "output_cost_per_token": 3e-07,
        "supports_response_schema": true},
    "claude-opus-4-1": {"cache_creation_input_token_cost": 1.875e-05, "cache_read_input_token_cost": 1.5e-06, "input_cost_per_token": 1.5e-05,
        "litellm_provider": "anthropic", "max_input_tokens": 200000, "max_output_tokens": 32000, "mode": "chat",
        "output_cost_per_token": 7.5e-05, "supports_native_structured_output": true},
    "gpt-5-codex": {"cache_read_input_token_cost": 1.25e-07, "input_cost_per_token": 1.25e-06, "litellm_provider": "openai",
        "max_input_tokens": 272000, "max_output_tokens": 128000, "mode": "responses", "output_cost_per_token": 1e-05,
        "supports_reasoning": true, "supports_response_schema": true, "supports_system_messages": false},
    "gpt-5-nano": {"cache_read_input_token_cost": 6e-09, "input_cost_per_token": 5e-08, "litellm_provider": "openai",
        "max_input_tokens": 272000, "max_output_tokens": 128000, "mode": "chat", "output_cost_per_token": 4e-07},
    "text-embedding-ada-002": {"input_cost_per_token": 1e-07, "litellm_provider": "openai", "max_input_tokens": 8191, "mode": "embedding",
        "output_cost_per_token": 0.0, "output_vector_size": 1536},
    "gpt-image-1": {"input_cost_per_token": 5e-06, "litellm_provider": "openai", "mode": "image_generation"},
    "perplexity/sonar": {"input_cost_per_token": 1e-06, "litellm_provider": "perplexity", "max_input_tokens": 128000, "mode": "chat"},
    "groq/all-window": {"input_cost_per_token": 5.9e-07, "litellm_provider": "groq", "max_input_tokens": 128000, "max_output_tokens": 128000,
        "mode": "chat", "output_cost_per_token": 7.9e-07},
    "groq/gpt-5": {"input_cost_per_token": 1, "litellm_provider": "groq", "max_input_tokens": 10, "max_output_tokens": 1, "mode": "chat",
        "output_cost_per_token": 1},
    "groq/no-limit": {"input_cost_per_token": 1e-06, "litellm_provider": "groq", "mode": "chat", "output_cost_per_token": 1e-06},
    "groq/no-price": {"litellm_provider": "groq", "max_input_tokens": 10, "max_output_tokens": 1, "mode": "chat"},
    "groq/dear": {"input_cost_per_token": 2, "litellm_provider": "groq", "max_input_tokens": 10, "max_output_tokens": 1, "mode": "chat",
        "output_cost_per_token": 1},
    "groq/wide": {"input_cost_per_token": 0, "litellm_provider": "groq", "max_input_tokens": 1e99, "max_output_tokens": 1, "mode": "chat",
        "output_cost_per_token": 0},
    "groq/two words": {"input_cost_per_token": 0, "litellm_provider": "groq", "max_input_tokens": 10, "max_output_tokens": 1, "mode": "chat",
        "output_cost_per_token": 0},
    "sim-a": {"litellm_provider": "simulator", "mode": "chat"},
    "a text": "is no entry"
}"#;

#[test]
fn a_price_list_becomes_models_to_the_last_digit() {
    let database = Database::new();
    let mut client = database.connect();
    let import = format!("select model || ': ' || action from dialectic.import_models('{PRICES}') order by 1");
    let expected = [
        "a text: skipped: it is no object",
        "all-window: added",
        "claude-opus-4-1: added",
        "dear: skipped: input_price cannot be 2000000",
        "gemini-2.0-flash-lite: added",
        "gemini-2.5-flash-lite: unchanged",
        "gpt-5-codex: added",
        "gpt-5-nano: changed",
        "gpt-image-1: skipped: mode is \"image_generation\"",
        "groq/gpt-5: skipped: a model of this name is at provider \"openai\"",
        "groq/no-limit: skipped: max_input_tokens is missing",
        "groq/no-price: skipped: input_cost_per_token is missing",
        "perplexity/sonar: skipped: there is no provider \"perplexity\"",
        "sample_spec: skipped: there is no provider \"one of https://docs.litellm.ai/docs/prov\"",
        "sim-a: skipped: its provider is a simulator",
        "text-embedding-ada-002: added",
        "two words: skipped: the name of a model cannot be \"two words\"",
        "wide: skipped: integer out of range",
    ];
    let mut done = column::<String>(&mut client, &import, &[]);
    done.sort();
    assert_eq!(done, expected);
    let models: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', name, provider, api_model, kind, context_window, max_output_tokens, input_price, output_price, \
             coalesce(cached_price::text, '-'), coalesce(cache_write_price::text, '-'), coalesce(reasoning_price::text, '-'), settings) \
         from dialectic.models where not is_shipped order by name collate \"C\"",
        &[],
    );
    assert_eq!(
        models,
        [
            r#"all-window groq all-window chat 128000 32000 0.59 0.79 - - - {"token_parameter": "max_tokens"}"#,
            r#"claude-opus-4-1 anthropic claude-opus-4-1 chat 200000 32000 15 75 1.5 18.75 - {"json": "schema"}"#,
            r#"gemini-2.0-flash-lite google gemini-2.0-flash-lite chat 1048576 8192 0.075 0.3 0.01875 - - {"json": "schema"}"#,
            r#"gpt-5-codex openai gpt-5-codex chat 272000 128000 1.25 10 0.125 - - {"json": "schema", "dialect": "responses", "sampling": []}"#,
            // What is known of how it is spoken to stays.
            r#"gpt-5-nano openai gpt-5-nano chat 272000 128000 0.05 0.4 0.006 - - {"json": "schema", "sampling": [], "system_role": "developer"}"#,
            r#"text-embedding-ada-002 openai text-embedding-ada-002 embedding 8191 1 0.1 0 - - - {}"#,
        ]
    );
    let before = mark(&mut client);
    let again: Vec<String> = column(&mut client, &import, &[]);
    assert!(again.iter().all(|line| line.ends_with("unchanged") || line.contains("skipped: ")), "{again:#?}");
    assert_eq!(mark(&mut client), before);
    assert_sound(&mut client);
}

#[test]
fn a_price_list_is_read_for_one_provider_or_refused_whole() {
    let database = Database::new();
    let mut client = database.connect();
    let models: Vec<String> = column(
        &mut client,
        &format!("select model from dialectic.import_models('{PRICES}', 'google') order by 1"),
        &[],
    );
    assert_eq!(models, ["gemini-2.0-flash-lite", "gemini-2.5-flash-lite"]);
    all_refused(
        &mut client,
        &[
            ("import_models('[]')", "22023", "price list"),
            ("import_models('\"x\"')", "22023", "price list"),
            ("import_models(null)", "22023", "price list"),
            ("import_models('{}', 'nobody')", "42704", "nobody"),
        ],
    );
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.import_models('{}')", &[]), 0);
}

#[test]
fn the_models_that_ship_are_whole_and_the_simulator_is_what_runs_unasked() {
    let database = Database::new();
    let mut client = database.connect();
    let known: i64 = one(
        &mut client,
        "select count(*) from dialectic.models where name in ('gpt-5', 'claude-sonnet-4-5', 'gemini-2.5-pro', 'llama3.1:8b')",
        &[],
    );
    assert_eq!(known, 4);
    let odd: Vec<String> = column(
        &mut client,
        "select m.name from dialectic.models m join dialectic.providers p on p.name = m.provider \
         where (m.input_price = 0) <> (p.api in ('simulator', 'ollama')) or m.cached_price > m.input_price or m.cache_write_price < m.input_price \
            or (m.kind = 'chat' and m.output_price < m.input_price) or (m.kind = 'embedding') <> (m.max_output_tokens = 1)",
        &[],
    );
    assert_eq!(odd, [] as [String; 0]);
    let unasked: String = one(&mut client, "select dialectic.get_config('default_models')::text", &[]);
    assert_eq!(unasked, r#"["sim-a", "sim-b"]"#);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.secrets", &[]), 0);
}
