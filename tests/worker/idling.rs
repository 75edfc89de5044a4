//! A worker with nothing to do does nothing.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::{Duration, Instant};

/// How often the process was put on a processor, where its only thread is the one that waits; none while it has others.
fn switches(pid: i32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process").count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let counted = status.lines().filter(|line| line.contains("ctxt_switches"));
    let sum = counted.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum();
    (threads == 1).then_some(sum)
}

#[test]
fn in_ten_idle_seconds_launcher_and_worker_wake_up_at_most_twice() {
    let (_server, mut client) = Server::serving("");
    essay(&mut client, &["sim-a", "sim-b"]);
    all_completed(&mut client, Duration::from_secs(20));
    let processes: Vec<i32> =
        column(&mut client, "select pid from pg_stat_activity where backend_type like 'pg_dialectic %'", &[]);
    assert_eq!(processes.len(), 2);
    let count = || processes.iter().map(|pid| switches(*pid)).collect::<Option<Vec<_>>>();
    // What the essay left to be done: quiet is when the call threads have gone, and half a second without a switch.
    let mut last = (count(), Instant::now());
    soon("they come to rest", || {
        let now = count();
        if now.is_none() || now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > Duration::from_millis(500)
    });
    let before = count().expect("no call threads");
    std::thread::sleep(Duration::from_secs(10));
    let after = count().expect("no call threads");
    let woken: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    println!("woken in ten seconds: {woken:?}");
    assert!(woken.iter().all(|times| *times <= 2), "{woken:?}");
}
