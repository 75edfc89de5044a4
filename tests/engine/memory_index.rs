//! The index of embeddings: how it is made, that it is used and exact enough under filters, and who hears of its lack.

use crate::memory::{project, session, set_embedding_model};
use dialectic_tests::*;
use postgres::Client;

const CHUNKS: i32 = 4000;

/// A session over a project with one attachment of many chunks. Their vectors have eight dimensions and lie in clusters,
/// and one chunk in twenty is of kind "rare".
fn large_project(client: &mut Client) -> (Uuid, Uuid) {
    let project = project(client);
    let session = session(client, project);
    let source: Uuid = one(
        client,
        "select dialectic.add_resource($1, 'large.md', 'The text is not what its chunks say.')",
        &[&project],
    );
    client
        .execute(
            "insert into dialectic.memory (project_id, source_id, chunk_no, content, tokens, metadata, content_hash, \
                 text_config, lexemes, embedding_model, embedding) \
             select $1, $2, n, 'chunk ' || n, 2, \
                 jsonb_build_object('kind', case when n % 20 = 0 then 'rare' else 'common' end), \
                 sha256(n::text::bytea), 'simple', '', 'nomic-embed-text', \
                 array(select (hashtext(format('%s %s', n % 50, d)) % 1000 \
                               + hashtext(format('%s %s', n, d)) % 600)::real \
                       from generate_series(1, 8) as d) \
             from generate_series(1, $3::integer) as n",
            &[&project, &source, &CHUNKS],
        )
        .expect("chunks");
    client.batch_execute("analyze dialectic.memory").expect("analyze");
    set_embedding_model(client, "nomic-embed-text");
    (project, session)
}

/// Makes a smaller number of chunks large.
fn search_by_index_from(client: &mut Client, chunks: i32) {
    client
        .batch_execute(&format!(
            "create or replace function dialectic._exact_search_limit() returns integer language sql immutable \
             return {chunks}"
        ))
        .expect("another limit");
}

fn nearest(client: &mut Client, function: &str, session: Uuid, query: i32, filter: &str) -> Vec<Uuid> {
    let expression = if function == "_nearest_by_index" { "'embedding::public.vector(8)'," } else { "" };
    let statement = format!(
        "select n.id from dialectic.{function}(dialectic._searched_in_session($1), 'nomic-embed-text', {expression} \
             (select array(select (hashtext(format('%s %s', $2 % 50, d)) % 1000 \
                                   + hashtext(format('q %s %s', $2, d)) % 600)::real \
                           from generate_series(1, 8) as d)::vector), '{filter}', 10) as n"
    );
    column(client, &statement, &[&session, &query])
}

#[test]
fn index_finds_what_comparing_all_chunks_finds_under_a_filter() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, session) = large_project(&mut client);
    client.batch_execute("select dialectic.create_memory_index('nomic-embed-text')").expect("an index");
    search_by_index_from(&mut client, 1000);
    let scans = "select idx_scan from pg_stat_user_indexes where indexrelname like 'memory\\_hnsw\\_%'";
    for filter in [r#"{"kind": "rare"}"#, "{}"] {
        let (mut same, mut all) = (0, 0);
        for query in 0..40 {
            let exact = nearest(&mut client, "_nearest_of_all", session, query, filter);
            let found = nearest(&mut client, "_nearest_by_index", session, query, filter);
            assert_eq!((exact.len(), found.len()), (10, 10), "{filter}");
            same += exact.iter().filter(|id| found.contains(id)).count();
            all += exact.len();
        }
        println!("recall@10 of the index with filter {filter}: {same}/{all}");
        assert!(same * 10 >= all * 9, "{same} of {all} with {filter}");
    }
    // Statistics are sent when a transaction ends, and at the latest when a connection closes.
    drop(client);
    let mut client = database.connect();
    eventually("the index was read", || one::<i64>(&mut client, scans, &[]) >= 80);
}

#[test]
fn large_project_is_searched_by_index_and_a_small_one_is_not() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, session) = large_project(&mut client);
    client.batch_execute("select dialectic.create_memory_index('nomic-embed-text')").expect("an index");
    let scans = |client: &mut Client| {
        client.batch_execute("select pg_stat_force_next_flush()").expect("a flush");
        one::<i64>(client, "select idx_scan from pg_stat_user_indexes where indexrelname like 'memory\\_hnsw\\_%'", &[])
    };
    assert_eq!(nearest(&mut client, "_nearest", session, 1, "{}").len(), 10);
    assert_eq!(scans(&mut client), 0);
    search_by_index_from(&mut client, 1000);
    assert_eq!(nearest(&mut client, "_nearest", session, 1, "{}").len(), 10);
    assert_eq!(scans(&mut client), 1);
    // A filter that admits fewer chunks than are wanted.
    let few = r#"{"kind": "none"}"#;
    assert!(nearest(&mut client, "_nearest", session, 1, few).is_empty());
}

#[test]
fn vectors_over_2000_dimensions_are_indexed_as_halfvec_and_over_4000_refused() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = project(&mut client);
    let mut index = |dimensions: i32, model: &str| {
        client
            .execute(
                "insert into dialectic.memory (project_id, source_id, chunk_no, content, tokens, content_hash, \
                     text_config, lexemes, embedding_model, embedding) \
                 select $1, gen_random_uuid(), 1, 'x', 1, '', 'simple', '', $2, \
                     array_fill(0.5::real, array[$3::integer])",
                &[&project, &model, &dimensions],
            )
            .expect("a chunk");
        client.query_one("select dialectic.create_memory_index($1)", &[&model]).map(|row| row.get::<_, String>(0))
    };
    let name = index(3072, "text-embedding-3-large").expect("an index");
    let error = index(4001, "gemini-embedding-001").expect_err("too long");
    let error = error.as_db_error().expect("an error of the database");
    assert_eq!(error.code().code(), "54000");
    assert_eq!(error.message(), "embeddings of 4001 dimensions cannot be indexed");
    let definition: String = one(&mut client, "select pg_get_indexdef(('dialectic.' || $1)::regclass)", &[&name]);
    assert!(definition.contains("halfvec(3072)") && definition.contains("text-embedding-3-large"), "{definition}");
    for (model, code) in [("sim-embed", "55000"), ("sim-a", "22023"), ("nobody", "42704")] {
        let error = refused(&mut client, "select dialectic.create_memory_index($1)", &[&model]);
        assert_eq!(error.code().code(), code, "{error:?}");
    }
}

#[test]
fn health_names_a_large_project_without_an_index() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (project, _) = large_project(&mut client);
    let problems = "select p from dialectic.health(), unnest(problems) as p where p like '%chunks and no index%'";
    assert!(column::<String>(&mut client, problems, &[]).is_empty());
    search_by_index_from(&mut client, 1000);
    let found: Vec<String> = column(&mut client, problems, &[]);
    let hint = "SELECT dialectic.create_memory_index('nomic-embed-text')";
    let expected = format!("project {project} has 4000 chunks and no index, so searches compare each of them: {hint}");
    assert_eq!(found, [expected]);
    let role = format!("{}_other", database.name());
    client.batch_execute(&format!("create role {role} login; select dialectic.grant_user('{role}')")).expect("a role");
    let mut user = database.connect_as(&role);
    assert!(column::<String>(&mut user, problems, &[])[0].starts_with("a project of another owner has 4000 chunks"));
    assert_eq!(refused(&mut user, hint, &[]).code().code(), "42501");
    client.batch_execute(hint).expect("the statement that helps");
    assert!(column::<String>(&mut client, problems, &[]).is_empty());
}
