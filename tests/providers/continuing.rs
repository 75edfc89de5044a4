//! Answers cut off for want of tokens: in every dialect, however the model goes on, the chunks become the document that the model
//! would have written in one piece.

use crate::ground::*;
use crate::writing::*;
use dialectic_core::provider::dialect::Dialect;
use dialectic_tests::fake_provider::{Act, Again, Author, Provider};
use dialectic_tests::*;
use serde_json::Value;

/// The ways to go on that are tried, each with a name.
fn manners(whole: &str) -> [(&'static str, Author); 6] {
    let author = || Author::of(whole);
    [
        ("onward", author()),
        ("repeating", author().repeating(60)),
        ("talking", author().led_in("Here is the rest:\n\n")),
        ("fenced", author().repeating(30).fenced()),
        ("afresh", author().afresh(Again::Whole)),
        ("lacking", author().afresh(Again::Lacking)),
    ]
}

#[test]
fn a_json_document_cut_twice_is_the_uncut_one_in_every_dialect_however_the_model_goes_on() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    paper_process(&mut client);
    let paper = paper(24);
    let whole = paper.to_string();
    // Two fifths at a time: three answers, also where some of it comes twice.
    let most = whole.chars().count() * 2 / 5;
    let mut cells = Vec::new();
    for dialect in Dialect::ALL {
        for (manner, author) in manners(&whole) {
            let name = speaker(&mut client, &provider, dialect, manner, "");
            provider.script(&name, vec![Act::author(author.at_most(most))]);
            cells.push((manner, name));
        }
        let name = speaker(&mut client, &provider, dialect, "uncut", "");
        provider.script(&name, vec![Act::author(Author::of(&whole))]);
        cells.push(("uncut", name));
    }
    let project = paper_project(&mut client);
    let names: Vec<String> = cells.iter().map(|(_, name)| name.clone()).collect();
    let sessions = begin_all(&mut client, project, &names);
    work(&mut client);

    let uncut = sessions[manners("").len()];
    let (json, text) = (assembled(&mut client, uncut), document(&mut client, uncut));
    assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON"), paper);
    for ((manner, name), session) in cells.into_iter().zip(sessions) {
        assert!(is_held_to_json(&provider, &name), "{name}");
        let is_cut = manner != "uncut";
        let expected: &[&str] = if is_cut {
            &["0 completed 1 begins", "1 completed 1 goes on", "2 completed 1 goes on"]
        } else {
            &["0 completed 1 begins"]
        };
        assert_eq!(links(&mut client, session), expected, "{name}");
        let expected: &[&str] = if is_cut { &["1 length 0", "2 length 1", "3 stop 2"] } else { &["1 stop 0"] };
        assert_eq!(chunks(&mut client, session), expected, "{name}");
        assert_eq!(assembled(&mut client, session), json, "{name}");
        assert_eq!(body(&document(&mut client, session)), body(&text), "{name}");
        let shown = shown(&provider, &name);
        assert_eq!(shown.len(), if is_cut { 2 } else { 0 }, "{name}");
        // What was begun afresh is shown as one object; everything else as the text that it is.
        let is_text = !matches!(manner, "afresh" | "lacking");
        for words in &shown[..shown.len().min(if is_text { 2 } else { 1 })] {
            assert!(words.len() > 100 && whole.starts_with(words.as_str()), "{name}: {words}");
        }
    }
    assert_sound(&mut client);
}

#[test]
fn a_text_cut_twice_is_the_uncut_one_byte_for_byte_in_every_dialect() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    let whole = prose(5000);
    let most = whole.chars().count() * 2 / 5;
    let mut names = Vec::new();
    for dialect in Dialect::ALL {
        for (manner, author) in [("onward", Author::of(&whole)), ("repeating", Author::of(&whole).repeating(60))] {
            let name = speaker(&mut client, &provider, dialect, manner, "");
            provider.script(&name, vec![Act::author(author.at_most(most))]);
            names.push(name);
        }
    }
    let project = project(&mut client, 1);
    let sessions = begin_all(&mut client, project, &names);
    work(&mut client);
    for (name, session) in names.into_iter().zip(sessions) {
        assert_eq!(
            links(&mut client, session),
            ["0 completed 1 begins", "1 completed 1 goes on", "2 completed 1 goes on"],
            "{name}"
        );
        assert_eq!(chunks(&mut client, session), ["1 length 0", "2 length 1", "3 stop 2"], "{name}");
        assert_eq!(document(&mut client, session), whole, "{name}");
        let shown = shown(&provider, &name);
        assert_eq!(shown.len(), 2, "{name}");
        for words in shown {
            assert!(words.len() > 100 && whole.starts_with(&words), "{name}: {words}");
        }
    }
    assert_sound(&mut client);
}

#[test]
fn the_next_step_reads_all_of_a_text_that_was_cut() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    client
        .batch_execute(
            r#"select dialectic.define_process('reading', '[{"slug": "reading", "seed_prompt_template": "cell_seed", "recipe": {"steps": [
                {"step": 1, "key": "text", "name": "Text", "job_type": "execute", "prompt_template_name": "cell_text",
                 "inputs_required": [{"type": "seed_prompt"}], "granularity_strategy": "all_to_one",
                 "output_type": "text", "document_key": "text", "file_type": "markdown"},
                {"step": 2, "key": "note", "name": "Note", "job_type": "execute", "prompt_template_name": "cell_text",
                 "inputs_required": [{"type": "text"}], "granularity_strategy": "per_source_document",
                 "output_type": "note", "document_key": "note", "file_type": "markdown"}]}}]')"#,
        )
        .expect("the process");
    let whole = prose(3000);
    let part = Act::author(Author::of(&whole).at_most(whole.chars().count() * 2 / 5));
    provider.script("reader", vec![part.clone(), part.clone(), part, Act::text("Read.")]);
    chat(&mut client, "reader", &provider, "");
    let project: Uuid =
        one(&mut client, "select dialectic.create_project('Reading', 'Read it.', process => 'reading')", &[]);
    let session = begin(&mut client, project, "reader");
    work(&mut client);
    let documents: Vec<String> = column(
        &mut client,
        "select format('%s %s', document_key, complete) from dialectic.documents where session_id = $1 order by 1",
        &[&session],
    );
    assert_eq!(documents, ["note t", "text t"]);
    let read = provider.requests().pop().expect("four requests").messages();
    assert_eq!(provider.request_count(), 4);
    assert!(read.iter().any(|(role, text)| role == "user" && text.contains(whole.trim())), "{read:?}");
    assert_sound(&mut client);
}
