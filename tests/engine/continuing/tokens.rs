//! Tokens and money of a chain: every chunk counts what its own call reports, in tokens and never in characters, and the document
//! took what all its calls took together.

use super::*;
use crate::rendering::head;
use dialectic_core::provider::simulator;

/// A model with prices that stops after so many tokens.
fn priced(client: &mut Client, cut: u32) {
    client
        .execute(
            "select dialectic.add_model('priced', 'simulator', input_price => 3, output_price => 7, settings => $1)",
            &[&json!({"cut_after_tokens": cut})],
        )
        .expect("add_model");
}

#[test]
fn every_chunk_has_the_tokens_of_its_own_call() {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 100);
    priced(&mut client, 50);
    let session = generated(&mut client, &["priced"]);
    work(&mut client);
    let chunks = client
        .query(
            "select c.job_id, c.content, c.input_tokens, c.output_tokens, m.input_tokens, m.output_tokens, m.cost \
             from dialectic.contributions c join dialectic.model_calls m on m.job_id = c.job_id \
             where c.session_id = $1 order by c.chunk_no",
            &[&session],
        )
        .expect("chunks");
    assert!(chunks.len() >= 3, "{}", chunks.len());
    let mut before = 0;
    for chunk in &chunks {
        let (job, content): (Uuid, String) = (chunk.get(0), chunk.get(1));
        let (input, output): (i64, i64) = (chunk.get(2), chunk.get(3));
        let sent: u64 = prompt(&mut client, job).iter().map(|message| simulator::tokens(said(message))).sum();
        assert_eq!((input as u64, output as u64), (sent, simulator::tokens(&content)));
        assert_ne!(output as usize, content.len(), "characters are no tokens");
        assert_eq!((input, output), (chunk.get(4), chunk.get(5)), "the chunk and its call agree");
        assert_eq!(chunk.get::<_, i64>(6), 3 * input + 7 * output);
        assert!(input > before, "what was said before is read again");
        before = input;
    }
    assert_sound(&mut client);
}

#[test]
fn a_document_took_what_all_its_calls_took() {
    let database = Database::new();
    let mut client = database.connect();
    configure(&mut client, "max_continuations", 100);
    notes(&mut client);
    priced(&mut client, 50);
    let session = begin(&mut client, "notes", &["priced"], 0);
    work(&mut client);
    let row = client
        .query_one(
            "select count(*), sum(m.input_tokens + m.output_tokens)::bigint, (sum(m.cost) / 1000000.0)::double precision \
             from dialectic.model_calls m join dialectic.jobs j on j.id = m.job_id where m.session_id = $1 and j.step_key = 'note'",
            &[&session],
        )
        .expect("calls");
    let (calls, tokens, cost): (i64, i64, f64) = (row.get(0), row.get(1), row.get(2));
    assert!(calls >= 3, "{calls}");
    let shown = client
        .query_one(
            "select content, tokens, cost::double precision from dialectic.documents where session_id = $1",
            &[&session],
        )
        .expect("the document");
    assert_eq!(shown.get::<_, i64>(1), tokens);
    assert!((shown.get::<_, f64>(2) - cost).abs() < 1e-9, "{cost}");
    let head = head(shown.get(0));
    let of = |key: &str| head.iter().find(|(known, _)| known == key).and_then(|(_, value)| value.as_f64());
    assert_eq!(of("tokens"), Some(tokens as f64));
    assert!((of("cost").expect("a cost") - cost).abs() < 1e-9, "{cost}");
    assert_sound(&mut client);
}

#[test]
fn what_a_model_reports_counts_whatever_the_length_of_its_text() {
    let database = Database::by_hand();
    let mut client = database.connect();
    let (session, mut job) = note_by_hand(&mut client);
    for (text, finish_reason, input, output) in [(NOTE[0], "length", 1000, 4000), (NOTE[1], "stop", 1200, 5)] {
        request(&mut client, &job);
        let usage = json!({"input_tokens": input, "output_tokens": output, "cached_tokens": 900});
        let done: String = one(
            &mut client,
            "select dialectic.complete_job($1, $2, $3, $4, $5)",
            &[&job.job, &job.claim, &text, &finish_reason, &usage],
        );
        assert_eq!(done, "completed");
        job = next(&mut client);
    }
    assert_eq!(job.kind, "render");
    one::<String>(&mut client, "select dialectic.complete_job($1, $2)", &[&job.job, &job.claim]);
    finish_up(&mut client);
    let counted: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', input_tokens, output_tokens, cached_tokens) from dialectic.contributions where session_id = $1 order by chunk_no",
        &[&session],
    );
    assert_eq!(counted, ["1000 4000 900", "1200 5 900"]);
    let took: i64 = one(&mut client, "select tokens from dialectic.documents where session_id = $1", &[&session]);
    assert_eq!(took, 1000 + 4000 + 1200 + 5);
    assert_sound(&mut client);
}
