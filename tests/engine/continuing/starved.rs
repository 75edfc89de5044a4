//! Truncated with nothing to see: a model that spent its budget on thinking gets a larger one and is asked the same again. That
//! is no continuation and charges no attempt; where no larger budget is to be had the job fails and says how large it was.

use super::*;
use crate::by_hand::{session_status, status};

/// A model that thinks so long, and may write at most so much.
fn thinker(client: &mut Client, thinks: u32, most: i32) {
    client
        .execute(
            "select dialectic.add_model('thinker', 'simulator', max_output_tokens => $1, settings => $2)",
            &[&most, &json!({"thinks_tokens": thinks})],
        )
        .expect("add_model");
}

/// A session of the process with this model, whose stage wants at most so much; not worked.
fn wanting(client: &mut Client, process: &str, model: &str, most: Option<i32>) -> Uuid {
    let project: Uuid = one(client, "select dialectic.create_project('Long', 'Think.', process => $1)", &[&process]);
    let session: Uuid = one(client, "select dialectic.start_session($1, array[$2])", &[&project, &model]);
    client
        .query("select * from dialectic.generate($1, max_output_tokens => $2)", &[&session, &most])
        .expect("generate");
    session
}

fn stage_limit(client: &mut Client, session: Uuid) -> Option<i32> {
    one(client, "select max_output_tokens from dialectic.stage_runs where session_id = $1", &[&session])
}

/// How many tokens the request of a claimed job asks for.
fn budget(client: &mut Client, claim: &Claim) -> u64 {
    request(client, claim)["max_output_tokens"].as_u64().expect("a number")
}

#[test]
fn the_budget_of_a_starved_model_doubles_until_there_is_text() {
    let database = Database::new();
    let mut client = database.connect();
    notes(&mut client);
    thinker(&mut client, 2500, 20_000);
    for (process, jobs) in [("essay", 1), ("notes", 2)] {
        let session = wanting(&mut client, process, "thinker", Some(1000));
        work(&mut client);
        let seen: Vec<String> = column(
            &mut client,
            "select concat_ws(' ', continuation_count, status, attempt_count, (select count(*) from dialectic.model_calls c where c.job_id = j.id)) \
             from dialectic.jobs j where session_id = $1 and kind = 'execute'",
            &[&session],
        );
        // 1000 and 2000 are thought away, 4000 are enough.
        assert_eq!(seen, vec!["0 completed 1 3"; jobs], "{process}");
        assert!(document(&mut client, session).1);
        assert_eq!(stage_limit(&mut client, session), Some(1000), "what was wanted is not rewritten");
    }
    assert_sound(&mut client);
}

#[test]
fn a_starved_model_that_cannot_have_more_fails_and_the_budget_is_named() {
    let database = Database::new();
    let mut client = database.connect();
    thinker(&mut client, 9000, 3000);
    for (most, calls_made) in [(Some(1000), 3), (Some(3000), 1), (None, 1), (Some(50_000), 1)] {
        let session = wanting(&mut client, "essay", "thinker", most);
        work(&mut client);
        assert_eq!(calls(&mut client, session), calls_made, "{most:?}");
        let row = client
            .query_one(
                "select status, continuation_count, error_details ->> 'message' from dialectic.jobs where session_id = $1 and kind = 'execute'",
                &[&session],
            )
            .expect("one job");
        let (status, continuations, message): (String, i32, String) = (row.get(0), row.get(1), row.get(2));
        assert_eq!((status.as_str(), continuations), ("failed", 0));
        assert!(message.contains("3000 tokens"), "{message}");
        assert_eq!(session_status(&mut client, session), "failed");
        assert_eq!(stage_limit(&mut client, session), most);
    }
    assert_sound(&mut client);
}

#[test]
fn a_starved_job_waits_where_it_was_and_asks_the_same_with_more_room() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .execute("select dialectic.add_model('frugal', 'simulator', max_output_tokens => 3000)", &[])
        .expect("add_model");
    let session = wanting(&mut client, "essay", "frugal", Some(1000));
    let mut job = first_claim(&mut client);
    let turn = messages(&mut client, &job);
    for asked in [1000, 2000] {
        assert_eq!(budget(&mut client, &job), asked);
        assert_eq!(finish(&mut client, &job, " \n", "length"), "pending");
        assert_eq!(status(&mut client, job.job), "pending");
        let again = next(&mut client);
        assert_eq!(again.job, job.job);
        job = again;
        assert_eq!(messages(&mut client, &job), turn, "the question is the same");
    }
    assert_eq!(budget(&mut client, &job), 3000, "all that the model allows");
    assert_eq!(finish(&mut client, &job, "A text.", "stop"), "completed");
    assert_eq!(ends(&mut client, session), ["1 stop"], "silence is no chunk");
    let attempts: i32 = one(&mut client, "select attempt_count from dialectic.jobs where id = $1", &[&job.job]);
    assert_eq!(attempts, 1);
    assert_eq!(calls(&mut client, session), 3);
    finish_up(&mut client);
    assert_sound(&mut client);
}

#[test]
fn a_starved_continuation_gets_more_room_and_goes_on_from_its_chain() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let session = wanting(&mut client, "essay", "sim-a", Some(1000));
    let first = first_claim(&mut client);
    assert_eq!(say(&mut client, &first, TEXT[0], "length"), "completed");
    let second = next(&mut client);
    let sent = messages(&mut client, &second);
    assert_eq!(finish(&mut client, &second, "", "length"), "pending_continuation");
    let again = next(&mut client);
    assert_eq!(again.job, second.job);
    assert_eq!(budget(&mut client, &again), 2000);
    assert_eq!(messages(&mut client, &again), sent);
    assert_eq!(finish(&mut client, &again, TEXT[1], "stop"), "completed");
    assert_eq!(document(&mut client, session), (TEXT.concat(), true));
    assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 completed"]);
    finish_up(&mut client);
    assert_sound(&mut client);
}
