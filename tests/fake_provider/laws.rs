//! Laws of the scripted server itself, seen from raw sockets: what it frames can be read, what it says is what the test chose,
//! what it breaks is broken as asked, and who goes away is noticed.
//!
mod author;
mod client;
mod holding;

use super::*;
use client::Client;
use dialectic_core::provider::Outcome;
use dialectic_core::provider::dialect::Event;
use dialectic_core::provider::reader::Reader;
use dialectic_core::provider::stream::Framing;
use dialectic_core::provider::transcript::Transcript;
use std::io::{ErrorKind, Read};

const TEXT: &str = "Gründlich, “quoted”\nand\tsaid twice 🦀 \\ to the end";

fn request(dialect: Dialect, model: &str, further: &str) -> Vec<u8> {
    let path = match dialect {
        Dialect::Chat => "/v1/chat/completions".to_owned(),
        Dialect::Responses => "/v1/responses".to_owned(),
        Dialect::Anthropic => "/v1/messages".to_owned(),
        Dialect::Google => format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
        Dialect::Ollama => "/api/chat".to_owned(),
    };
    let body = format!(r#"{{"model": "{model}", "stream": true, "note": "a \"model\": \"decoy\""}}"#);
    format!("POST {path} HTTP/1.1\r\nHost: here\r\n{further}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn framing(dialect: Dialect) -> Framing {
    if dialect == Dialect::Ollama { Framing::Lines } else { Framing::Events }
}

fn read(dialect: Dialect, body: &[u8]) -> Outcome {
    let (mut reader, mut transcript) = (Reader::new(dialect, framing(dialect), 1 << 20), Transcript::default());
    reader.push(body).into_iter().for_each(|event| transcript.take(event));
    reader.end().into_iter().for_each(|event| transcript.take(event));
    transcript.outcome(Some(200), |_| (1, 1))
}

#[test]
fn an_answer_is_read_in_every_dialect_as_the_text_that_was_chosen() {
    let provider = Provider::start();
    for usage in [Tells::Usually, Tells::Oddly, Tells::Nowhere] {
        let answer = Answer::of(TEXT).tokens(31, 17).usage(usage);
        provider.script("m", vec![Act::answer(answer.clone()), Act::answer(answer).in_pieces(3)]);
        for dialect in Dialect::ALL {
            let got = Client::new(&provider).ask(dialect, "m", "");
            assert!(got.status == 200 && got.is_whole, "{dialect:?}");
            let Outcome::Answer { text, finish_reason, usage: told, .. } = read(dialect, &got.body) else {
                panic!("{dialect:?} {usage:?}: {}", String::from_utf8_lossy(&got.body));
            };
            assert_eq!((text.as_str(), finish_reason.as_str()), (TEXT, "stop"), "{dialect:?}");
            let expected = if usage == Tells::Nowhere { (1, 1, true) } else { (31, 17, false) };
            assert_eq!((told.input_tokens, told.output_tokens, told.estimated), expected, "{dialect:?} {usage:?}");
        }
    }
}

#[test]
fn a_limit_that_cuts_an_answer_is_said_in_every_dialect() {
    let provider = Provider::start();
    let words = ["length", "max_output_tokens", "max_tokens", "MAX_TOKENS", "length"];
    for (dialect, word) in Dialect::ALL.into_iter().zip(words) {
        provider.script("m", vec![Act::answer(Answer::of("Half of").finish(word))]);
        let got = Client::new(&provider).ask(dialect, "m", "");
        let outcome = read(dialect, &got.body);
        assert!(
            matches!(&outcome, Outcome::Answer { finish_reason, .. } if finish_reason.as_str() == "length"),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_numbered_answer_is_another_for_every_request_and_as_long_as_the_last() {
    let provider = Provider::start();
    provider.script("m", vec![Act::instant(&format!("Answer {NUMBER} of many")).numbered()]);
    for number in 0..3 {
        for dialect in Dialect::ALL {
            let got = Client::new(&provider).ask(dialect, "m", "");
            let Outcome::Answer { text, .. } = read(dialect, &got.body) else { panic!("{dialect:?}") };
            let expected = number * Dialect::ALL.len() + dialect as usize;
            assert!(got.is_whole && text == format!("Answer {expected:08} of many"), "{dialect:?}: {text}");
        }
    }
}

#[test]
fn a_connection_is_kept_for_the_next_request_and_closed_when_the_client_wants_it() {
    let provider = Provider::start();
    provider.script("m", vec![Act::text("one"), Act::instant("two"), Act::text("three")]);
    let mut client = Client::new(&provider);
    for text in ["one", "two", "three", "three"] {
        let got = client.ask(Dialect::Ollama, "m", "");
        assert!(String::from_utf8_lossy(&got.body).contains(text), "{text}");
        assert_eq!(got.headers.contains_key("transfer-encoding"), text != "two");
    }
    assert_eq!((provider.accepted(), provider.open_sockets()), (1, 1));
    let got = client.ask(Dialect::Ollama, "m", "Connection: close\r\n");
    assert_eq!(got.headers["connection"], "close");
    assert!(got.is_whole && client.line().is_none(), "nothing comes after it");
    assert!(provider.closed_within(Duration::from_secs(5)).is_some());
    let seen = provider.requests();
    assert_eq!(seen.iter().map(|seen| seen.connection).collect::<Vec<_>>(), [1; 5]);
    assert_eq!(
        (seen[0].model.as_str(), seen[0].header("host"), &seen[0].body["stream"]),
        ("m", Some("here"), &true.into())
    );
}

#[test]
fn a_request_in_chunks_and_one_that_comes_byte_by_byte_are_read() {
    let provider = Provider::start();
    provider.script("m", vec![Act::text("yes")]);
    let mut client = Client::new(&provider);
    let chunked = "POST /api/chat HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n\
                   5\r\n{\"mod\r\n9;x=y\r\nel\":\"m\"} \r\n0\r\nTrailer: t\r\n\r\n";
    chunked.as_bytes().iter().for_each(|byte| client.say(&[*byte]));
    assert_eq!(client.line().as_deref(), Some("HTTP/1.1 100 Continue"));
    assert_eq!(client.line().as_deref(), Some(""));
    assert_eq!(client.hear().status, 200);
    assert_eq!(provider.requests()[0].model, "m");
}

#[test]
fn what_cannot_be_read_is_a_400_and_the_end_of_its_connection_alone() {
    let provider = Provider::start();
    provider.script("m", vec![Act::text("yes")]);
    let post = "POST /api/chat HTTP/1.1\r\n";
    for bytes in [
        "\r\n\r\n".to_owned(),
        "GARBAGE\r\n\r\n".to_owned(),
        "\u{fffd} / HTTP/9\r\n\r\n".to_owned(),
        format!("{post}no colon\r\n\r\n"),
        format!("{post}Content-Length: -1\r\n\r\n"),
        format!("{post}Content-Length: 99999999999999999999\r\n\r\n"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n"),
        format!("{post}Content-Length: 4\r\n\r\nnull"),
        format!("{post}Content-Length: 1\r\n\r\n{{"),
        format!("{post}X: {}\r\n\r\n", "x".repeat(100_000)),
    ] {
        let mut client = Client::new(&provider);
        client.say(bytes.as_bytes());
        let got = client.hear();
        assert_eq!(got.status, 400, "{}", &bytes[..bytes.len().min(100)]);
    }
    assert!(provider.closed_within(Duration::from_secs(5)).is_some());
    assert_eq!(Client::new(&provider).ask(Dialect::Ollama, "m", "").status, 200);
    assert_eq!(Client::new(&provider).ask(Dialect::Ollama, "unknown", "").status, 501);
}

#[test]
fn without_recording_the_model_is_found_all_the_same_and_nothing_is_kept() {
    let provider = Provider::start();
    provider.record(false);
    provider.script("m", vec![Act::text("yes")]);
    for dialect in Dialect::ALL {
        assert_eq!(Client::new(&provider).ask(dialect, "m", "").status, 200, "{dialect:?}");
    }
    assert_eq!(provider.request_count(), 0);
    assert_eq!(model_in(br#"{"a":"\"model\":\"x\"", "model" : "m"}"#), None, "a form that is not looked for");
    assert_eq!(model_in(br#"{"a":"\"model\":\"x\"", "model": "m\u00e9"}"#).as_deref(), Some("mé"));
    assert_eq!(model_in(br#"{"model": 7}"#), None);
}

#[test]
fn what_is_cut_ends_after_so_many_bytes_in_order_or_by_a_reset() {
    let provider = Provider::start();
    provider.script("in-order", vec![Act::text(TEXT).end(End::Closed(100))]);
    provider.script("reset", vec![Act::text(TEXT).end(End::Reset(100))]);
    provider.script("length", vec![Act::instant(TEXT).end(End::Closed(100))]);
    for (model, kind) in [("in-order", None), ("reset", Some(ErrorKind::ConnectionReset)), ("length", None)] {
        let mut client = Client::new(&provider);
        client.say(&request(Dialect::Chat, model, ""));
        let mut all = Vec::new();
        let end = client.socket.read_to_end(&mut all).err().map(|error| error.kind());
        assert_eq!(end, kind, "{model}");
        let head = http::find(&all, b"\r\n\r\n").expect("headers") + 4;
        assert!(all.ends_with(if model == "length" { b"" } else { b"\r\n" }) && !all.ends_with(b"0\r\n\r\n"));
        assert!((100..120).contains(&(all.len() - head)), "{model}: {}", all.len() - head);
    }
}

#[test]
fn a_client_that_goes_is_noticed_in_silence_between_pieces_and_before_the_first_byte() {
    let provider = Provider::start();
    let hour = Duration::from_secs(3600);
    provider.script("late", vec![Act::text(TEXT).late(hour)]);
    provider.script("slow", vec![Act::text(TEXT).every(hour)]);
    provider.script("silent", vec![Act::text(TEXT).end(End::Silence(100))]);
    provider.script("endless", vec![Act::endless()]);
    provider.script("claiming", vec![Act::claiming(1 << 40)]);
    let clients: Vec<Client> = ["late", "slow", "silent", "endless", "claiming"]
        .iter()
        .map(|model| {
            let mut client = Client::new(&provider);
            client.say(&request(Dialect::Anthropic, model, ""));
            client
        })
        .collect();
    crate::eventually("all are served", || provider.request_count() == 5);
    assert_eq!(provider.open_sockets(), 5);
    drop(clients);
    provider.closed_within(Duration::from_secs(20)).expect("all are closed");
}

#[test]
fn dropping_the_server_closes_every_connection() {
    let provider = Provider::start();
    provider.script("m", vec![Act::text(TEXT).end(End::Silence(10))]);
    let (mut idle, mut silent) = (Client::new(&provider), Client::new(&provider));
    silent.say(&request(Dialect::Chat, "m", ""));
    crate::eventually("both are there", || provider.open_sockets() == 2 && provider.request_count() == 1);
    drop(provider);
    assert!(!silent.hear().is_whole && silent.line().is_none() && idle.line().is_none());
}

#[test]
fn a_paced_answer_takes_its_time_and_comes_a_message_a_chunk() {
    let provider = Provider::start();
    let (late, every) = (Duration::from_millis(50), Duration::from_millis(5));
    provider.script("m", vec![Act::answer(Answer::of_tokens(20)).late(late).every(every)]);
    let begin = Instant::now();
    let got = Client::new(&provider).ask(Dialect::Chat, "m", "");
    // 20 words between the opening and the finish, usage and [DONE] after it.
    assert!(got.is_whole && got.chunks == 24, "{}", got.chunks);
    assert!(begin.elapsed() >= late + every * 23, "{:?}", begin.elapsed());
}

#[test]
fn what_is_malformed_zipped_redirected_echoed_or_a_page_is_so() {
    let provider = Provider::start();
    provider.script("malformed", vec![Act::text(TEXT).malformed()]);
    provider.script("zipped", vec![Act::text(TEXT).zipped()]);
    provider.script("redirect", vec![Act::redirect()]);
    provider.script("echo", vec![Act::echo(401)]);
    provider.script("page", vec![Act::html()]);
    for dialect in Dialect::ALL {
        let mut client = Client::new(&provider);
        let got = client.ask(dialect, "malformed", "");
        let outcome = read(dialect, &got.body);
        assert!(matches!(&outcome, Outcome::Failure { message, .. } if message.contains("not JSON")), "{outcome:?}");
        let got = client.ask(dialect, "zipped", "");
        assert_eq!(got.headers["content-encoding"], "gzip");
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&got.body[..]).read_to_end(&mut plain).expect("gzip");
        assert!(matches!(read(dialect, &plain), Outcome::Answer { text, .. } if text == TEXT), "{dialect:?}");
        let got = client.ask(dialect, "redirect", "");
        assert_eq!(got.status, 302);
        assert!(got.headers["location"].starts_with("http://here/"), "{}", got.headers["location"]);
        for header in ["Authorization: Bearer canary\r\n", "x-api-key: canary\r\n", "X-Goog-Api-Key: canary\r\n"] {
            let got = client.ask(dialect, "echo", header);
            assert!(got.status == 401 && http::find(&got.body, b"canary.").is_some(), "{dialect:?} {header}");
        }
        let got = client.ask(dialect, "page", "");
        assert!(got.status == 200 && got.headers["content-type"].starts_with("text/html"));
    }
}

#[test]
fn an_endless_answer_is_made_of_valid_messages() {
    let provider = Provider::start();
    // With a length there are no chunks to be taken apart first.
    provider.script("m", vec![Act::claiming(1 << 40)]);
    for dialect in Dialect::ALL {
        let mut client = Client::new(&provider);
        client.say(&request(dialect, "m", ""));
        let mut all = vec![0; 300_000];
        client.socket.read_exact(&mut all).expect("enough of it");
        let body = http::find(&all, b"\r\n\r\n").expect("headers") + 4;
        let events = Reader::new(dialect, framing(dialect), 1 << 20).push(&all[body..]);
        let texts = events.iter().filter(|event| matches!(event, Event::Text(_))).count();
        let faults = events.iter().filter(|event| matches!(event, Event::Fault(_))).count();
        assert!(texts > 100 && faults == 0, "{dialect:?}: {texts} texts, {faults} faults");
    }
}

#[test]
fn the_bucket_lets_a_burst_through_then_the_rate_and_never_more() {
    let begin = Instant::now();
    let at = |millis: u64| begin + Duration::from_millis(millis);
    let limit = Limit { model: None, unit: Unit::Requests, per_second: 60.0, burst: 10.0, says: Wait::Unsaid };
    let mut bucket = Bucket::new(limit, begin);
    let mut passed = |now: Instant, most: usize| {
        let mut count = 0;
        while count < most && bucket.wait(1.0, now).is_none() {
            bucket.take(1.0);
            count += 1;
        }
        count
    };
    assert_eq!(passed(begin, 100), 10);
    assert_eq!(passed(at(16), 100), 0);
    assert_eq!(passed(at(17), 100), 1);
    assert_eq!(passed(at(10_000), 100), 10, "what is not used is not kept beyond the burst");
    let total: usize = (1..=1000).map(|step| passed(at(10_000 + step), 100)).sum();
    assert!((59..=60).contains(&total), "{total} in a second");
    assert_eq!(passed(at(1), 100), 0, "a clock that goes back gives nothing");
    let limit = Limit { model: None, unit: Unit::Tokens, per_second: 100.0, burst: 50.0, says: Wait::Unsaid };
    let mut bucket = Bucket::new(limit, begin);
    assert_eq!(bucket.wait(500.0, begin), None, "a cost above the burst is the burst");
    bucket.take(500.0);
    assert_eq!(bucket.wait(20.0, begin), Some(Duration::from_millis(200)));
    assert_eq!(bucket.wait(20.0, at(200)), None);
}

#[test]
fn over_the_limit_there_is_a_429_in_the_chosen_form_that_uses_no_act_up() {
    let provider = Provider::start();
    provider.script("m", vec![Act::text("one"), Act::text("two")]);
    provider.script("free", vec![Act::text("free")]);
    let limit = |unit, burst, says| Limit { model: Some("m".to_owned()), unit, per_second: 0.001, burst, says };
    provider.limit(limit(Unit::Requests, 2.0, Wait::Seconds));
    let mut client = Client::new(&provider);
    let statuses: Vec<u16> = (0..4).map(|_| client.ask(Dialect::Google, "m", "").status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    let got = client.ask(Dialect::Anthropic, "m", "");
    let wait: u64 = got.headers["retry-after"].parse().expect("seconds");
    assert!((900..=1000).contains(&wait), "{wait}");
    assert_eq!(client.ask(Dialect::Chat, "free", "").status, 200);

    let provider = Provider::start();
    provider.script("m", vec![Act::answer(Answer::of("one").tokens(30, 30)), Act::text("two")]);
    provider.limit(limit(Unit::Tokens, 60.0, Wait::RetryInfo));
    let mut client = Client::new(&provider);
    assert_eq!(client.ask(Dialect::Google, "m", "").status, 200);
    let got = client.ask(Dialect::Google, "m", "");
    let body: Value = serde_json::from_slice(&got.body).expect("JSON");
    assert!(got.status == 429 && body["error"]["details"][0]["retryDelay"].is_string(), "{body}");
    provider.script("m", vec![Act::throttled(Wait::Millis, Duration::from_millis(1500)), Act::text("two")]);
    assert_eq!(client.ask(Dialect::Chat, "m", "").headers["retry-after-ms"], "1500", "what costs no tokens passes");
}

#[test]
fn a_fixture_is_served_byte_for_byte_and_one_that_is_missing_is_named() {
    let provider = Provider::start();
    provider.script("missing", vec![Act::fixture("no_such_thing")]);
    let got = Client::new(&provider).ask(Dialect::Chat, "missing", "");
    assert!(got.status == 501 && http::find(&got.body, b"no_such_thing").is_some());
    for dialect in Dialect::ALL {
        for (name, status) in [("success", 200), ("success.json", 200), ("error_401.json", 401)] {
            provider.script("m", vec![Act::fixture(name).with_status(status)]);
            let got = Client::new(&provider).ask(dialect, "m", "");
            let file = fixture(dialect, name);
            let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            assert!(got.status == status && got.body == bytes, "{}", file.display());
        }
    }
}

#[test]
fn five_hundred_streams_run_side_by_side() {
    let provider = Provider::start();
    let every = Duration::from_millis(20);
    provider.script("m", vec![Act::answer(Answer::of_tokens(50)).every(every)]);
    let begin = Instant::now();
    let mut clients: Vec<Client> = (0..500).map(|_| Client::new(&provider)).collect();
    clients.iter_mut().for_each(|client| client.say(&request(Dialect::Chat, "m", "")));
    crate::eventually("all stream at once", || provider.request_count() == 500);
    assert_eq!(provider.open_sockets(), 500);
    assert!(clients.iter_mut().all(|client| client.hear().is_whole));
    // One after the other would be more than nine minutes.
    println!("{:?}", begin.elapsed());
}
