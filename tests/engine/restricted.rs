//! Security-restricted operations: maintenance by somebody else gives the owner of a table no rights but his own,
//! functions that run with the rights of the extension's owner refuse there, and views keep working.

use dialectic_tests::*;
use postgres::Client;

/// A user whose table runs `attack()` wherever its index is computed, once it is armed; and a session of somebody else.
fn attacker(database: &Database, role: &str) -> (Client, Uuid) {
    let mut client = database.connect();
    let mut user = database.connect_as(role);
    client
        .batch_execute(&format!("select dialectic.grant_user('{role}'); create schema {role} authorization {role}"))
        .expect("a user with a schema");
    let victim: Uuid =
        one(&mut client, "select dialectic.run('Mine alone', '{sim-a}', process => 'essay', test => true)", &[]);
    user.batch_execute(&format!(
        r#"set search_path = {role};
           create table seen (what text, result text);
           create table armed (is_armed boolean);
           create table bait (n integer);
           insert into bait select generate_series(1, 60);
           create function note(query text) returns void language plpgsql as $$
           declare
               result text;
           begin
               begin
                   execute query into result;
               exception when others then
                   result := sqlstate;
               end;
               insert into {role}.seen values (query, result);
           end
           $$;
           create function attack() returns void language plpgsql as $$
           begin
               if not exists (select from {role}.armed) then
                   return;
               end if;
               perform {role}.note(query) from (values
                   ('select dialectic._current_owner()'), ('select dialectic._is_admin()'),
                   ('select count(*) from dialectic.sessions'), ('select dialectic.cancel(''{victim}'')'),
                   ('select dialectic.prompt(''{victim}'')'),
                   ('select dialectic.run(''x'', ''{{sim-a}}'', process => ''essay'')'),
                   ('select dialectic.set_config(''max_continuations'', ''1'')'),
                   ('select count(*) from dialectic.health()'),
                   ('select dialectic.knit(array[''a''])')) as q(query);
           end
           $$;
           create function harmless(n integer) returns integer language plpgsql immutable as $$
           begin
               perform {role}.attack();
               return n;
           end
           $$;
           create index trap on bait (harmless(n));
           create materialized view copied as select harmless(n) as n from bait with no data"#
    ))
    .expect("a trap");
    (user, victim)
}

/// What the attack brought to light, one line for each query.
fn seen(user: &mut Client) -> Vec<String> {
    column(user, "select distinct format('%s: %s', what, result) from seen order by 1", &[])
}

#[test]
fn maintenance_by_a_superuser_gives_the_table_owner_no_further_rights() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let role = "law_restricted";
    let (mut user, victim) = attacker(&database, role);
    for maintenance in [
        format!("analyze {role}.bait"),
        format!("reindex table {role}.bait"),
        format!("refresh materialized view {role}.copied"),
        format!("vacuum full {role}.bait"),
    ] {
        user.batch_execute("truncate seen; insert into armed values (true)").expect("armed");
        client.batch_execute(&maintenance).unwrap_or_else(|error| panic!("{maintenance}: {error:?}"));
        assert_eq!(
            seen(&mut user),
            [
                "select count(*) from dialectic.health(): 42501".to_owned(),
                "select count(*) from dialectic.sessions: 0".to_owned(),
                "select dialectic._current_owner(): role:law_restricted".to_owned(),
                "select dialectic._is_admin(): false".to_owned(),
                format!("select dialectic.cancel('{victim}'): 42501"),
                "select dialectic.knit(array['a']): a".to_owned(),
                format!("select dialectic.prompt('{victim}'): 42501"),
                "select dialectic.run('x', '{sim-a}', process => 'essay'): 42501".to_owned(),
                "select dialectic.set_config('max_continuations', '1'): 42501".to_owned(),
            ],
            "{maintenance}"
        );
        user.batch_execute("truncate armed").expect("disarmed");
    }
    assert_eq!(
        column::<String>(&mut client, "select distinct status from dialectic.jobs", &[]),
        ["pending"],
        "the session of the superuser goes on"
    );
}

#[test]
fn refusal_in_maintenance_names_the_function_and_says_what_works() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let role = "law_restricted_text";
    drop(attacker(&database, role));
    client
        .batch_execute(&format!(
            "create function {role}.fails() returns integer language plpgsql as \
             'begin perform dialectic.pause(null); return 1; end'; \
             create materialized view {role}.failing as select {role}.fails() with no data; \
             alter materialized view {role}.failing owner to {role}"
        ))
        .expect("a view");
    let refresh = format!("refresh materialized view {role}.failing");
    let error = refused_with(&mut client, &refresh, &[], "42501", "dialectic.pause");
    assert!(error.hint().is_some_and(|hint| hint.contains("SELECT * FROM dialectic.usage")), "{error:?}");
}

#[test]
fn materialized_view_over_usage_shows_its_owners_rows_whoever_refreshes() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let role = "law_restricted_view";
    let (mut user, _) = attacker(&database, role);
    let _: Uuid = one(&mut user, "select dialectic.run('Count it', '{sim-a}', process => 'essay')", &[]);
    let _: Uuid = one(&mut client, "select dialectic.run('Count this too', '{sim-a}', process => 'essay')", &[]);
    work(&mut client);
    user.batch_execute("create materialized view spent as select * from dialectic.usage with no data").expect("a view");
    client.batch_execute(&format!("refresh materialized view {role}.spent")).expect("refresh");
    let rows = "select count(*) from dialectic.usage";
    let (all, own) = (one::<i64>(&mut client, rows, &[]), one::<i64>(&mut user, rows, &[]));
    assert!(all > own && own > 0, "{all} {own}");
    assert_eq!(one::<i64>(&mut user, "select count(*) from spent", &[]), own);
}

#[test]
fn no_function_of_the_extension_is_security_definer() {
    let database = Database::new();
    let mut client = database.connect();
    let definer: Vec<String> = column(
        &mut client,
        "select oid::regprocedure::text from pg_proc where prosecdef \
         and pronamespace in ('dialectic'::regnamespace, 'dialectic_internal'::regnamespace)",
        &[],
    );
    assert!(definer.is_empty(), "{definer:?}");
    let without_entry: Vec<String> = column(
        &mut client,
        "select i.oid::regprocedure::text from pg_proc i where i.pronamespace = 'dialectic_internal'::regnamespace \
         and not exists (select from pg_proc e where e.pronamespace = 'dialectic'::regnamespace \
             and e.proname = i.proname and e.proargtypes = i.proargtypes \
             and e.prorettype = i.prorettype and e.proowner = i.proowner \
             and e.provolatile = i.provolatile and e.prosrc = 'dialectic_call_as_owner')",
        &[],
    );
    assert!(without_entry.is_empty(), "{without_entry:?}");
    let entries = "select count(*) from pg_proc where pronamespace = 'dialectic_internal'::regnamespace";
    assert!(one::<i64>(&mut client, entries, &[]) > 60);
}

#[test]
fn nobody_is_granted_what_stands_behind_the_entries() {
    let database = Database::new();
    let mut client = database.connect();
    for (role, kind) in [("law_behind_user", "user"), ("law_behind_admin", "admin")] {
        let mut user = database.connect_as(role);
        client.batch_execute(&format!("select dialectic.grant_{kind}('{role}')")).expect("grant");
        let granted: Vec<String> = column(
            &mut client,
            "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = 'dialectic_internal'::regnamespace \
             and has_function_privilege($1::text::name, p.oid, 'execute')",
            &[&role],
        );
        assert!(granted.is_empty(), "{granted:?}");
        let call = "select dialectic_internal.cancel('00000000-0000-0000-0000-000000000000')";
        assert_eq!(refused(&mut user, call, &[]).code().code(), "42501");
    }
}
