//! A document much longer than any answer: it arrives whole, takes little time and memory of our own, and little more room than it
//! needs.

use crate::ground::*;
use crate::writing::*;
use dialectic_tests::fake_provider::{Act, Author, Provider};
use dialectic_tests::*;
use postgres::Client;
use serde_json::Value;
use std::time::Instant;

/// The size of the document and of an answer, in characters.
const SIZE: usize = 300_000;
const ANSWER: usize = 7_500;
/// How much longer forty answers may take than one, beside what the provider takes: every answer is read with all before it.
const AT_MOST: u32 = 400;

/// How much more memory the work may need at its height than that of a short document.
const MEMORY_KB: i64 = 128 * 1024;

/// The most memory that the process of this connection ever had, in kilobytes.
fn memory(client: &mut Client) -> i64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid(client))).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// How large all tables are with all that belongs to them, and how much was ever written ahead.
fn storage(client: &mut Client) -> (i64, i64) {
    let row = client
        .query_one(
            "select sum(pg_total_relation_size(c.oid))::bigint, (pg_current_wal_insert_lsn() - '0/0')::bigint from pg_class c \
             where c.relnamespace = 'dialectic'::regnamespace and c.relkind = 'r'",
            &[],
        )
        .expect("sizes");
    (row.get(0), row.get(1))
}

/// Has the model write a document of this text over a project, after a short one so that no table is new; returns the session.
fn written(client: &mut Client, provider: &Provider, project: Uuid, short: &str, whole: &str, what: &str) -> Uuid {
    configure(client, "max_continuations", "60");
    provide(client, "long", "openai", provider, "");
    model(client, "long", "long", ", context_window => 1000000");
    let author = |text: &str| Act::author(Author::of(text).at_most(ANSWER).in_strides(200));
    provider.script("long", vec![author(short)]);
    let (spent, begun) = (provider.spent(), Instant::now());
    begin(client, project, "long");
    work(client);
    let own_of_one = begun.elapsed().saturating_sub(provider.spent() - spent);
    provider.script("long", vec![author(whole)]);
    let (before, slim) = (storage(client), memory(client));
    let (spent, asked) = (provider.spent(), provider.request_count());
    let begun = Instant::now();
    let session = begin(client, project, "long");
    work(client);
    let own = begun.elapsed().saturating_sub(provider.spent() - spent);
    let after = storage(client);
    let (stored, logged, grown) = (after.0 - before.0, after.1 - before.1, memory(client) - slim);
    // The tables compress what they hold: so much text is in them for this document.
    let held: i64 = one(
        client,
        "select sum(octet_length(content))::bigint from (select session_id, content from dialectic.contributions \
         union all select session_id, content from dialectic.resources) as text where session_id = $1",
        &[&session],
    );
    println!(
        "{what} of {} bytes in {} answers: {own:?} of our own after {own_of_one:?} for one answer, {stored} bytes stored ({:.2} times) for {held} of text, {logged} logged, {grown} kB of memory",
        whole.len(),
        provider.request_count() - asked,
        stored as f64 / whole.len() as f64
    );
    assert!(own < AT_MOST * own_of_one, "{own:?}, and {own_of_one:?} for one answer");
    assert!(grown < MEMORY_KB, "{grown} kB");
    assert!(stored <= 3 * whole.len() as i64, "{stored} bytes for {}", whole.len());
    assert_eq!(provider.request_count() - asked, 40, "answers");
    session
}

/// The chain has a chunk for each answer, each by a continuation of its own.
fn assert_chain(client: &mut Client, session: Uuid) {
    let expected: Vec<String> = (0..40)
        .map(|number| format!("{} {} {number}", number + 1, if number < 39 { "length" } else { "stop" }))
        .collect();
    assert_eq!(chunks(client, session), expected);
    assert_sound(client);
}

#[test]
fn a_json_document_of_300_kb_in_forty_answers_arrives_whole_soon_and_small() {
    let (provider, database) = (Provider::start(), Database::by_hand());
    let mut client = database.connect();
    process(&mut client);
    paper_process(&mut client);
    let step = (paper(1001).to_string().chars().count() - paper(1).to_string().chars().count()) / 1000;
    let short = paper(3).to_string();
    let paper = paper((SIZE - ANSWER / 2) / step);
    let whole = paper.to_string();
    let project = paper_project(&mut client);
    let session = written(&mut client, &provider, project, &short, &whole, "JSON");
    assert_eq!(serde_json::from_str::<Value>(&assembled(&mut client, session)).expect("JSON"), paper);
    let document = document(&mut client, session);
    for step in paper["steps"].as_array().expect("a list") {
        let title = step["title"].as_str().expect("a text");
        assert!(document.contains(title), "{title}");
    }
    assert_chain(&mut client, session);
}

#[test]
fn a_text_of_300_kb_in_forty_answers_arrives_whole_soon_and_small() {
    let (provider, database) = (Provider::start(), Database::by_hand());
    let mut client = database.connect();
    process(&mut client);
    let whole = prose(SIZE - ANSWER / 2);
    let project = project(&mut client, 1);
    let session = written(&mut client, &provider, project, &prose(500), &whole, "Markdown");
    assert_eq!(document(&mut client, session), whole);
    assert_chain(&mut client, session);
}
