//! A job that kills whoever works on it: it ends, and nothing else does.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;
use std::time::Duration;

/// Kills the worker of this database and waits for the server to be back; a connection to it.
fn kill_worker(server: &Server, client: &mut Client) -> Client {
    let before = server.beginnings().len();
    signal(worker(client).expect("a worker"), libc::SIGKILL);
    within(Duration::from_secs(30), "the server is back", || server.beginnings().len() > before);
    server.connect("law")
}

fn job_status(client: &mut Client, job: Uuid) -> String {
    one(client, "select status from dialectic.jobs where id = $1", &[&job])
}

#[test]
fn job_that_kills_its_claimer_three_times_fails() {
    let (server, mut client) = Server::serving("");
    for name in ["healthy", "killer"] {
        model(&mut client, name, "600000");
    }
    reading(&mut client, "healthy", 63);
    let poisoned = generated(&mut client, &["killer"]);
    in_flight(&mut client, 64);
    let killer: Uuid =
        one(&mut client, "select id from dialectic.jobs where session_id = $1 and kind = 'execute'", &[&poisoned]);
    model(&mut client, "healthy", "0");
    client = kill_worker(&server, &mut client);

    let mut kills = 0;
    // A claim that was lost stays until the next worker releases it: only a new one has been worked.
    let mut lost = None;
    let alone = "select (select j.claim_id from dialectic.jobs j join dialectic.model_calls c \
         on c.job_id = j.id and c.claim_id = j.claim_id and c.outcome = 'open' \
         join dialectic.claims t on t.is_alone and j.id = any (t.job_ids) where j.id = $1)";
    let left = "select count(*) from dialectic.jobs j join dialectic.job_statuses s using (status) \
         where j.kind = 'execute' and s.phase <> 'ended'";
    within(Duration::from_secs(180), "every job has ended", || {
        let claim: Option<i64> = one(&mut client, alone, &[&killer]);
        if claim.is_some() && claim != lost {
            lost = claim;
            let processing: i64 =
                one(&mut client, "select count(*) from dialectic.jobs where status = 'processing'", &[]);
            assert_eq!(processing, 1, "nothing else is in flight with it");
            kills += 1;
            client = kill_worker(&server, &mut client);
        }
        one::<i64>(&mut client, left, &[]) == 0
    });
    assert_eq!(job_status(&mut client, killer), "failed");
    let details: String = one(&mut client, "select error_details::text from dialectic.jobs where id = $1", &[&killer]);
    assert!(details.contains("internal") && details.contains("3 times"), "{details}");
    let completed: i64 = one(
        &mut client,
        "select count(*) from dialectic.jobs where model = 'healthy' and kind = 'execute' and status = 'completed'",
        &[],
    );
    assert_eq!(completed, 63);
    assert_eq!(kills, 3, "losses while it was worked alone");
    assert_sound(&mut client);
}

#[test]
fn ordered_shutdown_is_no_loss() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "slow", "600000");
    generated(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    server.stop("fast");
    server.start();
    client = server.connect("law");
    in_flight(&mut client, 1);
    let suspects: i64 = one(&mut client, "select count(*) from dialectic.suspect_jobs", &[]);
    assert_eq!(suspects, 0);
    let terminated = worker(&mut client).expect("a worker");
    client.execute("select pg_terminate_backend($1)", &[&terminated]).expect("terminated");
    soon("another worker comes", || worker(&mut client).is_some_and(|pid| pid != terminated));
    in_flight(&mut client, 1);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.suspect_jobs", &[]), 0);
}

#[test]
fn finished_call_clears_the_suspicion() {
    let (server, mut client) = Server::serving("");
    model(&mut client, "slow", "600000");
    let session = generated(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    client = kill_worker(&server, &mut client);
    let suspects = "select count(*) from dialectic.suspect_jobs";
    soon("the job is worked alone", || {
        one::<i64>(&mut client, suspects, &[]) == 1 && one::<i64>(&mut client, OPEN_CALLS, &[]) == 1
    });
    let alone: i64 = one(&mut client, "select count(*) from dialectic.claims where is_alone", &[]);
    assert_eq!(alone, 1);
    // What is due beside it waits until it is done.
    let other = essay(&mut client, &["sim-a"]);
    let begun = "select count(*) from dialectic.jobs where session_id = $1 and claim_id is not null";
    remains(Duration::from_millis(300), "nothing else is claimed", || one::<i64>(&mut client, begun, &[&other]) == 0);
    model(&mut client, "slow", "0");
    client = kill_worker(&server, &mut client);
    let status = "select status from dialectic.sessions where id = $1";
    soon("the other session completes", || one::<String>(&mut client, status, &[&other]) == "completed");
    let documents = "select count(*) from dialectic.documents where session_id = $1";
    soon("the suspect is worked", || one::<i64>(&mut client, documents, &[&session]) == 1);
    assert_eq!(one::<i64>(&mut client, suspects, &[]), 0);
    assert_sound(&mut client);
}
