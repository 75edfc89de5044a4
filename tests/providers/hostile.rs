//! Providers that mean no good, or have lost their way: one call stays one call, and what they say stays with whoever called.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Provider, Wait};
use dialectic_tests::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server that answers every request with these bytes and then `last`; how many requests it has read.
fn raw(bytes: Vec<u8>, last: fn(&mut TcpStream)) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let count = Arc::new(AtomicUsize::new(0));
    let (seen, bytes) = (Arc::clone(&count), Arc::new(bytes));
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let (seen, bytes) = (Arc::clone(&seen), Arc::clone(&bytes));
            std::thread::spawn(move || {
                let mut buffer = [0; 65536];
                if matches!(socket.read(&mut buffer), Ok(read) if read > 0) {
                    seen.fetch_add(1, Ordering::SeqCst);
                    let _ = socket.write_all(&bytes);
                    last(&mut socket);
                }
            });
        }
    });
    (address, count)
}

fn close(_socket: &mut TcpStream) {}

#[test]
fn a_response_that_ends_in_its_head_is_one_request_for_each_attempt() {
    let database = Database::new();
    let mut client = database.connect();
    process(&mut client);
    let long = format!("HTTP/1.1 200 OK\r\nx-big: {}\r\n\r\n", "a".repeat(40_000));
    let heads = ["H", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 100 Continue\r\n\r\n", long.as_str()];
    for (number, head) in heads.into_iter().enumerate() {
        let (address, requests) = raw(head.as_bytes().to_vec(), close);
        let name = format!("broken-{number}");
        client.execute(&format!("select dialectic.add_provider('{name}', 'openai', '{address}')"), &[]).expect("add");
        model(&mut client, &name, &name, "");
        let session = calls(&mut client, &name, 1);
        work(&mut client);
        assert_eq!(jobs(&mut client, session), ["1 retry_loop_failed 4"], "{head:.20}");
        assert_eq!(requests.load(Ordering::SeqCst), 4, "{head:.20}");
    }
    assert_sound(&mut client);
}

#[test]
fn an_answer_is_over_when_all_is_said_however_long_the_provider_goes_on() {
    let database = Database::new();
    let mut client = database.connect();
    process(&mut client);
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
        data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Enough.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let (address, _) = raw(answer.as_bytes().to_vec(), |socket| {
        while socket.write_all(b": ping\n\n").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    client.execute(&format!("select dialectic.add_provider('endless', 'openai', '{address}')"), &[]).expect("add");
    model(&mut client, "endless", "endless", "");
    let session = calls(&mut client, "endless", 1);
    eventually("it is kept", || {
        jobs(&mut client, session) == ["1 completed 1"]
            || !preloaded() && {
                work(&mut client);
                false
            }
    });
}

#[test]
fn a_provider_that_throttles_and_asks_for_no_patience_is_not_asked_in_haste() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    configure(&mut client, "retry_base_seconds", "1");
    provider.script("hasty", vec![Act::throttled(Wait::Seconds, Duration::ZERO)]);
    chat(&mut client, "hasty", &provider, "");
    let working = {
        calls(&mut client, "hasty", 1);
        (!preloaded()).then(|| set_to_work(&database))
    };
    eventually("it was asked a few times", || provider.request_count() >= 5);
    let waits: Vec<Duration> =
        provider.requests().windows(2).map(|pair| pair[1].at.duration_since(pair[0].at)).collect();
    assert!(waits.iter().skip(2).take(2).all(|wait| *wait >= Duration::from_millis(150)), "{waits:?}");
    client.execute("select dialectic.cancel(id) from dialectic.sessions", &[]).expect("cancel");
    drop(working);
}

#[test]
fn what_a_provider_says_of_a_call_is_for_whoever_made_it() {
    let (provider, database) = (Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    let words = r#"{"error": {"message": "We do not like: my secret diary", "type": "permission_error"}}"#;
    provider.script("stern", vec![Act::body(403, "application/json", words)]);
    chat(&mut client, "stern", &provider, "");
    calls(&mut client, "stern", 1);
    work(&mut client);
    let shown: String = one(
        &mut client,
        "select concat((select string_agg(c::text, '') from dialectic.provider_cooldowns c), \
                       (select h::text from dialectic.health() h), (select string_agg(b.cause, '') from dialectic.blocked b))",
        &[],
    );
    assert!(shown.contains("it answered with status 403") && !shown.contains("diary"), "{shown}");
    let kept: String = one(&mut client, "select error_message from dialectic.model_calls", &[]);
    assert!(kept.contains("diary"), "the owner of the call reads it: {kept}");
}

#[test]
fn a_secret_does_not_go_along_when_its_provider_moves() {
    let (here, there, database) = (Provider::start(), Provider::start(), Database::new());
    let mut client = database.connect();
    process(&mut client);
    for server in [&here, &there] {
        server.script("moving", vec![Act::text("Hello.")]);
    }
    chat(&mut client, "moving", &here, ", secret => 'env:DIALECTIC_LAW_KEY'");
    chat(&mut client, "moving", &here, ", max_concurrency => 3");
    let references = "select count(*) from dialectic.secrets where provider = 'moving'";
    assert_eq!(one::<i64>(&mut client, references, &[]), 1, "it stayed where it was");
    chat(&mut client, "moving", &there, "");
    assert_eq!(one::<i64>(&mut client, references, &[]), 0);
    calls(&mut client, "moving", 1);
    work(&mut client);
    let given: Vec<Option<String>> =
        there.requests().iter().map(|seen| seen.header("authorization").map(str::to_owned)).collect();
    assert_eq!(given, [None]);
    let shipped = "select dialectic.add_provider('mistral', 'openai', max_concurrency => 2)";
    client.execute(shipped, &[]).expect("add_provider");
    let address: String =
        one(&mut client, "select base_url from dialectic._current_providers where name = 'mistral'", &[]);
    assert!(address.contains("mistral"), "a provider that is known stays where it is: {address}");
}
