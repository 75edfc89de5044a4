//! Into which schema the extension installs itself, and into which it does not: whoever can create in it could become
//! superuser.

use dialectic_tests::*;
use postgres::Client;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const CREATE: &str = "create extension pg_dialectic cascade";

/// A database in which a role that is no superuser may create schemas, and a connection of that role.
fn prepared(role: &str) -> (Database, Client, Client) {
    let database = Database::empty();
    let mut client = database.connect();
    let user = database.connect_as(role);
    client
        .batch_execute(&format!(
            "set client_min_messages = warning; grant create on database {} to {role}",
            database.name()
        ))
        .expect("the right to create schemas");
    (database, client, user)
}

/// Refused, with nothing of the extension created.
fn refused_install(client: &mut Client, named: &str) -> String {
    let error = refused_with(client, CREATE, &[], "55000", named);
    let left: i64 = one(
        client,
        "select count(*) from pg_class where relnamespace = to_regnamespace('dialectic')::oid and relkind = 'r'",
        &[],
    );
    assert_eq!(left, 0);
    error.hint().unwrap_or_default().to_owned()
}

#[test]
fn schema_of_somebody_else_is_refused_until_the_installer_owns_it() {
    let (_database, mut client, mut user) = prepared("law_install_owner");
    user.batch_execute("create schema dialectic").expect("a schema");
    let hint = refused_install(&mut client, "law_install_owner");
    client.batch_execute(&hint).expect("the hint");
    client.batch_execute(CREATE).expect("installed");
}

#[test]
fn schema_that_holds_an_object_is_refused_until_it_is_dropped() {
    for object in [
        "create function dialectic.format(text, text) returns text language sql as 'select null'",
        "create table dialectic.jobs ()",
        "create type dialectic.mood as enum ('good')",
        "create operator dialectic.= (function = int4eq, leftarg = int4, rightarg = int4)",
        "alter default privileges in schema dialectic grant execute on functions to public",
    ] {
        let (_database, mut client, mut user) = prepared("law_install_object");
        client
            .batch_execute("create schema dialectic; grant create, usage on schema dialectic to law_install_object")
            .expect("a schema");
        user.batch_execute(object).expect(object);
        client.batch_execute("revoke create on schema dialectic from law_install_object").expect("revoke");
        let error = refused_with(&mut client, CREATE, &[], "55000", "not empty");
        assert!(error.detail().is_some_and(|detail| detail.starts_with("It holds ")), "{error:?}");
        client.batch_execute("drop schema dialectic cascade").expect("the hint");
        client.batch_execute(CREATE).expect("installed");
    }
}

#[test]
fn function_planted_in_the_schema_is_not_called_by_the_installation() {
    let (database, mut client, mut user) = prepared("law_install_planted");
    user.batch_execute(
        "create schema dialectic; \
         create function dialectic.format(text, text) returns text language plpgsql as \
             $$ begin execute 'alter role law_install_planted superuser'; return ''; end $$; \
         create function dialectic.format(text, oid) returns text language plpgsql as \
             $$ begin execute 'alter role law_install_planted superuser'; return ''; end $$; \
         create function dialectic.set_config(text, text, boolean) returns text language plpgsql as \
             $$ begin execute 'alter role law_install_planted superuser'; return ''; end $$",
    )
    .expect("a trap");
    refused_install(&mut client, "not empty");
    // The schema of a required extension is another one in which users may create.
    client
        .batch_execute("drop schema dialectic cascade; grant create on schema public to law_install_planted")
        .expect("the schema is gone");
    user.batch_execute(
        "create function public.format(text, text) returns text language plpgsql as \
             $$ begin execute 'alter role law_install_planted superuser'; return ''; end $$; \
         create function public.format(text, name) returns text language plpgsql as \
             $$ begin execute 'alter role law_install_planted superuser'; return ''; end $$",
    )
    .expect("a trap");
    client.batch_execute(CREATE).expect("installed");
    let superuser: bool = one(&mut client, "select rolsuper from pg_roles where rolname = 'law_install_planted'", &[]);
    assert!(!superuser, "{}", database.name());
}

#[test]
fn schema_that_others_may_create_in_is_refused_until_that_is_revoked() {
    for grantee in ["law_install_create", "public"] {
        let (_database, mut client, _user) = prepared("law_install_create");
        client
            .batch_execute(&format!("create schema dialectic; grant create on schema dialectic to {grantee}"))
            .expect("a schema");
        let hint = refused_install(&mut client, "create");
        client.batch_execute(&hint).expect("the hint");
        client.batch_execute(CREATE).expect("installed");
    }
}

#[test]
fn empty_schema_of_a_superuser_is_accepted_also_from_another_one() {
    let database = Database::empty();
    let mut client = database.connect();
    let mut other = database.connect_as("law_install_super");
    client
        .batch_execute("set client_min_messages = warning; alter role law_install_super superuser")
        .expect("another superuser");
    other.batch_execute("create schema dialectic; grant usage on schema dialectic to public").expect("a schema");
    client.batch_execute(CREATE).expect("installed");
    client.batch_execute("alter role law_install_super nosuperuser").expect("no superuser again");
}

#[test]
fn extension_is_dropped_and_created_again() {
    let database = Database::empty();
    let mut client = database.connect();
    drop(database.connect_as("law_install_again"));
    client.batch_execute("set client_min_messages = warning").expect("quiet");
    for _ in 0..2 {
        client.batch_execute(CREATE).expect("installed");
        client.batch_execute("select dialectic.grant_user('law_install_again')").expect("grant_user");
        client.batch_execute("drop extension pg_dialectic").expect("dropped");
        let left: Option<String> = one(&mut client, "select to_regnamespace('dialectic_internal')::text", &[]);
        assert_eq!(left, None);
    }
}

#[test]
fn existing_schema_dialectic_internal_is_refused_until_it_is_dropped() {
    let (_database, mut client, mut user) = prepared("law_install_internal");
    user.batch_execute("create schema dialectic_internal").expect("a schema");
    refused_install(&mut client, "dialectic_internal");
    client.batch_execute("drop schema dialectic_internal cascade").expect("the hint");
    client.batch_execute(CREATE).expect("installed");
}

fn program(name: &str) -> Command {
    let folder = std::env::var("DIALECTIC_PGBIN").expect("DIALECTIC_PGBIN; run the tests with `dev/test end-to-end`");
    Command::new(PathBuf::from(folder).join(name))
}

#[test]
fn dump_is_restored_by_another_superuser() {
    let source = Database::by_hand();
    let target = Database::empty();
    let mut client = source.connect();
    let session = generated(&mut client, &["sim-a"]);
    drop(source.connect_as("law_install_restorer"));
    client.batch_execute("alter role law_install_restorer superuser").expect("another superuser");
    let mut dump = program("pg_dump").arg(source.name()).stdout(Stdio::piped()).spawn().expect("pg_dump");
    let restored = program("psql")
        .args([
            "--no-psqlrc",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
            "--output=/dev/null",
            "--username=law_install_restorer",
        ])
        .args(["--dbname", target.name()])
        .stdin(dump.stdout.take().expect("its output"))
        .output()
        .expect("psql");
    assert!(dump.wait().expect("pg_dump").success());
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    let mut restored = target.connect();
    assert_eq!(column::<Uuid>(&mut restored, "select id from dialectic.sessions", &[]), [session]);
    assert_sound(&mut restored);
    drop(restored);
    drop(target);
    client.batch_execute("alter role law_install_restorer nosuperuser").expect("no superuser again");
}

#[test]
fn default_privileges_of_the_installer_give_nobody_anything() {
    let database = Database::empty();
    let mut client = database.connect();
    drop(database.connect_as("law_install_default"));
    client
        .batch_execute(
            "set client_min_messages = warning; \
             alter default privileges grant all on tables to law_install_default; \
             alter default privileges grant execute on functions to law_install_default; \
             create extension pg_dialectic cascade",
        )
        .expect("CREATE EXTENSION");
    let granted: Vec<String> = column(
        &mut client,
        "select c.relname::text from pg_class c where c.relnamespace = 'dialectic'::regnamespace \
             and c.relkind in ('r', 'v') and has_table_privilege('law_install_default', c.oid, 'select, trigger, truncate') \
         union all \
         select p.proname::text from pg_proc p \
         where p.pronamespace in ('dialectic'::regnamespace, 'dialectic_internal'::regnamespace) \
             and has_function_privilege('law_install_default', p.oid, 'execute') limit 5",
        &[],
    );
    client.batch_execute("drop owned by law_install_default").expect("the default privileges end");
    assert_eq!(granted, [] as [String; 0]);
}
