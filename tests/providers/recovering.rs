//! Answers that are interrupted, by the provider or by a person: the same job goes on from what was said, and nothing that was heard is
//! asked for again. What was said by a model that would not answer is no beginning.

use crate::ground::*;
use crate::writing::*;
use dialectic_core::provider::dialect::{Dialect, Event};
use dialectic_core::provider::reader::Reader;
use dialectic_core::provider::stream::Framing;
use dialectic_tests::fake_provider::{Act, Answer, Author, End, Latch, Provider, fixture, folder};
use dialectic_tests::*;
use std::time::Duration;

/// Enough of a stream to have said some words in every dialect, and before its end.
const SOME: usize = 3000;
/// Fewer letters are not gone on from.
const FEW: usize = 12;

/// An interruption of one model: its script, what the whole has to be, what was heard of it where that is known, and settings of
/// its provider.
struct Case {
    dialect: Dialect,
    acts: Vec<Act>,
    whole: String,
    heard: Option<String>,
    settings: &'static str,
}

/// Works a job for each case and looks at what it came to. Of what was said so much may be said twice in each.
fn goes_on(cases: Vec<Case>, twice: usize) {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    let mut names = Vec::new();
    for case in &cases {
        let more = format!(", settings => '{}'", case.settings);
        let name = speaker(&mut client, &provider, case.dialect, "cut", &more);
        provider.script(&name, case.acts.clone());
        names.push(name);
    }
    let project = project(&mut client, 1);
    let sessions = begin_all(&mut client, project, &names);
    work(&mut client);
    for ((case, name), session) in cases.iter().zip(&names).zip(sessions) {
        let calls: Vec<String> = column(
            &mut client,
            "select concat_ws(' ', outcome, error_class, http_status, finish_reason) from dialectic.model_calls \
             where session_id = $1 order by started_at, claim_id",
            &[&session],
        );
        assert_eq!(calls, ["failed transient 200", "answered 200 stop"], "{name}");
        // An interruption is charged as any failure is; it is no continuation.
        assert_eq!(links(&mut client, session), ["0 completed 2 begins"], "{name}");
        if case.heard.as_ref().is_some_and(|heard| heard.len() < FEW) {
            assert_eq!(chunks(&mut client, session), ["1 stop 0"], "{name}");
            assert_eq!(document(&mut client, session), case.whole, "{name}");
            continue;
        }
        let shown = shown(&provider, name);
        assert_eq!(chunks(&mut client, session), ["1 error 0", "2 stop 0"], "{name}");
        assert_eq!(shown.len(), 1, "{name}");
        assert!(!shown[0].is_empty() && shown[0] != case.whole, "{name}: {shown:?}");
        assert!(case.whole.starts_with(&shown[0]), "{name}: {shown:?}");
        assert!(case.heard.as_ref().is_none_or(|heard| *heard == shown[0]), "{name}: {shown:?}");
        assert_eq!(document(&mut client, session), case.whole, "{name}");
    }
    let whole: usize = cases.iter().map(|case| case.whole.chars().count()).sum();
    println!("{} of {whole} characters were said", provider.spoken());
    assert!(provider.spoken() <= whole + twice * cases.len(), "{} of {whole} characters", provider.spoken());
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.partials", &[]), 0);
    assert_sound(&mut client);
}

/// The longest word of the text: the one that was cut off may be said again.
fn a_word(text: &str) -> usize {
    text.split_inclusive(' ').map(|word| word.chars().count()).max().unwrap_or_default()
}

/// Every dialect, broken off once in this way.
fn broken_off(settings: &'static str, how: impl Fn(Act) -> Act) -> Vec<Case> {
    let whole = prose(1500);
    let case = |dialect| {
        let author = || Act::author(Author::of(&whole));
        Case { dialect, acts: vec![how(author()), author()], whole: whole.clone(), heard: None, settings }
    };
    Dialect::ALL.into_iter().map(case).collect()
}

#[test]
fn an_answer_whose_connection_is_closed_goes_on_from_all_that_was_heard() {
    goes_on(broken_off("{}", |act| act.end(End::Closed(SOME))), a_word(&prose(1500)));
}

#[test]
fn an_answer_whose_connection_is_reset_goes_on_from_what_was_heard() {
    // At a pace, so that what was said is heard before the reset throws it away; the last words may be lost with it.
    let reset = |act: Act| act.every(Duration::from_millis(2)).end(End::Reset(SOME));
    goes_on(broken_off("{}", reset), 20 * a_word(&prose(1500)));
}

#[test]
fn an_answer_that_falls_silent_goes_on_from_all_that_was_heard() {
    let cases = broken_off(r#"{"silence_seconds": 0.5}"#, |act| act.end(End::Silence(SOME)));
    goes_on(cases, a_word(&prose(1500)));
}

/// What a documented stream says before it ends.
fn said_in(dialect: Dialect, name: &str) -> String {
    let bytes = std::fs::read(fixture(dialect, name)).expect("a fixture");
    let framing = if dialect == Dialect::Ollama { Framing::Lines } else { Framing::Events };
    let events = Reader::new(dialect, framing, 1 << 20).push(&bytes);
    let text = |event| if let Event::Text(text) = event { Some(text) } else { None };
    events.into_iter().filter_map(text).collect()
}

#[test]
fn an_answer_that_ends_in_an_error_event_goes_on_from_all_that_was_heard() {
    let case = |dialect| {
        let said = said_in(dialect, "error_after_200");
        assert!(!said.is_empty(), "{}", folder(dialect));
        let whole = format!("{said} and so on, as was meant from the beginning.");
        let acts = vec![Act::fixture("error_after_200"), Act::author(Author::of(&whole))];
        Case { dialect, acts, whole, heard: Some(said), settings: "{}" }
    };
    goes_on(Dialect::ALL.into_iter().map(case).collect(), FEW);
}

#[test]
fn a_json_document_interrupted_and_then_cut_is_the_uncut_one() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    paper_process(&mut client);
    let paper = paper(24);
    let whole = paper.to_string();
    let author = || Act::author(Author::of(&whole).at_most(whole.chars().count() / 2));
    let mut names = Vec::new();
    for dialect in Dialect::ALL {
        let name = speaker(&mut client, &provider, dialect, "unlucky", "");
        // Interrupted in its first answer and in its second, each of them half of the document at most.
        let closed = || author().end(End::Closed(SOME));
        provider.script(&name, vec![closed(), author(), closed(), author()]);
        names.push(name);
    }
    let project = paper_project(&mut client);
    let sessions = begin_all(&mut client, project, &names);
    work(&mut client);
    for (name, session) in names.into_iter().zip(sessions) {
        assert_eq!(links(&mut client, session), ["0 completed 2 begins", "1 completed 2 goes on"], "{name}");
        assert_eq!(chunks(&mut client, session), ["1 error 0", "2 length 0", "3 error 1", "4 stop 1"], "{name}");
        let assembled: serde_json::Value =
            serde_json::from_str(&assembled(&mut client, session)).expect("JSON that was kept");
        assert_eq!(assembled, paper, "{name}");
        let shown = shown(&provider, &name);
        assert_eq!(shown.len(), 3, "{name}");
        assert!(shown.iter().all(|words| whole.starts_with(words.as_str())), "{name}: {shown:?}");
        assert!(shown.is_sorted_by(|one, next| one.len() < next.len()), "{name}: each is shown more than the last");
    }
    assert_sound(&mut client);
}

#[test]
fn a_job_paused_in_mid_stream_goes_on_from_what_was_said_when_it_is_resumed() {
    const SAID: usize = 20;
    let (provider, latch, database) = (Provider::start(), Latch::default(), Database::by_hand());
    let mut client = database.connect();
    process(&mut client);
    configure(&mut client, "partial_flush_seconds", "0.05");
    let whole = prose(600);
    // A message that opens the answer, and then words.
    provider.script("slow", vec![Act::author(Author::of(&whole)).held(1 + SAID, &latch)]);
    chat(&mut client, "slow", &provider, "");
    let session = calls(&mut client, "slow", 1);
    let working = set_to_work(&database);
    let beginning: String = whole.split_inclusive(' ').take(SAID).collect();
    let job = "select coalesce((select dialectic.live(id) from dialectic.jobs where session_id = $1 and kind = 'execute'), '')";
    eventually("the words are there", || one::<String>(&mut client, job, &[&session]) == beginning);
    assert_eq!(one::<i32>(&mut client, "select dialectic.pause($1)", &[&session]), 1);
    eventually("the stream is closed", || provider.under_way("slow") == 0);
    assert_eq!(one::<String>(&mut client, job, &[&session]), beginning, "what was said stays to be read");

    latch.lift();
    assert_eq!(one::<i32>(&mut client, "select dialectic.resume($1)", &[&session]), 1);
    work(&mut client);
    working.end();
    assert_eq!(shown(&provider, "slow"), [beginning]);
    assert_eq!(provider.spoken(), whole.chars().count(), "nothing is said twice");
    assert_eq!(links(&mut client, session), ["0 completed 1 begins"]);
    assert_eq!(chunks(&mut client, session), ["1 error 0", "2 stop 0"]);
    assert_eq!(document(&mut client, session), whole);
    assert_sound(&mut client);
}

#[test]
fn the_words_of_a_model_that_failed_to_answer_are_not_gone_on_from() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    // A reason to stop that nobody knows, and one that is a refusal: long enough to have been put down meanwhile.
    configure(&mut client, "partial_flush_seconds", "0.05");
    let said = |finish: &str| {
        Act::answer(Answer::of(&"I would rather talk of the sea. ".repeat(10)).finish(finish))
            .every(Duration::from_millis(4))
    };
    provider.script("strange", vec![said("novel_reason"), Act::text("All of it.")]);
    provider.script("unwilling", vec![said("content_filter"), Act::text("All of it.")]);
    for name in ["strange", "unwilling"] {
        chat(&mut client, name, &provider, "");
    }
    let (strange, unwilling) = (calls(&mut client, "strange", 1), calls(&mut client, "unwilling", 1));
    work(&mut client);
    assert_eq!(jobs(&mut client, strange), ["1 completed 2"]);
    assert_eq!(jobs(&mut client, unwilling), ["1 failed 1"], "a refusal is not asked about again");
    let requests = provider.requests();
    let asked = |name: &str| requests.iter().filter(|seen| seen.model == name).map(|seen| seen.messages()).collect();
    let (again, once): (Vec<_>, Vec<_>) = (asked("strange"), asked("unwilling"));
    assert_eq!((again.len(), once.len()), (2, 1));
    assert_eq!(again[0], again[1], "it is asked as the first time");
    assert_eq!(document(&mut client, strange), "All of it.");
    assert_eq!(chunks(&mut client, strange), ["1 stop 0"]);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.partials", &[]), 0);
    assert_sound(&mut client);
}
