//! The worker under logical replication.

use dialectic_tests::server::Server;
use dialectic_tests::*;

#[test]
fn worker_completes_an_essay_that_is_published_with_all_tables() {
    let (_server, mut client) = Server::serving("wal_level = logical");
    client.batch_execute("create publication everything for all tables").expect("a publication");
    client.execute("select pg_create_logical_replication_slot('everything', 'pgoutput')", &[]).expect("a slot");
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why publish?', '{sim-a,sim-b}', process => 'essay')", &[]);
    client.execute("call dialectic.wait($1, '1 minute')", &[&session]).expect("completed");
    let changes: i64 = one(
        &mut client,
        "select count(*) from pg_logical_slot_get_binary_changes('everything', null, null, 'proto_version', '1', \
         'publication_names', 'everything')",
        &[],
    );
    assert!(changes > 100, "{changes}");
    assert_sound(&mut client);
}
