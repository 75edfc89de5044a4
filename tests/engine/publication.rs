//! Logical replication: a publication for all tables of the database does not stop the engine.

use dialectic_tests::*;

#[test]
fn every_table_has_a_replica_identity() {
    let database = Database::new();
    let without: Vec<String> = column(
        &mut database.connect(),
        "select c.relname::text from pg_class c where c.relnamespace = 'dialectic'::regnamespace \
         and c.relkind in ('r', 'p') and c.relreplident <> 'f' and not exists ( \
             select from pg_index i where i.indrelid = c.oid and i.indisvalid and i.indimmediate \
             and case c.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident end) order by 1",
        &[],
    );
    assert_eq!(without, [] as [String; 0]);
}

#[test]
fn essay_completes_under_a_publication_for_all_tables() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute("set client_min_messages = error; create publication everything for all tables")
        .expect("a publication");
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why publish?', '{sim-a,sim-b}', process => 'essay')", &[]);
    hand_over(&mut client);
    let status = "select status from dialectic.sessions where id = $1";
    assert_eq!(one::<String>(&mut client, status, &[&session]), "completed");
    client.execute("select dialectic.set_config('worker_enabled', 'false')", &[]).expect("off");
    let other = generated(&mut client, &["sim-a"]);
    assert_eq!(one::<i32>(&mut client, "select dialectic.cancel($1)", &[&other]), 1);
    client.execute("delete from dialectic.projects", &[]).expect("all is deleted");
    assert_sound(&mut client);
}
