//! Calls in secret. Whom they trust: a provider with a certificate that nobody vouches for is not spoken to, one that the extra file vouches
//! for is. And how they listen: what comes in small records is heard as fast as it comes.

use crate::ground::*;
use dialectic_tests::server::{Server, set};
use dialectic_tests::*;
use postgres::Client;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const HOSTS: &str = "dialectic.allowed_hosts = '*, localhost'";

/// An answer as a provider streams it, and the end of the connection.
fn streamed<'a>(pieces: impl Iterator<Item = &'a str>) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let spoken: String = pieces
        .map(|text| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"))
        .collect();
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    format!("{head}{spoken}{end}")
}

/// A provider that is spoken to in secret; how many requests it has read.
struct Vouched {
    port: u16,
    read: Arc<AtomicUsize>,
    /// The certificate of whoever vouches for it, as a file has it.
    authority: String,
}

/// One that gives this answer, in records of so many bytes at the most.
fn vouched(answer: String, record: Option<usize>) -> Vouched {
    vouched_by(IsCa::Ca(BasicConstraints::Unconstrained), answer, record)
}

/// As `vouched`, with a certificate signed by one whose own certificate says this.
fn vouched_by(is_ca: IsCa, answer: String, record: Option<usize>) -> Vouched {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = is_ca;
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .expect("parameters")
        .signed_by(&key, &authority)
        .expect("a certificate");
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .expect("a server");
    config.max_fragment_size = record;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (read, config) = (Arc::new(AtomicUsize::new(0)), Arc::new(config));
    let count = Arc::clone(&read);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            if answered(StreamOwned::new(connection, socket), &answer).is_some() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    Vouched { port, read, authority: authority.pem() }
}

/// Reads one request and answers it; none when the caller turns away.
fn answered(mut stream: StreamOwned<ServerConnection, TcpStream>, answer: &str) -> Option<()> {
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        seen.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&seen).to_ascii_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
        if body.len() >= length? {
            break;
        }
    }
    let (first, rest) = answer.split_at(answer.find("data:")?);
    stream.write_all(first.as_bytes()).and_then(|()| stream.flush()).ok()?;
    // It speaks for a while: who listens has settled by then.
    std::thread::sleep(Duration::from_millis(300));
    stream.write_all(rest.as_bytes()).ok()?;
    stream.conn.send_close_notify();
    stream.flush().ok()
}

/// One call to it; what came of it.
fn asked(client: &mut Client, name: &str, port: u16) -> (String, Option<String>) {
    client
        .execute(&format!("select dialectic.add_provider('{name}', 'openai', 'https://localhost:{port}/v1')"), &[])
        .expect("add_provider");
    model(client, name, name, "");
    let session = calls(client, name, 1);
    worked(client);
    let row = client
        .query_one(
            "select concat_ws(' ', c.outcome, c.error_class, c.error_message), \
                    (select k.content from dialectic.contributions k where k.session_id = $1) \
             from dialectic.model_calls c where c.session_id = $1",
            &[&session],
        )
        .expect("a call");
    (row.get(0), row.get(1))
}

/// What the provider says once the server trusts whoever vouches for it.
fn trusted(server: &Server, client: &mut Client, provider: &Vouched) -> String {
    let file = server.data().join("authority.pem");
    std::fs::write(&file, &provider.authority).expect("a file");
    set(client, "dialectic.ca_file", file.to_str());
    // The worker hears of it a moment later.
    let (mut tries, mut heard) = (0, None);
    eventually("it is trusted", || {
        tries += 1;
        let (said, text) = asked(client, &format!("vouched-{tries}"), provider.port);
        heard = text.filter(|_| said == "answered");
        heard.is_some()
    });
    heard.unwrap_or_default()
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_and_one_that_the_extra_file_vouches_for_is_trusted() {
    let provider = vouched(streamed(["In ", "confidence."].into_iter()), None);
    let (server, mut client) = own(HOSTS, &[]);
    let (said, text) = asked(&mut client, "unknown", provider.port);
    assert!(said.starts_with("failed configuration no trust in the provider"), "{said}");
    assert_eq!((text, provider.read.load(Ordering::SeqCst)), (None, 0), "nothing was said to it");

    assert_eq!(trusted(&server, &mut client, &provider), "In confidence.");
}

#[test]
fn certificate_that_is_not_of_an_authority_is_never_trusted() {
    for is_ca in [IsCa::NoCa, IsCa::ExplicitNoCa] {
        let provider = vouched_by(is_ca, streamed(["In ", "confidence."].into_iter()), None);
        let file = std::env::temp_dir().join(format!("store_{}_{}.pem", std::process::id(), provider.port));
        std::fs::write(&file, &provider.authority).expect("a file");
        let path = file.to_str().expect("a path");
        let (_server, mut client) = own(HOSTS, &[("SSL_CERT_FILE", path)]);
        let (said, _) = asked(&mut client, "stored", provider.port);
        assert!(said.starts_with("failed configuration no trust in the provider"), "{said}");

        set(&mut client, "dialectic.ca_file", Some(path));
        let (mut tries, mut said) = (0, String::new());
        eventually("the file is read", || {
            tries += 1;
            said = asked(&mut client, &format!("listed-{tries}"), provider.port).0;
            said.contains("dialectic.ca_file")
        });
        assert!(
            said.ends_with("dialectic.ca_file cannot be read: it has no certificate of an authority (CA)"),
            "{said}"
        );
        assert_eq!(provider.read.load(Ordering::SeqCst), 0, "nothing was sent to it");
        std::fs::remove_file(file).expect("removed");
    }
}

#[test]
fn authority_in_the_store_of_the_platform_is_trusted() {
    let provider = vouched(streamed(["In ", "confidence."].into_iter()), None);
    let file = std::env::temp_dir().join(format!("store_{}_{}.pem", std::process::id(), provider.port));
    std::fs::write(&file, &provider.authority).expect("a file");
    let (_server, mut client) = own(HOSTS, &[("SSL_CERT_FILE", file.to_str().expect("a path"))]);
    let (said, text) = asked(&mut client, "stored", provider.port);
    assert_eq!((said.as_str(), text.as_deref()), ("answered", Some("In confidence.")));
    std::fs::remove_file(file).expect("removed");
}

#[test]
fn a_long_answer_in_small_records_is_heard_as_fast_as_it_comes() {
    let piece = "Much is said here, and all of it at once. ".repeat(24);
    let whole = piece.repeat(2_000);
    // As packets of a network bring them, a few of them at a time: with a pause after each look it would take 15 seconds.
    let provider = vouched(streamed(std::iter::repeat_n(piece.as_str(), 2_000)), Some(1_400));
    let (server, mut client) = own(HOSTS, &[]);
    assert_eq!(trusted(&server, &mut client, &provider).trim_end(), whole.trim_end());
    let heard = "select extract(epoch from finished_at - first_byte_at)::float8 from dialectic.model_calls where outcome = 'answered'";
    let seconds: f64 = one(&mut client, heard, &[]);
    println!("{} bytes were heard in {seconds} s", whole.len());
    assert!(seconds < 7.0, "{seconds} s");
}
