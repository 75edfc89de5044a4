//! Deletion by owners and admins: what goes, what is hidden at once, what stays.

use dialectic_tests::*;
use postgres::Client;

/// Every table that has rows of sessions, and how many are left in all of them.
fn rows_left(client: &mut Client) -> i64 {
    one(
        client,
        "select (select count(*) from dialectic.sessions) + (select count(*) from dialectic.stage_runs) \
              + (select count(*) from dialectic.jobs) + (select count(*) from dialectic.job_inputs) \
              + (select count(*) from dialectic.job_dependencies) + (select count(*) from dialectic.contributions) \
              + (select count(*) from dialectic.resources where session_id is not null) \
              + (select count(*) from dialectic.model_calls) + (select count(*) from dialectic.partials) \
              + (select count(*) from dialectic.budgets) + (select count(*) from dialectic.notifications)",
        &[],
    )
}

fn user(database: &Database, role: &str) -> Client {
    let user = database.connect_as(role);
    database.connect().execute("select dialectic.grant_user($1::text::name)", &[&role]).expect("a grant");
    user
}

fn essay(client: &mut Client) -> Uuid {
    one(client, "select dialectic.run('To be deleted', models => '{sim-a}', process => 'essay', budget => 1000)", &[])
}

/// As many notifications as make a session large.
fn enlarge(admin: &mut Client, session: Uuid, rows: i32) {
    admin
        .execute(
            "insert into dialectic.notifications (owner, session_id, type, title, message) \
             select s.owner, s.id, 'planner_started', 'x', 'x' from dialectic.sessions s, generate_series(1, $2) \
             where s.id = $1",
            &[&session, &rows],
        )
        .expect("notifications");
}

#[test]
fn owner_deletes_a_session_and_its_cost_stays() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    let mut owner = user(&database, "law_delete_owner");
    let session = essay(&mut owner);
    work(&mut admin);
    let calls: i64 = one(&mut owner, "select sum(calls)::bigint from dialectic.usage", &[]);
    assert!(one::<bool>(&mut owner, "select dialectic.delete_session($1)", &[&session]));
    assert_eq!(rows_left(&mut admin), 0);
    assert_eq!(one::<i64>(&mut admin, "select count(*) from dialectic.deletions", &[]), 0);
    assert_eq!(one::<i64>(&mut owner, "select sum(calls)::bigint from dialectic.usage", &[]), calls);
    assert_eq!(one::<i64>(&mut owner, "select count(*) from dialectic.projects", &[]), 1);
    assert_sound(&mut admin);
}

#[test]
fn session_of_another_owner_cannot_be_deleted() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    let session = essay(&mut user(&database, "law_delete_victim"));
    let project: Uuid = one(&mut admin, "select id from dialectic.projects", &[]);
    let mut thief = user(&database, "law_delete_thief");
    refused_with(&mut thief, "select dialectic.delete_session($1)", &[&session], "P0002", "does not exist");
    refused_with(&mut thief, "select dialectic.delete_project($1)", &[&project], "P0002", "does not exist");
    work(&mut admin);
    assert_eq!(one::<i32>(&mut thief, "select dialectic.purge('0')", &[]), 0);
    assert_eq!(one::<i64>(&mut admin, "select count(*) from dialectic.sessions", &[]), 1);
}

#[test]
fn admin_deletes_a_project_of_another_owner() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    essay(&mut user(&database, "law_delete_other"));
    let project: Uuid = one(&mut admin, "select id from dialectic.projects", &[]);
    assert!(one::<bool>(&mut admin, "select dialectic.delete_project($1)", &[&project]));
    assert_eq!(rows_left(&mut admin), 0);
    assert_eq!(one::<i64>(&mut admin, "select count(*) from dialectic.resources", &[]), 0);
    assert_sound(&mut admin);
}

#[test]
fn large_session_is_hidden_at_once_and_removed_in_parts() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    let mut owner = user(&database, "law_delete_large");
    let mut ops = database.connect_as("law_delete_ops");
    admin.batch_execute("select dialectic.grant_admin('law_delete_ops')").expect("a grant");
    let session = essay(&mut owner);
    work(&mut admin);
    enlarge(&mut admin, session, 2500);
    let usage = "select concat_ws(' ', sum(calls), sum(input_tokens), sum(output_tokens)) from dialectic.usage";
    let before: String = one(&mut admin, usage, &[]);
    assert!(!one::<bool>(&mut owner, "select dialectic.delete_session($1)", &[&session]));
    let rows = rows_left(&mut admin);
    for client in [&mut owner, &mut ops] {
        for table in ["sessions", "stage_runs", "jobs", "contributions", "model_calls", "notifications", "documents"] {
            let count: i64 = one(client, &format!("select count(*) from dialectic.{table}"), &[]);
            assert_eq!(count, 0, "{table}");
        }
        refused_with(client, "select * from dialectic.progress($1)", &[&session], "P0002", "does not exist");
        refused_with(client, "select dialectic.retry($1)", &[&session], "P0002", "no session");
        assert_eq!(one::<String>(client, usage, &[]), before);
    }
    assert_sound(&mut admin);
    let mut left = rows;
    while left > 0 {
        admin.batch_execute("select dialectic._maintain_batch()").expect("a batch");
        let now = rows_left(&mut admin);
        assert!(now < left && left - now <= 1000, "{left} rows became {now}");
        left = now;
        assert_sound(&mut admin);
        assert_eq!(one::<String>(&mut admin, usage, &[]), before);
    }
}

#[test]
fn claims_and_runs_go_on_while_a_session_is_removed() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    admin.batch_execute("select dialectic.open_wallet('role:postgres', 1000000)").expect("a wallet");
    let doomed = essay(&mut admin);
    work(&mut admin);
    enlarge(&mut admin, doomed, 1500);
    one::<bool>(&mut admin, "select dialectic.delete_session($1)", &[&doomed]);
    let mut other = database.connect();
    admin.batch_execute("begin; select dialectic._maintain_batch()").expect("a batch that is not committed");
    other.batch_execute("set lock_timeout = '5s'").expect("a timeout");
    let session = essay(&mut other);
    work(&mut other);
    let status = "select status from dialectic.sessions where id = $1";
    assert_eq!(one::<String>(&mut other, status, &[&session]), "completed");
    admin.batch_execute("commit").expect("commit");
}

#[test]
fn purge_deletes_ended_sessions_of_that_age_and_their_projects() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    let mut owner = user(&database, "law_purge_owner");
    let old = essay(&mut owner);
    work(&mut admin);
    admin.batch_execute("set dialectic.clock_offset = 864000").expect("ten days later");
    let running = essay(&mut owner);
    let mut later = database.connect();
    later
        .batch_execute(
            "set dialectic.clock_offset = 864000; \
             set role law_purge_owner",
        )
        .expect("ten days later");
    assert_eq!(one::<i32>(&mut later, "select dialectic.purge('20 days')", &[]), 0);
    assert_eq!(one::<i32>(&mut later, "select dialectic.purge('9 days')", &[]), 1);
    let left: Vec<Uuid> = column(&mut admin, "select id from dialectic.sessions", &[]);
    assert_eq!(left, [running]);
    assert_ne!(old, running);
    assert_eq!(one::<i64>(&mut admin, "select count(*) from dialectic.projects", &[]), 1);
    refused_with(&mut owner, "select dialectic.purge('-1 day')", &[], "22023", "older_than");
    refused_with(&mut owner, "select dialectic.purge(null)", &[], "22023", "older_than");
    assert_sound(&mut admin);
}

#[test]
fn deleting_a_session_settles_its_calls_in_flight() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            "select dialectic.add_model('dear', 'simulator', input_price => 1, output_price => 2); \
             select dialectic.open_wallet('role:postgres', 100000000)",
        )
        .expect("a model and a wallet");
    let session: Uuid =
        one(&mut client, "select dialectic.run('In flight', models => '{dear}', process => 'essay')", &[]);
    client.batch_execute("call dialectic.run_pending(1)").expect("the plan");
    let row = client.query_one("select id, claim_id from dialectic.claim_jobs('outside', 1)", &[]).expect("a job");
    let (job, claim): (Uuid, i64) = (row.get(0), row.get(1));
    client.execute("select dialectic.job_request($1, $2)", &[&job, &claim]).expect("a call");
    assert!(one::<i64>(&mut client, "select held from dialectic.wallets", &[]) > 0);
    enlarge(&mut client, session, 1500);
    one::<bool>(&mut client, "select dialectic.delete_session($1)", &[&session]);
    assert_eq!(one::<i64>(&mut client, "select held from dialectic.wallets", &[]), 0);
    assert_sound(&mut client);
    // The row of the call is still there: a late answer corrects the charge and the roll-up alike.
    let late = "select dialectic.complete_job($1, $2, 'Late.', 'stop', '{\"input_tokens\": 7, \"output_tokens\": 8}')";
    assert_eq!(one::<String>(&mut client, late, &[&job, &claim]), "stale");
    let used = "select concat_ws(' ', calls, failed_calls, input_tokens, output_tokens, cost) from dialectic.usage";
    assert_eq!(one::<String>(&mut client, used, &[]), "1 0 7 8 0.000023");
    assert_eq!(one::<i64>(&mut client, "select balance from dialectic.wallets", &[]), 100_000_000 - 23);
    client.batch_execute("call dialectic.maintain()").expect("maintain");
    assert_eq!(one::<String>(&mut client, used, &[]), "1 0 7 8 0.000023");
    assert_eq!(rows_left(&mut client), 0);
    assert_sound(&mut client);
}

#[test]
fn overlapping_deletions_count_usage_once() {
    let database = Database::by_hand();
    let (mut admin, mut other, mut watcher) = (database.connect(), database.connect(), database.connect());
    let session = essay(&mut admin);
    work(&mut admin);
    enlarge(&mut admin, session, 1500);
    admin
        .batch_execute(
            "select dialectic.open_wallet(owner, 1000) from dialectic.sessions; \
             update dialectic.sessions set created_at = created_at - interval '1 hour'",
        )
        .expect("a wallet");
    let calls = "select sum(calls)::bigint from dialectic.usage";
    let before: i64 = one(&mut admin, calls, &[]);
    let waiting = pid(&mut other);
    let mut first = admin.transaction().expect("a transaction");
    first.execute("select dialectic.delete_session($1)", &[&session]).expect("marked");
    std::thread::scope(|scope| {
        let purged = scope.spawn(move || other.execute("select dialectic.purge('0')", &[]).map(drop));
        waits_for_a_lock(&mut watcher, waiting);
        first.commit().expect("commit");
        purged.join().expect("a thread").expect("purge");
    });
    assert_eq!(one::<i64>(&mut admin, calls, &[]), before);
}

#[test]
fn session_that_is_being_started_keeps_its_project_from_being_purged() {
    let database = Database::by_hand();
    let (mut admin, mut other) = (database.connect(), database.connect());
    let project: Uuid = one(&mut admin, "select dialectic.create_project('Old', 'Old and empty')", &[]);
    admin.batch_execute("update dialectic.projects set created_at = created_at - interval '1 hour'").expect("old");
    let mut starting = other.transaction().expect("a transaction");
    let session: Uuid =
        starting.query_one("select dialectic.start_session($1, '{sim-a}')", &[&project]).expect("a session").get(0);
    assert_eq!(one::<i32>(&mut admin, "select dialectic.purge('0')", &[]), 0);
    starting.commit().expect("commit");
    assert_eq!(one::<Uuid>(&mut admin, "select id from dialectic.sessions", &[]), session);
    assert_eq!(one::<i64>(&mut admin, "select count(*) from dialectic.deletions", &[]), 0);
}

#[test]
fn idempotency_key_of_a_deleted_project_is_free() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    let create = "select dialectic.create_project('Once', 'Once', idempotency_key => 'k')";
    let first: Uuid = one(&mut admin, create, &[]);
    let session: Uuid = one(&mut admin, "select dialectic.start_session($1, '{sim-a}')", &[&first]);
    enlarge(&mut admin, session, 1500);
    assert!(!one::<bool>(&mut admin, "select dialectic.delete_project($1)", &[&first]));
    assert_ne!(one::<Uuid>(&mut admin, create, &[]), first);
}
