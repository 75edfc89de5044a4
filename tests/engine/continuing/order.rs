//! The order of things: a continuation is there before what it continues is done, in the same transaction and once, however often
//! an answer comes; and a chain with a gap is an error that names the gap.

use super::*;
use crate::by_hand::{fan_project, moves, plan_roots, record_moves, status};

/// A text that is claimed to be written, its root, and a record of every move from here on.
fn begun(client: &mut Client) -> (Uuid, Uuid, Claim) {
    let project = fan_project(client, 1);
    let session = crate::by_hand::begin(client, project, &["sim-a"]);
    let root = plan_roots(client, 1, "waiting_for_children")[0].job;
    let leaf = next(client);
    record_moves(client);
    (session, root, leaf)
}

#[test]
fn a_continuation_and_the_end_of_its_predecessor_are_seen_together() {
    let database = Database::by_hand();
    let (mut client, mut other) = (database.connect(), database.connect());
    let (session, root, first) = begun(&mut client);
    request(&mut client, &first);
    client.batch_execute("begin").expect("begin");
    assert_eq!(finish(&mut client, &first, TEXT[0], "length"), "completed");
    assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 pending_continuation"]);
    assert_eq!(calling_jobs(&mut other, session), ["0 processing"], "nobody else sees either");
    assert!(chunks(&mut other, session).is_empty());
    client.batch_execute("commit").expect("commit");
    assert_eq!(calling_jobs(&mut other, session), ["0 completed", "1 pending_continuation"]);
    assert_eq!(status(&mut other, root), "waiting_for_children");
    assert!(moves(&mut client, root).is_empty(), "the parent was woken too early");

    let second = next(&mut client);
    let family = "select (parent_job_id, stage_run_id, step_key, group_key, model, document_key)::text from dialectic.jobs where id = $1";
    assert_eq!(one::<String>(&mut client, family, &[&second.job]), one::<String>(&mut client, family, &[&first.job]));
    assert_eq!(say(&mut client, &second, TEXT[1], "stop"), "completed");
    assert_eq!(moves(&mut client, root), ["pending_next_step"], "and then once");
    finish_up(&mut client);
    assert_eq!(document(&mut client, session), (TEXT.concat(), true));
    assert_sound(&mut client);
}

#[test]
fn a_continuation_that_is_rolled_back_leaves_nothing_behind() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, root, first) = begun(&mut client);
    request(&mut client, &first);
    let before = mark(&mut client);
    client.batch_execute("begin").expect("begin");
    assert_eq!(finish(&mut client, &first, TEXT[0], "length"), "completed");
    client.batch_execute("rollback").expect("rollback");
    assert_eq!(mark(&mut client), before);
    assert_eq!(finish(&mut client, &first, TEXT[0], "length"), "completed");
    assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 pending_continuation"]);
    assert_eq!(status(&mut client, root), "waiting_for_children");
    assert_sound(&mut client);
}

#[test]
fn a_continuation_is_inserted_before_its_predecessor_completes() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (_, _, first) = begun(&mut client);
    client
        .batch_execute(
            "create table public.followers (job uuid, waiting bigint); \
             create function public.count_followers() returns trigger language plpgsql as $$ begin \
                 insert into public.followers select new.id, count(*) from dialectic.jobs c \
                 where c.parent_job_id = new.parent_job_id and c.status = 'pending_continuation'; \
                 return null; end $$; \
             create trigger count_followers after update on dialectic.jobs for each row \
                 when (new.status = 'completed' and new.kind = 'execute') execute function public.count_followers()",
        )
        .expect("a look at the moment of completion");
    assert_eq!(say(&mut client, &first, TEXT[0], "length"), "completed");
    let waiting: i64 = one(&mut client, "select waiting from public.followers where job = $1", &[&first.job]);
    assert_eq!(waiting, 1);
}

#[test]
fn an_answer_that_comes_twice_is_kept_continued_and_charged_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    client
        .execute("select dialectic.add_model('sim-a', 'simulator', input_price => 2, output_price => 5)", &[])
        .expect("add_model");
    let (session, first) = text_by_hand(&mut client);
    let complete = "select dialectic.complete_job($1, $2, $3, $4, $5)";
    let usage = |output: i64| json!({"input_tokens": 100, "output_tokens": output});
    let mut charged = Vec::new();
    let mut job = first;
    for (text, finish_reason, status) in [(TEXT[0], "length", "completed"), (TEXT[1], "stop", "completed")] {
        request(&mut client, &job);
        let values = (job.job, job.claim);
        assert_eq!(
            one::<String>(&mut client, complete, &[&values.0, &values.1, &text, &finish_reason, &usage(10)]),
            status
        );
        let before = mark(&mut client);
        for (again, output) in [(text, 10), ("Something else.", 99)] {
            assert_eq!(
                one::<String>(&mut client, complete, &[&values.0, &values.1, &again, &finish_reason, &usage(output)]),
                "stale"
            );
        }
        assert_eq!(mark(&mut client), before, "a replay changes nothing");
        charged.push(100 * 2 + 10 * 5);
        let cost: i64 =
            one(&mut client, "select sum(cost)::bigint from dialectic.model_calls where session_id = $1", &[&session]);
        assert_eq!(cost, charged.iter().sum::<i64>());
        if finish_reason == "length" {
            assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 pending_continuation"]);
            job = next(&mut client);
        }
    }
    assert_eq!(ends(&mut client, session), ["1 length", "2 stop"]);
    assert_eq!(calls(&mut client, session), 2);
    assert_eq!(document(&mut client, session), (TEXT.concat(), true));
    finish_up(&mut client);
    assert_sound(&mut client);
}

/// A chain of two chunks with a third on its way, and then without its second; the root of the chain.
fn with_a_gap(client: &mut Client) -> (Uuid, Uuid) {
    let (session, first) = text_by_hand(client);
    for (claim, text) in [(Some(first), "One and "), (None, "two and ")] {
        let claim = claim.unwrap_or_else(|| next(client));
        assert_eq!(say(client, &claim, text, "length"), "completed");
    }
    let root: Uuid = one(client, "select distinct root_id from dialectic.contributions", &[]);
    assert_eq!(client.execute("delete from dialectic.contributions where chunk_no = 2", &[]).expect("superuser"), 1);
    (session, root)
}

#[test]
fn a_chain_with_a_gap_fails_its_job_and_the_missing_chunk_is_named() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, root) = with_a_gap(&mut client);
    work(&mut client);
    let row = client
        .query_one(
            "select status, error_details ->> 'message' from dialectic.jobs where session_id = $1 and continuation_count = 2",
            &[&session],
        )
        .expect("the job that goes on");
    let (status, message): (String, Option<String>) = (row.get(0), row.get(1));
    assert_eq!(status, "failed", "{message:?}");
    let message = message.expect("a message");
    assert!(message.contains(&format!("chunk 2 of contribution {root}")), "{message}");
    assert_eq!(calls(&mut client, session), 2, "nobody was asked");
}

#[test]
fn a_request_over_a_gap_is_refused_with_the_missing_chunk_named() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, root) = with_a_gap(&mut client);
    let third = next(&mut client);
    let named = format!("chunk 2 of contribution {root}");
    refused_with(&mut client, "select dialectic.job_request($1)", &[&third.job], "55000", &named);
    assert_eq!(calls(&mut client, session), 2);
}

#[test]
fn an_answer_over_a_gap_is_refused_with_the_missing_chunk_named_and_nothing_changes() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, TEXT[0], "length"), "completed");
    let second = next(&mut client);
    assert_eq!(say(&mut client, &second, " and so on", "length"), "completed");
    let third = next(&mut client);
    request(&mut client, &third);
    client
        .execute("delete from dialectic.contributions where session_id = $1 and chunk_no = 2", &[&session])
        .expect("a chunk is lost");
    refused_with(
        &mut client,
        "select dialectic.complete_job($1, $2, 'The end.')",
        &[&third.job, &third.claim],
        "XX001",
        "chunk 2 of contribution",
    );
    assert_eq!(crate::by_hand::status(&mut client, third.job), "processing", "the answer can be handed in again");
}
