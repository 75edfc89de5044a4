//! Plain texts: an essay whose answers are cut off again and again is, document by document, the essay of the same models uncut;
//! and whoever reads a text reads all of it.

use super::*;
use crate::by_hand::session_status;

const MODELS: [&str; 2] = ["writer", "reader"];
const TURN: &str = "select content from dialectic.resources where job_id = $1 and resource_type = 'turn_prompt'";

/// Runs the essay to its end with models that stop after so many tokens.
fn run(client: &mut Client, cut: [Option<u32>; 2]) -> Uuid {
    for (name, cut) in MODELS.iter().zip(cut) {
        model(client, name, &cut.map_or(json!({}), |tokens| json!({"cut_after_tokens": tokens})));
    }
    let session: Uuid = one(
        client,
        "select dialectic.run('Should wells be dug by hand?', models => $1, process => 'essay')",
        &[&&MODELS[..]],
    );
    work(client);
    assert_eq!(session_status(client, session), "completed");
    session
}

/// Every document, with what tells it apart.
fn texts(client: &mut Client, session: Uuid) -> Vec<String> {
    column(
        client,
        "select concat_ws(' ', stage, model, document_key, complete, content) from dialectic.documents where session_id = $1 order by 1",
        &[&session],
    )
}

#[test]
fn an_essay_that_is_cut_off_again_and_again_is_the_essay_that_was_not() {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 100);
    let uncut = run(&mut client, [None, None]);
    let cut = run(&mut client, [Some(40), Some(70)]);
    assert_eq!(texts(&mut client, uncut).len(), 2 + 4 + 2);
    assert_eq!(texts(&mut client, cut), texts(&mut client, uncut));

    let long: Vec<String> = column(
        &mut client,
        "select distinct model from dialectic.contributions where session_id = $1 and chunk_no >= 3 order by 1",
        &[&cut],
    );
    assert_eq!(long, ["reader", "writer"], "both were cut off more than once");
    let odd: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', c.model, c.chunk_no, c.finish_reason, c.output_tokens) from dialectic.contributions c \
         where c.session_id = $1 and (c.output_tokens > case c.model when 'writer' then 40 else 70 end \
            or (c.finish_reason = 'stop') <> (c.chunk_no = (select max(o.chunk_no) from dialectic.contributions o where o.root_id = c.root_id)))",
        &[&cut],
    );
    assert!(odd.is_empty(), "every chunk but the last was cut off: {odd:?}");
    let gaps: Vec<String> = column(
        &mut client,
        "select format('%s: %s', root_id, array_agg(chunk_no order by chunk_no)) from dialectic.contributions where session_id = $1 \
         group by root_id having max(chunk_no) <> count(*) or count(distinct chunk_no) <> count(*)",
        &[&cut],
    );
    assert!(gaps.is_empty(), "{gaps:?}");
    assert_sound(&mut client);
}

/// What each prompt of a session says, its messages one behind another.
fn prompts(client: &mut Client, session: Uuid) -> Vec<String> {
    let saved: Vec<String> = column(
        client,
        "select content from dialectic.resources where session_id = $1 and resource_type = 'turn_prompt'",
        &[&session],
    );
    saved
        .iter()
        .map(|prompt| serde_json::from_str::<Vec<Value>>(prompt).expect("messages").iter().map(said).collect())
        .collect()
}

#[test]
fn whoever_reads_a_text_reads_all_of_it_and_not_its_first_chunk() {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 100);
    let session = run(&mut client, [Some(40), None]);
    let prompts = prompts(&mut client, session);
    assert_eq!(prompts.len(), 2 + 4 + 8 + 4 + 2);
    // The simulator neither repeats itself nor leaves a gap, so its text is its chunks one behind another.
    let chains = client
        .query(
            "select step_key, (array_agg(content order by chunk_no))[1], string_agg(content, '' order by chunk_no) \
             from dialectic.contributions where session_id = $1 group by root_id, step_key having count(*) > 1",
            &[&session],
        )
        .expect("chains");
    let mut read = std::collections::BTreeMap::new();
    for chain in &chains {
        let (step, first, whole): (String, String, String) = (chain.get(0), chain.get(1), chain.get(2));
        let readers: Vec<&String> = prompts.iter().filter(|prompt| prompt.contains(first.trim())).collect();
        assert!(readers.iter().all(|prompt| prompt.contains(whole.trim())), "{step} was read in part: {first}");
        *read.entry(step).or_insert(0) += readers.len();
    }
    // A thesis is read by two critiques and by two pairs of each of two models; what comes of it by fewer; the end by nobody.
    assert_eq!(
        read.into_iter().collect::<Vec<_>>(),
        [("critique", 2 * 2), ("final", 0), ("pairwise", 4 * 2), ("reduce", 2 * 2), ("thesis", 2 + 2 * 2)]
            .map(|(step, readers)| (step.to_owned(), readers))
    );
    assert_sound(&mut client);
}

#[test]
fn a_continuation_sends_the_turn_byte_for_byte_then_the_text_so_far_then_a_directive() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    let turn = messages(&mut client, &first);
    let saved: String = one(&mut client, TURN, &[&first.job]);
    assert_eq!(finish(&mut client, &first, TEXT[0], "length"), "completed");
    assert_eq!(calling_jobs(&mut client, session), ["0 completed", "1 pending_continuation"]);
    assert_eq!(continue_reason(&mut client, session), "cut");

    let second = next(&mut client);
    let sent = messages(&mut client, &second);
    assert_eq!(sent[..turn.len()], turn[..], "the provider has it in its cache");
    assert_eq!(roles(&sent[turn.len()..]), ["assistant", "user"]);
    assert_eq!(said(&sent[turn.len()]), TEXT[0]);
    assert!(!said(&sent[turn.len() + 1]).trim().is_empty());
    assert_eq!(finish(&mut client, &second, TEXT[1], "stop"), "completed");
    assert_eq!(ends(&mut client, session), ["1 length", "2 stop"]);
    assert_eq!(document(&mut client, session), (TEXT.concat(), true));
    let again: String = one(&mut client, TURN, &[&first.job]);
    assert_eq!(again, saved);
    finish_up(&mut client);
    assert_sound(&mut client);
}

#[test]
fn a_repeated_tail_is_read_once() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, first) = text_by_hand(&mut client);
    assert_eq!(say(&mut client, &first, "Rain fell on the old stone bridge", "length"), "completed");
    let second = next(&mut client);
    let rest = "Here is the rest of the text:\n\non the old stone bridge all night.";
    assert_eq!(say(&mut client, &second, rest, "stop"), "completed");
    assert_eq!(document(&mut client, session), ("Rain fell on the old stone bridge all night.".to_owned(), true));
    assert_eq!(chunks(&mut client, session)[1].2, rest, "the answer is kept as it was given");
    finish_up(&mut client);
    assert_sound(&mut client);
}
