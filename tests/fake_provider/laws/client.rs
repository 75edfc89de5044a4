//! A client on a raw socket, written apart from the server: a mistake in framing is not made twice.
//!
//! Takes a response apart as far as it comes, and says whether all of it came. Never asks twice.

use super::{Dialect, Provider};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A connection of a client.
pub(super) struct Client {
    pub(super) socket: BufReader<TcpStream>,
}

/// A response as a client sees it: the body as far as it came.
pub(super) struct Got {
    pub(super) status: u16,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
    pub(super) chunks: usize,
    pub(super) is_whole: bool,
}

impl Client {
    pub(super) fn new(provider: &Provider) -> Self {
        let socket = TcpStream::connect(provider.address()).expect("a connection");
        socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
        Client { socket: BufReader::new(socket) }
    }

    pub(super) fn say(&mut self, bytes: &[u8]) {
        self.socket.get_mut().write_all(bytes).expect("a request is taken");
    }

    pub(super) fn ask(&mut self, dialect: Dialect, model: &str, further: &str) -> Got {
        self.say(&super::request(dialect, model, further));
        self.hear()
    }

    pub(super) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.socket.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    pub(super) fn hear(&mut self) -> Got {
        let first = self.line().expect("a status line");
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        let mut got = Got { status, headers: HashMap::new(), body: Vec::new(), chunks: 0, is_whole: false };
        while let Some(line) = self.line().filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(": ").expect("a header");
            got.headers.insert(name.to_owned(), value.to_owned());
        }
        match got.headers.get("content-length") {
            Some(length) => got.is_whole = self.take(length.parse().expect("a length"), &mut got.body),
            None => {
                while let Some(size) = self.line().map(|line| usize::from_str_radix(&line, 16).expect("a size")) {
                    let came = self.take(size, &mut got.body) && self.line().as_deref() == Some("");
                    if size == 0 || !came {
                        got.is_whole = came;
                        break;
                    }
                    got.chunks += 1;
                }
            }
        }
        got
    }

    fn take(&mut self, size: usize, body: &mut Vec<u8>) -> bool {
        let before = body.len();
        let _ = (&mut self.socket).take(size as u64).read_to_end(body);
        body.len() - before == size
    }
}
