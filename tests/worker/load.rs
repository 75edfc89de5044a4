//! Work for the worker to be disturbed at, and what must be true of it afterwards.

use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

/// Calls that have been made and have not come back.
pub(crate) const OPEN_CALLS: &str = "select count(*) from dialectic.model_calls where outcome = 'open'";
/// How often each outcome was had, in words.
pub(crate) const OUTCOMES: &str =
    "select format('%s %s', count(*), outcome) from dialectic.model_calls group by outcome order by outcome";

/// A simulator model that takes so many milliseconds; one that is there already gets this latency from its next call on.
pub(crate) fn model(client: &mut Client, name: &str, latency: &str) {
    add_model(client, name, &format!("{{\"latency_ms\": {latency}}}"));
}

/// A simulator model with these settings.
pub(crate) fn add_model(client: &mut Client, name: &str, settings: &str) {
    client
        .execute(&format!("select dialectic.add_model('{name}', 'simulator', settings => '{settings}')"), &[])
        .expect("add_model");
}

/// An essay by these models; its session.
pub(crate) fn essay(client: &mut Client, models: &[&str]) -> Uuid {
    one(client, "select dialectic.run('Why laws?', models => $1, process => 'essay')", &[&models])
}

/// So many sessions that make one call each.
pub(crate) fn single_calls(client: &mut Client, model: &str, sessions: i32) {
    client
        .execute(
            "select dialectic.run('Why laws?', models => array[$1], process => 'essay', through => 'thesis') \
             from generate_series(1, $2)",
            &[&model, &sessions],
        )
        .expect("run");
}

/// Switches the worker of this database on or off.
pub(crate) fn switch(client: &mut Client, on: bool) {
    client.execute("select dialectic.set_config('worker_enabled', to_jsonb($1::boolean))", &[&on]).expect("set_config");
}

const READING: &str = r#"[{"slug": "only", "seed_prompt_template": "essay_thesis_seed", "recipe": {"steps": [
    {"step": 1, "key": "read", "name": "Read", "job_type": "execute", "prompt_template_name": "essay_thesis",
     "inputs_required": [{"type": "seed_prompt", "relevance": 1.0},
                         {"type": "reference_documents", "multiple": true, "relevance": 1.0}],
     "granularity_strategy": "per_source_document", "output_type": "note", "document_key": "note", "file_type": "markdown"}]}}]"#;

/// One session with so many jobs that are all ready at once; it makes one call for each of as many texts.
pub(crate) fn reading(client: &mut Client, model: &str, texts: i32) -> Uuid {
    client.execute(&format!("select dialectic.define_process('reading', '{READING}')"), &[]).expect("define_process");
    let project: Uuid =
        one(client, "select dialectic.create_project('Much', 'Read all of it.', process => 'reading')", &[]);
    client
        .execute(
            "select dialectic.add_resource($1, 'Page ' || n, 'Text of page ' || n, 'reference_documents') \
             from generate_series(1, $2) n",
            &[&project, &texts],
        )
        .expect("add_resource");
    let session: Uuid = one(client, "select dialectic.start_session($1, array[$2])", &[&project, &model]);
    client.query("select * from dialectic.generate($1)", &[&session]).expect("generate");
    session
}

/// Waits until exactly so many calls are in flight.
pub(crate) fn in_flight(client: &mut Client, calls: i64) {
    soon("the calls are in flight", || one::<i64>(client, OPEN_CALLS, &[]) == calls);
}

/// Waits until nothing is left to run; everything must then have ended well.
pub(crate) fn all_completed(client: &mut Client, limit: Duration) {
    let left = "select count(*) from dialectic.sessions where status = 'active'";
    within(limit, "every session has ended", || one::<i64>(client, left, &[]) == 0);
    let ended: Vec<String> = column(client, "select distinct status from dialectic.sessions", &[]);
    assert_eq!(ended, ["completed"]);
    assert_sound(client);
}

/// Other sessions, one after the other, are each worked as soon as they are there.
pub(crate) fn others_are_worked(client: &mut Client) {
    for _ in 0..3 {
        let single = generated(client, &["sim-a"]);
        let document = "select count(*) from dialectic.documents where session_id = $1";
        soon("the other session is worked", || one::<i64>(client, document, &[&single]) == 1);
    }
}

/// What the worker of this database is stopped at, if it is.
pub(crate) fn stopped_at(client: &mut Client) -> Option<String> {
    one(
        client,
        "select (select substring(query from '^stopped at (.*)$') from pg_stat_activity \
                 where backend_type = 'pg_dialectic worker' and datname = current_database())",
        &[],
    )
}
