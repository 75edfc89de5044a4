//! A disk without room for WAL stops the server; when there is room again, nothing is lost.

use crate::load::*;
use crate::tmpfs::Tmpfs;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::io::Write;
use std::process::Command;
use std::time::Duration;

#[test]
fn full_wal_stops_the_server_and_loses_nothing() {
    let server = Server::with("min_wal_size = '32MB'\nmax_wal_size = '48MB'");
    let mut client = server.served("law");
    model(&mut client, "slow", "[20, 100]");
    drop(client);
    server.stop("fast");
    let (wal, small) = (server.data().join("pg_wal"), server.data().with_file_name("wal"));
    let _mounted = Tmpfs::mount(&small, "96m");
    let copied = Command::new("cp").arg("-a").arg(wal.join(".")).arg(&small).status().expect("cp");
    assert!(copied.success());
    std::fs::remove_dir_all(&wal).expect("the old place of the WAL");
    std::os::unix::fs::symlink(&small, &wal).expect("a link");
    server.start();

    let mut client = server.connect("law");
    let sessions: Vec<Uuid> = (0..3).map(|_| essay(&mut client, &["slow", "sim-a"])).collect();
    soon("calls are in flight", || one::<i64>(&mut client, OPEN_CALLS, &[]) > 0);
    let postmaster = server.postmaster();
    let filler = small.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    while file.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    let fill = "select pg_logical_emit_message(false, 'fill', repeat('x', 1000000))";
    while client.execute(fill, &[]).is_ok() {}
    within(Duration::from_secs(60), "the server stops", || !lives(postmaster));
    drop(file);
    std::fs::remove_file(&filler).expect("room");
    server.start();

    let mut client = server.connect("law");
    all_completed(&mut client, Duration::from_secs(60));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.sessions", &[]), sessions.len() as i64);
    let outcomes: Vec<String> =
        column(&mut client, "select distinct outcome from dialectic.model_calls order by 1", &[]);
    assert!(outcomes.iter().all(|outcome| ["answered", "lost"].contains(&outcome.as_str())), "{outcomes:?}");
}
