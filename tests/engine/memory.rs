//! What is in memory: which texts, in which chunks, embedded when. Ranking is in search.rs.

use dialectic_tests::*;
use postgres::Client;

pub(crate) fn project(client: &mut Client) -> Uuid {
    one(client, "select dialectic.create_project('Pumps', 'How are pumps kept?', process => 'essay')", &[])
}

pub(crate) fn attach(client: &mut Client, project: Uuid, name: &str, content: &str) -> Uuid {
    one(client, "select dialectic.add_resource($1, $2, $3)", &[&project, &name, &content])
}

pub(crate) fn session(client: &mut Client, project: Uuid) -> Uuid {
    one(client, "select dialectic.start_session($1, '{sim-a}')", &[&project])
}

pub(crate) fn set_embedding_model(client: &mut Client, name: &str) {
    client.batch_execute(&format!(r#"select dialectic.set_config('embedding_model', '"{name}"')"#)).expect("a setting");
}

fn remember(client: &mut Client, artifacts: &[Uuid]) -> i32 {
    one(client, "select dialectic._remember($1)", &[&artifacts])
}

fn embed_here(client: &mut Client, artifacts: &[Uuid]) -> i32 {
    one(client, "select dialectic._embed_here($1)", &[&artifacts])
}

/// The chunks that a search in a session finds.
fn found(client: &mut Client, session: Uuid, query: &str) -> Vec<String> {
    column(client, "select content from dialectic.match_chunks($1, $2::text)", &[&session, &query])
}

const MANUAL: &str =
    "# Manual\n\n## Oil\n\nPumps are oiled on Mondays.\n\n## Seals\n\nSeals are replaced every year.\n";

#[test]
fn attachment_is_cut_into_chunks_with_metadata() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = project(&mut client);
    let manual = attach(&mut client, project, "manual.md", MANUAL);
    assert_eq!(remember(&mut client, &[manual]), 2);
    let rows: Vec<String> = column(
        &mut client,
        "select format('%s|%s|%s|%s|%s', chunk_no, content, metadata, text_config, tokens > 0) \
         from dialectic.memory order by chunk_no",
        &[],
    );
    let metadata = |heading: &str| {
        format!(r#"{{"kind": "general_resource", "name": "manual.md", "headings": ["Manual", "{heading}"]}}"#)
    };
    assert_eq!(
        rows,
        [
            format!("1|# Manual\n\n## Oil\n\nPumps are oiled on Mondays.|{}|english|t", metadata("Oil")),
            format!("2|## Seals\n\nSeals are replaced every year.|{}|english|t", metadata("Seals")),
        ]
    );
    assert_eq!(remember(&mut client, &[manual]), 0, "it is in memory");
}

#[test]
fn sessions_of_a_project_share_its_attachments() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = project(&mut client);
    attach(&mut client, project, "manual.md", MANUAL);
    for _ in 0..2 {
        let session = session(&mut client, project);
        assert_eq!(found(&mut client, session, "oiled pumps"), ["# Manual\n\n## Oil\n\nPumps are oiled on Mondays."]);
    }
    let rows = "select count(*) from dialectic.memory where session_id is null";
    assert_eq!(one::<i64>(&mut client, rows, &[]), 2);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.memory", &[]), 2);
}

#[test]
fn documents_of_a_session_are_found_in_their_newest_version_only() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session: Uuid = one(
        &mut client,
        "select dialectic.run('Document it.', models => '{sim-a}', process => 'dialectic', through => 'thesis')",
        &[],
    );
    work(&mut client);
    let all = "select id from dialectic.documents where session_id = $1 order by 1";
    let query =
        "select source_id from dialectic.match_chunks($1, 'business case market users problem value'::text, 1000)";
    assert!(!column::<Uuid>(&mut client, query, &[&session]).is_empty());
    let remembered = "select distinct source_id from dialectic.memory where session_id = $1 order by 1";
    let first: Vec<Uuid> = column(&mut client, all, &[&session]);
    assert_eq!(column::<Uuid>(&mut client, remembered, &[&session]), first);
    one::<Uuid>(&mut client, "select dialectic.regenerate($1, 'business_case', 'sim-a')", &[&session]);
    work(&mut client);
    let second: Vec<Uuid> = column(&mut client, all, &[&session]);
    let replaced: Vec<Uuid> = first.iter().filter(|id| !second.contains(id)).copied().collect();
    assert_eq!(replaced.len(), 1);
    let sources: Vec<Uuid> = column(&mut client, query, &[&session]);
    assert!(!sources.is_empty() && !sources.contains(&replaced[0]));
}

#[test]
fn two_callers_at_once_remember_a_text_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = project(&mut client);
    let manual = attach(&mut client, project, "manual.md", MANUAL);
    let both = overlapping(&database, |one| remember(one, &[manual]), |other| remember(other, &[manual]));
    assert_eq!(both, (2, 0));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.memory", &[]), 2);
}

#[test]
fn two_callers_at_once_embed_a_chunk_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = project(&mut client);
    let manual = attach(&mut client, project, "manual.md", MANUAL);
    set_embedding_model(&mut client, "sim-embed");
    remember(&mut client, &[manual]);
    let both = overlapping(&database, |one| embed_here(one, &[manual]), |other| embed_here(other, &[manual]));
    assert_eq!(both, (2, 0));
}

#[test]
fn unchanged_chunk_takes_over_the_embedding_within_its_project() {
    let database = Database::by_hand();
    let mut client = database.connect();
    set_embedding_model(&mut client, "sim-embed");
    let (own, other) = (project(&mut client), project(&mut client));
    let first = attach(&mut client, own, "manual.md", MANUAL);
    remember(&mut client, &[first]);
    assert_eq!(embed_here(&mut client, &[first]), 2);
    let second = attach(&mut client, own, "manual.md", &MANUAL.replace("every year", "every month"));
    let elsewhere = attach(&mut client, other, "manual.md", MANUAL);
    assert_eq!(remember(&mut client, &[second, elsewhere]), 4);
    let embedded = "select chunk_no from dialectic.memory where source_id = $1 and embedding is not null";
    assert_eq!(column::<i32>(&mut client, embedded, &[&second]), [1]);
    assert!(column::<i32>(&mut client, embedded, &[&elsewhere]).is_empty());
}

#[test]
fn another_embedding_model_embeds_again_when_a_search_needs_it() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            "select dialectic.add_model('sim-embed-2', 'simulator', kind => 'embedding', max_output_tokens => 1)",
        )
        .expect("a model");
    let project = project(&mut client);
    attach(&mut client, project, "manual.md", MANUAL);
    let session = session(&mut client, project);
    let models = "select distinct embedding_model from dialectic.memory";
    for model in ["sim-embed", "sim-embed-2"] {
        set_embedding_model(&mut client, model);
        assert!(!found(&mut client, session, "oiled pumps").is_empty());
        assert_eq!(column::<String>(&mut client, models, &[]), [model]);
    }
}

#[test]
fn text_of_which_chunks_are_missing_is_cut_again() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = project(&mut client);
    let manual = attach(&mut client, project, "manual.md", MANUAL);
    remember(&mut client, &[manual]);
    client.batch_execute("delete from dialectic.memory where chunk_no = 1").expect("a chunk less");
    client
        .batch_execute(
            "select dialectic.set_config('chunk_overlap_tokens', '2'); select dialectic.set_config('chunk_tokens', '6')",
        )
        .expect("other chunks");
    assert!(remember(&mut client, &[manual]) > 2);
    let tokens: i32 = one(&mut client, "select max(tokens) from dialectic.memory", &[]);
    assert!(tokens <= 6, "a chunk has {tokens} tokens");
}

#[test]
fn languages_have_configurations_of_their_own() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = project(&mut client);
    attach(&mut client, project, "en.md", "The crew oils the pumps before they are started.");
    attach(&mut client, project, "de.md", "Die Dichtungen werden vor dem Start von der Mannschaft geprüft.");
    attach(&mut client, project, "code.md", "const CEILING_PUMPS: u32 = 900;");
    let session = session(&mut client, project);
    assert_eq!(found(&mut client, session, "oiling pump").len(), 1, "English stems");
    assert_eq!(found(&mut client, session, "Dichtung prüfen").len(), 1, "German stems");
    assert_eq!(found(&mut client, session, "ceiling").len(), 1);
    let configs: Vec<String> = column(&mut client, "select text_config from dialectic.memory order by 1", &[]);
    assert_eq!(configs, ["english", "german", "simple"]);
}
