//! Decides what the bytes of a response say, however they are cut: bytes in, events out.
//!
//! The same bytes give the same events whatever pieces they come in. A message that is no JSON, or larger than it may
//! be, is a fault, and after a fault nothing more is heard. Never waits for a terminator: an answer is over when the
//! bytes are, and half a message at their end was cut off and says nothing.

#[cfg(test)]
pub(crate) mod laws;

use super::dialect::{Counts, Dialect, Event};
use super::embedding::{self, Vectors};
use super::fault::Fault;
use super::stream::{Frame, Frames, Framing};
use super::{Class, FinishReason};
use serde_json::Value;

/// The end of a stream, in the words of those who send one.
const DONE: &str = "[DONE]";

/// Reads one response.
#[derive(Debug)]
pub struct Reader {
    dialect: Dialect,
    framing: Framing,
    frames: Frames,
    is_over: bool,
    /// How many vectors are expected, and of which length where that was asked for.
    vectors: Option<(usize, Option<u32>)>,
}

impl Reader {
    /// A reader for a response of this kind, none of whose messages is larger than `most` bytes.
    pub fn new(dialect: Dialect, framing: Framing, most: usize) -> Self {
        Reader { dialect, framing, frames: Frames::new(framing, most), is_over: false, vectors: None }
    }

    /// A reader for a response with this many vectors, of at most `most` bytes.
    pub fn of_vectors(dialect: Dialect, count: usize, dimensions: Option<u32>, most: usize) -> Self {
        Reader { vectors: Some((count, dimensions)), ..Reader::new(dialect, Framing::Whole, most) }
    }

    /// The events that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        if self.is_over {
            return events;
        }
        let mut frames = Vec::new();
        let pushed = self.frames.push(bytes, &mut frames);
        frames.iter().for_each(|frame| self.read(frame, &mut events));
        if pushed.is_err() && !self.is_over {
            self.end_with(too_large(), &mut events);
        }
        events
    }

    /// What was left when the bytes ended.
    pub fn end(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.is_over {
            return events;
        }
        match self.frames.end() {
            // The answer itself may well be whole: it is for the transcript to say.
            Some(frame) if self.framing != Framing::Whole && is_cut(&frame) => {}
            Some(frame) => self.read(&frame, &mut events),
            None => {}
        }
        events
    }

    fn read(&mut self, frame: &Frame, events: &mut Vec<Event>) {
        if self.is_over {
            return;
        }
        if frame.data.trim() == DONE {
            self.is_over = true;
            return;
        }
        let Some(data) = parse(&frame.data) else {
            let fault = Fault::new(Class::Transient, "the provider sent something that is not JSON");
            return self.end_with(fault, events);
        };
        let heard = match self.framing {
            _ if self.vectors.is_some() => self.read_vectors(&data),
            Framing::Whole => self.dialect.whole(&data),
            _ => self.dialect.events(frame.name.as_deref(), &data),
        };
        for event in heard {
            let is_fault = matches!(event, Event::Fault(_));
            events.push(event);
            if is_fault {
                self.is_over = true;
                return;
            }
        }
    }

    fn read_vectors(&self, data: &Value) -> Vec<Event> {
        let (count, dimensions) = self.vectors.unwrap_or_default();
        match embedding::read(self.dialect, count, dimensions, data) {
            Ok(Vectors { vectors, input_tokens }) => {
                let counts = Counts { input: input_tokens, output: Some(0), ..Counts::default() };
                let finish = Event::Finish { reason: FinishReason::Stop, raw: String::new() };
                vec![Event::Usage(counts), Event::Vectors(vectors), finish]
            }
            Err(fault) => vec![Event::Fault(fault)],
        }
    }

    fn end_with(&mut self, fault: Fault, events: &mut Vec<Event>) {
        self.is_over = true;
        events.push(Event::Fault(fault));
    }
}

fn is_cut(frame: &Frame) -> bool {
    frame.data.trim() != DONE && parse(&frame.data).is_none()
}

fn too_large() -> Fault {
    Fault::new(Class::Transient, "the provider sent more than it may")
}

/// JSON as providers send it: half a surrogate pair, which is no character, becomes the sign for one that is lost.
pub fn parse(data: &str) -> Option<Value> {
    serde_json::from_str(data).ok().or_else(|| serde_json::from_str(&without_halves(data)?).ok())
}

/// The text with every escape of half a surrogate pair replaced; none when there is no such escape.
fn without_halves(data: &str) -> Option<String> {
    let unit = |at: usize| {
        let digits = data.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut out = String::with_capacity(data.len());
    let (mut at, mut changed) = (0, false);
    while let Some(next) = data[at..].find('\\').map(|found| at + found) {
        out.push_str(&data[at..next]);
        let (taken, replaced) = match unit(next) {
            Some(0xd800..=0xdbff) if matches!(unit(next + 6), Some(0xdc00..=0xdfff)) => (12, false),
            Some(0xd800..=0xdfff) => (6, true),
            Some(_) => (6, false),
            None => (1 + data[next + 1..].chars().next().map_or(0, char::len_utf8), false),
        };
        out.push_str(if replaced { "\\ufffd" } else { &data[next..next + taken] });
        changed |= replaced;
        at = next + taken;
    }
    out.push_str(&data[at..]);
    changed.then_some(out)
}
