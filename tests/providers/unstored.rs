//! Answers that cannot be stored wait in the worker's memory, and that memory is bounded.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Latch, Provider};
use dialectic_tests::server::*;
use dialectic_tests::*;
use postgres::Client;

/// Eleven answers of this size are more than the 64 MiB that may wait.
const ANSWER_BYTES: usize = 6 << 20;
const ANSWERS: i32 = 11;

#[test]
fn no_call_is_opened_while_64_mib_of_answers_wait_to_be_stored() {
    let (_server, mut client) = own(LOOPBACK, &[]);
    let provider = Provider::start();
    let latch = Latch::default();
    provider.script("large", vec![Act::text(&"x".repeat(ANSWER_BYTES)).held(0, &latch)]);
    provider.script("small", vec![Act::text("Brief.")]);
    chat(&mut client, "large", &provider, "");
    chat(&mut client, "small", &provider, "");
    let held = calls(&mut client, "large", ANSWERS);
    soon("all large answers are waited for", || provider.under_way("large") == ANSWERS as usize);
    client
        .batch_execute(&format!(
            "create function public.boom() returns trigger language plpgsql as $$ begin raise exception 'boom'; end $$; \
             create trigger boom before update on dialectic.jobs for each row when (old.session_id = '{held}') \
                 execute function public.boom()"
        ))
        .expect("a trigger");
    latch.lift();
    let at = |client: &mut Client, place: &str| -> i64 {
        one(client, "select coalesce((jobs_in_flight ->> $1)::bigint, 0) from dialectic.health()", &[&place])
    };
    soon("the answers wait to be stored", || at(&mut client, "answered") == i64::from(ANSWERS));
    let free = calls(&mut client, "small", 1);
    soon("the other session is ready to be called", || at(&mut client, "prepared") == 1);
    let failures = "select problems::text from dialectic.health()";
    soon("storing was tried again", || one::<String>(&mut client, failures, &[]).contains("3 failures"));
    let asked = |provider: &Provider| provider.requests().iter().filter(|seen| seen.model == "small").count();
    assert_eq!(asked(&provider), 0, "a call was opened");

    client.batch_execute("drop trigger boom on dialectic.jobs").expect("drop");
    for session in [held, free] {
        within(std::time::Duration::from_secs(60), "both sessions complete", || {
            one::<String>(&mut client, "select status from dialectic.sessions where id = $1", &[&session])
                == "completed"
        });
    }
    assert_eq!(asked(&provider), 1);
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), [format!("{} answered", ANSWERS + 1)]);
    assert_sound(&mut client);
}

#[test]
fn streamed_text_that_cannot_be_stored_holds_up_its_session_alone() {
    let (server, mut client) = own(LOOPBACK, &[]);
    let (provider, latch) = (Provider::start(), Latch::default());
    provider.script("streamed", vec![Act::text("one two three four").held(2, &latch)]);
    chat(&mut client, "streamed", &provider, "");
    client
        .batch_execute(
            "create function public.boom() returns trigger language plpgsql as $$ begin raise exception 'boom'; end $$; \
             create trigger boom before insert on dialectic.partials for each row execute function public.boom()",
        )
        .expect("a trigger");
    let held = calls(&mut client, "streamed", 1);
    let problems = "select problems::text from dialectic.health()";
    soon("the session is held up", || one::<String>(&mut client, problems, &[]).contains(&held.to_string()));
    let free = calls(&mut client, "sim-a", 1);
    let status = "select status from dialectic.sessions where id = $1";
    soon("another session completes", || one::<String>(&mut client, status, &[&free]) == "completed");
    assert!(server.said("boom").len() <= 2, "logged once per minute");
    client.batch_execute("drop trigger boom on dialectic.partials").expect("drop");
    latch.lift();
    within(std::time::Duration::from_secs(60), "the session goes on", || {
        one::<String>(&mut client, status, &[&held]) == "completed"
    });
    soon("nothing is a problem", || one::<String>(&mut client, problems, &[]) == "{}");
    assert_eq!(column::<String>(&mut client, OUTCOMES, &[]), ["2 answered"]);
    assert_sound(&mut client);
}
