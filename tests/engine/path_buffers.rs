//! Paths and counts never read the contents of documents: the buffers of a statement are counted with short contents
//! and again with contents of 1 MB, in one run. Whether the paths are right is tested in files.rs.

use dialectic_tests::*;
use postgres::Client;
use serde_json::Value;

/// Blocks of a content of 1 MB in its TOAST table.
const CONTENT_BLOCKS: u64 = 128;

/// The buffers that a statement reads when everything it needs is cached.
fn buffers(client: &mut Client, statement: &str) -> u64 {
    let mut count = 0;
    for _ in 0..2 {
        let plan: Value = one(client, &format!("explain (analyze, buffers, timing off, format json) {statement}"), &[]);
        let blocks = |name: &str| plan[0]["Plan"][name].as_u64().expect("a number of blocks");
        count = blocks("Shared Hit Blocks") + blocks("Shared Read Blocks");
    }
    count
}

/// A session with two finished documents, and a document of it.
fn two_documents(client: &mut Client) -> (Uuid, Uuid) {
    let run = "select dialectic.run('Why?', models => '{sim-a,sim-b}', process => 'essay', through => 'thesis')";
    let session: Uuid = one(client, run, &[]);
    work(client);
    let document = one(client, "select id from dialectic.documents where session_id = $1 limit 1", &[&session]);
    (session, document)
}

fn store_large_contents(client: &mut Client) {
    for table in ["resources", "contributions"] {
        client
            .batch_execute(&format!(
                "alter table dialectic.{table} alter column content set storage external; \
                 update dialectic.{table} set content = repeat('0123456789abcdef', 65536) where content is not null"
            ))
            .expect("contents of 1 MB");
        client.batch_execute(&format!("vacuum full analyze dialectic.{table}")).expect("vacuum");
    }
}

#[test]
fn paths_and_counts_do_not_read_contents() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, document) = two_documents(&mut client);
    let statements = [
        "select path from dialectic.documents".to_owned(),
        format!("select path from dialectic.documents where session_id = '{session}'"),
        "select count(*) from dialectic.documents".to_owned(),
        format!("select dialectic.storage_path('{document}')"),
        format!("select dialectic._receipt('{session}')"),
    ];
    let before: Vec<u64> = statements.iter().map(|statement| buffers(&mut client, statement)).collect();
    store_large_contents(&mut client);
    for (statement, before) in statements.iter().zip(before) {
        let after = buffers(&mut client, statement);
        assert!(after < before + CONTENT_BLOCKS, "{statement}: {before} buffers with short contents, then {after}");
    }
    // The contents do cost this much where they are read.
    let read = buffers(&mut client, "select md5(content) from dialectic.documents");
    assert!(read > 2 * CONTENT_BLOCKS, "{read}");
}

#[test]
fn receipt_counts_documents_without_their_paths() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, _) = two_documents(&mut client);
    client.batch_execute("begin; set local track_functions = 'all'").expect("begin");
    let receipt: String = one(&mut client, "select dialectic._receipt($1)", &[&session]);
    assert!(receipt.starts_with("2 documents, "), "{receipt}");
    let called: Vec<String> = column(&mut client, "select funcname::text from pg_stat_xact_user_functions", &[]);
    assert!(called.contains(&"_receipt".to_owned()), "{called:?}");
    assert!(!called.contains(&"_artifact_paths".to_owned()), "{called:?}");
}
