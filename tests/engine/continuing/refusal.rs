//! A refusal is never continued: it is final, it is called for once, and whatever was written before it does not make it an answer.

use super::*;
use crate::by_hand::{session_status, status};

#[test]
fn a_model_that_refuses_is_called_once_and_its_words_are_no_document() {
    let database = Database::new();
    let mut client = database.connect();
    notes(&mut client);
    model(&mut client, "prim", &json!({"refuse": true}));
    for (process, jobs) in [("essay", 1), ("notes", 2)] {
        let session = begin(&mut client, process, &["prim"], 0);
        work(&mut client);
        assert_eq!(session_status(&mut client, session), "failed", "{process}");
        let answered: Vec<String> = column(
            &mut client,
            "select concat_ws(' ', j.step_key, j.continuation_count, count(*), max(c.finish_reason)) from dialectic.model_calls c \
             join dialectic.jobs j on j.id = c.job_id where c.session_id = $1 group by j.id order by 1",
            &[&session],
        );
        assert!(!answered.is_empty() && answered.len() <= jobs, "{answered:?}");
        assert!(answered.iter().all(|call| call.ends_with(" 0 1 content_filter")), "{answered:?}");
        let failed: Vec<String> = column(
            &mut client,
            "select distinct concat_ws(' ', status, attempt_count) from dialectic.jobs \
             where session_id = $1 and kind = 'execute' and status <> 'cancelled'",
            &[&session],
        );
        assert_eq!(failed, ["failed 1"]);
        for table in ["documents", "contributions"] {
            let kept = format!("select count(*) from dialectic.{table} where session_id = $1");
            assert_eq!(one::<i64>(&mut client, &kept, &[&session]), 0, "{process}: {table}");
        }
    }
    assert_sound(&mut client);
}

/// A chain whose second answer is a refusal with these words.
fn refused_halfway(begin: fn(&mut Client) -> (Uuid, Claim), beginning: &str, refusal: &str) {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = begin(&mut client);
    assert_eq!(say(&mut client, &first, beginning, "length"), "completed");
    let second = next(&mut client);
    assert_eq!(say(&mut client, &second, refusal, "content_filter"), "failed");
    assert_nothing_is_due(&mut client);
    assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 failed"]);
    assert_eq!(calls(&mut client, session), 2);
    assert_eq!(ends(&mut client, session), ["1 length"], "the refusal is no chunk");
    let attempts: i32 = one(&mut client, "select attempt_count from dialectic.jobs where id = $1", &[&second.job]);
    assert_eq!(attempts, 1);
    let root: Uuid = one(&mut client, "select parent_job_id from dialectic.jobs where id = $1", &[&second.job]);
    assert_eq!(status(&mut client, root), "failed");
    assert_eq!(session_status(&mut client, session), "failed");
    let whole: i64 =
        one(&mut client, "select count(*) from dialectic.documents where session_id = $1 and complete", &[&session]);
    assert_eq!(whole, 0, "half an answer is not shown as a whole one");
    assert_sound(&mut client);
}

#[test]
fn a_refusal_halfway_ends_a_text() {
    refused_halfway(text_by_hand, TEXT[0], "I cannot go on with this.");
    refused_halfway(text_by_hand, TEXT[0], TEXT[1]);
    refused_halfway(text_by_hand, TEXT[0], "");
}

#[test]
fn a_refusal_halfway_ends_json() {
    refused_halfway(note_by_hand, NOTE[0], "I cannot go on with this.");
    refused_halfway(note_by_hand, NOTE[0], NOTE[1]);
}

#[test]
fn a_refusal_that_looks_like_an_answer_is_none() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = note_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, &NOTE.concat(), "content_filter"), "failed");
    assert_nothing_is_due(&mut client);
    assert_eq!(calling_jobs(&mut client, session), ["0 failed"]);
    assert_eq!(calls(&mut client, session), 1);
    assert_sound(&mut client);
}
