//! `CALL run_pending()` can be cut at any moment and loses nothing but the call under way, and it holds nothing while it waits.

use super::{OPEN_CALLS, in_background, latency};
use dialectic_tests::*;
use postgres::Client;

/// An essay with one call in flight that takes ten minutes, cut by `cut`, which gets the process; the queue must go on as
/// if nothing had been.
fn a_cut_call_is_lost_and_costs_nothing(setup: &str, cut: impl FnOnce(&mut Client, i32), sqlstate: &str) {
    let database = Database::by_hand();
    let mut client = database.connect();
    latency(&mut client, "slow", 600_000);
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why laws?', models => '{slow}', process => 'essay')", &[]);
    let mut worker = database.connect();
    worker.batch_execute(setup).expect("setup");
    let process = pid(&mut worker);
    let running = in_background(worker, "call dialectic.run_pending()");
    eventually("a call is in flight", || one::<i64>(&mut client, OPEN_CALLS, &[]) == 1);

    cut(&mut client, process);
    eventually("it ends without its answer", || running.is_finished());
    let (mut worker, result) = running.join().expect("the thread ends");
    assert_eq!(result.expect_err("it was cut").code().map(|code| code.code().to_owned()).as_deref(), Some(sqlstate));
    if sqlstate == "57014" {
        assert_eq!(one::<i32>(&mut worker, "select 1", &[]), 1);
    }
    eventually("its lock is released", || claimers(&mut client) == 0);

    latency(&mut client, "slow", 0);
    // It waits 30 seconds for jobs that are due soon: the job was free before.
    client.batch_execute("set statement_timeout = '20s'").expect("set");
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    client.batch_execute("reset statement_timeout").expect("reset");
    assert_eq!(
        one::<String>(&mut client, "select status from dialectic.sessions where id = $1", &[&session]),
        "completed"
    );
    let outcomes: Vec<String> = column(
        &mut client,
        "select format('%s %s', count(*), outcome) from dialectic.model_calls where session_id = $1 group by outcome order by outcome",
        &[&session],
    );
    assert_eq!(outcomes, ["5 answered", "1 lost"]);
    let charged: Vec<i32> =
        column(&mut client, "select distinct attempt_count from dialectic.jobs where kind = 'execute'", &[]);
    assert_eq!(charged, [1]);
    assert_sound(&mut client);
}

#[test]
fn a_cancelled_run_pending_loses_only_its_call() {
    let cancel = |client: &mut Client, process: i32| {
        assert!(one::<bool>(client, "select pg_cancel_backend($1)", &[&process]));
    };
    a_cut_call_is_lost_and_costs_nothing("", cancel, "57014");
}

#[test]
fn a_run_pending_that_times_out_loses_only_its_call() {
    a_cut_call_is_lost_and_costs_nothing("set statement_timeout = '4s'", |_, _| (), "57014");
}

#[test]
fn a_terminated_run_pending_loses_only_its_call() {
    let terminate = |client: &mut Client, process: i32| {
        assert!(one::<bool>(client, "select pg_terminate_backend($1)", &[&process]));
    };
    a_cut_call_is_lost_and_costs_nothing("", terminate, "57P01");
}

#[test]
fn no_snapshot_is_held_while_a_model_is_called() {
    let database = Database::by_hand();
    let mut client = database.connect();
    latency(&mut client, "slow", 60_000);
    client.execute("select dialectic.run('Why laws?', models => '{slow}', process => 'essay')", &[]).expect("run");
    nothing_is_held_by_the_one_who_waits(&database, &mut client, |client| one::<i64>(client, OPEN_CALLS, &[]) == 1);
}

#[test]
fn no_snapshot_is_held_while_a_retry_is_waited_for() {
    let database = Database::by_hand();
    let mut client = database.connect();
    generated(&mut client, &["sim-a"]);
    client.batch_execute("update dialectic.jobs set run_at = now() + interval '29 seconds'").expect("later");
    nothing_is_held_by_the_one_who_waits(&database, &mut client, |client| claimers(client) == 1);
}

fn nothing_is_held_by_the_one_who_waits(database: &Database, client: &mut Client, waits: impl Fn(&mut Client) -> bool) {
    let mut worker = database.connect();
    let process = pid(&mut worker);
    let running = in_background(worker, "call dialectic.run_pending()");
    eventually("run_pending has come so far", || waits(client));
    // A look reads what a backend holds before it reads what it waits for, and may catch a turn that ends in between: not
    // three times in a row, and neither a snapshot held through the wait that is let go of between two.
    eventually("it waits and holds nothing, three looks in a row", || {
        (0..3).all(|_| {
            one::<bool>(
                client,
                "select coalesce(wait_event_type = 'Extension', false) and backend_xmin is null and backend_xid is null \
                     and not exists (select from pg_locks where pid = $1 and locktype in ('tuple', 'transactionid')) \
                 from pg_stat_activity where pid = $1",
                &[&process],
            )
        })
    });
    client.execute("select pg_cancel_backend($1)", &[&process]).expect("cancel");
    running.join().expect("the thread ends").1.expect_err("it was cut");
}
