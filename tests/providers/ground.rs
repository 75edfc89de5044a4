//! What laws of calls stand on: a process of one step, providers and models that a scripted server plays, sessions with as many
//! calls as wanted.
//!
//! The server of a law is the one of the environment, or one of its own where it needs settings of its own (`own`). Never scripts
//! a provider.

use dialectic_core::provider::dialect::Dialect;
use dialectic_tests::fake_provider::Provider;
use dialectic_tests::server::Server;
use dialectic_tests::*;
use postgres::Client;
use std::time::{Duration, Instant};

/// How a private server lets its providers be reached.
pub(crate) const LOOPBACK: &str = "dialectic.allowed_hosts = '*, 127.0.0.1'";
/// How many calls came to what, in words.
pub(crate) const OUTCOMES: &str = "select concat_ws(' ', count(*), outcome, error_class) from dialectic.model_calls \
                                   group by outcome, error_class order by outcome, error_class";

/// Makes the process of one step that asks for a text, once for every text it is given; nobody waits to try again.
pub(crate) fn process(client: &mut Client) {
    client
        .batch_execute(
            r#"
            select dialectic.set_config('retry_base_seconds', '0');
            select dialectic.set_prompt('cell_seed', 'Brief.');
            select dialectic.set_prompt('cell_text', '{% block system %}Be brief.{% endblock %}{% block user %}{% include "shared_documents" %}Go on.{% endblock %}');
            select dialectic.define_process('cell', '[{"slug": "cell", "seed_prompt_template": "cell_seed", "recipe": {"steps": [
                {"step": 1, "key": "text", "name": "Text", "job_type": "execute", "prompt_template_name": "cell_text",
                 "inputs_required": [{"type": "general_resource", "multiple": true}],
                 "granularity_strategy": "per_source_document",
                 "output_type": "text", "document_key": "text", "file_type": "markdown"}]}}]');
            "#,
        )
        .expect("the process");
}

/// A project over that process with so many texts.
pub(crate) fn project(client: &mut Client, texts: i32) -> Uuid {
    let project: Uuid = one(client, "select dialectic.create_project('Cell', 'Conform.', process => 'cell')", &[]);
    client
        .execute(
            "select dialectic.add_resource($1, 'text ' || n, 'Text ' || n || '.') from generate_series(1, $2) n",
            &[&project, &texts],
        )
        .expect("reference texts");
    project
}

/// The api of a dialect's providers, and the settings of its models.
pub(crate) fn catalogued(dialect: Dialect) -> (&'static str, &'static str) {
    match dialect {
        Dialect::Chat => ("openai", "{}"),
        Dialect::Responses => ("openai", r#"{"dialect": "responses"}"#),
        Dialect::Anthropic => ("anthropic", "{}"),
        Dialect::Google => ("google", "{}"),
        Dialect::Ollama => ("ollama", "{}"),
    }
}

/// A provider of this name that the scripted server plays; `more` are further arguments, each after a comma.
pub(crate) fn provide(client: &mut Client, name: &str, api: &str, server: &Provider, more: &str) {
    let address = server.base_url(api);
    client
        .execute(&format!("select dialectic.add_provider('{name}', '{api}', '{address}'{more})"), &[])
        .expect("add_provider");
}

/// A model of a provider; `more` as above.
pub(crate) fn model(client: &mut Client, name: &str, provider: &str, more: &str) {
    client.execute(&format!("select dialectic.add_model('{name}', '{provider}'{more})"), &[]).expect("add_model");
}

/// A provider that speaks Chat Completions and a model of the same name.
pub(crate) fn chat(client: &mut Client, name: &str, server: &Provider, more: &str) {
    provide(client, name, "openai", server, more);
    model(client, name, name, "");
}

/// A session of so many calls of this model, ready to be claimed.
pub(crate) fn calls(client: &mut Client, model: &str, count: i32) -> Uuid {
    let project = project(client, count);
    begin(client, project, model)
}

/// A session of a project with this model, ready to be claimed.
pub(crate) fn begin(client: &mut Client, project: Uuid, model: &str) -> Uuid {
    let session: Uuid = one(client, "select dialectic.start_session($1, array[$2])", &[&project, &model]);
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    session
}

/// As `begin`, for each of these models, all at once: nobody works for one before all others are there.
pub(crate) fn begin_all(client: &mut Client, project: Uuid, models: &[String]) -> Vec<Uuid> {
    client.batch_execute("begin").expect("begin");
    let sessions = models.iter().map(|model| begin(client, project, model)).collect();
    client.batch_execute("commit").expect("commit");
    sessions
}

/// The jobs of a session, as `number status attempts`.
pub(crate) fn jobs(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select format('%s %s %s', count(*), status, attempt_count) from dialectic.jobs \
         where session_id = $1 and kind = 'execute' group by status, attempt_count order by 1",
        &[&session],
    )
}

/// Sets a value of the table of settings.
pub(crate) fn configure(client: &mut Client, key: &str, value: &str) {
    client.execute("select dialectic.set_config($1, $2::text::jsonb)", &[&key, &value]).expect("set_config");
}

/// A private server with these lines in its configuration and these variables in its environment, and a database `law` of it that is
/// served and has the process.
pub(crate) fn own(configuration: &str, variables: &[(&str, &str)]) -> (Server, Client) {
    let server = Server::in_environment(configuration, variables);
    let mut client = server.served("law");
    process(&mut client);
    (server, client)
}

/// Waits until the worker of a private server has nothing to do that is due soon.
pub(crate) fn worked(client: &mut Client) {
    let until = Instant::now() + Duration::from_secs(30);
    while !is_at_rest(client) {
        if Instant::now() > until {
            let left = "select concat_ws(' ', j.model, j.status, j.attempt_count, j.run_at - now(), j.error_details, c.free_at - now(), c.paused_reason) \
                        from dialectic.jobs j left join dialectic.provider_cooldowns c on c.provider = j.model \
                        where j.status in ('pending', 'retrying', 'processing') limit 5";
            panic!("the worker has not worked the queue: {:#?}", column::<String>(client, left, &[]));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
