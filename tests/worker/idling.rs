//! A worker with nothing to do does nothing, and one that cannot get at its work does next to nothing.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::{Duration, Instant};

/// The main thread, and the last of those that call and of those that render, which stay.
const THREADS: usize = 3;

/// How often the threads of a process were put on a processor; none while it has more than stay.
fn switches(pid: i32) -> Option<u64> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let status: Vec<String> =
        threads.flatten().filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok()).collect();
    let counted = status.iter().flat_map(|status| status.lines()).filter(|line| line.contains("ctxt_switches"));
    let sum = counted.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum();
    (status.len() <= THREADS).then_some(sum)
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
    // What the essay left to be done: quiet is when call threads have gone, and half a second without a switch.
    let mut last = (count(), Instant::now());
    soon("they come to rest", || {
        let now = count();
        if now.is_none() || now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > Duration::from_millis(500)
    });
    let before = count().expect("no threads but those that stay");
    std::thread::sleep(Duration::from_secs(10));
    let after = count().expect("no threads but those that stay");
    let woken: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    println!("woken in ten seconds: {woken:?}");
    assert!(woken.iter().all(|times| *times <= 2), "{woken:?}");
}

/// The processor time that a process has used, in hundredths of a second.
fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum()
}

#[test]
fn a_job_that_somebody_holds_locked_is_waited_for_without_haste() {
    let (server, mut client) = Server::serving("");
    switch(&mut client, false);
    single_calls(&mut client, "sim-a", 1);
    let mut holder = server.connect("law");
    holder.batch_execute("begin; select from dialectic.jobs where status = 'pending' for update").expect("a lock");
    switch(&mut client, true);
    let pid = worker(&mut client).expect("a worker");
    soon("the worker has seen it", || {
        one(&mut client, "select xact_start is null from pg_stat_activity where pid = $1", &[&pid])
    });
    let before = ticks(pid);
    std::thread::sleep(Duration::from_secs(2));
    let used = ticks(pid) - before;
    println!("used in two seconds: {used} ms × 10");
    assert!(used < 100, "{used} of 200 hundredths of a second were used to wait");
    holder.batch_execute("commit").expect("commit");
    all_completed(&mut client, Duration::from_secs(20));
}
