//! Whom a call trusts: a provider with a certificate that nobody vouches for is not spoken to, one that the extra file vouches for is.

use crate::ground::*;
use dialectic_tests::server::set;
use dialectic_tests::*;
use postgres::Client;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An answer as a provider gives it, and the end of the connection.
const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"In confidence.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

/// A provider that is spoken to in secret; how many requests it has read.
struct Vouched {
    port: u16,
    read: Arc<AtomicUsize>,
    /// The certificate of whoever vouches for it, as a file has it.
    authority: String,
}

fn vouched() -> Vouched {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .expect("parameters")
        .signed_by(&key, &authority)
        .expect("a certificate");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .expect("a server");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (read, config) = (Arc::new(AtomicUsize::new(0)), Arc::new(config));
    let count = Arc::clone(&read);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            if answered(StreamOwned::new(connection, socket)).is_some() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    Vouched { port, read, authority: authority.pem() }
}

/// Reads one request and answers it; none when the caller turns away.
fn answered(mut stream: StreamOwned<ServerConnection, TcpStream>) -> Option<()> {
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
    stream.write_all(ANSWER.as_bytes()).ok()?;
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

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_and_one_that_the_extra_file_vouches_for_is_trusted() {
    let provider = vouched();
    let hosts = "dialectic.allowed_hosts = '*, localhost'";
    let (server, mut client) = own(hosts, &[]);
    let (said, text) = asked(&mut client, "unknown", provider.port);
    assert!(said.starts_with("failed configuration no trust in the provider"), "{said}");
    assert_eq!((text, provider.read.load(Ordering::SeqCst)), (None, 0), "nothing was said to it");

    let file = server.data().join("authority.pem");
    std::fs::write(&file, &provider.authority).expect("a file");
    set(&mut client, "dialectic.ca_file", file.to_str());
    // The worker hears of it a moment later.
    let mut tries = 0;
    eventually("it is trusted", || {
        tries += 1;
        let (said, text) = asked(&mut client, &format!("vouched-{tries}"), provider.port);
        said == "answered" && text.as_deref() == Some("In confidence.")
    });
}
