//! What people do with chains: cancel them, try again what failed of them, and have a document of several chunks written anew.

use super::*;
use crate::by_hand::{fail, session_status, status};

#[test]
fn a_continuation_that_failed_is_tried_again_from_its_chain() {
    for by_job in [false, true] {
        let database = Database::by_hand();
        let mut client = database.connect();
        let (session, first) = text_by_hand(&mut client);
        assert_eq!(say(&mut client, &first, TEXT[0], "length"), "completed");
        let second = next(&mut client);
        let sent = messages(&mut client, &second);
        assert_eq!(fail(&mut client, &second, "permanent", "the model is gone"), "failed");
        assert_eq!(session_status(&mut client, session), "failed");
        assert_sound(&mut client);

        let target = if by_job { second.job } else { session };
        assert_eq!(one::<i32>(&mut client, "select dialectic.retry($1)", &[&target]), 2, "it and its plan");
        assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 pending_continuation"]);
        assert_sound(&mut client);
        let again = next(&mut client);
        assert_eq!(again.job, second.job);
        assert_eq!(messages(&mut client, &again), sent);
        assert_eq!(finish(&mut client, &again, TEXT[1], "stop"), "completed");
        finish_up(&mut client);
        assert_eq!(ends(&mut client, session), ["1 length", "2 stop"]);
        assert_eq!(document(&mut client, session), (TEXT.concat(), true));
        assert_sound(&mut client);
    }
}

#[test]
fn a_continuation_that_fails_for_a_while_is_tried_again_from_its_chain() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client.execute("select dialectic.set_config('retry_base_seconds', '0')", &[]).expect("set_config");
    let (session, first) = text_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, TEXT[0], "length"), "completed");
    let second = next(&mut client);
    let sent = messages(&mut client, &second);
    assert_eq!(fail(&mut client, &second, "transient", "a hiccup"), "retrying");
    let again = next(&mut client);
    assert_eq!((again.job, messages(&mut client, &again)), (second.job, sent));
    assert_eq!(finish(&mut client, &again, TEXT[1], "stop"), "completed");
    assert_eq!(document(&mut client, session), (TEXT.concat(), true));
    let attempts = "select attempt_count from dialectic.jobs where session_id = $1 and kind = 'execute' order by continuation_count";
    assert_eq!(column::<i32>(&mut client, attempts, &[&session]), [1, 2]);
    finish_up(&mut client);
    assert_sound(&mut client);
}

#[test]
fn a_chain_that_is_cancelled_asks_nobody_until_it_is_brought_back() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = note_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, NOTE[0], "length"), "completed");
    assert_eq!(one::<i32>(&mut client, "select dialectic.cancel($1)", &[&session]), 2, "it and its plan");
    assert_nothing_is_due(&mut client);
    assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 cancelled"]);
    let shown = "select count(*) from dialectic.documents where session_id = $1 and complete";
    assert_eq!(one::<i64>(&mut client, shown, &[&session]), 0);
    assert_sound(&mut client);
    one::<i32>(&mut client, "select dialectic.retry($1)", &[&session]);
    let second = next(&mut client);
    assert_eq!(say(&mut client, &second, NOTE[1], "stop"), "completed");
    finish_up(&mut client);
    assert!(document(&mut client, session).1);
    assert_eq!(calls(&mut client, session), 2);
    assert_eq!(session_status(&mut client, session), "completed");
    assert_sound(&mut client);
}

#[test]
fn an_answer_that_comes_after_its_continuation_was_cancelled_changes_nothing() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, TEXT[0], "length"), "completed");
    let second = next(&mut client);
    request(&mut client, &second);
    one::<i32>(&mut client, "select dialectic.cancel($1)", &[&session]);
    assert_eq!(finish(&mut client, &second, TEXT[1], "length"), "stale");
    assert_eq!(status(&mut client, second.job), "cancelled");
    assert_eq!(ends(&mut client, session), ["1 length"]);
    assert_eq!(calling_jobs(&mut client, session).len(), 2);
    assert_sound(&mut client);
}

/// The version of the one document of a session, what it says and whether it is complete.
fn shown(client: &mut Client, session: Uuid) -> (i32, String, bool) {
    let row = client
        .query_one("select version, content, complete from dialectic.documents where session_id = $1", &[&session])
        .expect("one document");
    (row.get(0), body(row.get(1)).to_owned(), row.get(2))
}

#[test]
fn a_document_of_several_chunks_is_written_anew_as_a_whole() {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 100);
    notes(&mut client);
    model(&mut client, "curt", &json!({"cut_after_tokens": 50}));
    let note = begin(&mut client, "notes", &["curt"], 0);
    let essay = generated(&mut client, &["curt"]);
    work(&mut client);
    for (session, key) in [(note, "note"), (essay, "thesis")] {
        let (version, first, is_complete) = shown(&mut client, session);
        assert!(version == 1 && is_complete, "{key}");
        one::<Uuid>(&mut client, "select dialectic.regenerate($1, $2, 'curt')", &[&session, &key]);
        work(&mut client);
        assert_eq!(shown(&mut client, session), (2, first, true), "the same question has the same answer");
        let versions: Vec<String> = column(
            &mut client,
            "select distinct concat_ws(' ', version, status) from dialectic.jobs \
             where session_id = $1 and kind in ('execute', 'render') and step_key = $2 order by 1",
            &[&session, &key],
        );
        assert_eq!(versions, ["1 superseded", "2 completed"], "all chunks of the old one are superseded");
        let lengths: Vec<i64> = column(
            &mut client,
            "select count(*) from dialectic.contributions where session_id = $1 and step_key = $2 group by root_id",
            &[&session, &key],
        );
        assert!(lengths.len() == 2 && lengths[0] == lengths[1] && lengths[0] >= 3, "{lengths:?}");
    }
    assert_sound(&mut client);
}

#[test]
fn the_old_version_stands_until_the_last_chunk_of_the_new_one() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, "The old text.", "stop"), "completed");
    finish_up(&mut client);
    let job: Uuid = one(&mut client, "select dialectic.regenerate($1, 'thesis', 'sim-a')", &[&session]);
    let old = (1, "The old text.".to_owned(), true);
    let anew = next(&mut client);
    assert_eq!(anew.job, job);
    assert_eq!(say(&mut client, &anew, TEXT[0], "length"), "completed");
    assert_eq!(shown(&mut client, session), old, "half of the new one is there");
    refused_with(
        &mut client,
        "select dialectic.regenerate($1, 'thesis', 'sim-a')",
        &[&session],
        "55006",
        "being written",
    );
    let further = next(&mut client);
    assert_eq!(say(&mut client, &further, TEXT[1], "stop"), "completed");
    finish_up(&mut client);
    assert_eq!(shown(&mut client, session), (2, TEXT.concat().trim().to_owned(), true));
    assert_sound(&mut client);
}

#[test]
fn a_new_version_that_fails_halfway_changes_nothing() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, "The old text.", "stop"), "completed");
    finish_up(&mut client);
    one::<Uuid>(&mut client, "select dialectic.regenerate($1, 'thesis', 'sim-a')", &[&session]);
    let anew = next(&mut client);
    assert_eq!(say(&mut client, &anew, TEXT[0], "length"), "completed");
    let further = next(&mut client);
    assert_eq!(say(&mut client, &further, "I cannot go on.", "content_filter"), "failed");
    assert_nothing_is_due(&mut client);
    assert_eq!(shown(&mut client, session), (1, "The old text.".to_owned(), true));
    assert_sound(&mut client);
}
