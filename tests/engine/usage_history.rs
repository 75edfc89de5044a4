//! Cost history survives deletion: the roll-up of deleted calls agrees with the calls that were there.

use dialectic_tests::*;
use postgres::Client;

/// All that `usage` shows, summed over sessions.
fn total(client: &mut Client) -> String {
    one(
        client,
        "select concat_ws(' ', sum(calls), sum(failed_calls), sum(input_tokens), sum(cached_tokens), \
                sum(output_tokens), sum(cost), sum(unbilled)) from dialectic.usage",
        &[],
    )
}

/// A model with a price that fails once, and a wallet.
fn priced(client: &mut Client) {
    client
        .batch_execute(
            r#"select dialectic.add_model('priced', 'simulator', input_price => 1.5, output_price => 4, settings => '{"fail_first": 1}');
               select dialectic.set_config('retry_base_seconds', '0');
               select dialectic.open_wallet('role:postgres', 100000000)"#,
        )
        .expect("a model and a wallet");
}

fn essay(client: &mut Client) -> Uuid {
    one(client, "select dialectic.run('What remains?', models => '{sim-a,priced}', process => 'essay')", &[])
}

/// Each way to delete rows with plain SQL leaves `usage`, the wallet and the laws as they were.
fn survives(statement: &str) {
    let database = Database::by_hand();
    let mut client = database.connect();
    priced(&mut client);
    essay(&mut client);
    work(&mut client);
    let before = total(&mut client);
    let ledger: String =
        one(&mut client, "select md5(string_agg(l::text, '' order by id)) from dialectic.ledger l", &[]);
    client.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}\n{error:?}"));
    assert_eq!(total(&mut client), before, "{statement}");
    assert_eq!(
        one::<String>(&mut client, "select md5(string_agg(l::text, '' order by id)) from dialectic.ledger l", &[]),
        ledger
    );
    let groups: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', owner, stage, model, median_time > '0') from dialectic.usage \
         where session_id is null and stage = 'thesis' order by model",
        &[],
    );
    assert_eq!(groups, ["role:postgres thesis priced t", "role:postgres thesis sim-a t"], "{statement}");
}

#[test]
fn usage_survives_a_delete_of_projects() {
    survives("delete from dialectic.projects");
}

#[test]
fn usage_survives_a_delete_of_sessions() {
    survives("delete from dialectic.sessions");
}

#[test]
fn usage_survives_a_delete_of_stage_runs() {
    survives("delete from dialectic.stage_runs");
}

#[test]
fn usage_survives_a_delete_of_jobs() {
    survives("delete from dialectic.jobs");
}

#[test]
fn usage_survives_a_delete_of_calls() {
    survives("delete from dialectic.model_calls");
}

#[test]
fn laws_hold_after_sessions_are_deleted() {
    let database = Database::by_hand();
    let mut client = database.connect();
    priced(&mut client);
    essay(&mut client);
    work(&mut client);
    client.batch_execute("delete from dialectic.sessions").expect("delete");
    assert_sound(&mut client);
}

#[test]
fn owner_sees_only_their_own_history() {
    let database = Database::by_hand();
    let mut admin = database.connect();
    admin.batch_execute("create role law_history_one login; create role law_history_two login").ok();
    for role in ["law_history_one", "law_history_two"] {
        admin.execute("select dialectic.grant_user($1::text::name)", &[&role]).expect("a grant");
        let mut user = database.connect_as(role);
        one::<Uuid>(&mut user, "select dialectic.run('Mine', models => '{sim-a}', process => 'essay')", &[]);
    }
    work(&mut admin);
    admin.batch_execute("delete from dialectic.projects").expect("delete");
    let mut user = database.connect_as("law_history_one");
    let owners: Vec<String> = column(&mut user, "select distinct owner from dialectic.usage", &[]);
    assert_eq!(owners, ["role:law_history_one"]);
    assert_eq!(one::<i64>(&mut admin, "select count(distinct owner) from dialectic.usage", &[]), 2);
}

/// Claims a job as a worker outside the server, and opens its call.
fn called(client: &mut Client) -> (Uuid, i64) {
    client.batch_execute("call dialectic.run_pending(1)").expect("the plan");
    let row = client.query_one("select id, claim_id from dialectic.claim_jobs('outside', 1)", &[]).expect("a job");
    let (job, claim) = (row.get(0), row.get(1));
    client.execute("select dialectic.job_request($1, $2)", &[&job, &claim]).expect("a call");
    (job, claim)
}

/// What the engine does when a call has ended: the same statements for a job that is deleted.
fn answer(client: &mut Client, job: Uuid, claim: i64) {
    client
        .execute(
            "select dialectic._add_late_usage(array[e.ended]) \
             from (select ($1::uuid, $2::bigint, null, null, 'stop', null, 200, null, 1000, 2000, 0, 0, 0, false) \
                          ::dialectic._call_end as ended) as e \
             cross join lateral dialectic._close_calls(array[e.ended]) as c \
             where c.is_deleted",
            &[&job, &claim],
        )
        .expect("an answer");
}

#[test]
fn late_answer_of_a_deleted_call_is_added_to_its_history() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute("select dialectic.add_model('dear', 'simulator', input_price => 1, output_price => 2)")
        .expect("a model");
    one::<Uuid>(&mut client, "select dialectic.run('Late?', models => '{dear}', process => 'essay')", &[]);
    let (job, claim) = called(&mut client);
    client.batch_execute("delete from dialectic.projects").expect("delete");
    let seen = "select concat_ws(' ', session_id, stage, calls, failed_calls, input_tokens, output_tokens, cost) \
                from dialectic.usage";
    assert!(one::<String>(&mut client, seen, &[]).starts_with("thesis 1 1 "));
    answer(&mut client, job, claim);
    assert_eq!(one::<String>(&mut client, seen, &[]), "thesis 1 0 1000 2000 0.005000");
    // It is counted once.
    answer(&mut client, job, claim);
    assert_eq!(one::<String>(&mut client, seen, &[]), "thesis 1 0 1000 2000 0.005000");
    assert_sound(&mut client);
}
