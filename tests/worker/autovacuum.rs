//! Autovacuum runs the functions of a user's index by itself, with the rights of the table's owner and no others.

use dialectic_tests::server::Server;
use dialectic_tests::*;
use std::time::Duration;

#[test]
fn autovacuum_gives_the_owner_of_a_table_no_further_rights() {
    let (_server, mut client) = Server::serving("autovacuum_naptime = 1s");
    let victim: Uuid =
        one(&mut client, "select dialectic.run('Mine alone', '{sim-a}', process => 'essay', test => true)", &[]);
    let pid = pid(&mut client);
    client
        .batch_execute(&format!(
            r#"create role thief; select dialectic.grant_user('thief'); create schema thief authorization thief;
               set role thief; set search_path = thief;
               create table seen (by_autovacuum boolean, owner text, is_admin boolean, sessions bigint, cancelled text);
               create table bait (n integer) 
                   with (autovacuum_analyze_threshold = 1, autovacuum_analyze_scale_factor = 0);
               create function attack() returns void language plpgsql as $$
               declare
                   cancelled text;
               begin
                   begin
                       cancelled := dialectic.cancel('{victim}')::text;
                   exception when others then
                       cancelled := sqlstate;
                   end;
                   insert into thief.seen
                   select pg_backend_pid() <> {pid},
                          dialectic._current_owner(), dialectic._is_admin(), count(*), cancelled
                   from dialectic.sessions;
               end
               $$;
               create function harmless(n integer) returns integer language plpgsql immutable as $$
               begin
                   perform thief.attack();
                   return n;
               end
               $$;
               create index trap on bait (harmless(n));
               insert into bait select generate_series(1, 60);
               truncate seen;
               reset role"#
        ))
        .expect("a trap");
    let by_itself =
        "select distinct concat_ws(' ', owner, is_admin, sessions, cancelled) from thief.seen where by_autovacuum";
    let mut seen: Vec<String> = Vec::new();
    eventually_within(Duration::from_secs(60), "autovacuum comes", || {
        seen = column(&mut client, by_itself, &[]);
        !seen.is_empty()
    });
    assert_eq!(seen, ["role:thief f 0 42501"]);
    let statuses: Vec<String> = column(&mut client, "select distinct status from dialectic.jobs", &[]);
    assert_eq!(statuses, ["pending"]);
}
