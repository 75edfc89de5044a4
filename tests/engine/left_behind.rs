//! What somebody has claimed and left behind is taken up by whoever works the queue, without being told: by the worker, where there
//! is one, in the moment it can be, and by the next `run_pending` otherwise.

use crate::by_hand::{claimer, take};
use dialectic_tests::*;
use postgres::Client;

/// A session whose root somebody has claimed in a way of his own. The worker is switched on then, has done what else there is,
/// and rests.
fn claimed(database: &Database, claim: impl FnOnce(&mut Client)) -> (Client, Uuid) {
    let mut client = database.connect();
    let session = generated(&mut client, &["sim-a"]);
    claim(&mut client);
    let other = generated(&mut client, &["sim-a"]);
    client.execute("select dialectic.set_config('worker_enabled', 'true')", &[]).expect("set_config");
    if preloaded() {
        let rests = "select exists (select from dialectic.documents where session_id = $1) and exists ( \
                         select from pg_stat_activity where datname = current_database() \
                         and backend_type = 'pg_dialectic worker' and state = 'idle' and wait_event_type = 'Extension')";
        eventually("the worker rests", || one(&mut client, rests, &[&other]));
    }
    (client, session)
}

fn is_taken_up(client: &mut Client, session: Uuid) {
    let documents = "select count(*) from dialectic.documents where session_id = $1";
    eventually("what was left behind is done", || {
        if !preloaded() {
            client.batch_execute("call dialectic.run_pending()").expect("run_pending");
        }
        one::<i64>(client, documents, &[&session]) == 1
    });
    assert_sound(client);
}

#[test]
fn a_job_whose_lease_passes_is_taken_up() {
    let database = Database::by_hand();
    let (mut client, session) = claimed(&database, |client| {
        client.execute("select dialectic.claim_jobs('outside', 1, '3 s')", &[]).expect("claim_jobs");
    });
    is_taken_up(&mut client, session);
}

#[test]
fn a_job_whose_claimer_dies_is_taken_up() {
    let database = Database::by_hand();
    let (mut other, name) = claimer(&database);
    let (mut client, session) = claimed(&database, |_| assert_eq!(take(&mut other, &name), 1));
    let process = pid(&mut other);
    assert!(one::<bool>(&mut client, "select pg_terminate_backend($1, 10000)", &[&process]));
    is_taken_up(&mut client, session);
}
