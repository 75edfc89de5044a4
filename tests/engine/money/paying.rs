//! A wallet that runs empty in the middle of the work, and whoever fills it.

use super::*;

#[test]
fn an_empty_wallet_pauses_and_a_top_up_resumes() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute("select dialectic.add_model('dear', 'simulator', input_price => 2, output_price => 10)")
        .expect("a model that costs");
    client.execute("select dialectic.open_wallet($1, 0)", &[&OWNER]).expect("open_wallet");
    record_moves(&mut client);
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why pay?', models => '{dear}', process => 'essay')", &[]);
    let (mut payments, mut paid) = (0, 0);
    let unfunded = "select job_id, needed, short_of from dialectic.unfunded_jobs";
    loop {
        work(&mut client);
        assert_balanced(&mut client);
        assert_sound(&mut client);
        if session_status(&mut client, session) == "completed" {
            break;
        }
        // It stands for want of money and for nothing else, and says so.
        let waiting = client.query(unfunded, &[]).expect("unfunded_jobs");
        let (job, needed, purse_of): (Uuid, i64, String) = match waiting.as_slice() {
            [row, ..] => (row.get(0), row.get(1), row.get(2)),
            [] => panic!("it stands though everything is paid"),
        };
        assert_eq!((status(&mut client, job).as_str(), purse_of.as_str()), ("paused_nsf", "wallet"));
        assert!(needed > purse(&mut client).0, "{needed} would have been there");
        let cause: String = one(&mut client, "select cause from dialectic.blocked where job_id = $1", &[&job]);
        assert!(cause.contains("funds"), "{cause}");
        payments += 1;
        assert!(payments <= 50, "{payments} payments");
        let amount = needed - purse(&mut client).0;
        let key = format!("payment {payments}");
        let balance: i64 = one(&mut client, "select dialectic.top_up($1, $2, $3)", &[&OWNER, &amount, &key]);
        paid += amount;
        assert!(balance >= 0);
    }
    assert!(payments > 1, "the wallet ran empty once more");
    // Neither a job nor a parent ever failed, nothing was asked twice, and no attempt was charged for the want.
    let failed = "select count(*) from public.moves where status in ('failed', 'retry_loop_failed', 'cancelled')";
    assert_eq!(one::<i64>(&mut client, failed, &[]), 0);
    assert!(one::<i64>(&mut client, "select count(*) from public.moves where status = 'paused_nsf'", &[]) > 1);
    let calls: Vec<String> = column(
        &mut client,
        "select format('%s %s', count(*), outcome) from dialectic.model_calls group by outcome",
        &[],
    );
    assert_eq!(calls, ["5 answered"]);
    let attempts: Vec<i32> =
        column(&mut client, "select distinct attempt_count from dialectic.jobs where kind = 'execute'", &[]);
    assert_eq!(attempts, [1]);
    let cost: i64 = one(&mut client, "select sum(cost)::bigint from dialectic.model_calls", &[]);
    assert_eq!(purse(&mut client), (paid - cost, 0));
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.unfunded_jobs", &[]), 0);
}

#[test]
fn an_owner_without_a_wallet_is_not_limited_and_every_call_is_costed() {
    let database = Database::new();
    let mut client = database.connect();
    client
        .batch_execute("select dialectic.add_model('dear', 'simulator', input_price => 2, output_price => 10)")
        .expect("a model that costs");
    let session: Uuid =
        one(&mut client, "select dialectic.run('Why pay?', models => '{dear}', process => 'essay')", &[]);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    let calls: Vec<String> = column(
        &mut client,
        "select distinct format('%s %s %s', held is null, cost > 0, unbilled) from dialectic.model_calls",
        &[],
    );
    assert_eq!(calls, ["t t 0"]);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.ledger", &[]), 0);
    assert_sound(&mut client);
}

#[test]
fn a_project_that_is_deleted_is_charged_for_what_its_calls_read_and_leaves_nothing_held() {
    let (_database, mut client) = funded(OPENING);
    let (_, leaves) = leaves(&mut client, 1);
    let request = ask(&mut client, &leaves[0]).expect("a request");
    let claim = &leaves[0];
    // It had begun to speak: what was heard of it is not free because nobody keeps it.
    let said = "A leaf is green until it is not.";
    client
        .execute(
            "select dialectic._append_partials(array[$1::uuid], array[$2::bigint], array[$3::text])",
            &[&claim.job, &claim.claim, &said],
        )
        .expect("a fragment");
    let used: i64 = one(
        &mut client,
        "select dialectic.count_message_tokens($1, 'dear') * $2 + dialectic.count_tokens($3, 'dear') * $4",
        &[&request["messages"], &READ, &said, &WRITTEN],
    );
    let held = held(&mut client, claim);
    client.batch_execute("delete from dialectic.projects").expect("delete");
    assert_eq!(entries(&mut client), [entry("hold", -held), entry("settlement", held - used)]);
    // The answer comes to nobody.
    let gone = refused(&mut client, "select dialectic.complete_job($1, $2, 'late')", &[&claim.job, &claim.claim]);
    assert_eq!(gone.code().code(), "P0002");
    two_hours_later(&mut client);
    let (balance, held) = purse(&mut client);
    assert_eq!(held, 0, "what was held is held for ever");
    let ledger: i64 = one(&mut client, "select sum(amount)::bigint from dialectic.ledger", &[]);
    assert_eq!(balance, ledger);
    assert_sound(&mut client);
}

#[test]
fn who_deletes_a_project_and_who_answers_for_it_do_not_stop_each_other() {
    let (database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    let (mut answering, mut deleting, mut watcher) = (database.connect(), database.connect(), database.connect());
    let (answers, deletes) = (pid(&mut answering), pid(&mut deleting));
    // Both want the wallet, the one who answers first; what he wants then is what the other has deleted.
    client.batch_execute("begin; select from dialectic.wallets for no key update").expect("the wallet");
    let (answered, deleted) = std::thread::scope(|scope| {
        let text = "select dialectic.complete_job($1, $2, 'A leaf is green.')";
        let answered = scope.spawn(move || answering.query(text, &[&claim.job, &claim.claim]).map(drop));
        waits_for_a_lock(&mut watcher, answers);
        let deleted = scope.spawn(move || deleting.batch_execute("delete from dialectic.projects"));
        waits_for_a_lock(&mut watcher, deletes);
        client.batch_execute("commit").expect("commit");
        (answered.join().expect("a thread"), deleted.join().expect("a thread"))
    });
    for done in [answered, deleted] {
        let code = done.err().and_then(|error| error.code().map(|code| code.code().to_owned()));
        assert_ne!(code.as_deref(), Some("40P01"), "they wait for each other");
    }
    assert_eq!(purse(&mut client).1, 0);
    assert_sound(&mut client);
}

/// An essay that stands because nobody can pay for its first call.
fn out_of_funds(client: &mut Client, budget: Option<i64>) -> Uuid {
    client
        .batch_execute("select dialectic.add_model('dear', 'simulator', input_price => 2, output_price => 10)")
        .expect("a model that costs");
    client.execute("select dialectic.open_wallet($1, 0)", &[&OWNER]).expect("open_wallet");
    let run = "select dialectic.run('Why pay?', models => '{dear}', process => 'essay', budget => $1)";
    let session = one(client, run, &[&budget]);
    work(client);
    session
}

const NSF: &str = "select count(*) from dialectic.jobs where status = 'paused_nsf'";

#[test]
fn what_a_person_has_paused_is_not_set_going_by_money() {
    let database = Database::new();
    let mut client = database.connect();
    let session = out_of_funds(&mut client, None);
    assert_eq!(one::<i64>(&mut client, NSF, &[]), 1);
    assert_eq!(one::<i32>(&mut client, "select dialectic.pause($1)", &[&session]), 1);
    assert_eq!(one::<i32>(&mut client, "select dialectic.pause($1)", &[&session]), 0);
    let cause: String = one(&mut client, "select cause from dialectic.blocked where status = 'paused_nsf'", &[]);
    assert!(cause.starts_with("paused by a person, and no funds") && cause.contains("resume"), "{cause}");
    client.execute("select dialectic.top_up($1, 10000000, 'much')", &[&OWNER]).expect("top_up");
    work(&mut client);
    assert_eq!(one::<i64>(&mut client, NSF, &[]), 1);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls", &[]), 0);
    let error = refused(&mut client, "call dialectic.wait($1)", &[&session]);
    assert!(error.message().ends_with("is paused"), "{error:?}");
    assert!(error.detail().is_some_and(|detail| detail.contains("there is money for its call")), "{error:?}");
    assert_eq!(one::<i32>(&mut client, "select dialectic.resume($1)", &[&session]), 1);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn who_lacks_both_is_told_of_both_and_goes_on_with_both() {
    let database = Database::new();
    let mut client = database.connect();
    let session = out_of_funds(&mut client, Some(10));
    let error = refused(&mut client, &format!("call dialectic.wait('{session}')"), &[]);
    let (detail, hint) = (error.detail().unwrap_or_default(), error.hint().unwrap_or_default());
    assert!(detail.contains("the wallet of role:postgres has $0.000000, the budget of its session"), "{detail}");
    assert!(hint.contains("top_up('role:postgres'"), "{hint}");
    let needed: i64 = one(&mut client, "select needed from dialectic.unfunded_jobs", &[]);
    assert!(hint.contains(&format!("set_budget('{session}', {needed}) or more")), "{hint}");
    // What it says is enough for the next call is enough for it.
    client.execute("select dialectic.set_budget($1, $2)", &[&session, &needed]).expect("set_budget");
    client.execute("select dialectic.top_up($1, $2, 'just enough')", &[&OWNER, &needed]).expect("top_up");
    work(&mut client);
    let answered = "select count(*) from dialectic.model_calls where outcome = 'answered'";
    assert_eq!(one::<i64>(&mut client, answered, &[]), 1);
    assert_sound(&mut client);
}

#[test]
fn a_session_tells_once_that_it_waits_for_funds() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute(
            "select dialectic.add_model('dear', 'simulator', output_price => 10),
                    dialectic.add_model('dearer', 'simulator', output_price => 20)",
        )
        .expect("models that cost");
    client.execute("select dialectic.open_wallet($1, 0)", &[&OWNER]).expect("open_wallet");
    one::<Uuid>(&mut client, "select dialectic.run('Why pay?', models => '{dear,dearer}', process => 'essay')", &[]);
    work(&mut client);
    let told = "select count(*) from dialectic.notifications where type = 'contribution_generation_paused_nsf'";
    assert_eq!((one::<i64>(&mut client, NSF, &[]), one::<i64>(&mut client, told, &[])), (2, 1));
}

#[test]
fn what_a_person_pauses_while_money_comes_stays_paused() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = out_of_funds(&mut client, None);
    // Whoever pays finds the session held, and waits for nobody.
    let mut pausing = database.connect();
    pausing.batch_execute("begin").expect("begin");
    assert_eq!(one::<i32>(&mut pausing, "select dialectic.pause($1)", &[&session]), 1);
    client.execute("select dialectic.top_up($1, 10000000, 'much')", &[&OWNER]).expect("top_up");
    pausing.batch_execute("commit").expect("commit");
    work(&mut client);
    assert_eq!(one::<i64>(&mut client, NSF, &[]), 1);
    assert_eq!(one::<i32>(&mut client, "select dialectic.resume($1)", &[&session]), 1);
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn money_that_comes_while_somebody_holds_the_session_is_found_by_the_next_claim() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = out_of_funds(&mut client, Some(10_000_000));
    let mut holding = database.connect();
    holding.batch_execute("begin").expect("begin");
    // What he does takes the session, and then what belongs to it: nobody waits for him, and he for nobody.
    holding.execute("select dialectic.retry($1)", &[&session]).expect("retry");
    client
        .batch_execute(&format!("set lock_timeout = '5s'; select dialectic.top_up('{OWNER}', 10000000, 'much')"))
        .expect("top_up");
    holding.execute("select dialectic.set_budget($1, 20000000)", &[&session]).expect("set_budget");
    assert_eq!(one::<i64>(&mut client, NSF, &[]), 1);
    assert_sound(&mut client);
    holding.batch_execute("commit").expect("commit");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn a_job_that_was_paused_cancelled_and_tried_again_is_set_going_by_money() {
    let database = Database::new();
    let mut client = database.connect();
    let session = out_of_funds(&mut client, None);
    for verb in ["pause", "cancel", "retry"] {
        client.query_one(&format!("select dialectic.{verb}($1)"), &[&session]).expect(verb);
    }
    work(&mut client);
    assert_eq!(one::<i64>(&mut client, NSF, &[]), 1);
    let cause: String = one(&mut client, "select cause from dialectic.blocked where status = 'paused_nsf'", &[]);
    assert!(cause.starts_with("no funds"), "{cause}");
    client.execute("select dialectic.top_up($1, 10000000, 'much')", &[&OWNER]).expect("top_up");
    work(&mut client);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn who_is_short_of_money_is_told_to_admins_alone() {
    let database = Database::new();
    let mut client = database.connect();
    out_of_funds(&mut client, None);
    let mut user = database.connect_as("law_health_user");
    client.execute("select dialectic.grant_user('law_health_user')", &[]).expect("grant_user");
    let problems = "select array_to_string(problems, '; ') from dialectic.health()";
    let (told, seen): (String, String) = (one(&mut user, problems, &[]), one(&mut client, problems, &[]));
    assert!(told.contains("1 job waits for funds") && !told.contains(OWNER), "{told}");
    assert!(seen.contains(OWNER), "{seen}");
}
