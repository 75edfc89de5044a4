//! Wallets and the ledger: who fills them, who sees them, and that what is written stays.

use super::*;

const TOP_UP: &str = "select dialectic.top_up($1, $2, $3)";

#[test]
fn the_ledger_is_only_appended_to() {
    let (_database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    answer_with(&mut client, &claim, 40, 20);
    let before: Vec<String> = column(&mut client, "select l::text from dialectic.ledger l order by id", &[]);
    assert_eq!(before.len(), 3, "{before:?}");
    for change in [
        "update dialectic.ledger set amount = amount + 1",
        "update dialectic.ledger set owner = 'role:nobody' where kind = 'hold'",
        "delete from dialectic.ledger",
        "delete from dialectic.ledger where kind = 'settlement'",
        "truncate dialectic.ledger",
    ] {
        let error = refused(&mut client, change, &[]);
        assert!(error.message().contains("ledger"), "{change}: {error:?}");
        assert!(error.hint().is_some(), "{change}: {error:?}");
    }
    client.batch_execute("delete from dialectic.projects").expect("a project is deleted");
    let after: Vec<String> = column(&mut client, "select l::text from dialectic.ledger l order by id", &[]);
    assert_eq!(after, before, "what was paid for stays paid for");
    assert_balanced(&mut client);
}

#[test]
fn a_repeated_key_tops_up_once() {
    let (database, mut client) = funded(100);
    let top_up = |client: &mut Client| one::<i64>(client, TOP_UP, &[&OWNER, &50_i64, &"once"]);
    // Twice at once, and once more.
    assert_eq!(overlapping(&database, top_up, top_up), (150, 150));
    assert_eq!(top_up(&mut client), 150);
    assert_eq!(one::<i64>(&mut client, TOP_UP, &[&OWNER, &50_i64, &"another"]), 200);
    let error = refused(&mut client, TOP_UP, &[&OWNER, &60_i64, &"once"]);
    assert!(error.message().contains("once") && error.hint().is_some(), "{error:?}");
    assert_eq!(purse(&mut client), (200, 0));
    let kinds: Vec<String> =
        column(&mut client, "select format('%s %s', kind, amount) from dialectic.ledger order by id", &[]);
    assert_eq!(kinds, ["opening 100", "top_up 50", "top_up 50"]);
    assert_balanced(&mut client);
}

#[test]
fn a_key_belongs_to_its_owner() {
    let (_database, mut client) = funded(0);
    assert_eq!(one::<i64>(&mut client, "select dialectic.open_wallet('role:law_other', 7)", &[]), 7);
    assert_eq!(one::<i64>(&mut client, TOP_UP, &[&OWNER, &50_i64, &"key"]), 50);
    assert_eq!(one::<i64>(&mut client, TOP_UP, &[&"role:law_other", &60_i64, &"key"]), 67);
    assert_balanced(&mut client);
}

#[test]
fn odd_amounts_keys_and_owners_are_refused() {
    let (_database, mut client) = funded(100);
    let before = mark(&mut client);
    let long = (0..1_001).map(|n: u32| char::from(b'a' + (n * n % 23) as u8)).collect::<String>();
    for (owner, amount, key) in [
        (Some(OWNER), Some(0_i64), Some("key")),
        (Some(OWNER), Some(-5), Some("key")),
        (Some(OWNER), None, Some("key")),
        (Some(OWNER), Some(i64::MAX), Some("key")),
        (Some(OWNER), Some(5), None),
        (Some(OWNER), Some(5), Some(long.as_str())),
        (Some("role:nobody"), Some(5), Some("key")),
        (None, Some(5), Some("key")),
    ] {
        let error = refused(&mut client, TOP_UP, &[&owner, &amount, &key]);
        assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{owner:?} {amount:?} {key:?}: {error:?}");
    }
    for (owner, amount) in [(Some("role:new"), Some(-1_i64)), (Some("role:new"), None), (None, Some(5))] {
        let error = refused(&mut client, "select dialectic.open_wallet($1, $2)", &[&owner, &amount]);
        assert!(error.hint().is_some_and(|hint| !hint.is_empty()), "{owner:?} {amount:?}: {error:?}");
    }
    assert_eq!(mark(&mut client), before);
}

#[test]
fn a_wallet_is_seen_by_its_owner_alone() {
    let (database, mut admin) = funded(OPENING);
    let roles = ["law_wallet_a", "law_wallet_b", "law_wallet_c"];
    let mut users: Vec<Client> = roles.iter().map(|role| database.connect_as(role)).collect();
    for role in roles {
        admin.execute(&format!("select dialectic.grant_user('{role}')"), &[]).expect("grant_user");
        admin.execute("select dialectic.open_wallet('role:' || $1, 0)", &[&role]).expect("open_wallet");
    }
    admin.execute("select dialectic.grant_admin('law_wallet_c')", &[]).expect("grant_admin");
    for user in &mut users {
        let run = "select dialectic.run('Mine', models => '{dear}', process => 'essay', budget => 1000000)";
        one::<Uuid>(user, run, &[]);
    }
    work(&mut admin);
    let tables = [("wallets", "owner"), ("ledger", "owner"), ("unfunded_jobs", "owner")];
    for (role, user) in roles.iter().zip(&mut users).take(2) {
        for (table, column_of) in tables {
            let owners: Vec<String> = column(user, &format!("select distinct {column_of} from dialectic.{table}"), &[]);
            assert_eq!(owners, [format!("role:{role}")], "{table}");
        }
        assert_eq!(one::<i64>(user, "select count(*) from dialectic.budgets", &[]), 1);
        for call in ["open_wallet('role:x', 5)", "top_up('role:law_wallet_a', 5, 'key')"] {
            let error = refused(user, &format!("select dialectic.{call}"), &[]);
            assert_eq!(error.code().code(), "42501", "{call}: {error:?}");
        }
        for change in [
            "update dialectic.wallets set balance = 5",
            "insert into dialectic.ledger (owner, kind, amount) values ('role:law_wallet_a', 'top_up', 5)",
            "update dialectic.budgets set amount = 5",
            "delete from dialectic.unfunded_jobs",
        ] {
            assert_eq!(refused(user, change, &[]).code().code(), "42501", "{change}");
        }
    }
    let session: Uuid = one(&mut admin, "select id from dialectic.sessions where owner = 'role:law_wallet_b'", &[]);
    let error = refused(&mut users[0], "select dialectic.set_budget($1, 5)", &[&session]);
    assert_eq!(error.code().code(), "P0002", "the session of another does not exist: {error:?}");
    // An admin sees them all: his own, the two others and the first owner's.
    assert_eq!(one::<i64>(&mut users[2], "select count(*) from dialectic.wallets", &[]), 4);
    assert_eq!(one::<i64>(&mut users[2], "select count(*) from dialectic.budgets", &[]), 3);
    assert_eq!(one::<i64>(&mut users[2], "select dialectic.top_up('role:law_wallet_a', 5, 'key')", &[]), 5);
}

#[test]
fn a_wallet_that_is_closed_limits_nobody_and_what_it_was_stays_in_the_ledger() {
    let (_database, mut client) = funded(OPENING);
    let (_, claim) = asked(&mut client);
    let close = "select dialectic.close_wallet($1)";
    let error = refused(&mut client, close, &[&OWNER]);
    assert_eq!(error.code().code(), "55006", "a call holds some of it: {error:?}");
    assert!(error.detail().is_some() && error.hint().is_some(), "{error:?}");
    answer_with(&mut client, &claim, 40, 20);
    let left = OPENING - 40 * READ - 20 * WRITTEN;
    assert_eq!(one::<i64>(&mut client, close, &[&OWNER]), left);
    assert_eq!(refused(&mut client, close, &[&OWNER]).code().code(), "42704");
    assert_eq!(one::<i64>(&mut client, "select sum(amount)::bigint from dialectic.ledger", &[]), 0);
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    assert_sound(&mut client);
    let (_, leaves) = leaves(&mut client, 1);
    assert!(ask(&mut client, &leaves[0]).is_some(), "nobody limits it");
    assert_eq!(one::<i64>(&mut client, "select dialectic.open_wallet($1, 5)", &[&OWNER]), 5);
    assert_eq!(answer_with(&mut client, &leaves[0], 40, 20), "completed");
    assert_eq!(purse(&mut client), (5, 0), "it was under way before");
    assert_balanced(&mut client);
    assert_sound(&mut client);
}

#[test]
fn closing_a_wallet_sets_going_what_waited_for_money_in_it() {
    let (_database, mut client) = funded(0);
    let (_, leaves) = leaves(&mut client, 1);
    assert!(ask(&mut client, &leaves[0]).is_none());
    assert_eq!(status(&mut client, leaves[0].job), "paused_nsf");
    one::<i64>(&mut client, "select dialectic.close_wallet($1)", &[&OWNER]);
    assert_eq!(status(&mut client, leaves[0].job), "pending");
    assert_sound(&mut client);
}

#[test]
fn a_call_that_costs_nothing_leaves_no_trace_in_the_ledger() {
    let (_database, mut client) = funded(OPENING);
    let project = fan_project(&mut client, 1);
    begin(&mut client, project, &["sim-a"]);
    client.batch_execute("call dialectic.run_pending()").expect("run_pending");
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.model_calls where held = 0", &[]), 1);
    assert!(entries(&mut client).is_empty());
    assert_eq!(purse(&mut client), (OPENING, 0));
    assert_sound(&mut client);
}
