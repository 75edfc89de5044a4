//! Whose a row is: the current user's, or the subject's of a gateway's claims; nobody can be taken for another.

use dialectic_tests::*;
use postgres::Client;

const OWNER: &str = "select dialectic._current_owner()";
const PROJECT: &str = "select dialectic.create_project('Law', 'Is this a law?', process => 'essay')";

fn count(client: &mut Client) -> i64 {
    one(client, "select count(*) from dialectic.projects", &[])
}

/// A database behind a gateway that uses this role for its users.
fn behind_a_gateway(role: &str) -> Database {
    let database = Database::new();
    let mut client = database.connect();
    drop(database.connect_as(role));
    client.execute(&format!("select dialectic.grant_user('{role}')"), &[]).expect("grant_user");
    client
        .batch_execute(&format!(
            "alter database {name} set dialectic.identity = 'jwt'; alter database {name} set dialectic.jwt_roles = 'anon, {role}'",
            name = database.name()
        ))
        .expect("settings");
    database
}

fn signed_in(database: &Database, role: &str, claims: &str) -> Client {
    let mut client = database.connect_as(role);
    client
        .execute(&format!("select pg_catalog.set_config('request.jwt.claims', '{claims}', false)"), &[])
        .expect("claims");
    client
}

#[test]
fn two_subjects_under_one_role_are_two_owners() {
    let database = behind_a_gateway("law_web");
    let mut ann = signed_in(&database, "law_web", r#"{"sub": "ann"}"#);
    let mut bob = signed_in(&database, "law_web", r#"{"sub": "bob"}"#);
    let project: Uuid = one(&mut ann, PROJECT, &[]);
    assert_eq!((count(&mut ann), count(&mut bob)), (1, 0));
    assert_eq!(one::<String>(&mut ann, "select owner from dialectic.projects", &[]), "jwt:ann");
    refused_with(&mut bob, "select dialectic.start_session($1, '{sim-a}')", &[&project], "P0002", &project.to_string());
}

#[test]
fn a_claim_cannot_name_a_role() {
    let database = behind_a_gateway("law_web_claims");
    let mut client = database.connect();
    let mut plain = database.connect_as("law_plain");
    client.execute("select dialectic.grant_user('law_plain')", &[]).expect("grant_user");
    let _: Uuid = one(&mut plain, PROJECT, &[]);
    assert_eq!(one::<String>(&mut plain, "select owner from dialectic.projects", &[]), "role:law_plain");
    for sub in ["law_plain", "role:law_plain"] {
        let mut web = signed_in(&database, "law_web_claims", &format!(r#"{{"sub": "{sub}"}}"#));
        assert_eq!(count(&mut web), 0, "{sub}");
        assert_eq!(one::<String>(&mut web, OWNER, &[]), format!("jwt:{sub}"));
    }
    // Nor do claims count for a role that is not the gateway's.
    plain.batch_execute("set request.jwt.claims = '{\"sub\": \"ann\"}'").expect("claims");
    assert_eq!(one::<String>(&mut plain, OWNER, &[]), "role:law_plain");
}

#[test]
fn without_a_subject_nobody_is_signed_in() {
    let database = behind_a_gateway("law_web_nobody");
    let _: Uuid = one(&mut signed_in(&database, "law_web_nobody", r#"{"sub": "ann"}"#), PROJECT, &[]);
    for claims in ["", "{}", r#"{"sub": ""}"#, r#"{"sub": null}"#, "[]"] {
        let mut web = signed_in(&database, "law_web_nobody", claims);
        assert_eq!(count(&mut web), 0, "{claims}");
        refused_with(&mut web, PROJECT, &[], "42501", "nobody is signed in");
    }
    let mut web = signed_in(&database, "law_web_nobody", "{");
    assert_eq!(refused(&mut web, "select * from dialectic.projects", &[]).code().code(), "22P02");
}

#[test]
fn only_a_superuser_says_how_owners_are_told_apart() {
    let database = Database::new();
    let mut client = database.connect();
    drop(database.connect_as("law_forger"));
    client.execute("select dialectic.grant_user('law_forger')", &[]).expect("grant_user");
    let forge = "set dialectic.identity = 'jwt'; set dialectic.jwt_roles = 'law_forger'; set request.jwt.claims = '{\"sub\": \"ann\"}'";

    // Before the library is loaded the settings are only names, and can be set; loading it throws them away. Where it is
    // preloaded they are settings from the first.
    let forging = || {
        let mut early = database.connect_as("law_forger");
        let refusal =
            early.batch_execute(forge).err().and_then(|error| error.code().map(|code| code.code().to_owned()));
        assert_eq!(refusal.as_deref(), preloaded().then_some("42501"));
        early
    };
    assert_eq!(one::<String>(&mut forging(), OWNER, &[]), "role:law_forger");
    let _: Uuid = one(&mut forging(), PROJECT, &[]);
    assert_eq!(column::<String>(&mut client, "select owner from dialectic.projects", &[]), ["role:law_forger"]);

    let mut late = database.connect_as("law_forger");
    assert_eq!(one::<String>(&mut late, OWNER, &[]), "role:law_forger");
    for setting in ["identity = 'jwt'", "jwt_roles = 'law_forger'", "clock_offset = 5"] {
        let error = late.batch_execute(&format!("set dialectic.{setting}")).expect_err("superuser only");
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{setting}");
    }
    let error = late.batch_execute("alter role law_forger set dialectic.identity = 'jwt'").expect_err("superuser only");
    assert_eq!(error.code().map(|code| code.code()), Some("42501"));
}

#[test]
fn set_role_is_followed() {
    let database = Database::new();
    let mut client = database.connect();
    drop(database.connect_as("law_team"));
    let mut member = database.connect_as("law_member");
    client
        .batch_execute("grant law_team to law_member; select dialectic.grant_user('law_team'); select dialectic.grant_user('law_member')")
        .expect("grants");
    member.batch_execute("set role law_team").expect("set role");
    let _: Uuid = one(&mut member, PROJECT, &[]);
    assert_eq!(one::<String>(&mut member, "select owner from dialectic.projects", &[]), "role:law_team");
    member.batch_execute("reset role").expect("reset role");
    assert_eq!(count(&mut member), 0);
    assert_eq!(one::<String>(&mut member, OWNER, &[]), "role:law_member");
}

/// Two users of the extension; the first has a schema with definer functions that the second may call.
fn author_and_caller(database: &Database, prefix: &str) -> (Client, Client) {
    let mut client = database.connect();
    let (author, caller) = (format!("{prefix}_author"), format!("{prefix}_caller"));
    let (mut of_author, of_caller) = (database.connect_as(&author), database.connect_as(&caller));
    client
        .batch_execute(&format!(
            "select dialectic.grant_user('{author}'), dialectic.grant_user('{caller}'); \
             create schema {prefix} authorization {author}; grant usage on schema {prefix} to public"
        ))
        .expect("grants");
    of_author
        .batch_execute(&format!(
            "create function {prefix}.owner() returns text language sql security definer as '{OWNER}'; \
             create function {prefix}.count() returns bigint language sql security definer as \
                 'select count(*) from dialectic.projects'; \
             create function {prefix}.run() returns uuid language sql security definer as \
                 $$select dialectic.run('Why?', '{{sim-a}}', process => 'essay', test => true)$$; \
             create function {prefix}.make() returns uuid language sql security definer as $${PROJECT}$$"
        ))
        .expect("definer functions");
    (of_author, of_caller)
}

#[test]
fn definer_function_of_a_user_sees_and_makes_what_is_that_users() {
    let database = Database::by_hand();
    let (mut author, mut caller) = author_and_caller(&database, "law_definer");
    for _ in 0..3 {
        let _: Uuid = one(&mut author, PROJECT, &[]);
    }
    assert_eq!(one::<String>(&mut caller, "select law_definer.owner()", &[]), "role:law_definer_author");
    assert_eq!(one::<i64>(&mut caller, "select law_definer.count()", &[]), 3);
    let _: Uuid = one(&mut caller, "select law_definer.make()", &[]);
    assert_eq!((count(&mut caller), count(&mut author)), (0, 4));
    // A function of ours that calls others of ours.
    let _: Uuid = one(&mut caller, "select law_definer.run()", &[]);
    assert_eq!((count(&mut caller), count(&mut author)), (0, 5));
    let _: Uuid = one(&mut caller, PROJECT, &[]);
    assert_eq!((count(&mut caller), count(&mut author)), (1, 5));
}

#[test]
fn error_in_a_function_leaves_no_trace_of_its_caller() {
    let database = Database::by_hand();
    let mut client = database.connect();
    drop(author_and_caller(&database, "law_error"));
    let superuser: String = one(&mut client, OWNER, &[]);
    let calling = "select dialectic._calling_owner()";
    client.batch_execute("begin; set local role law_error_caller").expect("a transaction of the caller");
    for _ in 0..3 {
        client.batch_execute("savepoint before").expect("savepoint");
        refused(&mut client, "select dialectic.cancel(gen_random_uuid())", &[]);
        client.batch_execute("rollback to before").expect("rollback to");
        client
            .batch_execute(
                "do $$ begin perform dialectic.pause(gen_random_uuid()); exception when no_data_found then null; end $$",
            )
            .expect("an error that is caught");
    }
    client.batch_execute("reset role").expect("reset role");
    assert_eq!(one::<String>(&mut client, calling, &[]), superuser);
    let _: Uuid = one(&mut client, PROJECT, &[]);
    client.batch_execute("commit").expect("commit");
    assert_eq!(column::<String>(&mut client, "select owner from dialectic.projects", &[]), [superuser.as_str()]);

    client.batch_execute("set role law_error_caller").expect("set role");
    refused(&mut client, "select dialectic.cancel(gen_random_uuid())", &[]);
    client.batch_execute("reset role").expect("reset role");
    assert_eq!(one::<String>(&mut client, calling, &[]), superuser);
}

#[test]
fn error_in_a_function_keeps_its_context_and_names() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .batch_execute("alter table dialectic.projects add constraint no_law check (name <> 'Law')")
        .expect("a check");
    let error = refused(&mut client, PROJECT, &[]);
    assert_eq!((error.code().code(), error.constraint()), ("23514", Some("no_law")));
    assert!(error.where_().is_some_and(|context| context.contains("create_project")), "{error:?}");
}

#[test]
fn trigger_of_another_role_calls_as_that_role() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (mut author, mut caller) = author_and_caller(&database, "law_trigger");
    author
        .batch_execute(&format!(
            "create function law_trigger.fires() returns trigger language plpgsql security definer as \
             $$ begin if new.name <> 'Law' then {}; end if; return null; end $$",
            PROJECT.replacen("select", "perform", 1)
        ))
        .expect("a trigger function");
    client
        .batch_execute(
            "create trigger fires after insert on dialectic.projects for each row execute function law_trigger.fires()",
        )
        .expect("a trigger");
    let _: Uuid = one(
        &mut caller,
        "select dialectic.create_project('Other', 'Is this another?', process => 'essay', idempotency_key => 'k')",
        &[],
    );
    assert_eq!(column::<String>(&mut caller, "select name from dialectic.projects", &[]), ["Other"]);
    assert_eq!(column::<String>(&mut author, "select name from dialectic.projects", &[]), ["Law"]);
}
