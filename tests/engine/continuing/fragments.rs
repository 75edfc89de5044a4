//! What a call had said when it was interrupted is not lost: the next attempt of the same job goes on from it. It stays in its job,
//! charges no attempt and no continuation, and becomes a chunk of the answer. The fragments are put down here by hand, as a
//! claimer that dies leaves them; two hours later somebody else claims the job.

use super::*;
use crate::by_hand::session_status;

/// The claimer of a job dies after it has put down these parts of an answer; the job is claimed anew.
fn dies(client: &mut Client, claim: &Claim, parts: &[&str]) -> Claim {
    request(client, claim);
    for part in parts {
        client
            .execute(
                "insert into dialectic.partials (job_id, claim_id, content) values ($1, $2, $3)",
                &[&claim.job, &claim.claim, part],
            )
            .expect("superuser");
    }
    client
        .batch_execute(
            "select set_config('dialectic.clock_offset', \
                 (coalesce(nullif(current_setting('dialectic.clock_offset', true), ''), '0')::numeric + 7200)::text, false)",
        )
        .expect("superuser");
    let again = next(client);
    assert_eq!(again.job, claim.job);
    assert_ne!(again.claim, claim.claim);
    again
}

fn saved(client: &mut Client, job: Uuid) -> Vec<(String, String)> {
    client
        .query(
            "select resource_type, content from dialectic.resources where job_id = $1 and resource_type like '%\\_prompt' order by 1",
            &[&job],
        )
        .expect("prompts")
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect()
}

fn attempts(client: &mut Client, job: Uuid) -> i32 {
    one(client, "select attempt_count from dialectic.jobs where id = $1", &[&job])
}

fn partials(client: &mut Client) -> i64 {
    one(client, "select count(*) from dialectic.partials", &[])
}

#[test]
fn an_interrupted_text_goes_on_from_its_fragment() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    let turn = messages(&mut client, &first);
    let before = saved(&mut client, first.job);
    assert_eq!(before.len(), 1);

    let again = dies(&mut client, &first, &["# Wells\n\nA well is dug", " where the wat"]);
    let sent = messages(&mut client, &again);
    assert_eq!(sent[..turn.len()], turn[..]);
    assert_eq!(roles(&sent[turn.len()..]), ["assistant", "user"]);
    assert_eq!(said(&sent[turn.len()]), TEXT[0], "the parts in their order");
    assert_eq!(prompt(&mut client, again.job), sent);
    assert_eq!(finish(&mut client, &again, TEXT[1], "stop"), "completed");

    assert_eq!(
        chunks(&mut client, session),
        [(1, "error".to_owned(), TEXT[0].to_owned()), (2, "stop".to_owned(), TEXT[1].to_owned())]
    );
    assert_eq!(document(&mut client, session), (TEXT.concat(), true));
    assert_eq!(calling_jobs(&mut client, session), ["0 completed"]);
    assert_eq!(attempts(&mut client, first.job), 1, "a death costs no attempt");
    assert_eq!(partials(&mut client), 0);
    let after = saved(&mut client, first.job);
    assert_eq!(after.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["continuation_prompt", "turn_prompt"]);
    assert_eq!(after[1], before[0], "what was asked first stays as it was");
    finish_up(&mut client);
    assert_sound(&mut client);
}

#[test]
fn an_answer_that_is_interrupted_again_and_again_is_its_fragments_and_its_end() {
    let database = Database::by_hand();
    let mut client = database.connect();
    // An interruption is no continuation, and none is allowed here.
    configure(&mut client, "max_continuations", 0);
    let (session, mut job) = text_by_hand(&mut client);
    let turn = messages(&mut client, &job);
    let parts = ["The first part of it, ", "the second part of it, ", "the third part of it, "];
    for (at, part) in parts.iter().enumerate() {
        job = dies(&mut client, &job, &[part]);
        let sent = messages(&mut client, &job);
        assert_eq!(sent.len(), turn.len() + 2);
        assert_eq!(said(&sent[turn.len()]).trim_end(), parts[..=at].concat().trim_end());
    }
    assert_eq!(finish(&mut client, &job, "and the end.", "stop"), "completed");
    assert_eq!(ends(&mut client, session), ["1 error", "2 error", "3 error", "4 stop"]);
    assert_eq!(document(&mut client, session), (format!("{}and the end.", parts.concat()), true));
    assert_eq!((attempts(&mut client, job.job), calling_jobs(&mut client, session).len()), (1, 1));
    assert_eq!(calls(&mut client, session), 4);
    finish_up(&mut client);
    assert_sound(&mut client);
}

#[test]
fn an_interruption_takes_nothing_from_the_continuations() {
    let database = Database::by_hand();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 1);
    let (session, first) = text_by_hand(&mut client);
    let again = dies(&mut client, &first, &["One and one, "]);
    assert_eq!(say(&mut client, &again, "two, ", "length"), "completed");
    let second = next(&mut client);
    assert_eq!(continue_reason(&mut client, session), "cut");
    let second = dies(&mut client, &second, &["three and three, "]);
    let sent = messages(&mut client, &second);
    assert_eq!(said(&sent[sent.len() - 2]).trim_end(), "One and one, two, three and three,");
    assert_eq!(finish(&mut client, &second, "four.", "stop"), "completed");
    assert_eq!(ends(&mut client, session), ["1 error", "2 length", "3 error", "4 stop"]);
    assert_eq!(document(&mut client, session), ("One and one, two, three and three, four.".to_owned(), true));
    assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 completed"]);
    finish_up(&mut client);
    assert_sound(&mut client);
}

#[test]
fn interrupted_json_goes_on_from_its_fragment() {
    for rest in [NOTE[1], r#"{"points": ["Line the well with stone"]}"#] {
        let database = Database::by_hand();
        let mut client = database.connect();
        let (session, first) = note_by_hand(&mut client);
        let again = dies(&mut client, &first, &[NOTE[0]]);
        assert_eq!(say(&mut client, &again, rest, "stop"), "completed", "{rest}");
        finish_up(&mut client);
        let whole: Value = serde_json::from_str(&NOTE.concat()).expect("JSON");
        assert_eq!(assembled(&mut client, session, "note"), (whole, true), "{rest}");
        assert_eq!(ends(&mut client, session), ["1 error", "2 stop"]);
        assert_eq!(session_status(&mut client, session), "completed");
        assert_sound(&mut client);
    }
}

#[test]
fn an_answer_that_begins_again_after_an_interruption_is_not_doubled() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = note_by_hand(&mut client);
    let again = dies(&mut client, &first, &[NOTE[0]]);
    let whole = NOTE.concat();
    assert_eq!(say(&mut client, &again, &whole, "stop"), "completed");
    finish_up(&mut client);
    assert_eq!(
        assembled(&mut client, session, "note"),
        (serde_json::from_str(&whole).expect("JSON"), true),
        "a model that ignores the directive does no harm"
    );
    assert_sound(&mut client);
}

#[test]
fn a_failure_in_the_middle_of_a_stream_goes_on_from_its_fragment_too() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    let (session, first) = text_by_hand(&mut client);
    let turn = messages(&mut client, &first);
    client
        .execute(
            "insert into dialectic.partials (job_id, claim_id, content) values ($1, $2, $3)",
            &[&first.job, &first.claim, &TEXT[0]],
        )
        .expect("superuser");
    assert_eq!(crate::by_hand::fail(&mut client, &first, "transient", "the connection was cut"), "retrying");
    let again = next(&mut client);
    let sent = messages(&mut client, &again);
    assert_eq!((sent.len(), said(&sent[turn.len()])), (turn.len() + 2, TEXT[0]));
    assert_eq!(finish(&mut client, &again, TEXT[1], "stop"), "completed");
    assert_eq!(document(&mut client, session), (TEXT.concat(), true));
    assert_eq!(ends(&mut client, session), ["1 error", "2 stop"]);
    finish_up(&mut client);
    assert_sound(&mut client);
}

#[test]
fn what_is_saved_of_a_prompt_that_goes_on_is_the_directive_and_not_the_text_so_far() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let long: String = (0..2000).map(|n| format!("Well number {n} is dry. ")).collect();
    let (_, first) = text_by_hand(&mut client);
    let interrupted = dies(&mut client, &first, &[&long]);
    let sent = messages(&mut client, &interrupted);
    assert_eq!(said(&sent[sent.len() - 2]).trim_end(), long.trim_end(), "all of it is sent");
    assert_eq!(finish(&mut client, &interrupted, "And so on, ", "length"), "completed");
    let further = next(&mut client);
    let sent = messages(&mut client, &further);
    assert!(said(&sent[sent.len() - 2]).len() >= long.len());
    assert_eq!(prompt(&mut client, further.job), sent);
    for job in [first.job, further.job] {
        let saved = saved(&mut client, job);
        let (_, directive) = saved.iter().find(|(kind, _)| kind == "continuation_prompt").expect("a directive");
        assert!(directive.len() < 4000, "{} characters are saved", directive.len());
        assert!(!directive.contains("Well number 7 is dry"), "{directive}");
    }
}

#[test]
fn what_a_worker_outside_hands_in_as_broken_off_is_gone_on_from() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    let (session, first) = text_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, TEXT[0], "error"), "retrying");
    let again = next(&mut client);
    let sent = messages(&mut client, &again);
    assert_eq!(said(&sent[sent.len() - 2]), TEXT[0]);
    assert_eq!(finish(&mut client, &again, TEXT[1], "stop"), "completed");
    assert_eq!(ends(&mut client, session), ["1 error", "2 stop"]);
    assert_eq!(document(&mut client, session), (TEXT.concat(), true));
    finish_up(&mut client);
    assert_sound(&mut client);
}
