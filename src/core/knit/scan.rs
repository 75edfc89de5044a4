//! Decides how far a text is JSON, and what is open where it ends.
//!
//! A state machine over bytes without recursion: it takes a text piece by piece, so that a seam may fall anywhere,
//! inside an escape, a number or a key. Strict, or lenient about raw line ends, unknown escapes and trailing commas.
//! Never builds a value.

use serde_json::Value;

/// One step from a container to something in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Under a key.
    Key(String),
    /// At a place of a list.
    Item(usize),
}

/// Where a text was cut: the way to the innermost container that is open, or to the text that was cut in the middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) path: Vec<Step>,
    pub(super) is_text: bool,
    /// Whether every value that was begun is complete, and only brackets are open.
    pub(super) is_between: bool,
}

/// Steps from the outside in, with points between them.
pub(super) fn way(path: &[Step]) -> String {
    let names = path.iter().map(|step| match step {
        Step::Key(key) => key.clone(),
        Step::Item(place) => place.to_string(),
    });
    names.collect::<Vec<_>>().join(".")
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    is_list: bool,
    /// Members that are complete.
    members: usize,
    /// Up to where the text was safe before this was opened.
    before: usize,
    /// Where the key of the open member stands, its quotation marks included.
    key: (usize, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    Out,
    Slash,
    Hex { digits: u8, unit: u16 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Part,
    Exp,
    ExpSign,
    ExpDigits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value must come; after the bracket of a list also its end.
    Value {
        may_end: bool,
    },
    /// A key must come, or the end of the object.
    Key {
        may_end: bool,
    },
    Colon,
    /// A value is complete.
    After,
    Text {
        is_key: bool,
        escape: Escape,
        /// The first half of a pair of escapes waits for the second.
        half: bool,
    },
    Number(Number),
    Word(&'static [u8]),
    Done,
}

/// How far a text has been read, and what is open there.
#[derive(Debug, Clone)]
pub(super) struct Scanner {
    stack: Vec<Frame>,
    state: State,
    at: usize,
    /// Behind the last complete value or opening bracket.
    safe: usize,
    /// Inside a text: behind its last complete character.
    solid: usize,
    /// Where the last text begins, behind its quotation mark.
    begun: usize,
    lenient: bool,
    /// The lowest the stack has been since this was last set.
    pub(super) floor: usize,
}

impl Scanner {
    pub(super) fn new(lenient: bool) -> Self {
        let state = State::Value { may_end: false };
        Self { stack: Vec::new(), state, at: 0, safe: 0, solid: 0, begun: 0, lenient, floor: 0 }
    }

    /// The same place, read on leniently.
    pub(super) fn lenient(&self) -> Self {
        Self { lenient: true, ..self.clone() }
    }

    /// The place behind a comma, where a value has just ended in a container.
    pub(super) fn behind_comma(&self) -> Option<Self> {
        let is_ended = match self.state {
            State::After => true,
            State::Number(number) => is_whole(number),
            _ => false,
        };
        let mut behind = self.clone();
        (is_ended && behind.feed(",").is_ok()).then_some(behind)
    }

    pub(super) fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Whether the value is complete.
    pub(super) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether it ends inside a text, a key included.
    pub(super) fn is_in_text(&self) -> bool {
        matches!(self.state, State::Text { .. })
    }

    /// How many containers are open.
    pub(super) fn depth(&self) -> usize {
        self.stack.len()
    }

    /// Reads on. How many bytes were taken: all of them, or up to the end of the value; `Err` with the place of what is
    /// no JSON.
    pub(super) fn feed(&mut self, text: &str) -> Result<usize, usize> {
        let bytes = text.as_bytes();
        let mut place = 0;
        while let Some(byte) = bytes.get(place) {
            if self.state == State::Done {
                return Ok(place);
            }
            // Most of a document is texts, and most of a text says nothing about where it ends.
            let is_plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..=0x1f);
            let taken = match self.state {
                State::Text { escape: Escape::Out, half: false, .. } => {
                    bytes[place..].iter().take_while(is_plain).count()
                }
                _ => 0,
            };
            if taken == 0 && !self.take(*byte) {
                return Err(place);
            }
            self.at += taken.max(1);
            place += taken.max(1);
            if matches!(self.state, State::Text { escape: Escape::Out, half: false, .. }) {
                self.solid = self.at;
            }
            self.floor = self.floor.min(self.stack.len());
        }
        Ok(text.len())
    }

    fn take(&mut self, byte: u8) -> bool {
        match self.state {
            State::Text { is_key, escape, half } => self.text(byte, is_key, escape, half),
            State::Number(number) => match step(number, byte) {
                Some(next) => {
                    self.state = State::Number(next);
                    true
                }
                None if is_whole(number) => {
                    self.complete(0);
                    self.take(byte)
                }
                None => false,
            },
            State::Word(rest) => match rest.split_first() {
                Some((first, rest)) if *first == byte => {
                    if rest.is_empty() {
                        self.complete(1);
                    } else {
                        self.state = State::Word(rest);
                    }
                    true
                }
                _ => false,
            },
            State::Done => false,
            _ if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') => true,
            State::Value { may_end } => self.value(byte, may_end),
            State::Key { may_end } => match byte {
                b'"' => {
                    if let Some(frame) = self.stack.last_mut() {
                        frame.key = (self.at, self.at);
                    }
                    self.state = State::Text { is_key: true, escape: Escape::Out, half: false };
                    true
                }
                b'}' if may_end || self.lenient => self.pop(),
                _ => false,
            },
            State::Colon => {
                self.state = State::Value { may_end: false };
                byte == b':'
            }
            State::After => match (byte, self.stack.last()) {
                (b',', Some(frame)) => {
                    self.state =
                        if frame.is_list { State::Value { may_end: false } } else { State::Key { may_end: false } };
                    true
                }
                (b']', Some(Frame { is_list: true, .. })) | (b'}', Some(Frame { is_list: false, .. })) => self.pop(),
                _ => false,
            },
        }
    }

    fn value(&mut self, byte: u8, may_end: bool) -> bool {
        self.state = match byte {
            b'{' | b'[' => {
                self.stack.push(Frame { is_list: byte == b'[', members: 0, before: self.safe, key: (0, 0) });
                self.safe = self.at + 1;
                if byte == b'[' { State::Value { may_end: true } } else { State::Key { may_end: true } }
            }
            // Only objects and lists are documents.
            _ if self.stack.is_empty() => return false,
            b'"' => {
                self.begun = self.at + 1;
                State::Text { is_key: false, escape: Escape::Out, half: false }
            }
            b't' => State::Word(b"rue"),
            b'f' => State::Word(b"alse"),
            b'n' => State::Word(b"ull"),
            b'-' => State::Number(Number::Minus),
            b'0' => State::Number(Number::Zero),
            b'1'..=b'9' => State::Number(Number::Whole),
            b']' if self.stack.last().is_some_and(|frame| frame.is_list && (may_end || self.lenient)) => {
                return self.pop();
            }
            _ => return false,
        };
        true
    }

    fn text(&mut self, byte: u8, is_key: bool, escape: Escape, half: bool) -> bool {
        let (escape, half) = match escape {
            Escape::Out => match byte {
                b'"' if is_key => {
                    if let Some(frame) = self.stack.last_mut() {
                        frame.key.1 = self.at + 1;
                    }
                    self.state = State::Colon;
                    return true;
                }
                b'"' => {
                    self.complete(1);
                    return true;
                }
                b'\\' => (Escape::Slash, half),
                0..=0x1f if !self.lenient => return false,
                _ => (Escape::Out, false),
            },
            Escape::Slash => match byte {
                b'u' => (Escape::Hex { digits: 0, unit: 0 }, half),
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => (Escape::Out, false),
                _ if self.lenient => (Escape::Out, false),
                _ => return false,
            },
            Escape::Hex { digits, unit } => {
                let Some(digit) = char::from(byte).to_digit(16) else { return false };
                let unit = unit << 4 | u16::try_from(digit).unwrap_or_default();
                match digits {
                    3 => (Escape::Out, (0xd800..0xdc00).contains(&unit)),
                    _ => (Escape::Hex { digits: digits + 1, unit }, half),
                }
            }
        };
        self.state = State::Text { is_key, escape, half };
        true
    }

    fn pop(&mut self) -> bool {
        self.stack.pop();
        self.complete(1);
        true
    }

    /// A value is complete, with the byte at hand or before it.
    fn complete(&mut self, taken: usize) {
        self.safe = self.at + taken;
        match self.stack.last_mut() {
            Some(frame) => {
                frame.members += 1;
                self.state = State::After;
            }
            None => self.state = State::Done,
        }
    }

    /// A text that was read up to here as JSON: all that is complete and the text that was cut, closed. An item of a
    /// list of which nothing was read is left out.
    pub(super) fn close(&self, text: &str) -> (String, Option<Cut>) {
        if self.is_done() {
            return (text[..self.safe].to_owned(), None);
        }
        let mut open = self.stack.as_slice();
        let is_list = |open: &[Frame]| open.last().is_some_and(|frame| frame.is_list);
        let is_text =
            matches!(self.state, State::Text { is_key: false, .. }) && !(is_list(open) && self.solid == self.begun);
        let mut end = if is_text { self.solid } else { self.safe };
        while let [rest @ .., top] = open
            && !is_text
            && top.members == 0
            && is_list(rest)
        {
            (open, end) = (rest, top.before);
        }
        let mut closed = text[..end].to_owned();
        if is_text {
            closed.push('"');
        }
        closed.extend(open.iter().rev().map(|frame| if frame.is_list { ']' } else { '}' }));
        let way = if is_text { open.len() } else { open.len().saturating_sub(1) };
        let path = open[..way].iter().map(|frame| child(frame, text)).collect();
        let is_due = self.due(text).is_some();
        let is_between = matches!(self.state, State::After | State::Value { .. } | State::Key { .. })
            && !is_due
            && open.len() == self.stack.len();
        (closed, Some(Cut { path, is_text, is_between }))
    }

    /// As much of a key as was written, where it was cut off in one.
    pub(super) fn half_key<'a>(&self, text: &'a str) -> Option<&'a str> {
        let frame = self.stack.last().filter(|_| matches!(self.state, State::Text { is_key: true, .. }))?;
        text.get(frame.key.0 + 1..)
    }

    /// The key whose value is due, between the two or inside a number or a word.
    pub(super) fn due(&self, text: &str) -> Option<String> {
        let is_due = matches!(self.state, State::Colon | State::Value { .. } | State::Number(_) | State::Word(_));
        let frame = self.stack.last().filter(|frame| is_due && !frame.is_list)?;
        match child(frame, text) {
            Step::Key(key) => Some(key),
            Step::Item(_) => None,
        }
    }
}

fn child(frame: &Frame, text: &str) -> Step {
    if frame.is_list {
        return Step::Item(frame.members);
    }
    let raw = text.get(frame.key.0..frame.key.1).unwrap_or_default();
    match serde_json::from_str(raw) {
        Ok(Value::String(key)) => Step::Key(key),
        _ => Step::Key(raw.trim_matches('"').to_owned()),
    }
}

/// Whether a number may end here.
fn is_whole(number: Number) -> bool {
    matches!(number, Number::Zero | Number::Whole | Number::Part | Number::ExpDigits)
}

fn step(number: Number, byte: u8) -> Option<Number> {
    Some(match (number, byte) {
        (Number::Minus, b'0') => Number::Zero,
        (Number::Minus, b'1'..=b'9') | (Number::Whole, b'0'..=b'9') => Number::Whole,
        (Number::Zero | Number::Whole, b'.') => Number::Point,
        (Number::Point | Number::Part, b'0'..=b'9') => Number::Part,
        (Number::Zero | Number::Whole | Number::Part, b'e' | b'E') => Number::Exp,
        (Number::Exp, b'+' | b'-') => Number::ExpSign,
        (Number::Exp | Number::ExpSign | Number::ExpDigits, b'0'..=b'9') => Number::ExpDigits,
        _ => return None,
    })
}
