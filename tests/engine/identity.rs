//! Whose a row is: the role that called from outside, or the subject of a gateway's claims; nobody can be taken for another.

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

#[test]
fn in_a_definer_function_of_a_user_the_owner_is_still_the_caller() {
    let database = Database::new();
    let mut client = database.connect();
    let mut author = database.connect_as("law_author");
    let mut caller = database.connect_as("law_caller");
    client
        .batch_execute(
            "select dialectic.grant_user('law_author'); select dialectic.grant_user('law_caller'); \
             create schema law_definer authorization law_author; grant usage on schema law_definer to public",
        )
        .expect("grants");
    author
        .batch_execute(&format!(
            "create function law_definer.owner() returns text language sql security definer as '{OWNER}'; \
             create function law_definer.count() returns bigint language sql security definer as 'select count(*) from dialectic.projects'; \
             create function law_definer.make() returns uuid language sql security definer as $${PROJECT}$$"
        ))
        .expect("definer functions");
    for _ in 0..3 {
        let _: Uuid = one(&mut author, PROJECT, &[]);
    }
    assert_eq!(one::<String>(&mut caller, "select law_definer.owner()", &[]), "role:law_caller");
    assert_eq!(one::<i64>(&mut caller, "select law_definer.count()", &[]), 0);
    let _: Uuid = one(&mut caller, "select law_definer.make()", &[]);
    assert_eq!((count(&mut caller), count(&mut author)), (1, 3));
}
