//! Decides the bytes of a response: headers and body, framed, cut and damaged as the act wants it.
//!
//! What is the same for every request is made once and shared by all connections, so that a thousand streams of the same answer
//! cost the memory of one. Never writes to a socket.

use super::act::{Act, Answer, End, NUMBER, What};
use super::heard::own_words;
use super::http::{Request, find};
use super::latch::Latch;
use super::shape::shaped;
use super::speech;
use dialectic_core::provider::dialect::Dialect;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A response, ready to be written.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// All of it, headers and body.
    pub(super) bytes: Vec<u8>,
    /// Where the last header ends: one more can be put there.
    pub(super) headers_end: usize,
    /// Where each piece ends; the first has the headers in it.
    pub(super) ends: Vec<usize>,
    /// What is repeated for ever after it.
    pub(super) refrain: Option<Vec<u8>>,
    pub(super) late: Duration,
    pub(super) every: Duration,
    pub(super) end: End,
    /// Where the number of the request goes.
    pub(super) number_at: Option<usize>,
    /// How many characters of the answer each piece has; empty where nobody counts.
    pub(super) letters: Vec<usize>,
    /// Where it stops until a latch is lifted, counted in pieces.
    pub(super) held: Option<(usize, Latch)>,
}

impl Reply {
    /// A copy with this number in it. All numbers are as wide as what stands for them: no length changes.
    pub(super) fn numbered(&self, number: u64) -> Reply {
        let mut copy = self.clone();
        if let Some(at) = copy.number_at {
            copy.bytes[at..at + NUMBER.len()].copy_from_slice(format!("{:08}", number % 100_000_000).as_bytes());
        }
        copy
    }
}

/// What an act comes to in a dialect.
pub(super) fn reply(act: &Act, dialect: Dialect, model: &str, request: &Request) -> Reply {
    let (mut headers, mut status) = (act.headers.clone(), act.status);
    let mut refrain = None;
    let mut claimed = None;
    let kind = match &act.what {
        What::Answer(_) | What::Author(_) | What::Shaped(_) | What::Endless { .. } => speech::stream_kind(dialect).1,
        What::Body { kind, .. } => kind,
        What::Fixture(name) => kind_of(name, dialect),
        _ => "application/json",
    };
    headers.push(("content-type".to_owned(), kind.to_owned()));
    let error =
        |message: &str, details| vec![speech::error(dialect, status, message, details).to_string().into_bytes()];
    let mut letters = Vec::new();
    let mut stream = |answer: &Answer| {
        letters = speech::letters(dialect, answer);
        speech::stream(dialect, model, answer)
    };
    let mut pieces = match &act.what {
        What::Answer(answer) => stream(answer),
        What::Author(author) => stream(&author.answer(dialect, own_words(dialect, &request.body).as_deref())),
        What::Shaped(text) => stream(&shaped(text, &request.body)),
        What::Body { bytes, .. } => vec![bytes.clone()],
        What::Error(message) => error(message, Vec::new()),
        What::Throttled { says, wait } => {
            headers.extend(says.headers(*wait, SystemTime::now()));
            error("Rate limit reached. Try again later.", says.details(*wait))
        }
        What::Echo => error(&format!("Incorrect API key provided: {}.", secret(request)), Vec::new()),
        What::Redirect => {
            let host = request.header("host").unwrap_or("127.0.0.1");
            headers.push(("location".to_owned(), format!("http://{host}{}", request.target)));
            vec![Vec::new()]
        }
        What::Endless { length } => {
            let (beginning, again) = speech::endless(dialect, model);
            claimed = *length;
            refrain = Some(if length.is_some() { again } else { chunk(&again) });
            beginning
        }
        What::Fixture(name) => match std::fs::read(fixture(dialect, name)) {
            Ok(bytes) => vec![bytes],
            // Not the client's fault, and not to be taken for an answer: the law that asked for it will see the name.
            Err(error) => {
                status = 501;
                vec![format!("{{\"error\":{{\"message\":\"{name}: {error}\"}}}}").into_bytes()]
            }
        },
    };
    if act.is_malformed {
        pieces.insert(pieces.len() / 2, speech::malformed(dialect));
    }
    if act.is_zipped {
        headers.push(("content-encoding".to_owned(), "gzip".to_owned()));
        pieces = vec![zipped(&pieces.concat())];
    }
    let length = pieces.iter().map(Vec::len).sum::<usize>() as u64;
    let is_stream = matches!(act.what, What::Answer(_) | What::Author(_) | What::Shaped(_) | What::Endless { .. })
        || act.is_zipped
        || is_stream(act);
    let length = claimed.or_else(|| (act.has_length || !is_stream).then_some(length));
    if let Some(size) = act.piece {
        pieces = pieces.concat().chunks(size).map(<[u8]>::to_vec).collect();
    }
    if act.is_malformed || act.is_zipped || act.piece.is_some() {
        letters.clear();
    }
    if let Some(most) = act.end.most() {
        pieces = cut(pieces, most);
    }
    let (bytes, headers_end, ends) =
        framed(status, &headers, &pieces, length, act.end == End::Kept && refrain.is_none());
    let number_at = if act.is_numbered { find(&bytes, NUMBER.as_bytes()) } else { None };
    let (late, every, end, held) = (act.late, act.every, act.end, act.held.clone());
    Reply { status, bytes, headers_end, ends, refrain, late, every, end, number_at, letters, held }
}

/// Where a fixture is.
pub fn fixture(dialect: Dialect, name: &str) -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/providers").join(speech::folder(dialect));
    path.push(name);
    if path.extension().is_none() {
        path.set_extension(speech::stream_kind(dialect).0);
    }
    path
}

fn kind_of(name: &str, dialect: Dialect) -> &'static str {
    match name.rsplit_once('.') {
        Some((_, "json")) => "application/json",
        Some((_, "ndjson")) => "application/x-ndjson",
        Some((_, "sse")) => "text/event-stream",
        _ => speech::stream_kind(dialect).1,
    }
}

/// Whether it is a fixture that is a stream.
fn is_stream(act: &Act) -> bool {
    matches!(&act.what, What::Fixture(name) if !name.ends_with(".json"))
}

fn secret(request: &Request) -> &str {
    let names = ["authorization", "x-api-key", "x-goog-api-key", "api-key"];
    let value = names.iter().find_map(|name| request.header(name)).unwrap_or("none");
    value.strip_prefix("Bearer ").unwrap_or(value)
}

fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = out.write_all(bytes);
    out.finish().unwrap_or_default()
}

fn cut(pieces: Vec<Vec<u8>>, most: usize) -> Vec<Vec<u8>> {
    let mut left = most;
    let mut kept = Vec::new();
    for mut piece in pieces {
        piece.truncate(left);
        left -= piece.len();
        if !piece.is_empty() {
            kept.push(piece);
        }
    }
    kept
}

fn chunk(piece: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", piece.len()).into_bytes();
    out.extend_from_slice(piece);
    out.extend_from_slice(b"\r\n");
    out
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        302 => "Found",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        529 => "Overloaded",
        _ => "Unnamed",
    }
}

/// The bytes, where the headers end, and where each piece does. Without a length the body comes in chunks, a piece each.
pub(super) fn framed(
    status: u16,
    headers: &[(String, String)],
    pieces: &[Vec<u8>],
    length: Option<u64>,
    is_whole: bool,
) -> (Vec<u8>, usize, Vec<usize>) {
    let mut bytes = format!("HTTP/1.1 {status} {}\r\n", reason(status)).into_bytes();
    let framing = match length {
        Some(length) => ("content-length".to_owned(), length.to_string()),
        None => ("transfer-encoding".to_owned(), "chunked".to_owned()),
    };
    for (name, value) in headers.iter().chain([&framing]) {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    let headers_end = bytes.len();
    bytes.extend_from_slice(b"\r\n");
    let mut ends = Vec::with_capacity(pieces.len());
    for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
        match length {
            Some(_) => bytes.extend_from_slice(piece),
            None => bytes.extend(chunk(piece)),
        }
        ends.push(bytes.len());
    }
    if length.is_none() && is_whole {
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
    // What ends the body belongs to its last piece.
    ends.pop();
    ends.push(bytes.len());
    (bytes, headers_end, ends)
}
