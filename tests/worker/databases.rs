//! Several databases: each that has the extension gets a worker of its own, and nobody connects to the others for long, nor to
//! a template at all.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

fn served_databases(client: &mut Client) -> Vec<String> {
    column(
        client,
        "select datname::text from pg_stat_activity where backend_type = 'pg_dialectic worker' order by 1",
        &[],
    )
}

/// How many transactions anybody had in each template.
fn visits(client: &mut Client) -> Vec<String> {
    column(
        client,
        "select format('%s %s', s.datname, s.xact_commit + s.xact_rollback) from pg_stat_database s \
         join pg_database d on d.oid = s.datid where d.datistemplate order by 1",
        &[],
    )
}

#[test]
fn three_databases_are_served_at_once_and_one_without_the_extension_is_not() {
    let server = Server::with("autovacuum = off");
    let mut bare = server.connect("postgres");
    bare.batch_execute("create database plain").expect("a database");
    let names = ["one", "three", "two"];
    let mut clients = names.map(|name| server.served(name));
    assert_eq!(served_databases(&mut bare), names);
    for client in &mut clients {
        model(client, "slow", "[50, 200]");
        essay(client, &["slow", "sim-a"]);
    }
    for client in &mut clients {
        all_completed(client, Duration::from_secs(30));
    }
    drop(clients);
    let before = visits(&mut bare);
    drop(bare);

    server.stop("fast");
    server.start();
    let mut bare = server.connect("postgres");
    soon("all are served again", || served_databases(&mut bare) == names);
    for name in names {
        let mut client = server.connect(name);
        let session = essay(&mut client, &["sim-a"]);
        all_completed(&mut client, Duration::from_secs(20));
        let status: String = one(&mut client, "select status from dialectic.sessions where id = $1", &[&session]);
        assert_eq!(status, "completed");
    }
    assert_eq!(served_databases(&mut bare), names);
    assert_eq!(visits(&mut bare), before, "a template was connected to");
}

#[test]
fn a_template_with_the_extension_has_no_worker_and_its_copies_have() {
    let server = Server::with("");
    let mut client = server.connect("postgres");
    client.batch_execute("create database pattern is_template true").expect("a template");
    let mut inside = server.connect("pattern");
    create_extension(&mut inside);
    essay(&mut inside, &["sim-a"]);
    // Whoever asks after it is served after it.
    drop(server.served("later"));
    assert_eq!(worker(&mut inside), None);
    drop(inside);

    client.batch_execute("create database copy template pattern").expect("a copy");
    let mut copy = server.connect("copy");
    essay(&mut copy, &["sim-b"]);
    all_completed(&mut copy, Duration::from_secs(20));
    drop(copy);
    server.stop("fast");
    server.start();
    let mut client = server.connect("postgres");
    soon("both are served again", || served_databases(&mut client) == ["copy", "later"]);
    client.batch_execute("create database another template pattern").expect("nobody is in the template");
}
