//! How long chunks stay in memory: maintain() deletes what no search used, deletions take chunks along in batches.

use crate::memory::{attach, project, session};
use dialectic_tests::*;
use postgres::Client;

fn maintain(client: &mut Client) {
    client.batch_execute("call dialectic.maintain()").expect("maintain");
}

fn later(client: &mut Client, days: i32) {
    client.batch_execute(&format!("set dialectic.clock_offset = {}", days * 86400)).expect("a later day");
}

fn names(client: &mut Client) -> Vec<String> {
    column(client, "select distinct metadata ->> 'name' from dialectic.memory order by 1", &[])
}

fn search(client: &mut Client, project: Uuid, query: &str) -> usize {
    client.query("select * from dialectic.search($1, $2)", &[&project, &query]).expect("a search").len()
}

/// A project with two texts of several chunks.
fn two_texts(client: &mut Client) -> Uuid {
    let project = project(client);
    attach(client, project, "oil.md", "# A\n\nPumps are oiled.\n\n# B\n\nOil is changed.\n");
    attach(client, project, "seals.md", "# A\n\nSeals are replaced.\n\n# B\n\nSeals are greased.\n");
    assert_eq!(search(client, project, "replaced"), 1);
    project
}

#[test]
fn maintain_deletes_texts_that_no_search_used() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = two_texts(&mut client);
    later(&mut client, 29);
    maintain(&mut client);
    assert_eq!(names(&mut client), ["oil.md", "seals.md"]);
    assert_eq!(search(&mut client, project, "greased"), 1);
    later(&mut client, 31);
    maintain(&mut client);
    assert_eq!(names(&mut client), ["seals.md"]);
    let chunks: i64 = one(&mut client, "select count(*) from dialectic.memory", &[]);
    assert_eq!(chunks, 2, "a text stays whole");
    assert_eq!(search(&mut client, project, "changed"), 1, "it is remembered again when it is needed");
    assert_sound(&mut client);
}

#[test]
fn project_with_a_session_that_goes_on_keeps_its_chunks() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = two_texts(&mut client);
    let session = session(&mut client, project);
    later(&mut client, 400);
    maintain(&mut client);
    assert_eq!(names(&mut client).len(), 2);
    client.query("select dialectic.cancel($1)", &[&session]).expect("cancel");
    client.execute("update dialectic.sessions set status = 'cancelled' where id = $1", &[&session]).expect("an end");
    maintain(&mut client);
    assert!(names(&mut client).is_empty());
}

#[test]
fn use_is_noted_once_a_day() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let project = two_texts(&mut client);
    let used = "select max(last_used_at)::text from dialectic.memory";
    let first: String = one(&mut client, used, &[]);
    search(&mut client, project, "replaced");
    assert_eq!(one::<String>(&mut client, used, &[]), first);
    later(&mut client, 2);
    search(&mut client, project, "replaced");
    assert!(one::<String>(&mut client, used, &[]) > first);
}

#[test]
fn deletions_remove_chunks_in_batches() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for column_name in ["session_id", "project_id"] {
        let project = project(&mut client);
        let session = session(&mut client, project);
        client
            .execute(
                "insert into dialectic.memory (project_id, session_id, source_id, chunk_no, content, tokens, \
                     content_hash, text_config, lexemes) \
                 select $1, case when $3 then $2::uuid end, $1, n, 'x', 1, '', 'simple', '' \
                 from generate_series(1, 2500) as n",
                &[&project, &session, &(column_name == "session_id")],
            )
            .expect("chunks");
        let done: bool = match column_name {
            "session_id" => one(&mut client, "select dialectic.delete_session($1)", &[&session]),
            _ => one(&mut client, "select dialectic.delete_project($1)", &[&project]),
        };
        assert!(!done, "2,500 rows are more than a batch");
        let left = format!("select count(*) from dialectic.memory where {column_name} = $1");
        let id = if column_name == "session_id" { session } else { project };
        assert!(one::<i64>(&mut client, &left, &[&id]) >= 1500);
        maintain(&mut client);
        assert_eq!(one::<i64>(&mut client, &left, &[&id]), 0);
    }
    assert_sound(&mut client);
}
