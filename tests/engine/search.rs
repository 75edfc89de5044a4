//! `match_chunks` and `search`: what they find, for whom, and what they say when they cannot rank by everything.

use crate::memory::{attach, project, session, set_embedding_model};
use dialectic_tests::*;
use postgres::Client;
use std::sync::{Arc, Mutex};

const MANUAL: &str =
    "# Manual\n\n## Oil\n\nPumps are oiled on Mondays.\n\n## Seals\n\nSeals are replaced every year.\n";

fn session_with_manual(client: &mut Client) -> (Uuid, Uuid) {
    let project = project(client);
    attach(client, project, "manual.md", MANUAL);
    (project, session(client, project))
}

/// A connection, and the notices that it gets.
fn listening(database: &Database) -> (Client, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let mut config = database.config();
    config.notice_callback(move |notice| ear.lock().expect("an ear").push(notice.message().to_owned()));
    (config.connect(postgres::NoTls).expect("a connection"), heard)
}

fn heard(notices: &Arc<Mutex<Vec<String>>>) -> Vec<String> {
    std::mem::take(&mut *notices.lock().expect("an ear"))
}

fn numbers(client: &mut Client, query: &str, session: Uuid) -> Vec<i32> {
    column(client, &format!("select chunk_no from dialectic.match_chunks($1, {query})"), &[&session])
}

#[test]
fn search_shows_passage_file_headings_and_score() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (project, _) = session_with_manual(&mut client);
    let rows = client.query("select * from dialectic.search($1, 'seals replaced')", &[&project]).expect("a search");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].get::<_, &str>("passage"), "## Seals\n\nSeals are replaced every year.");
    assert_eq!(rows[0].get::<_, &str>("heading"), "Manual > Seals");
    assert!(rows[0].get::<_, f64>("score") > 0.0);
    let path: &str = rows[0].get("document");
    let content: String =
        one(&mut client, "select content from dialectic.files($1) where path = $2", &[&project, &path]);
    assert_eq!(content, MANUAL);
}

#[test]
fn search_finds_documents_of_every_session_of_the_project() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for _ in 0..2 {
        one::<Uuid>(
            &mut client,
            "select dialectic.run('Why pumps?', models => '{sim-a}', process => 'essay', through => 'thesis')",
            &[],
        );
    }
    work(&mut client);
    let project: Uuid = one(&mut client, "select id from dialectic.projects order by id limit 1", &[]);
    let found: i64 = one(
        &mut client,
        "select count(*) \
         from dialectic.search($1, 'what is the answer of this model to the question about pumps') as s \
         join dialectic.files($1) as f on f.path = s.document",
        &[&project],
    );
    assert!(found > 0);
    let projects: i64 = one(&mut client, "select count(distinct project_id) from dialectic.memory", &[]);
    assert_eq!(projects, 1, "nothing of another project is remembered");
}

#[test]
fn filter_narrows_by_any_metadata_key() {
    let database = Database::by_hand();
    let mut client = database.connect();
    set_embedding_model(&mut client, "sim-embed");
    let (_, session) = session_with_manual(&mut client);
    let vector = "dialectic._simulate_embedding('oil and seals')::vector";
    assert_eq!(numbers(&mut client, &format!("{vector}, 10"), session), [2, 1]);
    for query in ["'oil and seals'::text", vector] {
        let by = |filter: &str| format!("{query}, metadata_filter => '{filter}'");
        assert_eq!(numbers(&mut client, &by(r#"{"headings": ["Oil"]}"#), session), [1]);
        assert_eq!(numbers(&mut client, &by(r#"{"name": "manual.md", "headings": ["Seals"]}"#), session), [2]);
        assert!(numbers(&mut client, &by(r#"{"stage": "thesis"}"#), session).is_empty());
    }
}

#[test]
fn wrong_dimension_is_refused_with_the_expected_one() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, session) = session_with_manual(&mut client);
    let query = "select * from dialectic.match_chunks($1, '[1,0,0]'::vector)";
    let error = refused(&mut client, query, &[&session]);
    assert_eq!(error.code().code(), "55000", "{error:?}");
    set_embedding_model(&mut client, "sim-embed");
    let error = refused(&mut client, query, &[&session]);
    assert_eq!(error.code().code(), "22023");
    assert_eq!(error.message(), "query_embedding has 3 dimensions, but the embeddings of model \"sim-embed\" have 256");
}

#[test]
fn query_of_more_than_six_words_finds_chunks_with_some_of_them() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, session) = session_with_manual(&mut client);
    let mut found = |query: &str| numbers(&mut client, &format!("'{query}'::text"), session);
    assert_eq!(found("pumps oiled"), [1]);
    assert_eq!(found("pumps compressor valve gasket turbine rotor bearing"), [1]);
    // No chunk has all of few words, so chunks with some are found, unless the query is written to be exact.
    assert_eq!(found("pumps turbine"), [1]);
    assert!(found("\"pumps turbine\"").is_empty());
    assert!(found("pumps -oiled").is_empty());
    assert!(found("turbine").is_empty());
}

#[test]
fn odd_queries_are_text() {
    let database = Database::by_hand();
    let mut client = database.connect();
    set_embedding_model(&mut client, "sim-embed");
    let (_, session) = session_with_manual(&mut client);
    for query in ["'", "\\", "a & | ! ( b", "it''s: * <-> \\'", "?!", &"pump' \\ ".repeat(400)] {
        column::<Uuid>(&mut client, "select id from dialectic.match_chunks($1, $2::text)", &[&session, &query]);
    }
}

#[test]
fn match_count_is_the_setting_unless_given() {
    let database = Database::by_hand();
    let mut client = database.connect();
    set_embedding_model(&mut client, "sim-embed");
    let (_, session) = session_with_manual(&mut client);
    assert_eq!(numbers(&mut client, "'pumps or seals'::text", session).len(), 2);
    assert_eq!(numbers(&mut client, "'pumps or seals'::text, 1", session).len(), 1);
    client.batch_execute("select dialectic.set_config('match_count', '1')").expect("a setting");
    assert_eq!(numbers(&mut client, "'pumps or seals'::text", session).len(), 1);
    for wrong in [0, -1, 1001] {
        let error =
            refused(&mut client, "select * from dialectic.match_chunks($1, 'x'::text, $2)", &[&session, &wrong]);
        assert_eq!(error.code().code(), "22023");
    }
    for missing in ["null::text", "''", "' '", "'x'::text, metadata_filter => null"] {
        let statement = format!("select * from dialectic.match_chunks($1, {missing})");
        let error = refused(&mut client, &statement, &[&session]);
        assert_eq!(error.code().code(), "22004", "{missing}");
    }
}

#[test]
fn search_says_when_it_ranks_by_words_alone() {
    let database = Database::by_hand();
    let (mut client, notices) = listening(&database);
    let (project, session) = session_with_manual(&mut client);
    heard(&notices);
    numbers(&mut client, "'pumps'::text", session);
    assert_eq!(heard(&notices), ["ranked by words alone: no embedding model is set"]);
    set_embedding_model(&mut client, "text-embedding-3-small");
    client.query("select * from dialectic.search($1, 'pumps')", &[&project]).expect("a search");
    assert_eq!(
        heard(&notices),
        ["ranked by words alone: embedding model \"text-embedding-3-small\" is not called by a search"]
    );
    set_embedding_model(&mut client, "sim-embed");
    numbers(&mut client, "'pumps'::text", session);
    assert!(heard(&notices).is_empty());
}

#[test]
fn read_only_transaction_searches_what_is_there() {
    let database = Database::by_hand();
    let (mut client, notices) = listening(&database);
    set_embedding_model(&mut client, "sim-embed");
    let (project, session) = session_with_manual(&mut client);
    numbers(&mut client, "'pumps'::text", session);
    attach(&mut client, project, "other.md", "Pumps are painted red.");
    heard(&notices);
    client.batch_execute("begin read only").expect("begin");
    assert_eq!(numbers(&mut client, "'pumps'::text, 1", session), [1]);
    client.batch_execute("commit").expect("commit");
    assert_eq!(heard(&notices), ["not searched, because they are not in memory yet: 1 text"]);
    let found: i64 = one(&mut client, "select count(*) from dialectic.search($1, 'painted', 1)", &[&project]);
    assert_eq!(found, 1);
}

#[test]
fn project_and_session_of_another_owner_do_not_exist() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    let (project, session) = session_with_manual(&mut admin);
    let role = format!("{}_searcher", database.name());
    admin.batch_execute(&format!("create role {role} login; select dialectic.grant_user('{role}')")).expect("a role");
    let mut user = database.connect_as(&role);
    let statements = [
        ("select * from dialectic.search($1, 'pumps')", project, "project"),
        ("select * from dialectic.match_chunks($1, 'pumps'::text)", session, "session"),
        ("select * from dialectic.match_chunks($1, '[1]'::vector)", session, "session"),
    ];
    for (statement, id, what) in statements {
        let error = refused(&mut user, statement, &[&id]);
        assert_eq!(error.code().code(), "P0002");
        assert_eq!(error.message(), format!("{what} \"{id}\" does not exist"));
    }
    let (own, _) = session_with_manual(&mut user);
    assert_eq!(user.query("select * from dialectic.search($1, 'pumps')", &[&own]).expect("a search").len(), 1);
    assert_eq!(admin.query("select * from dialectic.search($1, 'pumps')", &[&own]).expect("a search").len(), 1);
    admin.execute("select dialectic.delete_session($1)", &[&session]).expect("a deletion");
    let error = refused(&mut admin, "select * from dialectic.match_chunks($1, 'pumps'::text)", &[&session]);
    assert_eq!(error.code().code(), "P0002");
}

#[test]
fn search_works_with_pgvector_in_another_schema() {
    let database = Database::empty();
    let mut client = database.connect();
    client
        .batch_execute(
            "create schema extensions; create extension vector schema extensions; create extension pg_dialectic",
        )
        .expect("extensions");
    set_embedding_model(&mut client, "sim-embed");
    let (_, session) = session_with_manual(&mut client);
    assert_eq!(numbers(&mut client, "'oiled pumps'::text, 1", session), [1]);
    let vector = "dialectic._simulate_embedding('seals')::extensions.vector, 1";
    assert_eq!(numbers(&mut client, vector, session), [2]);
    client.batch_execute("select dialectic.create_memory_index('sim-embed')").expect("an index");
    client.batch_execute("create schema later; alter extension vector set schema later").expect("another schema");
    let mut client = database.connect();
    assert_eq!(numbers(&mut client, "'oiled pumps'::text, 1", session), [1]);
}
