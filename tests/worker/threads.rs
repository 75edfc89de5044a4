//! Call threads that panic, and those that cannot be started: the first end their own call and nothing else, the others are waited for.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

#[test]
fn a_call_that_panics_fails_its_job_and_not_the_server() {
    let (server, mut client) = Server::serving("");
    let pid = worker(&mut client);
    add_model(&mut client, "panicky", r#"{"panic": true}"#);
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    let session = essay(&mut client, &["panicky"]);
    essay(&mut client, &["sim-a"]);
    let status = "select status from dialectic.sessions where id = $1";
    within(Duration::from_secs(20), "the session fails", || {
        one::<String>(&mut client, status, &[&session]) == "failed"
    });
    let job: String =
        one(&mut client, "select status from dialectic.jobs where session_id = $1 and kind = 'execute'", &[&session]);
    assert_eq!(job, "retry_loop_failed");
    let calls: Vec<String> = column(
        &mut client,
        "select distinct format('%s %s', outcome, error_class) from dialectic.model_calls where session_id = $1",
        &[&session],
    );
    assert_eq!(calls, ["failed transient"]);
    soon("the other session is done", || {
        one(&mut client, "select count(*) = 1 from dialectic.sessions where status = 'completed'", &[])
    });
    assert_eq!(worker(&mut client), pid);
    assert_eq!(server.beginnings().len(), 1, "the server did not go down");
    assert_sound(&mut client);
}

/// Says whether a process may start threads. Every process of its user counts, so that one is too many already.
fn let_start_threads(pid: i32, may: bool) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("a process");
    let most =
        limits.lines().find(|line| line.starts_with("Max processes")).and_then(|line| line.split_whitespace().nth(3));
    let user = std::fs::metadata(format!("/proc/{pid}")).expect("a process");
    let status = Command::new("prlimit")
        .args(["--pid", &pid.to_string(), &format!("--nproc={}:", if may { most.expect("a limit") } else { "1" })])
        .uid(user.uid())
        .gid(user.gid())
        .status();
    assert!(status.expect("prlimit").success());
}

#[test]
fn calls_wait_for_a_thread_that_is_there_when_no_other_can_be_started() {
    let (_server, mut client) = Server::serving("");
    essay(&mut client, &["sim-a"]);
    all_completed(&mut client, Duration::from_secs(20));
    let before: i64 = one(&mut client, "select count(*) from dialectic.model_calls", &[]);
    let_start_threads(worker(&mut client).expect("a worker"), false);
    model(&mut client, "brief", "50");
    single_calls(&mut client, "brief", 20);
    all_completed(&mut client, Duration::from_secs(20));
    let outcomes: Vec<String> = column(&mut client, OUTCOMES, &[]);
    assert_eq!(outcomes, [format!("{} answered", before + 20)], "none was failed for want of a thread");
}

#[test]
fn work_for_which_there_is_no_thread_at_all_goes_on_as_soon_as_there_is_one() {
    let (server, mut client) = Server::serving("");
    let pid = worker(&mut client).expect("a worker");
    let_start_threads(pid, false);
    single_calls(&mut client, "sim-a", 1);
    soon("it says why it does not go on", || !server.said("no thread").is_empty());
    let_start_threads(pid, true);
    all_completed(&mut client, Duration::from_secs(20));
    assert_eq!(worker(&mut client), Some(pid));
}

#[test]
fn a_call_that_waits_for_a_thread_can_be_cancelled_and_gets_one_as_soon_as_there_is_one() {
    let (_server, mut client) = Server::serving("");
    essay(&mut client, &["sim-a"]);
    all_completed(&mut client, Duration::from_secs(20));
    client.execute("select dialectic.open_wallet('role:postgres', 100000000)", &[]).expect("a wallet");
    client
        .batch_execute("select dialectic.add_model('endless', 'simulator', output_price => 1, settings => '{\"latency_ms\": 600000}')")
        .expect("add_model");
    let pid = worker(&mut client).expect("a worker");
    // Those that were called for the essay are busy, or gone.
    single_calls(&mut client, "endless", 8);
    in_flight(&mut client, 8);
    let_start_threads(pid, false);
    // More than can have been left idle.
    let run = "select dialectic.run('Why?', models => '{endless}', process => 'essay') from generate_series(1, 12)";
    let waiting: Vec<Uuid> = column(&mut client, run, &[]);
    in_flight(&mut client, 20);
    client.execute("select dialectic.cancel(session) from unnest($1::uuid[]) as session", &[&waiting]).expect("cancel");
    in_flight(&mut client, 8);
    essay(&mut client, &["sim-a"]);
    in_flight(&mut client, 9);
    let_start_threads(pid, true);
    let completed = "select count(*) from dialectic.sessions where status = 'completed'";
    soon("it has found a thread", || one::<i64>(&mut client, completed, &[]) == 2);
    assert_sound(&mut client);
}
