//! The table of memory: which pgvector it needs and where that may be installed, who sees its rows, what refuses a row.

use dialectic_tests::*;
use postgres::Client;

/// Writes a chunk of a text that somebody attached, with an embedding of three numbers.
pub(crate) fn write_chunk(client: &mut Client, project: Uuid, session: Option<Uuid>) -> Uuid {
    one(
        client,
        "insert into dialectic.memory (project_id, session_id, source_id, chunk_no, content, tokens, metadata, \
             content_hash, text_config, lexemes, embedding_model, embedding) \
         values ($1, $2, gen_random_uuid(), 1, 'Pumps are oiled', 3, '{\"kind\": \"general_resource\"}', \
             sha256('Pumps are oiled'), 'english', to_tsvector('english', 'Pumps are oiled'), 'sim-embed', '[0.25,0.5,1]') returning id",
        &[&project, &session],
    )
}

fn new_project(client: &mut Client) -> Uuid {
    one(client, "select dialectic.create_project('x', 'x', process => 'essay')", &[])
}

#[test]
fn pgvector_may_be_in_any_schema() {
    let database = Database::empty();
    let mut client = database.connect();
    client
        .batch_execute(
            "create schema \"Ext ensions\"; create extension vector schema \"Ext ensions\"; \
             create extension pg_dialectic",
        )
        .expect("extensions");
    let project = new_project(&mut client);
    write_chunk(&mut client, project, None);
    let distance = "select dialectic._cosine_distance(embedding, embedding) = 0 \
                           and dialectic._dimensions(embedding) = 3 \
                    from dialectic.memory";
    assert!(one::<bool>(&mut client, distance, &[]));
    // The operators are bound, so the schema may change afterwards.
    client.batch_execute("create schema later; alter extension vector set schema later").expect("another schema");
    assert!(one::<bool>(&mut database.connect(), distance, &[]));
}

#[test]
fn installation_refuses_pgvector_before_0_8_0() {
    let database = Database::empty();
    let mut client = database.connect();
    client
        .batch_execute("create extension vector; update pg_extension set extversion = '0.7.4' where extname = 'vector'")
        .expect("an older version");
    let error = refused(&mut client, "create extension pg_dialectic", &[]);
    assert_eq!(error.code().code(), "0A000");
    assert_eq!(error.message(), "pgvector 0.8.0 or later is required, but version 0.7.4 is installed");
    assert_eq!(error.hint(), Some("ALTER EXTENSION vector UPDATE;"));
    client
        .batch_execute("update pg_extension set extversion = '0.10.0' where extname = 'vector'")
        .expect("a later one");
    client.batch_execute("create extension pg_dialectic").expect("0.10.0 is later than 0.8.0");
}

#[test]
fn owner_sees_own_chunks_and_admin_sees_all() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    let role = format!("{}_reader", database.name());
    admin.batch_execute(&format!("create role {role} login; select dialectic.grant_user('{role}')")).expect("a role");
    let other = new_project(&mut admin);
    write_chunk(&mut admin, other, None);
    let mut user = database.connect_as(&role);
    let own = new_project(&mut user);
    write_chunk(&mut admin, own, None);
    let projects = "select project_id from dialectic.memory order by 1";
    assert_eq!(column::<Uuid>(&mut user, projects, &[]), [own]);
    assert_eq!(column::<Uuid>(&mut admin, projects, &[]).len(), 2);
    let error = refused(&mut user, "delete from dialectic.memory", &[]);
    assert_eq!(error.code().code(), "42501");
    admin.execute("insert into dialectic.deletions (id, kind) values ($1, 'project')", &[&own]).expect("a deletion");
    assert!(column::<Uuid>(&mut user, projects, &[]).is_empty());
}

#[test]
fn chunks_go_with_their_session_and_project() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    let project: Uuid = one(&mut client, "select project_id from dialectic.sessions where id = $1", &[&session]);
    write_chunk(&mut client, project, Some(session));
    let attached = write_chunk(&mut client, project, None);
    client.execute("delete from dialectic.sessions where id = $1", &[&session]).expect("a deletion");
    assert_eq!(column::<Uuid>(&mut client, "select id from dialectic.memory", &[]), [attached]);
    client.execute("delete from dialectic.projects where id = $1", &[&project]).expect("a deletion");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.memory", &[]), 0);
}
