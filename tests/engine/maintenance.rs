//! `CALL maintain()`: what it deletes, in which steps, and who may call it.

use dialectic_tests::*;
use postgres::Client;

fn maintain(client: &mut Client) {
    client.batch_execute("call dialectic.maintain()").expect("maintain");
}

fn later(client: &mut Client, days: i32) {
    client.batch_execute(&format!("set dialectic.clock_offset = {}", days * 86400)).expect("a later day");
}

fn completed(client: &mut Client) -> Uuid {
    let session = one(client, "select dialectic.run('Old', models => '{sim-a}', process => 'essay')", &[]);
    work(client);
    session
}

#[test]
fn maintain_deletes_notifications_after_their_retention() {
    let database = Database::by_hand();
    let mut client = database.connect();
    completed(&mut client);
    let count = "select count(*) from dialectic.notifications";
    assert!(one::<i64>(&mut client, count, &[]) > 0);
    later(&mut client, 29);
    maintain(&mut client);
    assert!(one::<i64>(&mut client, count, &[]) > 0);
    later(&mut client, 31);
    maintain(&mut client);
    assert_eq!(one::<i64>(&mut client, count, &[]), 0);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.sessions", &[]), 1);
    assert_sound(&mut client);
}

#[test]
fn maintain_keeps_sessions_unless_a_retention_is_set() {
    let database = Database::by_hand();
    let mut client = database.connect();
    completed(&mut client);
    later(&mut client, 4000);
    maintain(&mut client);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.sessions", &[]), 1);
}

#[test]
fn maintain_deletes_ended_sessions_after_their_retention() {
    let database = Database::by_hand();
    let mut client = database.connect();
    completed(&mut client);
    client.batch_execute("select dialectic.set_config('session_retention_days', '90')").expect("a retention");
    later(&mut client, 91);
    let running: Uuid = one(&mut client, "select dialectic.run('New', models => '{sim-a}', process => 'essay')", &[]);
    later(&mut client, 182);
    maintain(&mut client);
    let left: Vec<Uuid> = column(&mut client, "select id from dialectic.sessions", &[]);
    assert_eq!(left, [running], "an active session is not deleted, however old");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.projects", &[]), 1);
    assert!(one::<i64>(&mut client, "select sum(calls)::bigint from dialectic.usage", &[]) > 0);
    assert_sound(&mut client);
}

#[test]
fn maintain_deletes_partial_texts_of_ended_jobs_only() {
    let database = Database::by_hand();
    let mut client = database.connect();
    completed(&mut client);
    let running: Uuid = one(&mut client, "select dialectic.run('New', models => '{sim-a}', process => 'essay')", &[]);
    client
        .batch_execute(
            "insert into dialectic.partials (job_id, claim_id, content) select id, 1, 'text' from dialectic.jobs",
        )
        .expect("partial texts");
    maintain(&mut client);
    let left: Vec<Uuid> = column(
        &mut client,
        "select distinct j.session_id from dialectic.partials p join dialectic.jobs j on j.id = p.job_id",
        &[],
    );
    assert_eq!(left, [running]);
}

#[test]
fn maintain_merges_the_roll_up_and_forgets_late_calls_after_a_day() {
    let database = Database::by_hand();
    let mut client = database.connect();
    for _ in 0..2 {
        completed(&mut client);
        client
            .batch_execute(
                "update dialectic.model_calls set outcome = 'lost' where model = 'sim-a'; \
                 delete from dialectic.projects",
            )
            .expect("delete");
    }
    let shown = "select md5(string_agg(u::text, '' order by u.stage)) from dialectic.usage u";
    let before: String = one(&mut client, shown, &[]);
    let counts = "select format('%s %s', (select count(*) from dialectic.usage_history), \
                                (select count(*) > 0 from dialectic.deleted_calls))";
    assert_eq!(one::<String>(&mut client, counts, &[]), "6 t");
    maintain(&mut client);
    assert_eq!(one::<String>(&mut client, counts, &[]), "3 t");
    assert_eq!(one::<String>(&mut client, shown, &[]), before);
    later(&mut client, 2);
    maintain(&mut client);
    assert_eq!(one::<String>(&mut client, counts, &[]), "3 f");
}

#[test]
fn maintain_commits_after_each_batch_and_notes_its_end() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            "insert into dialectic.notifications (owner, type, title, message, created_at) \
             select 'role:postgres', 'planner_started', 'x', 'x', now() - interval '40 days' from generate_series(1, 2500); \
             create table public.batch (transaction xid8, rows bigint); \
             create function public.note() returns trigger language plpgsql as $$ begin \
                 insert into public.batch select pg_current_xact_id(), count(*) from gone; return null; end $$; \
             create trigger note after delete on dialectic.notifications referencing old table as gone \
                 for each statement execute function public.note()",
        )
        .expect("old notifications");
    later(&mut client, 1);
    maintain(&mut client);
    let batches: Vec<i64> = column(
        &mut client,
        "select sum(rows)::bigint from public.batch where rows > 0 group by transaction order by transaction::text::numeric",
        &[],
    );
    assert_eq!(batches, [1000, 1000, 500]);
    let noted: bool =
        one(&mut client, "select last_run_at > now() + interval '23 hours' from dialectic.maintenance", &[]);
    assert!(noted);
}

#[test]
fn maintain_is_refused_in_a_transaction_block_and_to_users() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.batch_execute("begin").expect("begin");
    let error = refused_with(&mut client, "call dialectic.maintain()", &[], "25001", "maintain cannot run");
    assert_eq!(error.hint(), Some("CALL it by itself, outside BEGIN … COMMIT."));
    client.batch_execute("rollback").expect("rollback");
    let mut user = database.connect_as("law_maintain_user");
    client.batch_execute("select dialectic.grant_user('law_maintain_user')").expect("a grant");
    assert_eq!(refused(&mut user, "call dialectic.maintain()", &[]).code().code(), "42501");
    client.batch_execute("select dialectic.grant_admin('law_maintain_user')").expect("a grant");
    user.batch_execute("set default_transaction_isolation = serializable; set search_path = pg_temp")
        .expect("settings");
    user.batch_execute("call dialectic.maintain()").expect("an admin maintains");
}
