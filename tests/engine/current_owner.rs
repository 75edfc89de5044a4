//! Which role owns what a statement makes: the current user, or the subject of a gateway's claims.

use dialectic_tests::*;
use postgres::Client;

fn text(client: &mut Client, expression: &str) -> String {
    one(client, &format!("select ({expression})::text"), &[])
}

#[test]
fn owner_is_the_current_user_also_inside_a_definer_function() {
    let database = Database::unserved();
    let mut client = database.connect();
    let definer = text(&mut client, "dialectic._current_owner()");
    assert!(definer.starts_with("role:"), "{definer}");
    drop(database.connect_as("inner_and_outer"));
    client
        .batch_execute(
            "create function asked() returns text language sql security definer \
                 as 'select dialectic._current_owner()'; \
             select dialectic.grant_user('inner_and_outer'); \
             set role inner_and_outer",
        )
        .expect("a role");
    assert_eq!(text(&mut client, "dialectic._current_owner()"), "role:inner_and_outer");
    assert_eq!(text(&mut client, "asked()"), definer);
    client.batch_execute("reset role").expect("reset role");
    assert_eq!(text(&mut client, "dialectic._current_owner()"), definer);
}

#[test]
fn claims_name_the_owner_only_for_the_roles_of_the_gateway() {
    let database = Database::unserved();
    let mut client = database.connect();
    drop(database.connect_as("gateway_user"));
    drop(database.connect_as("somebody_else"));
    client
        .batch_execute(
            "select dialectic.grant_user('gateway_user'), dialectic.grant_user('somebody_else'); \
             set dialectic.identity = 'jwt'; set dialectic.jwt_roles = 'anon, gateway_user'; \
             set request.jwt.claims = '{\"sub\": \"role:postgres\"}'; \
             set role gateway_user",
        )
        .expect("a gateway");
    assert_eq!(text(&mut client, "dialectic._current_owner()"), "jwt:role:postgres");
    client.batch_execute("set role somebody_else").expect("set role");
    assert_eq!(text(&mut client, "dialectic._current_owner()"), "role:somebody_else");
}
