//! Decides what can be asked of the server: what it says, and what goes wrong while it says it.
//!
//! An act is a value: what is said, and how it is sent. How each dialect puts it is `speech`; how it becomes bytes is `reply`.
//! Never knows of sockets.

use super::{Author, Latch, Wait};
use std::time::Duration;

/// What stands for the number of a request in a text; as wide as the number.
pub const NUMBER: &str = "########";

/// Where an answer says what it consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tells {
    /// Where the documentation puts it.
    Usually,
    /// Where some compatible servers put it, if the dialect leaves a choice.
    Oddly,
    Nowhere,
}

/// An answer, before it is put in a dialect.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The text, one piece per message of the stream.
    pub deltas: Vec<String>,
    /// Why the model stopped, in the word of the dialect; none for its word for being done.
    pub finish: Option<String>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub usage: Tells,
    /// Whether a dialect that ends its streams with a mark sends it.
    pub done: bool,
}

impl Answer {
    /// This text, word by word; usage is 10 tokens read and one a word written.
    pub fn of(text: &str) -> Self {
        let deltas: Vec<String> = text.split_inclusive(' ').map(str::to_owned).collect();
        let output_tokens = deltas.len() as u64;
        Answer { deltas, finish: None, input_tokens: 10, output_tokens, usage: Tells::Usually, done: true }
    }

    /// As many words, a message each.
    pub fn of_tokens(count: usize) -> Self {
        Answer::of(&"word ".repeat(count))
    }

    pub fn text(&self) -> String {
        self.deltas.concat()
    }

    pub fn finish(self, word: &str) -> Self {
        Answer { finish: Some(word.to_owned()), ..self }
    }

    pub fn tokens(self, input: u64, output: u64) -> Self {
        Answer { input_tokens: input, output_tokens: output, ..self }
    }

    pub fn usage(self, usage: Tells) -> Self {
        Answer { usage, ..self }
    }

    pub fn without_done(self) -> Self {
        Answer { done: false, ..self }
    }
}

/// What is said.
#[derive(Debug, Clone)]
pub(super) enum What {
    Answer(Answer),
    /// What a model with one document says to the request.
    Author(Author),
    /// A text, in the shape that the request asks for.
    Shaped(String),
    /// The bytes of a file.
    Fixture(String),
    /// The dialect's own error.
    Error(String),
    Body {
        kind: String,
        bytes: Vec<u8>,
    },
    /// 429, and when to come back.
    Throttled {
        says: Wait,
        wait: Duration,
    },
    /// Text without end; where there is a length, the headers claim it.
    Endless {
        length: Option<u64>,
    },
    /// To the address that was asked.
    Redirect,
    /// An error whose message has the secret of the request in it.
    Echo,
}

/// How the connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Not at all: the answer is whole, and the next request may come.
    Kept,
    /// After so many bytes of the body there is silence until the client goes.
    Silence(usize),
    /// After so many bytes of the body the connection is closed in order.
    Closed(usize),
    /// After so many bytes of the body the connection is reset.
    Reset(usize),
}

impl End {
    /// How much of the body is sent.
    pub(super) fn most(self) -> Option<usize> {
        match self {
            End::Kept => None,
            End::Silence(most) | End::Closed(most) | End::Reset(most) => Some(most),
        }
    }
}

/// What the server does with one request.
#[derive(Debug, Clone)]
pub struct Act {
    pub(super) what: What,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) late: Duration,
    pub(super) every: Duration,
    pub(super) piece: Option<usize>,
    pub(super) end: End,
    pub(super) is_malformed: bool,
    pub(super) is_zipped: bool,
    pub(super) has_length: bool,
    pub(super) is_numbered: bool,
    /// After so many pieces nothing more is sent until the latch is lifted.
    pub(super) held: Option<(usize, Latch)>,
}

impl Act {
    fn new(status: u16, what: What) -> Self {
        Act {
            what,
            status,
            headers: Vec::new(),
            late: Duration::ZERO,
            every: Duration::ZERO,
            piece: None,
            end: End::Kept,
            is_malformed: false,
            is_zipped: false,
            has_length: false,
            is_numbered: false,
            held: None,
        }
    }

    /// A well-formed stream of the dialect that was asked in.
    pub fn answer(answer: Answer) -> Self {
        Act::new(200, What::Answer(answer))
    }

    /// `answer` with this text.
    pub fn text(text: &str) -> Self {
        Act::answer(Answer::of(text))
    }

    /// What this model says to the request, as a well-formed stream.
    pub fn author(author: Author) -> Self {
        Act::new(200, What::Author(author))
    }

    /// This text; where the request has a JSON schema, an object of that shape with this text for every string.
    pub fn shaped(text: &str) -> Self {
        Act::new(200, What::Shaped(text.to_owned()))
    }

    /// The cheapest answer there is: one write, with a length.
    pub fn instant(text: &str) -> Self {
        Act::text(text).with_length()
    }

    /// `tests/fixtures/providers/<dialect>/<name>`, byte for byte; without an ending, the dialect's ending of a stream.
    pub fn fixture(name: &str) -> Self {
        Act::new(200, What::Fixture(name.to_owned()))
    }

    /// An error with this status, in the words of the dialect.
    pub fn status(status: u16) -> Self {
        Act::new(status, What::Error("the server was told to fail".to_owned()))
    }

    /// A response of any kind.
    pub fn body(status: u16, kind: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Act::new(status, What::Body { kind: kind.to_owned(), bytes: bytes.into() })
    }

    /// 429.
    pub fn throttled(says: Wait, wait: Duration) -> Self {
        Act::new(429, What::Throttled { says, wait })
    }

    /// A page for people, as a proxy in the way sends it.
    pub fn html() -> Self {
        Act::body(200, "text/html; charset=utf-8", "<!doctype html><title>Welcome</title><p>Please sign in.")
    }

    /// Valid messages without end.
    pub fn endless() -> Self {
        Act::new(200, What::Endless { length: None })
    }

    /// As `endless`, and the headers say how long it will be.
    pub fn claiming(length: u64) -> Self {
        Act::new(200, What::Endless { length: Some(length) })
    }

    pub fn redirect() -> Self {
        Act::new(302, What::Redirect)
    }

    /// An error that quotes the secret it was given.
    pub fn echo(status: u16) -> Self {
        Act::new(status, What::Echo)
    }

    /// With this status instead of its own.
    pub fn with_status(self, status: u16) -> Self {
        Act { status, ..self }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says nothing for so long.
    pub fn late(self, late: Duration) -> Self {
        Act { late, ..self }
    }

    /// Leaves so much time between one piece and the next.
    pub fn every(self, every: Duration) -> Self {
        Act { every, ..self }
    }

    /// In pieces of so many bytes, wherever that cuts; otherwise a piece is a message.
    pub fn in_pieces(self, bytes: usize) -> Self {
        Act { piece: Some(bytes.max(1)), ..self }
    }

    pub fn end(self, end: End) -> Self {
        Act { end, ..self }
    }

    /// With a message in the middle that is no JSON.
    pub fn malformed(self) -> Self {
        Act { is_malformed: true, ..self }
    }

    /// `content-encoding: gzip`.
    pub fn zipped(self) -> Self {
        Act { is_zipped: true, ..self }
    }

    /// With a `content-length` instead of chunks.
    pub fn with_length(self) -> Self {
        Act { has_length: true, ..self }
    }

    /// With the number of the request where its text says [`NUMBER`] first, so that no two answers are the same.
    pub fn numbered(self) -> Self {
        Act { is_numbered: true, ..self }
    }

    /// Sends so many pieces and then nothing more until the latch is lifted; with none, not even the headers.
    pub fn held(self, pieces: usize, latch: &Latch) -> Self {
        Act { held: Some((pieces, latch.clone())), ..self }
    }

    /// What it costs where tokens are counted.
    pub(super) fn tokens(&self) -> u64 {
        match &self.what {
            What::Answer(answer) => answer.input_tokens + answer.output_tokens,
            _ => 0,
        }
    }

    /// Whether every request gets the same bytes.
    pub(super) fn is_constant(&self) -> bool {
        !matches!(self.what, What::Author(_) | What::Shaped(_) | What::Throttled { .. } | What::Redirect | What::Echo)
    }
}
