//! What ships is data: a change under `sql/seed` reaches the database through the same definitions that users call, and no
//! rebuild stands between.

use dialectic_tests::*;
use std::path::{Path, PathBuf};
use std::process::Command;

fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The SQL that loads a seed whose process `essay` was changed.
fn changed_seed(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let essay =
        std::fs::read_to_string(project_root().join("sql/seed/processes/essay.json")).expect("the shipped process");
    let mut essay: serde_json::Value = serde_json::from_str(&essay).expect("JSON");
    change(&mut essay);
    let seed = std::env::temp_dir().join(format!("seed_{}", std::process::id()));
    std::fs::create_dir_all(seed.join("processes")).expect("a folder for the seed");
    std::fs::write(seed.join("processes/essay.json"), essay.to_string()).expect("the changed process");
    let made = Command::new(project_root().join("dev/seed-sql")).arg(&seed).output().expect("dev/seed-sql");
    std::fs::remove_dir_all(&seed).expect("the folder can go");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).expect("UTF-8")
}

#[test]
fn a_step_deleted_from_the_seed_is_not_planned_any_more() {
    let database = Database::new();
    let mut client = database.connect();
    let synthesis_calls = |client: &mut postgres::Client| -> i64 {
        let session: Uuid =
            one(client, "select dialectic.run('Why seeds?', models => '{sim-a,sim-b}', process => 'essay')", &[]);
        work(client);
        one(
            client,
            "select count(*) from dialectic.contributions where session_id = $1 and stage = 'synthesis'",
            &[&session],
        )
    };
    assert_eq!(synthesis_calls(&mut client), 8 + 4 + 2);

    let seed = changed_seed(|essay| {
        essay["stages"][2]["recipe"]["steps"].as_array_mut().expect("steps").retain(|step| step["key"] != "final");
    });
    client.batch_execute(&seed).expect("the changed seed loads");
    assert_eq!(synthesis_calls(&mut client), 8 + 4);
    assert_sound(&mut client);
}

#[test]
fn what_a_user_defines_stands_beside_what_shipped_and_wins() {
    let database = Database::new();
    let mut client = database.connect();
    let shipped: i64 = one(&mut client, "select count(*) from dialectic.prompt_templates where is_shipped", &[]);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.prompt_templates where not is_shipped", &[]), 0);
    let version: i32 =
        one(&mut client, "select dialectic.set_prompt('essay_thesis', 'My own: {{ original_user_request }}')", &[]);
    assert_eq!(version, 1);
    assert_eq!(
        one::<i64>(&mut client, "select count(*) from dialectic.prompt_templates where is_shipped", &[]),
        shipped
    );
    assert_eq!(
        one::<String>(
            &mut client,
            "select dialectic.render_prompt('essay_thesis', '{\"original_user_request\": \"why?\"}')",
            &[]
        ),
        "My own: why?"
    );
}

#[test]
fn a_session_keeps_the_prompts_it_started_with() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    client.query("select dialectic.set_prompt('essay_thesis', 'Changed meanwhile.')", &[]).expect("a new version");
    hand_over(&mut client);
    let sent: String = one(
        &mut client,
        "select content from dialectic.resources where session_id = $1 and resource_type = 'turn_prompt'",
        &[&session],
    );
    assert!(!sent.contains("Changed meanwhile."));
    let later = generated(&mut client, &["sim-a"]);
    work(&mut client);
    let sent: String = one(
        &mut client,
        "select content from dialectic.resources where session_id = $1 and resource_type = 'turn_prompt'",
        &[&later],
    );
    assert!(sent.contains("Changed meanwhile."));
}
