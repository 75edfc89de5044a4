//! What ships is data: the files under `sql/seed` become statements that call the same functions as users do, and
//! `cargo pgrx` puts these statements into the install script.

#[path = "../../build/seed.rs"]
mod loading;

use dialectic_tests::*;
use std::path::{Path, PathBuf};

fn shipped_seed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sql/seed")
}

/// A seed folder with these files, removed at the end.
struct Seed(PathBuf);

impl Seed {
    fn of(name: &str, files: &[(&str, &str)]) -> Seed {
        let folder = std::env::temp_dir().join(format!("seed_{name}_{}", std::process::id()));
        for (path, content) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for the seed");
            std::fs::write(path, content).expect("a file of the seed");
        }
        Seed(folder)
    }

    fn statements(&self) -> Result<String, String> {
        loading::statements(&self.0).map(|statements| statements.concat())
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The statements that load a seed whose process `essay` was changed.
fn changed_seed(change: impl FnOnce(&mut serde_json::Value)) -> String {
    let essay = std::fs::read_to_string(shipped_seed().join("processes/essay.json")).expect("the shipped process");
    let mut essay: serde_json::Value = serde_json::from_str(&essay).expect("JSON");
    change(&mut essay);
    Seed::of("changed", &[("processes/essay.json", &essay.to_string())]).statements().expect("statements")
}

#[test]
fn plain_pgrx_script_loads_every_file_of_the_seed() {
    let database = Database::new();
    let mut client = database.connect();
    let count = |client: &mut postgres::Client, table: &str| -> i64 {
        one(client, &format!("select count(*) from dialectic.{table} where is_shipped"), &[])
    };
    let statements = loading::statements(&shipped_seed()).expect("statements");
    let of =
        |function: &str| statements.iter().filter(|s| s.contains(&format!("dialectic.{function}("))).count() as i64;
    assert_eq!(count(&mut client, "prompt_templates"), of("set_prompt"));
    assert_eq!(count(&mut client, "document_templates"), of("set_document_template"));
    assert_eq!(count(&mut client, "domains"), of("set_domain"));
    assert_eq!(count(&mut client, "processes"), of("define_process"));
    assert!(count(&mut client, "models") > 30);

    // No step after cargo-pgrx adds to the script: the seed stands before the file that pgrx puts last.
    let script: String = one(
        &mut client,
        "select pg_read_file(format('%s/extension/%s--%s.sql', c.setting, e.extname, e.extversion)) \
         from pg_config c, pg_extension e where c.name = 'SHAREDIR' and e.extname = 'pg_dialectic'",
        &[],
    );
    let last = script.find("create function grant_admin(").expect("sql/security.sql");
    assert!(statements.iter().all(|statement| script.find(statement.as_str()).is_some_and(|at| at < last)));
}

#[test]
fn seed_text_is_loaded_byte_by_byte() {
    let text = "It's $seed$ and $seed1 and \\n, \"quoted\"\n  $seed";
    let seed = Seed::of("quoting", &[("prompts/odd/odd_text.md.j2", text)]);
    let database = Database::new();
    let mut client = database.connect();
    client.batch_execute(&seed.statements().expect("statements")).expect("the seed loads");
    let stored: String = one(&mut client, "select body from dialectic.prompt_templates where name = 'odd_text'", &[]);
    assert_eq!(stored, text);
}

#[test]
fn seed_with_a_word_that_installation_replaces_is_refused() {
    let seed = Seed::of("replaced", &[("prompts/a.md.j2", "The schema is @extschema@.")]);
    assert!(seed.statements().unwrap_err().contains("@extschema"));
    let seed = Seed::of("twice", &[("prompts/a/x.md.j2", "One."), ("prompts/b/x.md.j2", "Two.")]);
    assert!(seed.statements().unwrap_err().contains("two prompts are called x"));
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
