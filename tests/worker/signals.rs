//! Signals: they reach the main thread of the worker and never a call, and a changed setting is heeded while it runs.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn a_hundred_thousand_signals_lose_none_of_500_calls() {
    let (server, mut client) = Server::serving("dialectic.max_concurrent_calls = 500");
    let pid = worker(&mut client).expect("a worker");
    model(&mut client, "slow", "[12000, 15000]");
    reading(&mut client, "slow", 500);
    in_flight(&mut client, 500);
    for burst in 0..1000 {
        for _ in 0..25 {
            for number in [libc::SIGHUP, libc::SIGUSR1, libc::SIGURG, libc::SIGALRM] {
                signal(pid, number);
            }
        }
        // Signals of a kind that arrive before the last one was heeded are one signal: let some be heeded.
        if burst % 10 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(one::<i64>(&mut client, OPEN_CALLS, &[]) > 0, "the calls ended before the signals did");
    all_completed(&mut client, Duration::from_secs(60));
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["500 answered"]);
    assert_eq!(worker(&mut client), Some(pid));
    assert_eq!(server.beginnings().len(), 1, "the server did not go down");
}

#[test]
fn a_reload_changes_how_many_calls_a_running_worker_makes() {
    let (_server, mut client) = Server::serving("dialectic.max_concurrent_calls = 2");
    let pid = worker(&mut client);
    model(&mut client, "endless", "600000");
    single_calls(&mut client, "endless", 20);
    in_flight(&mut client, 2);
    for limit in [5, 9] {
        set(&mut client, "dialectic.max_concurrent_calls", Some(&limit.to_string()));
        in_flight(&mut client, limit);
        remains(Duration::from_millis(200), "no call more", || one::<i64>(&mut client, OPEN_CALLS, &[]) == limit);
    }
    // Fewer: what is under way goes on, and nothing is begun until there is room.
    set(&mut client, "dialectic.max_concurrent_calls", Some("1"));
    single_calls(&mut client, "endless", 1);
    remains(Duration::from_millis(200), "no call more", || one::<i64>(&mut client, OPEN_CALLS, &[]) == 9);
    assert_eq!(worker(&mut client), pid);
}
