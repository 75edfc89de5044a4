//! Decides what a client has asked: one request at a time off a socket, its body whole.
//!
//! Bodies have a length or come in chunks. What cannot be read is said to be so and never guessed at; nothing here panics,
//! whatever the bytes. Never answers, but for the go-ahead that a client may ask for.

use std::io::{self, Read, Write};
use std::net::TcpStream;

const MOST_HEAD: usize = 64 * 1024;
const MOST_BODY: usize = 64 * 1024 * 1024;

/// A request.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) method: String,
    /// Path and query.
    pub(super) target: String,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    /// Whether the client wants the connection closed after the answer.
    pub(super) is_last: bool,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str())
    }
}

/// Why there is no request.
#[derive(Debug)]
pub(super) enum Nothing {
    /// The client is gone.
    Gone,
    /// What it sent is no request.
    Unreadable(&'static str),
}

impl From<io::Error> for Nothing {
    fn from(_: io::Error) -> Self {
        Nothing::Gone
    }
}

/// The client's side of a connection.
pub(super) struct Incoming<'a> {
    socket: &'a TcpStream,
    /// What has been read and not yet used.
    held: Vec<u8>,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(socket: &'a TcpStream) -> Self {
        Incoming { socket, held: Vec::new() }
    }

    /// The next request.
    pub(super) fn next(&mut self) -> Result<Request, Nothing> {
        let head = self.head()?;
        let mut request = parse_head(&head)?;
        if request.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.socket.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let chunked = request.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        request.body = match request.header("content-length") {
            _ if chunked => self.chunks()?,
            Some(length) => match length.parse() {
                Ok(length) if length <= MOST_BODY => self.exactly(length)?,
                _ => return Err(Nothing::Unreadable("content-length")),
            },
            None => Vec::new(),
        };
        Ok(request)
    }

    fn more(&mut self) -> Result<(), Nothing> {
        let mut buffer = [0; 16 * 1024];
        match self.socket.read(&mut buffer)? {
            0 if self.held.is_empty() => Err(Nothing::Gone),
            0 => Err(Nothing::Unreadable("the end of the request")),
            count => {
                self.held.extend_from_slice(&buffer[..count]);
                Ok(())
            }
        }
    }

    fn head(&mut self) -> Result<Vec<u8>, Nothing> {
        let mut looked = 0;
        loop {
            // The mark may have been cut in two.
            let from = looked - looked.min(3);
            if let Some(found) = find(&self.held[from..], b"\r\n\r\n") {
                let rest = self.held.split_off(from + found + 4);
                return Ok(std::mem::replace(&mut self.held, rest));
            }
            looked = self.held.len();
            if looked > MOST_HEAD {
                return Err(Nothing::Unreadable("headers"));
            }
            self.more()?;
        }
    }

    fn exactly(&mut self, length: usize) -> Result<Vec<u8>, Nothing> {
        while self.held.len() < length {
            self.more()?;
        }
        let rest = self.held.split_off(length);
        Ok(std::mem::replace(&mut self.held, rest))
    }

    fn line(&mut self) -> Result<Vec<u8>, Nothing> {
        loop {
            if let Some(end) = find(&self.held, b"\r\n") {
                let mut line = self.exactly(end + 2)?;
                line.truncate(end);
                return Ok(line);
            }
            if self.held.len() > MOST_HEAD {
                return Err(Nothing::Unreadable("a line"));
            }
            self.more()?;
        }
    }

    fn chunks(&mut self) -> Result<Vec<u8>, Nothing> {
        let mut body = Vec::new();
        loop {
            let line = self.line()?;
            let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            let size = std::str::from_utf8(digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
            let size = size.filter(|size| *size <= MOST_BODY - body.len()).ok_or(Nothing::Unreadable("a chunk"))?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.exactly(size)?);
            if !self.line()?.is_empty() {
                return Err(Nothing::Unreadable("the end of a chunk"));
            }
        }
    }
}

fn parse_head(head: &[u8]) -> Result<Request, Nothing> {
    let head = std::str::from_utf8(head).map_err(|_| Nothing::Unreadable("headers"))?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Nothing::Unreadable("the request line"));
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Nothing::Unreadable("the version"));
    }
    let mut request = Request {
        method: method.to_owned(),
        target: target.to_owned(),
        is_last: version == "HTTP/1.0",
        ..Request::default()
    };
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(Nothing::Unreadable("a header"))?;
        request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    request.is_last |= request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(request)
}

/// Where this is in that.
pub(super) fn find(that: &[u8], this: &[u8]) -> Option<usize> {
    that.windows(this.len()).position(|window| window == this)
}
