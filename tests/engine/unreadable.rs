//! A job that cannot be read fails alone: the sessions beside it complete, whether the worker or `run_pending` works the queue.

use dialectic_tests::*;
use postgres::Client;

const ONE_STEP: &str = r#"[{"slug": "only", "seed_prompt_template": "essay_thesis_seed", "recipe": {"steps": [
    {"step": 1, "key": "write", "name": "Write", "job_type": "execute", "prompt_template_name": "essay_thesis",
     "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one", "output_type": "note",
     "document_key": "note", "file_type": "markdown"}]}}]"#;

/// A session of the process `essay`, which is to be broken, and one of another process behind it.
fn two_sessions(client: &mut Client) -> (Uuid, Uuid) {
    client.execute(&format!("select dialectic.define_process('one_step', '{ONE_STEP}')"), &[]).expect("define_process");
    let broken = one(client, "select dialectic.run('x', process => 'essay', models => '{sim-b}')", &[]);
    let healthy = one(client, "select dialectic.run('y', process => 'one_step', models => '{sim-c}')", &[]);
    (broken, healthy)
}

/// Changes the frozen definition of a session behind the back of the engine.
fn change_definition(client: &mut Client, session: Uuid, stages: &str) {
    client
        .batch_execute(&format!(
            "begin; set local session_replication_role = replica; \
             update dialectic.definitions d set stages = {stages} \
             where id = (select definition_id from dialectic.sessions where id = '{session}'); commit"
        ))
        .expect("a changed definition");
}

fn status(client: &mut Client, session: Uuid) -> String {
    one(client, "select status from dialectic.sessions where id = $1", &[&session])
}

/// The class, SQLSTATE and message that the first failed job of a session has.
fn failure(client: &mut Client, session: Uuid) -> (String, String, String) {
    let row = client
        .query_one(
            "select error_details ->> 'class', error_details ->> 'sqlstate', error_details ->> 'message' \
             from dialectic.jobs where session_id = $1 and status = 'failed' and error_details ? 'sqlstate' limit 1",
            &[&session],
        )
        .expect("a failed job");
    (row.get(0), row.get(1), row.get(2))
}

#[test]
fn unreadable_definition_fails_its_session_alone() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (broken, healthy) = two_sessions(&mut client);
    let stages = "(select jsonb_agg(t || '{\"recipe\": \"broken\"}') from jsonb_array_elements(d.stages) t)";
    change_definition(&mut client, broken, stages);
    // Another connection: this one has read the definition already.
    hand_over(&mut database.connect());
    assert_eq!((status(&mut client, broken), status(&mut client, healthy)), ("failed".into(), "completed".into()));
    let (class, sqlstate, message) = failure(&mut client, broken);
    assert_eq!((class.as_str(), sqlstate.as_str()), ("internal", "XX000"));
    assert!(message.contains("recipe"), "{message}");
    let unsound: Vec<String> = column(&mut client, "select law from dialectic.self_check()", &[]);
    assert_eq!(unsound, ["a definition has the content that it is named after"]);
}

#[test]
fn definition_of_a_newer_version_fails_its_session_alone() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (broken, healthy) = two_sessions(&mut client);
    let stages = "replace(d.stages::text, '\"all_to_one\"', '\"one_of_tomorrow\"')::jsonb";
    change_definition(&mut client, broken, stages);
    // Another connection: this one has read the definition already.
    hand_over(&mut database.connect());
    assert_eq!((status(&mut client, broken), status(&mut client, healthy)), ("failed".into(), "completed".into()));
    let (class, _, message) = failure(&mut client, broken);
    assert_eq!(class, "internal");
    assert!(message.contains("one_of_tomorrow"), "{message}");
}

/// Saves two prompts for each call of a session: which of them is sent cannot be known.
fn save_two_prompts(client: &mut Client, session: Uuid) {
    client
        .batch_execute(&format!(
            "create function public.corrupt() returns trigger language plpgsql as $$ begin \
                 insert into dialectic.resources (resource_type, project_id, session_id, job_id, content) \
                 select kind, s.project_id, s.id, new.id, '[]' \
                 from dialectic.sessions s, unnest('{{turn_prompt,planner_prompt}}'::text[]) as kind \
                 where s.id = new.session_id; return new; end $$; \
             create trigger corrupt before insert on dialectic.jobs for each row \
                 when (new.session_id = '{session}' and new.kind = 'execute') execute function public.corrupt()"
        ))
        .expect("a trigger");
}

#[test]
fn job_with_two_prompts_fails_alone() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (broken, healthy) = two_sessions(&mut client);
    save_two_prompts(&mut client, broken);
    hand_over(&mut database.connect());
    assert_eq!((status(&mut client, broken), status(&mut client, healthy)), ("failed".into(), "completed".into()));
    let (class, sqlstate, message) = failure(&mut client, broken);
    assert_eq!((class.as_str(), sqlstate.as_str()), ("internal", "21000"));
    assert!(message.contains("more than one row"), "{message}");
    let calls: i64 = one(
        &mut client,
        "select count(*) from dialectic.model_calls c join dialectic.jobs j on j.id = c.job_id where j.session_id = $1",
        &[&broken],
    );
    assert_eq!(calls, 0, "calls of a job that cannot be read");
    assert_sound(&mut client);
}

#[test]
fn retry_completes_a_session_whose_prompt_is_readable_again() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (broken, _) = two_sessions(&mut client);
    save_two_prompts(&mut client, broken);
    hand_over(&mut database.connect());
    assert_eq!(status(&mut client, broken), "failed");
    let repair = "drop trigger corrupt on dialectic.jobs; \
         delete from dialectic.resources where resource_type in ('turn_prompt', 'planner_prompt') and content = '[]'";
    client.batch_execute(repair).expect("repaired");
    client.execute("select dialectic.retry($1)", &[&broken]).expect("retry");
    work(&mut client);
    assert_eq!(status(&mut client, broken), "completed");
}

#[test]
fn job_fails_when_a_row_that_it_is_made_from_is_missing() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let broken: Uuid = one(&mut client, "select dialectic.run('x', models => '{sim-a}', through => 'thesis')", &[]);
    client
        .batch_execute(
            "create function public.swallow() returns trigger language plpgsql as $$ begin return null; end $$; \
             create trigger swallow before insert on dialectic.resources for each row \
                 when (new.resource_type = 'assembled_json') execute function public.swallow()",
        )
        .expect("a trigger");
    hand_over(&mut database.connect());
    assert_eq!(status(&mut client, broken), "failed");
    let (class, sqlstate, message) = failure(&mut client, broken);
    assert_eq!((class.as_str(), sqlstate.as_str()), ("internal", "XX001"));
    assert!(message.contains("missing"), "{message}");
}
