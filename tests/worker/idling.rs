//! A worker with nothing to do does nothing.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

/// How often the threads of a process were put on a processor.
fn switches(pid: i32) -> u64 {
    let count = |thread: std::fs::DirEntry| -> u64 {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let counted = status.lines().filter(|line| line.contains("ctxt_switches"));
        counted.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
    };
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    threads.flatten().map(count).sum()
}

#[test]
fn in_ten_idle_seconds_launcher_and_worker_wake_up_at_most_twice() {
    let (_server, mut client) = Server::serving("");
    essay(&mut client, &["sim-a", "sim-b"]);
    all_completed(&mut client, Duration::from_secs(20));
    let processes: Vec<i32> =
        column(&mut client, "select pid from pg_stat_activity where backend_type like 'pg_dialectic %'", &[]);
    assert_eq!(processes.len(), 2);
    let count = || processes.iter().map(|pid| switches(*pid)).collect::<Vec<_>>();
    // What the essay left to be done: quiet is half a second without any.
    let mut last = (count(), std::time::Instant::now());
    within(Duration::from_secs(20), "they come to rest", || {
        let now = count();
        if now != last.0 {
            last = (now, std::time::Instant::now());
        }
        last.1.elapsed() > Duration::from_millis(500)
    });
    let before = count();
    std::thread::sleep(Duration::from_secs(10));
    let woken: Vec<u64> = count().iter().zip(&before).map(|(after, before)| after - before).collect();
    println!("woken in ten seconds: {woken:?}");
    assert!(woken.iter().all(|times| *times <= 2), "{woken:?}");
}
