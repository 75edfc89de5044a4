//! What the README says works as it stands: its examples are taken from it and run by psql, and what it names is there.

use dialectic_tests::*;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const README: &str = include_str!("../../README.md");

/// The blocks of SQL in a section, in order; the first section is what stands above all headings.
fn examples(section: Option<&str>) -> String {
    let (mut here, mut fence, mut sql) = (None, None, String::new());
    for line in README.lines() {
        match (fence, line.strip_prefix("```"), line.strip_prefix("## ")) {
            (None, Some(language), _) => fence = Some(language),
            (None, _, Some(heading)) => here = Some(heading),
            (Some(_), Some(_), _) => fence = None,
            (Some("sql"), ..) if here == section => {
                sql.push_str(line);
                sql.push('\n');
            }
            _ => (),
        }
    }
    assert!(!sql.is_empty(), "the README has no SQL in section {section:?}");
    sql
}

/// What psql prints for a script. Where nobody works the queue by itself, it is worked where the script would wait for that.
fn printed(database: &Database, script: &str) -> String {
    let script = match preloaded() {
        true => script.to_owned(),
        false => script.replace("CALL dialectic.wait(", "CALL dialectic.run_pending();\nCALL dialectic.wait("),
    };
    let psql = std::env::var("DIALECTIC_PGBIN").map_or("psql".into(), |bin| Path::new(&bin).join("psql"));
    let mut running = Command::new(psql)
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set", "ON_ERROR_STOP=1", "--dbname"])
        .arg(database.name())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("psql");
    running.stdin.take().expect("a pipe").write_all(script.as_bytes()).expect("psql reads the script");
    let output = running.wait_with_output().expect("psql ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_first_example_writes_the_documents_it_promises() {
    let database = Database::empty();
    let shown = printed(&database, &examples(None));
    assert!(shown.contains("\n# Master plan\n"), "{shown}");
    let mut client = database.connect();
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.documents", &[]), 46);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 104);
    assert_eq!(column::<String>(&mut client, "select status from dialectic.sessions", &[]), ["completed"]);
    assert_sound(&mut client);
}

#[test]
fn a_process_can_be_gone_through_step_by_step_as_it_is_written() {
    let database = Database::new();
    let shown = printed(&database, &examples(Some("Step by step")));
    assert!(shown.contains("business_case|sim-a|2|f") && shown.contains("feature_spec|sim-a|1|f"), "{shown}");
    assert!(shown.contains("stage_completed|thesis is complete"), "{shown}");
    let mut client = database.connect();
    assert_eq!(column::<String>(&mut client, "select current_stage from dialectic.sessions", &[]), ["antithesis"]);
    assert_sound(&mut client);
}

#[test]
fn a_recipe_of_your_own_runs_as_it_is_written() {
    let database = Database::new();
    let shown = printed(&database, &examples(Some("A recipe of your own")));
    for part in ["survey|options|2|2|2", "verdict|memo|2|4|2", "# What could be done", "## Options", "## Unknowns"] {
        assert!(shown.contains(&format!("{part}\n")), "no line \"{part}\" in\n{shown}");
    }
    let (_, laid_out) = shown.rsplit_once("# Option paper\n").expect("render_markdown with the layout");
    let order = ["Buy?", "## Options", "## What nobody knows"].map(|part| laid_out.find(part).expect(part));
    assert!(order.is_sorted(), "{laid_out}");

    let mut client = database.connect();
    assert_eq!(
        column::<String>(
            &mut client,
            "select document_key || ' ' || model from dialectic.documents where complete order by 1",
            &[]
        ),
        ["memo sim-a", "memo sim-b", "option_paper sim-a", "option_paper sim-b"]
    );
    let prompts: Vec<String> = column(
        &mut client,
        "select content from dialectic.resources where resource_type = 'turn_prompt' and stage = 'verdict'",
        &[],
    );
    assert_eq!(prompts.len(), 2);
    for prompt in prompts {
        assert_eq!(prompt.matches("<document type=\\\"option_paper\\\"").count(), 2, "{prompt}");
        assert!(prompt.contains("\\\"price\\\"") && !prompt.contains("unknowns"), "only the part is read: {prompt}");
    }
    assert_sound(&mut client);
}

#[test]
fn real_models_are_added_as_it_is_written() {
    let database = Database::new();
    printed(&database, &examples(Some("Real models")));
    let mut client = database.connect();
    let added: Vec<String> = column(
        &mut client,
        "select m.name || ' ' || m.fallback || ' ' || s.reference from dialectic.models m join dialectic.secrets s using (provider) where not m.is_shipped",
        &[],
    );
    assert_eq!(added, ["house-large gpt-5-mini env:DIALECTIC_GATEWAY_KEY"]);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.secrets", &[]), 3);
}

#[test]
fn money_is_limited_as_it_is_written() {
    let database = Database::new();
    let text = printed(&database, &examples(Some("Money")));
    assert!(text.contains("opening|5000000") && text.contains("top_up|2000000"), "{text}");
    let mut client = database.connect();
    assert_eq!(one::<i64>(&mut client, "select amount from dialectic.budgets", &[]), 800_000);
    assert_eq!(one::<i64>(&mut client, "select balance from dialectic.wallets", &[]), 7_000_000);
}

#[test]
fn the_readme_names_every_public_function_and_none_that_is_not_there() {
    let database = Database::new();
    let mut client = database.connect();
    let functions: Vec<String> = column(
        &mut client,
        "select distinct proname::text from pg_proc where pronamespace = 'dialectic'::regnamespace \
         and proname not like '\\_%' and prorettype <> 'trigger'::regtype",
        &[],
    );
    for name in &functions {
        let is_named = [format!("{name}("), format!("`{name}`")].iter().any(|form| README.contains(form));
        assert!(is_named, "the README does not name {name}");
    }
    client.execute("select dialectic._now()", &[]).expect("the library, which brings its settings, is loaded");
    let relations: Vec<String> =
        column(&mut client, "select relname::text from pg_class where relnamespace = 'dialectic'::regnamespace", &[]);
    for (position, _) in README.match_indices("dialectic.") {
        let rest = &README[position + "dialectic.".len()..];
        let name: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
        let is_a_setting = one(&mut client, "select current_setting('dialectic.' || $1, true) is not null", &[&name]);
        let is_there = is_a_setting || functions.contains(&name) || relations.contains(&name);
        assert!(name.is_empty() || is_there, "there is no dialectic.{name}");
    }
}
