//! A hold-up ends with its cause, also where nothing is left to be written.

use crate::load::*;
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;

fn problems(client: &mut Client) -> Vec<String> {
    one(client, "select problems from dialectic.health()", &[])
}

#[test]
fn call_that_could_not_be_opened_is_opened_after_its_cause() {
    let (_server, mut client) = Server::serving("");
    client
        .batch_execute(
            "create function public.boom() returns trigger language plpgsql as $$ begin raise exception 'boom'; end $$; \
             create trigger boom before insert on dialectic.model_calls for each row execute function public.boom()",
        )
        .expect("a trigger");
    let session = essay(&mut client, &["sim-a"]);
    soon("it was tried more than once", || problems(&mut client).iter().any(|p| p.contains("3 failures")));
    client.batch_execute("drop trigger boom on dialectic.model_calls").expect("drop");
    let status = "select status from dialectic.sessions where id = $1";
    soon("the session goes on", || one::<String>(&mut client, status, &[&session]) == "completed");
    soon("nothing is a problem", || problems(&mut client).is_empty());
    assert_sound(&mut client);
}

#[test]
fn hold_up_of_an_idle_database_ends() {
    let (server, mut client) = Server::serving("");
    switch(&mut client, false);
    for _ in 0..4 {
        essay(&mut client, &["sim-a"]);
    }
    let mut other = server.connect("law");
    other.batch_execute("begin; lock table dialectic.ready_jobs in exclusive mode").expect("a lock");
    switch(&mut client, true);
    let is_of_the_database = |p: &String| p.contains("55P03") && !p.contains("session");
    soon("the database is held up", || problems(&mut client).iter().any(is_of_the_database));
    // The worker is switched off before the cause ends, so that it never writes again.
    switch(&mut client, false);
    other.batch_execute("rollback").expect("no lock");
    soon("no error is shown", || !problems(&mut client).iter().any(|p| p.contains("55P03")));
    assert_sound(&mut client);
}

#[test]
fn definition_without_a_list_of_stages_holds_up_its_session() {
    let (_server, mut client) = Server::serving("");
    model(&mut client, "slow", "300");
    let session = essay(&mut client, &["slow"]);
    in_flight(&mut client, 1);
    client
        .batch_execute(
            "create table public.kept as select id, stages from dialectic.definitions; \
             update dialectic.definitions set stages = '{\"garbage\": 1}'",
        )
        .expect("garbage");
    let is_named = |p: &String| p.contains(&session.to_string()) && p.contains("its stages are not an array");
    soon("the problem names the definition", || problems(&mut client).iter().any(is_named));
    let restore = "update dialectic.definitions d set stages = k.stages from public.kept k where k.id = d.id";
    client.batch_execute(restore).expect("restored");
    all_completed(&mut client, std::time::Duration::from_secs(60));
}

#[test]
fn health_names_the_process_that_has_locked_a_table() {
    let (server, mut client) = Server::serving("");
    let mut other = server.connect("law");
    other.batch_execute("begin; lock table dialectic.jobs").expect("a lock");
    let process = format!("process {} has locked table dialectic.jobs", pid(&mut other));
    let shown = problems(&mut client);
    assert!(shown.iter().any(|problem| problem.contains(&process)), "{shown:?}");
    other.batch_execute("rollback").expect("no lock");
    soon("nothing is a problem", || problems(&mut client).is_empty());
}
